"""The regularization path: certified at every point, in the order asked for, cheaper than cold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from _helpers.references import dense, qcqp_optimum, rank_one, separable

import kernelweave.path as path_module
from kernelweave import KernelStack, learn, regularization_path
from kernelweave.learners import Silp, Simple

LEARNERS = ["simple", "silp", "newton", "qcqp", "skm"]


@pytest.fixture(autouse=True)
def no_unexpected_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_point_is_certified_and_right(learner: str) -> None:
    problem = rank_one(0)
    Cs = [0.5, 100.0, 0.01, 3.0]
    path = regularization_path(problem.K, problem.y, Cs, learner=learner, tol=1e-4)
    assert [solution.C for solution in path] == Cs
    for C, solution in zip(Cs, path, strict=True):
        best = qcqp_optimum(problem.K, problem.y, C)
        assert solution.gap <= 1e-4 and solution.status == "optimal"
        assert abs(solution.primal - best) <= 1.02e-4 * best
        assert solution.dual <= best * (1 + 1e-6)
        assert 0.0 <= solution.dual_alpha.min() and solution.dual_alpha.max() <= C * (1 + 1e-12)


@pytest.mark.parametrize(
    ("learner", "share"), [("simple", 0.5), ("newton", 0.5), ("skm", 0.5), ("silp", 1.0)]
)
def test_same_objective_as_cold_fits_for_fewer_solves(learner: str, share: float) -> None:
    """Cutting planes begin with an empty program at every C, so they gain least."""
    problem = dense(0, n=60, m=8)
    Cs = np.geomspace(0.1, 100.0, 25)
    stack = KernelStack(problem.K)
    path = regularization_path(stack, problem.y, Cs, learner=learner, tol=1e-2)
    cold = [learn(stack, problem.y, C=C, learner=learner, tol=1e-2) for C in Cs]
    for one, other in zip(path, cold, strict=True):
        assert one.gap <= 1e-2
        # both bounds hold for one optimum
        assert one.dual <= other.primal * (1 + 1e-9) and other.dual <= one.primal * (1 + 1e-9)
        assert abs(one.primal - other.primal) <= 1e-2 * max(one.primal, other.primal)
    solves = sum(solution.n_svm_solves for solution in path)
    assert solves < share * sum(solution.n_svm_solves for solution in cold)


def test_solved_from_the_largest_C_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each solution is the start of the next smaller C; the start given is for the largest."""
    problem = dense(1)
    calls: list[tuple[float, Any]] = []

    def spy(told: Any, trail: Any) -> Any:
        calls.append((told["C"], told["start"]))
        return solved(told, trail)

    def spy_at(problem: Any, start: Any, *more: Any) -> Any:
        calls.append((problem.formulation.C, start))
        return at(problem, start, *more)

    at, solved = path_module._at, path_module.solved
    monkeypatch.setattr(path_module, "solved", spy)
    monkeypatch.setattr(path_module, "_at", spy_at)
    first = np.ones(len(problem.K))
    path = regularization_path(problem.K, problem.y, [1.0, 50.0, 7.0, 1.0], start=first)
    assert [C for C, _ in calls] == [50.0, 7.0, 1.0, 1.0]
    assert calls[0][1] is first
    assert calls[1][1] is path[1] and calls[2][1] is path[2] and calls[3][1] is path[0]
    assert path[3].n_svm_solves <= 2  # the same C again


def test_options_are_those_of_learn() -> None:
    problem = dense(2)
    path = regularization_path(
        problem.K, problem.y, (2.0, 1.0), loss="squared_hinge", trace=30.0, tol=1e-5
    )
    for C, solution in zip((2.0, 1.0), path, strict=True):
        best = qcqp_optimum(problem.K, problem.y, C, "squared_hinge", trace=30.0)
        assert solution.primal == pytest.approx(best, rel=2e-5)


def test_hard_margin_is_the_end_of_the_path() -> None:
    problem = separable(0)
    path = regularization_path(problem.K, problem.y, [0.01, np.inf, 1e5], tol=1e-5)
    best = qcqp_optimum(problem.K, problem.y, np.inf)
    assert path[1].primal == pytest.approx(best, rel=2e-5)
    assert path[2].primal == pytest.approx(best, rel=2e-5)
    assert path[0].primal < path[1].primal


def test_one_value_and_an_array_are_paths() -> None:
    problem = dense(3)
    (only,) = regularization_path(problem.K, problem.y, [2.0])
    assert only.primal == learn(problem.K, problem.y, C=2.0).primal
    assert len(regularization_path(problem.K, problem.y, np.array([2.0, 1.0]))) == 2
    assert len(regularization_path(problem.K, problem.y, range(1, 3))) == 2


@pytest.mark.parametrize(
    ("Cs", "error", "message"),
    [
        ([], ValueError, "Cs must"),
        (1.0, ValueError, r"Cs must be a list of numbers, found shape \(\)"),
        ([[1.0, 2.0]], ValueError, r"Cs must be a list of numbers, found shape \(1, 2\)"),
        ([1.0, 0.0], ValueError, "must be positive, found .*0"),
        ([1.0, -3.0], ValueError, "must be positive, found .*-3"),
        ([1.0, np.nan], ValueError, "must be positive, found .*nan"),
        (["small", "large"], (ValueError, TypeError), "Cs must"),
        (None, (ValueError, TypeError), "Cs must"),
    ],
)
def test_bad_values(Cs: Any, error: Any, message: str) -> None:
    problem = dense(3)
    with pytest.raises(error, match=message):
        regularization_path(problem.K, problem.y, Cs)


def test_bad_values_are_found_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelweave.path.learn", lambda *_, **__: pytest.fail("learned something"))
    with pytest.raises(ValueError, match="must be positive"):
        regularization_path(dense(3).K, dense(3).y, [10.0, 1.0, -1.0])


@pytest.mark.parametrize("learner", ["simple", "newton", "skm", "silp"])
@pytest.mark.parametrize(
    ("loss", "options"),
    [
        ("hinge", {}),
        ("squared_hinge", {}),
        ("epsilon_insensitive", {}),
        ("quantile", {"ridge": 1e-3}),
        ("squared", {}),
        ("one_class", {}),
    ],
)
def test_cuts_of_neighbors_hold_under_every_loss(
    learner: str, loss: str, options: dict[str, Any]
) -> None:
    """What a path hands on never proves more than the optimum, and no point is far from it."""
    problem = dense(1, n=40, m=5)
    y = problem.y if "hinge" in loss else problem.y + np.linspace(-1.0, 1.0, 40)
    Cs = np.geomspace(0.05, 2.0, 6)
    stack = KernelStack(problem.K)
    asked = {"loss": loss, "learner": learner, "tol": 1e-4, **options}
    path = regularization_path(stack, y, Cs, **asked)
    for C, solution in zip(Cs, path, strict=True):
        fine = learn(stack, y, C=C, loss=loss, tol=1e-8, **options)
        assert solution.status == "optimal" and solution.gap <= 1e-4
        assert solution.dual <= fine.primal + 1e-9 * abs(fine.primal)
        assert solution.certificate().gap <= 1.01e-4
        assert abs(solution.primal - fine.primal) <= 1.01e-4 * abs(fine.primal)


def test_published_rules_are_left_alone_along_a_path() -> None:
    """Where the gap does not decide, each fit is the learner's own from its first step on."""
    problem = dense(2, n=40, m=6)
    for learner in (Simple(stop="change"), Simple(finish=False), Silp(stop="change")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = regularization_path(
                KernelStack(problem.K), problem.y, [1.0, 2.0], learner=learner
            )
        for solution in path:
            assert "newton" not in solution.history["by"]


def test_a_path_with_the_kernel_machine_tells_its_pair() -> None:
    problem = dense(3, n=40, m=6)
    path = regularization_path(KernelStack(problem.K), problem.y, [1.0, 1.2, 1.4], learner="skm")
    for solution in path:
        assert solution.extras.keys() >= {"alpha", "eta", "kappa"}
