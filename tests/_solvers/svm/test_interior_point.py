"""The interior point method on factors reaches what SMO reaches on the matrix."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave import learn
from kernelweave._solvers.svm import interior_point, smo
from kernelweave.problems import losses, value_losses
from kernelweave.problems.dual_qp import DualQP, relative_gap
from kernelweave.problems.one_class import OneClass
from kernelweave.stacks.factor import JoinedFactor
from kernelweave.stacks.factors import FactorStack

N, R = 150, 8


def data(seed: int, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A factor, labels and real targets."""
    rng = np.random.default_rng(seed)
    F = 0.4 * rng.standard_normal((N, R)) + 0.2
    if kind == "rank one":
        F = F[:, :1]
    elif kind == "twice":
        F = np.hstack([F, F, np.zeros((N, 1))])
    elif kind == "rows repeat":
        F[N // 2 :] = F[: N - N // 2]
    elif kind == "far scaled":
        F = F * 10.0 ** np.linspace(-4, 2, F.shape[1])
    signal = F @ rng.standard_normal(F.shape[1])
    y = np.where(signal + 0.4 * signal.std() * rng.standard_normal(N) > 0, 1.0, -1.0)
    return F, y, signal + 0.1 * rng.standard_normal(N)


LOSSES = {
    "hinge": lambda y, t, C: losses.hinge(y, C),
    "squared hinge": lambda y, t, C: losses.squared_hinge(y, C),
    "tube": lambda y, t, C: value_losses.EpsilonInsensitive().lower(t, C),
    "pinball": lambda y, t, C: value_losses.Quantile(0.2).lower(t, C),
    "weights": lambda y, t, C: losses.hinge(y, C * np.linspace(0.1, 2.0, N)),
    "some absent": lambda y, t, C: losses.hinge(np.where(np.arange(N) % 5, y, 0.0), C),
    "one class": lambda y, t, C: OneClass().lower(y, 4.0 / N),
}


def gap_of(qp: DualQP, K: np.ndarray, v: np.ndarray) -> tuple[float, float, float]:
    coef = qp.fold(v)
    f = K @ coef
    primal = qp.primal_value(f, qp.best_bias(f), float(coef @ f))
    dual = qp.dual_value(v, float(coef @ f))
    return primal, dual, relative_gap(primal, dual)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("kind", ["plain", "rank one", "twice", "rows repeat", "far scaled"])
@pytest.mark.parametrize("loss", LOSSES)
def test_certifies_its_gap_on_the_matrix(loss: str, kind: str, C: float) -> None:
    F, y, t = data(1, kind)
    qp, K = LOSSES[loss](y, t, C), F @ F.T
    found, told = interior_point.solve(JoinedFactor.of(F), 0.0, qp, 1e-6)
    if told > 1e-6:  # it says so, and SMO goes on from there
        assert kind == "far scaled" or (loss, kind) == ("one class", "rank one")
        return
    primal, dual, gap = gap_of(qp, K, found.v)
    assert gap <= 2e-6
    assert np.all((found.v >= qp.lower) & (found.v <= qp.upper))
    assert abs(found.v.sum() - qp.total) <= 1e-12 * np.abs(found.v).sum()
    other = gap_of(qp, K, smo.solve(K, qp, None, 1e-6).v)
    slack = 1e-5 * abs(primal)
    assert dual <= other[0] + slack and other[1] <= primal + slack


@pytest.mark.parametrize("loss", ["hinge", "tube", "one class"])
def test_rows_that_do_not_matter_are_no_support_vectors(loss: str) -> None:
    F, y, t = data(2, "plain")
    qp = LOSSES[loss](y, t, 10.0)
    v = interior_point.solve(JoinedFactor.of(F), 0.0, qp, 1e-6)[0].v
    by_smo = smo.solve(F @ F.T, qp, None, 1e-8).v
    assert np.count_nonzero(v) <= np.count_nonzero(by_smo) + 5


def test_a_ridge_of_the_kernel() -> None:
    F, y, _ = data(3, "plain")
    qp, K = losses.hinge(y, 5.0), F @ F.T + 0.3 * np.eye(N)
    assert gap_of(qp, K, interior_point.solve(JoinedFactor.of(F), 0.3, qp, 1e-8)[0].v)[2] <= 1e-8


def test_steps_do_not_grow_with_the_rows() -> None:
    rng = np.random.default_rng(4)
    steps = []
    for n in (500, 8000):
        F = 0.3 * rng.standard_normal((n, 5))
        y = np.where(F[:, 0] + 0.1 * rng.standard_normal(n) > 0, 1.0, -1.0)
        steps.append(
            interior_point.solve(JoinedFactor.of(F), 0.0, losses.hinge(y, 1.0), 1e-6)[0].steps
        )
    assert max(steps) <= 30


class ManyPoints(FactorStack):
    """As if n were too large for K(d) to be written out."""

    most_dense = 0


@pytest.mark.parametrize("learner", ["newton", "silp", "simple"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "epsilon_insensitive"])
def test_learners_prove_their_result_with_it(learner: str, loss: str, monkeypatch) -> None:
    F, y, t = data(5, "plain")
    factors = [F[:, [k, k + 1]] for k in (0, 2, 4)]
    calls = []
    real = interior_point.solve
    monkeypatch.setattr(interior_point, "solve", lambda *a: (calls.append(1), real(*a))[1])
    target = t if loss.startswith("eps") else y
    found = learn(ManyPoints(factors), target, C=3.0, loss=loss, learner=learner, tol=1e-5)
    dense = learn(FactorStack(factors), target, C=3.0, loss=loss, learner=learner, tol=1e-5)
    assert calls and found.gap <= 1e-5
    assert found.dual <= dense.primal and dense.dual <= found.primal


@pytest.mark.parametrize("kind", ["plain", "rank one", "twice", "rows repeat"])
def test_a_ridge_of_the_kernel_bounds_a_hard_margin(kind: str) -> None:
    """Then C is learned; f meets the margin once it is scaled."""
    F, y, _ = data(6, kind)
    K, qp = F @ F.T + 0.3 * np.eye(N), losses.hinge(y, np.inf)
    found, told = interior_point.solve(JoinedFactor.of(F), 0.3, qp, 1e-6)
    f = K @ found.v
    quad = float(found.v @ f)
    gap = relative_gap(qp.improve(f, quad)[2], qp.dual_value(found.v, quad))
    assert told <= 1e-6 and gap <= 2e-6


def test_C_is_learned_on_factors(monkeypatch) -> None:
    F, y, _ = data(7, "plain")
    factors = [F[:, [k, k + 1]] for k in range(6)]
    monkeypatch.setattr("kernelweave._solvers.svm.chunks.solve", None)  # it would take hours
    options = {"C": "learn", "loss": "squared_hinge", "tol": 1e-5}
    found, dense = (learn(kind(factors), y, **options) for kind in (ManyPoints, FactorStack))
    assert found.gap <= 1e-5
    assert found.dual <= dense.primal and dense.dual <= found.primal
