"""Which method solves a machine: what "auto" picks, and what may be asked for."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave import Gaussian, KernelBank, KernelStack, Linear, MKLClassifier, learn
from kernelweave._solvers.svm import choice, chunks, interior_point, smo
from kernelweave.problems.losses import hinge
from kernelweave.stacks.factors import FactorStack
from kernelweave.stacks.lazy import LazyStack

METHODS = {
    "smo": (smo, "solve"),
    "interior_point": (interior_point, "_driven"),
    "chunks": (chunks, "solve"),
}
rng = np.random.default_rng(1)
FACTORS = [rng.normal(size=(120, 3)) for _ in range(4)]
Y = np.where(FACTORS[1][:, 0] + 0.7 * rng.normal(size=120) > 0.0, 1.0, -1.0)
K = np.stack([F @ F.T for F in FACTORS])


def on_demand() -> LazyStack:
    return LazyStack(lambda k, a, b: K[k][np.ix_(a, b)].copy(), np.einsum("kii->ki", K))


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("make", [lambda: FactorStack(FACTORS), on_demand])
def test_the_method_asked_for_is_used_and_proves_the_same(solver, make, monkeypatch) -> None:
    stack, calls = make(), []
    for name, (module, entry) in METHODS.items():
        real = getattr(module, entry)
        monkeypatch.setattr(
            module, entry, lambda *a, n=name, r=real, **k: (calls.append(n), r(*a, **k))[1]
        )
    found = learn(stack, Y, C=1.0, tol=1e-5, solver=solver)
    assert set(calls) == {solver}
    exact = learn(KernelStack(K), Y, C=1.0, tol=1e-7)
    assert found.gap <= 1e-5 and found.dual <= exact.primal and exact.dual <= found.primal


def test_an_interior_point_needs_slacks_that_have_a_price() -> None:
    with pytest.raises(ValueError, match=r"needs a finite C; solver='auto'"):
        learn(on_demand(), Y, C=np.inf, solver="interior_point")


def test_auto_goes_by_the_form_and_the_rank() -> None:
    class ManyPoints(FactorStack):
        most_dense = 0

    weights, qp = np.ones(4), hinge(Y, 1.0)
    assert choice.choose(FactorStack(FACTORS).combined(weights), qp) == "smo"
    assert choice.choose(on_demand().combined(weights), qp) == "chunks"
    assert choice.choose(ManyPoints(FACTORS).combined(weights), qp) == "interior_point"
    wide = ManyPoints([rng.normal(size=(120, 500))])
    assert choice.choose(wide.combined([1.0]), qp) == "chunks"


def test_estimators_hand_it_on() -> None:
    X = rng.normal(size=(150, 3))
    y = np.where(X[:, 0] > 0.0, 1, -1)
    bank = KernelBank([Gaussian(1.0), Linear()], views="each", storage="factors")
    scores = [MKLClassifier(bank, solver=s).fit(X, y).duality_gap_ for s in METHODS]
    assert max(scores) <= 1e-3
    with pytest.raises(ValueError, match=r"solver must be one of .* found 'libsvm'"):
        MKLClassifier(bank, solver="libsvm").fit(X, y)
