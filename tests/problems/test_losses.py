"""Every loss and every form of y against textbook primals, closed forms and repeated rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from _helpers.references import (
    duplicate,
    far_scaled,
    gaussian,
    gram,
    rank_one,
    unit_mean_diagonal,
)
from _helpers.textbook import loss_optimum
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from kernelweave import (
    DualQP,
    Huber,
    KernelStack,
    Loss,
    MKLClassifier,
    MKLRegressor,
    MKLRegressorCV,
    duality_gap,
    learn,
    regularization_path,
)
from kernelweave.learners import make_learner
from kernelweave.problems.losses import LOSSES, Hinge, as_loss
from kernelweave.problems.problem import make_formulation

N = 30
RNG = np.random.default_rng(11)
X = RNG.standard_normal((N, 4))
K = unit_mean_diagonal(
    np.stack([*(gaussian(X, width) for width in (0.7, 2.0)), gram(X), gram(X[:, [0]])])
)
VALUES = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.standard_normal(N)
CLASS = np.digitize(X[:, 0] + 0.5 * RNG.standard_normal(N), [-0.5, 0.5])
REST = np.where(CLASS[:, None] == np.arange(3), 1.0, -1.0)
PAIRS = np.stack([1.0 * (CLASS == a) - (CLASS == b) for a, b in ((0, 1), (0, 2), (1, 2))], axis=1)
SEVERAL = np.stack([VALUES, 3.0 * X[:, 1] ** 2], axis=1)
COSTS = {"one_class": 1.0 / (0.3 * N)}
INTERVALS = np.stack([VALUES - 0.1 * (CLASS == 1), VALUES + 0.3 * (CLASS == 1)], axis=1)
INTERVALS[2:N:5, 1], INTERVALS[3:N:7, 0] = np.inf, -np.inf  # some are open on both sides
TARGETS: dict[str, Any] = {
    "labels": REST[:, 0],
    "values": VALUES,
    "intervals": INTERVALS,
    "nothing": None,
}
KINDS = {name: as_loss(name) for name in LOSSES}
ONE = [(name, TARGETS[loss.target]) for name, loss in KINDS.items()]
MANY = [
    pytest.param(name, y, id=f"{name}-{form}")
    for name, loss in KINDS.items()
    for form, y in {"labels": {"rest": REST, "pairs": PAIRS}, "values": {"several": SEVERAL}}.get(
        loss.target, {}
    ).items()
]
EVERY = [*ONE, *MANY]
PLAIN = [*ONE, *(case.values for case in MANY)]


def asked(loss: str, C: float = 2.0, **options: Any) -> dict[str, Any]:
    return {"C": COSTS.get(loss, C), "loss": loss, **options}


# --- against the textbook ---------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "y"), EVERY)
def test_the_optimum(loss: str, y: Any) -> None:
    solution = learn(K, y, tol=1e-6, **asked(loss))
    best = loss_optimum(K, y, COSTS.get(loss, 2.0), loss)
    assert solution.status == "optimal" and solution.certificate().gap <= 1e-6
    assert solution.objective == pytest.approx(best, rel=1e-5)
    assert solution.dual <= best + 1e-6 * abs(best)
    judged = duality_gap(
        K, y, solution.weights, solution.coef, solution.bias, dual_alpha=solution.dual_alpha,
        **asked(loss),
    )  # fmt: skip
    assert judged.gap <= 1e-6
    shape = () if y is None or KINDS[loss].target == "intervals" else np.shape(y)[1:]
    assert solution.coef.shape == (*shape, N) and np.shape(solution.bias) == shape


@pytest.mark.parametrize(("loss", "y"), EVERY)
@pytest.mark.parametrize("make", [duplicate, rank_one, far_scaled])
def test_awkward_kernels(make: Any, loss: str, y: Any) -> None:
    problem = make(3, n=N)
    C = COSTS.get(loss, 1.0)
    if loss == "one_class" and make is rank_one:
        pytest.skip("the origin is among the points: the optimum is 0, which has no relative gap")
    solution = learn(problem.K, y, C, loss=loss, tol=1e-6)
    best = loss_optimum(problem.K, y, C, loss)
    assert solution.objective == pytest.approx(best, rel=1e-5)
    assert solution.certificate().gap <= 1e-6


def test_squared_loss_is_a_linear_system() -> None:
    """(K + I/C)v + b = y, Σv = 0 at the learned weights."""
    for C in (1e-2, 1.0, 1e3, 1e6 / K.max()):
        solution = learn(K, VALUES, C, loss="squared")
        Kd = np.tensordot(solution.weights, K, 1)
        system = np.ones((N + 1, N + 1))
        system[:N, :N] = Kd + np.eye(N) / C
        system[N, N] = 0.0
        expected = np.linalg.solve(system, np.append(VALUES, 0.0))
        np.testing.assert_allclose(
            solution.coef, expected[:N], rtol=0, atol=1e-8 * np.abs(expected).max()
        )
        assert solution.bias == pytest.approx(expected[N], abs=1e-8)


def test_half_the_absolute_error() -> None:
    """Pinball at ½ is half of the ε-insensitive loss at ε = 0."""
    pinball = learn(K, VALUES, 2.0, loss="quantile", quantile=0.5, tol=1e-8)
    absolute = learn(K, VALUES, 1.0, loss="epsilon_insensitive", epsilon=0.0, tol=1e-8)
    assert pinball.objective == pytest.approx(absolute.objective, rel=2e-8)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_quantile_has_its_share_of_targets_below(share: float) -> None:
    solution = learn(K, VALUES, 1.0, loss="quantile", quantile=share, tol=1e-6)
    error = VALUES - solution.predict(K)
    near = 1e-4 * np.abs(VALUES).max()
    assert np.mean(error < -near) <= share <= np.mean(error <= near)


def test_one_class_leaves_a_share_outside() -> None:
    for nu in (0.1, 0.4):
        solution = learn(K, None, 1.0 / (nu * N), loss="one_class", tol=1e-8)
        values = solution.decision_function(K)
        near = 1e-5 * np.abs(values).max()
        assert np.mean(values < -near) <= nu <= np.mean(values <= near)
        assert solution.coef.sum() == pytest.approx(1.0) and solution.objective < 0.0
        assert set(solution.predict(K)) == {-1.0, 1.0}


# --- several machines --------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "y"), [pair for pair in ONE if np.ndim(pair[1]) == 1])
def test_the_same_machine_twice(loss: str, y: np.ndarray) -> None:
    once = learn(K, y, tol=1e-10, **asked(loss))
    column = learn(K, y[:, None], tol=1e-10, **asked(loss))
    twice = learn(K, np.stack([y, y], axis=1), tol=1e-10, **asked(loss))
    assert twice.objective == pytest.approx(2.0 * once.objective, rel=1e-8)
    assert column.objective == pytest.approx(once.objective, rel=1e-8)
    assert column.coef.shape == (1, N) and column.bias.shape == (1,)
    assert column.decision_function(K).shape == (N, 1)


def test_a_row_without_a_part_in_a_machine_is_absent_from_it() -> None:
    """With equal weights machines are apart: each is the one over the rows that it has."""
    solution = learn(K, PAIRS, 1.0, "uniform", tol=1e-8)
    for place, y in enumerate(PAIRS.T):
        rows = np.flatnonzero(y)
        alone = learn(K[:, rows][:, :, rows], y[rows], 1.0, "uniform", tol=1e-8)
        assert (solution.coef[place, y == 0.0] == 0.0).all()
        values = solution.decision_function(K)[rows, place]
        expected = alone.decision_function(K[:, rows][:, :, rows])
        np.testing.assert_allclose(values, expected, atol=1e-3)


def test_a_row_without_any_label_has_none() -> None:
    y = REST.copy()
    y[:5] = 0.0
    solution = learn(K, y, 1.0, tol=1e-6)
    rest = K[:, 5:, 5:]
    alone = learn(rest, y[5:], 1.0, tol=1e-6)
    assert solution.objective == pytest.approx(alone.objective, rel=2e-6)
    assert (solution.coef[:, :5] == 0.0).all()


# --- weights of the rows -----------------------------------------------------------------------

WEIGHTS = np.random.default_rng(5).integers(0, 4, N).astype(float)
WEIGHTS[:3] = [0.0, 1.0, 3.0]
REPEATED = np.repeat(np.arange(N), WEIGHTS.astype(int))


def repeated(y: Any) -> tuple[np.ndarray, Any]:
    return K[:, REPEATED][:, :, REPEATED], None if y is None else y[REPEATED]


def overlap(one: Any, other: Any) -> bool:
    """Whether both intervals may hold the same optimum."""
    return max(one.dual, other.dual) <= min(one.primal, other.primal)


@pytest.mark.parametrize(("loss", "y"), EVERY)
def test_integer_weights_are_repeated_rows(loss: str, y: Any) -> None:
    C = COSTS.get(loss, 2.0)
    weighted = learn(K, y, C, loss=loss, sample_weight=WEIGHTS, tol=1e-10)
    more, labels = repeated(y)
    assert overlap(weighted, learn(more, labels, C, loss=loss, tol=1e-10))
    assert weighted.certificate().gap <= 1e-8  # rounding may keep the last digits open
    assert (weighted.coef[..., WEIGHTS == 0.0] == 0.0).all()


@pytest.mark.parametrize("options", [{"trace": 3.0}, {"recenter": True}, {"weight_norm": 2}])
def test_weights_count_in_the_weight_set(options: dict[str, Any]) -> None:
    weighted = learn(K, VALUES, 1.0, loss="squared", sample_weight=WEIGHTS, tol=1e-10, **options)
    more, y = repeated(VALUES)
    assert overlap(weighted, learn(more, y, 1.0, loss="squared", tol=1e-10, **options))


@pytest.mark.parametrize("learner", ["skm", "qcqp", "radius", "simple", "alternate", "silp"])
def test_every_learner_takes_weights(learner: str) -> None:
    tol = 1e-2 if learner == "alternate" else 1e-5
    weighted = learn(
        K, REST[:, 0], 1.0, learner, loss="squared_hinge", sample_weight=WEIGHTS, tol=tol
    )
    more, y = repeated(REST[:, 0])
    both = learn(more, y, 1.0, learner, loss="squared_hinge", tol=tol)
    assert weighted.objective == pytest.approx(both.objective, rel=2.0 * tol)
    assert weighted.certificate().gap <= tol


@pytest.mark.parametrize("centered", [False, True])
def test_alignment_counts_rows(centered: bool) -> None:
    from kernelweave.learners import Alignment

    for loss, y in (("hinge", REST[:, 0]), ("hinge", REST), ("squared", VALUES)):
        weighted = learn(K, y, 1.0, Alignment(centered), loss=loss, sample_weight=WEIGHTS, tol=1e-8)
        more, labels = repeated(y)
        both = learn(more, labels, 1.0, Alignment(centered), loss=loss, tol=1e-8)
        np.testing.assert_allclose(weighted.weights, both.weights, rtol=1e-6, atol=1e-9)
        assert weighted.extras["alignment"] == pytest.approx(both.extras["alignment"], rel=1e-8)
        assert overlap(weighted, both)


def test_costs_per_row_are_weights() -> None:
    costs = np.random.default_rng(1).uniform(0.5, 2.0, N)
    for loss, y in PLAIN:
        one = learn(K, y, costs, loss=loss, tol=1e-9)
        other = learn(K, y, 1.0, loss=loss, sample_weight=costs, tol=1e-9)
        assert overlap(one, other)


# --- every learner, and paths ------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["simple", "silp", "qcqp", "skm", "alternate"])
@pytest.mark.parametrize(("loss", "y"), ONE)
def test_learners_agree(learner: str, loss: str, y: Any) -> None:
    tol = 1e-2 if learner == "alternate" else 1e-5
    best = learn(K, y, tol=1e-7, **asked(loss)).objective
    solution = learn(K, y, learner=learner, tol=tol, **asked(loss))
    assert solution.status == "optimal" and solution.objective == pytest.approx(best, rel=1.1 * tol)


def test_signed_weights_of_several_machines() -> None:
    signed = learn(K, REST, 1.0, "sdp", tol=1e-5)
    positive = learn(K, REST, 1.0, trace=float(N), tol=1e-5)
    assert signed.certificate().gap <= 1e-5
    assert signed.objective <= positive.objective * (1.0 + 1e-5)


def test_refusals_name_a_remedy() -> None:
    for learner in ("radius", "radius_bound", "sdp"):
        with pytest.raises(ValueError, match=r"does not go with loss='quantile', since .*'newton'"):
            learn(K, VALUES, learner=learner, loss="quantile")
    with pytest.raises(ValueError, match="no target to align kernels with"):
        learn(K, None, 1.0, "alignment", "one_class")
    for learner in ("radius", "radius_bound", "skm", "qcqp"):
        with pytest.raises(ValueError, match="weights of one machine, found 3; use 'newton'"):
            learn(K, REST, learner=learner)
    with pytest.raises(ValueError, match="targets that are numbers need loss='squared'"):
        learn(K, VALUES)
    with pytest.raises(ValueError, match=r"column 1 of y holds one class only \(\+1\)"):
        learn(K, np.stack([REST[:, 0], np.ones(N)], axis=1))
    with pytest.raises(ValueError, match="several machines have no prediction in common"):
        learn(K, REST).predict(K)
    with pytest.raises(ValueError, match="coef must have a row for each of 3 machines"):
        duality_gap(K, REST, np.full(4, 0.25), np.zeros(N), 0.0, C=1.0)


@pytest.mark.parametrize(("loss", "y"), EVERY)
def test_paths(loss: str, y: Any) -> None:
    Cs = np.array([1.0, 4.0, 2.0]) * COSTS.get(loss, 1.0)
    options = {"loss": loss, "sample_weight": WEIGHTS + 0.5, "epsilon": 0.05, "quantile": 0.3}
    for C, solution in zip(Cs, regularization_path(K, y, Cs, tol=1e-6, **options), strict=True):
        cold = learn(K, y, C, tol=1e-6, **options)
        assert solution.C == C and solution.certificate().gap <= 1e-6
        assert solution.objective == pytest.approx(cold.objective, rel=2e-6)


def test_another_cost_is_another_formulation() -> None:
    for loss, y in PLAIN:
        y = np.zeros(N) if y is None else y
        there = make_formulation(y, 1.0, loss, sample_weight=WEIGHTS).at_cost(3.0)
        again = make_formulation(y, 3.0, loss, sample_weight=WEIGHTS)
        for one, other in zip(there.qps, again.qps, strict=True):
            for name in ("linear", "lower", "upper", "ridges"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_predictions_of_one_machine() -> None:
    labels = learn(K, REST[:, 0]).predict(K)
    assert set(labels) == {-1.0, 1.0}
    values = learn(K, SEVERAL, loss="squared")
    np.testing.assert_array_equal(values.predict(K), values.decision_function(K))
    assert values.predict(K).shape == (N, 2)


def test_on_demand_squared_loss() -> None:
    """Without an array conjugate gradients solve the system."""

    class OnDemand:
        n, m = N, len(K)

        def block(self, kernel: int, rows: Any, columns: Any) -> np.ndarray:
            return K[kernel][np.ix_(rows, columns)]

    dense = learn(KernelStack(K), SEVERAL, 2.0, loss="squared", tol=1e-7)
    lazy = learn(OnDemand(), SEVERAL, 2.0, loss="squared", tol=1e-7)
    assert lazy.status == "optimal" and overlap(dense, lazy)


def test_which_losses_learners_take() -> None:
    taken = {name: make_learner(name).targets for name in ("newton", "sdp", "alignment", "radius")}
    assert taken["newton"] == ("labels", "values", "nothing")
    assert taken["sdp"] == taken["radius"] == ("labels",)
    assert taken["alignment"] == ("labels", "values")


# --- losses of one's own -----------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.05, 0.3, 2.0, 1e6])
def test_hubers_loss(delta: float) -> None:
    """Against a conic solver; the squared loss where all errors are small."""
    loss = Huber(delta)
    for y in (VALUES, SEVERAL):
        solution = learn(K, y, 2.0, loss=loss, tol=1e-7)
        best = loss_optimum(K, y, 2.0, "huber", delta=delta)
        assert solution.status == "optimal" and solution.certificate().gap <= 1e-7
        assert solution.objective == pytest.approx(best, rel=1e-5)
    assert np.abs(solution.coef).max() <= 2.0 * delta * (1.0 + 1e-12)
    if delta == 1e6:
        squared = learn(K, SEVERAL, 2.0, loss="squared", tol=1e-7)
        assert solution.objective == pytest.approx(squared.objective, rel=2e-7)


def test_outliers_pull_less_on_hubers_loss() -> None:
    """A target that moves further off changes nothing once its error is beyond δ."""
    far, farther = VALUES.copy(), VALUES.copy()
    far[0], farther[0] = 50.0, 500.0
    models = [learn(K, y, 2.0, loss=Huber(0.3), tol=1e-9) for y in (far, farther)]
    values = [model.decision_function(K) for model in models]
    np.testing.assert_allclose(values[0], values[1], atol=1e-3)
    squares = [learn(K, y, 2.0, loss="squared").decision_function(K) for y in (far, farther)]
    assert np.abs(squares[0] - squares[1]).max() > 1.0


class Between(Loss):
    """C Σ (low_i − f_i − b)₊ + C Σ (f_i + b − high_i)₊ for y of shape (n, 2); the slope is ``C``.

    Open ends are infinite: their bound is 0, and the row has no cost there.
    """

    target = "intervals"

    def __init__(self, slope: float = 1.0) -> None:
        self.slope = slope

    def check(self) -> None:
        if not self.slope > 0.0:
            raise ValueError(f"slope must be positive, found {self.slope}")

    def read(self, y: Any) -> Any:
        ends = np.asarray(y, float)
        if ends.ndim != 2 or ends.shape[1] != 2 or (ends[:, 0] > ends[:, 1]).any():
            raise ValueError("y must have shape (n, 2), low ends before high ones")
        pairs = np.zeros(len(ends), [("low", float), ("high", float)])
        pairs["low"], pairs["high"] = ends.T
        return pairs, np.isfinite(ends).any(axis=1)

    def lower(self, y: Any, C: Any, ridge: float = 0.0) -> DualQP:
        cost, none = self.slope * np.broadcast_to(C, y.shape), np.zeros(y.size)
        ends = np.concatenate([y["low"], y["high"]])
        known = np.isfinite(ends)
        return DualQP(
            linear=np.where(known, ends, 0.0),
            lower=np.where(known, np.concatenate([none, -cost]), 0.0),
            upper=np.where(known, np.concatenate([cost, none]), 0.0),
            n=y.size,
            ridge=ridge,
        )


def test_a_loss_owns_what_its_y_looks_like() -> None:
    """Two numbers per row, one machine: ε-insensitive where both ends are known."""
    ends = np.stack([VALUES - 0.1, VALUES + 0.1], axis=1)
    solution = learn(K, ends, 1.0, loss=Between(2.0), tol=1e-7)
    tube = learn(K, VALUES, 2.0, loss="epsilon_insensitive", epsilon=0.1, tol=1e-7)
    assert solution.coef.shape == (N,) and solution.loss.slope == 2.0
    assert solution.objective == pytest.approx(tube.objective, rel=2e-7)
    np.testing.assert_array_equal(solution.predict(K), solution.decision_function(K))

    ends[:5, 1] = np.inf
    open_ = learn(K, ends, 1.0, loss=Between(2.0), tol=1e-7)
    assert open_.certificate().gap <= 1e-7 and open_.objective <= solution.objective
    ends[5] = -np.inf, np.inf  # a row that says nothing
    without = learn(K, ends, 1.0, loss=Between(2.0), tol=1e-7)
    rest = np.delete(np.arange(N), 5)
    alone = learn(K[:, rest][:, :, rest], ends[rest], 1.0, loss=Between(2.0), tol=1e-7)
    assert without.coef[5] == 0.0 and overlap(without, alone)

    Cs = [0.5, 2.0]
    for C, one in zip(Cs, regularization_path(K, ends, Cs, loss=Between()), strict=True):
        assert one.gap <= 1e-3 and one.C == C
    judged = duality_gap(
        K, ends, without.weights, without.coef, without.bias, C=1.0, loss=Between(2.0),
        dual_alpha=without.dual_alpha,
    )  # fmt: skip
    assert judged.gap <= 1e-6


def test_what_is_no_loss_for_the_task_is_refused() -> None:
    ends = np.stack([VALUES, VALUES], axis=1)
    with pytest.raises(ValueError, match=r"loss must be one of \['epsilon.*found Between"):
        MKLRegressor(loss=Between()).fit(X, ends)
    with pytest.raises(ValueError, match=r"'radius'.* does not go with loss=Between\(\)|Radius"):
        learn(K, ends, learner="radius", loss=Between())
    with pytest.raises(ValueError, match="low ends before high"):
        learn(K, VALUES, loss=Between())
    with pytest.raises(ValueError, match="slope must be positive"):
        learn(K, ends, loss=Between(-1.0))
    with pytest.raises(ValueError, match="delta of Huber must be"):
        learn(K, VALUES, loss=Huber(0.0))
    with pytest.raises(TypeError, match=r"found the class: pass Huber\(\)"):
        learn(K, VALUES, loss=Huber)
    with pytest.raises(ValueError, match=r"C must be finite with loss=Huber\(\)"):
        learn(K, VALUES, np.inf, loss=Huber())


def test_estimators_take_a_loss_of_ones_own() -> None:
    model = MKLRegressor(loss=Huber(delta=0.5)).fit(X, VALUES)
    word = MKLRegressor(loss="huber").fit(X, VALUES)
    default = MKLRegressor(loss=Huber()).fit(X, VALUES)
    assert model.score(X, VALUES) > 0.5 and model.duality_gap_ <= 1e-3
    np.testing.assert_array_equal(word.predict(X), default.predict(X))
    assert clone(model).get_params()["loss__delta"] == 0.5
    chosen = MKLRegressorCV(loss=Huber(0.5), Cs=[0.1, 1.0], weight_norms=[1], cv=3).fit(X, VALUES)
    assert chosen.duality_gap_ <= 1e-3
    search = GridSearchCV(model, {"loss__delta": [0.1, 1.0]}, cv=2).fit(X, VALUES)
    assert search.best_params_["loss__delta"] in (0.1, 1.0)

    class Slower(Hinge):
        """Half of the cost."""

        def lower(self, y: Any, C: Any, ridge: float = 0.0) -> DualQP:
            return super().lower(y, 0.5 * np.asarray(C), ridge)

    labels = CLASS
    own = MKLClassifier(loss=Slower(), C=2.0, tol=1e-6).fit(X, labels)
    usual = MKLClassifier(C=1.0, tol=1e-6).fit(X, labels)
    assert own.objective_ == pytest.approx(usual.objective_, rel=2e-6)
