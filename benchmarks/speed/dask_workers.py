"""Rows on a Dask cluster: two local workers beside one process, by seconds, trips and bytes.

    prototype   100,000 rows, five kernels of rank 20 in eight partitions: a cluster of two workers
                against one process with two threads, in the same run; trips, bytes, sample apart
    workers     300,000 rows, ten kernels of rank 40, one worker against two
    parquet     1,000,000 rows × ten kernels of rank 40 from Parquet files, factors in float32, two
                workers of 2 GiB: gap, and whether a worker wrote to disk
    kills       the prototype, smaller: a worker killed at random moments, every other time for
                good; weights against those of a fit that nobody disturbed

Workers are processes of one thread and 2 GiB. Wall seconds: run it on quiet cores.
"""

import os
import signal
import tempfile
import threading
import time
import warnings
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.internals import Cluster, DaskStack, steps_timed
from kernelweave import solving

KILLS = 20
PARTS = ["prototype", "workers", "parquet", "kills"]


@contextmanager
def workers(count):
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "memory_limit": "2GiB", "dashboard_address": None}
    with (
        LocalCluster(n_workers=count, processes=True, silence_logs=50, **options) as local,
        Client(local) as client,
    ):
        yield client


def waves(part, size, m, r):
    """Random features of m pairs of columns, and what is said of them: the same for each part."""
    rng, same = np.random.default_rng([0, part]), np.random.default_rng(99)
    X, found = rng.normal(size=(size, 2 * m)), []
    for k in range(m):
        A, b = same.normal(size=(r, 2)), same.uniform(0.0, 2.0 * np.pi, r)
        found.append(np.sqrt(2.0 / r) * np.cos(X[:, 2 * k : 2 * k + 2] @ A.T + b))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 2] * X[:, 3]
    return found, np.where(f + 0.3 * rng.normal(size=size) > 0.0, 1.0, -1.0)


def sizes(n, parts):
    return [len(some) for some in np.array_split(np.arange(n), parts)]


def labels(n, parts, m, r):
    return np.concatenate([waves(p, size, m, r)[1] for p, size in enumerate(sizes(n, parts))])


def one_factor(part, size, m, r, k):
    return waves(part, size, m, r)[0][k]


def apart(client, n, parts, m, r):
    """The factors of each partition, made on the workers."""
    import dask.array as da
    from dask import delayed

    factors = []
    for k in range(m):
        blocks = [
            da.from_delayed(delayed(one_factor)(p, size, m, r, k), (size, r), dtype=float)
            for p, size in enumerate(sizes(n, parts))
        ]
        factors.append(da.concatenate(blocks))
    return DaskStack(factors, client=client)


@contextmanager
def sample_timed():
    """Seconds of the fit on the sample, in a list."""
    plain, seconds = solving.weights_of_sample, []

    def timed(*given):
        began = time.perf_counter()
        found = plain(*given)
        seconds.append(time.perf_counter() - began)
        return found

    solving.weights_of_sample = timed
    try:
        yield seconds
    finally:
        solving.weights_of_sample = plain


def learned(stack, y, **options):
    """A fit: seconds, the sample's among them, and what it proved."""
    with sample_timed() as sample, steps_timed(stack.n) as steps, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        found = kw.learn(stack, y, C=1.0, tol=1e-2, **options)
        seconds = time.perf_counter() - began
    told = {"seconds": seconds, "sample s": sum(sample), "gap": found.gap, "status": found.status}
    told |= {"steps": len(steps), "step s": float(np.median(steps)) if steps else None}
    return {**told, "solves": found.n_svm_solves, "weights": found.weights.tolist()}


def on_cluster(n, parts, m, r, count):
    y = labels(n, parts, m, r)
    with workers(count) as client:
        stack = apart(client, n, parts, m, r)
        kw.learn(stack.restrict(np.arange(500)), y[:500], tol=0.1)  # compiles
        stack.cluster.trips = stack.cluster.received = 0
        found = learned(stack, y)
    moved = stack.cluster.received / 8 / n
    return {**found, "trips": stack.cluster.trips, "vectors of n": moved}


def in_one(n, parts, m, r):
    made = [waves(p, size, m, r) for p, size in enumerate(sizes(n, parts))]
    stack = kw.FactorStack([np.vstack([F[k] for F, _ in made]) for k in range(m)])
    y = np.concatenate([given for _, given in made])
    kw.learn(stack.restrict(np.arange(500)), y[:500], tol=0.1)
    return learned(stack, y, n_jobs=2)


def from_parquet(n, parts, m, landmarks):
    """A fit from files that one task writes and one reads."""
    import dask.dataframe as dd
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder, workers(2) as client:
        for p, size in enumerate(sizes(n, parts)):
            X = np.random.default_rng([1, p]).normal(size=(size, 2 * m))
            f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 2] * X[:, 3]
            frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(2 * m)])
            frame.assign(y=(f > 0.0).astype(int)).to_parquet(Path(folder) / f"{p:03d}.parquet")
        table = dd.read_parquet(folder)
        views = {f"v{k}": [f"x{2 * k}", f"x{2 * k + 1}"] for k in range(m)}
        approximation = kw.Nystroem(landmarks)
        options = {"views": views, "dtype": "float32", "approximation": approximation}
        bank = kw.KernelBank([kw.Gaussian(1.0, relative=True)], **options)
        clusters, plain = [], Cluster.__init__

        def noted(self, *given, **more):
            plain(self, *given, **more)
            clusters.append(self)

        Cluster.__init__ = noted
        try:
            with sample_timed() as sample, steps_timed(n) as steps:
                began = time.perf_counter()
                model = kw.MKLClassifier(bank, tol=1e-2).fit(table.drop(columns="y"), table["y"])
                seconds = time.perf_counter() - began
        finally:
            Cluster.__init__ = plain
        info = client.scheduler_info(n_workers=-1)["workers"].values()
        spilled = [one["metrics"]["spilled_bytes"]["disk"] for one in info]
    return {
        "seconds": seconds,
        "sample s": sum(sample),
        "gap": model.duality_gap_,
        "status": model.solution_.status,
        "solves": model.n_svm_solves_,
        "exact gap": model.exact_gap_,
        "steps": len(steps),
        "step s": float(np.median(steps)),
        "trips": sum(one.trips for one in clusters),
        "vectors of n": sum(one.received for one in clusters) / 8 / n,
        "spilled": int(sum(spilled)),
    }


_HELD = ExitStack()  # a cluster that several fits have, one after the other


def held_workers(fresh):
    """The client of two workers: of the last fit, if both are there."""
    from distributed import default_client

    if not fresh:
        client = default_client()
        with suppress(TimeoutError):
            client.wait_for_workers(2, timeout=30)
            return client
    _HELD.close()
    return _HELD.enter_context(workers(2))


def undisturbed(n, parts, m, r):
    y = labels(n, parts, m, r)
    stack = apart(held_workers(True), n, parts, m, r)
    stack.cluster.trips = 0
    return {**learned(stack, y), "trips": stack.cluster.trips}


def killed(n, parts, m, r, trips, number):
    """A worker killed within a random trip; of odd numbers none comes back."""
    y, rng = labels(n, parts, m, r), np.random.default_rng([0, number])
    at, later, plain = int(rng.integers(1, trips)), float(rng.uniform(0.0, 0.1)), Cluster.get
    client = held_workers(number % 2 == 0)
    stack = apart(client, n, parts, m, r)
    pid = next(iter(client.run(os.getpid).values()))
    for nanny in client.cluster.workers.values():
        nanny.auto_restart = number % 2 == 0
    stack.cluster.trips = 0

    def get(self, asked):
        if self.trips == at:
            threading.Timer(later, os.kill, (pid, signal.SIGKILL)).start()
        return plain(self, asked)

    Cluster.get = get
    try:
        found = learned(stack, y)
    finally:
        Cluster.get = plain
    left = len(client.scheduler_info(n_workers=-1)["workers"])
    return {**found, "killed at": at, "workers left": left}


def main():
    parts = {"nargs": "+", "choices": PARTS, "default": PARTS, "metavar": "PART"}
    args = common.arguments(__doc__, parts=parts)
    quick = args.quick
    results = common.Results("cluster", args)
    small = (20_000, 8, 5, 20) if quick else (100_000, 8, 5, 20)
    middle = (20_000, 8, 4, 10) if quick else (300_000, 12, 10, 40)
    large = (20_000, 8, 4, 10) if quick else (1_000_000, 40, 10, 40)
    small_one, tries = ((4_000, 8, 3, 8), 2) if quick else ((20_000, 8, 3, 10), KILLS)
    asked = {
        "prototype": [
            (("prototype", "one process"), in_one, *small),
            (("prototype", "two workers"), on_cluster, *small, 2),
        ],
        "workers": [
            (("workers", "one process"), in_one, *middle),
            (("workers", "one worker"), on_cluster, *middle, 1),
            (("workers", "two workers"), on_cluster, *middle, 2),
        ],
        "parquet": [(("parquet", "two workers"), from_parquet, *large)],
        "kills": [(("kills", "undisturbed"), undisturbed, *small_one)],
    }
    results.fill([cell for part in args.parts for cell in asked[part]])
    told = results.get("kills", "undisturbed")
    if told is not None and "kills" in args.parts:
        more = *small_one, told["trips"]
        results.fill([(("kills", str(k)), killed, *more, k) for k in range(tries)])
        _HELD.close()
    shown = [
        "seconds",
        "sample s",
        "steps",
        "step s",
        "solves",
        "trips",
        "vectors of n",
        "gap",
        "status",
        "spilled",
    ]
    keys = [key for part in PARTS[:3] for key, *_ in asked[part]]
    rows = [
        [*key, *(cell.get(name) for name in shown)] for key in keys if (cell := results.get(*key))
    ]
    common.table(["part", "where", *shown], rows)
    bars(results)


def bars(results):
    def value(part, where, name):
        return (results.get(part, where) or {}).get(name)

    def bar(claim, found, holds):
        results.bar(claim, found, None if found is None else holds(found))

    def ratio(part, one, other):
        a, b = value(part, one, "seconds"), value(part, other, "seconds")
        return None if a is None or b is None else a / b

    proto = ratio("prototype", "two workers", "one process")
    bar("prototype: two workers take at most 1.5 × one process", proto, lambda x: x <= 1.5)
    bar(
        "prototype: at most 130 trips",
        value("prototype", "two workers", "trips"),
        lambda x: x <= 130,
    )
    seconds, sample = (value("prototype", "two workers", name) for name in ("seconds", "sample s"))
    share = None if seconds is None else sample / seconds
    bar("prototype: the sample takes at most a third", share, lambda x: x <= 1 / 3)
    speedup = ratio("workers", "one worker", "two workers")
    bar("300,000 rows: one worker takes at least 1.6 × two", speedup, lambda x: x >= 1.6)
    beside = ratio("workers", "two workers", "one process")
    bar("300,000 rows: two workers take at most 1.3 × one process", beside, lambda x: x <= 1.3)
    gap = value("parquet", "two workers", "gap")
    bar("1,000,000 rows from Parquet: gap at most 1e-2", gap, lambda x: x <= 1e-2)
    bar(
        "… and no worker writes to disk",
        value("parquet", "two workers", "spilled"),
        lambda x: x == 0,
    )
    told = results.get("kills", "undisturbed")
    fits = [found for k in range(KILLS) if (found := results.get("kills", str(k)))]
    if told is not None and len(fits) == (2 if results.quick else KILLS):
        ended = sum(found["status"] == "optimal" for found in fits)
        apart = max(np.abs(np.subtract(found["weights"], told["weights"])).max() for found in fits)
        bar("every fit with a killed worker ends", ended, lambda x: x == len(fits))
        bar("… with the same weights to 1e-10", float(apart), lambda x: x <= 1e-10)


if __name__ == "__main__":
    main()
