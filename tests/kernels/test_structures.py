"""Kernels of labeled graphs and trees: by brute force, on new rows, in models."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

import kernelweave
from kernelweave import KernelBank, MKLClassifier, SubsetTree, WeisfeilerLehman, structures

PAIRS = 200


def values(kernel, items, others=None):
    """The kernel's matrix without normalization."""
    bank = KernelBank([kernel], normalize=None).fit(structures(items))
    if others is None:
        every = np.arange(len(items))
        return bank.stack.block(0, every, every)
    return bank.cross_stack(structures(others))[0]


# --- graphs -------------------------------------------------------------------------------------


def random_graph(rng):
    n = int(rng.integers(1, 8))
    edges = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.4]
    return tuple(rng.choice(list("CNO"), n).tolist()), tuple(edges)


def neighborhoods(graph, iterations):
    """Labels written out in full, as strings."""
    labels, edges = graph
    own, found = list(labels), Counter()
    for i in range(iterations + 1):
        found.update((i, label) for label in own)
        near = [
            sorted([own[a] for a, b in edges if b == v] + [own[b] for a, b in edges if a == v])
            for v in range(len(own))
        ]
        own = [f"({mine}|{','.join(others)})" for mine, others in zip(own, near, strict=True)]
    return found


@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_graphs_by_brute_force(iterations):
    rng = np.random.default_rng(iterations)
    left, right = ([random_graph(rng) for _ in range(PAIRS)] for _ in range(2))
    cross = values(WeisfeilerLehman(iterations), right, left)
    for row, (x, z) in enumerate(zip(left, right, strict=True)):
        a, b = neighborhoods(x, iterations), neighborhoods(z, iterations)
        assert cross[row, row] == sum(a[label] * b[label] for label in a)


def test_graphs_of_networkx_are_the_same():
    nx = pytest.importorskip("networkx")
    rng = np.random.default_rng(0)
    pairs = [random_graph(rng) for _ in range(20)]
    graphs = []
    for labels, edges in pairs:
        graph = nx.Graph()
        graph.add_nodes_from((f"n{i}", {"atom": label}) for i, label in enumerate(labels))
        graph.add_edges_from((f"n{i}", f"n{j}") for i, j in edges)
        graphs.append(graph)
    column = np.empty((20, 1), dtype=object)
    column[:, 0] = graphs  # as they are
    as_they_are = KernelBank([WeisfeilerLehman(2, "atom")], normalize=None).fit(column).stack
    every = np.arange(20)
    expected = values(WeisfeilerLehman(2), pairs)
    np.testing.assert_array_equal(as_they_are.block(0, every, every), expected)
    made = structures(graphs, "atom")
    assert all(isinstance(cell, tuple) for cell in made[:, 0])
    with pytest.raises(ValueError, match="no attribute 'label'"):
        structures(graphs)


def test_labels_unseen_in_training_count_in_the_norm_of_their_own_row():
    train = [(("C", "C"), ((0, 1),)), (("C",), ())]
    bank = KernelBank([WeisfeilerLehman(1)], normalize="sphere").fit(structures(train))
    new = (("C", "X", "X"), ((0, 1), (1, 2)))
    a = neighborhoods(new, 1)
    size = np.sqrt(sum(count * count for count in a.values()))
    for column, one in enumerate(train):
        b = neighborhoods(one, 1)
        expected = sum(a[u] * b[u] for u in a) / size / np.sqrt(sum(c * c for c in b.values()))
        assert bank.cross_stack(structures([new]))[0][0, column] == pytest.approx(expected)


def test_graphs_that_are_none():
    for cell in (3, ("C",), (["C"], [(0,)]), ((["C"],), ())):
        with pytest.raises(TypeError, match="a graph must be a networkx graph"):
            values(WeisfeilerLehman(), [cell, (("C",), ())])
    with pytest.raises(ValueError, match=r"has 1 nodes, numbered from 0, but an edge \(0, 5\)"):
        values(WeisfeilerLehman(), [(("C",), ((0, 5),)), (("C",), ())])
    with pytest.raises(ValueError, match="iterations"):
        WeisfeilerLehman(-1).validate()


# --- trees --------------------------------------------------------------------------------------


def random_tree(rng, depth=3):
    label = str(rng.choice(list("AB")))
    if depth == 0 or rng.random() < 0.3:
        return label.lower()
    return (label, *(random_tree(rng, depth - 1) for _ in range(rng.integers(1, 3))))


def pieces(tree):
    """All pieces at the root: each child cut off, or one of its own pieces."""
    label, *below = tree
    options = []
    for child in below:
        inner = isinstance(child, tuple)
        cut = ("cut", child[0]) if inner else ("leaf", child)
        options.append([(cut, 0)] + (pieces(child) if inner else []))
    return [
        ((label, *(one for one, _ in chosen)), 1 + sum(size for _, size in chosen))
        for chosen in product(*options)
    ]


def all_pieces(tree):
    found, left = Counter(), [tree]
    while left:
        node = left.pop()
        if isinstance(node, tuple):
            found.update(pieces(node))
            left += node[1:]
    return found


@pytest.mark.parametrize("decay", [0.3, 1.0])
def test_trees_by_brute_force(decay):
    rng = np.random.default_rng(int(10 * decay))
    left, right = ([random_tree(rng) for _ in range(PAIRS)] for _ in range(2))
    cross = values(SubsetTree(decay), right, left)
    for row, (x, z) in enumerate(zip(left, right, strict=True)):
        a, b = all_pieces(x), all_pieces(z)
        expected = sum(decay ** piece[1] * a[piece] * b[piece] for piece in a)
        assert cross[row, row] == pytest.approx(expected, rel=1e-12)


def test_the_matrix_of_trees_is_semidefinite_and_that_of_new_rows():
    rng = np.random.default_rng(5)
    trees = [random_tree(rng) for _ in range(40)]
    K = values(SubsetTree(0.5), trees)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, values(SubsetTree(0.5), trees, trees))
    assert np.linalg.eigvalsh(K)[0] >= -1e-10 * np.trace(K)
    twice = ("A", "b")
    (one,) = values(SubsetTree(1.0), [("R", twice, twice)])[0]
    assert one == 4.0 + 4.0  # four pairs of the pieces below, and four pieces at the root


def test_productions_unseen_in_training_count_in_the_norm_of_their_own_row():
    train, new = [("A", "b"), ("A", "b", "c")], ("A", ("A", "b"), ("Z", "y"))
    bank = KernelBank([SubsetTree(0.5)], normalize="sphere").fit(structures(train))
    (own,) = values(SubsetTree(0.5), [new])[0]
    found = bank.cross_stack(structures([new]))[0][0]
    np.testing.assert_allclose(found, [0.5 / np.sqrt(0.5 * own), 0.0])


def test_deep_trees():
    tree = "a"
    for _ in range(300):
        tree = ("A", tree)
    assert np.isfinite(values(SubsetTree(0.5), [tree[1], tree])).all()


def test_trees_that_are_none():
    for cell in ((), None, ["A", "b"], ("A", ["b"])):
        with pytest.raises(TypeError, match="a tree must be nested tuples"):
            values(SubsetTree(), [cell, "a"])
    with pytest.raises(ValueError, match="decay"):
        SubsetTree(0.0).validate()


# --- in models ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [WeisfeilerLehman(2), SubsetTree(0.5)], ids=repr)
def test_models_predict_and_are_saved(kernel, tmp_path):
    rng = np.random.default_rng(1)
    make = random_graph if isinstance(kernel, WeisfeilerLehman) else random_tree
    items = [make(rng) for _ in range(60)]
    X = structures(items)
    y = np.array([str(item).count("C") + str(item).count("A") > 3 for item in items])
    model = MKLClassifier(KernelBank([kernel], normalize="sphere"), C=10.0).fit(X[:40], y[:40])
    assert model.duality_gap_ <= 1e-3 and model.score(X[40:], y[40:]) > 0.7
    model.save(tmp_path / "model.kweave")
    back = kernelweave.load(tmp_path / "model.kweave")
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
