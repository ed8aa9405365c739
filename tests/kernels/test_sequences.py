"""Smith-Waterman against slower ways to say the same, and against scores worked out by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from kernelweave import EmpiricalKernelMap, KernelBank, MKLClassifier, SmithWaterman
from kernelweave.kernels._blosum62 import LETTERS, blosum62
from kernelweave.kernels.sequences import LANES, smith_waterman

DNA = ("ACGT", 3.0 * np.eye(4) - 2.0)  # match 1, mismatch −2


def best_over_all_alignments(x, z, score, opened, extended):
    """Every alignment of every pair of segments, written out by recursion."""

    def extend(i, j, state):
        """The best that may follow once x[:i] and z[:j] are used; stopping costs nothing."""
        best = 0.0
        if i < len(x) and j < len(z):
            best = max(best, score[x[i], z[j]] + extend(i + 1, j + 1, "match"))
        for grows, next_i, next_j in (("x", i + 1, j), ("z", i, j + 1)):
            if next_i <= len(x) and next_j <= len(z):
                cost = extended + (opened if state != grows else 0.0)
                best = max(best, extend(next_i, next_j, grows) - cost)
        return best

    return max(extend(i, j, "match") for i in range(len(x)) for j in range(len(z)))


def cubic(x, z, score, opened, extended):
    """The recursion of 1981: gaps of every length looked at in every cell."""
    H = np.zeros((len(x) + 1, len(z) + 1))
    for i in range(1, len(x) + 1):
        for j in range(1, len(z) + 1):
            gaps = [H[i - k, j] - opened - k * extended for k in range(1, i + 1)]
            gaps += [H[i, j - k] - opened - k * extended for k in range(1, j + 1)]
            H[i, j] = max(0.0, H[i - 1, j - 1] + score[x[i - 1], z[j - 1]], *gaps)
    return H.max()


def random_sequences(rng, n, lengths, letters=LETTERS[:20]):
    return ["".join(rng.choice(list(letters), size=rng.integers(*lengths))) for _ in range(n)]


def as_dict(letters, matrix):
    return {(a, b): matrix[i, j] for i, a in enumerate(letters) for j, b in enumerate(letters)}


@pytest.mark.parametrize(("opened", "extended"), [(2.0, 1.0), (0.0, 1.5), (1.0, 0.0)])
def test_all_alignments_of_short_strings(opened, extended):
    rng = np.random.default_rng(0)
    x, z = random_sequences(rng, 6, (1, 5), "AC"), random_sequences(rng, 6, (1, 5), "AC")
    letters, matrix = "AC", np.array([[2.0, -1.0], [-1.0, 3.0]])
    found = smith_waterman(
        x, z, substitution=(letters, matrix), gap_open=opened, gap_extend=extended
    )
    score = as_dict(letters, matrix)
    for i, a in enumerate(x):
        for j, b in enumerate(z):
            assert found[i, j] == best_over_all_alignments(a, b, score, opened, extended)


@pytest.mark.parametrize("opened", [0.0, 4.0, 11.0])
def test_against_the_cubic_recursion(opened):
    rng = np.random.default_rng(1)
    x, z = random_sequences(rng, 5, (1, 30)), random_sequences(rng, 7, (5, 40))
    z[0] = x[0] + "WWCW" + x[1]
    found = smith_waterman(x, z, gap_open=opened, gap_extend=1)
    score = as_dict(LETTERS, blosum62())
    expected = [[cubic(a, b, score, opened, 1.0) for b in z] for a in x]
    assert np.array_equal(found, expected)


def test_textbook_scores():
    # Durbin et al., Biological sequence analysis, 2.3: BLOSUM50, 8 for every letter of a gap;
    # AWGHE over AW-HE: 5 + 15 − 8 + 10 + 6
    letters = "HEAGWP"
    scores = np.array(
        [
            [10, 0, -2, -2, -3, -2],
            [0, 6, -1, -3, -3, -1],
            [-2, -1, 5, 0, -3, -1],
            [-2, -3, 0, 8, -3, -2],
            [-3, -3, -3, -3, 15, -4],
            [-2, -1, -1, -2, -4, 10],
        ]
    )
    how = {"substitution": (letters, scores), "gap_open": 0, "gap_extend": 8}
    assert smith_waterman(["HEAGAWGHEE"], ["PAWHEAE"], **how) == 28
    # match 3, mismatch −3, gaps 2 a letter; GTT-AC over GTTGAC: 5 · 3 − 2
    dna = {"substitution": ("ACGT", 6 * np.eye(4) - 3), "gap_open": 0, "gap_extend": 2}
    assert smith_waterman(["TGTTACGG"], ["GGTTGACTA"], **dna) == 13


@pytest.mark.parametrize(
    ("x", "z", "score"),
    [
        ("WWW", "WWW", 33),  # 3 · 11
        ("PPPHEAPPP", "GGGHEAGGG", 17),  # HEA alone: 8 + 5 + 4; P over G costs 2
        ("WWWWCCCC", "WWWWAACCCC", 67),  # 44 + 36, less a gap of two, 11 + 2
        ("WWWWCCCC", "WWWWCCCC", 80),
        ("WC", "WAAAAAAAAAAAAC", 11),  # the gap costs more than the second match brings
        ("AAAA", "WWWW", 0),
        ("ARNDX", "B", 4),  # B over D
        ("M*K", "M*K", 11),  # 5 + 1 + 5
    ],
)
def test_scores_by_hand(x, z, score):
    assert smith_waterman([x], [z])[0, 0] == score
    assert smith_waterman([z], [x])[0, 0] == score


def test_blosum62():
    scores = blosum62()
    assert np.array_equal(scores, scores.T)
    assert [scores[LETTERS.index(a), LETTERS.index(b)] for a, b in ("WW", "IV", "DE", "FY")] == [
        11,
        3,
        2,
        3,
    ]
    # the ambiguous letters follow from what they stand for: B is N or D, * meets all alike
    assert (scores[-1, :-1] == -4).all() and scores[-1, -1] == 1
    assert (scores.diagonal()[:20] == scores[:20, :20].max(axis=1)).all()
    background = np.array([78, 51, 41, 52, 24, 34, 59, 83, 25, 62, 92, 56, 24, 43, 43, 59, 55, 14])
    background = np.append(background, [34, 72]) / 1001  # frequencies of Henikoff and Henikoff
    assert background @ scores[:20, :20] @ background == pytest.approx(
        -0.5209 * 2, abs=0.15
    )  # bits


def test_more_sequences_than_lanes_in_any_order():
    rng = np.random.default_rng(2)
    x = random_sequences(rng, 2 * LANES + 3, (1, 25))
    S = smith_waterman(x)
    assert np.array_equal(S, S.T)
    assert np.array_equal(S, smith_waterman(x, x))
    order = rng.permutation(len(x))
    assert np.array_equal(S[np.ix_(order, order)], smith_waterman([x[i] for i in order]))
    assert np.array_equal(S[:4, 5:9], smith_waterman(x[:4], x[5:9]))
    assert np.array_equal(S, smith_waterman(x, n_jobs=2))
    kernel = SmithWaterman(n_jobs=2)
    X = np.array(x, dtype=object).reshape(-1, 1)
    fitted = KernelBank([EmpiricalKernelMap(kernel)], normalize=None).fit(X[:40])
    np.testing.assert_allclose(fitted.stack.combine([1.0]), S[:40, :40] @ S[:40, :40], rtol=1e-12)


def test_what_changes_nothing_and_what_can_only_add():
    rng = np.random.default_rng(3)
    x, z = random_sequences(rng, 8, (5, 30)), random_sequences(rng, 8, (5, 30))
    S = smith_waterman(x, z)
    assert np.array_equal(S, smith_waterman([s[::-1] for s in x], [s[::-1] for s in z]))
    assert (smith_waterman([s + "ARND" for s in x], z) >= S).all()
    assert (smith_waterman(x, z, gap_open=3) >= S).all()
    assert (np.minimum.outer(smith_waterman(x).diagonal(), smith_waterman(z).diagonal()) >= S).all()


def test_scores_that_are_no_whole_numbers():
    rng = np.random.default_rng(4)
    x = random_sequences(rng, 5, (3, 12), "ACGT")
    A = rng.normal(size=(4, 4))
    matrix = A + A.T
    found = smith_waterman(x, substitution=("ACGT", matrix), gap_open=0.3, gap_extend=0.7)
    score = as_dict("ACGT", matrix)
    expected = [[cubic(a, b, score, 0.3, 0.7) for b in x] for a in x]
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    frame = pd.DataFrame(matrix, index=list("ACGT"), columns=list("ACGT"))
    again = smith_waterman(x, substitution=frame, gap_open=0.3, gap_extend=0.7)
    assert np.array_equal(found, again)


def test_in_a_bank_through_the_empirical_kernel_map():
    rng = np.random.default_rng(5)
    motif = "WHCYWMHFC"
    y = rng.random(40) < 0.5
    x = random_sequences(rng, 40, (15, 40))
    x = [s[:5] + motif + s[5:] if positive else s for s, positive in zip(x, y, strict=True)]
    X = np.array(x, dtype=object).reshape(-1, 1)
    bank = KernelBank([EmpiricalKernelMap(SmithWaterman())], normalize=None)
    fitted = bank.fit(X[:30])
    S = smith_waterman(x)
    whole = S[:, :30] @ S[:, :30].T
    np.testing.assert_allclose(fitted.stack.combine([1.0]), whole[:30, :30], rtol=1e-12)
    np.testing.assert_allclose(fitted.cross(X, [1.0]), whole[:, :30], rtol=1e-12)
    assert np.linalg.eigvalsh(whole)[0] > -1e-9 * np.trace(whole)
    model = MKLClassifier(KernelBank([EmpiricalKernelMap(SmithWaterman())], normalize="sphere"))
    assert model.fit(X[:30], y[:30]).score(X[30:], y[30:]) >= 0.9


def test_on_the_sphere_new_rows_have_length_one():
    x = np.array([["WHCY"], ["WHAA"], ["CCYY"]], dtype=object)
    kernel = SmithWaterman()
    fitted = KernelBank([kernel], normalize="sphere").fit(x)
    S = smith_waterman(["WHCYM", *x[:, 0]])
    expected = S[0, 1:] / np.sqrt(S[0, 0] * S.diagonal()[1:])
    np.testing.assert_allclose(fitted.cross([["WHCYM"]], [1.0])[0], expected, rtol=1e-12)


def test_alone_it_is_refused_where_it_is_no_kernel():
    rng = np.random.default_rng(6)
    x = random_sequences(rng, 60, (5, 9), "ACGT")
    kernel = SmithWaterman(DNA, gap_open=0, gap_extend=0.1)
    S = smith_waterman(x, substitution=DNA, gap_open=0, gap_extend=0.1)
    assert np.linalg.eigvalsh(S)[0] < -1e-6 * np.trace(S), "this is what the test is about"
    X = np.array(x, dtype=object).reshape(-1, 1)
    with pytest.raises(ValueError, match=r"not positive semidefinite.*EmpiricalKernelMap"):
        KernelBank([kernel]).fit(X)
    KernelBank([EmpiricalKernelMap(kernel)]).fit(X)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: smith_waterman(["AJ"]), ValueError, "sequence 0 has the letter 'J'"),
        (lambda: smith_waterman(["AR", "ar"]), ValueError, "sequence 1 has the letter 'a'"),
        (lambda: smith_waterman(["A", ""]), ValueError, "sequence 1 is empty"),
        (
            lambda: smith_waterman(["A", np.nan]),
            TypeError,
            "sequence 1 must be a string, found nan",
        ),
        (lambda: smith_waterman(["A", None]), TypeError, "sequence 1 must be a string, found None"),
        (lambda: smith_waterman("ARND"), TypeError, "a must be a list of sequences"),
        (lambda: smith_waterman(["A"], "ARND"), TypeError, "b must be a list of sequences"),
        (lambda: smith_waterman([]), ValueError, "a must hold at least one sequence"),
        (lambda: smith_waterman(["A"], gap_open=-1), ValueError, "gap_open must be .* ≥ 0"),
        (lambda: smith_waterman(["A"], gap_extend=np.nan), ValueError, "gap_extend .* found nan"),
        (lambda: smith_waterman(["A"], substitution=np.eye(4)), TypeError, "letters, matrix"),
        (lambda: smith_waterman(["A"], substitution=("AC", np.eye(3))), ValueError, "shape"),
        (lambda: smith_waterman(["A"], substitution=("AA", np.eye(2))), ValueError, "twice"),
        (
            lambda: smith_waterman(["A"], substitution=("AC", [[1, 2], [3, 1]])),
            ValueError,
            "symmetric",
        ),
        (
            lambda: smith_waterman(["A"], substitution=("AC", [[1, np.nan], [np.nan, 1]])),
            ValueError,
            "finite",
        ),
        (
            lambda: KernelBank([SmithWaterman()]).fit([["A", "C"], ["C", "A"]]),
            ValueError,
            "takes one column of sequences; view 'all' has 2",
        ),
        (
            lambda: KernelBank([SmithWaterman(gap_open="x")]).fit([["A"], ["C"]]),
            TypeError,
            "gap_open must be",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_nothing_is_read_that_was_not_written(monkeypatch):
    """A signalling NaN, which fresh memory may hold by chance, warns when it is converted."""

    def dirty(shape, dtype=float):
        array = np.zeros(shape, dtype)
        if dtype == np.float32:
            array.view(np.uint32)[...] = 0x7F800001
        return array

    words = ["ACDE" * (k % 5 + 1) for k in range(40)]
    expected = smith_waterman(words)
    monkeypatch.setattr(np, "empty", dirty)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(smith_waterman(words), expected)


@pytest.mark.parametrize("place", [-0.0, True, 2, -1])
def test_training_rows_have_whole_numbers(place):
    rows = np.array([["ACDE"], ["CDEF"]])
    fitted = KernelBank([EmpiricalKernelMap(SmithWaterman())], normalize=None).fit(rows)
    features = fitted.members[0].kernel.features
    features.place[next(iter(features.place))] = place
    with pytest.raises(ValueError, match="not numbered"):
        features.validate()
