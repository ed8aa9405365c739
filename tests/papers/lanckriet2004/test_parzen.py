"""Parzen windows: what they are, and what alignment does for them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from kernelweave import Gaussian, KernelBank, KernelStack, alignment, learn
from kernelweave.kernels.eigen import EigenvectorKernels
from kernelweave.papers.lanckriet2004.parzen import parzen_windows


def eigen_stack(X: np.ndarray, count: int = 30) -> KernelStack:
    bank = KernelBank([EigenvectorKernels(Gaussian(1.0, relative=True), count)], normalize=None)
    stack = bank.fit(X).stack
    every = np.arange(stack.n)
    return KernelStack(np.stack([stack.block(k, every, every) for k in range(stack.m)]))


@pytest.fixture(scope="module")
def cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[::3], 2.0 * y[::3] - 1.0
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def test_it_is_the_mean_of_labeled_kernel_values(cancer) -> None:
    X, y = cancer
    stack = eigen_stack(X, 5)
    known, d = np.where(np.arange(y.size) % 2, y, 0.0), np.linspace(1.0, 2.0, 5)
    K = stack.combine(d)
    by_hand = [np.mean([known[i] * K[i, j] for i in np.flatnonzero(known)]) for j in range(y.size)]
    np.testing.assert_allclose(parzen_windows(stack, known, d), by_hand, rtol=1e-10, atol=1e-12)


def test_the_mean_margin_is_the_alignment(cancer) -> None:
    X, y = cancer
    stack = eigen_stack(X, 8)
    d = np.random.default_rng(0).random(8)
    K = stack.combine(d)
    mean_margin = np.mean(y * parzen_windows(stack, y, d))
    expected = alignment(K, np.outer(y, y)) * np.linalg.norm(K) / y.size
    assert mean_margin == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("share", [2, 4])
def test_alignment_improves_parzen_windows(cancer, share: int) -> None:
    """On rows without a label, over ten draws of those that have one."""
    X, y = cancer
    stack, gains = eigen_stack(X), []
    whole = KernelBank([Gaussian(1.0, relative=True)], normalize=None).fit(X).stack
    for seed in range(10):
        hidden = np.random.default_rng(seed).permutation(y.size)[y.size // share :]
        known = y.copy()
        known[hidden] = 0.0
        weights = learn(stack, known, learner="alignment", C=0.01).weights
        after, before = (
            np.mean((y * parzen_windows(kernels, known, d))[hidden] > 0.0)
            for kernels, d in ((stack, weights), (whole, [1.0]))
        )
        gains.append(after - before)
    assert np.mean(gains) > 0.0
