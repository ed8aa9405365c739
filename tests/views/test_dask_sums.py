"""Columns of partitions, put together: as of all rows on one machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernelweave._core.dask_cluster import added
from kernelweave.views import dask_sums, weighted
from kernelweave.views.table import Table


class Here:
    """A cluster whose only worker is this process."""

    def map(self, work: Callable[..., Any], parts: list[Any], *each: Any) -> list[Any]:
        """What each part gives."""
        more = [one if isinstance(one, list) else [one] * len(parts) for one in each]
        return [work(*given) for given in zip(parts, *more, strict=True)]

    def sum(self, terms: list[Any]) -> Any:
        """All of them, added up."""
        return added(terms)

    def get(self, found: Any) -> Any:
        """What is here already."""
        return found


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_medians_by_their_bits(n: int, counted: bool) -> None:
    rng = np.random.default_rng(n)
    x = np.column_stack(
        [
            rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n),
            rng.integers(-1, 2, n) * 1.0,
            np.where(rng.random(n) < 0.5, -0.0, 5e-324),
            -np.abs(rng.normal(size=n)),
            np.where(np.arange(n) % 3 == 1, np.nan, rng.normal(size=n)),
        ]
    )
    weights = rng.integers(1, 5, n).astype(float) if counted else None
    cuts = [slice(0, n // 2), slice(n // 2, n)]
    parts = [Table.read(x[cut]) for cut in cuts if cut.stop > cut.start]
    counts = [None if weights is None else weights[cut] for cut in cuts if cut.stop > cut.start]
    here: Any = Here()
    found = dask_sums.medians(here, parts, counts, x.shape[1])
    for column, value in zip(x.T, found, strict=True):
        known = ~np.isnan(column)
        told = weighted.median(column[known], None if weights is None else weights[known])
        assert value == told or value == pytest.approx(told, rel=1e-15)


def test_what_parts_see_is_what_the_whole_sees() -> None:
    nan = np.nan
    cells = [
        [1.0, nan, "a", "c"],
        [2.0, nan, None, "c"],
        [nan, 3.0, "b", "c"],
        [0.0, 3.0, None, "c"],
    ]
    parts = [Table.read(np.array(cells[a:b], object)) for a, b in ((0, 1), (1, 2), (2, 4))]
    numeric = np.array([True, True, False, False])
    parts = [dask_sums.agreed(part, numeric) for part in parts]
    told = dask_sums.together([dask_sums.seen(part) for part in parts])
    whole = dask_sums.seen(Table.read(np.array(cells, object)))
    assert told.rows == 4 and told.kinds == whole.kinds == ("number", "number", "string", "string")
    for name in ("numeric", "missing", "infinite", "least", "most", "same"):
        np.testing.assert_array_equal(getattr(told, name), getattr(whole, name), name)
