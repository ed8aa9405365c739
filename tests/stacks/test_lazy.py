"""Rows on demand: the same kernels, few entries computed twice, and bounded memory."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from _helpers.stack_contract import grams

from kernelweave import (
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    Polynomial,
    duality_gap,
    learn,
)
from kernelweave.banks.normalize import RULES
from kernelweave.stacks.defaults import matrices
from kernelweave.stacks.lazy import LazyStack
from kernelweave.stacks.mixed import MixedStack

rng = np.random.default_rng(1)
X = rng.normal(size=(130, 6))
Y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=130) > 0.0, 1.0, -1.0)
KERNELS = [Gaussian(1.0), Laplacian(3.0), Linear()]


class Counting:
    """Blocks of arrays, and how many entries were asked for."""

    def __init__(self, K: np.ndarray) -> None:
        self.K, self.entries = K, 0

    def __call__(self, kernel: int, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        self.entries += rows.size * columns.size
        return self.K[kernel][np.ix_(rows, columns)]


def lazy(rows: float, m: int = 3, n: int = 40) -> tuple[LazyStack, Counting]:
    """A stack with room for so many rows."""
    count = Counting(grams(m, n))
    return LazyStack(count, np.einsum("kii->ki", count.K), rows * n * 8 / 2**20), count


def test_rows_that_are_kept_are_not_computed_again() -> None:
    stack, count = lazy(rows=60)
    v = np.zeros(40)
    v[[3, 7, 30]] = 1.0, -2.0, 0.5
    first = stack.matvecs(v)
    assert count.entries == 3 * 3 * 40
    np.testing.assert_allclose(stack.matvecs(v), first, rtol=1e-13)
    np.testing.assert_allclose(stack.block(1, [7, 3], [1, 2, 3]), count.K[1][[7, 3]][:, [1, 2, 3]])
    np.testing.assert_allclose(stack.block(2, [1, 2], [30]), count.K[2][[1, 2]][:, [30]])
    np.testing.assert_allclose(stack.quad_forms(v), count.K @ v @ v)
    assert count.entries == 3 * 3 * 40


def test_the_last_product_is_not_computed_again() -> None:
    """The first bound, the first machine and its judge ask for the same v, with no zero in it."""
    stack, count = lazy(rows=0)
    v, w = np.linspace(1.0, 2.0, 40), np.array([0.2, 0.5, 0.3])
    quads, before = stack.quad_forms(v), count.entries
    np.testing.assert_allclose(quads, count.K @ v @ v)
    product = stack.combined(w) @ v
    np.testing.assert_allclose(product, np.tensordot(w, count.K, 1) @ v)
    stack.matvecs(v)[:] = 0.0  # results do not share
    np.testing.assert_array_equal(stack.combined(w) @ v, product)
    assert before == count.entries == 3 * 40 * 40
    np.testing.assert_allclose(stack.matvecs(-v), -(count.K @ v))
    np.testing.assert_allclose(stack.matvecs(-v, kernels=[1])[0], -(count.K[1] @ v))
    assert count.entries == 6 * 40 * 40
    pickle.loads(pickle.dumps(stack._kept))


def test_the_oldest_rows_make_room_and_a_pass_keeps_its_own() -> None:
    stack, count = lazy(rows=4, m=1)
    one, two = np.zeros((2, 40))
    one[:3], two[10:13] = 1.0, 1.0
    for v, fresh in ((one, 3), (two, 3), (two, 0), (one, 2), (one + two, 4)):
        before = count.entries
        np.testing.assert_allclose(stack.matvecs(v)[0], count.K[0] @ v)
        assert count.entries - before <= fresh * 40
    before = count.entries
    for t in (1.0, 2.0, 3.0):  # more rows than there is room for: four are kept all the same
        np.testing.assert_allclose(stack.matvecs(np.full(40, t))[0], t * count.K[0] @ np.ones(40))
    assert count.entries - before <= (40 + 36 + 36) * 40
    assert stack._kept.rows.shape == (4, 40)


def fitted(storage: str, X: np.ndarray = X, **options: Any) -> Any:
    weight = options.pop("sample_weight", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bank = KernelBank(**{"kernels": KERNELS, **options}, storage=storage)
        return bank.fit(X, sample_weight=weight)


def arrays(bank: Any) -> np.ndarray:
    return np.stack([*matrices(bank.stack)])[np.argsort(bank.kept)]


@pytest.mark.parametrize("rule", RULES)
def test_a_bank_on_demand_has_the_matrices_of_a_dense_one(rule: Any) -> None:
    weight = rng.integers(1, 4, 130).astype(float)
    gaps = X.copy()
    gaps[rng.random(130) < 0.3, :2] = np.nan
    views = {"a": [0, 1], "b": [2, 3, 4, 5]}
    for table, options in ((X, {}), (gaps, {"views": views, "sample_weight": weight})):
        low, dense = (fitted(s, table, normalize=rule, **options) for s in ("lazy", "dense"))
        assert low.dropped == dense.dropped
        assert type(low.stack) is MixedStack and type(low.stack.stacks[0]) is LazyStack
        np.testing.assert_allclose(arrays(low), arrays(dense), atol=1e-7)
        diagonals = np.einsum("kii->ki", arrays(dense))
        np.testing.assert_allclose(low.stack.diagonals(), diagonals, atol=1e-7)


@pytest.mark.parametrize("rule", [None, "trace", "center+trace", "center+sphere"])
def test_blocks_of_any_shape_are_as_near_as_is_told(rule: Any) -> None:
    """Products are summed in another order: distances of wild rows lose hundreds of units."""
    rows = X * np.where(np.arange(130) % 10 == 0, 1e3, 1.0)[:, None]
    kernels = [Gaussian(0.3), Gaussian(3.0), Polynomial(3), Laplacian(1.0), Linear()]
    stack = fitted("lazy", rows, kernels=kernels, normalize=rule, scale=None).stack
    lazy_one = next(part for part in stack.stacks if isinstance(part, LazyStack))
    every, unit = np.arange(130), np.finfo(float).eps
    worst = 0.0
    for k in range(lazy_one.m):
        whole = lazy_one.block(k, every, every)
        roots = np.sqrt(np.maximum(np.diagonal(whole), 0.0))
        parts = [every[i : i + 3] for i in range(0, 130, 3)]
        other = np.concatenate([lazy_one.block(k, part, every) for part in parts])
        turned = np.concatenate([lazy_one.block(k, every, part) for part in parts], axis=1)
        apart = np.maximum(abs(other - whole), abs(turned - whole))
        assert (apart <= 2 * lazy_one.units.operations * unit * np.outer(roots, roots)).all()
        worst = max(worst, float((apart / np.maximum(np.outer(roots, roots), 1e-300)).max()))
    assert worst > 50 * unit  # more than float64 sums of entries lose
    assert lazy_one.restrict(every[::2]).units == stack.units == lazy_one.units


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_solution_is_one_of_the_dense_kernels(loss: str) -> None:
    stack, dense = fitted("lazy").stack, fitted("dense").stack
    solution = learn(stack, Y, C=5.0, loss=loss, tol=1e-5)
    judged = duality_gap(
        dense, Y, solution.weights, solution.coef, solution.bias, C=5.0, loss=loss,
        dual_alpha=solution.dual_alpha,
    )  # fmt: skip
    assert judged.gap <= 1.1e-5


@pytest.mark.filterwarnings("ignore:the duality gap")
def test_a_fit_without_time_asks_for_one_product() -> None:
    """And for the forms of its first v: one class begins with half of the rows here, at C."""
    stack, count = lazy(rows=0)
    found = learn(stack, None, C=0.05, loss="one_class", max_time=1e-9)
    assert found.status == "max_time" and np.isfinite([found.primal, found.dual]).all()
    assert count.entries == 3 * 20 * (20 + 40)


def test_a_model_and_its_plan() -> None:
    bank = KernelBank(KERNELS, storage="lazy", cache_size=0.05)
    model, dense = MKLClassifier(bank, tol=1e-4).fit(X, Y), MKLClassifier(KERNELS, tol=1e-4)
    assert model.objective_ == pytest.approx(dense.fit(X, Y).objective_, rel=2e-4)
    told = bank.plan(X)
    assert sorted(told.storage) == ["factor", "on demand", "on demand"]
    assert "2 on demand" in str(told)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="cache_size must be"):
        fitted("lazy", cache_size=-1.0)
    with pytest.raises(ValueError, match="may not be positive semidefinite"):
        fitted("lazy", kernels=[lambda a, b: a @ b.T])
    with pytest.raises(ValueError, match="No kernel is left"):
        fitted("lazy", np.zeros((5, 2)), kernels=[Linear()])


class Failing(Gaussian):
    """A kernel that fails wherever it is computed."""

    def fill(self, pair: Any, out: Any) -> None:
        raise ArithmeticError("no")


def test_errors_on_demand_name_the_kernel() -> None:
    stack = KernelBank([("mine", Failing(1.0))], storage="lazy").fit(X).stack
    with pytest.raises(ArithmeticError) as caught:
        stack.block(0, np.arange(3), np.arange(2))
    assert caught.value.__notes__ == ["The kernel was 'mine'."]
