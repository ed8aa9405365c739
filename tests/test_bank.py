"""Banks: items and views, what X may hold, names, what is left out, the default kernels."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernelweave import Gaussian, KernelBank, Laplacian, Linear, Polynomial, Precomputed
from kernelweave.kernels.bank import FittedBank

rng = np.random.default_rng(11)
X = rng.normal(size=(15, 4))
NEW = rng.normal(size=(5, 4))
FRAME = pd.DataFrame(X, columns=["age", "weight", "height", "dose"])


def quiet(bank, X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return bank.fit(X, **options)


def words(A, B):
    return np.array([[float(a == b) for b in B[:, 0]] for a in A[:, 0]])


# Items, views, names


def test_names_cross_kernels_with_views():
    kernels = [Gaussian(2), Polynomial(degree=3)]
    fitted = quiet(KernelBank(kernels, views="all+each"), FRAME)
    assert fitted.names[:4] == (
        "Gaussian(width=2) on all",
        "Polynomial(degree=3) on all",
        "Gaussian(width=2) on age",
        "Polynomial(degree=3) on age",
    )
    assert fitted.views[:4] == ("all", "all", "age", "age")
    assert fitted.m_all == fitted.stack.m == 10
    assert quiet(KernelBank(kernels, "each"), X).names[2] == "Gaussian(width=2) on x1"


def test_named_views_and_own_columns():
    bank = KernelBank(
        [Linear(), ("dose response", Gaussian(1.0), "dose"), ("shape", Laplacian(), [1, 2])],
        views={"body": ["weight", "height"], "time": "age"},
    )
    fitted = quiet(bank, FRAME)
    assert fitted.names == ("Linear() on body", "shape", "Linear() on time", "dose response")
    assert fitted.views == ("body", "shape", "time", "dose")
    body = X[:, [1, 2]]
    np.testing.assert_allclose(
        fitted.stack.combine([1, 0, 0, 0]), body @ body.T * 15 / (body**2).sum(), rtol=1e-12
    )
    np.testing.assert_allclose(
        fitted.cross(FRAME[:3], [0, 0, 0, 1.0]),
        np.exp(-(np.subtract.outer(X[:3, 3], X[:, 3]) ** 2) / 2),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("height", [2]),
        (["dose", "age"], [3, 0]),
        (2, [2]),
        (np.int64(-1), [3]),
        ([0, "dose"], [0, 3]),
        (np.array([1, 3]), [1, 3]),
        (slice(1, 3), [1, 2]),
        (slice(None, None, 2), [0, 2]),
        ([True, False, True, False], [0, 2]),
        (np.array([False, True, True, False]), [1, 2]),
        (("age", "dose"), [0, 3]),
        (pd.Index(["age", "dose"]), [0, 3]),
    ],
)
def test_columns(columns, expected):
    fitted = quiet(KernelBank(("one", Linear(), columns), normalize=None), FRAME)
    A = X[:, expected]
    np.testing.assert_allclose(fitted.stack.combine([1.0]), A @ A.T, rtol=1e-12)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ("heigth", ValueError, "kernel 'one': X has no column named 'heigth'. Did you mean 'hei"),
        (["age", "zzz"], ValueError, "no column named 'zzz'"),
        (4, ValueError, "column 4 is out of range; X has 4 columns"),
        (-5, ValueError, "column -5 is out of range"),
        ([], ValueError, "no column is selected"),
        (slice(9, None), ValueError, "no column is selected"),
        ([False] * 4, ValueError, "no column is selected"),
        ([True, False], ValueError, "mask has 2 entries, but X has 4 columns"),
        ([0, 0], ValueError, "names a column twice"),
        (["age", 0], ValueError, "names a column twice"),
        (slice("age", "dose"), ValueError, "slices take positions"),
        (1.5, TypeError, "columns must be a name, an integer"),
        ([1.5], TypeError, "columns are names or integers; found 1.5"),
        (True, TypeError, "columns must be"),
        (None, TypeError, "columns must be"),
        (np.ones((400, 2), dtype=bool), TypeError, "columns are names or integers; found nd"),
    ],
)
def test_bad_columns(columns, error, message):
    with pytest.raises(error, match=message):
        KernelBank(("one", Linear(), columns)).fit(FRAME)


def test_names_need_a_frame_with_unique_columns():
    with pytest.raises(ValueError, match="X has no column names; pass a pandas DataFrame"):
        KernelBank(("one", Linear(), "age")).fit(X)
    with pytest.raises(ValueError, match=r'set_output\(transform="pandas"\)'):
        KernelBank(("one", Linear(), "age")).fit(X)
    twice = pd.DataFrame(X[:, :2], columns=["a", "a"])
    with pytest.raises(ValueError, match="2 columns of X are named 'a'"):
        KernelBank(("one", Linear(), "a")).fit(twice)


@pytest.mark.parametrize("views", ["every", "", None, 3, {}, ["all"]])
def test_bad_views(views):
    with pytest.raises(ValueError, match="views must"):
        KernelBank(Linear(), views=views).fit(X)


def test_bad_view_columns_name_the_view():
    with pytest.raises(ValueError, match="view 'body': X has no column named 'hight'"):
        KernelBank(Linear(), views={"body": "hight"}).fit(FRAME)


@pytest.mark.parametrize(
    "item", [(Linear(), "a"), (Linear(), "a", "b"), (1, Linear(), 0), ("a", Linear(), 0, 1)]
)
def test_bad_named_kernels(item):
    with pytest.raises(ValueError, match=r"is \(name, kernel\), or \(name, kernel, columns\)"):
        KernelBank([item]).fit(X)


def test_a_name_and_a_kernel_are_a_kernel_on_all_columns():
    fitted = quiet(KernelBank([("mine", Gaussian(2.0)), Gaussian(1.0)]), X)
    assert fitted.names == ("Gaussian(width=1) on all", "mine")
    assert fitted.views == ("all", "mine")
    alone = quiet(KernelBank(("mine", Gaussian(2.0))), X)
    expected = quiet(KernelBank(Gaussian(2.0)), X)
    assert np.array_equal(alone.cross(NEW, [1.0]), expected.cross(NEW, [1.0]))
    assert quiet(KernelBank(("rbf", "cosine")), X).names == ("rbf on all", "cosine on all")


def test_named_matrices_are_views_of_their_own():
    matrices = {"left": X[:, :2] @ X[:, :2].T, "right": X[:, 2:] @ X[:, 2:].T}
    bank = KernelBank([(name, Precomputed(K)) for name, K in matrices.items()])
    fitted = quiet(bank, np.arange(15).reshape(-1, 1))
    assert fitted.names == fitted.views == ("left", "right")


def test_matrices_over_the_same_rows():
    labels = [f"s{i}" for i in range(15)]
    frame = pd.DataFrame(X @ X.T, labels, labels)
    rows = np.arange(15).reshape(-1, 1)
    other = Precomputed(X[:, :2] @ X[:, :2].T)  # without labels: taken to be in the same order
    assert quiet(KernelBank([Precomputed(frame), other]), rows).m_all == 2
    turned = Precomputed(frame.iloc[::-1, ::-1])
    with pytest.raises(ValueError, match=r"'a' and 'b' read .* row 0 is 's0' in one and 's14' in"):
        KernelBank([("a", Precomputed(frame)), ("c", other), ("b", turned)]).fit(rows)
    small = Precomputed(np.eye(3))
    with pytest.raises(ValueError, match=r"'a' and 'b' read the same .* have 15 and 3 rows"):
        KernelBank([("a", other), ("b", small)]).fit(rows)
    pairs = np.column_stack([np.arange(15), np.arange(15) % 3])  # two sorts of things
    assert quiet(KernelBank([("a", other, 0), ("b", small, 1)]), pairs).m_all == 2


def test_empty_bank():
    with pytest.raises(ValueError, match="the bank is empty"):
        KernelBank([]).fit(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"dtype": "int8"}, "dtype must be"), ({"dtype": "x"}, "dtype must be"),
     ({"scale": "minmax"}, "scale must be")],
)  # fmt: skip
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        KernelBank(Linear(), **options).fit(X)


def test_one_kernel_a_list_or_a_tuple():
    two = [Gaussian(1.0), Linear()]
    assert quiet(KernelBank(tuple(two)), X).names == quiet(KernelBank(two), X).names
    assert quiet(KernelBank("rbf"), X).names == ("rbf on all",)
    assert quiet(KernelBank(("mine", "rbf", [0])), X).names == ("mine",)


def test_cells_may_hold_arrays():
    cells = np.empty((6, 1), dtype=object)
    cells[:, 0] = [np.arange(length) for length in (1, 2, 2, 3, 4, 4)]

    def overlap(A, B):
        return np.array([[min(len(a), len(b)) for b in B[:, 0]] for a in A[:, 0]])

    fitted = quiet(KernelBank(overlap, normalize=None), cells)
    assert np.array_equal(fitted.cross(cells[:2], [1.0]), [[1] * 6, [1, 2, 2, 2, 2, 2]])


def test_error_inside_a_function_names_the_kernel():
    def broken(A, B):
        raise ZeroDivisionError("oops")

    with pytest.raises(ZeroDivisionError, match="oops") as caught:
        KernelBank([("mine", broken, 0)]).fit(X)
    assert caught.value.__notes__ == ["The kernel was 'mine'."]


def test_equal_names_are_told_apart():
    bank = KernelBank([lambda A, B: A @ B.T, lambda A, B: (A @ B.T) ** 2])
    assert quiet(bank, X).names == ("<lambda> on all", "<lambda> on all (2)")


# Parameters


def test_bank_is_its_parameters():
    bank = KernelBank([Gaussian(2.0), ("a", Linear(), [0, 1])], views={"one": [0]})
    other = clone(bank)
    assert other is not bank
    assert repr(other) == repr(bank)
    assert other.kernels[0] == bank.kernels[0]
    assert other.kernels[0] is not bank.kernels[0]
    before = pickle.dumps(bank)
    quiet(bank, X)
    assert pickle.dumps(bank) == before
    assert KernelBank(Gaussian(2.0)).set_params(kernels__width=5.0, normalize=None).get_params() \
        == {"kernels": Gaussian(5.0), "kernels__width": 5.0, "kernels__relative": False,
            "views": "all", "normalize": None, "scale": "auto", "dtype": "float64"}  # fmt: skip
    with pytest.raises(ValueError, match="Invalid parameter 'normalise'"):
        bank.set_params(normalise="trace")


def test_fitted_bank_is_frozen():
    kernel, data = Gaussian(1.0), X.copy()
    fitted = quiet(KernelBank(kernel), data)
    before = fitted.cross(NEW, [1.0])
    kernel.set_params(width=9.0)
    data[:] = 0.0
    assert np.array_equal(fitted.cross(NEW, [1.0]), before)
    with pytest.raises(AttributeError):
        fitted.table = None
    with pytest.raises(ValueError, match="read-only"):
        fitted.stack.combine([1.0])[0, 0] = 2.0


# What X may hold


@pytest.mark.parametrize(
    "data",
    [X.tolist(), X.astype(object), X.astype(np.float32), np.asfortranarray(X), FRAME,
     FRAME.astype("Float64"), FRAME.astype(object), [tuple(row) for row in X]],
    ids=["list", "object", "float32", "fortran", "frame", "nullable", "object frame", "tuples"],
)  # fmt: skip
def test_numbers_in_any_dress(data):
    expected = quiet(KernelBank(Gaussian(1.0)), X).cross(NEW, [1.0])
    fitted = quiet(KernelBank(Gaussian(1.0)), data)
    np.testing.assert_allclose(fitted.cross(NEW, [1.0]), expected, atol=1e-6)


def test_integers_and_booleans_are_numbers():
    flags = X > 0
    expected = quiet(KernelBank(Linear()), flags.astype(float)).stack.combine([1.0])
    for data in (flags, flags.astype(np.uint8), pd.DataFrame(flags)):
        assert np.array_equal(quiet(KernelBank(Linear()), data).stack.combine([1.0]), expected)


def mixed_frame():
    return FRAME.assign(site=["a", "b", "c"] * 5, when=pd.Timestamp("2020-01-01"))


def test_mixed_frame_reaches_the_kernels_that_ask():
    data = mixed_frame()
    received = []

    def product(A, B):
        received.append((A.dtype, B.dtype))
        return A @ B.T

    bank = KernelBank(
        [("site", words, "site"), ("age", Gaussian(1.0), "age"), ("f", product, ["age", "dose"])],
        scale="standard",
    )
    fitted = quiet(bank, data)
    np.testing.assert_array_equal(fitted.stack.combine([1.0, 0, 0]), np.tile(np.eye(3), (5, 5)))
    np.testing.assert_array_equal(fitted.cross(data[:2], [1.0, 0, 0])[:, :3], np.eye(3)[:2])
    A = X[:, [0, 3]]
    np.testing.assert_allclose(
        fitted.cross(data[:2], [0, 0, 1.0]) / fitted.scales[2], A[:2] @ A.T, rtol=1e-12
    )
    assert set(received) == {(np.dtype(float), np.dtype(float))}  # numbers come as numbers
    small = pickle.loads(pickle.dumps(fitted.compact([0], [1, 4])))
    np.testing.assert_array_equal(small.cross(data[:2], [1.0, 0, 0]), [[0, 0], [1, 1]])


def test_numeric_kernel_on_text():
    with pytest.raises(ValueError, match=r"Column 'site' of X .* string to float: 'a'; give it"):
        KernelBank(Gaussian()).fit(mixed_frame())
    with pytest.raises(TypeError, match="Column 'when' of X does not hold numbers"):
        KernelBank(Gaussian()).fit(mixed_frame().drop(columns="site"))
    with pytest.raises(ValueError, match=r"'x0' of X .* but strings, found '1.0'; .*pd.to_numeric"):
        KernelBank(Gaussian()).fit([["1.0"], ["2.0"]])
    with pytest.raises(ValueError, match=r"'x0' of X .* string to float: '2,5'; give it"):
        KernelBank(Gaussian()).fit([["1.0"], ["2,5"]])
    with pytest.raises(ValueError, match=r"Column 'x1' of X .* string to float: 'b'"):
        KernelBank(("one", Gaussian(), 1)).fit(np.array([["a", "b"]]))
    odd = X.astype(object)
    odd[0, 0] = {"foo": "bar"}
    with pytest.raises(TypeError, match=r"Column 'x0'.*argument must be .* string.* number"):
        KernelBank(Gaussian()).fit(odd)


@pytest.mark.parametrize("where", ["fit", "cross"])
@pytest.mark.parametrize("dress", [np.asarray, lambda a: a.astype(object)])
def test_missing_and_infinite_values(where, dress):
    fitted = quiet(KernelBank(Gaussian()), X)
    data = X.copy()
    data[2:4, 1], data[5, 3], data[6, 3] = np.nan, np.inf, -np.inf
    message = (
        r"Input X contains NaN or infinity in column 'x1' \(2 NaN\), 'x3' \(2 infinity\) among 15"
    )
    with pytest.raises(ValueError, match=message):
        if where == "fit":
            KernelBank(Gaussian()).fit(dress(data))
        else:
            fitted.cross(dress(data), [1.0])


@pytest.mark.parametrize("views", ["each", "all+each"])
def test_a_column_of_infinities_is_not_constant(views):
    data = X.copy()
    data[:, 1] = np.inf
    with pytest.raises(ValueError, match="'x1' \\(15 infinity\\)"):
        KernelBank(Gaussian(), views=views).fit(data)


def test_missing_values_in_a_nullable_column():
    data = FRAME.astype("Float64")
    data.iloc[3, 2] = pd.NA
    with pytest.raises(ValueError, match=r"column 'height' \(1 NaN\)"):
        KernelBank(Gaussian()).fit(data)


def test_missing_values_are_for_functions_to_judge():
    data = X.copy()
    data[0, 0] = np.nan

    def f(A, B):
        return np.nan_to_num(A) @ np.nan_to_num(B).T

    assert np.isfinite(quiet(KernelBank(f), data).stack.combine([1.0])).all()


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (X[:, 0], ValueError, r"Expected 2D array, got 1D array[\s\S]*Reshape your data"),
        (FRAME["age"], ValueError, "Expected 2D array"),
        (3.0, ValueError, "Expected 2D array, got scalar"),
        (X[None], ValueError, "Found array with dim 3"),
        (X[:0], ValueError, r"0 sample\(s\) \(shape=\(0, 4\)\) while a minimum of 1 is required"),
        (X[:, :0], ValueError, r"0 feature\(s\) \(shape=\(15, 0\)\) while a minimum of 1"),
        (FRAME[[]], ValueError, r"0 feature\(s\)"),
        (X + 1j, ValueError, "Complex data not supported"),
        (pd.DataFrame(X + 1j), ValueError, "Complex data not supported"),
        (np.ma.masked_array(X), TypeError, "masked array"),
        (scipy.sparse.csr_matrix(X), TypeError, "Sparse data was passed"),
        (scipy.sparse.coo_array(X), TypeError, "Sparse data was passed"),
        ([[1.0, 2.0], [3.0]], ValueError, "inhomogeneous"),
    ],
)
def test_shapes_and_types(data, error, message):
    with pytest.raises(error, match=message):
        KernelBank(Gaussian()).fit(data)
    if not hasattr(data, "dtype") or data.dtype != complex:
        fitted = quiet(KernelBank(Gaussian()), X)
        with pytest.raises(error, match=message):
            fitted.cross(data, [1.0])


def test_other_columns_at_prediction():
    fitted = quiet(KernelBank(Gaussian()), FRAME)
    with pytest.raises(ValueError, match="X has 3 features, but KernelBank is expecting 4 feat"):
        fitted.cross(X[:, :3], [1.0])
    with pytest.raises(ValueError, match=r"unseen at fit time: 'size'\n.*now missing: 'height'"):
        fitted.cross(FRAME.rename(columns={"height": "size"}), [1.0])
    with pytest.raises(ValueError, match="must be in the same order"):
        fitted.cross(FRAME[FRAME.columns[::-1]], [1.0])
    assert np.array_equal(fitted.cross(X, [1.0]), fitted.cross(FRAME, [1.0]))


def test_one_row():
    fitted = quiet(KernelBank(Gaussian(1.0, relative=True)), X[:1])
    assert fitted.stack.combine([1.0]) == [[1.0]]
    with pytest.warns(UserWarning, match="4 of 5 kernels are left out"):
        assert KernelBank().fit(X[:1]).stack.m == 1


# What is left out


def test_constant_columns():
    data = FRAME.assign(one=1.0, site="x")
    bank = KernelBank(
        [Gaussian(1.0), Linear()], views={**{c: c for c in data.columns[:5]}, "two": ["one"]}
    )
    with pytest.warns(UserWarning) as caught:
        fitted = bank.fit(data)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "4 of 12 kernels are left out, with weight 0. Gaussian(width=1) on one: its" in str(
        caught[0].message
    )
    assert set(fitted.dropped) == {
        "Gaussian(width=1) on one",
        "Linear() on one",
        "Gaussian(width=1) on two",
        "Linear() on two",
    }
    assert fitted.m_all == 12
    assert sorted(fitted.kept) == list(range(8))
    assert not fitted.scales[8:].any()
    full = fitted.spread(np.ones(8))
    assert full.tolist() == [1.0] * 8 + [0.0] * 4
    fitted.cross(data, full)
    with pytest.raises(ValueError, match="'Gaussian\\(width=1\\) on one' was left out"):
        fitted.cross(data, np.ones(12))


def test_constant_text_is_left_out():
    data = FRAME.assign(site="x")
    with pytest.warns(UserWarning, match="site: its columns are constant"):
        KernelBank([("site", words, "site"), ("age", Linear(), "age")]).fit(data)


def test_zero_trace():
    data = X.copy()
    data[:, 0] = 0.0
    data[0, 0] = 1e-200  # not constant; its square underflows
    with pytest.warns(UserWarning, match="Linear\\(\\) on x0: its trace is zero"):
        fitted = KernelBank(Linear(), views="each").fit(data)
    assert fitted.dropped == {"Linear() on x0": "its trace is zero on the training rows"}
    assert fitted.stack.m == 3


def test_nothing_left_after_centring():
    bank = KernelBank([Linear(), ("wide", Gaussian(1e9), 0)], normalize="center+trace")
    with pytest.warns(UserWarning, match="wide: it is constant on the training rows: nothing"):
        assert bank.fit(X).stack.m == 1


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rule", ["trace", "sphere", "center+unit_trace", None])
def test_duplicates_up_to_scale(rule, dtype):
    data = np.column_stack([X, 3.0 * X[:, 0]])
    bank = KernelBank(
        [
            ("a", Linear(), 0),
            ("scaled", Linear(), 4),
            ("b", Gaussian(2.0), [0, 1]),
            ("other", Gaussian(2.001), [0, 1]),
            ("permuted", Gaussian(2.0), [1, 0]),
            ("same", Polynomial(1, offset=0), 0),
            ("last", Linear(), [2, 3]),
        ],
        normalize=rule,
        dtype=dtype,
    )
    with pytest.warns(UserWarning) as caught:
        fitted = bank.fit(data)
    assert len(caught) == 1
    scale = " up to scale" if rule else ""  # without normalisation scale is what matters
    twins = {"scaled": "a", "same": "a", "permuted": "b"}
    if rule is None:
        del twins["scaled"]
    assert fitted.dropped == {name: f"it equals {twin!r}{scale}" for name, twin in twins.items()}
    left = {"a", "b", "last", "other", "scaled"} - set(twins)
    assert {fitted.names[k] for k in fitted.kept} == left
    for slot, number in enumerate(fitted.kept):  # each kernel stands where kept says
        alone = KernelBank(bank.kernels[
            [item[0] for item in bank.kernels].index(fitted.names[number])
        ], normalize=rule).fit(data)  # fmt: skip
        np.testing.assert_allclose(
            fitted.stack.combine(np.eye(len(left))[slot]), alone.stack.combine([1.0]), atol=1e-5
        )
    slots = np.arange(1.0, len(left) + 1.0)
    np.testing.assert_allclose(
        np.tensordot(slots, fitted.cross_stack(data), axes=1),
        fitted.cross(data, fitted.spread(slots)),
        atol=1e-10,
    )


def test_the_same_kernel_twice_and_many_names():
    with pytest.warns(UserWarning, match=r"; and 3 more\.$"):
        fitted = KernelBank([Gaussian(1.0)] * 9).fit(X)
    assert fitted.dropped["Gaussian(width=1) on all (2)"].startswith("it equals 'Gaussian(width=1)")
    assert fitted.stack.m == 1


def test_nothing_left():
    with pytest.raises(ValueError, match=r"No kernel is left.*its columns are constant"):
        KernelBank(Gaussian()).fit(np.ones((5, 2)))


def test_sparse_kernels_are_told_apart():
    """Disjoint blocks: most entries of any two of these matrices are equal (zero)."""
    blocks = [np.diag((np.arange(60) // 2 == b).astype(float)) for b in range(30)]
    fitted = quiet(KernelBank([Precomputed(K) for K in blocks]), np.arange(60).reshape(-1, 1))
    assert fitted.stack.m == 30


# Against new rows


def test_weights_and_rows_are_checked():
    fitted = quiet(KernelBank([Gaussian(1.0), Linear()]), X)
    for weights in ([1.0], np.ones((2, 1)), [np.nan, 1.0]):
        with pytest.raises(ValueError, match="weights must be 2 finite numbers"):
            fitted.cross(NEW, weights)
    for rows in ([15], [-1], [[1]], [0.5], [True]):
        with pytest.raises(ValueError, match="rows"):
            fitted.cross(NEW, [1.0, 0.0], rows)
    with pytest.raises(ValueError, match="coef has shape"):
        fitted.decision(NEW, [1.0, 0.0], np.ones(3))
    with pytest.raises(ValueError, match="kernels"):
        fitted.compact([2], [0])
    assert not fitted.cross(NEW, [0.0, 0.0]).any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_kernel_that_is_not_finite_on_new_rows_is_named(value):
    def partial(A, B):
        return np.where(A[:, :1] > 90.0, value, A @ B.T)

    fitted = quiet(KernelBank([Gaussian(1.0), ("mine", partial)], normalize="center+trace"), X)
    assert np.isfinite(fitted.cross(NEW, [0.5, 0.5])).all()
    strange = NEW.copy()
    strange[3, 0] = 99.0
    for call in (
        lambda: fitted.cross(strange, [0.5, 0.5]),
        lambda: fitted.decision(strange, [0.5, 0.5], np.ones(15)),
        lambda: fitted.cross_stack(strange),
    ):
        with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="Kernel 'mine' is not"):
            call()
    assert np.isfinite(fitted.cross(strange, [1.0, 0.0])).all()


def test_overflow_on_new_rows_is_named():
    fitted = quiet(KernelBank([Gaussian(1.0), Polynomial(3)]), X)
    with pytest.raises(ValueError, match=r"Kernel 'Polynomial\(degree=3\) on all' is not finite"):
        fitted.cross(1e200 * NEW, [0.5, 0.5])


@pytest.mark.parametrize("rule", ["trace", "sphere", "center+trace"])
def test_no_rows_and_no_kernels(rule):
    fitted = quiet(KernelBank([Gaussian(1.0), Linear()], normalize=rule), X)
    for bank in (fitted.compact([0, 1], []), fitted.compact([], [])):
        assert bank.cross(NEW, [0.0, 0.0]).shape == (5, 0)
        assert np.array_equal(bank.decision(NEW, [0.0, 0.0], []), np.zeros(5))
    assert fitted.compact([0, 1], []).cross_stack(NEW).shape == (2, 5, 0)
    assert not fitted.compact([], [1]).cross(NEW, [0.0, 0.0]).any()


def test_only_active_kernels_are_computed():
    calls = []

    def counted(A, B):
        calls.append(A.shape)
        return A @ B.T

    fitted = quiet(KernelBank([counted, Gaussian(1.0)]), X)
    calls.clear()
    fitted.cross(NEW, [0.0, 1.0])
    assert not calls
    fitted.cross(NEW, [1.0, 1.0])
    assert calls == [(5, 4)]


def test_compact_holds_support_rows_and_active_kernels_alone():
    data = rng.normal(size=(300, 4))
    fitted = quiet(KernelBank([Gaussian(1.0), Linear()], "all+each"), data)
    assert repr(fitted) == "FittedBank(10 kernels, 300 rows)"
    small = fitted.compact([0, 3], [7, 8])
    assert small.names == fitted.names
    assert np.array_equal(small.kept, fitted.kept)
    assert np.array_equal(small.scales, fitted.scales)
    assert len(pickle.dumps(small)) < 6000 < len(pickle.dumps(fitted)) < 20000
    assert len(small.table) == 2
    with pytest.raises(ValueError, match=r"'Linear\(\) on all' was left out .*let go by compact"):
        small.cross(NEW, np.ones(10))
    with pytest.raises(ValueError, match="stack is not kept"):
        _ = small.stack
    with pytest.raises(ValueError, match="stack is not kept"):
        _ = pickle.loads(pickle.dumps(fitted)).stack
    assert isinstance(small, FittedBank)


@pytest.mark.parametrize("rule", ["trace", "center+trace"])
def test_threads_change_nothing(rule, monkeypatch):
    monkeypatch.setattr("kernelweave.kernels._passes.WORTH_THREADS", 0)
    data = np.column_stack([X, X[:, 1]])  # with duplicates
    bank = KernelBank([Gaussian(1.0), Polynomial(3), "cosine"], "all+each", rule)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, many = bank.fit(data, n_jobs=None), bank.fit(data, n_jobs=3)
    assert one.dropped == many.dropped
    assert np.array_equal(one.kept, many.kept)
    for row in np.eye(one.stack.m):
        assert np.array_equal(one.stack.combine(row), many.stack.combine(row))


def test_importing_banks_imports_no_scikit_learn():
    code = "import sys, kernelweave.kernels.bank; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


# Scaling and the default kernels


def test_standard_scale():
    plain = quiet(KernelBank(Gaussian(1.0)), (X - X.mean(0)) / X.std(0))
    fitted = quiet(KernelBank(Gaussian(1.0), scale="standard"), X)
    np.testing.assert_allclose(
        fitted.cross(NEW, [1.0]), plain.cross((NEW - X.mean(0)) / X.std(0), [1.0]), rtol=1e-12
    )


def test_standard_scale_ignores_a_column_constant_in_training():
    wide, new = np.column_stack([X, np.full(15, 0.1)]), np.column_stack([NEW, rng.normal(size=5)])
    np.testing.assert_allclose(
        quiet(KernelBank(Gaussian(), scale="standard"), wide).cross(new, [1.0]),
        quiet(KernelBank(Gaussian(), scale="standard"), X).cross(NEW, [1.0]),
        rtol=1e-12,
    )
    with pytest.raises(ValueError, match="too large to standardise"):
        KernelBank(Gaussian(), scale="standard").fit(1e300 * X)


def test_default_bank_on_views():
    fitted = quiet(KernelBank(views={"body": [1, 2], "rest": [0, 3]}), X)
    assert fitted.names[0] == "Linear() on body"
    assert fitted.names[2] == "Gaussian(width=0.5×median) on body"
    assert set(fitted.views) == {"body", "rest"}
    assert len(fitted.names) == 10


def test_default_bank_does_not_depend_on_units():
    bank = KernelBank(views={"body": [1, 2], "rest": [0, 3]})
    unit, shift = np.array([1e3, 1e-4, 1e-4, 1e3]), np.array([5.0, -1.0, 0.0, 1e3])
    one, other = quiet(bank, X), quiet(bank, X * unit + shift)
    weights = np.arange(1.0, 11.0)
    np.testing.assert_allclose(one.stack.combine(weights), other.stack.combine(weights), atol=1e-8)
    np.testing.assert_allclose(
        one.cross(NEW, weights), other.cross(NEW * unit + shift, weights), atol=1e-8
    )


def test_default_bank_on_a_raw_table_is_as_good_as_svc_on_a_scaled_one():
    data, y = load_breast_cancer(return_X_y=True)
    scaled = cross_val_score(make_pipeline(StandardScaler(), SVC()), data, y, cv=3).mean()
    scores = []
    for fold in range(3):
        test = np.arange(len(y)) % 3 == fold
        fitted = quiet(KernelBank(), data[~test])
        weights = np.full(fitted.m_all, 1 / fitted.m_all)
        model = SVC(kernel="precomputed").fit(fitted.stack.combine(weights), y[~test])
        scores.append(model.score(fitted.cross(data[test], weights), y[test]))
    assert np.mean(scores) > scaled - 0.01
