"""Sets of columns that overlap: the kernels of matrices, from columns that are kept once."""

from __future__ import annotations

import numpy as np
import pytest

import kernelweave as kw
from kernelweave._core.settings import SETTINGS
from kernelweave.stacks.column_sets import ColumnSets

RNG = np.random.default_rng(0)
X = 3.0 + RNG.standard_normal((120, 40)) * RNG.lognormal(size=40)
Y = np.where(X[:, :8].sum(axis=1) > np.median(X[:, :8].sum(axis=1)), 1, -1)
SETS = {f"set {k}": RNG.choice(40, size, replace=False).tolist() for k, size in enumerate([9] * 20)}
SETS["again"] = SETS["set 3"][::-1]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "one_matrix", 1000)


@pytest.mark.parametrize("scale", ["standard", "common", None])
@pytest.mark.parametrize("normalize", ["trace", "center+trace", "unit_trace", None])
def test_the_kernels_are_those_of_matrices(
    large: None, scale: str | None, normalize: str | None
) -> None:
    options = {"views": SETS, "scale": scale, "normalize": normalize}
    weights = RNG.integers(1, 4, len(X)) if scale == "standard" else None
    with pytest.warns(UserWarning, match=r"it equals 'Linear\(\) on set 3"):
        found, known = (
            kw.KernelBank([kw.Linear()], storage=storage, **options).fit(X, sample_weight=weights)
            for storage in ("auto", "dense")
        )
    assert isinstance(found.stack, ColumnSets) == (scale != "common")
    assert found.stack.m == 20
    every = np.arange(len(X))
    for k in range(20):
        np.testing.assert_allclose(
            found.stack.block(k, every, every),
            known.stack.block(k, every, every),
            atol=1e-12,
            rtol=1e-11,
        )


def test_a_fit_beside_other_kernels_is_the_same(large: None) -> None:
    kernels = [kw.Linear(), ("wide", kw.Gaussian(2.0), [0, 1])]
    models = []
    with pytest.warns(UserWarning, match="left out"):
        for storage in ("auto", "dense"):
            bank = kw.KernelBank(kernels, views=SETS, storage=storage)
            models.append(kw.MKLClassifier(bank, tol=1e-8).fit(X, Y))
    first, second = (model.decision_function(X[:5]) for model in models)
    np.testing.assert_allclose(first, second, atol=1e-5)
    assert models[0].duality_gap_ <= 1e-8


def test_the_forecast_names_them(large: None) -> None:
    told = kw.KernelBank([kw.Linear()], views=SETS).plan(X)
    assert set(told.storage) == {"shared columns"}
    assert "21 in shared columns" in str(told)
