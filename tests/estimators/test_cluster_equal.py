"""Fifteen problems on a Dask cluster and on one machine: the same optimum, the same predictions."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from _helpers.small_cluster import cluster, labeled
from scipy.sparse import csr_array
from sklearn.model_selection import GridSearchCV

from kernelweave import (
    DaskStorage,
    Gaussian,
    Hamming,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    Nystroem,
    Polynomial,
)
from kernelweave._core.settings import SETTINGS
from kernelweave._core.warnings import UnseenCategory

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")

from distributed import Client  # noqa: E402

N = 210
X, LABELS, VALUES = labeled(N, 4)
X[:, 3] = np.round(X[:, 3])
CLASSES = np.digitize(VALUES, np.quantile(VALUES, [0.3, 0.7]))
WEIGHTS = np.random.default_rng(3).integers(0, 3, N).astype(float)
KERNELS = [Gaussian(1.0, relative=True), Linear()]
VIEWS = {"left": [0, 1], "right": [2, 3]}
CUTS = {1: (N,), 4: (40, 30), 2: (140, 70), 3: (100, 0, 110), 7: (5, 60, 1, 44, 50, 20, 30)}


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
    "hinge": (X[:70], LABELS[:70], bank(), 4, {}),
    "squared hinge, weighted": (
        X, LABELS, bank(), 3, {"loss": "squared_hinge", "weights": WEIGHTS},
    ),
    "three classes": (X[:70], CLASSES[:70], bank(views=VIEWS), 4, {"loss": "squared_hinge"}),
    "classes of weight": (X, LABELS, bank(), 1, {"class_weight": "balanced"}),
    "quantile": (X, VALUES, bank(normalize="sphere"), 2, {"loss": "quantile", "quantile": 0.3}),
    "learned weights": (
        X, VALUES, bank(normalize="center+trace"), 7, {"loss": "squared", "learner": "auto"},
    ),
    "absolute, weighted": (X[:70], VALUES[:70], bank(), 4, {"weights": WEIGHTS[:70]}),
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
    blocks = [given[a:b] for a, b in pairwise(ends)]
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
        values, told = (getattr(one, "decision_function", one.predict)(rows) for one in (far, near))
    ours, theirs = (np.atleast_1d(one.solution_) for one in (far, near))
    for one, other in zip(ours, theirs, strict=True):
        assert one.gap <= 1e-6
        slack = 1e-9 * abs(one.primal)  # kernels are equal up to rounding
        assert max(one.dual, other.dual) <= min(one.primal, other.primal) + slack
    if weights is not None:
        assert weights[far.support_].all()  # rows of weight 0 are not learned from
    far_off = float(np.abs(values - told).max() / max(1.0, np.abs(told).max()))
    assert far_off <= 1e-6


def test_new_rows_may_lack_what_no_training_row_did() -> None:
    """They stand at the mean of the features, of any kernel."""
    model = MKLRegressor(bank(views=VIEWS), learner="uniform", loss="squared", tol=1e-12)
    near, new = MKLRegressor(**model.get_params(deep=False)).fit(X, VALUES), holed(True)
    far = pickle.loads(pickle.dumps(model.fit(apart(X, CUTS[3]), apart(VALUES, CUTS[3]))))
    np.testing.assert_allclose(far.predict(new), near.predict(new), atol=1e-6)


def test_what_approximations_leave_bounds_the_exact_gap(monkeypatch: Any) -> None:
    monkeypatch.setattr(SETTINGS, "exact_pass", 0)  # where a pass over exact kernels is too long
    rules = "sphere", "center+trace", "center+sphere"
    for rule in rules:
        model = MKLRegressor(bank(views=VIEWS, normalize=rule), learner="uniform", loss="squared")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            near = MKLRegressor(**model.get_params(deep=False)).fit(X, VALUES, WEIGHTS).exact_gap_
            far = model.fit(apart(X, CUTS[2]), apart(VALUES, CUTS[2]), apart(WEIGHTS, CUTS[2]))
        assert far.duality_gap_ <= 1e-3 < far.exact_gap_
        assert far.exact_gap_ == pytest.approx(near, rel=0.02)  # other points prove it
    exact = bank(kernels=[Gaussian(1.0, relative=True)], views="each", approximation=None)
    far = MKLRegressor(exact, learner="uniform", loss="squared")
    far.fit(apart(X, CUTS[2]), apart(VALUES, CUTS[2]))
    assert far.exact_gap_ <= 1e-8  # nothing is left of kernels of low rank
    with pytest.raises(ValueError, match=r"full rank.*approximation="):
        far.set_params(kernels=exact.set_params(kernels=[Laplacian()])).fit(apart(X, (N,)), VALUES)


@pytest.mark.filterwarnings("ignore:Rows lack a view")
@pytest.mark.parametrize(
    ("kind", "tol", "apart_by"), [(MKLClassifierCV, 1e-4, 0.01), (MKLRegressorCV, 1e-6, 1e-6)]
)
def test_folds_choose_the_same(kind: Any, tol: float, apart_by: float) -> None:
    y = LABELS if kind is MKLClassifierCV else VALUES
    loss = "squared_hinge" if kind is MKLClassifierCV else "squared"
    asked = {"weight_norms": ["equal"], "cv": 2, "cv_tol": tol, "loss": loss}
    model = kind(bank(views=VIEWS), Cs=[0.1, 1.0], **asked)
    near = kind(**model.get_params(deep=False)).fit(holed(True), y)
    with pytest.warns(UserWarning, match="n_jobs is ignored"):
        far = model.set_params(n_jobs=2).fit(apart(holed(True), CUTS[3]), apart(y, CUTS[3]))
    assert far.best_params_ == near.best_params_ and far.duality_gap_ <= 1e-3
    name = "mean_test_score"
    np.testing.assert_allclose(far.cv_results_[name], near.cv_results_[name], atol=apart_by)
    found = far.predict(apart(X, CUTS[3]))
    assert found.numblocks == (3,) and (found.compute() == far.predict(X)).all()
    for method in ("predict_proba", "decision_function", "seen_weight"):
        if hasattr(far, method):
            told = getattr(far, method)(X)
            assert np.array_equal(getattr(far, method)(apart(X, CUTS[3])).compute(), told)
    with pytest.raises(ValueError, match=r"banks=None .* approximation="):
        kind().fit(apart(X, CUTS[3]), y)


def test_categories_that_no_training_row_had_are_told() -> None:
    frame = mixed()
    model = MKLRegressor(
        bank(kernels=[*KERNELS, Hamming()], impute="mean"), loss="squared", learner="uniform"
    )
    model.fit(apart(frame, CUTS[3]), apart(VALUES, CUTS[3]))
    new = frame.assign(kind=np.where(X[:, 2] > 3, "none", frame["kind"]))
    count = int((X[:, 2] > 3).sum())
    with pytest.warns(UnseenCategory, match=f"{count} in 'kind'"):
        told = model.predict(new)
    with pytest.warns(UnseenCategory, match=f"{int((X[:100, 2] > 3).sum())} in 'kind'"):
        found = model.predict(apart(new, CUTS[3])).compute()
    assert np.array_equal(found, told)


def test_clients_side_by_side(client: Any) -> None:
    """A storage names its client, whichever is the current one."""
    with Client(client.cluster.scheduler.address, set_as_default=False) as second:
        storage = DaskStorage(second)
        model = MKLRegressor(bank(storage=storage), loss="squared", learner="uniform", tol=1e-2)
        far = apart(X, CUTS[3])
        assert storage.read(far).cluster.client is second
        values = model.fit(far, VALUES).predict(X)
    again = model.set_params(kernels__storage="auto").fit(far, VALUES)
    assert np.array_equal(again.predict(X), values)


def test_candidates_of_a_small_table_are_tried_on_workers(client: Any) -> None:
    search = GridSearchCV(MKLClassifier([Linear()]), {"C": [0.1, 1.0]}, cv=2)
    here = search.fit(X, LABELS).cv_results_["mean_test_score"]
    with joblib.parallel_backend("dask", client=client):
        there = search.set_params(n_jobs=2).fit(X, LABELS).cv_results_["mean_test_score"]
    assert np.array_equal(here, there)
