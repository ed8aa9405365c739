"""Rows that lack a view stand at its mean in feature space, in training and for new rows."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from _helpers.small_table import NEW, X, quiet
from sklearn.base import clone

from kernelweave import Gaussian, KernelBank, Linear, MKLClassifier, Polynomial
from kernelweave.banks.normalize import RULES

VIEWS = {"first": [0, 1], "second": [2, 3]}
LACKS = np.array([1, 4, 5, 9])
HAS = np.setdiff1d(np.arange(len(X)), LACKS)
KERNELS = [Linear(), Polynomial(2), Gaussian(1.0, relative=True)]


def gappy(table, rows, columns=(2, 3)):
    table = np.array(table, dtype=float)
    table[np.ix_(rows, columns)] = np.nan
    return table


def fitted(bank, table, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bank.fit(table, **options)


def explicit_mean_imputation(K, K_new, has, new_has):
    """Φ with the mean of the rows that have the view in place of all others, then centered."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-12 * values.max()
    features = vectors[:, keep] * np.sqrt(values[keep])
    new = K_new @ vectors[:, keep] / np.sqrt(values[keep])
    mean = features[has].mean(axis=0)
    features[~has], new[~new_has] = mean, mean
    return (features - mean) @ (features - mean).T, (new - mean) @ (features - mean).T


@pytest.mark.parametrize("rule", [rule for rule in RULES if "sphere" not in str(rule)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_mean_imputation_in_feature_space(rule, kernel):
    """Against features made by hand from the kernel on complete rows, with the learned width."""
    new_has = np.array([True, False, True, True, False])
    bank = KernelBank([kernel], VIEWS, rule, scale="standard")
    found = fitted(bank, gappy(X, LACKS))
    alone = quiet(KernelBank([kernel], {"second": [2, 3]}, None, scale="standard"), X[HAS])
    view = alone.members[0].view
    Z = (np.vstack([X, NEW])[:, [2, 3]] - view.shift) * view.factor
    raw = quiet(KernelBank([alone.members[0].kernel], "all", None, scale=None), Z)
    K = raw.stack.combine([1.0])
    has = np.isin(np.arange(len(X)), HAS)
    train, cross = explicit_mean_imputation(K[:15, :15], K[15:, :15], has, new_has)
    scale = {"trace": len(HAS), "unit_trace": 1.0}.get((rule or "").split("+")[-1])
    scale = 1.0 if scale is None else scale / np.trace(train)
    every = np.arange(len(X))
    np.testing.assert_allclose(found.stack.block(1, every, every), scale * train, atol=1e-10)
    new = gappy(NEW, np.flatnonzero(~new_has))
    np.testing.assert_allclose(found.cross_stack(new)[1], scale * cross, atol=1e-10)


@pytest.mark.parametrize("rule", RULES)
def test_entries_of_rows_without_the_view_are_zero_and_kernels_semidefinite(rule):
    found = fitted(KernelBank(KERNELS, VIEWS, rule), gappy(X, LACKS))
    every = np.arange(len(X))
    for m in range(found.stack.m):
        K = found.stack.block(m, every, every)
        assert np.linalg.eigvalsh(K)[0] > -1e-12 * np.trace(K)
        if found.views[found.kept[m]] == "second":
            assert not K[LACKS].any()
            np.testing.assert_allclose(
                K.sum(axis=0) if "sphere" not in str(rule) else 0.0, 0.0, atol=1e-11
            )
    expected = [found.stack.block(m, every, every) for m in range(found.stack.m)]
    np.testing.assert_allclose(found.cross_stack(gappy(X, LACKS)), expected, atol=1e-12)


def test_new_rows_without_a_view_that_all_training_rows_have():
    """They get the mean of k(x_i, ·): what centering the kernels would say, but for the bias."""
    model = MKLClassifier(KernelBank(KERNELS, VIEWS), C=10.0, tol=1e-6).fit(
        X, X[:, 0] + X[:, 2] > 0
    )
    new = gappy(NEW, [0, 2])
    expected = model.decision_function(NEW)
    parts = []
    for m, weight in enumerate(model.weights_):
        only = weight * (np.arange(len(model.weights_)) == m)
        against = NEW if model.bank_.views[m] == "first" else X
        values = model.bank_.decision(against, only, model.dual_coef_[0])
        parts.append(values[[0, 2]] if against is NEW else values.mean())
    expected[[0, 2]] = np.sum(np.broadcast_arrays(*parts), axis=0) + model.intercept_
    np.testing.assert_allclose(model.decision_function(new), expected, atol=1e-10)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.decision_function(new), expected, atol=1e-10)


@pytest.mark.parametrize("missing", ["mean", "indicator"])
@pytest.mark.parametrize("rule", ["trace", "center+trace", "sphere"])
def test_models_with_gaps_are_certified_and_predict_complete_rows_alike(missing, rule):
    bank = KernelBank(KERNELS, VIEWS, rule, missing=missing)
    table = gappy(gappy(X, LACKS), [2, 7], [0, 1])
    y = X[:, 0] + X[:, 3] > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MKLClassifier(bank, tol=1e-6).fit(table, y)
    assert 0.0 <= model.duality_gap_ <= 1e-6
    K = fitted(bank, table).stack.combine(model.weights_[model.bank_.kept])
    coef = np.zeros(len(X))
    coef[model.support_] = model.dual_coef_[0]
    values = K @ coef + model.intercept_
    np.testing.assert_allclose(model.decision_function(table), values, atol=1e-9)
    new = gappy(NEW, [1, 3])
    complete = [0, 2, 4]
    found = model.decision_function(new)[complete]
    np.testing.assert_allclose(found, model.decision_function(NEW)[complete], rtol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.decision_function(new), model.decision_function(new))


def test_who_has_a_view_is_told_to_the_machine():
    table = gappy(X, LACKS)
    found = fitted(KernelBank(Linear(), VIEWS, missing="indicator"), table)
    assert found.names[-1] == "has second"
    K = found.stack.block(found.stack.m - 1, np.arange(15), np.arange(15))
    has = np.isin(np.arange(15), HAS)
    np.testing.assert_array_equal(K, np.equal.outer(has, has).astype(float))
    cross = found.cross_stack(gappy(NEW, [0]))[-1]
    np.testing.assert_array_equal(cross, np.equal.outer([False] + [True] * 4, has).astype(float))
    assert "has second" not in quiet(KernelBank(Linear(), VIEWS, missing="indicator"), X).names


def test_learned_on_rows_that_have_the_view():
    """Width, scaling and trace are those of a bank on these rows alone."""
    bank = KernelBank([Gaussian(1.0, relative=True)], VIEWS, "center+trace", scale="standard")
    some = fitted(bank, gappy(X, LACKS))
    alone = quiet(bank, X[HAS])
    assert some.scales[1] == pytest.approx(alone.scales[1], rel=1e-12)
    found = some.cross_stack(NEW)[1]
    np.testing.assert_allclose(found[:, HAS], alone.cross_stack(NEW)[1], rtol=1e-9, atol=1e-12)


def test_weights_and_gaps_together():
    weights = np.random.default_rng(2).integers(1, 3, len(X))
    repeated = np.repeat(np.arange(len(X)), weights)
    bank = KernelBank(KERNELS, VIEWS, scale="standard")
    table = gappy(X, LACKS)
    one, other = fitted(bank, table, sample_weight=weights), fitted(bank, table[repeated])
    found, expected = one.cross_stack(NEW)[:, :, repeated], other.cross_stack(NEW)
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_told_once_unless_centering_was_asked_for():
    with pytest.warns(UserWarning, match=r"'second' \(4\).*centered over the rows") as caught:
        KernelBank(Linear(), VIEWS).fit(gappy(X, LACKS))
    assert len(caught) == 1
    quiet(KernelBank(Linear(), VIEWS, "center+trace"), gappy(X, LACKS))


def test_rows_without_any_view():
    lost = gappy(X, [3, 6], [0, 1, 2, 3])
    with pytest.raises(ValueError, match=r"2 of 15 rows lack every view.*first is row 3.*Leave"):
        fitted(KernelBank(Linear(), VIEWS), lost)
    model = MKLClassifier(KernelBank(Linear(), VIEWS, "center+trace")).fit(X, X[:, 0] > 0)
    with pytest.warns(UserWarning, match=r"2 of 15 rows of X have no view.*row 3") as caught:
        values = model.decision_function(lost)
    assert len(caught) == 1
    np.testing.assert_array_equal(values[[3, 6]], model.intercept_[0])


def test_a_view_that_nobody_has_is_dropped():
    found = fitted(KernelBank(Linear(), VIEWS), gappy(X, np.arange(15)))
    assert found.dropped == {"Linear() on second": "no training row has its view"}


@pytest.mark.parametrize("views", [VIEWS, "all", "all+each"])
def test_gaps_inside_a_view_name_columns_and_remedy(views):
    table = X.copy()
    table[2, 3] = np.nan
    with pytest.raises(ValueError, match=r"column 'x3' \(1 NaN\).*KernelBank\(impute="):
        fitted(KernelBank(Linear(), views), table)


def test_missing_is_an_error_if_asked():
    with pytest.raises(ValueError, match="contains NaN"):
        KernelBank(Linear(), VIEWS, missing="error").fit(gappy(X, LACKS))
    model = MKLClassifier(KernelBank(Linear(), VIEWS, missing="error")).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="contains NaN"):
        model.predict(gappy(X, LACKS))
    with pytest.raises(ValueError, match=r"missing must be one of .*'zero'"):
        KernelBank(missing="zero").fit(X)


def test_strings_and_functions_may_lack_too():
    def same(A, B):
        return np.equal.outer(A[:, 0], B[:, 0]).astype(float)

    frame = pd.DataFrame({"number": X[:, 0], "word": pd.Series([*"aabbcabcbcaabbc"], dtype="str")})
    frame.loc[[1, 4], "word"] = None
    bank = KernelBank([("n", Linear(), "number"), ("w", same, "word")], normalize="center+trace")
    found = quiet(clone(bank), frame)
    K = found.stack.block(1, np.arange(15), np.arange(15))
    assert not K[[1, 4]].any()
    assert not found.cross_stack(frame.iloc[[4]])[1].any()


@pytest.mark.parametrize(
    ("bank", "allowed"),
    [
        (None, False),
        (KernelBank(views=VIEWS), True),
        (KernelBank(views=VIEWS, missing="error"), False),
        (KernelBank(views={"one": [0, 1]}), False),
        (KernelBank(views="each"), True),
        (KernelBank(views="all+each"), False),
        (KernelBank([("a", Linear(), [0]), ("b", Linear(), [1])]), True),
        ([Linear(), ("b", Linear(), [1])], True),
        ([("a", Linear()), ("b", Gaussian())], False),
        (KernelBank(impute="mean"), True),
    ],
)
def test_the_tag_says_where_gaps_are_allowed(bank, allowed):
    assert MKLClassifier(bank).__sklearn_tags__().input_tags.allow_nan is allowed
