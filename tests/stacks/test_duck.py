"""A stack of one's own: n, m and block, as the docstring of the protocol asks for, and no more."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave import KernelStack, learn
from kernelweave.stacks.completed import as_stack


class Gaussians:
    """Gaussian kernels of several widths on a table, computed when asked for."""

    def __init__(self, X, widths):
        self.X, self.widths = X, widths
        self.n, self.m = len(X), len(widths)

    def block(self, kernel, rows, columns):
        apart = self.X[rows][:, None] - self.X[columns][None]
        return np.exp(-np.sum(apart**2, axis=2) / (2 * self.widths[kernel] ** 2))


def test_three_things_are_enough():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=60) > 0.8, 1.0, -1.0)
    duck = Gaussians(X, [0.3, 1.0, 3.0, 10.0])
    everything = np.arange(60)
    K = np.stack([duck.block(k, everything, everything) for k in range(duck.m)])

    found = learn(duck, y, C=1.0, tol=1e-4)
    dense = learn(KernelStack(K), y, C=1.0, tol=1e-4)

    assert found.gap <= 1e-4 and dense.gap <= 1e-4
    assert found.objective == pytest.approx(dense.objective, rel=2e-4)


class Restricting(Gaussians):
    """One that knows a faster way to some of its points: their part of the table."""

    def restrict(self, rows):
        return type(self)(self.X[rows], self.widths)

    def select(self, kernels):
        return type(self)(self.X, np.array(self.widths)[kernels])


def test_views_of_its_own_may_be_as_plain_as_it_is():
    """What an object hands out needs no more than ``n``, ``m`` and ``block``, either."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] ** 2 + 0.3 * rng.normal(size=40) > 0.5, 1.0, -1.0)
    y[::5] = 0.0  # rows without a label
    plain, own = (learn(kind(X, [0.5, 2.0]), y, tol=1e-4) for kind in (Gaussians, Restricting))
    assert plain.gap <= 1e-4 and own.gap <= 1e-4
    assert own.objective == pytest.approx(plain.objective, rel=2e-4)
    stack = as_stack(Restricting(X, [0.5, 2.0]))
    for part in (stack.restrict(np.arange(7)), stack.select(np.array([1]))):
        assert part.quad_forms(np.ones(part.n)).shape == (part.m,)
