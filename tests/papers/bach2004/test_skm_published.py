"""Bach's algorithm alone: what it ends with, and that nothing else made the steps."""

from __future__ import annotations

import numpy as np
import pytest
from _helpers.references import coarse, dense, labels, qcqp_optimum, rank_one
from sklearn.exceptions import ConvergenceWarning

from kernelweave import learn
from kernelweave.learners import SkmPublished
from kernelweave.papers.bach2004._few import Machines


@pytest.mark.parametrize("make", [dense, rank_one, coarse], ids=lambda f: f.__name__)
@pytest.mark.parametrize("C", [1.0, 10.0])
def test_it_ends_optimal_by_the_papers_own_rule(make, C: float) -> None:
    """(ε₁, ε₂) judged from the pair it returns, with code that knows nothing of the learner."""
    problem = make(2)
    n = problem.y.size
    found = learn(problem.K, problem.y, C=C, learner="skm_published")
    assert found.status == "rule_met" and set(found.history["by"]) == {"smo"}
    alpha, eta = found.extras["alpha"], found.extras["eta"]
    v = problem.y * alpha
    assert eta.min() >= 0.0 and eta.sum() == pytest.approx(1.0, abs=1e-9)
    levels = 0.5 * np.array([v @ K @ v for K in problem.K])
    assert levels.max() - levels[eta > 0.0].min() <= n * 5e-4 * (1 + 1e-9)
    g = problem.y - np.tensordot(eta, problem.K, 1) @ v
    up = np.where(problem.y > 0, alpha < C, alpha > 0.0)
    down = np.where(problem.y > 0, alpha > 0.0, alpha < C)
    assert g[up].max() <= g[down].min() + 2e-4 * (1 + 1e-6)
    best = qcqp_optimum(problem.K, problem.y, C)
    assert found.dual <= best * (1 + 1e-6) and found.primal >= best * (1 - 1e-6)
    assert found.primal == pytest.approx(best, rel=2e-3)


def test_kappa_is_halved_from_one() -> None:
    """The first machine is the SVM on the sum of the kernels; looser rules end it sooner."""
    problem = dense(0, n=40, m=5)
    kappas = []
    for eps in (1e9, 1e-1, 1e-2, 1e-3):
        learner = SkmPublished(eps1=eps, eps2=eps)
        kappas.append(learn(problem.K, problem.y, C=1.0, learner=learner).extras["kappa"])
    assert kappas[0] == 1.0 and kappas == sorted(kappas, reverse=True) and kappas[-1] < 0.1
    assert np.log2(kappas) == pytest.approx(np.round(np.log2(kappas)))


@pytest.mark.filterwarnings("ignore:the duality gap")
def test_an_iteration_is_bounded() -> None:
    """Pair steps along a kernel of rank one, C = 1e12: they went on for minutes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(17, 3))
    K = np.array([np.outer(x, x) for x in X.T] + [X @ X.T])
    y = np.where(rng.random(17) < 0.5, -1.0, 1.0)
    found = learn(K, y, C=1e12, loss="squared_hinge", learner="skm_published", max_iter=1)
    assert 1e6 < found.extras["pair_steps"] <= 1.1e7 and np.isfinite(found.primal)


def test_the_first_machine_is_the_svm_on_the_sum() -> None:
    problem = dense(0, n=40, m=5)
    learner = SkmPublished(eps1=1e9, eps2=1e-6)
    total = 5.0 * problem.K.mean(axis=0)
    best = learn(total[None], problem.y, C=1.0, learner="uniform", tol=1e-10).primal
    with pytest.warns(ConvergenceWarning):
        found = learn(problem.K, problem.y, C=1.0, learner=learner, max_iter=1)
    v = problem.y * found.extras["alpha"]
    assert found.extras["kappa"] == 1.0
    assert np.abs(v).sum() - 0.5 * v @ total @ v == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("keeps_C", [True, False])
@pytest.mark.parametrize("search", ["newton", "brent"])
def test_brent_and_the_schedule_as_printed(search: str, keeps_C: bool) -> None:
    """With d_j = 1 − κ the pair solves the machine of C/(1 − κ)²: optimality judged with these."""
    problem = dense(3)
    learner = SkmPublished(search=search, keeps_C=keeps_C)
    found = learn(problem.K, problem.y, C=2.0, learner=learner)
    alpha, eta, kappa = (found.extras[key] for key in ("alpha", "eta", "kappa"))
    d = 1.0 if keeps_C else 1.0 - kappa
    v, n = problem.y * alpha, problem.y.size
    assert found.status == "rule_met" and kappa < 1.0
    assert d * d * eta.sum() == pytest.approx(1.0, abs=1e-9)
    levels = 0.5 * np.array([v @ K @ v for K in problem.K]) / d**2
    assert levels.max() - levels[eta > 0.0].min() <= n * 5e-4 * (1 + 1e-9)
    g = problem.y - np.tensordot(eta, problem.K, 1) @ v
    up = np.where(problem.y > 0, alpha < 2.0, alpha > 0.0)
    down = np.where(problem.y > 0, alpha > 0.0, alpha < 2.0)
    assert g[up].max() <= g[down].min() + 2e-4 * (1 + 1e-6)
    # v/d² solves the problem whose C is so much larger; (D) is in α, its value that of J
    best = qcqp_optimum(problem.K, problem.y, 2.0 / d**2)
    assert alpha.sum() / d**2 - levels.max() / d**2 == pytest.approx(best, rel=2e-3)
    own = qcqp_optimum(problem.K, problem.y, 2.0)
    assert found.dual <= own * (1 + 1e-6) and found.primal >= own * (1 - 1e-6)


def test_a_machine_begins_with_the_kernels_that_had_a_weight(monkeypatch) -> None:
    """Else v would leave for the machine of one kernel, and pair steps come back slowly."""
    began, weighted = [], []
    plain = Machines.solve

    def spy(self, kernels, a, d, start, tol, kkt_tol):
        inner, taken = plain(self, kernels, a, d, start, tol, kkt_tol)
        began.append(set(kernels.tolist()))
        weighted.append(set(taken[inner.parts.eta > 0.0].tolist()))
        return inner, taken

    monkeypatch.setattr(Machines, "solve", spy)
    problem = dense(4, n=60, m=8)
    found = learn(problem.K, problem.y, C=5.0, learner="skm_published")
    assert len(began) > 4 and len(weighted[-1]) > 2
    assert all(now >= last for now, last in zip(began[2:], weighted[1:], strict=False))
    assert found.extras["pair_steps"] > 0 and found.extras["row_misses"] > 0
    assert found.extras["rows_computed"] >= len(problem.K)


def test_a_hard_margin_that_is_not_there() -> None:
    rng = np.random.default_rng(0)
    y, X = labels(rng, 40), rng.standard_normal((40, 2))
    K = np.stack([np.outer(x, x) for x in X.T])
    with pytest.raises(ValueError, match="do not separate"):
        learn(K, y, C=np.inf, learner="skm_published")


def test_wrong_arguments() -> None:
    problem = dense(0)
    with pytest.raises(ValueError, match="mu must lie between 0 and 1, found 1"):
        learn(problem.K, problem.y, learner=SkmPublished(mu=1.0))
    with pytest.raises(ValueError, match="eps2"):
        learn(problem.K, problem.y, learner=SkmPublished(eps2=0.0))
    with pytest.raises(ValueError, match="search must be"):
        learn(problem.K, problem.y, learner=SkmPublished(search="golden"))
    with pytest.raises(TypeError, match="keeps_C"):
        learn(problem.K, problem.y, learner=SkmPublished(keeps_C=1))
