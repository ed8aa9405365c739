"""Where rows are many and have no array, weights of a sample are where a fit begins."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave import Gaussian, KernelBank, KernelStack, MKLClassifier, learn, solving
from kernelweave._core.settings import SETTINGS
from kernelweave.estimators._fit import FitOptions
from kernelweave.learners.newton import Newton
from kernelweave.machines.evaluator import Evaluator
from kernelweave.problems.problem import make_problem
from kernelweave.stacks.factors import FactorStack
from kernelweave.stacks.lazy import LazyStack

N = 600


class ManyPoints(FactorStack):
    """As if n were too large for K(d) to be written out."""

    most_dense = 0


def problem(kind: str):
    rng = np.random.default_rng(3)
    factors = [rng.normal(size=(N, 4)) for _ in range(6)]
    signal = factors[1] @ rng.normal(size=4) + 0.5 * factors[4] @ rng.normal(size=4)
    target = signal + 0.8 * rng.normal(size=N)
    K = np.stack([F @ F.T for F in factors])
    if kind == "factors":
        return ManyPoints(factors), K, target
    diagonals = np.einsum("kii->ki", K)
    return LazyStack(lambda k, a, b: K[k][np.ix_(a, b)].copy(), diagonals), K, target


@pytest.mark.parametrize("kind", ["factors", "on demand"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "epsilon_insensitive"])
def test_the_certificate_is_over_all_rows(kind: str, loss: str, monkeypatch) -> None:
    monkeypatch.setattr(SETTINGS, "sample_least", 100)
    monkeypatch.setattr(SETTINGS, "sample_rows", 100)
    monkeypatch.setattr(SETTINGS, "sample_rows_of_factors", 100)
    sizes = []
    real = Evaluator.solve
    monkeypatch.setattr(
        Evaluator,
        "solve",
        lambda self, *a, **k: (sizes.append(self.stack.n), real(self, *a, **k))[1],
    )
    stack, K, target = problem(kind)
    y = target if loss == "epsilon_insensitive" else np.where(target > 0.0, 1.0, -1.0)
    found = learn(stack, y, C=0.5, loss=loss, tol=1e-3)
    assert set(sizes) == {100, N} and found.gap <= 1e-3
    assert found.n_svm_solves == sizes.count(N)
    sizes.clear()
    exact = learn(KernelStack(K), y, C=0.5, loss=loss, tol=1e-6)
    assert 100 not in sizes
    assert found.dual <= exact.primal and exact.dual <= found.primal


def test_a_sample_asks_for_the_same_weights() -> None:
    """Slacks cost more by as much as rows are fewer: rows that repeat change nothing."""
    rng = np.random.default_rng(4)
    F = rng.normal(size=(40, 3))
    y = np.where(F[:, 0] + 0.5 * rng.normal(size=40) > 0.0, 1.0, -1.0)
    twice = FactorStack([np.vstack([F[:, :1]] * 2), np.vstack([F[:, 1:]] * 2)])
    whole = make_problem(twice, np.tile(y, 2), 0.3)
    part = whole.on_sample(np.arange(40))
    newton = Newton()
    assert solving.solve(part, newton, 1e-8).primal == pytest.approx(
        solving.solve(whole, newton, 1e-8).primal, rel=1e-6
    )


def test_arrays_have_a_ladder_of_samples(monkeypatch) -> None:
    monkeypatch.setattr(SETTINGS, "sample_least", 30)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=600) > 0.0, 1.0, -1.0)
    stack = KernelBank([Gaussian(w) for w in (0.5, 1.0, 2.0, 4.0)]).fit(X).stack
    sizes = []
    real = Evaluator.solve
    monkeypatch.setattr(
        Evaluator,
        "solve",
        lambda self, *a, **k: (sizes.append(self.stack.n), real(self, *a, **k))[1],
    )
    found = learn(stack, y, tol=1e-4)
    assert list(dict.fromkeys(sizes)) == [37, 150, 600] and found.gap <= 1e-4
    assert found.n_svm_solves == sizes.count(600)
    sizes.clear()
    learn(stack, y, tol=1e-4, start=np.full(4, 0.25))
    assert set(sizes) == {600}


def test_random_state_seeds_what_is_drawn() -> None:
    seeds = [
        FitOptions.of(MKLClassifier(random_state=state)).seed for state in (None, None, 1, 1, 2)
    ]
    assert seeds[0] == seeds[1]
    assert seeds[2] == seeds[3]
    assert len(set(seeds)) == 3
