"""Banks: items and views, names, parameters, what is left out."""

from __future__ import annotations

import importlib
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from _helpers.small_table import FRAME, NEW, X, quiet, words
from sklearn.base import clone

from kernelweave import Gaussian, KernelBank, Laplacian, Linear, Polynomial, Precomputed

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
        scale=None,
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
        (slice("weight", "height"), [1, 2]),
        (slice("height", None), [2, 3]),
        ("*eight", [1, 2]),
        (["age", "d?se"], [0, 3]),
        (slice(None, None, 2), [0, 2]),
        ([True, False, True, False], [0, 2]),
        (np.array([False, True, True, False]), [1, 2]),
        (("age", "dose"), [0, 3]),
        (pd.Index(["age", "dose"]), [0, 3]),
    ],
)
def test_columns(columns, expected):
    fitted = quiet(KernelBank(("one", Linear(), columns), normalize=None, scale=None), FRAME)
    A = X[:, expected]
    np.testing.assert_allclose(fitted.stack.combine([1.0]), A @ A.T, rtol=1e-12)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ("heigth", ValueError, "kernel 'one': X has no column named 'heigth'; did you mean 'hei"),
        (["age", "zzz"], ValueError, "no column named 'zzz'"),
        (4, ValueError, "column 4 is out of range; X has 4 columns"),
        (-5, ValueError, "column -5 is out of range"),
        ([], ValueError, "no column is selected"),
        (slice(9, None), ValueError, "no column is selected"),
        ([False] * 4, ValueError, "no column is selected"),
        ([True, False], ValueError, "mask has 2 entries, but X has 4 columns"),
        ([0, 0], ValueError, "names a column twice"),
        (["age", 0], ValueError, "names a column twice"),
        (slice("age", "dosis"), ValueError, "no column named 'dosis'; did you mean 'dose'"),
        (slice("*e*", "dose"), ValueError, r"a slice ends at one column; '\*e\*' is 4"),
        ("w*x", ValueError, r"no column of X matches 'w\*x'"),
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
            "views": "all", "normalize": None, "scale": "auto", "dtype": "float64",
            "missing": "mean", "storage": "auto", "approximation": None,
            "cache_size": 200.0, "impute": None, "device": None}  # fmt: skip
    with pytest.raises(ValueError, match="Invalid parameter 'normalization'"):
        bank.set_params(normalization="trace")


def test_named_kernels_have_parameters_of_their_own():
    items = [("a", Gaussian(1.0), [0]), Linear(), ("b", Polynomial(2)), ("f", words, [1])]
    bank = KernelBank([*items, ("twice", Linear()), ("twice", Gaussian()), ("views", Gaussian())])
    params = bank.get_params()
    assert params["a__width"] == 1.0 and params["b__degree"] == 2 and params["f"] is words
    assert "twice" not in params and params["views"] == "all"
    other = clone(bank).set_params(a__width=3.0, b=Laplacian(), b__width=2.0, views="each")
    assert other.kernels[0] == ("a", Gaussian(3.0), [0])
    assert other.kernels[2] == ("b", Laplacian(2.0))
    assert (other.kernels[3:], other.views) == (bank.kernels[3:], "each")
    assert bank.kernels[0] == items[0]
    one = KernelBank(("a", Gaussian(1.0))).set_params(a__width=2.0)
    assert one.kernels == [("a", Gaussian(2.0))]
    with pytest.raises(
        ValueError, match=r"Invalid parameter 'f__width': .*words.* has no parameters"
    ):
        bank.set_params(f__width=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'c' for KernelBank"):
        bank.set_params(c__width=1.0)


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
    data[0, 0] = 1e-310  # not constant; its inverse overflows
    with pytest.warns(UserWarning, match="Linear\\(\\) on x0: its trace is zero"):
        fitted = KernelBank(Linear(), views="each").fit(data)
    assert fitted.dropped == {"Linear() on x0": "its trace is zero on the training rows"}
    assert fitted.stack.m == 3


def test_nothing_left_after_centering():
    bank = KernelBank([Linear(), ("wide", Gaussian(1e9), 0)], normalize="center+trace")
    with pytest.warns(UserWarning, match="wide: it is constant on the training rows, or"):
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
        scale=None,
        dtype=dtype,
    )
    with pytest.warns(UserWarning) as caught:
        fitted = bank.fit(data)
    assert len(caught) == 1
    scale = " up to scale" if rule else ""  # without normalization scale is what matters
    twins = {"scaled": "a", "same": "a", "permuted": "b"}
    if rule is None:
        del twins["scaled"]
    assert fitted.dropped == {name: f"it equals {twin!r}{scale}" for name, twin in twins.items()}
    left = {"a", "b", "last", "other", "scaled"} - set(twins)
    assert {fitted.names[k] for k in fitted.kept} == left
    for slot, number in enumerate(fitted.kept):  # each kernel stands where kept says
        alone = KernelBank(bank.kernels[
            [item[0] for item in bank.kernels].index(fitted.names[number])
        ], normalize=rule, scale=None).fit(data)  # fmt: skip
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
    with pytest.warns(UserWarning, match=r"; and 3 more\. With weight_norm .* kernels kept\.$"):
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


@pytest.mark.parametrize(
    ("path", "name"),
    [("default", "WIDTHS"), ("features", "LowRank"), ("generated", "GeneratedStack")],
)
def test_modules_are_found_under_their_first_paths(path: str, name: str) -> None:
    """Pickles name them."""
    old = importlib.import_module(f"kernelweave.banks.{path}")
    assert hasattr(old, name) and old is sys.modules[old.__name__]
