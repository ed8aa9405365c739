"""A problem as a file: who reads it solves the same problem, to the last bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from kernelweave import GroupNorm, KernelStack, learn
from kernelweave.learners import Radius, Simple
from kernelweave.problem_file import read_problem, write_problem
from kernelweave.problems.interval import Interval

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 3))
FAR = ((X[:, None] - X) ** 2).sum(axis=2)
K = np.array([X @ X.T, np.exp(-FAR), np.exp(-FAR / 9)])
Y = np.where(X[:, 0] + 0.3 * rng.normal(size=20) > 0, 1.0, -1.0)
TARGETS = X[:, 0] ** 2
ENDS = np.stack([TARGETS, np.where(np.arange(20) % 3, TARGETS, np.inf)], axis=1)
ENDS[5:7, 0] = -np.inf  # row 6 is open on both sides
SOME = np.where(np.arange(20) < 3, 0.0, Y)
PROBLEMS = [
    (Y, {}),
    (Y, {"learner": Radius("gradient"), "C": np.geomspace(0.1, 10.0, 20)}),
    (Y, {"learner": Simple(), "weight_norm": 4 / 3, "ridge": 0.1}),
    (Y, {"learner": "grouped", "weight_norm": GroupNorm([0, 1, 1], inner=3)}),
    (Y, {"C": "learn", "loss": "squared_hinge"}),
    (Y, {"C": np.inf}),
    (SOME, {"trace": 7.0, "loss": "squared_hinge", "recenter": True}),
    (SOME, {"learner": "sdp"}),
    (np.stack([Y, -Y], axis=1), {"sample_weight": np.arange(20.0)}),
    (TARGETS, {"loss": "quantile", "quantile": 0.3}),
    (TARGETS, {"loss": "epsilon_insensitive", "epsilon": 0.3, "solver": "smo"}),
    (None, {"loss": "one_class", "C": 0.1}),
    (ENDS, {"loss": "interval", "epsilon": 0.0}),
    (ENDS, {"loss": Interval(0.2), "C": 3.0}),
]


@pytest.mark.filterwarnings("ignore:the duality gap")
@pytest.mark.parametrize(("y", "options"), PROBLEMS, ids=str)
def test_the_same_problem_is_solved_again(tmp_path, y, options):
    solution = learn(K, y, tol=1e-4, **options)
    solution.dump(tmp_path / "case.npz")
    arguments, found = read_problem(tmp_path / "case.npz")
    again = learn(**arguments)
    assert again.gap == solution.gap and again.status == solution.status == found["status"]
    np.testing.assert_array_equal(again.weights, solution.weights)
    for name in ("weights", "coef", "dual_alpha", "bias", "primal", "dual", "gap"):
        np.testing.assert_array_equal(found[name], getattr(solution, name))


def test_kernels_stay_float32(tmp_path):
    solution = learn(KernelStack(K.astype(np.float32)), Y)
    solution.dump(tmp_path / "case.npz")
    arguments, _ = read_problem(tmp_path / "case.npz")
    assert arguments["K"].dtype == np.float32
    assert learn(**arguments).gap == solution.gap


def test_without_kernels_there_is_nothing_to_write(tmp_path):
    with pytest.raises(ValueError, match="does not keep its kernels"):
        pickle.loads(pickle.dumps(learn(K, Y))).dump(tmp_path / "case.npz")
    assert not any(tmp_path.iterdir())


def test_a_file_names_learners_of_ours_alone(tmp_path):
    class Foreign(Simple):
        pass

    write_problem(tmp_path / "case.npz", {"learner": Foreign()}, {})
    with pytest.raises(ValueError, match="names a class that is not of kernelweave: 'Foreign'"):
        read_problem(tmp_path / "case.npz")
