"""Bad input is named: which argument, and what was found in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from _helpers.references import dense
from scipy.sparse import csr_array

import kernelweave.learners
from kernelweave import (
    GaussianWidths,
    Graph,
    KernelStack,
    duality_gap,
    learn,
    learn_parameters,
    regularization_path,
)
from kernelweave._solvers.svm import smo
from kernelweave.kernels._plsa import plsa
from kernelweave.kernels.similarity_maps import empirical_kernel_map

N, M = 8, 3
GOOD = dense(0, n=N, m=M)
Error = type[Exception] | tuple[type[Exception], ...]
Row = tuple[Any, Error, str]


def changed(place: tuple[int, ...], value: float) -> np.ndarray:
    K = GOOD.K.copy()
    K[place] = value
    return K


def lopsided() -> np.ndarray:
    return changed((1, 2, 5), GOOD.K[1, 2, 5] + 0.5)


def indefinite() -> np.ndarray:
    K = GOOD.K.copy()
    K[2] -= 0.75 * np.eye(N) * np.linalg.eigvalsh(K[2])[-1]
    return K


LEAST = np.linalg.eigvalsh(indefinite()[2])[0]

KERNELS: dict[str, Row] = {
    "nan": (changed((1, 3, 3), np.nan), ValueError, r"K\[1\] has 1 NaN and 0 infinite"),
    "inf": (changed((0, 3, 3), np.inf), ValueError, r"K\[0\] has 0 NaN and 1 infinite"),
    "minus inf": (changed((2, 0, 1), -np.inf), ValueError, r"K\[2\] has 0 NaN and 1 infinite"),
    "two-dimensional": (GOOD.K[0], ValueError, r"K must have shape \(m, n, n\), found \(8, 8\)"),
    "four-dimensional": (GOOD.K[None], ValueError, r"found \(1, 3, 8, 8\)"),
    "not square": (GOOD.K[:, :, :5], ValueError, r"K must have shape .* found \(3, 8, 5\)"),
    "empty": (np.empty((0, 8, 8)), ValueError, r"K is empty: found shape \(0, 8, 8\)"),
    "ragged": ([GOOD.K[0], np.eye(3)], ValueError, r"K\[1\] has shape \(3, 3\), but K\[0\]"),
    "asymmetric": (lopsided(), ValueError, r"K\[1\] is not symmetric: .*\[[25], [25]\].* 0\.5"),
    "indefinite": (
        indefinite(),
        ValueError,
        rf"K\[2\] is not positive semidefinite: smallest eigenvalue {LEAST:.3g} .*='clip'",
    ),
    "negative": (-GOOD.K, ValueError, r"K\[0\] is not positive semidefinite"),
    "complex": (GOOD.K * 1j, TypeError, "K must hold real numbers, found .*complex128"),
    "objects": (GOOD.K.astype(object), TypeError, "K must hold real numbers, found .*object"),
    "words": ("kernels", TypeError, "K must hold real numbers, found str"),
    "nothing": (None, TypeError, "K must hold real numbers, found NoneType"),
    "a function": (np.dot, TypeError, "K must hold real numbers, found"),
    "sparse": (csr_array(np.eye(N)), TypeError, r"K is sparse.*\.toarray\(\)"),
    "a list of sparse": ([csr_array(np.eye(N))], TypeError, r"K\[0\] is sparse"),
}

LABELS: dict[str, Row] = {
    "nan": (np.append(GOOD.y[:-1], np.nan), ValueError, "y must be finite, found NaN"),
    "inf": (np.append(GOOD.y[:-1], np.inf), ValueError, "y must be finite, found NaN or infinity"),
    "zero and one": ((GOOD.y > 0) * 1, ValueError, r"\(\+1\) beside 0, which.*pass 2 \* y - 1$"),
    "booleans": (GOOD.y > 0, ValueError, r"one class only \(\+1\) beside 0"),
    "none": (np.zeros(N), ValueError, "y holds no class beside 0, which means no label"),
    "multiclass": (np.arange(N), ValueError, r"y .* found 0, 1, 2, 3, 4 and 3 more; 0"),
    "halves": (0.5 * GOOD.y, ValueError, r"y .* only, found -0\.5, 0\.5"),
    "one class": (np.ones(N), ValueError, r"y holds one class only \(\+1\)"),
    "the other class": (-np.ones(N), ValueError, r"y holds one class only \(-1\)"),
    "short": (GOOD.y[:5], ValueError, "y has 5 labels, but the kernels have 8 rows"),
    "long": (np.tile(GOOD.y, 2), ValueError, "y has 16 labels, but the kernels have 8 rows"),
    "empty": ([], ValueError, r"y holds no class; both -1 and \+1 are needed"),
    "cube": (GOOD.y[:, None, None], ValueError, r"y must be one-dim.*, found shape \(8, 1, 1\)"),
    "no column": (GOOD.y[:, None][:, :0], ValueError, r"y must be one-dim.*, found shape \(8, 0\)"),
    "a number": (1, ValueError, r"y must be one-dim.*, found shape \(\)"),
    "masked": (np.ma.masked_equal(GOOD.y, 7), TypeError, "y is a masked array; leave rows"),
    "words": (["a"] * 4 + ["b"] * 4, (ValueError, TypeError), "y must .* found dtype <U1"),
    "nothing": (None, (ValueError, TypeError), "y must .* found dtype object"),
    "complex": (GOOD.y * 1j, (ValueError, TypeError), "y must .* found dtype complex128"),
}

OPTIONS: dict[str, tuple[dict[str, Any], Error, str]] = {
    "C zero": ({"C": 0}, ValueError, "C must be positive, found 0"),
    "C negative": ({"C": -2.5}, ValueError, "C must be positive, found -2.5"),
    "C minus inf": ({"C": -np.inf}, ValueError, "C must be positive, found -inf"),
    "C nan": ({"C": np.nan}, ValueError, "C must be positive, found nan"),
    "C none": ({"C": None}, (ValueError, TypeError), "C must .* found None"),
    "C word": ({"C": "big"}, TypeError, "C must .* found 'big'"),
    "C boolean": ({"C": True}, TypeError, "C must .* found True"),
    "C complex": ({"C": 1j}, TypeError, "C must .* found 1j"),
    "C length": ({"C": np.ones(5)}, ValueError, r"C must be .* 8 of them, found shape \(5,\)"),
    "C shape": ({"C": np.ones((8, 1))}, ValueError, r"C must be .* found shape \(8, 1\)"),
    "C one bad": ({"C": [1.0] * 7 + [0.0]}, ValueError, r"C must be positive, found 0$"),
    "C one nan": ({"C": [1.0] * 7 + [np.nan]}, ValueError, "C must be positive, found .*nan"),
    "C hard regression": (
        {"C": np.inf, "loss": "squared"},
        ValueError,
        "C must be finite with loss='squared', found inf",
    ),
    "C too small for one class": (
        {"C": 0.1, "loss": "one_class"},
        ValueError,
        r"add up to at least 1, found 0\.8: C = 1/\(νn\)",
    ),
    "C learned with weights": (
        {"C": "learn", "loss": "squared_hinge", "sample_weight": np.ones(8)},
        ValueError,
        "C='learn' .* takes no sample_weight",
    ),
    "weights of rows, size": (
        {"sample_weight": np.ones(5)},
        ValueError,
        r"sample_weight must have shape \(8,\), found \(5,\)",
    ),
    "weights of rows, sign": (
        {"sample_weight": -np.ones(8)},
        ValueError,
        "sample_weight must hold numbers ≥ 0, found -1",
    ),
    "weights of rows, nan": (
        {"sample_weight": np.full(8, np.nan)},
        ValueError,
        "sample_weight must be finite, found NaN",
    ),
    "weights of rows, none": (
        {"sample_weight": np.zeros(8)},
        ValueError,
        "sample_weight is 0 for every row",
    ),
    "weights of rows, class": (
        {"sample_weight": (GOOD.y > 0) * 1.0},
        ValueError,
        r"positive sample_weight, y holds one class only \(\+1\)",
    ),
    "epsilon": ({"epsilon": -1.0}, ValueError, "epsilon must be .* ≥ 0, found -1"),
    "quantile": ({"quantile": 1.0}, ValueError, "quantile must lie between 0 and 1, found 1"),
    "loss and learner": (
        {"loss": "squared", "learner": "radius"},
        ValueError,
        r"Radius\(\) does not go with loss='squared', since the radius .* use 'newton'",
    ),
    "weights of rows and learner": (
        {"sample_weight": np.ones(8), "learner": "sdp"},
        ValueError,
        r"Sdp\(\) takes no sample_weight",
    ),
    "C learned, hinge": ({"C": "learn"}, ValueError, "C='learn' needs loss='squared_hinge'"),
    "loss": ({"loss": "hing"}, ValueError, r"loss must be one of \['hinge', .* found 'hing'"),
    "loss type": ({"loss": 3}, (ValueError, TypeError), "loss must be one of .* found 3"),
    "loss list": ({"loss": ["hinge"]}, (ValueError, TypeError), r"loss must .* found \['hinge'\]"),
    "learner": ({"learner": "simpel"}, ValueError, "learner must be one of .*'simple'.* 'simpel'"),
    "learner class": (
        {"learner": kernelweave.learners.Simple},
        TypeError,
        "learner must be .* found <class",
    ),
    "learner type": ({"learner": 3}, TypeError, "learner must be .* found 3"),
    "learner none": ({"learner": None}, TypeError, "learner must be .* found None"),
    "norm": ({"weight_norm": 0.9}, ValueError, "weight_norm must be a number ≥ 1, found 0.9"),
    "norm zero": ({"weight_norm": 0}, ValueError, "weight_norm must be a number ≥ 1, found 0"),
    "norm nan": ({"weight_norm": np.nan}, ValueError, "weight_norm must .* found nan"),
    "norm word": ({"weight_norm": "l1"}, TypeError, "weight_norm must .* found 'l1'"),
    "norm boolean": ({"weight_norm": True}, TypeError, "weight_norm must .* found True"),
    "tol zero": ({"tol": 0.0}, ValueError, "tol must be positive, found 0.0"),
    "tol negative": ({"tol": -1e-3}, ValueError, "tol must be positive, found -0.001"),
    "tol nan": ({"tol": np.nan}, ValueError, "tol must be positive, found nan"),
    "tol word": ({"tol": "tight"}, TypeError, "tol must be a positive float, found 'tight'"),
    "tol none": ({"tol": None}, TypeError, "tol must .* found None"),
    "max_iter": ({"max_iter": 0}, ValueError, "max_iter must be positive, found 0"),
    "max_iter float": ({"max_iter": 2.5}, TypeError, "max_iter must .* int, found 2.5"),
    "trace": ({"trace": 0.0}, ValueError, "trace must be positive, found 0.0"),
    "trace nan": ({"trace": np.nan}, ValueError, "trace must be positive, found nan"),
    "trace inf": ({"trace": np.inf}, ValueError, "trace must be positive, found inf"),
    "trace word": ({"trace": "n"}, (ValueError, TypeError), "trace must .* found 'n'"),
    "trace and norm": ({"trace": 1.0, "weight_norm": 2}, ValueError, "trace .*weight_norm=1.* 2"),
    "ridge": ({"ridge": -1.0}, ValueError, "ridge must be a finite number ≥ 0, found -1.0"),
    "ridge nan": ({"ridge": np.nan}, ValueError, "ridge must be .* found nan"),
    "ridge inf": ({"ridge": np.inf}, ValueError, "ridge must be .* found inf"),
    "ridge none": ({"ridge": None}, (ValueError, TypeError), "ridge must be .* found None"),
    "n_jobs": ({"n_jobs": 0}, ValueError, "n_jobs must be None, -1 or at least 1, found 0"),
    "n_jobs float": ({"n_jobs": 1.5}, TypeError, "n_jobs must be .* found 1.5"),
    "start length": ({"start": [1.0, 1.0]}, ValueError, r"start must .*\(3,\), found \(2,\)"),
    "start nan": ({"start": [1.0, 1.0, np.nan]}, ValueError, "start must be finite, found NaN"),
    "start negative": ({"start": [1.0, 1.0, -1.0]}, ValueError, "start must .* found -1"),
    "start zero": ({"start": [0.0, 0.0, 0.0]}, ValueError, "start holds only zero weights"),
    "start masked": ({"start": np.ma.ones(3)}, TypeError, "start is a masked array"),
    "recenter": ({"recenter": "no"}, TypeError, "recenter must be True or False, found 'no'"),
    "recenter number": ({"recenter": 1}, TypeError, "recenter must be True or False, found 1"),
    "verbose": ({"verbose": "a"}, TypeError, "verbose must be an integer ≥ 0, found 'a'"),
    "verbose negative": ({"verbose": -1}, ValueError, "verbose must be an integer ≥ 0, found -1"),
    "C masked": ({"C": np.ma.ones(8)}, TypeError, "C is a masked array"),
    "start word": ({"start": "best"}, TypeError, "start must hold real numbers, found str"),
}


def rows(table: dict[str, Any]) -> list[Any]:
    return [pytest.param(*row, id=name) for name, row in table.items()]


@pytest.fixture(autouse=True)
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong is found before the first machine is solved."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("an SVM was solved with bad input")

    monkeypatch.setattr(smo, "solve", refuse)


@pytest.mark.parametrize(("K", "error", "message"), rows(KERNELS))
def test_kernels(K: Any, error: Error, message: str) -> None:
    with pytest.raises(error, match=message):
        KernelStack(K)
    with pytest.raises(error, match=message):
        learn(K, GOOD.y)
    with pytest.raises(error, match=message):
        regularization_path(K, GOOD.y, [1.0])


@pytest.mark.parametrize(("y", "error", "message"), rows(LABELS))
def test_labels(y: Any, error: Error, message: str) -> None:
    with pytest.raises(error, match=message):
        learn(GOOD.K, y)
    with pytest.raises(error, match=message):
        learn(KernelStack(GOOD.K), y)
    with pytest.raises(error, match=message):
        regularization_path(GOOD.K, y, [1.0])


@pytest.mark.parametrize(("options", "error", "message"), rows(OPTIONS))
def test_options(options: dict[str, Any], error: Error, message: str) -> None:
    with pytest.raises(error, match=message):
        learn(GOOD.K, GOOD.y, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": np.float16}, "dtype must be float64 or float32, found float16"),
        ({"dtype": int}, "dtype must be float64 or float32, found int64"),
        ({"indefinite": "ignore"}, "indefinite must be 'raise' or 'clip', found 'ignore'"),
        ({"n_jobs": -3}, "n_jobs must be None, -1 or at least 1, found -3"),
    ],
)
def test_stack_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelStack(GOOD.K, **options)


def test_trace_of_a_zero_kernel() -> None:
    K = np.concatenate([GOOD.K, np.zeros((1, N, N))])
    with pytest.raises(ValueError, match=r"trace .*positive trace, but .*K\[3\]"):
        learn(K, GOOD.y, trace=1.0)


def test_a_start_for_other_data() -> None:
    class Fake:
        weights = np.ones(2)

    with pytest.raises(TypeError, match="start must hold real numbers, found Fake"):
        learn(GOOD.K, GOOD.y, start=Fake())  # type: ignore[arg-type]


def test_unknown_options_are_errors() -> None:
    with pytest.raises(TypeError, match="tolerance"):
        learn(GOOD.K, GOOD.y, tolerance=1e-3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="tolerance"):
        regularization_path(GOOD.K, GOOD.y, [1.0], tolerance=1e-3)


def test_clip_is_the_explicit_way_out() -> None:
    stack = KernelStack(indefinite(), indefinite="clip")
    assert np.linalg.eigvalsh(stack.combine([0.0, 0.0, 1.0]))[0] >= -1e-12


@pytest.mark.parametrize("C", [1e-320, 1e300, [1e-200] * N])
def test_costs_beyond_what_numbers_hold(C):
    with pytest.raises(ValueError, match="C must lie between 1e-100 and 1e100, or be infinite"):
        learn(GOOD.K, GOOD.y, C=C)


def test_path_takes_its_costs_from_one_place():
    with pytest.raises(TypeError, match="C is given twice"):
        regularization_path(GOOD.K, GOOD.y, [1.0, 2.0], C=3.0)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ([1, 2], r"factors must have shape \(8,\), found \(2,\)"),
        (np.ones((8, 1)), r"factors must have shape \(8,\), found \(8, 1\)"),
        ([1.0] * 7 + [-1.0], "factors must hold positive numbers, found -1"),
        ([1.0] * 7 + [np.nan], "factors must be finite, found NaN"),
        (np.ma.ones(8), "factors is a masked array"),
        (None, "factors must be a positive float, found None"),
        ("balanced", "factors must be a positive float, found 'balanced'"),
        (0, "factors must be positive, found 0"),
    ],
)
def test_factors_of_a_path(factors, message):
    with pytest.raises((TypeError, ValueError), match=message):
        regularization_path(GOOD.K, GOOD.y, [1.0, 2.0], factors=factors)


def test_a_path_refuses_what_learn_refuses():
    with pytest.raises(TypeError, match="verbose must be an integer ≥ 0, found 'a'"):
        regularization_path(GOOD.K, GOOD.y, [1.0], verbose="a")


def test_learning_C_needs_the_simplex():
    with pytest.raises(ValueError, match="C='learn' needs weight_norm=1, found 2"):
        learn(GOOD.K, GOOD.y, C="learn", loss="squared_hinge", weight_norm=2)
    with pytest.raises(ValueError, match=r"C='learn' goes with.*not with Uniform\(\): give C as a"):
        learn(GOOD.K, GOOD.y, C="learn", loss="squared_hinge", learner="uniform")


MASKED = np.ma.ones((3, 3))
SOLVED = learn(GOOD.K, GOOD.y)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("Cs", lambda: regularization_path(GOOD.K, GOOD.y, np.ma.ones(2))),
        ("K_cross", lambda: SOLVED.decision_function(np.ma.ones(GOOD.K.shape))),
        ("adjacency", lambda: Graph(MASKED)),
        ("S", lambda: empirical_kernel_map(MASKED)),
        ("counts", lambda: plsa(MASKED, 2)),
        ("X", lambda: learn_parameters(np.ma.ones((8, 2)), GOOD.y, GaussianWidths())),
        ("width", lambda: GaussianWidths(np.ma.ones(2)).parameters(np.ones((3, 2)))),
    ],
)
def test_nothing_is_read_behind_a_mask(name: str, call: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match=f"{name} is a masked array"):
        call()


def test_kernels_of_new_points_are_finite() -> None:
    K = np.array(GOOD.K)
    used = int(np.argmax(SOLVED.weights))
    K[used, 0, 0] = np.nan
    with pytest.raises(ValueError, match="K_cross must be finite"):
        SOLVED.decision_function(K)


def test_a_radius_is_judged_elsewhere() -> None:
    with pytest.raises(ValueError, match="radius_gap"):
        duality_gap(
            GOOD.K, GOOD.y, SOLVED.weights, SOLVED.coef, SOLVED.bias, C=1.0, weight_norm=None
        )
