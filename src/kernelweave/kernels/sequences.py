"""Smith-Waterman similarity: the score of the best local alignment of two sequences.

    s(x, z) = max over pairs of segments and their alignments of
              Σ substitution(x_i, z_j) − Σ over gaps (gap_open + length · gap_extend)

[Smith and Waterman 1981], with affine gaps by Gotoh's recursion. It is symmetric but in general
not positive semidefinite: the empirical kernel map turns it into a kernel [lanckriet2004, §6.2.2].

One sequence is aligned with ``LANES`` others at a time: the inner loop runs over these and
vectorizes, unlike the recursion along a single pair. Sequences are sorted by length to keep
padding short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import check_number, shown
from kernelweave._core.jit import jit
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array
from kernelweave.kernels._blosum62 import LETTERS, blosum62
from kernelweave.kernels.base import Kernel
from kernelweave.stacks.resources import count_threads, run
from kernelweave.views.rows import Pair, Rows

LANES = 32
_EXACT = 2.0**24  # integers up to this are exact in float32


@dataclass(eq=False, repr=False)
class SmithWaterman(Kernel):
    """Best local alignment score of two sequences, as a similarity for ``EmpiricalKernelMap``.

    X is one column of strings. Use ``EmpiricalKernelMap(SmithWaterman())``, which is always
    positive semidefinite; a bank refuses the plain scores unless their matrix happens to be.

    Parameters
    ----------
    substitution : None, data frame, or (letters, matrix)
        Symmetric scores for pairs of letters; None for BLOSUM62, on amino acids.
    gap_open, gap_extend : non-negative float
        A gap of k letters costs gap_open + k·gap_extend. The defaults are BLAST's for BLOSUM62.
    n_jobs : int or None
        Number of threads: None for one, −1 for one per core. Scores do not depend on it.
    """

    known_psd = False
    advice = "EmpiricalKernelMap(SmithWaterman()) is positive semidefinite for any scores."
    numeric = False  # it reads strings

    substitution: Any = None
    gap_open: float = 11.0
    gap_extend: float = 1.0
    n_jobs: int | None = None

    def label(self) -> str:
        """Shows the cost of gaps, and whether the scores are custom."""
        own = "" if self.substitution is None else "own scores, "
        return f"SmithWaterman({own}gaps {self.gap_open:g} + {self.gap_extend:g}·length)"

    def validate(self) -> None:
        """Raise ValueError for invalid scores or gap costs."""
        _Scores.read(self.substitution, self.gap_open, self.gap_extend)

    def fill(self, pair: Pair, out: Array) -> None:
        """Scores of all pairs; each pair is aligned once if both sides are the same rows."""
        np.copyto(out, self._scores(_strings(pair.a), None if pair.same else _strings(pair.b)))

    def diagonal(self, rows: Rows) -> Array:
        """The score of each sequence with itself."""
        return np.array([self._scores([one], None)[0, 0] for one in _strings(rows)])

    def _scores(self, a: list[Any], b: list[Any] | None) -> Array:
        return smith_waterman(a, b, **self.get_params(deep=False))


def smith_waterman(
    a: Sequence[str],
    b: Sequence[str] | None = None,
    *,
    substitution: Any = None,
    gap_open: float = 11.0,
    gap_extend: float = 1.0,
    n_jobs: int | None = None,
) -> Array:
    """Best local alignment scores of the sequences ``a`` with ``b``, or with each other.

    Returns an array (len(a), len(b)). If ``b`` is None, each pair is aligned once. See
    ``SmithWaterman`` for the parameters.
    """
    scores = _Scores.read(substitution, gap_open, gap_extend)
    left = _encode(a, scores.letters, "a")
    right = left if b is None else _encode(b, scores.letters, "b")
    dtype = scores.dtype(left, right)
    rows, groups = _by_length(left), _Groups.of(right, len(scores.letters))
    padded = np.full((len(scores.letters), len(scores.letters) + 1), -np.inf, dtype)
    padded[:, :-1] = scores.matrix
    costs = dtype.type(scores.gap_open + scores.gap_extend), dtype.type(scores.gap_extend)
    zero = dtype.type(0.0)
    found = np.zeros((len(left), LANES * len(groups.codes)), dtype)

    def work(start: int, stop: int) -> None:
        longest = max(len(left[row]) for row in rows[start:stop])
        room = np.empty((2, longest, LANES), dtype)
        small = np.empty((len(scores.letters) + 3, LANES), dtype)
        for place in range(start, stop):
            first = place // LANES if b is None else 0  # earlier pairs are done
            for group in range(first, len(groups.codes)):
                best = found[place, LANES * group : LANES * (group + 1)]
                _align(
                    left[rows[place]], groups.codes[group], padded, *costs, zero, room, small, best
                )

    run(work, len(left), SETTINGS.worth_threads, count_threads(n_jobs))
    result = np.empty((len(left), len(right)))
    result[rows[:, None], groups.order] = found[:, : len(right)]
    if b is None:
        upper = np.empty((len(left), len(left)), dtype=bool)
        upper[rows[:, None], rows] = np.arange(len(left))[:, None] <= np.arange(len(left))
        result = np.where(upper, result, result.T)
    return result


@jit
def _align(
    a: Any, b: Any, scores: Any, first: Any, more: Any, zero: Any, room: Any, small: Any, best: Any
) -> None:
    """Best scores of ``a`` with each of ``LANES`` sequences, the columns of ``b``.

    H[i]: best score of alignments that end at a_i and the current letter of b. E[i]: the same for
    alignments that end in a gap in a; F: in a gap in b.
    """
    H, E = room[0], room[1]
    profile, F, diagonal = small[3:], small[0], small[1]
    for i in range(len(a)):
        for k in range(LANES):
            H[i, k] = zero
            E[i, k] = zero
    for k in range(LANES):
        best[k] = zero
    for j in range(len(b)):
        for letter in range(len(scores)):
            for k in range(LANES):
                profile[letter, k] = scores[letter, b[j, k]]
        for k in range(LANES):
            F[k] = zero
            diagonal[k] = zero
        for i in range(len(a)):
            letter = a[i]
            for k in range(LANES):
                h = diagonal[k] + profile[letter, k]
                e = E[i, k]
                f = F[k]
                h = h if h > e else e
                h = h if h > f else f
                h = h if h > zero else zero
                diagonal[k] = H[i, k]
                H[i, k] = h
                best[k] = h if h > best[k] else best[k]
                h = h - first
                e = e - more
                f = f - more
                E[i, k] = e if e > h else h
                F[k] = f if f > h else h


class _Groups(NamedTuple):
    """Sequences sorted by length, in groups of ``LANES``, one sequence per column."""

    order: NDArray[np.intp]
    codes: list[NDArray[np.uint8]]

    @classmethod
    def of(cls, sequences: list[NDArray[np.uint8]], blank: int) -> _Groups:
        order = _by_length(sequences)
        codes = []
        for start in range(0, len(order), LANES):
            members = [sequences[place] for place in order[start : start + LANES]]
            group = np.full((len(members[-1]), LANES), blank, dtype=np.uint8)
            for lane, sequence in enumerate(members):
                group[: len(sequence), lane] = sequence
            codes.append(group)
        return cls(order, codes)


class _Scores(NamedTuple):
    letters: str
    matrix: Array
    gap_open: float
    gap_extend: float

    @classmethod
    def read(cls, substitution: Any, gap_open: Any, gap_extend: Any) -> _Scores:
        opened = check_number("SmithWaterman: gap_open", gap_open, zero=True)
        extended = check_number("SmithWaterman: gap_extend", gap_extend, zero=True)
        if substitution is None:
            return cls(LETTERS, blosum62(), opened, extended)
        if hasattr(substitution, "index") and hasattr(substitution, "columns"):
            letters, columns = [*map(str, substitution.index)], [*map(str, substitution.columns)]
            if letters != columns:
                raise ValueError("substitution: rows and columns must have the same letters.")
            given = substitution.to_numpy()
        elif isinstance(substitution, tuple) and len(substitution) == 2:
            letters, given = [*map(str, substitution[0])], np.asarray(substitution[1])
        else:
            raise TypeError(
                "substitution must be None, a data frame or a pair (letters, matrix); found "
                f"{shown(substitution)}."
            )
        return cls("".join(letters), _check_scores(letters, given), opened, extended)

    def dtype(self, a: list[NDArray[np.uint8]], b: list[NDArray[np.uint8]]) -> np.dtype[Any]:
        """float32 if it holds all scores exactly (small enough integers), else float64."""
        whole = np.array_equal(self.matrix, np.round(self.matrix))
        whole = whole and float(self.gap_open).is_integer() and float(self.gap_extend).is_integer()
        longest = min(max(map(len, a)), max(map(len, b)))
        size = max(np.abs(self.matrix).max() * longest, self.gap_open + self.gap_extend)
        return np.dtype(np.float32 if whole and size < _EXACT else np.float64)


def _check_scores(letters: list[str], given: NDArray[Any]) -> Array:
    size = len(letters)
    if not 0 < size < 255 or any(len(letter) != 1 for letter in letters):
        raise ValueError(f"substitution: letters are single characters; found {letters[:5]}.")
    if len(set(letters)) < size:
        raise ValueError("substitution: a letter occurs twice.")
    matrix = np.asarray(given, dtype=np.float64)
    if matrix.shape != (size, size):
        raise ValueError(f"substitution: {size} letters, but a matrix of shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise ValueError("substitution: scores must be finite.")
    if not np.array_equal(matrix, matrix.T):
        raise ValueError("substitution: scores must be symmetric.")
    return matrix


def _by_length(sequences: list[NDArray[np.uint8]]) -> NDArray[np.intp]:
    return np.argsort([len(sequence) for sequence in sequences], kind="stable")


def _encode(sequences: Any, letters: str, name: str) -> list[NDArray[np.uint8]]:
    """Each sequence as positions in ``letters``."""
    if isinstance(sequences, str):
        raise TypeError(f"{name} must be a list of sequences; found one string.")
    place = {letter: code for code, letter in enumerate(letters)}
    encoded = []
    for row, sequence in enumerate(sequences):
        if not isinstance(sequence, str):
            raise TypeError(
                f"SmithWaterman: sequence {row} must be a string, found {shown(sequence)}; leave "
                "out rows without a sequence."
            )
        if not sequence:
            raise ValueError(f"SmithWaterman: sequence {row} is empty; leave it out.")
        try:
            encoded.append(np.array([place[letter] for letter in sequence], dtype=np.uint8))
        except KeyError as error:
            raise ValueError(
                f"SmithWaterman: sequence {row} has the letter {error}, which has no scores; "
                f"known are {letters}. Replace it (by X for an unknown amino acid; use upper() for "
                "lowercase letters), or pass your own scores."
            ) from None
    if not encoded:
        raise ValueError(f"{name} must hold at least one sequence; found none.")
    return encoded


def _strings(rows: Rows) -> list[Any]:
    column = rows.only_column("SmithWaterman", "sequences")
    return [str(value) if isinstance(value, str) else value for value in column]
