"""What error messages are made of, and short names for results."""

from __future__ import annotations

import numpy as np
import pytest
from _helpers.references import dense
from scipy.sparse import csr_matrix

import kernelweave.learners
from kernelweave import Precomputed, alignment, learn
from kernelweave._core.checks import check_floats, did_you_mean, some
from kernelweave.io.datasets import load
from kernelweave.papers.lanckriet2004.bounds import error_bound
from kernelweave.papers.lanckriet2004.completion import complete_kernel
from kernelweave.papers.lanckriet2004.max_determinant import max_determinant

K = np.eye(4)
SIGNS = ["-1", "1", "-1", "1"]


def test_some_of_many():
    assert some([]) == ""
    assert some("abcde") == "a, b, c, d, e"
    assert some(range(7)) == "0, 1, 2, 3, 4 and 2 more"
    assert some(map(repr, "abc"), most=2) == "'a', 'b' and 1 more"


def test_names_alike():
    assert did_you_mean("sonr", ["sonar", "heart"]) == "did you mean 'sonar'?"
    assert did_you_mean("x", ["sonar", "heart"]) == "known: 'sonar', 'heart'."
    assert did_you_mean(3, range(100, 200)).endswith(", '139' and 60 more.")


@pytest.mark.parametrize("words", [SIGNS, np.array(SIGNS), np.array(SIGNS, object), b"1", "1"])
def test_strings_are_no_numbers(words):
    with pytest.raises(TypeError, match="x must hold real numbers, found strings"):
        check_floats("x", words)


def test_strings_are_no_labels():
    with pytest.raises(TypeError, match="target must hold real numbers, found strings"):
        alignment(K, SIGNS)
    with pytest.raises(TypeError, match="y must hold real numbers, found strings"):
        max_determinant(K[None], SIGNS)
    with pytest.raises(ValueError, match=r"found 0 and 1; pass 2 \* y - 1, or np.outer\(y, y\)"):
        alignment(K, [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"found 2 and 3; pass np.outer\(y, y\)"):
        alignment(K, [2, 3, 2, 3])


@pytest.mark.parametrize(
    "call", [Precomputed, complete_kernel, lambda K: alignment(K, [-1, 1, -1, 1])]
)
def test_sparse_matrices_are_named(call):
    with pytest.raises(TypeError, match=r"K is sparse, but must be dense: pass its \.toarray\(\)"):
        call(csr_matrix(K))


def test_signed_weights_need_a_signed_bound():
    problem = dense(0, n=8)
    half = np.where(np.arange(8) % 4 < 2, problem.y, 0.0)
    half[:2] = -1.0, 1.0
    weights = np.ones(len(problem.K))
    weights[0] = -0.1
    with pytest.raises(ValueError, match=r"weights .* found -0.1; .*'sdp'.* pass signed=True"):
        error_bound(problem.K, half, weights, np.zeros(8))


def test_results_are_shown_in_a_line():
    problem = dense(0, n=8)
    half = np.zeros(8)
    half[np.r_[np.flatnonzero(problem.y > 0)[:2], np.flatnonzero(problem.y < 0)[:2]]] = 1, 1, -1, -1
    found = learn(problem.K, half)
    bound = error_bound(problem.K, half, found.weights, found.coef, samples=5)
    assert repr(bound).startswith(f"ErrorBound(total={bound.total!r}, vacuous=True, margin_cost=")
    assert repr(bound).endswith(f", capacity={bound.capacity!r})")
    gaps = np.eye(9)
    gaps[0, 8] = gaps[8, 0] = np.nan
    for result, told in (
        (complete_kernel(gaps), "Completion(9×9, 2 entries filled in, objective 0, gap 0, "),
        (
            max_determinant(problem.K, problem.y, noise=1.0),
            "kernels on 8 rows",
        ),
        (load("iris"), "DataSet(150 rows, 4 columns, views: all; from scikit-learn)"),
    ):
        assert told in repr(result)
        assert len(repr(result)) < 150 and "\n" not in repr(result)


def test_all_learners_at_once():
    names: dict[str, object] = {}
    exec("from kernelweave.learners import *", names)
    assert names["Radius"] is kernelweave.learners.Radius
    assert {"Newton", "Sdp", "NAMES", "make_learner", "Learner"} <= names.keys()


@pytest.mark.parametrize(
    "wrong", [np.array(["2026-01-01"], "datetime64[D]"), np.zeros(1, [("a", float)]), [10**400]]
)
def test_dates_records_and_endless_numbers_are_none(wrong):
    with pytest.raises(TypeError, match="x must hold real numbers, found"):
        check_floats("x", wrong)
