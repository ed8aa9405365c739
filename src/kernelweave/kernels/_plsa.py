"""Probabilistic latent semantic analysis: documents as mixtures of concepts.

    max  Σ_dw n_dw log P(w|d),    P(w|d) = Σ_z P(z|d) P(w|z)

n_dw counts word w in document d; P(·|d) and P(·|z) are distributions over concepts z and words
[Hofmann 1999; lanckriet2004, §6.2.1]. Each step of expectation maximization updates

    P(z|d) ∝ P(z|d) Σ_w n_dw P(w|z)/P(w|d),    P(w|z) ∝ P(w|z) Σ_d n_dw P(z|d)/P(w|d)

and never lowers the likelihood. With P(w|z) fixed, the log-likelihood of one document is concave in
P(z|d). It lies at most N log(max_z g_z/N) below its maximum, where g_z = Σ_w n_dw P(w|z)/P(w|d) and
N is the length of the document. New documents are folded in until this bound is small enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._core.checks import check_floats, check_number
from kernelweave._core.jit import jit, ordered_jit
from kernelweave._core.types import Array

_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class ConceptModel:
    """Concepts learned by ``plsa``.

    Attributes
    ----------
    memberships : array (n, k)
        P(z|d) of the training documents after the last iteration.
    words : array (v, k)
        P(w|z); columns sum to 1. A concept that died out has a column of zeros.
    log_likelihood : array
        Before each iteration and after the last; it never falls, except by rounding.
    """

    memberships: Array
    words: Array
    log_likelihood: Array

    def fold_in(self, counts: Any, tol: float = 1e-3, max_iter: int = 1000) -> tuple[Array, Array]:
        """P(z|d) of each document from its own counts alone, and a bound for each.

        The bound says how far the log-likelihood per word can be below its maximum over P(z|d).
        Iterations end when it is at most ``tol``. Documents without a known word keep equal shares.
        """
        check_number("fold_in: tol", tol)
        N = _counts(counts)
        if N.shape[1] != len(self.words):
            raise ValueError(
                f"counts has {N.shape[1]} words, but the concepts are over {len(self.words)}."
            )
        alive = np.flatnonzero(self.words.any(axis=0))
        shares = np.full((N.shape[0], len(alive)), 1.0 / len(alive))
        bounds = np.zeros(N.shape[0])
        words = np.ascontiguousarray(self.words[:, alive])
        _fold_in(N.indptr, N.indices, N.data, words, shares, bounds, float(tol), int(max_iter))
        memberships = np.zeros((N.shape[0], self.words.shape[1]))
        memberships[:, alive] = shares
        return memberships, bounds


def plsa(
    counts: Any,
    n_concepts: int,
    *,
    max_iter: int = 100,
    tol: float = 1e-4,
    random_state: int | np.random.Generator | None = 0,
) -> ConceptModel:
    """Concepts of a collection of documents.

    Parameters
    ----------
    counts : array or sparse matrix (n, v)
        How often each of v words occurs in each of n documents; non-negative.
    n_concepts : positive int
    max_iter : positive int
    tol : positive float
        Iterations end when the log-likelihood per word rises by less than this.
    random_state : int, generator or None
        Seed of the random start; the same number gives the same concepts.
    """
    check_number("plsa: n_concepts", n_concepts, int)
    check_number("plsa: max_iter", max_iter, int)
    check_number("plsa: tol", tol)
    N = _counts(counts)
    total = float(N.data.sum())
    if not total > 0:
        raise ValueError("plsa: counts are all zero; there is no word to learn from.")
    rng = np.random.default_rng(random_state)
    shares = rng.uniform(0.5, 1.5, (N.shape[0], int(n_concepts)))
    shares /= shares.sum(axis=1, keepdims=True)
    words = rng.uniform(0.5, 1.5, (N.shape[1], int(n_concepts)))
    words /= words.sum(axis=0)
    new_shares, new_words = np.empty_like(shares), np.empty_like(words)
    history = []
    for _ in range(int(max_iter)):
        history.append(_iterate(N.indptr, N.indices, N.data, shares, words, new_shares, new_words))
        shares, new_shares = new_shares, shares
        words, new_words = new_words, words
        if len(history) > 1 and history[-1] - history[-2] <= tol * total:
            break
    history.append(_likelihood(N.indptr, N.indices, N.data, shares, words))
    return ConceptModel(shares, words, np.array(history))


@jit
def _dot(a: Any, b: Any) -> float:
    p = 0.0
    for z in range(len(a)):
        p += a[z] * b[z]
    return p


@ordered_jit
def _iterate(
    indptr: Any, indices: Any, data: Any, shares: Any, words: Any, new_shares: Any, new_words: Any
) -> float:
    """Write one iteration into ``new_…``; returns the log-likelihood before it."""
    k = words.shape[1]
    value = 0.0
    new_words[:] = 0.0
    for d in range(len(indptr) - 1):
        length = 0.0
        for z in range(k):
            new_shares[d, z] = 0.0
        for place in range(indptr[d], indptr[d + 1]):
            w, count = indices[place], data[place]
            p = max(_dot(shares[d], words[w]), _TINY)
            value += count * np.log(p)
            length += count
            ratio = count / p
            for z in range(k):
                joint = ratio * shares[d, z] * words[w, z]
                new_shares[d, z] += joint
                new_words[w, z] += joint
        for z in range(k):
            new_shares[d, z] = new_shares[d, z] / length if length > 0.0 else shares[d, z]
    sums = np.zeros(k)
    for w in range(len(new_words)):
        for z in range(k):
            sums[z] += new_words[w, z]
    for w in range(len(new_words)):
        for z in range(k):
            if sums[z] > 0.0:
                new_words[w, z] /= sums[z]
    return value


@ordered_jit
def _likelihood(indptr: Any, indices: Any, data: Any, shares: Any, words: Any) -> float:
    value = 0.0
    for d in range(len(indptr) - 1):
        for place in range(indptr[d], indptr[d + 1]):
            p = _dot(shares[d], words[indices[place]])
            value += data[place] * np.log(max(p, _TINY))
    return value


@ordered_jit
def _fold_in(
    indptr: Any,
    indices: Any,
    data: Any,
    words: Any,
    shares: Any,
    bounds: Any,
    tol: float,
    max_iter: int,
) -> None:
    """Improve P(z|d) of every document, starting from the values in ``shares``."""
    k = words.shape[1]
    g = np.empty(k)
    for d in range(len(indptr) - 1):
        for _ in range(max_iter):
            length = 0.0
            g[:] = 0.0
            for place in range(indptr[d], indptr[d + 1]):
                w, count = indices[place], data[place]
                p = _dot(shares[d], words[w])
                if p > 0.0:  # else no concept has this word
                    length += count
                    ratio = count / p
                    for z in range(k):
                        g[z] += ratio * words[w, z]
            if length == 0.0:
                break
            largest = 0.0
            for z in range(k):
                largest = max(largest, g[z])
            bounds[d] = np.log(largest / length)
            if bounds[d] <= tol:
                break
            for z in range(k):
                shares[d, z] *= g[z] / length


def _counts(counts: Any) -> Any:
    """Counts as a sparse array of floats, stored by rows."""
    from scipy.sparse import csr_array, issparse

    given: Any = counts if issparse(counts) else check_floats("counts", counts)
    if given.ndim != 2 or 0 in given.shape:
        raise ValueError(f"counts must be documents by words; found shape {given.shape}.")
    N = csr_array(given, dtype=np.float64)
    if not np.isfinite(N.data).all() or (N.data < 0).any():
        raise ValueError("counts must be finite and non-negative numbers of words.")
    N = csr_array((N.data, N.indices.astype(np.int64), N.indptr.astype(np.int64)), shape=N.shape)
    N.sum_duplicates()
    return N
