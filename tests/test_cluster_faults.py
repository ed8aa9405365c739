"""A Dask cluster of processes: workers die, all of them, the scheduler; a fit is interrupted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from _helpers.small_cluster import cluster

from kernelweave import learn
from kernelweave._core.lost import ClusterLost

da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")

from kernelweave._core.dask_cluster import Cluster  # noqa: E402
from kernelweave.stacks.dask_stack import DaskStack  # noqa: E402

RNG = np.random.default_rng(0)
N = 900
F = [RNG.normal(size=(N, 4)), RNG.normal(size=(N, 3))]
LABELS = np.where(F[0][:, 0] + 0.5 * RNG.normal(size=N) > 0, 1.0, -1.0)


@pytest.fixture
def client() -> Iterator[Any]:
    with cluster(processes=True) as found:
        yield found


def apart(client: Any) -> DaskStack:
    arrays = [da.from_array(one, chunks=(300, -1)) for one in F]
    return DaskStack(arrays, client=client, timeout=1.0)


def at_trip(monkeypatch: Any, number: int, then: Callable[[], Any]) -> None:
    """Call something once, while a trip is under way."""
    plain, left = Cluster._wait, [number]

    def wait(self: Cluster, tasks: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            then()
        plain(self, tasks)

    monkeypatch.setattr(Cluster, "_wait", wait)


@pytest.mark.slow
def test_a_killed_worker_changes_no_bit_and_no_worker_is_told(
    client: Any, monkeypatch: Any
) -> None:
    stack = apart(client)
    told = learn(stack, LABELS, learner="uniform")
    pids = [*client.run(os.getpid).values()]
    with monkeypatch.context() as patch:
        at_trip(patch, 9, lambda: os.kill(pids[0], signal.SIGKILL))
        found = learn(stack, LABELS, learner="uniform")
    assert np.array_equal(found.coef, told.coef) and found.bias == told.bias
    with monkeypatch.context() as patch:
        at_trip(patch, 25, lambda: client.cluster.scale(0))
        with pytest.raises(ClusterLost, match=r"has had no worker for 1 s.*timeout="):
            learn(stack, LABELS, tol=1e-9)
    client.cluster.scale(1)
    client.wait_for_workers(1)
    assert np.array_equal(learn(stack, LABELS, learner="uniform").coef, told.coef)


@pytest.mark.slow
def test_an_interrupted_fit_leaves_no_task_and_a_dead_scheduler_is_told(
    client: Any, monkeypatch: Any
) -> None:
    stack = apart(client)

    def busy(dask_scheduler: Any) -> int:
        states = [task.state for task in dask_scheduler.tasks.values()]
        return sum(state in ("processing", "waiting", "queued", "no-worker") for state in states)

    with monkeypatch.context() as patch:
        at_trip(patch, 9, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            learn(stack, LABELS, learner="uniform")
    for _ in range(50):
        if not client.run_on_scheduler(busy):
            break
        threading.Event().wait(0.1)
    assert client.run_on_scheduler(busy) == 0
    local = client.cluster
    with monkeypatch.context() as patch:
        at_trip(patch, 9, lambda: local.sync(local.scheduler.close))
        with pytest.raises(ClusterLost, match="scheduler of the Dask cluster is gone"):
            learn(stack, LABELS, learner="uniform")
