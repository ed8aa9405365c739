"""Which columns a model uses: linear coefficients, permutations, intervals, marginal tests."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.stats import f_oneway, pearsonr
from sklearn.metrics import roc_auc_score

from kernelweave import (
    Gaussian,
    Hamming,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    Nystroem,
    join_views,
)
from kernelweave.datasets import make_multiomics
from kernelweave.inspection import feature_importance
from kernelweave.inspection.marginal import marginal_p_values
from kernelweave.views.table import Table

rng = np.random.default_rng(11)
X = rng.normal(size=(60, 4)) * [1.0, 5.0, 1.0, 0.1]
Y = X[:, 0] + 0.2 * X[:, 1] > 0.3 * rng.normal(size=60)


def test_linear_kernels_give_coefficients_times_spread():
    model = MKLClassifier(KernelBank([Linear()], scale=None)).fit(X, Y)
    found = feature_importance(model, X)
    coefficients = model.raw_weights_[0] * model.dual_coef_[0] @ X[model.support_]
    np.testing.assert_allclose(found.importance, np.abs(coefficients) * X.std(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found.draws, np.tile(found.importance, (30, 1)), rtol=1e-10)


def test_permutation_of_a_linear_kernel_is_its_gradient_times_the_mean_distance():
    model = MKLClassifier(KernelBank([Linear()], scale=None)).fit(X, Y)
    steep = feature_importance(model, X).importance / X.std(axis=0)
    moved = feature_importance(model, X, method="permutation", n_shuffles=300, n_resamples=2)
    apart = np.abs(X[:, None] - X).mean(axis=(0, 1))
    np.testing.assert_allclose(moved.importance, steep * apart, rtol=0.05)
    assert set(moved.methods) == {"permutation"}


def test_columns_in_truth_come_first():
    data = make_multiomics(300, effect=3.0)
    X, views = join_views(data.tables)
    model = MKLClassifier(KernelBank(views=views))
    found = feature_importance(model, X, data.y[X.index], n_resamples=3)
    table = found.frame()
    truth = {f"{view}__{name}" for view, names in data.informative.items() for name in names}
    assert len(truth) == 23 and truth <= set(X.columns)
    assert roc_auc_score(table["column"].isin(truth), table["importance"]) > 0.9
    assert roc_auc_score(table["column"].isin(truth), -table["marginal_p"]) > 0.95
    asked = dict(zip(found.columns, found.methods, strict=True))
    assert asked["clinical__sex"] == "permutation" and asked["clinical__age"] == "gradient"
    assert (table["low"] <= table["importance"]).all()
    assert (table["importance"] <= table["high"]).all()
    assert found.plot(top=5).get_yticklabels()[0].get_text() == table["column"][0]
    assert repr(found).splitlines()[1].startswith(table["column"][0])


def test_resampled_fits_make_the_intervals():
    bank = KernelBank([Linear(), Gaussian(1.0, relative=True)])
    found = feature_importance(MKLClassifier(bank), X, Y, n_resamples=20)
    low, high = found.intervals
    assert (low < high).all() and (low[:2] > 0.0).all()
    again = feature_importance(MKLClassifier(bank), X, Y, n_resamples=20)
    np.testing.assert_array_equal(found.draws, again.draws)
    groups = np.arange(60) // 2
    assert feature_importance(MKLClassifier(bank), X, Y, groups=groups, n_resamples=2).draws.any()


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (MKLRegressor(), X[:, 0]),
        (MKLRegressor(), X[:, :2]),
        (MKLOneClass(), None),
        (MKLClassifier(multi_class="ovo", shared_weights=False), np.digitize(X[:, 0], [-0.4, 0.4])),
        (MKLClassifierCV(Cs=[1.0], cv=2), Y),
        (MKLClassifier(KernelBank(approximation=Nystroem(10))), Y),
    ],
    ids=["values", "two values", "nothing", "pairs", "chosen", "features"],
)
def test_every_estimator(model, y):
    found = feature_importance(model, X, y, n_resamples=2)
    assert found.importance.shape == (4,) and (found.importance > 0.0).all()
    assert ("marginal_p" in found.frame()) == (y is not None)
    if y is not None and y.ndim == 1:
        assert found.importance.argmax() < 2


def test_values_are_in_the_units_of_y():
    once = feature_importance(MKLRegressor(), X, X[:, 0], n_resamples=1).importance
    scaled = feature_importance(MKLRegressor(), X, 1000 * X[:, 0], n_resamples=1).importance
    np.testing.assert_allclose(scaled, 1000 * once, rtol=1e-3)


def test_views_that_rows_lack_and_sparse_rows():
    gaps = X.copy()
    gaps[:10, :2] = np.nan
    bank = KernelBank([Gaussian(2.0)], views={"a": [0, 1], "b": [2, 3]}, normalize="center+trace")
    for method in ("gradient", "permutation"):
        found = feature_importance(MKLClassifier(bank), gaps, Y, method=method, n_resamples=2)
        assert found.views == ("a", "a", "b", "b") and np.isfinite(found.draws).all()
    sparse = csr_array(X * (X > 0))
    model = MKLClassifier([Linear()]).fit(sparse, Y)
    dense = MKLClassifier(KernelBank([Linear()], scale=None)).fit(X * (X > 0), Y)
    np.testing.assert_allclose(
        feature_importance(model, sparse, n_resamples=1).importance,
        feature_importance(dense, X * (X > 0), n_resamples=1).importance,
        rtol=1e-6,
        atol=1e-9,
    )
    with pytest.raises(TypeError, match="sparse X cannot be permuted"):
        feature_importance(model, sparse, method="permutation")


def test_bad_input():
    with pytest.raises(ValueError, match="method must be"):
        feature_importance(MKLClassifier(), X, Y, method="lime")
    with pytest.raises(TypeError, match="must be a fitted estimator of kernelweave"):
        feature_importance(object(), X)
    with pytest.raises(ValueError, match="not fitted"):
        feature_importance(MKLClassifier(), X)


def test_marginal_tests_are_the_textbook_ones():
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"] = pd.Categorical(np.where(X[:, 0] > 0, "u", "v"))
    frame["flat"] = 1.0
    frame.loc[:5, "c"] = np.nan
    table = Table.read(frame)
    p = marginal_p_values(table, Y, True)
    level = f_oneway(X[Y, 1], X[~Y, 1]).pvalue
    square = (X[:, 1] - X[:, 1].mean()) ** 2
    spread = f_oneway(square[Y], square[~Y]).pvalue
    assert p[1] == pytest.approx(min(1.0, 2 * min(level, spread)))
    assert p[4] < 0.01 and np.isnan(p[5]) and p[2] > 0.0
    numbers = marginal_p_values(table, X[:, 0], False)
    plain = pearsonr(X[:, 1], X[:, 0]).pvalue
    squared = pearsonr(square, X[:, 0]).pvalue
    assert numbers[1] == pytest.approx(min(1.0, 2 * min(plain, squared)))
    assert numbers[4] < 1e-6


def test_a_spread_alone_is_seen():
    y = np.repeat([0, 1], 100)
    x = rng.normal(size=(200, 1)) * (1.0 + y[:, None])
    assert marginal_p_values(Table.read(x), y, True)[0] < 1e-4


def test_categories_alone():
    frame = pd.DataFrame(
        {"a": np.where(X[:, 0] > 0, "u", "v"), "b": np.where(X[:, 2] > 0, "u", "v")}
    )
    model = MKLClassifier([Hamming()]).fit(frame, Y)
    found = feature_importance(model, frame, n_resamples=2)
    assert found.methods == ("permutation", "permutation")
    assert found.importance[0] > found.importance[1]
