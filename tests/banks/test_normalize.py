"""Normalizations: learned on the training rows, exact on new ones, for every kind of kernel."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from kernelweave import Gaussian, KernelBank, Laplacian, Linear, Polynomial, Precomputed, Tanimoto
from kernelweave._core.settings import SETTINGS
from kernelweave.banks.normalize import RULES
from kernelweave.kernels.eigen import EigenvectorKernels

rng = np.random.default_rng(3)
N = 18
X = rng.normal(size=(N, 3)) + 0.5
NEW = rng.normal(size=(7, 3)) + 0.5
ALL = np.vstack([X, NEW])
OLD_ROWS, NEW_ROWS = np.arange(N).reshape(-1, 1), np.arange(N, N + 7).reshape(-1, 1)


def cubes(A, B):
    return (A**3) @ (B**3).T


KERNELS = {
    "gaussian": (Gaussian(1.3), X, NEW),
    "laplacian": (Laplacian(1.3), X, NEW),
    "relative": (Gaussian(0.5, relative=True), X, NEW),
    "linear": (Linear(), X, NEW),
    "polynomial": (Polynomial(3), X, NEW),
    "tanimoto": (Tanimoto(), X, NEW),
    "gaussian process": (3.0 * RBF(0.8), X, NEW),
    "pairwise": ("laplacian", X, NEW),
    "function": (cubes, X, NEW),
    "precomputed": (Precomputed(ALL @ ALL.T + 2), OLD_ROWS, NEW_ROWS),
    "eigenvectors": (EigenvectorKernels(Gaussian(2.0), 3), X, NEW),
}
every_rule = pytest.mark.parametrize("rule", RULES)
every_kernel = pytest.mark.parametrize("name", KERNELS)


def fit(kernel, X, rule, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return KernelBank(kernel, normalize=rule, **options).fit(X)


def by_hand(rule, K, K_new, diagonal_new):
    """Normalized training and cross matrices, from the formulas with explicit loops over rows."""
    n = len(K)
    if rule is not None and rule.startswith("center"):
        H = np.eye(n) - 1 / n
        mean = K.mean(axis=0)
        diagonal_new = diagonal_new - 2.0 * K_new.mean(axis=1) + K.mean()
        K_new = np.array([row - row.mean() - mean + K.mean() for row in K_new])
        K = H @ K @ H
    if rule is not None and rule.endswith("sphere"):
        root = np.sqrt(np.diag(K))
        return K / np.outer(root, root), K_new / np.outer(np.sqrt(diagonal_new), root), np.nan
    scale = {"trace": n / np.trace(K), "unit_trace": 1 / np.trace(K)}
    factor = 1.0 if rule is None else scale[rule.removeprefix("center+")]
    return factor * K, factor * K_new, factor


@every_rule
@every_kernel
def test_against_formulas(rule, name):
    kernel, old, new = KERNELS[name]
    plain, fitted = fit(kernel, old, None), fit(kernel, old, rule)
    both = KernelBank(kernel, normalize=None).fit(old)
    for m in range(fitted.m_all):
        only = np.eye(fitted.m_all)[m]
        K, K_new = plain.stack.combine(only), plain.cross(new, only)
        diagonal_new = both.members[m].kernel.diagonal(_rows(both, m, new))
        train, cross, scale = by_hand(rule, K, K_new, diagonal_new)
        size = np.abs(train).max()
        np.testing.assert_allclose(fitted.stack.combine(only), train, atol=1e-12 * size)
        np.testing.assert_allclose(fitted.cross(new, only), cross, atol=1e-12 * 10 * size)
        np.testing.assert_allclose(fitted.scales[m], scale, rtol=1e-12)


def _rows(fitted, m, new):
    from kernelweave.views.rows import Rows
    from kernelweave.views.table import Table

    return Rows(Table.read(new), fitted.members[m].view)


@every_rule
@every_kernel
def test_training_stack(rule, name):
    """Exactly symmetric, positive semidefinite, of the promised trace, and the cross of itself."""
    kernel, old, _ = KERNELS[name]
    fitted = fit(kernel, old, rule)
    K = np.array([fitted.stack.combine(row) for row in np.eye(fitted.stack.m)])
    assert np.array_equal(K, K.transpose(0, 2, 1))
    traces = fitted.stack.traces()
    assert (np.linalg.eigvalsh(K)[:, 0] > -1e-10 * traces).all()
    np.testing.assert_allclose(fitted.cross_stack(old), K, atol=1e-12 * np.abs(K).max())
    if rule is not None:
        np.testing.assert_allclose(traces, 1.0 if "unit" in rule else N, rtol=1e-12)
    if rule is not None and rule.endswith("sphere"):
        np.testing.assert_allclose(fitted.stack.diagonals(), 1.0, rtol=1e-14)
    elif rule is not None and "center" in rule:
        np.testing.assert_allclose(K.sum(axis=1), 0.0, atol=1e-12 * N * np.abs(K).max())


@every_rule
@every_kernel
def test_rows_and_compact_and_pickle(rule, name):
    kernel, old, new = KERNELS[name]
    fitted = fit([("one", kernel, slice(None)), ("two", Precomputed(np.eye(25)), 0)], old, rule) \
        if name == "precomputed" else fit(kernel, old, rule)  # fmt: skip
    weights = np.linspace(0.5, 1.5, fitted.m_all)
    rows = [11, 2, 5]
    expected = fitted.cross(new, weights)[:, rows]
    tight = {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(fitted.cross(new, weights, rows), expected, **tight)
    small = fitted.compact(np.arange(fitted.m_all), rows)
    for bank in (small, pickle.loads(pickle.dumps(small))):
        assert (bank.n_rows, bank.m_all) == (3, fitted.m_all)
        np.testing.assert_allclose(bank.cross(new, weights), expected, **tight)
        np.testing.assert_allclose(bank.cross(new, weights, [2]), expected[:, 2:], **tight)
        smaller = bank.compact(weights > 0, [False, True, False])
        np.testing.assert_allclose(smaller.cross(new, weights), expected[:, 1:2], **tight)


@every_rule
def test_blocks_change_nothing(rule, monkeypatch):
    fitted = fit([Gaussian(1.0), Polynomial(2)], X, rule)
    weights, coef = [0.25, 0.75], rng.normal(size=(N, 2))
    whole = fitted.cross(NEW, weights)
    monkeypatch.setattr(SETTINGS, "computed", 2 * N)
    np.testing.assert_allclose(fitted.cross(NEW, weights), whole, atol=1e-13)
    np.testing.assert_allclose(fitted.decision(NEW, weights, coef), whole @ coef, atol=1e-12)
    np.testing.assert_allclose(fitted.decision(NEW, weights, coef[:, 0]), whole @ coef[:, 0])
    np.testing.assert_allclose(
        np.tensordot(weights, fitted.cross_stack(NEW), axes=1), whole, atol=1e-13
    )


@every_rule
def test_raw_weights(rule):
    """Weights times scales weight the kernels before normalization (centered, where that is so)."""
    kernels = [Gaussian(1.0), Polynomial(2)]
    plain, fitted = fit(kernels, X, None), fit(kernels, X, rule)
    weights = np.array([0.3, 0.7])
    total = plain.stack.combine(np.nan_to_num(weights * fitted.scales))
    if rule is not None and "center" in rule:
        H = np.eye(N) - 1 / N
        total = H @ total @ H
    if rule is not None and rule.endswith("sphere"):
        assert np.isnan(fitted.scales).all()
    else:
        np.testing.assert_allclose(fitted.stack.combine(weights), total, atol=1e-12)


@every_rule
def test_float32(rule):
    kernels = [Gaussian(1.0), Polynomial(2), Linear()]
    double, single = fit(kernels, X, rule), fit(kernels, X, rule, dtype="float32")
    assert (single.stack.dtype, double.stack.dtype) == (np.float32, np.float64)
    weights = [0.2, 0.3, 0.5]
    K = double.stack.combine(weights)
    np.testing.assert_allclose(single.stack.combine(weights), K, atol=1e-6 * np.abs(K).max())
    np.testing.assert_array_equal(single.cross(NEW, weights), double.cross(NEW, weights))


def test_zero_row_on_the_sphere_stays_zero():
    A = np.vstack([np.zeros(3), X])
    fitted = fit(Linear(), A, "sphere", scale=None)
    K = fitted.stack.combine([1.0])
    assert not K[0].any()
    assert not K[:, 0].any()
    np.testing.assert_allclose(np.diag(K)[1:], 1.0)
    assert not fitted.cross(np.zeros((2, 3)), [1.0]).any()


@pytest.mark.parametrize("rule", ["tracee", "centre", 1, "", ["trace"]])
def test_unknown_rule(rule):
    with pytest.raises(ValueError, match=r"normalize must be one of \['auto', .*None\]; found"):
        KernelBank(Linear(), normalize=rule).fit(X)
