"""Subset-tree kernel: labeled trees compared by the pieces that they share.

    k(x, z) = Σ_{a ∈ x} Σ_{b ∈ z} Δ(a, b)
    Δ(a, b) = λ Π_i (1 + Δ(a_i, b_i))   if a and b have the same label and children of the same
                                        labels, in order; else 0

over the nodes with children [Collins and Duffy 2002; lanckriet2004, §7]; a leaf adds a factor of 1.
A piece is a node with all its children, each of them cut off there or with all of its own: k is the
sum over pieces of λ to the number of their inner nodes, times how often each tree has them. So it
is an inner product. The recursion runs over pairs of nodes with equal labels, children first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import check_number, shown
from kernelweave._core.jit import jit
from kernelweave._core.types import Array
from kernelweave.kernels.base import Kernel
from kernelweave.views.rows import Pair, Rows

Numbers = NDArray[np.int64]


class SubsetTree(Kernel):
    """How many pieces two labeled trees share, larger ones counting less by ``decay``.

    X is one column whose cells are trees as nested tuples: (label, child, child, …), where a leaf
    is a label alone, such as ``("S", ("NP", "she"), ("VP", ("V", "sings")))``.
    ``kernelweave.structures(trees)`` makes such a column. Use ``KernelBank(normalize="sphere")``
    where trees differ in size: large ones share more.

    Parameters
    ----------
    decay : positive float
        λ; 1 counts all pieces alike, and whole trees then outweigh everything else. A bank with
        several learns which one matters.
    """

    numeric = False  # it reads trees

    def __init__(self, decay: float = 0.4) -> None:
        self.decay = decay

    def validate(self) -> None:
        """Raise ValueError or TypeError for an invalid decay."""
        check_number("SubsetTree: decay", self.decay)

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """The kernel with the productions of these rows."""
        reader = _Productions({})
        rows.remember(reader, lambda: reader.learn(rows))
        return [("", _TreeKernel(self.decay, reader))]


class _TreeKernel(Kernel):
    """The kernel, and what reads trees."""

    numeric = False

    def __init__(self, decay: float, reader: _Productions) -> None:
        self.decay = decay
        self.reader = reader

    def fill(self, pair: Pair, out: Array) -> None:
        """All pairs of trees; of a matrix with itself one triangle."""
        a, b = self._of(pair.a), self._of(pair.b)
        _fill(a, b, float(self.decay), pair.same, out)

    def diagonal(self, rows: Rows) -> Array:
        """k(x, x), nodes that no training tree has included."""
        out = np.empty(len(rows))
        forest = self._of(rows)
        for t in range(len(rows)):
            one = forest._replace(trees=forest.trees[t : t + 2])
            _fill(one, one, float(self.decay), True, out[t : t + 1, None])
        return out

    def _of(self, rows: Rows) -> _Forest:
        forest: Any = rows.remember(self.reader, lambda: self.reader(rows))
        return _Forest(*forest)


class _Forest(NamedTuple):
    """The nodes with children of many trees, children before parents.

    Tree t has the nodes from ``trees[t]`` on; node a has the production ``kinds[a]`` and the
    children ``children[first[a]:first[a + 1]]``, numbers within the tree, −1 for leaves.
    """

    trees: Numbers
    kinds: Numbers
    first: Numbers
    children: Numbers


class _Productions:
    """Numbers of productions (a label and the labels of its children), and trees in them."""

    def __init__(self, places: dict[Any, int]) -> None:
        self.places = places

    def learn(self, rows: Rows) -> Any:
        """The training trees, whose productions get their numbers."""
        return _forest(rows, self.places)

    def __call__(self, rows: Rows) -> Any:
        """Other trees; productions not seen in training get other numbers."""
        return _forest(rows, dict(self.places))


def _forest(rows: Rows, places: dict[Any, int]) -> _Forest:
    trees, kinds, first, children = [0], [], [0], []
    for row, tree in enumerate(rows.only_column("SubsetTree", "trees")):
        for node, below in _inner_nodes(tree, row):
            try:
                production = tuple(map(_label, node))
                kinds.append(places.setdefault(production, len(places)))
            except TypeError:
                raise _refused(node, row) from None
            children += below
            first.append(len(children))
        trees.append(len(kinds))
    return _Forest(*(np.array(part, dtype=np.int64) for part in (trees, kinds, first, children)))


def _inner_nodes(tree: Any, row: int) -> list[tuple[Any, list[int]]]:
    """The nodes with children, these before their parents, and the number of each child."""
    found: list[tuple[Any, list[int]]] = []
    if not isinstance(tree, tuple | str | int | float) or tree in ((), "") or tree != tree:
        raise _refused(tree, row)
    open_nodes: list[tuple[Any, list[int]]] = [(tree, [])] if _is_inner(tree) else []
    while open_nodes:
        node, below = open_nodes[-1]
        if len(below) < len(node) - 1:
            child = node[len(below) + 1]
            below.append(-1)
            if _is_inner(child):
                open_nodes.append((child, []))
            continue
        found.append(open_nodes.pop())
        if open_nodes:
            open_nodes[-1][1][-1] = len(found) - 1
    return found


def _is_inner(node: Any) -> bool:
    return isinstance(node, tuple) and len(node) > 1


def _label(node: Any) -> Any:
    """That of a node, which a leaf is itself."""
    return node[0] if isinstance(node, tuple) else node


def _refused(found: Any, row: int) -> TypeError:
    return TypeError(
        "SubsetTree: a tree must be nested tuples (label, child, child, …), a leaf a label alone; "
        f"found {shown(found)} in row {row}."
    )


@jit
def _fill(x: _Forest, z: _Forest, decay: float, same: bool, out: Array) -> None:
    trees_a, kinds_a, first_a, children_a = x
    trees_b, kinds_b, first_b, children_b = z
    size = 0
    for t in range(len(trees_b) - 1):
        size = max(size, trees_b[t + 1] - trees_b[t])
    for s in range(len(trees_a) - 1):
        delta = np.zeros((trees_a[s + 1] - trees_a[s], size))
        for t in range(s + 1 if same else len(trees_b) - 1):
            total = 0.0
            for a in range(trees_a[s], trees_a[s + 1]):
                for b in range(trees_b[t], trees_b[t + 1]):
                    value = 0.0
                    if kinds_a[a] == kinds_b[b]:
                        value = decay
                        for c in range(first_a[a + 1] - first_a[a]):
                            i, j = children_a[first_a[a] + c], children_b[first_b[b] + c]
                            if i >= 0 and j >= 0:
                                value *= 1.0 + delta[i, j]
                    delta[a - trees_a[s], b - trees_b[t]] = value
                    total += value
            out[s, t] = total
            if same:
                out[t, s] = total
