"""Kernels whose rows lie on a Dask cluster: the same as on this machine, and little that moves."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from _helpers.small_cluster import cluster

from kernelweave import FactorStack, learn
from kernelweave._core.lost import ClusterLost
from kernelweave.machines.machine import Machine
from kernelweave.problems.problem import make_problem

da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")

from distributed import Client  # noqa: E402

from kernelweave._core.dask_cluster import Cluster  # noqa: E402
from kernelweave.stacks.dask_stack import DaskStack  # noqa: E402

RNG = np.random.default_rng(0)
N, RANKS = 400, (5, 0, 7, 3)
F = [RNG.normal(size=(N, r)) / np.sqrt(max(r, 1)) for r in RANKS]
CHUNKS = (100, 0, 1, 250, 49)
VALUES = F[0] @ RNG.normal(size=5) + 0.4 * F[2][:, 0] + 0.3 * RNG.normal(size=N)
LABELS = np.where(VALUES > 0.1, 1.0, -1.0)
HERE = FactorStack(F)
D = np.array([0.5, 1.0, 0.0, 2.0])


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster() as found:
        yield found


def apart(client: Any, chunks: Any = CHUNKS, dtype: Any = None) -> DaskStack:
    arrays = [da.from_array(one, chunks=(chunks, -1)) for one in F]
    return DaskStack(arrays, client=client, dtype=dtype)


@pytest.fixture(scope="module")
def stack(client: Any) -> DaskStack:
    return apart(client)


def test_passes_are_those_of_the_factors(stack: DaskStack) -> None:
    v = RNG.normal(size=N)
    assert (stack.n, stack.m) == (N, 4) and "4 partitions of 1 to 250 rows" in repr(stack)
    np.testing.assert_allclose(stack.traces(), HERE.traces(), rtol=1e-13)
    np.testing.assert_allclose(stack.quad_forms(v), HERE.quad_forms(v), rtol=1e-12)
    chosen = np.array([3, 0])
    np.testing.assert_allclose(stack.quad_forms(v, chosen), HERE.quad_forms(v)[chosen], rtol=1e-12)
    rows = np.array([3, 399, 100, 101])
    np.testing.assert_allclose(stack.block(2, rows, rows), HERE.block(2, rows, rows), rtol=1e-12)
    few = stack.restrict(rows)
    np.testing.assert_allclose(few.diagonals(), HERE.restrict(rows).diagonals(), rtol=1e-12)
    some = stack.select(chosen)
    np.testing.assert_allclose(some.quad_forms(v), HERE.select(chosen).quad_forms(v), rtol=1e-12)


def test_what_stands_for_arrays_multiplies_like_them(stack: DaskStack) -> None:
    x, w, rows = RNG.normal(size=N), RNG.normal(size=4), np.arange(50, 350, 3)
    v = np.zeros(N)
    v[rows] = RNG.normal(size=rows.size)
    for A, whole in (
        (stack.diagonals(), HERE.diagonals()),
        (stack.matvecs(x), HERE.matvecs(x)),
        (w[:, None] * stack.matvecs(v, rows), w[:, None] * HERE.matvecs(v, rows)),
    ):
        y = x[: whole.shape[1]]
        np.testing.assert_allclose(A @ y, whole @ y, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(w @ A, w @ whole, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(np.asarray(A), whole, rtol=1e-10, atol=1e-10)
    assert np.allclose(stack.diagonals().max(axis=1), HERE.diagonals().max(axis=1))
    products = stack.matvecs(v, rows)
    trips = stack.cluster.trips
    np.testing.assert_allclose(products @ v[rows], HERE.quad_forms(v), rtol=1e-10)
    assert stack.cluster.trips == trips  # vᵀK_k v is known where K_k v is


def test_fine_sums_have_the_digits_of_extended_precision(stack: DaskStack) -> None:
    support = np.flatnonzero(RNG.random(N) > 0.5)
    w, every, kernels = RNG.normal(size=support.size).astype(np.longdouble), np.arange(N), [0, 2]
    found = D[kernels] @ stack.fine_products(np.array(kernels), every, support, w)
    told = D[kernels] @ HERE.fine_products(np.array(kernels), every, support, w)
    assert found.dtype == np.longdouble
    unit = np.finfo(np.longdouble).eps
    assert np.abs(found - told).max() <= 1e4 * unit * np.abs(told).max()


def test_vectors_are_sent_without_a_warning(stack: DaskStack) -> None:
    import dask

    few = {"distributed.admin.large-graph-warning-threshold": "1 kB"}
    with dask.config.set(few), warnings.catch_warnings():
        warnings.simplefilter("error")
        stack.quad_forms(np.ones(N))


def test_a_factor_solves_in_one_trip(stack: DaskStack) -> None:
    far, near = stack.combined(D).factor(), HERE.combined(D).factor()
    assert far is not None and near is not None
    weights, g = RNG.random(N), RNG.normal(size=(N, 2))
    trips = stack.cluster.trips
    found = far[0].shrinking(weights)(g)
    assert stack.cluster.trips == trips + 1
    np.testing.assert_allclose(found, near[0].shrinking(weights)(g), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(far[0].product(g), near[0].product(g), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(far[0].gram(weights), near[0].gram(weights), rtol=1e-12)
    np.testing.assert_allclose(far[0].sizes(), near[0].sizes(), rtol=1e-12)
    ridge = RNG.random(N) + 0.5
    solver, every = stack.combined(D).solver(np.arange(N), ridge), np.arange(N)
    assert solver is not None
    A = HERE.combined(D).block(every, every) + np.diag(ridge)
    np.testing.assert_allclose(A @ solver.solve(g), g, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_few_rows_give_the_hessian(stack: DaskStack, loss: str) -> None:
    """BᵀB from a root of the order of the rank is that from all free variables."""
    e = np.array([0.4, 0.1, 0.3, 0.2])
    found = []
    for kernels in (HERE, stack):
        machine = Machine.of(make_problem(kernels, LABELS, 0.5, loss))
        point = machine.solve(e, 1e-6)
        found.append((machine, point))
    (here, point), (there, _) = found
    looks = here.look(point), there.look(there.judge(e, point.v))
    H = [np.asarray(B).T @ np.asarray(B) for B in (look.curvature(1e-6) for look in looks)]
    assert np.abs(H[0] - H[1]).max() <= 1e-5 * np.abs(H[0]).max()
    np.testing.assert_allclose(looks[0].q, looks[1].q, rtol=1e-9)


@pytest.mark.parametrize(("loss", "tol"), [("hinge", 1e-2), ("squared", 1e-6)])
def test_learn_proves_the_same_optimum(stack: DaskStack, loss: str, tol: float) -> None:
    y = VALUES if loss == "squared" else LABELS
    before, trips = stack.cluster.received, stack.cluster.trips
    found, told = learn(stack, y, 0.5, loss=loss, tol=tol), learn(HERE, y, 0.5, loss=loss, tol=tol)
    assert found.status == "optimal" and found.gap <= tol
    assert max(found.dual, told.dual) <= min(found.primal, told.primal) * (1.0 + 1e-12)
    moved, asked = stack.cluster.received - before, stack.cluster.trips - trips
    R = sum(RANKS)
    assert moved <= 8 * asked * (3 * N + (R + 1) ** 2)  # vectors and sums: never m × n or n × R


def test_a_step_takes_four_trips_at_most(client: Any, monkeypatch: Any) -> None:
    from kernelweave._solvers.svm import interior_point

    stack, seen = apart(client), list[int]()
    plain = interior_point._Path.step

    def step(path: Any) -> None:
        before = stack.cluster.trips
        plain(path)
        seen.append(stack.cluster.trips - before)

    monkeypatch.setattr(interior_point._Path, "step", step)
    assert learn(stack, LABELS, 0.5, learner="uniform").gap <= 1e-3
    assert seen and max(seen) <= 6 and np.median(seen) <= 4


def test_the_same_partitions_give_the_same_bits(client: Any) -> None:
    fits = [learn(apart(client), LABELS, 0.5, learner="uniform") for _ in range(2)]
    assert np.array_equal(fits[0].coef, fits[1].coef) and fits[0].bias == fits[1].bias
    other = learn(apart(client, (N,)), LABELS, 0.5, learner="uniform")
    assert abs(other.primal - fits[0].primal) <= 1e-3 * other.primal


def test_single_precision_takes_half_and_proves_as_much(client: Any) -> None:
    stack = apart(client, dtype=np.float32)
    assert stack.precision == np.float32
    assert learn(stack, LABELS, 0.5, learner="uniform").gap <= 1e-3


def test_a_worker_may_leave_while_others_work(monkeypatch: Any) -> None:
    """It hands over what it has, or others make it again; the bits are the same."""
    with cluster() as own:
        told = learn(apart(own), LABELS, 0.5, learner="uniform")
        stack, plain, left = apart(own), Cluster._wait, [9]

        def wait(self: Cluster, tasks: Any) -> None:
            left[0] -= 1
            if not left[0]:
                workers = sorted(own.scheduler_info(n_workers=-1)["workers"])
                own.retire_workers(workers[:1])
            plain(self, tasks)

        monkeypatch.setattr(Cluster, "_wait", wait)
        found = learn(stack, LABELS, 0.5, learner="uniform")
        assert left[0] < 0 and len(own.scheduler_info()["workers"]) == 1
    assert np.array_equal(found.coef, told.coef) and found.bias == told.bias


def test_fits_at_once_do_not_meet(client: Any) -> None:
    told = {
        C: learn(apart(client, (250, 150)), LABELS, C, learner="uniform").primal for C in (0.3, 3.0)
    }
    found: dict[float, float] = {}

    def one(C: float) -> None:
        found[C] = learn(apart(client, (250, 150)), LABELS, C, learner="uniform").primal

    threads = [threading.Thread(target=one, args=(C,)) for C in told]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == told


def test_no_rows_in_a_block_of_any_worker_is_an_error(client: Any) -> None:
    with pytest.raises(ValueError, match="found none in any partition"):
        DaskStack([da.zeros((0, 2))], client=client)
    with pytest.raises(ValueError, match=r"factors\[1\] \(3, 1\)"):
        given = da.ones((4, 2), chunks=((2, 2), 2)), da.ones((4, 2), chunks=((3, 1), 2))
        DaskStack(given, client=client)
    with pytest.raises(TypeError, match=r"factors\[0\] must be a dask array"):
        DaskStack([np.ones((3, 2))], client=client)
    with pytest.raises(ValueError, match="NaN or infinity in partition 1"):
        holed = np.ones((6, 2))
        holed[5] = np.nan
        DaskStack([da.from_array(holed, chunks=(3, 2))], client=client)


def test_clients_that_cannot_be_asked(monkeypatch: Any) -> None:
    def nobody() -> None:
        raise ValueError("No global client found")

    monkeypatch.setattr("distributed.get_client", nobody)
    with pytest.raises(ValueError, match="there is no cluster"):
        Cluster()
    with pytest.raises(TypeError, match=r"must be a dask\.distributed\.Client"):
        Cluster("tcp://127.0.0.1:8786")


def test_other_versions_are_told(client: Any, monkeypatch: Any) -> None:
    from kernelweave._core import dask_cluster

    here = {**dask_cluster.versions(), "numpy": "0.1"}
    monkeypatch.setattr(Client, "run", lambda self, work: {"tcp://far": here})
    with pytest.raises(RuntimeError, match=r"tcp://far has other versions: numpy 0\.1"):
        apart(client)


def test_workers_that_run_out_of_memory_are_told(client: Any) -> None:
    from distributed import KilledWorker

    told = Cluster(client)._explained(KilledWorker("task", None, 3))
    assert isinstance(told, MemoryError) and "smaller partitions" in str(told)


def test_a_lost_cluster_tells_what_was_known() -> None:
    lost = ClusterLost("nobody is left").with_best(np.ones(2), 0.5)
    assert lost.gap == 0.5 and "start=error.weights" in str(lost)
