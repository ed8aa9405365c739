"""Stacks of others, whose arrays NumPy cannot have: what they promise, and what they move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from _helpers.foreign import ALL, PASSES, VIEWS, Meter, foreign
from _helpers.stack_contract import PROTOCOL, grams

from kernelweave import (
    Gaussian,
    KernelBank,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    learn,
)
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.identity import WithIdentity
from kernelweave.stacks.mixed import MixedStack

MEMBERS = {
    "all": ALL,
    "none": (),
    "passes": PASSES,
    "combined": ("combined",),
    "views": VIEWS,
    "no views": (*PASSES, "combined"),
}


@pytest.mark.parametrize("members", MEMBERS.values(), ids=MEMBERS)
@pytest.mark.parametrize("check", PROTOCOL, ids=lambda check: check.__name__)
def test_contract(members: tuple[str, ...], check: Any) -> None:
    """Whatever it has, and whatever index is used: it is asked with arrays of numbers alone."""
    check(lambda K: (foreign(K, members), K, abs(K)), 1e-13)


# --- what moves -------------------------------------------------------------------------------

N = 1200
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
LABELS = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * RNG.normal(size=N) > 0.8, 1.0, -1.0)
VALUES = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=N)
WIDTHS = (0.3, 1.0, 3.0, 10.0)
CASES = [("hinge", LABELS), ("squared", VALUES)]
SINGLE = float(np.finfo(np.float32).eps)


@pytest.fixture(scope="module")
def K() -> np.ndarray:
    far = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    return np.stack([np.exp(-far / (2 * s * s)) for s in WIDTHS])


@pytest.mark.parametrize(("loss", "y"), CASES, ids=["hinge", "squared"])
def test_what_a_fit_moves(loss: str, y: np.ndarray, K: np.ndarray) -> None:
    """Mebibytes in and out of all methods; four kernels of 1,200 rows are 44."""
    single = {"kind": np.float32, "sum_eps": SINGLE, "entry_eps": 2 * SINGLE}
    some = np.sort(RNG.permutation(N)[:1000])
    for members, most, options in (
        (ALL, 25.0, {}),
        ((), 100.0, {}),
        (ALL, 25.0, single),
        ((*PASSES, "combined"), 25.0, {}),
    ):
        meter = Meter()
        stack = as_stack(foreign(K, members, meter, **options))
        assert learn(stack, y, loss=loss).gap <= 1e-3
        assert meter.mebibytes <= most, meter.moved
        before = meter.mebibytes
        assert learn(stack.restrict(some), y[some], loss=loss).gap <= 1e-3
        assert meter.mebibytes - before <= most


def test_chunks_fetch_no_row_twice(K: np.ndarray) -> None:
    """Where labels are noise, machines take several chunks, and most rows are in all of them."""
    noisy = np.where(X[:, 0] + 1.5 * np.random.default_rng(1).normal(size=N) > 0.0, 1.0, -1.0)
    meter = Meter()
    assert learn(as_stack(foreign(K, ALL, meter)), noisy).gap <= 1e-3
    assert meter.mebibytes <= 25.0, meter.moved


class Elsewhere:
    """A storage whose stacks count what they move."""

    def __init__(self, members: tuple[str, ...]) -> None:
        self.members, self.meters = members, []

    def build(self, kernels: Any) -> Any:
        every, meter = np.arange(kernels[0].n), Meter()
        self.meters.append(meter)
        K = np.stack([one.block(every, every) for one in kernels])
        return foreign(K, self.members, meter)


@pytest.mark.parametrize(("members", "most"), [(ALL, 25.0), ((), 100.0)], ids=["all", "block"])
def test_what_estimators_and_folds_move(members: tuple[str, ...], most: float) -> None:
    for kind, y, options in (
        (MKLClassifier, LABELS, {}),
        (MKLRegressor, VALUES, {"loss": "squared"}),
        (MKLClassifierCV, LABELS, {"cv": 2, "Cs": [1.0], "weight_norms": [1]}),
        (MKLRegressorCV, VALUES, {"cv": 2, "Cs": [1.0], "weight_norms": [1]}),
    ):
        storage = Elsewhere(members)
        bank = KernelBank([Gaussian(width) for width in WIDTHS], storage=storage)
        model = kind(bank, **options).fit(X, y)
        assert model.duality_gap_ <= 1e-3
        assert len(storage.meters) == (3 if "cv" in options else 1)
        assert all(meter.mebibytes <= most for meter in storage.meters), kind


def test_own_fine_products_are_asked_through_every_wrapper() -> None:
    K = grams(4, 12)
    for wrap in (
        lambda stack: stack,
        lambda stack: stack.restrict(np.arange(5)),
        lambda stack: stack.select(np.array([1, 3])),
        WithIdentity,
        lambda stack: MixedStack([stack, as_stack(K)]),
    ):
        meter = Meter()
        stack = wrap(as_stack(foreign(K, (*PASSES, "combined"), meter)))
        every = np.arange(stack.n)
        stack.fine_product(0, every, every, np.ones(stack.n, np.longdouble))
        stack.quad_forms(np.ones(stack.n))
        stack.matvecs(np.ones(stack.n))
        stack.combined(np.ones(stack.m)) @ np.ones(stack.n)
        asked = {"fine_product", "quad_forms", "matvecs", "combined.__matmul__"}
        assert asked <= set(meter.moved) and "block" not in meter.moved


# --- what comes back --------------------------------------------------------------------------


def test_what_is_no_array_of_the_host_is_an_error_that_names_the_method() -> None:
    class Kept(type(foreign(grams(2, 5)))):  # type: ignore[misc]
        def block(self, kernel: int, rows: Any, columns: Any) -> Any:
            return self.K

        def matvecs(self, v: Any, rows: Any = None, kernels: Any = None) -> Any:
            return np.zeros((5, 2))

    stack = Kept()
    stack.n, stack.m, stack.K = 5, 2, foreign(grams(2, 5)).K
    stack = as_stack(stack)
    with pytest.raises(TypeError, match=r"block of Kept must return an array .* found.*Device"):
        stack.block(0, np.arange(5), np.arange(5))
    with pytest.raises(
        ValueError, match=r"matvecs of Kept must have shape \(2, 5\), found \(5, 2\)"
    ):
        stack.matvecs(np.ones(5))
