"""Rows that lie on the workers of a Dask cluster, in partitions: maps over them, sums in a tree.

A trip is one question to the cluster, however many tasks answer it: a map over the partitions, the
sum of what it gives, and maybe a second map of that sum. Tasks are short and hold nothing: what a
worker had is made again, from the tasks that made it, when the worker is gone. Sums are added in
the order of the partitions, so that the same partitions give the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernelweave._core.extras import missing
from kernelweave._core.lost import ClusterLost
from kernelweave._core.types import Array, Places

_TOGETHER = 8  # terms that a task adds
_LOOK = 1.0  # seconds between two looks at whether anybody is left to answer
_GONE = 5.0  # seconds without a scheduler after which it counts as gone
_PACKAGES = ("kernelweave", "numpy", "scipy")  # that must be alike here and on workers


class Cluster:
    """A client, how long it may have no worker, and what its answers took.

    ``client`` None is the current one. ``trips`` counts questions, ``received`` the bytes of their
    answers.
    """

    def __init__(self, client: Any = None, timeout: float = 300.0) -> None:
        self.client, self.timeout = current(client), timeout
        self.trips = self.received = 0
        self._asked: list[Any] = []  # futures since the last answer, to be taken back

    def map(self, work: Callable[..., Any], *each: Any) -> list[Any]:
        """One task for each partition; nobody waits. Lists are by partition, all else is shared."""
        size = next(len(one) for one in each if isinstance(one, list))
        lists = [one if isinstance(one, list) else [one] * size for one in each]
        name = work.__name__.strip("_")
        with _vectors_allowed():
            return self._noted(self.client.map(_Aligned(work), *lists, pure=False, key=name))

    def compute(self, blocks: list[Any]) -> list[Any]:
        """The blocks of a dask array or data frame; nobody waits."""
        return self._noted(self.client.compute(blocks))

    def sum(self, terms: list[Any], then: Callable[..., Any] | None = None, *known: Any) -> Any:
        """The sum of some results, on a worker, and what ``then`` makes of it; nobody waits."""
        return self._one(_summed, self.few(terms), then, *known)

    def few(self, terms: list[Any]) -> tuple[Any, ...]:
        """A few results with the same sum, which small tasks add up themselves; nobody waits."""
        while len(terms) > _TOGETHER:
            cuts = range(0, len(terms), _TOGETHER)
            groups = [terms[cut : cut + _TOGETHER] for cut in cuts]
            terms = [self._one(_summed, group, None) for group in groups]
        return tuple(terms)

    def put(self, value: Any) -> Any:
        """A value as a result, which tasks share: one copy for each worker."""
        return self._one(_same, value)

    def _one(self, work: Callable[..., Any], *known: Any) -> Any:
        return self._noted([self.client.submit(_Aligned(work), *known, pure=False)])[0]

    def _noted(self, futures: list[Any]) -> list[Any]:
        self._asked.extend(futures)
        return futures

    def get(self, asked: Any) -> Any:
        """What a task gives, or a list of them: one trip.

        Raises ``ClusterLost`` where nobody is left to answer, and ``MemoryError`` where a task has
        ended the workers that had it. Whatever ends the wait, no task is left behind.
        """
        tasks = asked if isinstance(asked, list) else [asked]
        self.trips += 1
        try:
            self._wait(tasks)
            found = self.client.gather(tasks)
        except BaseException as error:
            told = self._explained(error)
            if told is error:
                raise
            raise told from error
        finally:
            self._asked.clear()
        self.received += sum(_size(one) for one in found)
        return found if isinstance(asked, list) else found[0]

    def _wait(self, tasks: list[Any]) -> None:
        """Wait until all are done; look now and then whether anybody works on them."""
        from distributed import wait

        since = time.monotonic()
        while True:
            try:
                wait(tasks, timeout=_LOOK)
                return
            except TimeoutError:
                now = time.monotonic()
                gone = self.client.status != "running"
                since = now if not gone and self._workers() else since
                if now - since > (min(_GONE, self.timeout) if gone else self.timeout):
                    raise self._lost(gone) from None

    def _workers(self) -> int:
        try:
            return len(self.client.scheduler_info(n_workers=-1)["workers"])
        except OSError:
            return 0

    def _lost(self, gone: bool) -> ClusterLost:
        if gone:
            return ClusterLost("the scheduler of the Dask cluster is gone: start a cluster again")
        return ClusterLost(
            f"the Dask cluster has had no worker for {self.timeout:g} s: start workers again, or "
            "allow more time, DaskStorage(timeout=…)"
        )

    def _explained(self, error: BaseException) -> BaseException:
        """What an error means to a user, once its tasks are taken back."""
        from distributed import KilledWorker

        if self.client.status == "running":
            self.client.cancel(self._asked)
        if isinstance(error, KilledWorker):
            return MemoryError(
                "workers of the Dask cluster ended one after the other with the same task, mostly "
                "because it takes more memory than they have: use smaller partitions "
                "(X.rechunk, X.repartition), fewer features in the approximation, "
                "KernelBank(dtype='float32'), or workers with more memory"
            )
        cut = self.client.status != "running" or "scheduler-connection-lost" in str(error)
        if cut and not isinstance(error, ClusterLost | KeyboardInterrupt):
            return self._lost(True)
        return error


def current(client: Any) -> Any:
    """A client that can be asked; by default the current one. Versions must be alike."""
    try:
        from distributed import Client, get_client
    except ImportError:
        raise missing("rows on a cluster need", "distributed", "dask") from None
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ValueError(
                "X is on Dask, but there is no cluster: from dask.distributed import Client; "
                "Client() starts one on this machine; DaskStorage(client=…) names one"
            ) from None
    if not isinstance(client, Client):
        raise TypeError(f"client must be a dask.distributed.Client, found {type(client).__name__}")
    if client.asynchronous:
        raise ValueError("an asynchronous client cannot be asked here: use Client(…) as it is")
    return client


def check_alike(cluster: Cluster) -> None:
    """Raise RuntimeError unless every worker has this version of the packages that compute."""
    here = versions()
    for worker, there in cluster.client.run(versions).items():
        unlike = [
            f"{name} {there[name]}, here {here[name]}" for name in here if there[name] != here[name]
        ]
        if unlike:
            raise RuntimeError(
                f"worker {worker} has other versions: {'; '.join(unlike)}. Install the same "
                "packages everywhere, or results are not what they seem"
            )


def versions() -> dict[str, str]:
    """The versions of the packages that compute, on whatever machine this runs."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def _vectors_allowed() -> Any:
    """Vectors of n are sent with tasks, of which Dask would warn from a million rows on."""
    import dask

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"})


def partitions(X: Any) -> list[Any]:
    """The delayed partitions of a dask array or data frame, as many as it has.

    What else reads files for a frame joins the small ones of few columns: y would then be in other
    partitions than X.
    """
    if hasattr(X, "simplify"):
        found: list[Any] = X.simplify().to_delayed(optimize_graph=False)
        return found
    return list(np.ravel(X.to_delayed()))


def added(terms: Sequence[Any]) -> Any:
    """Their sum, in order; of tuples, that of each part."""
    if isinstance(terms[0], tuple):
        return tuple(map(added, zip(*terms, strict=True)))
    total = np.array(terms[0])
    for term in terms[1:]:
        total += term
    return total


class _Aligned:
    """A function that is given arrays as their own machine would have them.

    What came over the network may begin at any byte, and NumPy adds up such arrays in another
    order: a sum then depended on who has made its terms.
    """

    def __init__(self, work: Callable[..., Any]) -> None:
        self.work = work
        self.__name__ = work.__name__

    def __call__(self, *given: Any) -> Any:
        return self.work(*map(_aligned, given))


def _aligned(given: Any) -> Any:
    if isinstance(given, np.ndarray):
        return np.require(given, requirements="A")
    if type(given) in (list, tuple):
        return type(given)(map(_aligned, given))
    return given


def _summed(terms: Sequence[Any], then: Callable[..., Any] | None, *known: Any) -> Any:
    total = added(terms)
    return total if then is None else then(total, *known)


def _same(value: Any) -> Any:
    return value


class Spans:
    """Where the rows of each partition stand among all n: ``ends`` has one number more."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.ends[-1])

    def split(self, v: Array) -> list[Array]:
        """A vector, or the rows of several, by partition."""
        return [v[a:b] for a, b in zip(self.ends, self.ends[1:], strict=False)]

    def find(self, rows: Places) -> list[tuple[int, Places, Places]]:
        """For each partition that has some of ``rows``: its number, which rows, where asked."""
        owner = np.searchsorted(self.ends, rows, side="right") - 1
        found = []
        for part in np.unique(owner).tolist():
            asked = np.flatnonzero(owner == part)
            found.append((part, rows[asked] - self.ends[part], asked))
        return found


def _size(found: Any) -> int:
    """Bytes of the arrays in an answer."""
    if isinstance(found, tuple | list):
        return sum(map(_size, found))
    return int(getattr(found, "nbytes", 0))
