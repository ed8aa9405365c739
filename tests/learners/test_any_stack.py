"""Every learner proves its result on every stack: an array, kernels on demand, factors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from _helpers.references import Problem, duplicate, qcqp_optimum, rank_one, wide
from _helpers.small_stacks import Factors, OnDemand, factors_of

from kernelweave import KernelStack, Solution, duality_gap, learn
from kernelweave._core.settings import SETTINGS
from kernelweave.learners import NAMES, alignment, make_learner
from kernelweave.learners.base import check_supported
from kernelweave.machines.evaluator import HardMarginInfeasible

N, PIECE = 48, 8
TOL = 1e-5
AS_PUBLISHED = {"hessian", "skm_published"}  # which may stop short, by rules of their own
TRAINED = [name for name in NAMES if name not in {"sdp", *AS_PUBLISHED}]
BY_MARGIN = {"auto", "newton", "simple", "silp", "alternate", "grouped", "skm", "qcqp"}
TASKS = [(1.0, "hinge"), (1.0, "squared_hinge"), ("learn", "squared_hinge")]


def first_loss(name: str) -> str:
    return (make_learner(name).losses or ("hinge",))[0]


@pytest.fixture
def many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces as small beside n = 48 as they are beside n = 1536 otherwise.

    Rows of a kernel are looked at some hundreds at a time, which here would be all of them.
    """
    monkeypatch.setattr(SETTINGS, "rows", PIECE)
    monkeypatch.setattr(SETTINGS, "block", N * PIECE)
    monkeypatch.setattr(SETTINGS, "computed", 6 * N * PIECE)  # numbers of all kernels together


def table(seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table, labels that a curve separates but for noise, and one noisy feature."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.4 * rng.standard_normal(N) > 0.8, 1.0, -1.0)
    return X, y, X[:, 0] + 0.3 * rng.standard_normal(N)


def kernels(constant: bool = True) -> OnDemand:
    """Widths of which one comes twice, the constant kernel, and one kernel of rank one."""
    X, _, line = table()
    return OnDemand(X, [0.7, 1.5, 4.0, 1.5] + [np.inf] * constant, [line])


def same_kernels(on_demand: OnDemand) -> dict[str, Any]:
    K = on_demand.matrices()
    return {
        "dense": KernelStack(K),
        "on demand": on_demand,
        "factors": Factors(factors_of(K)),
    }


def quietly(*args: Any, **options: Any) -> Solution:
    """``learn``, where a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return learn(*args, **options)


def agree(first: Solution, second: Solution, also: float = 0.0) -> None:
    """Both bounds hold for one optimum: its two upper bounds are no further apart than the gaps."""
    size = max(abs(first.objective), abs(second.objective))
    # the kernels themselves are the same up to rounding
    assert abs(first.objective - second.objective) <= (first.gap + second.gap + also + 1e-9) * size


# --- every learner, every stack ---------------------------------------------------------------


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize(("C", "loss"), TASKS)
def test_every_learner_proves_its_result(
    name: str, C: float | str, loss: str, many_rows: None
) -> None:
    learner, y = make_learner(name), table()[1]
    if isinstance(C, str) and name not in BY_MARGIN:
        with pytest.raises(ValueError, match="goes with the margin criterion"):
            check_supported(learner, C, 1)
        return
    if learner.losses is not None and loss not in learner.losses:
        with pytest.raises(ValueError, match="needs loss="):
            check_supported(learner, C, 1, loss)
        return
    tol = 1e-3 if name == "alternate" else TOL  # it may not certify less where J has kinks
    if (name, C) == ("simple", "learn"):
        tol = 1e-3  # thousands of machines for the digits that follow
    on_demand = kernels(constant=name != "radius_bound")  # which refuses constant kernels
    found = {
        kind: quietly(stack, y, C=C, learner=name, loss=loss, tol=tol)
        for kind, stack in same_kernels(on_demand).items()
    }
    for kind, solution in found.items():
        assert solution.status == "optimal" and solution.gap <= tol, kind
        assert solution.certificate().gap <= tol + 1e-8, kind
        # a local optimum is as good as another up to what is left of the slope
        slope = TOL if name == "radius_bound" else 0.0
        agree(solution, found["dense"], also=2 * slope)
    if name == "qcqp":  # its conic program is made of factors, and those of whole kernels
        assert on_demand.largest == N * N
    elif loss != "squared_hinge" or name not in {"radius", "newton", "auto"}:
        # under it every variable may be free, and the Hessian is made of that block
        assert 0 < on_demand.largest < N * N


@pytest.mark.parametrize("name", sorted(BY_MARGIN - {"auto", "skm", "qcqp", "silp"}))
@pytest.mark.parametrize("weight_norm", [2, np.inf])
def test_other_norms(name: str, weight_norm: float, many_rows: None) -> None:
    y, on_demand = table()[1], kernels()
    found = [
        quietly(stack, y, learner=name, weight_norm=weight_norm, tol=TOL)
        for stack in same_kernels(on_demand).values()
    ]
    for solution in found:
        assert solution.status == "optimal" and solution.certificate().gap <= TOL + 1e-8
        agree(solution, found[0])
    assert on_demand.largest < N * N


@pytest.mark.parametrize("weight_norm", [2, None])
def test_radius_under_other_norms(weight_norm: float | None, many_rows: None) -> None:
    y, on_demand = table()[1], kernels()
    found = [
        quietly(stack, y, learner="radius", weight_norm=weight_norm, tol=TOL)
        for stack in same_kernels(on_demand).values()
    ]
    for solution in found:
        assert solution.status == "optimal" and solution.certificate().gap <= TOL + 1e-8
        agree(solution, found[0])
    assert on_demand.largest < N * N


def test_constant_parts_are_taken_out_on_demand_too(many_rows: None) -> None:
    """A number added to every kernel, 10⁸ times as large: radius sees the centered kernels."""
    on_demand, y = kernels(constant=False), table()[1]

    class Raised(OnDemand):
        def _entries(self, *args: Any) -> np.ndarray:
            return super()._entries(*args) + 2.0**27

        def diagonals(self) -> np.ndarray:
            return super().diagonals() + 2.0**27

    raised = Raised(on_demand.X, on_demand.widths, on_demand.lines)
    plain = quietly(on_demand, y, learner="radius", tol=TOL)
    high = quietly(raised, y, learner="radius", tol=TOL)
    assert high.certificate().gap <= TOL + 1e-8
    agree(plain, high, also=1e-6)  # of the eight digits that are left
    assert raised.largest < N * N


@pytest.mark.parametrize(
    "options",
    [
        {"trace": 3.0},
        {"recenter": True},
        {"ridge": 0.1},
        {"C": np.linspace(0.5, 2.0, N)},
        {"n_jobs": 2},
        {"learner": "radius_bound", "weight_norm": 2},
    ],
    ids=lambda options: next(iter(options)),
)
def test_every_option(options: dict[str, Any], many_rows: None) -> None:
    y, on_demand = table()[1], kernels(constant=not {"learner", "recenter"} & options.keys())
    found = [quietly(s, y, tol=TOL, **options) for s in same_kernels(on_demand).values()]
    for solution in found:
        assert solution.status == "optimal" and solution.certificate().gap <= TOL + 1e-8
        agree(solution, found[0], also=2 * TOL if "learner" in options else 0.0)
    assert on_demand.largest < N * N


@pytest.mark.parametrize("name", ["newton", "skm", "alignment", "radius"])
@pytest.mark.parametrize("C", [1.0, "learn"])
def test_rows_without_a_label(name: str, C: float | str, many_rows: None) -> None:
    if isinstance(C, str) and name not in BY_MARGIN:
        return
    y, on_demand = table()[1], kernels()
    y[::4] = 0.0
    loss = "hinge" if C == 1.0 else "squared_hinge"
    found = [
        quietly(stack, y, C=C, learner=name, loss=loss, tol=TOL)
        for stack in same_kernels(on_demand).values()
    ]
    for solution in found:
        assert not solution.coef[::4].any()
        assert solution.status == "optimal" and solution.certificate().gap <= TOL + 1e-8
        agree(solution, found[0])
    assert on_demand.largest < N * N


def test_a_solution_on_one_stack_starts_another(many_rows: None) -> None:
    """The kernels are the same, so that what was proved for one holds for all."""
    y, stacks = table()[1], same_kernels(kernels())
    first = quietly(stacks["dense"], y, tol=1e-6)
    for stack in (stacks["on demand"], stacks["factors"]):
        again = quietly(stack, y, tol=1e-6, start=first)
        assert again.n_iter == 1 and again.n_svm_solves == 0
        assert again.gap == pytest.approx(first.gap, rel=1e-3, abs=1e-12)
        judged = duality_gap(
            stack, y, first.weights, first.coef, first.bias, C=1.0, dual_alpha=first.dual_alpha
        )
        assert judged.gap == pytest.approx(first.gap, rel=1e-3, abs=1e-12)


def test_beyond_the_size_of_a_piece() -> None:
    """No constant made smaller: of 300 rows, none of the kernels is ever computed whole."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.2 * rng.standard_normal(300) > 0.0, 1.0, -1.0)
    for C, loss in TASKS:
        stack = OnDemand(X, [0.5, 2.0, np.inf], [X[:, 0]])
        solution = quietly(stack, y, C=C, loss=loss, tol=1e-3)
        assert solution.certificate().gap <= 1e-3 + 1e-8
        # rows in pieces of 256; but Newton's Hessian is that of all free variables together
        assert stack.largest <= 256 * 300 if loss == "hinge" else stack.largest < 300 * 300


@pytest.mark.parametrize("rows", [5, 12])
def test_chunks_may_be_small(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows at a time get there, too."""
    monkeypatch.setattr(SETTINGS, "chunk_rows", rows)
    y, on_demand = table()[1], kernels()
    found = quietly(on_demand, y, tol=1e-4)
    assert found.certificate().gap <= 1e-4 + 1e-8
    agree(found, quietly(KernelStack(on_demand.matrices()), y, tol=1e-4))


def test_chunks_hold_all_free_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A narrow kernel, under which nearly all rows are free, more than a chunk usually has."""
    monkeypatch.setattr(SETTINGS, "chunk_rows", 20)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 8))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(200) > 0.0, 1.0, -1.0)
    stack = OnDemand(X, [1.0])
    solution = quietly(stack, y, C=10.0, tol=1e-4)
    assert np.count_nonzero((solution.alpha > 0.0) & (solution.alpha < 10.0)) > 150
    assert solution.gap <= 1e-4
    assert stack.asked < 20 * 200 * 200  # entries: 49 matrices where chunks do not grow


def test_chunks_are_small_where_few_rows_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row within ε of its target is at two bounds, not free, though it may go either way."""
    monkeypatch.setattr(SETTINGS, "chunk_rows", 20)
    X = np.random.default_rng(0).standard_normal((200, 2))
    stack = OnDemand(X, [2.0])
    solution = quietly(stack, np.tanh(X[:, 0]), C=1.0, loss="epsilon_insensitive", epsilon=0.3)
    assert solution.status == "optimal"
    assert stack.largest <= 20 * 200


# --- signed weights ---------------------------------------------------------------------------


@pytest.mark.parametrize("partly", [False, True])
@pytest.mark.parametrize(("C", "loss"), TASKS)
def test_signed_weights_need_an_array(C: float | str, loss: str, partly: bool) -> None:
    """It says so before a kernel is computed: all it looked at was the diagonal."""
    y, on_demand = table()[1], kernels()
    y[:10] = np.where(partly, 0.0, y[:10])
    with pytest.raises(ValueError, match=r"n × n .* use a KernelStack, or another learner"):
        learn(on_demand, y, C=C, loss=loss, learner="sdp")
    assert on_demand.asked == 0
    with pytest.raises(ValueError, match="n × n"):
        learn(Factors(factors_of(on_demand.matrices())), y, C=C, loss=loss, learner="sdp")


@pytest.mark.parametrize(("C", "loss"), TASKS)
def test_the_error_names_the_stack(C: float | str, loss: str) -> None:
    """Not what the package wrapped around it."""
    X, y, _ = table()

    class Duck:
        n, m = N, 2

        def block(self, kernel: int, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return OnDemand(X, [1.0, 2.0]).block(kernel, rows, columns)

    for stack, name in ((kernels(), "OnDemand"), (Duck(), "Duck")):
        with pytest.raises(ValueError, match=rf"matrix, which {name} does not hold"):
            learn(stack, y, C=C, loss=loss, learner="sdp")


def test_signed_alignment_needs_an_array() -> None:
    """Alignment with signed weights needs K ⪰ 0 to be decided, and so an array."""
    y, on_demand = table()[1], kernels()
    with pytest.raises(ValueError, match="n × n"):
        learn(on_demand, y, learner=alignment.Alignment(signed=True))


# --- hard margins -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRAINED)
def test_a_hard_margin(name: str, many_rows: None) -> None:
    """Gaussians separate any points; the rank-one kernel alone does not."""
    y, on_demand = table()[1], kernels(constant=name != "radius_bound")
    tol = 1e-4
    found = [
        quietly(stack, y, C=np.inf, learner=name, loss=first_loss(name), tol=tol)
        for stack in same_kernels(on_demand).values()
    ]
    for solution in found:
        assert solution.status == "optimal" and solution.gap <= tol
        assert solution.certificate().gap <= tol + 1e-8
        agree(solution, found[0], also=2 * tol if name == "radius_bound" else 0.0)
    assert (on_demand.largest == N * N) == (name == "qcqp")


@pytest.mark.parametrize("name", TRAINED)
def test_no_hard_margin(name: str) -> None:
    X, y, line = table()
    with pytest.raises(HardMarginInfeasible, match="C=inf asks for a hard margin, but"):
        learn(OnDemand(X, [], [line]), y, C=np.inf, learner=name, loss=first_loss(name))


class Duck:
    """An array behind ``n``, ``m`` and ``block`` alone."""

    def __init__(self, K: np.ndarray) -> None:
        self._K = K
        self.m, self.n = K.shape[:2]

    def block(self, kernel: int, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self._K[kernel][np.ix_(rows, columns)]


@pytest.mark.parametrize("kind", [KernelStack, Duck])
@pytest.mark.parametrize("name", ["newton", "simple", "silp", "skm", "qcqp"])
@pytest.mark.parametrize(
    ("problem", "C"),
    [(rank_one(0), np.inf), (wide(0), "learn"), (wide(2), "learn"), (duplicate(0), "learn")],
    ids=["rank-one-inf", "wide-0-learn", "wide-2-learn", "duplicate-0-learn"],
)
def test_weights_on_the_way_that_do_not_separate(
    problem: Problem, C: float | str, name: str, kind: Any
) -> None:
    """Where a machine on the way has no solution, its ray is still a cut of use."""
    loss = "squared_hinge" if isinstance(C, str) else "hinge"
    found = quietly(kind(problem.K), problem.y, C=C, learner=name, loss=loss, tol=1e-4)
    assert found.status == "optimal" and found.certificate().gap <= 1e-4 + 1e-8
    if not isinstance(C, str):
        best = qcqp_optimum(problem.K, problem.y, C)
        assert found.objective == pytest.approx(best, rel=2e-4)
