"""Kernels of two rows in all families and normalizations, described by arrays and written out."""

from __future__ import annotations

import numpy as np

from kernelweave.stacks.row_kernels import GAUSSIAN, LAPLACIAN, POLYNOMIAL, RowKernels

FORMULAS = [
    (GAUSSIAN, 0.3, 1),
    (LAPLACIAN, 0.2, 1),
    (POLYNOMIAL, 1.0, 3),
    (POLYNOMIAL, 0.0, 1),
    (GAUSSIAN, 1.5, 1),
    (POLYNOMIAL, 0.5, 2),
]


def plain(X, formula):
    kind, a, b = formula
    if kind == POLYNOMIAL:
        return (X @ X.T + a) ** b
    apart = X[:, None] - X
    far = (apart**2).sum(axis=2) if kind == GAUSSIAN else abs(apart).sum(axis=2)
    return np.exp(-a * far)


def described(m, n, seed=0):
    """Kernels of two views: plain, scaled, centered, on the sphere, and with rows lacking."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 3)), rng.normal(size=(n, 2)) + 1.0]
    mask = (rng.random(n) < 0.7).astype(float)
    mask[: min(n, 2)] = 1.0
    K, sizes = np.empty((m, n, n)), np.empty((m, n, n))
    scale, means, norms = np.ones(m), np.zeros((m, n)), np.ones((m, n))
    for k in range(m):
        G, form = plain(X[k % 2], FORMULAS[k % 6]), k % 5
        if form == 1:
            scale[k] = 0.7
        if form == 2 and n > 2:
            means[k] = G.mean(axis=1) - 0.5 * G.mean()
            scale[k] = 2.0
        if form == 3:
            norms[k] = 1.0 / np.sqrt(np.diagonal(G))
        if form == 4 and n > 2:
            share = mask / mask.sum()
            means[k], norms[k] = mask * (G @ share - 0.5 * share @ G @ share), mask
        times, shift = scale[k] * np.outer(norms[k], norms[k]), means[k]
        K[k] = times * (G - np.add.outer(shift, shift))
        sizes[k] = times * (abs(G) + np.add.outer(abs(shift), abs(shift)))
    views = []
    for number in range(min(m, 2)):
        own = np.arange(number, m, 2)
        kinds, a, b = zip(*(FORMULAS[k % 6] for k in own), strict=True)
        parts = scale[own], means[own], norms[own], own
        views.append(RowKernels(X[number], kinds, a, b, *parts))
    return views, K, sizes
