"""Diffusion on graphs, graphs from correlations, and the empirical kernel map."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import expm
from scipy.sparse import block_diag, coo_array, csr_array, csr_matrix
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV

from kernelweave import (
    Diffusion,
    EmpiricalKernelMap,
    Gaussian,
    Graph,
    KernelBank,
    MKLClassifier,
    Precomputed,
)
from kernelweave.kernels.graphs import correlation_graph, diffusion_kernel
from kernelweave.kernels.similarity_maps import empirical_kernel_map


def random_graph(rng, n, density=0.2, weighted=False):
    A = np.triu(rng.random((n, n)) < density, 1).astype(float)
    if weighted:
        A *= rng.uniform(0.1, 3.0, (n, n))
    return A + A.T


def laplacian(A, normalized):
    degrees = A.sum(axis=1)
    if not normalized:
        return np.diag(degrees) - A
    scale = np.diag([1 / np.sqrt(d) if d > 0 else 0.0 for d in degrees])
    return np.diag((degrees > 0) * 1.0) - scale @ A @ scale


def column(values):
    return np.array(values, dtype=object).reshape(-1, 1)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("beta", [1e-3, 0.5, 7.0])
@pytest.mark.parametrize("density", [0.02, 0.3], ids=["in pieces", "connected"])
def test_diffusion_is_the_exponential_of_the_laplacian(normalized, beta, density):
    A = random_graph(np.random.default_rng(0), 30, density, weighted=True)
    K = diffusion_kernel(A, beta, normalized)
    np.testing.assert_allclose(K, expm(-beta * laplacian(A, normalized)), rtol=0, atol=1e-12)
    assert np.array_equal(K, K.T)
    assert np.linalg.eigvalsh(K)[0] > -1e-13


@pytest.mark.parametrize("kind", [csr_array, csr_matrix, coo_array, np.array, pd.DataFrame])
def test_dense_and_sparse_are_one(kind):
    A = random_graph(np.random.default_rng(1), 20)
    given = kind(A)
    before = given.copy()
    assert np.array_equal(diffusion_kernel(given, 0.7), diffusion_kernel(A, 0.7))
    assert (abs(before - given)).max(axis=None if kind is not pd.DataFrame else 0).max() == 0


def test_two_nodes_and_none():
    K = diffusion_kernel([[0, 1], [1, 0]], 0.4)
    apart = (1 - np.exp(-0.8)) / 2
    np.testing.assert_allclose(K, [[1 - apart, apart], [apart, 1 - apart]], rtol=1e-14)
    assert np.array_equal(diffusion_kernel(np.zeros((3, 3)), 2.0), np.eye(3))
    assert np.array_equal(diffusion_kernel(np.zeros((3, 3)), 2.0, normalized=True), np.eye(3))


def test_heat_is_neither_lost_nor_told_of_names():
    rng = np.random.default_rng(2)
    A = random_graph(rng, 25, weighted=True)
    K = diffusion_kernel(A, 1.3)
    np.testing.assert_allclose(K.sum(axis=1), 1.0, rtol=1e-12)
    order = rng.permutation(25)
    np.testing.assert_allclose(
        diffusion_kernel(A[np.ix_(order, order)], 1.3), K[np.ix_(order, order)], atol=1e-13
    )
    loops = A + np.diag(rng.random(25))
    assert np.array_equal(diffusion_kernel(loops, 1.3), K), "loops say nothing"
    np.testing.assert_allclose(diffusion_kernel(2 * A, 0.65), K, atol=1e-13)


def test_nothing_passes_between_components():
    rng = np.random.default_rng(3)
    one, two = random_graph(rng, 8, 0.5), random_graph(rng, 5, 0.7)
    K = diffusion_kernel(block_diag([one, two]), 5.0)
    assert not K[:8, 8:].any()
    np.testing.assert_allclose(K[:8, :8], diffusion_kernel(one, 5.0), atol=1e-13)


def test_several_betas_make_several_kernels():
    A = random_graph(np.random.default_rng(4), 15)
    K = diffusion_kernel(A, [0.1, 1.0])
    assert K.shape == (2, 15, 15)
    assert np.array_equal(K[1], diffusion_kernel(A, 1.0))
    fitted = KernelBank([Diffusion(A, [0.1, 1.0])], normalize=None).fit(np.arange(15)[:, None])
    assert fitted.names[0].endswith("[0.1]") and fitted.names[1].endswith("[1]")
    for k in range(2):
        np.testing.assert_allclose(fitted.stack.combine(np.eye(2)[k]), K[k], atol=1e-13)


@pytest.mark.parametrize("normalized", [False, True])
def test_in_a_bank_new_nodes_are_rows_of_the_whole_matrix(normalized):
    rng = np.random.default_rng(5)
    A = random_graph(rng, 40)
    K = diffusion_kernel(A, 0.5, normalized)
    rows = rng.permutation(40)
    fitted = KernelBank([Diffusion(A, 0.5, normalized)], normalize=None).fit(rows[:25, None])
    train = rows[:25]
    np.testing.assert_allclose(fitted.stack.combine([1.0]), K[np.ix_(train, train)], atol=1e-13)
    np.testing.assert_allclose(
        fitted.cross(rows[:, None], [1.0]), K[np.ix_(rows, train)], atol=1e-13
    )
    same = KernelBank([Precomputed(K)], normalize="sphere").fit(rows[:25, None])
    found = KernelBank([Diffusion(A, 0.5, normalized)], normalize="sphere").fit(rows[:25, None])
    np.testing.assert_allclose(
        found.cross(rows[25:, None], [1.0]), same.cross(rows[25:, None], [1.0]), atol=1e-12
    )


def test_names_of_nodes():
    rng = np.random.default_rng(6)
    A = random_graph(rng, 12)
    genes = [f"YAL{i:03d}W" for i in range(12)]
    K = diffusion_kernel(A)
    for graph in (Graph(A, nodes=genes), pd.DataFrame(A, index=genes, columns=genes)):
        fitted = KernelBank([Diffusion(graph)], normalize=None).fit(column(genes[3:9]))
        np.testing.assert_allclose(fitted.cross(column(genes), [1.0]), K[:, 3:9], atol=1e-14)
    entrez = [7157, 672, 675, *range(100, 109)]
    fitted = KernelBank([Diffusion(Graph(A, nodes=entrez))], normalize=None)
    np.testing.assert_allclose(
        fitted.fit(np.array(entrez[:4])[:, None]).stack.combine([1.0]), K[:4, :4], atol=1e-14
    )


def test_unknown_names_are_nodes_without_edges():
    rng = np.random.default_rng(7)
    A = random_graph(rng, 6, 0.6)
    known = list("abcdef")
    more = block_diag([A, np.zeros((2, 2))])
    expected = diffusion_kernel(more, 0.8)
    kernel = Diffusion(Graph(A, nodes=known), 0.8, unknown="isolated")
    X = column([*known, "x", "y"])
    fitted = KernelBank([kernel], normalize=None).fit(X)
    np.testing.assert_allclose(fitted.stack.combine([1.0]), expected, atol=1e-14)
    assert np.array_equal(fitted.cross(column(["y"]), [1.0])[0], np.eye(8)[7])
    sphere = KernelBank([kernel], normalize="sphere").fit(X)
    assert np.array_equal(sphere.cross(column(["x"]), [1.0])[0], np.eye(8)[6])


def test_two_networks_over_different_genes_learn_together():
    rng = np.random.default_rng(8)
    y = np.repeat([0, 1], 30)
    genes = np.array([f"g{i}" for i in range(60)])
    graphs = []
    for rate in (0.25, 0.06):  # the second network says nothing
        A = np.triu(rng.random((60, 60)) < np.where(y[:, None] == y, rate, 0.06), 1)
        kept = np.sort(rng.permutation(60)[:50])
        graphs.append(Graph((A + A.T)[np.ix_(kept, kept)], nodes=genes[kept]))
    bank = KernelBank(
        [(f"network {k}", Diffusion(g, 1.0, True, "isolated")) for k, g in enumerate(graphs)]
    )
    order = rng.permutation(60)
    train, test = order[:40], order[40:]
    model = MKLClassifier(bank).fit(genes[train, None], y[train])
    assert model.weights_[0] > model.weights_[1]
    assert model.score(genes[test, None], y[test]) >= 0.7
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(genes[test, None]), model.predict(genes[test, None]))


def test_a_graph_is_factored_once(monkeypatch):
    import scipy.linalg

    A = random_graph(np.random.default_rng(9), 20, 0.5)
    graph = Graph(A)
    calls = []
    plain = scipy.linalg.eigh
    monkeypatch.setattr(scipy.linalg, "eigh", lambda *a, **k: calls.append(1) or plain(*a, **k))
    model = MKLClassifier(KernelBank(Diffusion(graph)))
    search = GridSearchCV(model, {"kernels__kernels__beta": [0.1, 1.0, 10.0]}, cv=2)
    search.fit(np.arange(20)[:, None], np.arange(20) % 2)
    assert len(calls) == 1
    assert clone(Diffusion(graph)).graph is graph


def test_parameters_and_equality():
    A = random_graph(np.random.default_rng(10), 9)
    kernel = Diffusion(A, 0.3, normalized=True)
    for other in (clone(kernel), pickle.loads(pickle.dumps(kernel)), Diffusion(A, 0.3, True)):
        assert other == kernel
    for other in (Diffusion(A, 0.4, True), Diffusion(A, 0.3), Diffusion(A + A @ A, 0.3, True)):
        assert other != kernel
    assert kernel.label() == "Diffusion(beta=0.3, normalized)"
    assert repr(kernel.graph) == f"Graph(9 nodes, {int(A.sum()) // 2} edges)"


def test_graph_of_correlations():
    rng = np.random.default_rng(11)
    base = rng.normal(size=(4, 20))
    X = np.repeat(base, 8, axis=0) + 0.5 * rng.normal(size=(32, 20))
    X[5] = 3.0
    with np.errstate(invalid="ignore"):
        expected = np.corrcoef(X) > 0.8
    np.fill_diagonal(expected, False)
    found = correlation_graph(X, 0.8)
    assert np.array_equal(found.adjacency.toarray(), expected)
    assert 0 < expected.sum() and not expected[5].any()
    genes = [f"g{i}" for i in range(32)]
    assert correlation_graph(pd.DataFrame(X, index=genes)).nodes == tuple(genes)
    assert np.array_equal(correlation_graph(7.0 - 2.0 * X, 0.8).adjacency.toarray(), expected), (
        "neither units nor signs that all share matter"
    )


def test_graph_of_many_correlations():
    rng = np.random.default_rng(12)
    X = rng.normal(size=(1100, 4))
    expected = np.corrcoef(X) > 0.95
    np.fill_diagonal(expected, False)
    assert np.array_equal(correlation_graph(X, 0.95).adjacency.toarray(), expected)


# The empirical kernel map


def signed(A, B):
    """A similarity that is neither symmetric nor positive semidefinite."""
    return np.sin(3.0 * A[:, :1] - B[:, 0]) + A[:, :1] * B[:, 1]


@pytest.mark.parametrize("similarity", [signed, Gaussian(0.5), "cosine", RBF(2.0)])
def test_the_map_compares_with_training_rows(similarity):
    rng = np.random.default_rng(13)
    X = rng.normal(size=(20, 2))
    fitted = KernelBank([EmpiricalKernelMap(similarity)], normalize=None, scale=None).fit(X[:12])
    if similarity is signed:
        S = signed(X, X[:12])
    else:
        S = KernelBank([similarity], normalize=None, scale=None).fit(X).cross(X, [1.0])[:, :12]
    K = fitted.stack.combine([1.0])
    np.testing.assert_allclose(K, S[:12] @ S[:12].T, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(fitted.cross(X, [1.0]), S @ S[:12].T, rtol=1e-11, atol=1e-12)
    assert np.linalg.eigvalsh(K)[0] > -1e-10 * np.trace(K)
    np.testing.assert_allclose(empirical_kernel_map(S), S @ S.T, rtol=1e-13)
    narrow = fitted.compact([0], [3, 7])
    np.testing.assert_allclose(
        narrow.cross(X, [1.0]), (S @ S[:12].T)[:, [3, 7]], rtol=1e-11, atol=1e-12
    )


def test_training_rows_are_not_compared_again():
    rng = np.random.default_rng(14)
    X = rng.normal(size=(15, 2))
    sizes = []

    def counted(A, B):
        sizes.append(len(A) * len(B))
        return signed(A, B)

    bank = KernelBank([EmpiricalKernelMap(counted)]).fit(X)
    assert sizes == [225]
    bank.cross(X, [1.0])
    assert sizes == [225]
    bank.cross(np.vstack([X[:2], [[9.0, 9.0]]]), [1.0])
    assert sizes == [225, 15]


def test_rows_without_a_hash():
    X = np.empty((4, 1), dtype=object)
    X[:, 0] = [[1, 2], [3], [1, 2, 3], []]

    def shared(A, B):
        return np.array([[len(set(a) & set(b)) for b in B[:, 0]] for a in A[:, 0]], dtype=float)

    fitted = KernelBank([EmpiricalKernelMap(shared)], normalize=None).fit(X)
    S = shared(X, X)
    assert np.array_equal(fitted.stack.combine([1.0]), S @ S.T)
    assert np.array_equal(fitted.cross(X[:2], [1.0]), S[:2] @ S.T)


A = np.array([[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Graph([[0, -1], [-1, 0]]), ValueError, "found -1 between nodes 0 and 1"),
        (lambda: Graph([[0, np.nan], [np.nan, 0]]), ValueError, "found nan between nodes 0 and 1"),
        (lambda: Graph([[0, np.inf], [np.inf, 0]]), ValueError, "found inf"),
        (lambda: Graph([[0, 1], [0.5, 0]]), ValueError, r"not symmetric; \[0, 1\] is 1, \[1, 0\]"),
        (lambda: Graph(csr_array([[0, 1], [0, 0]])), ValueError, r"np.maximum\(A, A.T\)"),
        (lambda: Graph(np.ones((2, 3))), ValueError, r"square, found shape \(2, 3\)"),
        (lambda: Graph([["a", "b"], ["b", "a"]]), TypeError, "are numbers"),
        (lambda: Graph(A, nodes=["a"]), ValueError, "1 names for 2 nodes"),
        (lambda: Graph(A, nodes=["a", "a"]), ValueError, "the name 'a' twice"),
        (
            lambda: Graph(pd.DataFrame(A, index=["a", "b"], columns=["b", "a"])),
            ValueError,
            "Graph: rows and columns of the data frame",
        ),
        (lambda: diffusion_kernel(A, 0.0), ValueError, "Diffusion: beta must be positive, found 0"),
        (lambda: diffusion_kernel(A, [1.0, np.nan]), ValueError, "found nan"),
        (lambda: KernelBank([Diffusion(A, [])]).fit([[0], [1]]), ValueError, "found none"),
        (lambda: KernelBank([Diffusion(A, unknown="x")]).fit([[0], [1]]), ValueError, "found 'x'"),
        (lambda: KernelBank([Diffusion(A)]).fit([[0], [2]]), ValueError, "below 2"),
        (lambda: KernelBank([Diffusion(A)]).fit([[0, 1], [1, 0]]), ValueError, "one column"),
        (
            lambda: KernelBank([Diffusion(Graph(A, nodes="ab"))]).fit([["a"], ["c"]]),
            ValueError,
            "1 rows of X name no node of the graph, the first 'c' in row 1",
        ),
        (
            lambda: KernelBank([Diffusion(Graph(A, nodes=[1, 2]))]).fit([[1.0], [np.nan]]),
            ValueError,
            "row 1 of X has no name",
        ),
        (
            lambda: KernelBank([Diffusion(Graph(A, nodes="ab"))]).fit([["a", "b"], ["b", "a"]]),
            ValueError,
            "takes one column of names",
        ),
        *(
            (
                lambda name=name: KernelBank(
                    [Diffusion(Graph(A, nodes="ab"), unknown="isolated")]
                ).fit([["a"], [name]]),
                ValueError,
                "row 1 of X has no name, found .*give each its own name",
            )
            for name in ("", None, np.nan)
        ),
        (
            lambda: KernelBank([Diffusion(A)]).fit([["a"], ["b"]]),
            ValueError,
            r"row numbers must be numbers; found 'a'. For names, Graph\(A, nodes=names\)",
        ),
        (lambda: Graph([("a", "b"), ("b", "c")]), TypeError, "weights of edges.*coo_array"),
        (lambda: Graph([(0, 1), (1, 2), (2, 3)]), ValueError, r"shape \(3, 2\).*coo_array"),
        (
            lambda: correlation_graph(pd.DataFrame({"a": ["x", "y"], "b": [1, 2]})),
            TypeError,
            r"profiles must hold real numbers.* in column 'a'; .*set_index\('a'\)",
        ),
        (lambda: correlation_graph([[1, np.nan, 2]]), ValueError, "row 0 has 1 missing"),
        (lambda: correlation_graph(np.eye(3), 1.5), ValueError, "between -1 and 1; found 1.5"),
        (lambda: correlation_graph([[1.0], [2.0]]), ValueError, "at least two numbers"),
        (lambda: empirical_kernel_map([[1, np.nan]]), ValueError, r"found nan at \[0, 1\]"),
        (lambda: empirical_kernel_map([1, 2]), ValueError, "matrix of similarities"),
        (
            lambda: KernelBank([EmpiricalKernelMap(lambda A, B: A @ B.T * np.nan)]).fit(A),
            ValueError,
            "similarity of training rows 0 and 0 is nan",
        ),
        (lambda: KernelBank([EmpiricalKernelMap(Gaussian(-1))]).fit(A), ValueError, "found -1"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_graph_that_knows_none_of_the_names():
    bank = KernelBank([Diffusion(Graph(A, nodes=["TP53", "MDM2"]), unknown="isolated")])
    with pytest.warns(UserWarning, match="none of the names in X, such as 'tp53'.*like 'TP53'"):
        bank.fit([["tp53"], ["mdm2"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bank.fit([["TP53"], ["mdm2"]])
