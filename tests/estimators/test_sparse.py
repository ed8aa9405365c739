"""Models of sparse X: the same as of the dense rows, and among scikit-learn's tools."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from kernelweave import (
    BagOfWords,
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    Polynomial,
    TransductiveMKLClassifier,
)

rng = np.random.default_rng(4)
D = 30
X = sparse.csr_array(rng.uniform(size=(90, D)) * (rng.uniform(size=(90, D)) < 0.15))
Y = np.where(X[:, :3].sum(axis=1) > X[:, 3:6].sum(axis=1), "a", "b")
NEW = sparse.csr_array(rng.uniform(size=(20, D)) * (rng.uniform(size=(20, D)) < 0.15))
KERNELS = [Linear(), Polynomial(3), Gaussian(0.7), Gaussian(1.0, relative=True), "cosine"]


@pytest.mark.filterwarnings("ignore:.*left out")  # on the sphere, linear and cosine are one
@pytest.mark.parametrize("normalize", ["trace", "sphere", "center+trace", None])
@pytest.mark.parametrize("views", ["all", {"odd": slice(1, None, 2), "rest": [0, 8, 2, 4]}])
def test_kernels_equal_those_of_the_dense_rows(views, normalize):
    bank = KernelBank(KERNELS, views=views, normalize=normalize, scale=None)
    thin, thick = bank.fit(X), bank.fit(X.toarray())
    assert thin.names == thick.names
    for k in range(thin.stack.m):
        K, other = (b.stack.block(k, slice(None), slice(None)) for b in (thin, thick))
        np.testing.assert_allclose(K, other, atol=1e-12)
    np.testing.assert_allclose(thin.cross_stack(NEW), thick.cross_stack(NEW.toarray()), atol=1e-12)
    np.testing.assert_allclose(thin.cross_stack(NEW.toarray()), thin.cross_stack(NEW), atol=0)


def test_training_rows_as_new_ones_give_the_training_matrices():
    """To rounding: factors are applied in another order."""
    fitted = KernelBank(KERNELS[:4]).fit(X)
    cross = fitted.cross_stack(X)
    for k in range(fitted.stack.m):
        K = fitted.stack.block(k, slice(None), slice(None))
        np.testing.assert_allclose(cross[k], K, rtol=1e-14)


def test_a_fit_equals_the_dense_one_without_scaling():
    thin = MKLClassifier(tol=1e-6).fit(X, Y)
    thick = MKLClassifier(KernelBank(scale=None), tol=1e-6).fit(X.toarray(), Y)
    assert max(thin.duality_gap_, thick.duality_gap_) <= 1e-6
    assert thin.objective_ == pytest.approx(thick.objective_, rel=3e-6)
    np.testing.assert_allclose(thin.decision_function(NEW), thick.decision_function(NEW.toarray()),
                               atol=5e-3)  # fmt: skip
    assert thin.n_features_in_ == D


def test_the_rows_stay_sparse_in_model_and_pickle():
    model = MKLClassifier().fit(X, Y)
    assert model.bank_.table.sparse and model.bank_.table.numbers.format == "csr"
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.decision_function(NEW), model.decision_function(NEW))
    for form in ("csc", "coo", "lil"):
        assert np.array_equal(model.decision_function(NEW.asformat(form)),
                              model.decision_function(NEW))  # fmt: skip
    assert np.array_equal(model.predict(NEW.toarray()), model.predict(NEW))


def test_weighted_rows_count_as_in_the_dense_table():
    weights = rng.integers(1, 4, len(Y)).astype(float)
    bank = KernelBank(KERNELS[:4], normalize="center+trace", scale=None)
    thin, thick = (bank.fit(rows, sample_weight=weights) for rows in (X, X.toarray()))
    np.testing.assert_allclose(thin.cross_stack(NEW), thick.cross_stack(NEW.toarray()), atol=1e-12)


def test_c_is_chosen_on_sparse_rows_as_on_dense_ones():
    thin = MKLClassifierCV(KernelBank(KERNELS[:3], scale=None), cv=3).fit(X, Y)
    thick = MKLClassifierCV(KernelBank(KERNELS[:3], scale=None), cv=3).fit(X.toarray(), Y)
    assert thin.C_ == thick.C_
    assert np.array_equal(thin.predict(NEW), thick.predict(NEW.toarray()))


def test_rows_without_numbers():
    """Empty rows are rows of zeros."""
    with_empty = sparse.vstack([X, sparse.csr_array((4, D))], format="csr")
    model = MKLClassifier([Linear(), Gaussian()]).fit(with_empty, [*Y, "a", "b", "a", "b"])
    zeros = sparse.csr_array((2, D))
    np.testing.assert_allclose(model.decision_function(zeros),
                               model.decision_function(np.zeros((2, D))))  # fmt: skip
    assert model.duality_gap_ <= 1e-3


def test_text_goes_from_a_vectorizer_into_the_model():
    topics = {"earn": "profit dividend shares net", "grain": "wheat tonnes harvest corn"}
    common = "the of and said in".split()
    labels = rng.choice([*topics], 60)
    texts = [" ".join([*rng.choice(common, 6), *rng.choice(topics[t].split(), 3)]) for t in labels]
    pipeline = make_pipeline(TfidfVectorizer(), MKLClassifier())
    assert cross_val_score(pipeline, texts, labels, cv=3).mean() > 0.9
    search = GridSearchCV(pipeline, {"mklclassifier__C": [0.1, 1.0]}, cv=2).fit(texts, labels)
    assert (search.predict(texts) == labels).mean() > 0.9
    words = MKLClassifier(BagOfWords(), tol=1e-6).fit([[text] for text in texts], labels)
    linear = make_pipeline(TfidfVectorizer(), MKLClassifier(Linear(), tol=1e-6)).fit(texts, labels)
    assert words.objective_ == pytest.approx(linear[-1].objective_, rel=1e-5)


def test_rows_without_labels_may_be_sparse():
    partly = np.where(np.arange(len(Y)) % 3, Y, "-")
    model = TransductiveMKLClassifier(unlabeled="-", learner="sdp", kernels=[Linear(), Gaussian()])
    model.fit(X, partly)
    assert model.decision_function(X[:5]).shape == (5,)


@pytest.mark.parametrize(
    ("kernels", "takes"),
    [
        (None, True),
        ([Linear(), ("name", Gaussian(), [0, 1])], True),
        (["rbf", Polynomial(2)], True),
        (KernelBank([Linear()], scale="standard"), False),
        ([Linear(), Laplacian()], False),
        (BagOfWords(), False),
        ([lambda A, B: A @ B.T], False),
    ],
)
def test_the_tag_says_whether_x_may_be_sparse(kernels, takes):
    model = clone(MKLClassifier(kernels))
    assert get_tags(model).input_tags.sparse is takes
    if takes:
        assert model.fit(X, Y).duality_gap_ <= 1e-3
    else:
        with pytest.raises((TypeError, ValueError), match=r"(?i)sparse"):
            model.fit(X, Y)


def stored(value):
    bad = X.copy()
    bad.data[5] = value
    return bad


@pytest.mark.parametrize(
    ("kernels", "data", "error", "message"),
    [
        (None, stored(np.nan), ValueError, r"X contains NaN or infinity in column 'x\d+'.*X\.data"),
        (None, stored(np.inf), ValueError, r"X contains NaN or infinity in column 'x\d+'"),
        (KernelBank(scale="standard"), X, ValueError, r"scale='standard'.*MaxAbsScaler"),
        ([Laplacian()], X, TypeError, r"Laplacian\(width=1\) needs dense data.*X\.toarray"),
        (["chi2", Linear()], X, TypeError, r"Sparse data was passed for X, but chi2 needs dense"),
        (None, X.astype(complex), ValueError, "Complex data not supported"),
        (None, sparse.csr_array((0, D)), ValueError, r"0 sample\(s\)"),
        (None, sparse.csr_array((90, 0)), ValueError, r"0 feature\(s\)"),
        (None, sparse.coo_array(np.ones(90)), ValueError, "Expected 2D array"),
        ({"gene": Linear()}, X, TypeError, "kernels: an item is a kernel"),
        (KernelBank(views={"far": [D]}), X, ValueError, "column 30 is out of range"),
        (KernelBank(views={"named": ["age"]}), X, ValueError, "X has no column names"),
        (None, stored(1e200), ValueError, "too large to square|overflows"),
    ],
)  # fmt: skip
def test_bad_sparse_input(kernels, data, error, message):
    with pytest.raises(error, match=message):
        MKLClassifier(kernels).fit(data, Y[: data.shape[0]])


def test_sparse_rows_for_a_model_of_dense_ones_are_refused():
    model = MKLClassifier().fit(X.toarray(), Y)
    with pytest.raises(TypeError, match=r"fit were dense: pass X\.toarray"):
        model.predict(NEW)
    with pytest.raises(ValueError, match="X has 29 features, but MKLClassifier is expecting 30"):
        MKLClassifier().fit(X, Y).predict(NEW[:, :29])
