"""Parts of views and columns add up, on every estimator and normalization; nearest rows."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from kernelweave import (
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    Nystroem,
    Polynomial,
    TransductiveMKLClassifier,
    load,
)
from kernelweave.banks.gradients import gradient
from kernelweave.banks.normalize import RULES
from kernelweave.inspection import explain
from kernelweave.views.table import Table

rng = np.random.default_rng(4)
N = 40
X = pd.DataFrame(rng.normal(size=(N, 6)) * [1.0, 2.0, 1.0, 0.2, 1.0, 1.0], columns=list("abcdef"))
X["kind"] = pd.Categorical(np.where(X["a"] + rng.normal(size=N) > 0, "u", "v"))
GAPS = X.copy()
GAPS.loc[:7, ["a", "b"]] = np.nan
GAPS.loc[3:12, "kind"] = None
GAPS.loc[20, "c"] = np.nan
VIEWS = {"one": ["a", "b"], "two": ["c", "d", "kind"], "three": ["e", "f", "c"]}
THREE = np.digitize(X["a"] + X["c"] ** 2, [0.0, 1.5])
YES = np.where(X["a"] + X["c"] > 0, "yes", "no")
TASKS = {
    "two classes": (MKLClassifier, {}, YES),
    "classes": (MKLClassifier, {}, THREE),
    "own weights": (MKLClassifier, {"shared_weights": False}, THREE),
    "pairs": (MKLClassifier, {"multi_class": "ovo", "shared_weights": False}, THREE),
    "numbers": (MKLRegressor, {}, 1e3 * X["a"].to_numpy() - 7e4),
    "several numbers": (MKLRegressor, {}, X[["a", "c"]].to_numpy() * 1e-3),
    "one class": (MKLOneClass, {}, None),
    "chosen": (MKLClassifierCV, {"Cs": [1.0], "cv": 2}, YES),
}


def adds_up(found, values):
    """The parts are the decision value, to 1e-12 of the sum of their absolute values."""
    total = found.baseline + found.parts.sum(axis=2)
    size = np.abs(found.baseline) + np.abs(found.parts).sum(axis=2)
    assert (np.abs(total - values) <= 1e-12 * size).all()


@pytest.mark.filterwarnings("ignore::kernelweave._core.warnings.LacksView")
@pytest.mark.parametrize("rule", [*RULES, "auto"])
@pytest.mark.parametrize("task", TASKS)
def test_parts_add_up(task, rule):
    make, options, y = TASKS[task]
    views = VIEWS
    if make is MKLOneClass:
        if str(rule).startswith("center"):
            pytest.skip("refused: nothing is told from the mean")
        views = {"one": ["a", "b"], "two": ["c", "d"], "three": ["e", "f"]}
    model = make(KernelBank(views=views, normalize=rule, impute="median"), **options)
    model.fit(GAPS, y)
    model = getattr(model, "best_estimator_", model)
    new = pd.concat([GAPS.iloc[:6], GAPS.iloc[18:22]])
    values = model._values(new)
    found = explain(model, new, columns=False)
    adds_up(found, values)
    lacks = np.flatnonzero(new["a"].isna())
    assert lacks.size and not found.parts[lacks][:, :, found.views.index("one")].any()
    np.testing.assert_allclose(found.values, values, rtol=0, atol=1e-12 * np.abs(values).max())
    assert found.machines and len(found.machines) == values.shape[1]
    restored = pickle.loads(pickle.dumps(model))
    adds_up(explain(restored, new, columns=False), values)


@pytest.mark.parametrize("rule", ["trace", "sphere", "center+trace", "center+sphere", None])
def test_columns_add_up_to_their_view(rule):
    kernels = [Gaussian(0.5, relative=True), Polynomial(2), Linear()]
    views = {"one": ["a", "b"], "three": ["e", "f", "c"]}
    model = MKLClassifier(KernelBank(kernels, views, rule, impute="median"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(GAPS, YES)
    new = GAPS.iloc[[0, 15, 20, 30]]
    found = explain(model, new)
    adds_up(found, model._values(new))
    table = found.by_column()
    assert set(table["how"]) == {"integrated"}
    for place, view in enumerate(found.views):
        own = table[table["view"] == view]
        total = own.groupby("row")["part"].sum().to_numpy()
        np.testing.assert_allclose(total, found.parts[:, 0, place], rtol=1e-9, atol=1e-12)
        # what the row of all means adds is the same for all rows that have the view
        means = own[own["column"] == "(all means)"]["part"].to_numpy()
        has = found.parts[:, 0, place] != 0.0
        np.testing.assert_allclose(
            means[has], means[has][0], rtol=0, atol=1e-6 * np.abs(found.parts[:, 0, place]).max()
        )


def test_linear_columns_are_coefficients_times_distance_from_the_mean():
    plain = X[list("abcd")].to_numpy()
    model = MKLClassifier(KernelBank([Linear()], scale=None)).fit(plain, YES)
    found = explain(model, plain[:5])
    coefficients = model.raw_weights_[0] * model.dual_coef_[0] @ plain[model.support_]
    expected = (plain[:5] - plain.mean(axis=0)) * coefficients
    got = np.array([cell.parts[:, 0] for cell in found.cells]).T
    np.testing.assert_allclose(got, expected, atol=1e-10)
    np.testing.assert_allclose(found.parts[:, 0, 0], expected.sum(axis=1), atol=1e-10)


def test_laplacian_paths_have_kinks():
    plain = X[list("abc")].to_numpy()
    model = MKLClassifier([Laplacian(2.0)]).fit(plain, YES)
    found = explain(model, plain[:2])
    total = sum(cell.parts for cell in found.cells)[:, 0]
    values = model._values(np.vstack([plain[:2], plain.mean(axis=0)]))[:, 0]
    np.testing.assert_allclose(total, values[:2] - values[2], atol=1e-6 * np.abs(total).max())
    bank, table = model.bank_, Table.read(plain)
    mean, (nodes, shares) = plain.mean(axis=0), np.polynomial.legendre.leggauss(5)
    for row in range(2):  # exactly, from one kink to the next
        kinks = ((plain - mean) / (plain[row] - mean)).ravel()
        ends = np.unique(np.clip([0.0, 1.0, *kinks], 0.0, 1.0))
        t = (ends[:-1, None] + np.diff(ends)[:, None] * (nodes + 1.0) / 2.0).ravel()
        points = table.read(mean + t[:, None] * (plain[row] - mean))
        steep = gradient(bank, points, model.weights_, model.dual_coef_[0])
        sizes = (np.diff(ends)[:, None] * shares / 2.0).ravel()
        exact = (plain[row] - mean) * (sizes @ steep)
        got = [cell.parts[row, 0] for cell in found.cells]
        np.testing.assert_allclose(got, exact, atol=5e-3 * np.abs(exact).max())


def test_categories_are_local():
    model = MKLClassifier(KernelBank(views={"one": ["a", "b"], "two": ["c", "kind"]})).fit(X, YES)
    found = explain(model, X[:6])
    how = {found.columns[cell.column]: cell.how for cell in found.cells}
    assert how.get("kind", "local") == "local" and how["a"] == "integrated"
    kind = next((cell for cell in found.cells if cell.how == "local"), None)
    if kind is not None:
        same = X["kind"][:6] == "u"
        assert np.ptp(kind.parts[same, 0]) < 1e-9


def test_nearest_rows_under_the_learned_kernel():
    model = MKLClassifier(KernelBank([Gaussian(1.0, relative=True)])).fit(X[list("abc")], YES)
    found = explain(model, X[list("abc")][:4], columns=False, n_nearest=3)
    K = model.combined_kernel(X[list("abc")])
    apart = np.diagonal(K)[:4, None] - 2 * K[:4] + np.diagonal(K)
    np.testing.assert_array_equal(found.nearest, np.argsort(apart, axis=1, kind="stable")[:, :3])
    np.testing.assert_array_equal(found.nearest[:, 0], np.arange(4))
    np.testing.assert_allclose(found.similarity[:, 0], np.diagonal(K)[:4])


@pytest.mark.filterwarnings("ignore::kernelweave._core.warnings.LacksView")
@pytest.mark.parametrize("rule", ["center+sphere", "sphere"])
def test_nearest_rows_where_rows_lack_views(rule):
    model = MKLClassifier(KernelBank(views=VIEWS, normalize=rule, impute="median"))
    model.fit(GAPS, YES)
    K = model.combined_kernel(GAPS)
    found = explain(model, GAPS, columns=False, n_nearest=1)
    nearest = (np.diagonal(K) - 2 * K).argmin(axis=1)
    np.testing.assert_array_equal(found.nearest[:, 0], nearest)
    assert (found.seen < 1.0).any() and (found.seen > 0.999).any()
    restored = pickle.loads(pickle.dumps(model))
    assert set(explain(restored, GAPS, columns=False).nearest.ravel()) <= set(model.support_)


def test_files_matrices_sparse_rows_and_features(tmp_path):
    plain = X[list("abcd")].to_numpy()
    model = MKLClassifier(KernelBank(views={"one": [0, 1], "two": [2, 3]})).fit(plain, YES)
    model.save(tmp_path / "model.kweave")
    adds_up(explain(load(tmp_path / "model.kweave"), plain[:3]), model._values(plain[:3]))
    K = [plain[:, :2] @ plain[:, :2].T, plain[:, 2:] @ plain[:, 2:].T]
    given = MKLClassifier("precomputed").fit(K, YES)
    found = explain(given, [K[0][:3], K[1][:3]])
    adds_up(found, given._values([K[0][:3], K[1][:3]]))
    assert not found.cells and found.nearest.shape == (3, 5)
    sparse = csr_array(plain * (plain > 0))
    some = MKLClassifier([Gaussian(1.5), Linear()]).fit(sparse, YES)
    found = explain(some, sparse[:3])
    adds_up(found, some._values(sparse[:3]))
    dense = KernelBank([Gaussian(1.5), Linear()], scale=None)
    again = explain(MKLClassifier(dense).fit(sparse.toarray(), YES), sparse[:3].toarray())
    np.testing.assert_allclose(found.cells[0].parts, again.cells[0].parts, atol=1e-6)
    few = MKLClassifier(KernelBank(approximation=Nystroem(9))).fit(plain, YES)
    found = explain(few, plain[:3])
    adds_up(found, few._values(plain[:3]))
    assert {cell.how for cell in found.cells} == {"local"}


def test_words_frames_and_pictures():
    model = MKLClassifier(KernelBank(views=VIEWS)).fit(X, YES)
    found = explain(model, X[:5], n_nearest=2)
    table = found.by_view()
    totals = table.groupby("row")["part"].sum()
    np.testing.assert_allclose(totals, found.values[:, 0])
    assert found.in_words(0).startswith(f"yes: {found.values[0, 0]:.3f}, of which")
    assert repr(found).count("nearest training rows") == 3 and repr(found).endswith("…")
    axes = found.plot(1, top=3)
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert set(found.views) <= set(names) and len(names) <= len(found.views) + 3
    three = MKLClassifier(multi_class="ovo").fit(X, THREE)
    assert explain(three, X[:2], columns=False).machines[0] == "1 against 0"
    assert set(explain(three, X[:2]).by_column()["machine"]) == set(
        explain(three, X[:2], columns=False).machines
    )


def test_bad_input():
    with pytest.raises(TypeError, match="that predicts new rows"):
        explain(TransductiveMKLClassifier(), X)
    with pytest.raises(TypeError, match="pass its last step"):
        from sklearn.pipeline import make_pipeline

        explain(make_pipeline(MKLClassifier()), X)
    with pytest.raises(ValueError, match="not fitted"):
        explain(MKLClassifier(), X)
    model = MKLClassifier(KernelBank(views=VIEWS)).fit(X, YES)
    with pytest.raises(ValueError, match="n_nearest"):
        explain(model, X, n_nearest=0)
