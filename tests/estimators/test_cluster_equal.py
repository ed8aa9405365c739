"""Fifteen problems on a Dask cluster and on one machine: the same optimum, the same predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _helpers.small_cluster import cluster, labeled
from scipy.sparse import csr_array

from kernelweave import (
    Gaussian,
    Hamming,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLRegressor,
    Nystroem,
    Polynomial,
)

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")

N = 210
X, LABELS, VALUES = labeled(N, 4)
X[:, 3] = np.round(X[:, 3])
CLASSES = np.digitize(VALUES, np.quantile(VALUES, [0.3, 0.7]))
WEIGHTS = np.random.default_rng(3).integers(0, 3, N).astype(float)
KERNELS = [Gaussian(1.0, relative=True), Linear()]
VIEWS = {"left": [0, 1], "right": [2, 3]}
CUTS = {1: (N,), 4: (40, 1, 29), 2: (140, 70), 3: (100, 0, 110), 7: (5, 60, 1, 44, 50, 20, 30)}


@pytest.fixture(scope="module", autouse=True)
def client() -> Iterator[Any]:
    with cluster() as found:
        yield found


def bank(**options: Any) -> KernelBank:
    given: dict[str, Any] = {"kernels": KERNELS, "approximation": Nystroem(9), **options}
    return KernelBank(**given)


def holed(whole: bool) -> np.ndarray:
    """Rows that lack a view, or single cells."""
    rng, found = np.random.default_rng(5), X.copy()
    for columns in [2, 3], [0, 1]:
        rows = rng.random(N) < 0.2
        rows &= ~np.isnan(found).any(axis=1)
        found[np.ix_(rows, columns if whole else columns[:1])] = np.nan
    return found


def mixed() -> pd.DataFrame:
    """Categories of which some partitions lack a few, one has nothing but gaps, and numbers."""
    frame = pd.DataFrame({"age": X[:, 0], "dose": X[:, 1]})
    kind = np.where(np.arange(N) < 20, "old", np.where(X[:, 2] > 3, "new", "used"))
    frame["kind"] = np.where((np.arange(N) >= 70) & (np.arange(N) < 140), None, kind)
    return frame.assign(size=pd.Series(np.where(X[:, 3] > 3, "L", "S"), dtype="category"))


SPARSE = np.where(X > 3.0, X, 0.0)
PROBLEMS: dict[str, tuple[Any, Any, Any, int, dict[str, Any]]] = {
    # what: X, y, the bank, the number of partitions, options
    "hinge": (X, LABELS, bank(), 2, {}),
    "squared hinge, weighted": (X, LABELS, bank(), 3, {"loss": "squared_hinge", "weights": WEIGHTS}),
    "three classes": (X[:70], CLASSES[:70], bank(views=VIEWS), 4, {"loss": "squared_hinge"}),
    "classes of weight": (X, LABELS, bank(), 1, {"class_weight": "balanced"}),
    "quantile": (X, VALUES, bank(normalize="sphere"), 2, {"loss": "quantile", "quantile": 0.3}),
    "learned weights": (
        X, VALUES, bank(normalize="center+trace"), 7, {"loss": "squared", "learner": "auto"},
    ),
    "absolute, weighted": (X, VALUES, bank(), 2, {"weights": WEIGHTS}),
    "huber": (X, VALUES, bank(normalize="center+sphere"), 3, {"loss": "huber"}),
    "rows lack views": (holed(True), VALUES, bank(views=VIEWS), 3, {"loss": "squared"}),
    "who has a view": (
        holed(True), LABELS, bank(views=VIEWS, missing="indicator", normalize="center+trace"), 2,
        {"loss": "squared_hinge", "weights": WEIGHTS},
    ),
    "empty cells": (holed(False), VALUES, bank(impute="median"), 7, {"loss": "squared"}),
    "means in empty cells": (
        holed(False), VALUES, bank(impute="mean", views=VIEWS), 2,
        {"loss": "squared", "weights": WEIGHTS},
    ),
    "sparse": (
        csr_array(SPARSE), LABELS, bank(kernels=[Linear(), Polynomial(2)]), 2,
        {"loss": "squared_hinge"},
    ),
    "categories": (
        mixed(), VALUES, bank(kernels=[*KERNELS, Hamming(2)], impute="mean"), 3,
        {"loss": "squared"},
    ),
    "exact factors": (
        X, LABELS, bank(kernels=[Gaussian(0.7, relative=True), Linear()], views="each",
                        approximation=None), 2, {"loss": "squared_hinge"},
    ),
}  # fmt: skip


def apart(given: Any, sizes: tuple[int, ...]) -> Any:
    """The rows in such partitions."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    blocks = [given[a:b] for a, b in zip(ends, ends[1:], strict=False)]
    if isinstance(given, pd.DataFrame):
        meta = given.iloc[:0]
        return dd.from_map(lambda number: blocks[number], range(len(blocks)), meta=meta)
    if isinstance(given, np.ndarray):
        return da.from_array(given, chunks=(sizes, *given.shape[1:]))
    from dask import delayed

    parts = [
        da.from_delayed(delayed(block), block.shape, meta=csr_array((0, 0))) for block in blocks
    ]
    return da.concatenate(parts)


@pytest.mark.parametrize("what", PROBLEMS)
def test_a_cluster_finds_the_optimum_of_one_machine(what: str) -> None:
    rows, y, kernels, cut, options = PROBLEMS[what]
    weights, more = options.get("weights"), {k: v for k, v in options.items() if k != "weights"}
    kind = MKLRegressor if y.dtype.kind == "f" else MKLClassifier
    model = kind(kernels, C=0.5, **{"learner": "uniform", "tol": 1e-12, **more})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        near = kind(**model.get_params(deep=False)).fit(rows, y, sample_weight=weights)
        sizes = CUTS[cut]
        counts = None if weights is None else apart(weights, sizes)
        far = model.fit(apart(rows, sizes), apart(y, sizes), sample_weight=counts)
        values, told = (
            getattr(one, "decision_function", one.predict)(rows) for one in (far, near)
        )
    ours, theirs = (np.atleast_1d(one.solution_) for one in (far, near))
    for one, other in zip(ours, theirs, strict=True):
        assert one.gap <= 1e-6
        slack = 1e-9 * abs(one.primal)  # kernels are equal up to rounding
        assert max(one.dual, other.dual) <= min(one.primal, other.primal) + slack
    far_off = float(np.abs(values - told).max() / max(1.0, np.abs(told).max()))
    assert far_off <= 1e-6
