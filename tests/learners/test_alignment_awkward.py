"""Signed and centered alignment on kernels that leave it little, or too much, to choose."""

from __future__ import annotations

import numpy as np
import pytest
from _helpers.references import dense, gaussian, labels

from kernelweave import alignment, learn
from kernelweave.learners import Alignment


@pytest.mark.parametrize("kind", ["identity", "linear", "three"])
@pytest.mark.parametrize("seed", range(4))
def test_kernels_that_differ_by_a_constant(kind: str, seed: int) -> None:
    """Centered they are one kernel, and constants could be added without end."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((10, 2))
    K = np.eye(10) if kind == "identity" else X @ X.T
    many = np.stack([K, K + 1.0] + [(1.0 + K) ** 2] * (kind == "three"))
    y = labels(rng, 10)
    found = learn(many, y, learner=Alignment(centered=True, signed=True))
    assert found.status == "optimal"
    reached = alignment(np.tensordot(found.weights, many, axes=1), y, centered=True)
    assert found.extras["alignment"] == pytest.approx(reached, rel=1e-6)
    assert reached >= (1 - 1e-3) * max(alignment(many, y, centered=True))


@pytest.mark.parametrize("signed", [False, True])
def test_nothing_but_constants(signed: bool) -> None:
    found = learn(np.ones((1, 3, 3)), [1, -1, -1], learner=Alignment(centered=True, signed=signed))
    assert found.extras["alignment"] == 0.0


def test_signed_kernels_are_kernels() -> None:
    """One of two nearly equal kernels less the other: semidefinite outside their range, too."""
    rng = np.random.default_rng(40150)
    X = rng.standard_normal((12, 2))
    base = np.ones((12, 12))
    K = np.stack([base, gaussian(X, 1.0), gaussian(X, 5.0), base + 1e-6 * gaussian(X, 1.0)])
    y = labels(rng, 12)
    found = learn(K, y, learner=Alignment(signed=True), tol=1e-4)
    combined = np.tensordot(found.weights, K, axes=1)
    assert np.linalg.eigvalsh(combined)[0] >= -1e-8 * np.trace(combined)


def test_signed_weights_are_never_worse_than_others() -> None:
    """Nearly constant kernels can be the best: constants do not count once centered."""
    y = np.repeat([1.0, -1.0], 3)
    z = np.array([1.0, -1.0, 0.0, 0.0, 1.0, -1.0]) + 0.1 * y
    K = np.stack([1.0 + 1e-7 * np.outer(y, y), np.outer(z, z) + np.eye(6)])
    plain, signed = (
        learn(K, y, learner=Alignment(centered=True, signed=signed)) for signed in (False, True)
    )
    assert signed.extras["alignment"] >= (1 - 1e-3) * plain.extras["alignment"]


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_signed_alignment_does_not_depend_on_units(scale: float) -> None:
    problem = dense(0, n=10, m=3)
    found = [
        learn(unit * problem.K, problem.y, learner=Alignment(centered=True, signed=True))
        for unit in (1.0, scale)
    ]
    assert found[1].status == "optimal"
    assert found[1].extras["alignment"] == pytest.approx(found[0].extras["alignment"], rel=1e-3)


@pytest.mark.parametrize("signed", [False, True])
def test_labels_that_no_kernel_knows_of(signed: bool) -> None:
    """Constant kernels and as many of each class: only rounding is left of yᵀKy."""
    for seed in range(20):
        K = np.random.default_rng(seed).random((2, 1, 1)) * np.ones((2, 8, 8))
        found = learn(K, np.repeat([1.0, -1.0], 4), learner=Alignment(signed=signed))
        assert found.extras["alignment"] == 0.0 and np.isfinite(found.weights).all()
