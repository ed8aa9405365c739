"""Bach's algorithm alone: what it ends with, and that nothing else made the steps."""

from __future__ import annotations

import numpy as np
import pytest
from _helpers.references import coarse, dense, labels, qcqp_optimum, rank_one
from sklearn.exceptions import ConvergenceWarning

from kernelweave import learn
from kernelweave.learners import SkmPublished


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
