"""Kernels by themselves: formulas, parameters, what they refuse."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics.pairwise import chi2_kernel, cosine_similarity, rbf_kernel

from kernelweave import Gaussian, KernelBank, Laplacian, Linear, Polynomial, Tanimoto
from kernelweave.kernels.eigen import EigenvectorKernels

rng = np.random.default_rng(7)
X = rng.normal(size=(20, 3))
NEW = rng.normal(size=(6, 3))


def sq(A, B):
    return ((A[:, None, :] - B[None]) ** 2).sum(-1)


def l1(A, B):
    return np.abs(A[:, None, :] - B[None]).sum(-1)


def own_kernel(A, B):
    return 1.0 + np.tanh(A[:, :1]) * np.tanh(B[:, :1]).T


FORMULAS = [
    (Gaussian(), lambda A, B: np.exp(-sq(A, B) / 2)),
    (Gaussian(0.7), lambda A, B: np.exp(-sq(A, B) / (2 * 0.7**2))),
    (Laplacian(width=3.0), lambda A, B: np.exp(-l1(A, B) / 3)),
    (Linear(), lambda A, B: A @ B.T),
    (Polynomial(), lambda A, B: (A @ B.T + 1) ** 2),
    (Polynomial(1), lambda A, B: A @ B.T + 1),
    (Polynomial(degree=3, offset=0.0), lambda A, B: (A @ B.T) ** 3),
    (Polynomial(degree=np.int64(7), offset=0.5), lambda A, B: (A @ B.T + 0.5) ** 7),
    (2.0 * RBF(0.9), lambda A, B: 2 * np.exp(-sq(A, B) / (2 * 0.9**2))),
    (Tanimoto(), lambda A, B: A @ B.T / (sq(A, 0 * A[:1]) + sq(0 * A[:1], B) - A @ B.T)),
    ("cosine", cosine_similarity),
    ("rbf", lambda A, B: np.exp(-sq(A, B) / A.shape[1])),
    (own_kernel, own_kernel),
    (partial(rbf_kernel, gamma=0.2), lambda A, B: np.exp(-0.2 * sq(A, B))),
]


def raw(kernel, X, **options):
    return KernelBank(kernel, normalize=None, **{"scale": None, **options}).fit(X)


@pytest.mark.parametrize(
    ("kernel", "formula"),
    FORMULAS,
    ids=lambda value: "formula" if callable(value) else str(value)[:40],
)
@pytest.mark.parametrize("columns", [slice(None), [1]], ids=["three columns", "one column"])
def test_formula(kernel, formula, columns):
    A, B = X[:, columns], NEW[:, columns]
    fitted = raw(kernel, A)
    K = fitted.stack.combine([1.0])
    np.testing.assert_allclose(K, formula(A, A), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fitted.cross(B, [1.0]), formula(B, A), rtol=1e-12, atol=1e-12)
    assert np.array_equal(K, K.T)
    assert np.linalg.eigvalsh(K)[0] > -1e-12 * np.trace(K)


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplacian(2.0)])
def test_unit_diagonal_is_exact(kernel):
    assert np.array_equal(raw(kernel, 1e3 * X).stack.diagonals(), np.ones((1, 20)))


def test_distances_far_from_zero_lose_no_digits():
    K = raw(Gaussian(1.0), X + 1e6).stack.combine([1.0])
    np.testing.assert_allclose(K, np.exp(-sq(X, X) / 2), atol=1e-9)


@pytest.mark.parametrize(("kind", "metric"), [(Gaussian, sq), (Laplacian, l1)])
def test_relative_width_is_a_multiple_of_the_median_distance(kind, metric):
    upper = np.triu_indices(20, 1)
    d = metric(X, X)[upper] if kind is Laplacian else np.sqrt(metric(X, X)[upper])
    expected = raw(kind(width=2.0 * np.median(d)), X)
    found = raw(kind(width=2.0, relative=True), X)
    np.testing.assert_allclose(found.cross(NEW, [1.0]), expected.cross(NEW, [1.0]), rtol=1e-12)
    assert found.names == (f"{kind.__name__}(width=2×median) on all",)


def test_median_is_of_rows_that_differ():
    doubled = np.vstack([X[:2]] * 10)  # most pairs of rows are equal
    expected = raw(Gaussian(np.sqrt(sq(X[:1], X[1:2])[0, 0])), doubled)
    found = raw(Gaussian(1.0, relative=True), doubled)
    np.testing.assert_allclose(found.cross(NEW, [1.0]), expected.cross(NEW, [1.0]), rtol=1e-12)


def test_median_of_many_rows_takes_a_sample():
    many = np.sort(rng.normal(size=(3000, 1)), axis=0)
    width = raw(Gaussian(1.0, relative=True), many).members[0].kernel.width
    exact = np.median(np.abs(np.subtract.outer(many[:, 0], many[:, 0]))[np.triu_indices(3000, 1)])
    assert abs(width / exact - 1) < 0.01


@pytest.mark.parametrize("kernel", [k for k, _ in FORMULAS if hasattr(k, "label")], ids=repr)
def test_parameters_clone_copy_pickle_equality(kernel):
    for other in (clone(kernel), copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert other == kernel
        assert other is not kernel
        assert repr(other) == repr(kernel)
    assert kernel != Gaussian(123.0)
    assert kernel != "Gaussian"


def test_parameters_are_stored_untouched_and_checked_at_use():
    width = np.float32(2)
    kernel = Gaussian(width=width)
    assert kernel.get_params() == {"width": width, "relative": False}
    assert kernel.get_params()["width"] is width
    assert repr(Gaussian(2.0, relative=True)) == "Gaussian(width=2.0, relative=True)"
    assert kernel.set_params(width="wide") is kernel
    with pytest.raises(TypeError, match="Gaussian: width must be a positive float, found 'wide'"):
        raw(kernel, X)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Gaussian(0), "Gaussian: width must be positive, found 0"),
        (Gaussian(-1.0), "found -1.0"),
        (Gaussian(np.nan), "found nan"),
        (Gaussian(np.inf), "found inf"),
        (Gaussian(1e-200), "width 1e-200 is too small"),
        (Laplacian(0), "Laplacian: width must be"),
        (Polynomial(0), "Polynomial: degree must be positive, found 0"),
        (Polynomial(2, offset=-1), "Polynomial: offset must be a finite number ≥ 0, found -1"),
        (Polynomial(300), "overflows"),
        ("rfb", "no kernel named 'rfb'; did you mean 'rbf'"),
        ("zzz", "known: "),
        ("precomputed", r"Precomputed\(K\)"),
        (EigenvectorKernels(Gaussian(-1)), "found -1"),
        (EigenvectorKernels(Linear(), 0), "n_components must be positive, found 0"),
    ],
)
def test_bad_parameters(kernel, message):
    with pytest.raises(ValueError, match=message):
        raw(kernel, 1e3 * X)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Gaussian(None), "Gaussian: width must be a positive float, found None"),
        (Gaussian(True), "found True"),
        (Gaussian(np.eye(400)), r"found ndarray of shape \(400, 400\)"),
        (Polynomial(2.5), "Polynomial: degree must be a positive int, found 2.5"),
        (Polynomial("3"), "found '3'"),
        (Polynomial(2, offset=None), "offset must be a finite number ≥ 0, found None"),
        (EigenvectorKernels(Linear(), 1.0), "n_components must be a positive int, found 1.0"),
    ],
)
def test_parameters_of_another_type(kernel, message):
    with pytest.raises(TypeError, match=message):
        raw(kernel, X)


@pytest.mark.parametrize("kind", [Gaussian, Laplacian])
def test_a_wrong_argument_is_told_of_the_class_that_was_called(kind):
    with pytest.raises(TypeError, match=rf"^{kind.__name__}.__init__.*'sigma'"):
        kind(sigma=1.0)
    with pytest.raises(TypeError, match=rf"^{kind.__name__} has no gamma, but a width: .*width="):
        kind(gamma=1.0)


@pytest.mark.parametrize("item", [Gaussian, 3, None, np.eye(3), [[1.0]]])
def test_what_is_no_kernel(item):
    with pytest.raises(TypeError, match=r"kernels: (found the class Gaussian|an item is a kernel)"):
        raw([item], X)


@pytest.mark.parametrize(
    "kernels", [K := np.eye(400), K[None], [K, K], [("a", K)], pd.DataFrame(K), [K.tolist()]]
)
def test_a_matrix_is_no_kernel(kernels):
    with pytest.raises(TypeError, match=r"use Precomputed\(K\).*reshape\(-1, 1\)") as caught:
        raw(kernels, X)
    assert len(str(caught.value)) < 400


# Kernels from elsewhere


def test_gaussian_process_noise_is_on_the_training_diagonal_alone():
    kernel = RBF(1.0) + WhiteKernel(0.5)
    fitted = raw(kernel, X)
    np.testing.assert_allclose(fitted.stack.combine([1.0]), kernel(X), rtol=1e-12)
    np.testing.assert_allclose(fitted.cross(X, [1.0]), kernel(X, X), rtol=1e-12)
    np.testing.assert_allclose(
        KernelBank(kernel, normalize="sphere", scale=None).fit(X).cross(NEW, [1.0]),
        kernel(NEW, X) / 1.5,
        rtol=1e-12,
    )


def test_fitted_gaussian_process_kernel_is_frozen():
    kernel = ConstantKernel(2.0) * RBF(1.0)
    fitted = raw(kernel, X)
    before = fitted.cross(NEW, [1.0])
    kernel.set_params(k1__constant_value=5.0)
    assert np.array_equal(fitted.cross(NEW, [1.0]), before)


def test_nonnegative_data_for_chi2():
    A, B = np.abs(X), np.abs(NEW)
    fitted = raw("chi2", A)
    np.testing.assert_allclose(fitted.cross(B, [1.0]), chi2_kernel(B, A), rtol=1e-12)
    with pytest.raises(ValueError, match="negative"):
        raw("chi2", X)


def shared_letters(A, B):
    return np.array([[len(set(a) & set(b)) for b in B[:, 0]] for a in A[:, 0]])


def test_function_on_strings():
    words = np.array([["tree"], ["leaf"], ["root"], ["bark"]], dtype=object)
    fitted = KernelBank(shared_letters, normalize="sphere").fit(words)
    assert fitted.names == ("shared_letters on all",)
    new = fitted.cross([["tree"], ["xyz"]], [1.0])
    expected = [[1, 1 / np.sqrt(12), 2 / 3, 1 / np.sqrt(12)], [0, 0, 0, 0]]
    np.testing.assert_allclose(new, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: -np.eye(len(A), len(B)), "not positive semidefinite.*eigenvalue -1"),
        (lambda A, B: np.triu(np.ones((len(A), len(B)))), "not symmetric"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "400 NaN and 0 infinite entries"),
        (lambda A, B: np.ones(len(A)), r"returned an array of shape \(20,\)"),
        (lambda A, B: None, r"returned NoneType; a kernel of 20 rows against 20 is an array"),
        (lambda A, B: np.ones((len(A), len(B)), dtype=complex), "returned complex128 values"),
    ],
)
def test_what_a_function_must_return(function, message):
    with pytest.raises(ValueError, match=message) as caught:
        raw(("mine", function, [0, 1]), X)
    assert "mine" in str(caught.value) or "lambda" in str(caught.value)


def test_a_function_that_returns_a_masked_array():
    with pytest.raises(TypeError, match=r"what .* returned is a masked array"):
        raw(lambda A, B: np.ma.masked_greater(A @ B.T, 2.0), X)


def test_indefinite_scikit_learn_kernel_is_named():
    with pytest.raises(ValueError, match=r"kernel 'sigmoid on all'.*not positive semidefinite"):
        raw("sigmoid", 5 * X)


# Eigenvector kernels


@pytest.mark.parametrize("kernel", [Gaussian(1.5), Polynomial(2), 2.0 * RBF(1.5)], ids=repr)
def test_eigenvector_kernels(kernel):
    """On training rows u uᵀ; on new rows k(x, X) u / λ; together they give back the kernel."""
    plain = raw(kernel, X)
    K = plain.stack.combine([1.0])
    values, vectors = np.linalg.eigh(K)
    values, vectors = values[::-1], vectors[:, ::-1]
    fitted = raw(EigenvectorKernels(kernel, n_components=4), X)
    assert fitted.names[1] == f"{EigenvectorKernels(kernel).label()} on all [2]"
    cross = fitted.cross_stack(NEW)
    K_new = plain.cross(NEW, [1.0])
    for i in range(4):
        u = vectors[:, i]
        found = fitted.stack.combine(np.eye(4)[i])
        np.testing.assert_allclose(found, np.outer(u, u), atol=1e-12)
        np.testing.assert_allclose(cross[i], np.outer(K_new @ u / values[i], u), atol=1e-11)


def test_all_eigenvector_kernels_rebuild_the_kernel():
    fitted = raw(EigenvectorKernels(Linear()), X)
    assert fitted.m_all == 3  # the rank
    values = np.linalg.eigvalsh(X @ X.T)[::-1][:3]
    np.testing.assert_allclose(fitted.stack.combine(values), X @ X.T, atol=1e-12)
    np.testing.assert_allclose(fitted.cross(NEW, values), NEW @ X.T, atol=1e-12)


def test_eigenvector_kernels_of_a_named_item_and_after_a_pickle():
    fitted = raw([("spectrum", EigenvectorKernels("rbf", 2), [0, 2]), Linear()], X)
    assert fitted.names == ("Linear() on all", "spectrum [1]", "spectrum [2]")
    small = pickle.loads(pickle.dumps(fitted.compact([1], [4, 2])))
    weights = [0.0, 1.0, 0.0]
    np.testing.assert_allclose(
        small.cross(NEW, weights), fitted.cross(NEW, weights)[:, [4, 2]], atol=1e-12
    )
