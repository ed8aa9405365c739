"""One table from many: aligned on ids, with views by position that survive what models do."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelweave import KernelBank, MKLClassifier, join_views

rng = np.random.default_rng(8)
IDS = [f"p{i}" for i in range(60)]
Y = pd.Series(np.arange(60) % 3, index=IDS)
GENE = pd.DataFrame(rng.normal(size=(60, 4)) + Y.to_numpy()[:, None], IDS, [*"abcd"])
LIPID = pd.DataFrame(rng.normal(size=(60, 2)) - Y.to_numpy()[:, None], IDS, [*"ab"])
FRAMES = {"gene": GENE, "lipid": LIPID}


def joined_quietly(frames):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return join_views(frames)


def test_shuffled_frames_are_aligned():
    X, views = joined_quietly({"gene": GENE, "lipid": LIPID.sample(frac=1.0, random_state=0)})
    assert [*X.columns] == ["gene__a", "gene__b", "gene__c", "gene__d", "lipid__a", "lipid__b"]
    assert views == {"gene": slice(0, 4), "lipid": slice(4, 6)}
    assert [*X.index] == IDS
    np.testing.assert_array_equal(X.iloc[:, views["lipid"]], LIPID)


@pytest.mark.parametrize(
    "frames",
    [
        [GENE, LIPID],
        (GENE.to_numpy(), LIPID.to_numpy()),
        [GENE.to_numpy(), LIPID.reset_index(drop=True)],
        [GENE, *(LIPID[column] for column in LIPID)],
        [GENE.set_axis(pd.MultiIndex.from_product([["x", "y"], ["a", "b"]]), axis=1), LIPID],
    ],
)
def test_lists_arrays_and_columns(frames):
    X, views = joined_quietly(frames)
    np.testing.assert_array_equal(X, np.hstack([GENE, LIPID]))
    assert next(iter(views)) == "view1" and len(views) == len(frames)
    assert all(isinstance(column, str) for column in X.columns) and X.columns.is_unique


def test_polars_frames_go_by_position():
    pl = pytest.importorskip("polars")
    X, _ = joined_quietly([pl.DataFrame(GENE.to_numpy(), [*"abcd"]), LIPID.to_numpy()])
    np.testing.assert_array_equal(X, np.hstack([GENE, LIPID]))
    assert X.columns[0] == "view1__a"


def test_rows_that_a_frame_does_not_have_lack_the_view():
    frames = {
        "gene": GENE[:50].assign(flag=True),
        "lipid": LIPID[5:].sample(frac=1, random_state=1),
    }
    with pytest.warns(
        UserWarning, match=r"60 rows, 'gene' lacks 10 .*'lipid' lacks 5 \('p0'"
    ) as caught:
        X, views = join_views(frames)
    assert len(caught) == 1
    assert X.loc[IDS[50:]].iloc[:, views["gene"]].isna().all(axis=None)
    assert not X.loc[IDS[:50]].iloc[:, views["gene"]].isna().any(axis=None)
    y = Y.loc[X.index] == 1
    with pytest.warns(UserWarning, match="Rows lack a view"):
        model = MKLClassifier(KernelBank(views=views)).fit(X, y)
    assert model.duality_gap_ <= 1e-3 and model.score(X, y) > 0.6


@pytest.mark.parametrize("lacking", [0, 6])
def test_views_survive_what_wrappers_do(lacking):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, views = join_views({"gene": GENE, "lipid": LIPID[lacking:]})
        y = Y.loc[X.index]
        model = MKLClassifier(KernelBank(views=views, normalize="center+trace"), tol=1e-2)
        stripped = OneVsOneClassifier(model)
        assert cross_val_score(stripped, X, y, cv=3, error_score="raise").mean() > 0.7
        pipeline = make_pipeline(StandardScaler(), stripped)
        grid = {"onevsoneclassifier__estimator__C": [0.1, 10.0]}
        search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
        again = pickle.loads(pickle.dumps(search))
        np.testing.assert_array_equal(again.predict(X), search.predict(X))


@pytest.mark.parametrize(
    ("frames", "error", "message"),
    [
        (
            {"a": GENE, "b": pd.concat([LIPID, LIPID[:2]])},
            ValueError,
            "'b' has 2 ids .* 'p0'",
        ),
        ({"a": GENE, "b": LIPID.set_axis(range(60))}, ValueError, "no id in common.*set_index"),
        ([GENE, LIPID.to_numpy()], ValueError, "'view1' names its rows in its index, but others"),
        (
            [GENE.to_numpy(), LIPID.to_numpy()[:9]],
            ValueError,
            "must have the same rows; fo",
        ),
        (
            {"a": GENE.set_axis([*"abca"], axis=1)},
            ValueError,
            "'a' has 1 columns more than",
        ),
        ({"a": GENE[[]]}, ValueError, "'a' has no columns"),
        ({}, ValueError, "no table was given"),
        (GENE, TypeError, r"takes \{name: table\} or a list of tables; found DataFrame"),
        (7, TypeError, "found int"),
        ([np.ones((2, 2, 2))], ValueError, "two dimensions; found ndarray of shape"),
        ([csr_array(np.eye(3))], TypeError, "'view1' is sparse.*scipy.sparse.hstack"),
    ],
)
def test_what_cannot_be_joined(frames, error, message):
    with pytest.raises(error, match=message):
        join_views(frames)


@pytest.mark.parametrize("frames", [FRAMES, [GENE, LIPID]])
def test_several_tables_are_refused_with_the_line_that_joins_them(frames):
    line = (
        r"join_views\(X\)\n    MKLClassifier\(KernelBank\(views=joined.views\)\).fit\(joined.X, y\)"
    )
    with pytest.raises(TypeError, match=f"X must be one table, found (dict|list).*\n.*{line}"):
        MKLClassifier().fit(frames, Y)
    with pytest.raises(TypeError, match=line):
        KernelBank().fit(frames)
