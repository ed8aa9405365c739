"""Kernels between texts, and the concepts behind one of them."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV

from kernelweave import BagOfWords, Gaussian, KernelBank, LatentConcepts, MKLClassifier
from kernelweave.kernels._plsa import plsa
from kernelweave.kernels.text import bag_of_words_kernel, latent_concept_kernel

WORDS = {
    "grain": "wheat corn bushel harvest export crop".split(),
    "money": "dollar bank rate yen currency fed".split(),
    "oil": "barrel crude opec refinery drilling well".split(),
}


def documents(rng, n, topics=("grain", "money"), length=12):
    """Texts of one topic each, a third of their words from all of them."""
    every = [word for topic in topics for word in WORDS[topic]]
    y = rng.integers(0, len(topics), n)
    texts = []
    for topic in y:
        own = rng.choice(WORDS[topics[topic]], size=2 * length // 3)
        texts.append(" ".join([*own, *rng.choice(every, size=length // 3)]))
    return texts, y


def column(texts):
    return np.array(texts, dtype=object).reshape(-1, 1)


def planted(rng, n=120, v=60, k=3, length=400):
    """Counts from concepts with words of their own, and documents mostly about one each."""
    words = np.zeros((v, k))
    for z in range(k):
        words[z * v // k : (z + 1) * v // k, z] = rng.dirichlet(np.full(v // k, 2.0))
    shares = rng.dirichlet(np.full(k, 0.2), size=n)
    counts = np.array([rng.multinomial(length, words @ share) for share in shares])
    return counts, shares, words


# Bag of words


@pytest.mark.parametrize(
    ("vectorizer", "theirs"),
    [
        ("counts", CountVectorizer()),
        ("tfidf", TfidfVectorizer()),
        (
            TfidfVectorizer(min_df=2, sublinear_tf=True),
            TfidfVectorizer(min_df=2, sublinear_tf=True),
        ),
    ],
)
def test_bag_of_words_is_the_product_of_word_counts(vectorizer, theirs):
    texts, _ = documents(np.random.default_rng(0), 30)
    fitted = KernelBank([BagOfWords(vectorizer)], normalize=None).fit(column(texts[:20]))
    phi = theirs.fit_transform(texts[:20])
    new = theirs.transform(texts)
    K = fitted.stack.combine([1.0])
    assert np.array_equal(K, K.T)
    np.testing.assert_allclose(K, (phi @ phi.T).toarray(), rtol=1e-13)
    np.testing.assert_allclose(
        fitted.cross(column(texts), [1.0]), (new @ phi.T).toarray(), rtol=1e-13
    )
    whole = bag_of_words_kernel(texts[:20], vectorizer)
    assert np.array_equal(whole, K)
    assert np.linalg.eigvalsh(K)[0] > -1e-12 * np.trace(K)


def test_columns_of_a_view_are_one_text():
    texts, _ = documents(np.random.default_rng(1), 12)
    two = [text.split(" ", 3) for text in texts]
    X = np.array([[" ".join(parts[:3]), parts[3]] for parts in two], dtype=object)
    K = KernelBank([BagOfWords()], normalize=None).fit(X).stack.combine([1.0])
    np.testing.assert_allclose(K, bag_of_words_kernel(texts), rtol=1e-13)


def test_order_of_words_and_texts_without_known_words():
    texts, _ = documents(np.random.default_rng(2), 10)
    turned = [" ".join(text.split()[::-1]) for text in texts]
    assert np.array_equal(
        bag_of_words_kernel(texts, "counts"), bag_of_words_kernel(turned, "counts")
    )
    bank = KernelBank([BagOfWords()], normalize="sphere").fit(column(texts))
    assert np.array_equal(bank.cross(column(["", "unheard of"]), [1.0]), np.zeros((2, 10)))


def test_a_grid_reaches_the_vectorizer():
    rng = np.random.default_rng(3)
    texts, y = documents(rng, 60)
    model = MKLClassifier(KernelBank(BagOfWords(TfidfVectorizer())))
    search = GridSearchCV(model, {"kernels__kernels__vectorizer__min_df": [1, 3]}, cv=2)
    search.fit(column(texts), y)
    assert search.best_score_ > 0.9


def test_texts_beside_numbers():
    rng = np.random.default_rng(4)
    texts, y = documents(rng, 80)
    X = [[text, value] for text, value in zip(texts, rng.normal(size=80), strict=True)]
    bank = KernelBank([("words", BagOfWords(), 0), ("noise", Gaussian(), 1)])
    model = MKLClassifier(bank, C=10.0).fit(X[:50], y[:50])
    assert model.weights_[0] > 0.9
    assert model.score(X[50:], y[50:]) > 0.9
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.decision_function(X[50:]), model.decision_function(X[50:]))


# Probabilistic latent semantic analysis


@pytest.mark.parametrize("n_concepts", [1, 3, 10])
def test_the_likelihood_never_falls_and_is_the_likelihood(n_concepts):
    counts, _, _ = planted(np.random.default_rng(5))
    model = plsa(counts, n_concepts, max_iter=60, tol=1e-12)
    rises = np.diff(model.log_likelihood)
    assert (rises >= -1e-12 * abs(model.log_likelihood[0])).all()
    p = model.memberships @ model.words.T
    here = counts > 0
    assert model.log_likelihood[-1] == pytest.approx((counts[here] * np.log(p[here])).sum())
    np.testing.assert_allclose(model.memberships.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.words.sum(axis=0), 1.0)


def test_one_concept_is_the_frequencies_of_words():
    counts, _, _ = planted(np.random.default_rng(6))
    model = plsa(counts, 1)
    np.testing.assert_allclose(model.words[:, 0], counts.sum(axis=0) / counts.sum(), rtol=1e-12)


def test_planted_concepts_are_found():
    counts, shares, words = planted(np.random.default_rng(7))
    model = plsa(csr_array(counts), 3, max_iter=500, tol=1e-9)
    order = [int(np.argmax(words[:, z] @ model.words)) for z in range(3)]
    assert sorted(order) == [0, 1, 2]
    assert np.abs(model.words[:, order] - words).max() < 0.02
    assert np.abs(model.memberships[:, order] - shares).mean() < 0.01


def test_the_start_is_seeded():
    counts, _, _ = planted(np.random.default_rng(8), n=30)
    one, same, other = (plsa(counts, 4, max_iter=5, random_state=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.words, same.words)
    assert not np.array_equal(one.words, other.words)


def test_iterations_end_when_little_is_gained():
    counts, _, _ = planted(np.random.default_rng(9))
    model = plsa(counts, 3, max_iter=1000, tol=1e-4)
    assert 3 < len(model.log_likelihood) < 500
    gains = np.diff(model.log_likelihood) / counts.sum()
    assert (gains[:-2] > 1e-4).all() and gains[-2] <= 1e-4


def test_folding_in_finds_the_best_shares_and_bounds_what_is_missing():
    rng = np.random.default_rng(10)
    counts, _, _ = planted(rng, n=80, length=60)
    model = plsa(counts, 3, max_iter=20)
    new = rng.poisson(1.0, size=(5, 60))
    rough, bounds = model.fold_in(new, tol=0.05)
    exact, tight = model.fold_in(new, tol=1e-10, max_iter=100_000)
    assert (bounds <= 0.05).all() and (tight <= 1e-10).all()

    def value(row, share):
        return float(row @ np.log(model.words @ share)) / row.sum()

    for row, share, best, bound in zip(new, rough, exact, bounds, strict=True):
        assert 0 <= value(row, best) - value(row, share) <= bound
        found = minimize(
            lambda t, row=row: -value(row, np.exp(t) / np.exp(t).sum()),
            np.zeros(3),
            options={"gtol": 1e-9},
        )
        assert value(row, best) >= -found.fun - 1e-9
    np.testing.assert_allclose(exact.sum(axis=1), 1.0)


def test_a_document_is_folded_in_from_its_own_words_alone():
    counts, _, _ = planted(np.random.default_rng(11))
    model = plsa(counts, 3, max_iter=10)
    together = model.fold_in(counts[:20])[0]
    for row in range(20):
        assert np.array_equal(model.fold_in(counts[row : row + 1])[0][0], together[row])
    assert np.array_equal(model.fold_in(csr_array(counts[:20]))[0], together)


def test_words_that_no_concept_has_and_documents_without_words():
    counts = np.array([[3, 1, 0, 0], [1, 2, 0, 0], [0, 0, 4, 0]])
    model = plsa(counts, 2, max_iter=50)
    assert not model.words[3].any()
    assert np.array_equal(model.fold_in([[0, 0, 0, 5]])[0], [[0.5, 0.5]])
    known = model.fold_in([[3, 1, 0, 0]])[0]
    assert np.array_equal(model.fold_in([[3, 1, 0, 7]])[0], known)


def test_more_concepts_than_anything_to_say():
    model = plsa(np.array([[1, 0], [0, 2]]), 6, max_iter=3000, tol=1e-14)
    assert np.isfinite(model.words).all() and np.isfinite(model.memberships).all()
    assert model.log_likelihood[-1] == pytest.approx(0.0, abs=1e-6)
    assert np.isfinite(model.fold_in([[1, 1]])[0]).all()


def test_latent_concepts_in_a_bank():
    rng = np.random.default_rng(12)
    texts, y = documents(rng, 90, ("grain", "money", "oil"))
    kernel = LatentConcepts(3, max_iter=50)
    fitted = KernelBank([kernel], normalize=None).fit(column(texts[:60]))
    counts = CountVectorizer().fit(texts[:60])
    model = plsa(counts.transform(texts[:60]), 3, max_iter=50)
    phi = model.fold_in(counts.transform(texts))[0]
    np.testing.assert_allclose(fitted.cross(column(texts), [1.0]), phi @ phi[:60].T, rtol=1e-12)
    K = fitted.stack.combine([1.0])
    assert np.array_equal(K, K.T)
    np.testing.assert_allclose(K, latent_concept_kernel(texts[:60], 3, max_iter=50), rtol=1e-12)
    grain = y == 0
    model = MKLClassifier(KernelBank([kernel]), C=10.0).fit(column(texts[:60]), grain[:60])
    assert model.score(column(texts[60:]), grain[60:]) > 0.85


@pytest.mark.parametrize("kernel", [BagOfWords(), BagOfWords("counts"), LatentConcepts(7)])
def test_parameters(kernel):
    assert clone(kernel) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert kernel.label() in KernelBank([kernel]).fit(column(["a b cc", "cc dd", "ee cc"])).names[0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: bag_of_words_kernel(["aa", None]),
            TypeError,
            "text 1 must be a string, found None",
        ),
        (lambda: bag_of_words_kernel("aa bb"), TypeError, r"several strings, found one; pass \["),
        (lambda: latent_concept_kernel("aa bb"), TypeError, r"several strings, found one"),
        (lambda: bag_of_words_kernel(["", "."]), ValueError, "the 2 texts cannot be read: empty"),
        (
            lambda: KernelBank([BagOfWords()]).fit(
                pd.DataFrame({"title": ["aa", "bb"], "abstract": ["cc", None]})
            ),
            TypeError,
            "BagOfWords on 'abstract': text 1 must be a string",
        ),
        (
            lambda: KernelBank([BagOfWords()]).fit([["aa"], [np.nan]]),
            TypeError,
            "text 1 must be a string",
        ),
        (
            lambda: KernelBank([BagOfWords()]).fit([[1.0], [2.0]]),
            TypeError,
            "text 0 must be a string",
        ),
        (lambda: KernelBank([BagOfWords("idf")]).fit([["a"], ["b"]]), ValueError, "found 'idf'"),
        (lambda: bag_of_words_kernel(["aa"], CountVectorizer), TypeError, "an object with"),
        (lambda: bag_of_words_kernel(["aa"], 3), TypeError, "found 3"),
        (lambda: LatentConcepts(0).validate(), ValueError, "n_concepts must be positive"),
        (lambda: LatentConcepts(2, max_iter=0).validate(), ValueError, "max_iter must be"),
        (lambda: LatentConcepts(2, tol=-1).validate(), ValueError, "tol must be positive"),
        (lambda: plsa([[1, -1]], 2), ValueError, "finite and non-negative"),
        (lambda: plsa([[1, np.nan]], 2), ValueError, "finite and non-negative"),
        (lambda: plsa([[0, 0]], 2), ValueError, "all zero"),
        (lambda: plsa([1, 2], 2), ValueError, "documents by words"),
        (lambda: plsa([[1, 2]], 2.5), TypeError, "n_concepts must be"),
        (lambda: plsa([[1, 2]], 1).fold_in([[1, 2, 3]]), ValueError, "has 3 words"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
