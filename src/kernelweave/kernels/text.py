"""Kernels between texts: shared words, and shared concepts.

    bag of words      k(x, z) = Σ_w φ_w(x) φ_w(z)
    latent concepts   k(x, z) = Σ_c P(c|x) P(c|z)

φ_w(x) is the weighted count of word w in x; concepts c come from probabilistic latent semantic
analysis [lanckriet2004, §6.2.1]. Vocabulary, weights and concepts are learned on the training
texts and applied to new ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kernelweave._core.checks import check_number, shown
from kernelweave._core.types import Array
from kernelweave.kernels._plsa import ConceptModel, plsa
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.features import FeatureKernel, inner_products
from kernelweave.views.rows import Rows

_KNOWN = {"counts": "CountVectorizer", "tfidf": "TfidfVectorizer"}


class BagOfWords(Kernel):
    """k(x, z) = φ(x)ᵀφ(z), where φ holds the weighted word counts of a text.

    X holds strings; several columns of a view are joined into one text.

    Parameters
    ----------
    vectorizer : "tfidf", "counts" or a scikit-learn vectorizer
        "tfidf" gives words that are rare in the training texts more weight and scales each text to
        length 1; "counts" uses plain counts. Parameters of an object such as
        ``TfidfVectorizer(stop_words="english", min_df=2)`` can be searched as
        ``vectorizer__min_df``.
    """

    takes_weights = False
    numeric = False  # it reads texts

    def __init__(self, vectorizer: Any = "tfidf") -> None:
        self.vectorizer = vectorizer

    def label(self) -> str:
        """Shows the vectorizer."""
        given = self.vectorizer
        return f"BagOfWords({given if isinstance(given, str) else shown(given)})"

    def validate(self) -> None:
        """Raise ValueError or TypeError for an invalid vectorizer."""
        _check_vectorizer(self.vectorizer, "BagOfWords")

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """The kernel with the vocabulary of these rows."""
        words = _Words(self.vectorizer, "BagOfWords")
        rows.remember(words, lambda: words.fit(_texts(rows, words.who)))
        return [("", FeatureKernel(words))]


@dataclass(eq=False, repr=False)
class LatentConcepts(Kernel):
    """k(x, z) = Σ_c P(c|x) P(c|z), with concepts c from probabilistic latent semantic analysis.

    X holds strings; several columns of a view are joined into one text. P(c|x) is computed from
    the words of x and the P(w|c) learned on the training texts, in the same way for training texts
    and new ones.

    Parameters
    ----------
    n_concepts : positive int
    vectorizer : "counts", or a scikit-learn vectorizer with non-negative values
    max_iter, tol, random_state
        The most iterations of the training, the rise of the log-likelihood per word below which
        they end, and the seed of where they begin.
    """

    takes_weights = False
    numeric = False  # it reads texts

    n_concepts: int = 100
    vectorizer: Any = "counts"
    max_iter: int = 100
    tol: float = 1e-4
    random_state: int | None = 0

    def label(self) -> str:
        """Shows the number of concepts."""
        return f"LatentConcepts({self.n_concepts})"

    def validate(self) -> None:
        """Raise ValueError or TypeError for invalid parameters."""
        _check_vectorizer(self.vectorizer, "LatentConcepts")
        check_number("LatentConcepts: n_concepts", self.n_concepts, int)
        check_number("LatentConcepts: max_iter", self.max_iter, int)
        check_number("LatentConcepts: tol", self.tol)

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """The kernel with the vocabulary and the concepts of these rows."""
        words = _Words(self.vectorizer, "LatentConcepts")
        counts = words.fit(_texts(rows, words.who))
        model = plsa(
            counts,
            self.n_concepts,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=self.random_state,
        )
        return [("", FeatureKernel(_Concepts(words, model)))]


class _Words:
    """Weighted word counts of texts, from its own copy of a vectorizer."""

    def __init__(self, vectorizer: Any, who: str) -> None:
        self.vectorizer, self.who = _make(vectorizer), who

    def fit(self, texts: list[str]) -> Any:
        try:
            return self.vectorizer.fit_transform(texts)
        except ValueError as error:
            told = f"{self.who}: the {len(texts)} texts cannot be read: {error}"
            raise ValueError(f"{told.rstrip('.')}.") from error

    def __call__(self, rows: Rows) -> Any:
        return self.vectorizer.transform(_texts(rows, self.who))


class _Concepts:
    """P(c|x) of texts."""

    def __init__(self, words: _Words, model: ConceptModel) -> None:
        self.words = words
        self.model = model

    def __call__(self, rows: Rows) -> Array:
        return self.model.fold_in(self.words(rows))[0]


def bag_of_words_kernel(texts: Iterable[str], vectorizer: Any = "tfidf") -> Array:
    """Inner products of the texts' weighted word counts; the vocabulary is learned on all texts."""
    _check_vectorizer(vectorizer, "bag_of_words_kernel")
    words = _Words(vectorizer, "bag_of_words_kernel")
    phi = words.fit(_check_texts(texts, words.who))
    return inner_products(phi, phi)


def latent_concept_kernel(
    texts: Iterable[str],
    n_concepts: int = 100,
    vectorizer: Any = "counts",
    *,
    max_iter: int = 100,
    tol: float = 1e-4,
    random_state: int | None = 0,
) -> Array:
    """Inner products of the texts' concept memberships; the concepts are learned on all texts."""
    _check_vectorizer(vectorizer, "latent_concept_kernel")
    words = _Words(vectorizer, "latent_concept_kernel")
    counts = words.fit(_check_texts(texts, words.who))
    model = plsa(counts, n_concepts, max_iter=max_iter, tol=tol, random_state=random_state)
    phi = model.fold_in(counts)[0]
    return inner_products(phi, phi)


def _texts(rows: Rows, who: str) -> list[str]:
    columns = [
        _check_texts(
            rows.table.raw([column])[:, 0].tolist(), f"{who} on {rows.table.label(column)!r}"
        )
        for column in rows.view.columns
    ]
    return ["\n".join(parts) for parts in zip(*columns, strict=True)]


def _check_texts(texts: Any, who: str) -> list[str]:
    if isinstance(texts, str):
        raise TypeError(f"{who}: texts must be several strings, found one; pass [text].")
    texts = list(texts)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"{who}: text {row} must be a string, found {shown(text)}; use an empty string for "
                "a missing text."
            )
    return texts


def _check_vectorizer(vectorizer: Any, who: str) -> None:
    if isinstance(vectorizer, str):
        if vectorizer not in _KNOWN:
            raise ValueError(
                f"{who}: vectorizer must be one of {[*_KNOWN]} or a scikit-learn vectorizer; found "
                f"{vectorizer!r}."
            )
    elif isinstance(vectorizer, type) or not hasattr(vectorizer, "fit_transform"):
        raise TypeError(
            f"{who}: vectorizer must be one of {[*_KNOWN]} or a scikit-learn vectorizer, an object "
            f"with fit_transform and transform; found {shown(vectorizer)}."
        )


def _make(vectorizer: Any) -> Any:
    """A new, unfitted vectorizer."""
    from sklearn.base import clone
    from sklearn.feature_extraction import text

    if isinstance(vectorizer, str):
        return getattr(text, _KNOWN[vectorizer])()
    return clone(vectorizer)
