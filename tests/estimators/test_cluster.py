"""Estimators on dask arrays and data frames: as on one machine with the same rows."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _helpers.small_cluster import cluster, labeled

from kernelweave import (
    Cholesky,
    DaskStorage,
    Gaussian,
    GaussianWidths,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    Nystroem,
    Polynomial,
    RandomFeatures,
    load,
)
from kernelweave.banks.normalize import RULES

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")

from kernelweave._core.dask_cluster import Cluster  # noqa: E402

N, WIDTH = 1300, 3
X, Y, VALUES = labeled(N, WIDTH)
NEW = labeled(70, WIDTH, 1)[0]
CHUNKS = (500, 0, 30, 770)
COUNTS = np.random.default_rng(3).integers(1, 4, N).astype(float)
KERNELS = [Gaussian(1.0, relative=True), Polynomial(2)]


def bank(**options: Any) -> KernelBank:
    return KernelBank(KERNELS, approximation=Nystroem(20), **options)


@pytest.fixture(scope="module", autouse=True)
def client() -> Iterator[Any]:
    with cluster() as found:
        yield found


@pytest.fixture(scope="module")
def rows() -> tuple[Any, Any, Any]:
    """X, labels and numbers on the cluster."""
    vectors = (da.from_array(one, chunks=(CHUNKS,)) for one in (Y, VALUES))
    return da.from_array(X, chunks=(CHUNKS, 2)), *vectors


@pytest.mark.parametrize("rule", [*RULES, "auto"])
def test_a_bank_learns_the_same(rows: Any, rule: str | None) -> None:
    """Widths, scales, centers and landmarks, of every normalization."""
    given = KernelBank(
        [*KERNELS, Laplacian(2.0, relative=True), Linear()],
        normalize=rule,
        approximation=Nystroem(9),
    )
    far, near = given.fit(rows[0]), given.fit(X)
    assert far.names == near.names
    for one, other in zip(far.members, near.members, strict=True):
        a, b = one.kernel.features, other.kernel.features  # type: ignore[union-attr]
        assert a.kernel == b.kernel or abs(a.kernel.width / b.kernel.width - 1.0) <= 1e-13
        np.testing.assert_allclose([a.scale, one.scale], [b.scale, other.scale], rtol=1e-10)
        if hasattr(a.features, "rows"):
            assert np.array_equal(a.features.rows.table.numbers, b.features.rows.table.numbers)
        assert (a.mean is None) == (b.mean is None)
        if a.mean is not None:
            np.testing.assert_allclose(abs(a.mean), abs(b.mean), rtol=1e-7, atol=1e-12)
    v = np.random.default_rng(0).normal(size=N)
    np.testing.assert_allclose(far.stack.quad_forms(v), near.stack.quad_forms(v), rtol=1e-8)
    np.testing.assert_allclose(far.stack.traces(), near.stack.traces(), rtol=1e-10)


def test_default_kernels_scales_and_weights_are_the_same(rows: Any) -> None:
    few = np.abs(np.random.default_rng(0).normal(size=(N, 11))) * (X[:, :1] > 5.0)
    wide = np.hstack([few, X])
    for scale in ("auto", "common", None):
        given = KernelBank(scale=scale, approximation=Nystroem(6))
        far = given.fit(da.from_array(wide, chunks=(600, 5)), sample_weight=COUNTS)
        near = given.fit(wide, sample_weight=COUNTS)
        assert far.names == near.names
        np.testing.assert_allclose(far.scales, near.scales, rtol=1e-9)


def test_three_classes_of_a_frame(rows: Any, tmp_path: Path) -> None:
    """Names in and out, a saved model, lazy predictions in the partitions of the new rows."""
    frame = pd.DataFrame(X[:200], columns=["age", "dose", "size"])
    labels = pd.Series(np.digitize(VALUES[:200], np.quantile(VALUES[:200], [0.3, 0.7])))
    far = dd.from_pandas(frame, npartitions=3), dd.from_pandas(labels, npartitions=3)
    views = {"who": ["age"], "what": ["dose", "size"]}
    model = MKLClassifier(bank(views=views), C=0.1, loss="squared_hinge", learner="uniform")
    model.fit(*far)
    assert list(model.feature_names_in_) == ["age", "dose", "size"]
    assert model.duality_gap_ <= 1e-3 and model.weights_.shape == (4,)
    model.save(tmp_path / "model.kweave")
    again = load(tmp_path / "model.kweave")
    new = pd.DataFrame(NEW, columns=frame.columns)
    assert np.array_equal(again.decision_function(new), model.decision_function(new))
    found = model.predict(far[0])
    assert isinstance(found, da.Array) and found.numblocks == (3,)
    assert np.array_equal(found.compute(), model.predict(frame))
    assert model.score(frame, labels) > 0.6
    with pytest.raises(ValueError, match="stayed on the cluster"):
        model.combined_kernel(new)


def test_predictions_are_lazy(rows: Any) -> None:
    model = MKLClassifier(bank(), learner="uniform", tol=1e-2).fit(X, Y)
    found = model.decision_function(rows[0])
    assert found.chunks == (CHUNKS,) and found.dtype == np.float64
    np.testing.assert_allclose(found.compute(), model.decision_function(X))
    assert model.predict(rows[0]).dtype.kind == "U"


def test_no_table_arrives_here(rows: Any, monkeypatch: Any) -> None:
    """The largest answer is of n numbers a few times, or the rows of a median distance."""
    plain, sizes = Cluster.get, list[int]()

    def get(self: Cluster, asked: Any) -> Any:
        before = self.received
        found = plain(self, asked)
        sizes.append(self.received - before)
        return found

    monkeypatch.setattr(Cluster, "get", get)
    n = 6000
    wide = np.random.default_rng(0).normal(size=(n, 12))
    wide[:2000:7, :6] = np.nan  # a view, and cells of another
    wide[::9, 7] = np.nan
    far = da.from_array(wide, chunks=(1500, -1))
    y = np.where(wide[:, 8] > 0, 1, 0)
    views = {"a": [*range(6)], "b": [*range(6, 12)]}
    kernels = bank(views=views, impute="median")
    with pytest.warns(UserWarning, match="Rows lack a view"):
        model = MKLClassifier(kernels, learner="uniform", tol=1e-2).fit(far, y)
    assert model.n_features_in_ == 12
    assert max(sizes) <= 8 * 4 * n


def test_files_keep_their_partitions(tmp_path: Path) -> None:
    """Dask reads many files at once where few columns are asked for, as of y."""
    rng = np.random.default_rng(0)
    for number in range(12):
        frame = pd.DataFrame(rng.normal(size=(10, 16)), columns=[f"x{j}" for j in range(16)])
        frame.assign(y=frame["x0"] * 2.0).to_parquet(tmp_path / f"{number:02d}.parquet")
    table = dd.read_parquet(tmp_path)
    model = MKLRegressor(KernelBank([Linear()]), loss="squared", learner="uniform", tol=1e-2)
    model.fit(table.drop(columns="y"), table["y"])
    found = model.predict(table.drop(columns="y"))
    assert found.numblocks == (12,)
    assert np.corrcoef(found.compute(), table["y"].compute())[0, 1] > 0.9


def test_random_features_are_the_same(rows: Any) -> None:
    waves = KernelBank([Gaussian(2.0)], approximation=RandomFeatures(30))
    far, near = (waves.fit(x).stack for x in (rows[0], X))
    np.testing.assert_allclose(far.quad_forms(VALUES), near.quad_forms(VALUES), rtol=1e-9)


def test_equal_kernels_are_left_out(rows: Any) -> None:
    given = KernelBank([Gaussian(1.0), Gaussian(1.0), Linear()], approximation=Nystroem(8))
    with pytest.warns(UserWarning, match="it equals"):
        far = given.fit(rows[0])
    with pytest.warns(UserWarning, match="it equals"):
        near = given.fit(X)
    assert far.dropped.keys() == near.dropped.keys() and far.stack.m == 2
    many = da.random.default_rng(0).normal(size=(60_000, 4), chunks=(20_000, 4))
    waves = KernelBank([Gaussian(1.0)], views="each", dtype="float32", approximation=Nystroem(6))
    assert waves.fit(many).stack.m == 4  # kernels of columns that are alike, and not equal


def test_a_plan_knows_the_workers(rows: Any) -> None:
    told = bank().plan(rows[0])
    assert told.storage == ("factor", "factor") and told.nbytes == (N * 20 * 8, N * 10 * 8)
    assert told.fits


def refused(match: str, error: type[Exception] = ValueError) -> Any:
    return pytest.raises(error, match=match)


def test_what_is_refused(rows: Any, monkeypatch: Any) -> None:
    far, labels, _ = rows
    plain = MKLClassifier(bank())
    with refused("partitioned alike: X has partitions of .500, 0, 30, 770. rows, y of .1300."):
        plain.fit(far, da.from_array(Y, chunks=N))
    with refused("has 1300 rows, but y has 10 labels"):
        plain.fit(far, Y[:10])
    with refused("is on Dask, but X is not", TypeError):
        plain.fit(X, labels)
    with refused("full rank.*approximation="):
        MKLClassifier(KernelBank(KERNELS)).fit(far, labels)
    with refused("Cholesky chooses landmarks.*use Nystroem"):
        MKLClassifier(KernelBank(KERNELS, approximation=Cholesky(5))).fit(far, labels)
    with refused("device= is for rows on this machine"):
        MKLClassifier(bank(), device="cpu").fit(far, labels)
    with refused("parameters to learn"):
        MKLClassifier(KernelBank([GaussianWidths()])).fit(far, labels)
    with refused("MKLOneClass does not take dask arrays", TypeError):
        MKLOneClass().fit(far)
    with refused("X is on this machine", TypeError):
        MKLClassifier(KernelBank(KERNELS, storage=DaskStorage())).fit(X, Y)
    holed = X.copy()
    holed[7, 1] = np.nan
    with refused(r"'x1' \(1 NaN\) among 1300 rows.*impute="):
        plain.fit(da.from_array(holed, chunks=(CHUNKS, -1)), labels)
    with refused("no rows in any of its 1 partitions"):
        plain.fit(da.zeros((0, 3)), np.zeros(0))
    with pytest.warns(UserWarning, match="n_jobs is ignored"):
        MKLClassifier(bank(), learner="uniform", n_jobs=2, tol=0.1).fit(far, labels)
    wide = {"memory_limit": 10_000}
    monkeypatch.setattr(
        type(DaskStorage().read(far).cluster.client),
        "scheduler_info",
        lambda self, **_: {"workers": {"a": wide}},
    )
    with refused("workers hold .* fewer features", MemoryError):
        plain.fit(far, labels)


def test_a_storage_never_pickles_its_client(client: Any, rows: Any) -> None:
    storage = DaskStorage(client, timeout=20.0)
    again = pickle.loads(pickle.dumps(storage))
    assert again.client is None and again.timeout == 20.0
    model = MKLClassifier(bank(storage=storage), learner="uniform", tol=1e-2).fit(*rows[:2])
    assert pickle.loads(pickle.dumps(model)).bank_.n_rows == len(model.support_)
