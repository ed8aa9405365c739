"""Spectrum and mismatch kernels: strings compared by the words of k letters that they hold.

    k(x, z) = Σ_u φ_u(x) φ_u(z),
    φ_u(x) = number of places in x where a word begins that differs from u in at most m letters

over all words u of k letters of an alphabet. With m = 0 this is the spectrum kernel [Leslie, Eskin
and Noble 2002], with m > 0 the (k, m)-mismatch kernel [Leslie et al. 2004].

A word is a number, its letters being digits. Words are counted by sorting these numbers, so that no
two strings are ever compared: φ is sparse, and the kernel is a product of sparse rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import check_number, shown
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.features import FeatureKernel, inner_products
from kernelweave.stacks.resources import GIB, OutOfMemory, available_bytes
from kernelweave.views import sparse
from kernelweave.views.rows import Rows

Numbers = NDArray[np.int64]

_BITS = 63  # of a word's number
_LARGEST = 2**_BITS - 1
_ENTRY = 24  # bytes of a word near another while these are gathered


class Spectrum(Kernel):
    """How many words of ``length`` letters two strings share, counting repeats.

    X is one column of strings. A string shorter than ``length`` has no word and is similar to
    none, itself included. Use ``KernelBank(normalize="sphere")`` where strings differ in length:
    long ones share more.

    Parameters
    ----------
    length : positive int
        Letters of a word. A bank with several lengths, such as
        ``[Spectrum(k) for k in range(1, 7)]``, learns which one matters.
    mismatches : int ≥ 0, less than ``length``
        Words count as equal to every word from which they differ in at most that many letters;
        0 is the spectrum kernel, more make it the mismatch kernel. The work grows with
        (``length`` · letters of the alphabet)^``mismatches``.
    alphabet : None or letters
        None: the letters of the training strings. Words with any other letter are left out, in
        training and prediction: ``alphabet="ACGT"`` skips the N in a DNA sequence. Upper and
        lower case are different letters.
    """

    numeric = False  # it reads strings

    def __init__(self, length: int = 3, mismatches: int = 0, alphabet: Any = None) -> None:
        self.length = length
        self.mismatches = mismatches
        self.alphabet = alphabet

    def label(self) -> str:
        """Shows the length, and the mismatches if there are any."""
        return f"Spectrum({self.length}{f', mismatches={self.mismatches}' * bool(self.mismatches)})"

    def validate(self) -> None:
        """Raise ValueError or TypeError for invalid parameters."""
        _Substrings.read(self.length, self.mismatches, self.alphabet, ())

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """The kernel with the alphabet and the words of these rows."""
        texts = _strings(rows)
        words = _Substrings.read(self.length, self.mismatches, self.alphabet, texts)
        features, phi = _Features.learn(words, texts)
        rows.remember(features, lambda: phi)
        return [("", _WordKernel(features))]


def spectrum_kernel(
    a: Sequence[str],
    b: Sequence[str] | None = None,
    *,
    length: int = 3,
    mismatches: int = 0,
    alphabet: Any = None,
) -> Array:
    """Spectrum or mismatch kernel of the strings ``a`` with ``b``, or with each other.

    Returns an array (len(a), len(b)). See ``Spectrum`` for the parameters; without an alphabet,
    it has the letters of all strings.
    """
    left, right = _check_strings(a, "a"), _check_strings(a if b is None else b, "b")
    words = _Substrings.read(length, mismatches, alphabet, [*left, *right])
    features, phi = _Features.learn(words, right)
    return inner_products(phi if b is None else features.of(left), phi)


class _WordKernel(FeatureKernel):
    """φ(x)ᵀφ(z); φ(x) of training words only, which is all that a product with them needs."""

    features: _Features

    def diagonal(self, rows: Rows) -> Array:
        """|φ(x)|² over all words, those that no training string holds included."""
        return sparse.sq_norms(self.features.words.learn(_strings(rows))[1])


class _Features:
    """φ of strings, one column for each of the words ``known``; ``full``: as a dense array."""

    def __init__(self, words: _Substrings, known: Numbers, full: bool) -> None:
        self.words, self.known, self.full = words, known, full

    @classmethod
    def learn(cls, words: _Substrings, texts: list[str]) -> tuple[_Features, Any]:
        """All words near those of the training strings, and φ of these strings."""
        known, phi = words.learn(texts)
        full = phi.nnz > SETTINGS.dense_share * phi.shape[0] * phi.shape[1]
        return cls(words, known, full), phi.toarray() if full else phi

    def __call__(self, rows: Rows) -> Any:
        return self.of(_strings(rows))

    def of(self, texts: list[str]) -> Any:
        phi = self.words.find(texts, self.known)
        return phi.toarray() if self.full else phi


class _Substrings(NamedTuple):
    """Words of ``length`` letters as numbers, the letters being digits."""

    length: int
    mismatches: int
    letters: str

    @classmethod
    def read(cls, length: Any, mismatches: Any, alphabet: Any, texts: Iterable[str]) -> _Substrings:
        """Checked parameters; the letters are those of ``texts`` unless an alphabet is given."""
        k = check_number("Spectrum: length", length, int)
        m = check_number("Spectrum: mismatches", mismatches, int, zero=True)
        if m >= k:
            raise ValueError(
                f"Spectrum: mismatches must be less than length={k}, or every word equals every "
                f"other; found {m}."
            )
        letters = "".join(sorted(set().union(*texts) if alphabet is None else _check(alphabet)))
        size = max(len(letters), 2)
        if k >= _BITS or size**k > _LARGEST:
            most = int(np.log(_LARGEST) / np.log(size) - 1e-9)
            of = f" with the {len(letters)} letters of this alphabet" if len(letters) > 2 else ""
            raise ValueError(
                f"Spectrum: length must be at most {most}{of}; found {k}. Use shorter words, or "
                "name fewer letters in alphabet."
            )
        return cls(k, m, letters)

    def validate(self) -> None:
        """Raise ValueError or TypeError for what ``read`` would refuse."""
        _Substrings.read(self.length, self.mismatches, None, self.letters)

    def learn(self, texts: list[str]) -> tuple[Numbers, Any]:
        """The words near those of the strings, in order, and φ in as many columns."""
        own, counts = self._count(texts)
        near = self._near(own)
        known = np.unique(near)
        return known, _summed(counts, near, known)

    def find(self, texts: list[str], known: Numbers) -> Any:
        """φ in one column for each of the words ``known``."""
        own, counts = self._count(texts)
        return _summed(counts, self._near(own), known)

    def _count(self, texts: list[str]) -> tuple[Numbers, Any]:
        """The words that the strings hold, in order, and how often each string does, as CSR."""
        from scipy.sparse import csr_array

        digits, inside = self._digits("".join(texts))
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        begins = np.maximum(lengths - self.length + 1, 0)  # words of each string
        row = np.repeat(np.arange(len(texts)), begins)
        place = np.arange(len(row)) + np.repeat(
            np.cumsum(lengths) - lengths - (np.cumsum(begins) - begins), begins
        )
        outside = np.concatenate([[0], np.cumsum(~inside)])
        whole = outside[place + self.length] == outside[place]
        row, place = row[whole], place[whole]
        number = np.zeros(len(place), dtype=np.int64)
        for j in range(self.length):
            number = number * len(self.letters) + digits[place + j]
        own, column = np.unique(number, return_inverse=True)
        return own, csr_array((np.ones(len(row)), (row, column)), shape=(len(texts), len(own)))

    def _digits(self, text: str) -> tuple[Numbers, NDArray[np.bool_]]:
        """Each letter's place in the alphabet, and whether it is there."""
        given, known = _codes(text), _codes(self.letters)
        if not len(known):
            return np.zeros(len(given), dtype=np.int64), np.zeros(len(given), dtype=bool)
        digits = np.minimum(np.searchsorted(known, given), len(known) - 1)
        return digits, known[digits] == given

    def _near(self, words: Numbers) -> Numbers:
        """All words that differ in at most ``mismatches`` letters, a row for each of ``words``."""
        size, k = max(len(self.letters), 1), self.length
        count = sum(comb(k, j) * (size - 1) ** j for j in range(self.mismatches + 1))
        self._require_memory(max(len(words), 1), count)
        near = np.empty((len(words), count), dtype=np.int64)
        filled = 0
        for j in range(self.mismatches + 1):
            for places in combinations(range(k), j):
                for steps in product(range(1, size), repeat=j):
                    near[:, filled] = words
                    for place, step in zip(places, steps, strict=True):
                        worth = size**place
                        digit = words // worth % size
                        near[:, filled] += ((digit + step) % size - digit) * worth
                    filled += 1
        return near

    def _require_memory(self, words: int, count: int) -> None:
        available = available_bytes()
        if available is not None and words * count * _ENTRY > available:
            raise OutOfMemory(
                f"Spectrum: {words} words of length={self.length} have {count} others each within "
                f"mismatches={self.mismatches} over {len(self.letters)} letters: that takes "
                f"{words * count * _ENTRY / GIB:.3g} GiB. Use fewer mismatches or shorter words."
            )


_Words = _Substrings  # as earlier pickles name it


def _summed(counts: Any, near: Numbers, known: Numbers) -> Any:
    """φ: counts of words, each added to all of ``known`` that are near it."""
    from scipy.sparse import csr_array

    column = np.searchsorted(known, near)
    column[column == len(known)] = 0
    row, place = np.nonzero(known[column] == near) if len(known) else (column[:0, 0], column[:0, 0])
    beside = csr_array(
        (np.ones(len(row)), (row, column[row, place])), shape=(len(near), len(known))
    )
    return counts @ beside


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _check(alphabet: Any) -> list[str]:
    told = "Spectrum: alphabet must be None or single letters, each once, such as 'ACGT'; found "
    if not isinstance(alphabet, Iterable):
        raise TypeError(f"{told}{shown(alphabet)}.")
    letters = list(alphabet)
    single = all(isinstance(letter, str) and len(letter) == 1 for letter in letters)
    if not letters or not single or len(set(letters)) < len(letters):
        raise ValueError(f"{told}{shown(alphabet)}.")
    return letters


def _strings(rows: Rows) -> list[str]:
    column = rows.only_column("Spectrum", "strings")
    return _check_strings(column, f"column {rows.table.label(rows.view.columns[0])!r}")


def _check_strings(texts: Any, where: str) -> list[str]:
    if isinstance(texts, str):
        raise TypeError(f"Spectrum: {where} must be several strings, found one; pass [text].")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"Spectrum: {where} must hold strings, found {shown(text)} in row {row}; leave out "
                "rows without a string, or use an empty one."
            )
    return [str(text) for text in texts]
