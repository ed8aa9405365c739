"""The Hessian of J is the same from an array and from a factor."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave import learn
from kernelweave._core.settings import SETTINGS
from kernelweave._solvers.svm.curvature import hessian_factor
from kernelweave.problems.losses import hinge, squared_hinge
from kernelweave.stacks.dense import DenseCombined
from kernelweave.stacks.factor import JoinedFactor
from kernelweave.stacks.factors import FactorCombined, FactorStack
from kernelweave.stacks.identity import Changed

rng = np.random.default_rng(5)


class ManyPoints(FactorStack):
    """As if n were too large for K(d) to be written out."""

    most_dense = 0


@pytest.mark.parametrize("make", [hinge, squared_hinge])
@pytest.mark.parametrize("tau", [0.0, 0.3])
def test_factor_and_array_give_one_hessian(make: object, tau: float) -> None:
    """The products lie in the range of the factor, as those of kernels with a weight do."""
    n, R = 60, 7
    G, w = rng.normal(size=(R, n)), rng.uniform(0.1, 2.0, R)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    qp, low = make(y, np.full(n, 2.0)), FactorCombined(JoinedFactor.of(G.T), w)
    free = np.sort(rng.permutation(n)[:40])
    products = (rng.normal(size=(4, R)) @ G)[:, free]
    kernel = Changed(low, ridge=tau)
    block = Changed(DenseCombined(low.written_out()), ridge=tau)
    found, expected = (
        B.T @ B for B in (hessian_factor(K, qp, free, products, 1e-6) for K in (kernel, block))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


def test_many_free_rows_of_a_factor_have_a_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the block of all free rows would be too large, newton still has second order."""
    from kernelweave._solvers.svm import curvature

    monkeypatch.setattr(SETTINGS, "free_rows", 5)
    n = 300
    stack = ManyPoints([rng.normal(size=(n, 3)) for _ in range(6)])
    y = np.where(stack.factor(0)[:, 0] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    seen: list[bool] = []
    whole = curvature.half_inverse

    def counted(*args: object) -> object:
        found = whole(*args)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(curvature, "half_inverse", counted)
    asked = {"C": 1.0, "learner": "newton", "loss": "squared_hinge", "tol": 1e-5}
    solution = learn(stack, y, **asked)
    written_out = FactorStack([stack.factor(k) for k in range(6)])
    assert solution.gap <= 1e-5
    assert solution.n_iter <= learn(written_out, y, **asked).n_iter + 3
    assert seen and all(seen)
