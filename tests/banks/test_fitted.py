"""Fitted banks: kernels against new rows, and what they keep."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from _helpers.small_table import NEW, X, quiet, rng

from kernelweave import Gaussian, KernelBank, Linear, Polynomial
from kernelweave._core.settings import SETTINGS
from kernelweave.banks.fitted import FittedBank


def test_weights_and_rows_are_checked():
    fitted = quiet(KernelBank([Gaussian(1.0), Linear()]), X)
    for weights in ([1.0], np.ones((2, 1)), [np.nan, 1.0]):
        with pytest.raises(ValueError, match="weights must be 2 finite numbers"):
            fitted.cross(NEW, weights)
    for rows in ([15], [-1], [[1]], [0.5], [True]):
        with pytest.raises(ValueError, match="rows"):
            fitted.cross(NEW, [1.0, 0.0], rows)
    with pytest.raises(ValueError, match="coef has shape"):
        fitted.decision(NEW, [1.0, 0.0], np.ones(3))
    with pytest.raises(ValueError, match="kernels"):
        fitted.compact([2], [0])
    assert not fitted.cross(NEW, [0.0, 0.0]).any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_kernel_that_is_not_finite_on_new_rows_is_named(value):
    def partial(A, B):
        return np.where(A[:, :1] > 90.0, value, A @ B.T)

    fitted = quiet(KernelBank([Gaussian(1.0), ("mine", partial)], normalize="center+trace"), X)
    assert np.isfinite(fitted.cross(NEW, [0.5, 0.5])).all()
    strange = NEW.copy()
    strange[3, 0] = 99.0
    for call in (
        lambda: fitted.cross(strange, [0.5, 0.5]),
        lambda: fitted.decision(strange, [0.5, 0.5], np.ones(15)),
        lambda: fitted.cross_stack(strange),
    ):
        with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="Kernel 'mine' is not"):
            call()
    assert np.isfinite(fitted.cross(strange, [1.0, 0.0])).all()


def test_overflow_on_new_rows_is_named():
    fitted = quiet(KernelBank([Gaussian(1.0), Polynomial(3)]), X)
    with pytest.raises(ValueError, match=r"Kernel 'Polynomial\(degree=3\) on all' is not finite"):
        fitted.cross(1e200 * NEW, [0.5, 0.5])


@pytest.mark.parametrize("rule", ["trace", "sphere", "center+trace"])
def test_no_rows_and_no_kernels(rule):
    fitted = quiet(KernelBank([Gaussian(1.0), Linear()], normalize=rule), X)
    for bank in (fitted.compact([0, 1], []), fitted.compact([], [])):
        assert bank.cross(NEW, [0.0, 0.0]).shape == (5, 0)
        assert np.array_equal(bank.decision(NEW, [0.0, 0.0], []), np.zeros(5))
    assert fitted.compact([0, 1], []).cross_stack(NEW).shape == (2, 5, 0)
    assert not fitted.compact([], [1]).cross(NEW, [0.0, 0.0]).any()


def test_only_active_kernels_are_computed():
    calls = []

    def counted(A, B):
        calls.append(A.shape)
        return A @ B.T

    fitted = quiet(KernelBank([counted, Gaussian(1.0)]), X)
    calls.clear()
    fitted.cross(NEW, [0.0, 1.0])
    assert not calls
    fitted.cross(NEW, [1.0, 1.0])
    assert calls == [(5, 4)]


def test_compact_holds_support_rows_and_active_kernels_alone():
    data = rng.normal(size=(300, 4))
    fitted = quiet(KernelBank([Gaussian(1.0), Linear()], "all+each"), data)
    assert repr(fitted) == "FittedBank(10 kernels, 300 rows)"
    small = fitted.compact([0, 3], [7, 8])
    assert small.names == fitted.names
    assert np.array_equal(small.kept, fitted.kept)
    assert np.array_equal(small.scales, fitted.scales)
    assert len(pickle.dumps(small)) < 6000 < len(pickle.dumps(fitted)) < 20000
    assert len(small.table) == 2
    with pytest.raises(ValueError, match=r"'Linear\(\) on all' was left out .*by compact"):
        small.cross(NEW, np.ones(10))
    with pytest.raises(ValueError, match="do not keep the training stack"):
        _ = small.stack
    with pytest.raises(ValueError, match="do not keep the training stack"):
        _ = pickle.loads(pickle.dumps(fitted)).stack
    assert isinstance(small, FittedBank)


@pytest.mark.parametrize("rule", ["trace", "center+trace"])
def test_threads_change_nothing(rule, monkeypatch):
    monkeypatch.setattr(SETTINGS, "worth_threads", 0)
    data = np.column_stack([X, X[:, 1]])  # with duplicates
    bank = KernelBank([Gaussian(1.0), Polynomial(3), "cosine"], "all+each", rule)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, many = bank.fit(data, n_jobs=None), bank.fit(data, n_jobs=3)
    assert one.dropped == many.dropped
    assert np.array_equal(one.kept, many.kept)
    for row in np.eye(one.stack.m):
        assert np.array_equal(one.stack.combine(row), many.stack.combine(row))


def test_importing_banks_imports_no_scikit_learn():
    code = "import sys, kernelweave.banks.bank; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize("rule", ["trace", "center+trace", "sphere"])
def test_several_machines_share_each_kernel(rule):
    calls = []

    def counted(A, B):
        calls.append((len(A), len(B)))
        return A @ B.T

    fitted = quiet(KernelBank([Gaussian(1.0), counted, Polynomial(2)], normalize=rule), X)
    coef, weights = rng.normal(size=(len(X), 3)), rng.uniform(size=(3, fitted.m_all))
    weights[:, 0] = 0.0
    calls.clear()
    values = fitted.decision(NEW, weights, coef)
    assert calls.count((len(NEW), len(X))) == 1
    for k in range(3):
        alone = fitted.decision(NEW, weights[k], coef[:, k])
        np.testing.assert_allclose(values[:, k], alone, rtol=1e-12, atol=1e-12)
    shared = fitted.decision(NEW, weights[0], coef)
    np.testing.assert_allclose(shared[:, 1], fitted.decision(NEW, weights[0], coef[:, 1]))
    with pytest.raises(ValueError, match=r"weights must have shape \(3,\) or \(k, 3\).*\(2, 3\)"):
        fitted.decision(NEW, weights[:2], coef)
