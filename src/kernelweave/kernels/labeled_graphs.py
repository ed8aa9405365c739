"""Weisfeiler–Lehman kernel: labeled graphs compared by the neighborhoods of their nodes.

    k(x, z) = Σ_{i ≤ h} Σ_u φ_i,u(x) φ_i,u(z),    φ_i,u(x) = number of nodes of x with label u at i

At i = 0 labels are those of the nodes; the label of a node at i + 1 is its own at i together with
those of its neighbors, whatever their order [Shervashidze et al. 2011; lanckriet2004, §7]. Graphs
are never compared with each other: φ is sparse, and the kernel a product of sparse rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import check_number, shown
from kernelweave._core.types import Array
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.features import FeatureKernel
from kernelweave.views.rows import Rows

_FORM = (
    "a networkx graph whose nodes have the attribute {!r}, or a pair (labels, edges): the label of "
    "each node, and pairs of node numbers from 0"
)


class WeisfeilerLehman(Kernel):
    """How many neighborhoods two labeled graphs share, up to ``iterations`` edges wide.

    X is one column whose cells are graphs; ``kernelweave.structures(graphs)`` makes one. A cell is
    a networkx graph, or a pair (labels, edges), which model files can hold, too. Edges have no
    direction. Use ``KernelBank(normalize="sphere")`` where graphs differ in size: large ones share
    more.

    Parameters
    ----------
    iterations : int ≥ 0
        h; 0 compares the labels of nodes alone. A bank with several, such as
        ``[WeisfeilerLehman(h) for h in range(5)]``, learns which one matters.
    attribute : str
        The attribute of networkx nodes that holds their label.
    """

    numeric = False  # it reads graphs

    def __init__(self, iterations: int = 3, attribute: str = "label") -> None:
        self.iterations = iterations
        self.attribute = attribute

    def label(self) -> str:
        """Shows the iterations."""
        return f"WeisfeilerLehman({self.iterations})"

    def validate(self) -> None:
        """Raise ValueError or TypeError for invalid parameters."""
        check_number("WeisfeilerLehman: iterations", self.iterations, int, zero=True)

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """The kernel with the labels of these rows."""
        features = _Labels(self.iterations, self.attribute, {})
        rows.remember(features, lambda: features.learn(rows))
        return [("", _LabelKernel(features))]


class _LabelKernel(FeatureKernel):
    """φ(x)ᵀφ(z); φ(x) of training labels only, which is all that a product with them needs."""

    features: _Labels

    def diagonal(self, rows: Rows) -> Array:
        """|φ(x)|² over all labels, those that no training graph has included."""
        counts = self.features.count(rows)
        return np.array([sum(c * c for c in one.values()) for one in counts], dtype=float)


class _Labels:
    """φ of graphs, one column for each of the labels ``places``: (i, own, those around)."""

    def __init__(self, iterations: int, attribute: str, places: dict[Any, int]) -> None:
        self.iterations, self.attribute, self.places = iterations, attribute, places

    def learn(self, rows: Rows) -> Any:
        """φ of the training graphs, whose labels get a column each."""
        return self._sparse(self._count(rows, self.places))

    def __call__(self, rows: Rows) -> Any:
        return self._sparse(self.count(rows))

    def count(self, rows: Rows) -> list[Counter[int]]:
        """How often each graph has each label; numbers of labels not seen in training are new."""
        return self._count(rows, dict(self.places))

    def _count(self, rows: Rows, places: dict[Any, int]) -> list[Counter[int]]:
        found = []
        for labels, around in _graphs(rows, self.attribute):
            own = [places.setdefault((0, label, ()), len(places)) for label in labels]
            counts = Counter(own)
            for i in range(1, self.iterations + 1):
                wider = [
                    (i, mine, tuple(sorted(own[u] for u in near)))
                    for mine, near in zip(own, around, strict=True)
                ]
                own = [places.setdefault(label, len(places)) for label in wider]
                counts.update(own)
            found.append(counts)
        return found

    def _sparse(self, counts: list[Counter[int]]) -> Any:
        """Counts as CSR, of the labels known alone."""
        from scipy.sparse import csr_array

        size = len(self.places)
        triples = [
            (row, column, count)
            for row, one in enumerate(counts)
            for column, count in one.items()
            if column < size
        ]
        row, column, count = np.array(triples, dtype=np.int64).reshape(-1, 3).T
        return csr_array((count.astype(float), (row, column)), shape=(len(counts), size))


class _LabeledGraph(NamedTuple):
    """The labels of the nodes, and the neighbors of each."""

    labels: list[Any]
    around: list[list[int]]


def structures(items: Sequence[Any], attribute: str = "label") -> NDArray[Any]:
    """A column of X, shape (n, 1), whose cells hold graphs or trees.

    Parameters
    ----------
    items : sequence
        Trees for ``SubsetTree``, which stay as they are, or graphs for ``WeisfeilerLehman``: those
        of networkx become pairs (labels, edges), which model files can hold.
    attribute : str
        The attribute of networkx nodes that holds their label.
    """
    column = np.empty((len(items), 1), dtype=object)
    for row, item in enumerate(items):
        column[row, 0] = _as_pair(item, attribute, row) if hasattr(item, "adj") else item
    return column


def _graphs(rows: Rows, attribute: str) -> list[_LabeledGraph]:
    """The graphs of a column."""
    cells = rows.only_column("WeisfeilerLehman", "graphs")
    return [_read(cell, attribute, row) for row, cell in enumerate(cells)]


def _read(cell: Any, attribute: str, row: int) -> _LabeledGraph:
    """One graph, checked."""
    pair = _as_pair(cell, attribute, row) if hasattr(cell, "adj") else cell
    try:
        labels, edges = pair
        labels = list(labels)
        ends = [(int(i), int(j)) for i, j in edges]
        hash(tuple(labels))
    except (TypeError, ValueError):
        raise TypeError(
            f"WeisfeilerLehman: a graph must be {_FORM.format(attribute)}; found {shown(cell)} in "
            f"row {row}."
        ) from None
    around: list[list[int]] = [[] for _ in labels]
    for i, j in ends:
        if not (0 <= i < len(labels) and 0 <= j < len(labels)):
            raise ValueError(
                f"WeisfeilerLehman: the graph in row {row} has {len(labels)} nodes, numbered from "
                f"0, but an edge {(i, j)}."
            )
        around[i].append(j)
        if i != j:
            around[j].append(i)
    return _LabeledGraph(labels, around)


def _as_pair(graph: Any, attribute: str, row: int) -> tuple[tuple[Any, ...], Any]:
    """A graph of networkx as (labels, edges)."""
    place = {node: number for number, node in enumerate(graph.nodes)}
    labels = [graph.nodes[node].get(attribute, _NOTHING) for node in place]
    if _NOTHING in labels:
        node = list(place)[labels.index(_NOTHING)]
        raise ValueError(
            f"WeisfeilerLehman: node {node!r} of the graph in row {row} has no attribute "
            f"{attribute!r}; name the one that holds labels, or give all nodes the same."
        )
    return tuple(labels), tuple((place[a], place[b]) for a, b in graph.edges())


_NOTHING = object()
