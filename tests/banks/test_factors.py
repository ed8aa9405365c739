"""Kernels of low rank are kept as factors, and nothing but memory and time changes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse

from kernelweave import (
    Gaussian,
    KernelBank,
    KernelStack,
    Laplacian,
    Linear,
    MKLClassifier,
    Polynomial,
    duality_gap,
    learn,
)
from kernelweave.banks.normalize import RULES
from kernelweave.stacks.defaults import matrices
from kernelweave.stacks.factors import FactorStack
from kernelweave.stacks.mixed import MixedStack

rng = np.random.default_rng(2)
X = rng.normal(size=(150, 4)) * [1.0, 5.0, 0.2, 1.0] + [0.0, 3.0, 0.0, 1.0]
Y = np.where(X[:, 0] + np.sin(X[:, 1]) + 0.5 * rng.normal(size=150) > 0.0, 1.0, -1.0)
KERNELS = [Gaussian(0.7), Gaussian(2.0, relative=True), Polynomial(2), Polynomial(3), Linear()]


def fitted(storage: str, X: np.ndarray = X, **options: object) -> object:
    weight = options.pop("sample_weight", None)
    options = {"kernels": KERNELS, "views": "all+each", "scale": "standard", **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return KernelBank(storage=storage, **options).fit(X, sample_weight=weight)


def arrays(bank: object) -> np.ndarray:
    """The matrices of a bank, by the numbers of its kernels."""
    K = np.stack([*matrices(bank.stack)])
    return K[np.argsort(bank.kept)]


@pytest.mark.parametrize("storage", ["auto", "factors"])
@pytest.mark.parametrize("rule", RULES)
def test_the_matrices_are_the_same_under_every_normalization(rule: str, storage: str) -> None:
    dense, low = fitted("dense", normalize=rule), fitted(storage, normalize=rule)
    assert type(dense.stack) is KernelStack
    assert type(low.stack) is (MixedStack if storage == "auto" else FactorStack)
    assert low.dropped == dense.dropped
    np.testing.assert_allclose(low.scales, dense.scales, rtol=1e-10)
    K = arrays(dense)
    size = np.abs(K).max(axis=(1, 2), keepdims=True)
    digits = 1e-6 if rule == "center+sphere" else 1e-10  # rows near the mean are stretched by much
    assert np.all(np.abs(arrays(low) - K) <= digits * size)


def test_rows_that_count_more_and_rows_that_lack_a_view() -> None:
    weight = rng.integers(1, 4, 150).astype(float)
    gaps = X.copy()
    gaps[rng.random(150) < 0.3, :2] = np.nan
    for table in (X, gaps):
        options = {"views": {"a": [0, 1], "b": [2, 3]}, "sample_weight": weight}
        dense, low = fitted("dense", table, **options), fitted("factors", table, **options)
        assert type(low.stack) is FactorStack
        np.testing.assert_allclose(arrays(low), arrays(dense), rtol=0.0, atol=1e-10)


def test_each_kernel_is_in_its_cheaper_form() -> None:
    wide = rng.normal(size=(150, 30))
    bank = fitted("auto", wide, views="all+each")
    low, dense = sorted(bank.stack.stacks, key=lambda part: -part.m)
    assert type(low) is FactorStack and type(dense) is KernelStack
    assert low.ranks.max() <= 150 // 4
    assert low.nbytes < 0.1 * low.m * 150 * 150 * 8
    assert {bank.views[k] for k in bank.kept[bank.stack._places[bank.stack.stacks.index(dense)]]} \
        == {"all"}  # fmt: skip


def test_few_rows_stay_matrices() -> None:
    assert type(fitted("auto", X[:60]).stack) is KernelStack


def test_a_kernel_that_no_compiled_code_knows_stays_a_matrix() -> None:
    bank = fitted("factors", kernels=[Gaussian(1.0), lambda A, B: A @ B.T], views="all")
    assert type(bank.stack) is MixedStack


@pytest.mark.parametrize("kernel", [Laplacian(2.0), Gaussian(1e-3), Polynomial(4, offset=0.0)])
def test_full_rank_is_found_when_it_is_asked_for(kernel: object) -> None:
    dense, low = (fitted(s, kernels=kernel, views="all") for s in ("dense", "factors"))
    np.testing.assert_allclose(arrays(low), arrays(dense), rtol=0.0, atol=1e-10)


def test_duplicates_are_dropped_as_from_matrices() -> None:
    twice = np.column_stack([X[:, 0], X[:, 1], X[:, 0], 3.0 * X[:, 1] - 2.0, -X[:, 0]])
    dense, low = fitted("dense", twice), fitted("factors", twice)
    assert dense.dropped and low.dropped == dense.dropped


@pytest.mark.parametrize("C", [0.1, 10.0, 1e3])
def test_the_solution_is_one_of_the_dense_problem(C: float) -> None:
    dense, low = fitted("dense"), fitted("factors")
    found = learn(low.stack, Y, C=C, tol=1e-6)
    assert found.gap <= 1e-6
    judged = duality_gap(
        dense.stack, Y, found.weights, found.coef, found.bias, C=C, dual_alpha=found.dual_alpha
    )
    assert judged.gap <= found.gap + 1e-9


def test_the_estimator_predicts_the_same() -> None:
    models = [
        MKLClassifier(KernelBank(KERNELS, "all+each", storage=storage), tol=1e-9).fit(X, Y)
        for storage in ("dense", "auto")
    ]
    values = [model.decision_function(X[:40] + 0.1) for model in models]
    np.testing.assert_allclose(*values, rtol=0.0, atol=1e-4)


def test_storage_is_checked() -> None:
    with pytest.raises(ValueError, match=r"storage must be one of .*'dense'.* found 'sparse'"):
        KernelBank(storage="sparse").fit(X)


def test_a_linear_kernel_of_sparse_columns_is_its_columns() -> None:
    rng = np.random.default_rng(7)
    codes = scipy.sparse.csr_matrix(np.eye(6)[rng.integers(6, size=150)])
    low = KernelBank(Linear(), storage="auto", normalize=None).fit(codes)
    assert isinstance(low.stack, FactorStack) and low.stack.ranks.tolist() == [6]
    np.testing.assert_allclose(
        low.stack.factor(0) @ low.stack.factor(0).T, codes @ codes.T.toarray()
    )
    assert isinstance(KernelBank(Linear()).fit(codes[:20]).stack, KernelStack)
