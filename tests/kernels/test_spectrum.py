"""Spectrum and mismatch kernels against counts over all words of the alphabet."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils import get_tags

from kernelweave import KernelBank, Linear, MKLClassifier, Spectrum
from kernelweave._core.settings import SETTINGS
from kernelweave.kernels.spectrum import spectrum_kernel

rng = np.random.default_rng(6)


def strings(n, letters="ACGT", longest=14):
    return ["".join(rng.choice([*letters], rng.integers(0, longest + 1))) for _ in range(n)]


def counted(texts, letters, length, mismatches):
    """φ by its definition: every word of the alphabet against every place of every string."""
    words = itertools.product(letters, repeat=length)
    return np.array(
        [
            [
                sum(
                    sum(a != b for a, b in zip(word, text[i : i + length], strict=True))
                    <= mismatches
                    and set(text[i : i + length]) <= set(letters)
                    for i in range(len(text) - length + 1)
                )
                for text in texts
            ]
            for word in words
        ],
        dtype=float,
    ).T


@pytest.mark.parametrize(("length", "mismatches"), [(1, 0), (2, 0), (3, 0), (2, 1), (4, 1), (3, 2)])
@pytest.mark.parametrize("letters", ["ab", "ACGT", "aβ中"])
def test_equals_counting_over_all_words(length, mismatches, letters):
    a, b = strings(12, letters), strings(9, letters)
    given = {"length": length, "mismatches": mismatches, "alphabet": letters}
    left, right = (counted(texts, letters, length, mismatches) for texts in (a, b))
    assert np.array_equal(spectrum_kernel(a, b, **given), left @ right.T)
    K = spectrum_kernel(a, **given)
    assert np.array_equal(K, left @ left.T)
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * np.trace(K)


@pytest.mark.parametrize("full", [0.0, 1.0], ids=["dense", "sparse"])
@pytest.mark.parametrize("normalize", [None, "sphere", "center+trace"])
@pytest.mark.parametrize("mismatches", [0, 1])
def test_in_a_bank_for_new_strings_too(mismatches, normalize, full, monkeypatch):
    monkeypatch.setattr(SETTINGS, "dense_share", full)
    old, new = strings(20), strings(8)
    fitted = KernelBank([Spectrum(3, mismatches)], normalize=normalize).fit([[s] for s in old])
    phi = counted(old + new, "ACGT", 3, mismatches)
    if normalize == "sphere":
        norms = np.linalg.norm(phi, axis=1, keepdims=True)
        phi = np.divide(phi, norms, where=norms > 0, out=np.zeros_like(phi))
    elif normalize:
        phi -= phi[:20].mean(axis=0)
        phi *= np.sqrt(20) / np.linalg.norm(phi[:20])
    every = np.arange(20)
    np.testing.assert_allclose(
        fitted.stack.block(0, every, every), phi[:20] @ phi[:20].T, atol=1e-12
    )
    cross = fitted.cross_stack([[s] for s in new])[0]
    np.testing.assert_allclose(cross, phi[20:] @ phi[:20].T, atol=1e-12)


def test_words_with_letters_outside_the_alphabet_are_left_out():
    assert spectrum_kernel(["ACGNACG"], ["ACG"], length=3, alphabet="ACGT")[0, 0] == 2.0
    assert spectrum_kernel(["ACGNACG"], length=3, alphabet="ACGT")[0, 0] == 4.0
    assert spectrum_kernel(["NNN"], ["ACG"], length=2, mismatches=1, alphabet="ACGT")[0, 0] == 0.0
    fitted = KernelBank([Spectrum(2)], normalize="sphere").fit([["ACG"], ["CGT"], ["TTT"]])
    new = fitted.cross_stack([["ACNNNN"], ["AC"], ["acg"], ["nothing"], [""]])[0]
    assert np.array_equal(new[0], new[1])  # N was not among the training letters
    assert new[1, 0] == pytest.approx(np.sqrt(0.5))
    assert not new[2:].any()


def test_new_words_count_in_the_length_of_a_new_string():
    """TT and TG are no words of the training strings, but make the new one longer."""
    fitted = KernelBank([Spectrum(2)], normalize="sphere").fit([["ACG"], ["CGT"]])
    cross = fitted.cross_stack([["ACTTG"]])[0]
    np.testing.assert_allclose(cross, [[1 / np.sqrt(4 * 2), 0.0]])


def test_strings_shorter_than_a_word():
    K = spectrum_kernel(["AC", "", "ACGA"], length=3)
    assert np.array_equal(K, np.diag([0.0, 0.0, 2.0]))
    assert np.array_equal(spectrum_kernel(["", "A"], length=2), np.zeros((2, 2)))
    assert np.array_equal(spectrum_kernel(["", ""], length=3, mismatches=1), np.zeros((2, 2)))
    with pytest.warns(UserWarning, match=r"Spectrum\(4\).*trace is zero"):
        fitted = KernelBank([Spectrum(1), Spectrum(4)]).fit([["AC"], ["CG"], ["ACG"]])
    assert fitted.stack.m == 1


def test_long_words_of_large_alphabets():
    protein = "ACDEFGHIKLMNPQRSTVWY"
    texts = strings(30, protein, 60)
    shared = [texts[0], texts[0] + texts[1]]
    assert spectrum_kernel(shared, length=14)[0, 1] == len(texts[0]) - 13
    left = counted(texts[:6], protein, 2, 1)
    found = spectrum_kernel(texts[:6], length=2, mismatches=1, alphabet=protein)
    assert np.array_equal(found, left @ left.T)


def sequences_with_a_motif(n):
    labels = rng.random(n) < 0.5
    texts = strings(n, longest=30)
    return pd.DataFrame({
        "dose": rng.normal(size=n),
        "dna": [t + "GATTACA" * bool(y) + "ACG" for t, y in zip(texts, labels, strict=True)],
    }), np.where(labels, "motif", "none")  # fmt: skip


def test_in_a_model_beside_numbers():
    frame, y = sequences_with_a_motif(80)
    bank = KernelBank(
        [("four", Spectrum(4), "dna"), ("near", Spectrum(4, 1), "dna"), ("dose", Linear(), "dose")],
        normalize="sphere",
    )
    model = MKLClassifier(bank)
    assert get_tags(model).input_tags.string
    assert cross_val_score(clone(model), frame, y, cv=3).mean() > 0.9
    model.fit(frame, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.decision_function(frame), model.decision_function(frame))
    model.set_params(kernels__four__length=2).fit(frame, y)
    assert model.duality_gap_ <= 1e-3
    assert clone(Spectrum(4, 1, "ACGT")) == Spectrum(4, 1, "ACGT")


def test_many_strings_are_never_compared_in_pairs():
    """20,000 strings against one: 20,000 counts, where pairs would take minutes."""
    texts = ["".join(row) for row in rng.choice([*"ACGT"], (20_000, 20))]
    assert spectrum_kernel(texts, texts[:1], length=8).max() == 13.0


ROWS = [["ACGT"], ["CCGT"], ["GATA"]]


@pytest.mark.parametrize(
    ("kernel", "rows", "error", "message"),
    [
        (Spectrum(0), ROWS, ValueError, "Spectrum: length must be positive, found 0"),
        (Spectrum(2.5), ROWS, TypeError, "Spectrum: length must be a positive int, found 2.5"),
        (Spectrum(3, -1), ROWS, ValueError, "Spectrum: mismatches must be an integer ≥ 0"),
        (Spectrum(3, 3), ROWS, ValueError, "mismatches must be less than length=3.*found 3"),
        (Spectrum(40), ROWS, ValueError, "length must be at most 31 with the 4 letters.*found 40"),
        (Spectrum(63), np.array([["A" * 70], ["AA"]]), ValueError, "at most 62; found 63"),
        (Spectrum(10**18), ROWS, ValueError, "at most 62; found 10000"),
        (Spectrum(2, alphabet="AAC"), ROWS, ValueError, "alphabet.*each once.*found 'AAC'"),
        (Spectrum(2, alphabet=["AC", "G"]), ROWS, ValueError, "alphabet must be None or single"),
        (Spectrum(2, alphabet=4), ROWS, TypeError, "alphabet must be None or single letters"),
        (Spectrum(2), [["AC"], [None]], TypeError, "column 'x0' must hold strings.*None in row 1"),
        (Spectrum(2), [[1.0], [2.0]], TypeError, "must hold strings, found .*1.0.* in row 0"),
        (Spectrum(2), [["AC", "GT"], ["A", "G"]], ValueError, "takes one column.*2 columns"),
        (Spectrum(30, 15, "ACGT"), [["ACGT" * 9], ["A" * 40]], MemoryError, "fewer mismatches"),
    ],
)  # fmt: skip
def test_bad_input(kernel, rows, error, message):
    with pytest.raises(error, match=message):
        KernelBank([kernel]).fit(rows)


def test_one_string_is_no_list_of_strings():
    with pytest.raises(TypeError, match=r"a must be several strings, found one; pass \[text\]"):
        spectrum_kernel("ACGT")
