"""How the kernels of a bank are kept on its training rows: ``KernelBank(storage=…)``.

A storage is any object with one method:

    build(kernels) → stack

``kernels`` is a list of ``TrainingKernel``s, all over the same n training rows, whose
normalizations are learned. Each of them has

    name            what the kernel is called
    n               the number of training rows
    kernel          the function: Linear(), Polynomial(degree, offset), Gaussian(width),
                    Laplacian(width) or another, widths as numbers of the columns below
    values          the columns that it reads as an array of float64, scaled and filled as the bank
                    says: one row for each training row that has the view; CSR where X is sparse
    places          the numbers of these rows, or None for all n; entries of other rows are zero
    normalizer      ``scale``, ``means`` and ``inverse_norms``, arrays over the same rows or None:
                    K = (k(x_i, x_j) − means_i − means_j)·inverse_norms_i·inverse_norms_j, and
                    times ``scale`` in place of the norms where there are none
    block(rows, columns), diagonal()    the normalized kernel at any of the n rows, computed here

The stack keeps the protocol of ``kernelweave.stacks.protocol`` and has the kernels in this order.
Its arrays may be anywhere: solvers ask it for vectors, and for blocks as arrays. One storage is
asked once for each fit, each fold of a cross-validation included, and with ``n_jobs`` from several
threads. Kernels that equal an earlier one are not looked for.

What else a storage may have:

    plan(kernels)           what each kernel will take on this machine: bytes, or ``Place``s; the
                            kernels have no normalizer yet
    besides(places, n)      bytes that a fit takes besides the kernels, from what ``plan`` told
    means(kernel, counts)   Σ_j counts_j k(x_i, x_j) / Σ_j counts_j for each row of
                            ``kernel.values``, before normalization: centered kernels need it; else
                            blocks are computed here, a pass over all pairs of rows
    approximating(recipe)   the storage to ask in its place where the bank has an approximation
    learns = True           the kernels come without a normalization: ``build`` calls
                            ``kernel.learn(diagonal, means)`` once it has computed them, may leave
                            kernels out, and returns ``Kept``

The words are such objects, made of a ``Recipe``: "dense", below, "combined"
(``banks/one_matrix.py``), "auto", "factors" and "lazy" (``banks/factors.py``). An approximation is
one, too.

``clone`` keeps the object itself. Model files keep what prediction needs, and not the storage.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import check_choice, shown
from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import DUPLICATE
from kernelweave._core.types import Array, Places
from kernelweave.banks.approximation import Approximation
from kernelweave.banks.member import EQUALS, TrainingKernel
from kernelweave.stacks.completed import as_stack
from kernelweave.stacks.dense import KernelStack
from kernelweave.stacks.mixed import MixedStack
from kernelweave.stacks.protocol import Stack, is_stack
from kernelweave.stacks.resources import count_threads, require_memory, run
from kernelweave.views import products
from kernelweave.views.rows import Gram, Scratch

_CHUNK = 64  # rows compared at a time
_SUMMED = 100.0  # a signature sums 2n entries of K / tr K, each at most 1
_COMBINED = 3.5  # n × n arrays of float64 that learning holds: K(d) at 3 or 4 weights

STORAGES = {
    "auto": "factors.Auto",
    "combined": "one_matrix.OneMatrix",
    "dense": "storage.Dense",
    "factors": "factors.Factors",
    "lazy": "factors.Lazy",
}
"""By word, what makes the storage of a ``Recipe``; loaded on use."""


class Recipe(NamedTuple):
    """How kernels are kept: what a bank says of all its kernels."""

    dtype: np.dtype[Any]
    storage: Any  # a word, or an object
    approximation: Approximation | None
    cache_size: float = 200.0
    n_jobs: int | None = None


class Place(NamedTuple):
    """How one kernel will be kept, rank and bytes.

    "matrix", "factor", "shared columns", "generated", "on demand" or the name of a storage.
    """

    kind: str
    rank: int
    nbytes: int


class Kept(NamedTuple):
    """The kernels that are not left out, and their stack, in one order; no stack if none is."""

    kernels: list[TrainingKernel]
    stack: Stack | None


class Storage(Protocol):
    """What ``KernelBank(storage=…)`` takes beside words: see above."""

    def build(self, kernels: list[TrainingKernel]) -> Any:
        """The stack of these kernels, in their order."""
        ...


def check_storage(storage: Any) -> Any:
    """``storage``, if it is a way to keep kernels."""
    if hasattr(storage, "build") and not isinstance(storage, type):
        return storage
    if storage is not None and not isinstance(storage, str):
        raise ValueError(
            f"storage must be one of {', '.join(map(repr, STORAGES))}, or an object with a method "
            f"build(kernels), see kernelweave.banks.storage; found {shown(storage)}."
        )
    check_choice("storage", storage, tuple(STORAGES))
    return storage


def make_storage(recipe: Recipe, apart: bool = False) -> Any:
    """The object that a word means; with an approximation, the one that approximates.

    ``apart``: the rows are on a cluster, and kernels are kept there whatever the word.
    """
    word = recipe.storage
    if apart:
        return _home(recipe)
    if recipe.approximation is not None and hasattr(word, "approximating"):
        return word.approximating(recipe)
    if recipe.approximation is None and not isinstance(word, str):
        made: Storage = word
        return made
    path = "factors.Approximated" if recipe.approximation is not None else STORAGES[word]
    module, name = path.split(".")
    made = getattr(import_module(f"kernelweave.banks.{module}"), name)(recipe)
    return made


def _home(recipe: Recipe) -> Any:
    """What keeps kernels where rows on a cluster are."""
    from kernelweave.banks.dask_storage import DaskStorage, OnCluster

    if not isinstance(recipe.storage, str | DaskStorage):
        raise ValueError(
            f"storage={recipe.storage!r} keeps kernels on this machine, but X is on a Dask "
            "cluster: give DaskStorage(), or leave storage out"
        )
    return OnCluster(recipe)


def keep(storage: Storage, kernels: list[TrainingKernel]) -> Kept:
    """The kernels that are not left out, normalized, and the stack that a storage makes of them."""
    if not kernels:
        return Kept([], None)
    if getattr(storage, "learns", False):
        kept: Kept = storage.build(kernels)
        return kept
    means = getattr(storage, "means", None)
    left = []
    for one in kernels:
        own = None if means is None else (lambda counts, one=one: np.array(means(one, counts)))
        if one.learn(means=own):
            left.append(one)
    if not left:
        return Kept([], None)
    found, n = storage.build(left), left[0].n
    if not is_stack(found) or (int(found.m), int(found.n)) != (len(left), n):
        told = f"m={found.m}, n={found.n}" if is_stack(found) else shown(found)
        raise ValueError(
            f"storage: build(kernels) of {type(storage).__name__} must return a stack of "
            f"{len(left)} kernels over {n} rows (kernelweave.stacks.protocol); found {told}."
        )
    return Kept(left, as_stack(found))


def joined(parts: Iterable[Kept]) -> Kept:
    """One stack of several, its kernels by their numbers in the bank."""
    made = [(kernels, stack) for kernels, stack in parts if stack is not None]
    if len(made) == 1:
        return Kept(*made[0])
    kernels = [one for part, _ in made for one in part]
    if not kernels:
        return Kept([], None)
    order = np.argsort([one.number for one in kernels])
    ends = np.cumsum([len(part) for part, _ in made])[:-1]
    places = np.split(np.argsort(order), ends)
    return Kept([kernels[k] for k in order], MixedStack([stack for _, stack in made], places))


def leave_out_equal(
    kernels: list[TrainingKernel],
    keys: Array,
    widths: Array | float,
    equal: Callable[[int, int], bool],
    *,
    any_scale: bool,
) -> None:
    """Leave kernels out that equal an earlier one, without comparing all pairs.

    ``keys``: a number of each kernel. Equal kernels have keys that differ by less than ``widths``:
    only where keys are so near does ``equal`` compare the kernels, by their places here.
    """
    order = np.argsort(keys)
    apart = np.diff(keys[order]) > np.broadcast_to(widths, keys.shape)[order][1:]
    for start, stop in pairwise([0, *(np.flatnonzero(apart) + 1), len(order)]):
        different: list[int] = []
        for place in sorted(map(int, order[start:stop])) if stop - start > 1 else ():
            first = next((other for other in different if equal(other, place)), None)
            if first is None:
                different.append(place)
            else:
                scale = " up to scale" if any_scale else ""
                kernels[place].leave_out(f"{EQUALS} {kernels[first].name!r}{scale}")


# ---- "dense" -------------------------------------------------------------------------------------


_Task = list[tuple[int, TrainingKernel]]  # the kernels of a view, each with its place in the stack


class Dense:
    """Every kernel as a matrix, n² numbers; those that equal an earlier one are left out."""

    learns = True

    def __init__(self, recipe: Recipe) -> None:
        self.dtype, self.n_jobs = recipe.dtype, recipe.n_jobs

    def plan(self, kernels: list[TrainingKernel]) -> list[Place]:
        """Its matrix, for each."""
        return [Place("matrix", one.n, one.n**2 * self.dtype.itemsize) for one in kernels]

    def besides(self, places: list[Place], n: int) -> int:
        """Combined kernels."""
        return beside_matrices(len(places), n)

    def build(self, kernels: list[TrainingKernel]) -> Kept:
        """Compute and normalize every kernel into one array; those that add nothing are left out.

        Entries of rows that lack a kernel's view are zero; such a kernel is centered.
        """
        m, n = len(kernels), kernels[0].n
        require_memory(m, n, self.dtype)
        K = np.empty((m, n, n), self.dtype)
        views: dict[int, _Task] = {}
        theirs: dict[int, _Task] = {}  # computed in one thread: they may need to
        for place, one in enumerate(kernels):
            key = id(one.group)
            views.setdefault(key, []).append((place, one))
            if not one.kernel.known_psd:
                theirs[key] = views[key]
        for key in theirs:
            del views[key]
        _fill(K, [*theirs.values()], 0, len(theirs))
        run(_fill, len(views), K.size, count_threads(self.n_jobs), K, [*views.values()])
        _leave_out_equal(K, kernels)
        left = _close_gaps(K, kernels) if any(map(attrgetter("dropped"), kernels)) else kernels
        stack = KernelStack._trusted(K[: len(left)], None, self.dtype) if left else None
        return Kept(left, stack)


def _fill(K: NDArray[Any], tasks: list[_Task], start: int, stop: int) -> None:
    """Compute the kernels of some views, each into its place."""
    scratch = Scratch()
    for task in tasks[start:stop]:
        group = task[0][1].group
        gram = Gram(group.rows, scratch, shared=len(task) > 1)
        whole = group.places is None and K.dtype == np.float64
        for place, one in task:
            half = products.room(K[place]) if whole else gram.scratch("kernel")
            one.member.fill(gram, half)
            diagonal = products.diagonal(half, len(group.rows))
            if not one.learn(diagonal, partial(products.means, half)):
                continue
            if group.places is None:
                one.normalizer.train(half, K[place])
            else:
                _write_part(one, group.places, half, K[place])


def _write_part(one: TrainingKernel, places: Places, half: Array, out: NDArray[Any]) -> None:
    """The whole normalized matrix from its lower triangle; rows that lack the view are zero."""
    some = np.empty((len(places), len(places)), out.dtype)
    one.normalizer.train(half, some)
    out[...] = 0.0
    out[np.ix_(places, places)] = some


def _leave_out_equal(K: NDArray[Any], kernels: list[TrainingKernel]) -> None:
    """Leave out matrices that equal an earlier one, by signatures (pᵀK e_0 + qᵀdiag K) / tr K.

    p and q are fixed random vectors.
    """
    p, q = np.random.default_rng(0).uniform(0.5, 1.5, (2, K.shape[1]))
    live, matrices, signatures = list[TrainingKernel](), list[Any](), list[float]()
    any_scale = True
    for one, A in zip(kernels, K, strict=True):
        any_scale = any_scale and one.group.rule is not None
        if one.dropped is None:
            total = p @ A[0].astype(np.float64) + q @ A.diagonal().astype(np.float64)
            live.append(one)
            matrices.append(A)
            signatures.append(float(total) / float(A.trace(dtype=np.float64)))
    tolerance = DUPLICATE[K.dtype]

    def equal(j: int, k: int) -> bool:
        return _are_equal(matrices[j], matrices[k], tolerance, any_scale)

    width = _SUMMED * tolerance * K.shape[1]
    leave_out_equal(live, np.array(signatures), width, equal, any_scale=any_scale)


def _are_equal(A: NDArray[Any], B: NDArray[Any], tolerance: float, any_scale: bool) -> bool:
    """Whether B is A, up to scale if that does not matter."""
    ratio = float(B.trace(dtype=np.float64)) / float(A.trace(dtype=np.float64))
    if not any_scale and abs(ratio - 1.0) > tolerance:
        return False
    bound = tolerance * float(B.diagonal().max())
    for start in range(0, len(A), _CHUNK):
        rows = slice(start, start + _CHUNK)
        difference = A[rows] * ratio
        difference -= B[rows]
        if np.abs(difference, out=difference).max() > bound:
            return False
    return True


def _close_gaps(K: NDArray[Any], kernels: list[TrainingKernel]) -> list[TrainingKernel]:
    """Move the last matrices into the places of those left out; the kernels, by place."""
    places = [place for place, one in enumerate(kernels) if not one.dropped]
    left = kernels[: len(places)]
    movers = iter(places[bisect_left(places, len(places)) :])
    for gap, one in enumerate(left):
        if one.dropped:
            mover = next(movers)
            K[gap], left[gap] = K[mover], kernels[mover]
    return left


# ---- memory besides the kernels ------------------------------------------------------------------


def beside_matrices(m: int, n: int) -> int:
    """What learning takes besides matrices: combined ones."""
    return int(_COMBINED * n * n) * 8 if m > 1 else 0


def beside_factors(ranks: list[int], n: int, item: int) -> int:
    """Factors are float64 until they are normalized, one of them twice; some rows are copied."""
    copied = 8 * min(n, SETTINGS.sample_rows_of_factors)
    return sum(ranks) * (n * (8 - item) + copied) + 8 * n * max(ranks, default=0)


def beside_rows(m: int, n: int, cache_size: float) -> int:
    """What kernels on demand take: rows that are kept, blocks of rows in play."""
    rows = min(cache_size * 2**20, 8.0 * m * n * n)
    blocks = 4 * 8 * min(SETTINGS.chunk_rows, n) ** 2
    if n >= SETTINGS.sample_times * SETTINGS.sample_rows and m > 1:
        blocks += int(8 * (m + _COMBINED) * SETTINGS.sample_rows**2)
    return int(rows) + blocks
