"""One factor of several kernels: what it computes is what the array computes."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave._core.settings import SETTINGS
from kernelweave.stacks.factor import JoinedFactor, beside


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("block", [7, 2**20])
def test_products_are_those_of_the_array(kind: type, block: int, monkeypatch) -> None:
    monkeypatch.setattr(SETTINGS, "block", block)
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((r, 31)).astype(kind) for r in (3, 0, 5)]
    scale = rng.uniform(0.1, 2.0, 8)
    F = JoinedFactor(parts, scale)
    array = (np.vstack(parts).astype(float) * scale[:, None]).T
    assert F.shape == (31, 8) and F.array().dtype == np.float64
    factors = [(F, array)]
    factors.append((beside([F], [3.0]), 3.0 * array))
    factors.append((beside([F, beside([F], [2.0])], [1.0, 0.5]), np.hstack([array, array])))
    rows = rng.permutation(31)[:9]
    v, V, weights = rng.standard_normal(31), rng.standard_normal((31, 2)), rng.random(31)
    for F, array in factors:
        z = rng.uniform(0.1, 2.0, array.shape[1])
        assert F.shape == array.shape
        for found, expected in (
            (F.array(), array),
            (F.array(rows), array[rows]),
            (F.take(rows).array(), array[rows]),
            (F.take(rows).onto(v[rows]), array[rows].T @ v[rows]),
            (F.onto(v), array.T @ v),
            (F.onto(V), array.T @ V),
            (F.times(z), array @ z),
            (F.times(F.onto(V)), array @ (array.T @ V)),
            (F.gram(weights), (array.T * weights) @ array),
            (F.sizes(), (array**2).sum(axis=1)),
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_nothing_is_copied() -> None:
    part = np.ones((2, 5))
    F = JoinedFactor([part], np.ones(2))
    assert np.shares_memory(F.parts[0], part) and beside([F], [1.0]) is F
    assert beside([F], [2.0]).parts[0] is F
