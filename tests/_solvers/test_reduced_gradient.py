"""SimpleMKL's iteration: its direction, and weights that never leave the simplex."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from _helpers.references import dense

from kernelweave import learn
from kernelweave._solvers import reduced_gradient
from kernelweave.papers.rakoto2007.simple import Simple


@pytest.mark.parametrize("seed", range(5))
def test_the_direction_stays_on_the_simplex_and_descends(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gradient = -rng.random(9)
    e = np.maximum(rng.standard_normal(9), 0.0)
    D = reduced_gradient.reduced(e, gradient, int(np.argmax(e)))
    assert abs(D.sum()) <= 1e-14 and D @ gradient < 0.0
    assert (D[e == 0.0] >= 0.0).all()


@pytest.mark.parametrize("seed", range(4))
def test_steps_of_the_journal_do_not_leave_the_simplex(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the weight that all others are compared with is the first to reach zero."""
    sums: list[float] = []
    project = reduced_gradient._on_simplex

    def told(e: np.ndarray, small: float) -> np.ndarray:
        sums.append(float(e.sum()))
        return project(e, small)

    monkeypatch.setattr(reduced_gradient, "_on_simplex", told)
    problem = dense(seed, n=40, m=8)
    # as vᵀ11ᵀv = 0 two kernels say little; of equal weights the first counts as the largest
    problem.K[0] = 0.9 + 0.1 * problem.K[1]
    problem.K[-1] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = learn(
            *(problem.K, problem.y),
            **{"C": 10.0, "tol": 1e-3, "max_iter": 20},
            learner=Simple(drop=True, finish=False),
        )
    assert found.history["weights"][1][0] == 0.0  # dropped in the first iteration
    assert len(sums) > 5 and np.abs(np.array(sums) - 1.0).max() <= 1e-12
