"""Kernels between the nodes of a graph: diffusion kernels, and graphs from correlations.

    K = exp(−βL),    L = D − A,  or normalized  L = I − D^−½ A D^−½

A holds the edge weights, D the degrees. Heat that starts at node i and spreads along the edges for
a time β reaches node j in proportion to K_ij. Nodes are similar if many short paths connect them
[Kondor and Lafferty 2002; lanckriet2004, §6.2.2].
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import check_floats, check_number, refuse_masked, shown, some
from kernelweave._core.tolerances import COINCIDE, SUM_ROUNDING
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.features import inner_products
from kernelweave.kernels.precomputed import frame_labels, row_numbers
from kernelweave.stacks.resources import require_memory
from kernelweave.views.rows import Pair, Rows
from kernelweave.views.table import Table

_UNNAMED = (
    "leave such rows out, or give each its own name that is not in the graph, and set "
    "unknown='isolated'."
)
_PAIRS = (
    "From edges as pairs (i, j) of node numbers, make A = scipy.sparse.coo_array((ones, (i, j)), "
    "(n, n)) and pass A + A.T."
)
_NOTHING = float(np.finfo(np.float64).eps) / 16  # exp(−βλ) below this counts as 0; the largest is 1


class Graph:
    """An undirected graph. Its Laplacians are factored when first needed and then kept.

    Parameters
    ----------
    adjacency : array, sparse matrix or data frame (n, n)
        Non-negative edge weights, symmetric; 0 for no edge. The diagonal is ignored.
    nodes : sequence of names, optional
        Names of the nodes, such as genes; by default the labels of a data frame. With names, rows
        of X hold names; without, node numbers.
    """

    def __init__(self, adjacency: Any, nodes: Sequence[Any] | None = None) -> None:
        labels = frame_labels(adjacency, "Graph") if nodes is None else nodes
        self.adjacency = _check_adjacency(adjacency)
        self.nodes = None if labels is None else tuple(map(_text, labels))
        self._place: dict[str, int] = {}
        self._spectra: dict[bool, tuple[Array, Array]] = {}
        if self.nodes is not None:
            if len(self.nodes) != len(self):
                raise ValueError(f"Graph: nodes has {len(self.nodes)} names for {len(self)} nodes.")
            self._place = {name: place for place, name in enumerate(self.nodes)}
            if len(self._place) < len(self):
                twice = next(n for i, n in enumerate(self.nodes) if self._place[n] != i)
                raise ValueError(f"Graph: nodes has the name {twice!r} twice.")

    def __len__(self) -> int:
        return self.adjacency.shape[0]

    def __repr__(self) -> str:
        return f"Graph({len(self)} nodes, {self.adjacency.nnz // 2} edges)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        same = len(self) == len(other) and self.nodes == other.nodes
        return same and (self.adjacency != other.adjacency).nnz == 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self  # immutable, and its factors are large

    def laplacian(self, normalized: bool = False) -> Any:
        """L as a sparse array; a node without edges has a row of zeros, normalized or not."""
        from scipy.sparse import diags_array

        degrees = np.asarray(self.adjacency.sum(axis=1)).ravel()
        if not normalized:
            return (diags_array(degrees) - self.adjacency).tocsr()
        root = np.sqrt(degrees)
        scale = diags_array(np.divide(1.0, root, out=np.zeros_like(root), where=root > 0))
        return (diags_array((degrees > 0) * 1.0) - scale @ self.adjacency @ scale).tocsr()

    def spectrum(self, normalized: bool = False) -> tuple[Array, Array]:
        """λ and U of L = U diag(λ) Uᵀ, one connected component after another."""
        from scipy.linalg import eigh
        from scipy.sparse.csgraph import connected_components

        if normalized not in self._spectra:
            require_memory(2, len(self), np.float64)
            L = self.laplacian(normalized)
            many, component = connected_components(self.adjacency, directed=False)
            order = np.argsort(component, kind="stable")
            cuts = np.searchsorted(component[order], np.arange(many + 1))
            values, vectors = np.zeros(len(self)), np.zeros((len(self), len(self)))
            for start, stop in pairwise(cuts):
                members = order[start:stop]
                # divide and conquer: similar nodes give many equal eigenvalues, for which the
                # default driver is slow and loses orthogonality
                found = eigh(L[members][:, members].toarray(), driver="evd", overwrite_a=True)
                values[start:stop] = np.maximum(found[0], 0.0)
                vectors[members, start:stop] = found[1]
            self._spectra[normalized] = values, vectors
        return self._spectra[normalized]

    def places(self, rows: Rows, who: str, unknown: bool) -> NDArray[np.intp]:
        """The node of each row; −1 for a name not in the graph, if ``unknown`` is true."""
        if self.nodes is None:
            return row_numbers(rows, len(self), who, "For names, Graph(A, nodes=names).")
        names = _names(rows, who)
        found = np.array([self._place.get(name, -1) for name in names], dtype=np.intp)
        if not unknown and (found < 0).any():
            row = int(np.argmax(found < 0))
            raise ValueError(
                f"{who}: {(found < 0).sum()} rows of X name no node of the graph, the first "
                f"{names[row]!r} in row {row}. unknown='isolated' treats them as nodes without "
                "edges."
            )
        return found


class Diffusion(Kernel):
    """k(i, j) = exp(−βL)_ij between nodes of a graph with Laplacian L.

    X is one column: node names if the graph has names, else node numbers from 0. The graph must
    hold all nodes, for training and for prediction, as with ``Precomputed``.

    Parameters
    ----------
    graph : Graph, or what ``Graph`` takes
        Kernels that share a ``Graph`` share the eigenvectors of its Laplacian, which take n³
        operations and n² numbers for n nodes.
    beta : positive float, or several
        How far heat spreads. Several values give one kernel each.
    normalized : bool
        Use L = I − D^−½ A D^−½, so that nodes of high degree do not level out first.
    unknown : "raise" or "isolated"
        How to treat a name that is not in the graph: as an error, or as a node without edges, with
        k = 1 to itself and 0 to all others. Warns if this applies to all training rows.
    """

    numeric = False  # node names and numbers are not scaled

    def __init__(
        self,
        graph: Any,
        beta: float | Sequence[float] = 1.0,
        normalized: bool = False,
        unknown: str = "raise",
    ) -> None:
        self.graph = graph if isinstance(graph, Graph) else Graph(graph)
        self.beta = beta
        self.normalized = normalized
        self.unknown = unknown

    def label(self) -> str:
        """Shows beta and the form of the Laplacian."""
        beta = f"{self.beta:g}" if isinstance(self.beta, int | float) else repr(self.beta)
        return f"Diffusion(beta={beta}{', normalized' if self.normalized else ''})"

    def validate(self) -> None:
        """Raise ValueError unless ``beta`` and ``unknown`` are valid."""
        if not len(_betas(self.beta)):
            raise ValueError("Diffusion: beta must be a positive number, or several; found none.")
        if self.unknown not in ("raise", "isolated"):
            raise ValueError(
                f"Diffusion: unknown must be 'raise' or 'isolated'; found {shown(self.unknown)}."
            )

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """One kernel per beta; all share one spectrum."""
        nodes = self.graph.nodes
        if nodes is not None and (self._places(rows) < 0).all():
            warn(
                f"{self.label()}: the graph has none of the names in X, such as "
                f"{_names(rows, self.label())[0]!r}; its nodes have names like {nodes[0]!r}.",
            )
        self.graph.spectrum(self.normalized)
        betas = _betas(self.beta)
        fitted: list[tuple[str, Kernel]] = []
        for beta in betas:
            kernel = copy.copy(self)
            kernel.beta = beta
            fitted.append((f"{beta:g}" if len(betas) > 1 else "", kernel))
        return fitted

    def fill(self, pair: Pair, out: Array) -> None:
        """Inner products of the rows of U exp(−βΛ/2) at these nodes."""
        a, b = (self._places(rows) for rows in (pair.a, pair.b))
        phi = self._features(a)
        inner_products(phi, phi if pair.same else self._features(b), out)
        new_a, new_b = np.flatnonzero(a < 0), np.flatnonzero(b < 0)
        if len(new_a) and len(new_b):
            names = (np.array(_names(rows, self.label())) for rows in (pair.a, pair.b))
            left, right = (n[places] for n, places in zip(names, (new_a, new_b), strict=True))
            out[np.ix_(new_a, new_b)] = left[:, None] == right

    def diagonal(self, rows: Rows) -> Array:
        """exp(−βL)_ii, or 1 for names not in the graph."""
        places = self._places(rows)
        phi = self._features(places)
        return np.where(places < 0, 1.0, np.einsum("ij,ij->i", phi, phi))

    def _places(self, rows: Rows) -> NDArray[np.intp]:
        return self.graph.places(rows, self.label(), self.unknown == "isolated")

    def _features(self, places: NDArray[np.intp]) -> Array:
        values, vectors = self.graph.spectrum(self.normalized)
        phi = _features(values, vectors[places], float(self.beta))  # type: ignore[arg-type]
        phi[places < 0] = 0.0
        return phi


def diffusion_kernel(
    graph: Any, beta: float | Sequence[float] = 1.0, normalized: bool = False
) -> Array:
    """exp(−βL) between all nodes of a graph; an array (m, n, n) for m values of beta.

    ``Precomputed(diffusion_kernel(A, 0.5))`` is a kernel for a bank; ``Diffusion(A, 0.5)`` is the
    same kernel without the matrix over all nodes. See ``Diffusion`` for the parameters.
    """
    graph = graph if isinstance(graph, Graph) else Graph(graph)
    values, vectors = graph.spectrum(normalized)
    K = np.empty((len(_betas(beta)), len(graph), len(graph)))
    for out, one in zip(K, _betas(beta), strict=True):
        phi = _features(values, vectors, one)
        inner_products(phi, phi, out)
    return K if np.ndim(beta) else K[0]


def correlation_graph(
    profiles: Any, threshold: float = 0.8, nodes: Sequence[Any] | None = None
) -> Graph:
    """The graph that joins rows whose Pearson correlation is greater than ``threshold``.

    Parameters
    ----------
    profiles : array or data frame (n, d)
        Measurements of n nodes, such as the expression of genes under d conditions. A constant row
        gets no edges. The index of a data frame names the nodes.
    threshold : float from −1 to 1
        0.8 in [lanckriet2004, §6.2.2].
    nodes : sequence of names, optional
    """
    from scipy.sparse import block_array, csr_array

    if hasattr(profiles, "index") and hasattr(profiles, "columns"):
        nodes = profiles.index if nodes is None else nodes
        table = Table.read(profiles)
        if words := [table.label(int(j)) for j in np.flatnonzero(~table.numeric)]:
            raise TypeError(
                "profiles must hold real numbers, found other values in column "
                f"{some(map(repr, words))}; if it names the nodes, profiles.set_index({words[0]!r})"
            )
    X = check_floats("profiles", profiles).copy()
    if X.ndim != 2 or X.shape[1] < 2:
        raise ValueError(f"profiles must be rows of at least two numbers; found shape {X.shape}.")
    if not np.isfinite(X).all():
        row = int(np.argmax(~np.isfinite(X).all(axis=1)))
        raise ValueError(
            f"profiles must be finite; row {row} has {(~np.isfinite(X[row])).sum()} missing or "
            "infinite values. Impute them, or leave the row out."
        )
    if not (np.isfinite(threshold) and -1.0 <= threshold <= 1.0):
        raise ValueError(f"threshold must lie between -1 and 1; found {threshold!r}.")
    size = np.abs(X).max(axis=1, keepdims=True)
    X -= X.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    varies = norms > SUM_ROUNDING * size * np.sqrt(X.shape[1])
    X = np.divide(X, norms, out=np.zeros_like(X), where=varies)
    parts = []
    for start in range(0, len(X), 1024):  # in blocks, to bound memory
        near = X[start : start + 1024] @ X.T > threshold
        near[np.arange(near.shape[0]), start + np.arange(near.shape[0])] = False
        near[:, ~varies[:, 0]] = False
        near[~varies[start : start + 1024, 0]] = False
        parts.append([csr_array(near)])
    A = block_array(parts, format="csr").astype(np.float64)
    return Graph(A.maximum(A.T), nodes)  # rounding may put only one of (i, j), (j, i) above


def _features(values: Array, vectors: Array, beta: float) -> Array:
    """U exp(−βΛ/2), without columns below rounding."""
    heat = np.exp(-beta * values)
    kept = heat > _NOTHING
    return vectors[:, kept] * np.sqrt(heat[kept])


def _betas(beta: Any) -> list[float]:
    several = beta if isinstance(beta, Sequence | np.ndarray) and np.ndim(beta) == 1 else [beta]
    return [check_number("Diffusion: beta", one) for one in several]


def _names(rows: Rows, who: str) -> list[str]:
    column = rows.only_column(who, "names")
    return [_name(value, row, who) for row, value in enumerate(column)]


def _name(value: Any, row: int, who: str) -> str:
    """A name as text; names that are numbers arrive as floats."""
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            raise ValueError(f"{who}: row {row} of X has no name, found {value}; {_UNNAMED}")
    elif value is None or value == "":
        raise ValueError(f"{who}: row {row} of X has no name, found {value!r}; {_UNNAMED}")
    return _text(value)


def _text(name: Any) -> str:
    whole = isinstance(name, float | np.floating) and name == np.floor(name)
    return f"{name:.0f}" if whole else str(name)


def _check_adjacency(adjacency: Any) -> Any:
    from scipy.sparse import csr_array, issparse

    refuse_masked("adjacency", adjacency)
    A: Any = adjacency if issparse(adjacency) else np.asarray(adjacency)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or 0 in A.shape:
        raise ValueError(f"Graph: an adjacency matrix is square, found shape {A.shape}. {_PAIRS}")
    try:
        A = csr_array(A, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"Graph: the weights of edges are numbers; found {A.dtype}. {_PAIRS}"
        ) from error
    bad = ~np.isfinite(A.data) | (A.data < 0)
    if bad.any():
        worst = int(np.argmax(bad))
        i, j = (int(part[worst]) for part in A.tocoo().coords)
        raise ValueError(
            "Graph: the weights of edges must be finite and non-negative; found "
            f"{A.data[worst]:g} between nodes {i} and {j}."
        )
    i, j = (where := A.tocoo()).coords
    edge = (i != j) & (where.data != 0)
    A = csr_array((where.data[edge], (i[edge], j[edge])), shape=A.shape)
    gap = abs(A - A.T).tocoo()
    if gap.nnz and gap.data.max() > COINCIDE * A.data.max():
        worst = int(gap.data.argmax())
        i, j = (int(part[worst]) for part in gap.coords)
        raise ValueError(
            f"Graph: the adjacency matrix is not symmetric; [{i}, {j}] is {A[i, j]:g}, [{j}, {i}] "
            f"is {A[j, i]:g}. For a directed graph whose directions do not matter, pass "
            "np.maximum(A, A.T), or A.maximum(A.T) if it is sparse."
        )
    return A
