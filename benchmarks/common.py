"""What the benchmarks share: data, kernels, timing, certificates, results.

Import it before numpy: it fixes the number of BLAS threads at one.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import math
import pathlib
import platform
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import threadpoolctl
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

import kernelweave as kw
from kernelweave.problems.losses import lower

HERE = pathlib.Path(__file__).resolve().parent
FILES = {"liver": "liver_bupa", "credit": "credit_crx"}
WIDTHS = (0.5, 1, 2, 5, 7, 10, 12, 15, 17, 20)
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "highspy", "clarabel")


# ---- the command line --------------------------------------------------------------------------


def arguments(doc: str | None, **extra: dict[str, Any]) -> argparse.Namespace:
    """Options that every benchmark has, and ``extra`` ones: name=dict(type=…, default=…)."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        default=os.environ.get("KERNELWEAVE_DATA"),
        help="folder of the data sets (or set KERNELWEAVE_DATA)",
    )
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it works")
    parser.add_argument("--fresh", action="store_true", help="forget the results of earlier runs")
    parser.add_argument("--report", action="store_true", help="only print what is known already")
    for name, options in extra.items():
        parser.add_argument(f"--{name}", **options)
    return parser.parse_args()


# ---- data --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """Standardised training and test rows."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@lru_cache(maxsize=4)
def load(name: str, data: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Features and ±1 labels of a data set, as they came."""
    if data is None:
        raise SystemExit("where are the data sets? Give --data FOLDER or set KERNELWEAVE_DATA")
    import pandas as pd

    path = pathlib.Path(data) / f"{FILES.get(name, name)}.csv.gz"
    if not path.exists():
        raise SystemExit(f"no file {path.name} in the data folder")
    table = pd.read_csv(path)
    return table.drop(columns="y").to_numpy(float), table["y"].to_numpy(float)


def standardise(X: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """Mean 0 and variance 1 on the rows of X; features constant on them dropped."""
    keep = np.ptp(X, axis=0) > 0.0
    mean, std = X[:, keep].mean(axis=0), X[:, keep].std(axis=0)
    return [(Z[:, keep] - mean) / std for Z in (X, *others)]


def half(name: str, data: str | None, seed: int) -> Split:
    """A random half of the rows to learn on, the other half to test [rakoto2007, §3]."""
    X, y = load(name, data)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]
    X_train, X_test = standardise(X[train], X[test])
    return Split(X_train, y[train], X_test, y[test])


def sample(name: str, data: str | None, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """``n`` random rows, standardised, and their labels."""
    X, y = load(name, data)
    rows = np.random.default_rng(seed).permutation(len(y))[:n]
    if len(rows) < n:
        raise SystemExit(f"{name} has {len(rows)} rows, {n} are needed")
    return standardise(X[rows])[0], y[rows]


# ---- kernels -----------------------------------------------------------------------------------


def rakoto_kernels() -> list[Any]:
    """10 Gaussian widths and 3 polynomials [rakoto2007, §3]."""
    return [kw.Gaussian(w) for w in WIDTHS] + [kw.Polynomial(degree) for degree in (1, 2, 3)]


def fit_bank(
    X: np.ndarray, kernels: list[Any], views: Any = "all", normalize: str | None = "trace"
) -> kw.FittedBank:
    """The bank of these kernels on X in one thread; silent about kernels it drops."""
    bank = kw.KernelBank(kernels, views=views, normalize=normalize)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return bank.fit(X, n_jobs=None)


def rakoto_bank(X: np.ndarray, normalize: str = "unit_trace") -> kw.FittedBank:
    """All kernels of rakoto2007 on all features and on each."""
    return fit_bank(X, rakoto_kernels(), "all+each", normalize)


def matrices(stack: kw.KernelStack) -> np.ndarray:
    """A copy of the kernels as one array (m, n, n), for rivals."""
    return np.stack([stack.combine(e) for e in np.eye(stack.m)])


# ---- solving and judging -----------------------------------------------------------------------


class TimeUp(Exception):
    """A fit took longer than it may."""


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise ``TimeUp`` in the block after so many seconds, where the system has alarms."""
    if seconds is None or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: Any) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def certify(stack: kw.KernelStack, y: np.ndarray, C: float, solution: kw.Solution) -> float:
    """The gap of a solution, computed from the data alone."""
    return kw.duality_gap(
        stack,
        y,
        solution.weights,
        solution.coef,
        solution.bias,
        C=C,
        dual_alpha=solution.dual_alpha,
    ).gap


def fit(
    stack: kw.KernelStack,
    y: np.ndarray,
    *,
    C: float,
    tol: float,
    limit: float | None = None,
    **options: Any,
) -> tuple[kw.Solution | None, dict[str, Any]]:
    """``learn``, and a record of how it went; no solution where time ran out."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with time_limit(limit):
                solution = kw.learn(stack, y, C=C, tol=tol, **options)
        except TimeUp:
            return None, {"status": "timeout", "seconds": time.perf_counter() - began, "gap": None}
    seconds = time.perf_counter() - began
    gap = certify(stack, y, C, solution)
    return solution, {
        "status": solution.status,
        "seconds": seconds,
        "gap": gap,
        "own_gap": solution.gap,
        "reached": gap <= tol,
        "warned": any(issubclass(w.category, ConvergenceWarning) for w in caught),
        "solves": solution.n_svm_solves,
        "iterations": solution.n_iter,
        "kernels": int(np.count_nonzero(solution.weights)),
        "kernels_above_1e-3": int(np.count_nonzero(solution.weights > 1e-3)),
        "m": stack.m,
        "n": stack.n,
    }


def svc(K: np.ndarray, y: np.ndarray, C: float, tol: float = 1e-3) -> SVC:
    """scikit-learn's machine on a given kernel, spared the look for NaN as a stack is."""
    with config_context(assume_finite=True):
        return SVC(kernel="precomputed", C=C, tol=tol, cache_size=1000).fit(K, y)


def svc_coef(machine: SVC, n: int) -> np.ndarray:
    """v = y∘α over all rows."""
    coef = np.zeros(n)
    coef[machine.support_] = machine.dual_coef_[0]
    return coef


def svc_gap(stack: kw.KernelStack, y: np.ndarray, C: float, machine: SVC) -> float:
    """Certified gap of a machine on the only kernel of ``stack``, with the better of two biases:
    its own and the one that minimises the primal."""
    coef = svc_coef(machine, stack.n)
    best = lower(y, stack.n, C, "hinge").best_bias(stack.combine(np.ones(1)) @ coef)
    return min(
        kw.duality_gap(stack, y, np.ones(1), coef, float(bias), C=C).gap
        for bias in (machine.intercept_[0], best)
    )


def warm_up() -> None:
    """Compile, or load from the cache, all that is going to be timed."""
    rng = np.random.default_rng(0)
    y = np.repeat([-1.0, 1.0], 15)
    X = rng.standard_normal((30, 3)) + 0.5 * y[:, None]
    stack = kw.KernelStack(matrices(rakoto_bank(X).stack))
    for learner in ("uniform", "simple", "silp", "alternate", "newton"):
        for C in (1.0, 100.0):
            fit(stack, y, C=C, tol=1e-4, learner=learner, max_iter=20)
    fit(stack.select([0]), y, C=1.0, tol=1e-3, learner="uniform")


# ---- timing ------------------------------------------------------------------------------------


def race(
    runners: dict[str, Callable[[], Any]], seconds: float = 2.0, least: int = 3, most: int = 30
) -> dict[str, dict[str, float]]:
    """Median and least time of each runner.

    They take turns, so that all meet the same disturbances, after a round that does not count:
    until each ran ``least`` times and all together ``seconds``, at most ``most`` times.
    """
    times: dict[str, list[float]] = {name: [] for name in runners}
    for runner in runners.values():
        runner()
    began = time.perf_counter()
    while True:
        for name, runner in runners.items():
            start = time.perf_counter()
            runner()
            times[name].append(time.perf_counter() - start)
        rounds = len(next(iter(times.values())))
        if rounds >= most or (rounds >= least and time.perf_counter() - began > seconds):
            break
    return {
        name: {"median": float(np.median(t)), "min": min(t), "repeats": len(t)}
        for name, t in times.items()
    }


# ---- results -----------------------------------------------------------------------------------


class Results:
    """Cells by key, in ``results/NAME.json``; written after every cell, so nothing is lost.

    A quick run writes to ``NAME.quick.json``. Each cell says which run made it, each run which
    versions, processor and thread counts it had.
    """

    def __init__(self, name: str, args: argparse.Namespace, total: int = 0) -> None:
        self.quick, self.report_only, self.total = args.quick, args.report, total
        self.path = HERE / "results" / f"{name}{'.quick' if args.quick else ''}.json"
        self.runs: list[dict[str, Any]] = []
        self.cells: dict[str, dict[str, Any]] = {}
        self.bars: list[dict[str, Any]] = []
        if self.path.exists() and not args.fresh:
            known = json.loads(self.path.read_text(encoding="utf-8"))
            self.runs, self.cells, self.bars = known["runs"], known["cells"], known["bars"]
        self.bars = self.bars if args.report else []
        self.done, self.computed, self.began = 0, 0, time.perf_counter()
        self.current: dict[str, Any] | None = None

    def cell(self, key: Iterable[Any], compute: Callable[..., dict[str, Any]], *args: Any) -> None:
        """Fill a cell with ``compute(*args)`` unless an earlier run did."""
        name = "/".join(str(part) for part in key)
        self.done += 1
        if name in self.cells or self.report_only:
            return
        if self.current is None:
            self.current = environment()
            if any(run["commit"] != self.current["commit"] for run in self.runs):
                print("some cells are of other versions; --fresh starts over", file=sys.stderr)
            self.runs.append(self.current)
            warm_up()
            self.began = time.perf_counter()
        self._say(name)
        record = compute(*args)
        self.cells[name] = {**record, "run": len(self.runs) - 1}
        self.computed += 1
        self.save()

    def get(self, *key: Any) -> dict[str, Any] | None:
        """A cell, None where it is missing."""
        return self.cells.get("/".join(str(part) for part in key))

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Cells are filled in this block; Ctrl-C ends it and goes on to the report."""
        try:
            yield
        except KeyboardInterrupt:
            print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        else:
            if self.computed and sys.stderr.isatty():
                print("\r\x1b[K", end="", file=sys.stderr)

    def bar(self, text: str, measured: Any, met: bool | None) -> None:
        """Say whether a bar is met; None where it was not measured in full, as in a quick run."""
        met = None if met is None or self.quick else bool(met)
        word = {True: "met", False: "MISSED", None: "not measured"}[met]
        if not self.report_only:
            self.bars.append({"bar": text, "measured": measured, "met": met})
            self.save()
        print(f"{word}: {text} (measured: {short(measured)})")

    def save(self) -> None:
        """Write it all, at once or not at all."""
        self.path.parent.mkdir(exist_ok=True)
        scratch = self.path.with_suffix(".tmp")
        content = {"runs": self.runs, "bars": self.bars, "cells": self.cells}
        scratch.write_text(json.dumps(_plain(content), indent=1), encoding="utf-8")
        os.replace(scratch, self.path)

    def _say(self, name: str) -> None:
        spent = time.perf_counter() - self.began
        left = spent / self.computed * (self.total - self.done + 1) if self.computed else math.nan
        rest = f", about {left:.0f} s left" if self.total and self.computed else ""
        place = f"[{self.done}/{self.total or '?'}] "
        start, end = ("\r\x1b[K", "") if sys.stderr.isatty() else ("", "\n")
        print(f"{start}{place}{name} ({spent:.0f} s{rest})", end=end, file=sys.stderr, flush=True)


def environment() -> dict[str, Any]:
    """What the figures depend on."""
    loads = os.getloadavg() if hasattr(os, "getloadavg") else (0.0,)
    if loads[0] > 0.5:
        print(f"others use this machine (load {loads[0]:.1f}): times are noise", file=sys.stderr)
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "kernelweave": kw.__version__,
        "commit": _git("rev-parse", "--short=12", "HEAD")
        + ("+" if _git("status", "--porcelain", "--untracked-files=no", "src") else ""),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {name: _version(name) for name in PACKAGES},
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": loads[0],
        "blas_threads": sorted(
            {
                f"{p['user_api']} {p['internal_api']}: {p['num_threads']}"
                for p in threadpoolctl.threadpool_info()
            }
        ),
        "n_jobs": None,
    }


def _git(*command: str) -> str:
    try:
        return subprocess.run(
            ["git", "-C", str(HERE.parent), *command], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _plain(x: Any) -> Any:
    """``x`` in types that JSON knows; numbers that are not finite become null."""
    if isinstance(x, dict):
        return {str(key): _plain(value) for key, value in x.items()}
    if isinstance(x, list | tuple | np.ndarray):
        return [_plain(value) for value in x]
    if isinstance(x, np.generic):
        x = x.item()
    return None if isinstance(x, float) and not math.isfinite(x) else x


# ---- tables ------------------------------------------------------------------------------------


def short(x: Any) -> str:
    """A number as a reader wants it; a dash for nothing."""
    if x is None:
        return "–"
    if isinstance(x, bool | np.bool_):
        return "yes" if x else "no"
    if isinstance(x, float | np.floating):
        return f"{x:.3g}"
    return str(x)


def table(header: list[str], rows: list[list[Any]]) -> None:
    """Print a Markdown table."""
    text = [header, *([short(x) for x in row] for row in rows)]
    widths = [max(len(row[k]) for row in text) for k in range(len(header))]
    for number, row in enumerate(text):
        cells = [
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("| " + " | ".join(cells) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print()


def mean(records: list[dict[str, Any]], field: str) -> float | None:
    """Mean of a field over the records that have it."""
    values = [r[field] for r in records if r.get(field) is not None]
    return float(np.mean(values)) if values else None
