"""How experiments run: options, and cells kept as soon as they are known."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import kernelweave as kw
from benchmarks.harness.environment import environment, telling_options
from benchmarks.harness.folders import results_file
from benchmarks.harness.markdown_tables import short
from benchmarks.harness.skipped import Skipped

BAR = 20  # characters of a full progress bar


def arguments(doc: str | None, **extra: dict[str, Any]) -> argparse.Namespace:
    """Options that every experiment has, and ``extra`` ones: name=dict(type=…, default=…)."""
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


def warm_up() -> None:
    """Compile, or load from the cache, all that is going to be timed."""
    from benchmarks.harness.judging import fit
    from benchmarks.harness.paper_data import matrices, rakoto_bank

    rng = np.random.default_rng(0)
    y = np.repeat([-1.0, 1.0], 15)
    X = rng.standard_normal((30, 3)) + 0.5 * y[:, None]
    stack = kw.KernelStack(matrices(rakoto_bank(X).stack))
    for learner in ("uniform", "simple", "silp", "alternate", "newton"):
        for C in (1.0, 100.0):
            fit(stack, y, C=C, tol=1e-4, learner=learner, max_iter=20)
    fit(stack.select([0]), y, C=1.0, tol=1e-3, learner="uniform")


# ---- results -----------------------------------------------------------------------------------


class Results:
    """Cells by key, in ``results/NAME.json``; written after every cell, so nothing is lost.

    A quick run writes to ``NAME.quick.json``. Each cell says how long it took and which run made
    it, each run its command, versions, processor and thread counts. A cell that was skipped for
    want of data or of a package has a reason, and is tried again by the next run. ``timed``:
    whether a run compiles all that it needs before its first cell.
    """

    def __init__(
        self, name: str, args: argparse.Namespace, total: int = 0, timed: bool = True
    ) -> None:
        self.quick, self.report_only, self.total = args.quick, args.report, total
        self.timed = timed
        self.path = results_file(name, args.quick)
        self.runs: list[dict[str, Any]] = []
        self.cells: dict[str, dict[str, Any]] = {}
        self.skipped: dict[str, str] = {}
        self.bars: list[dict[str, Any]] = []
        if self.path.exists() and not args.fresh:
            known = json.loads(self.path.read_text(encoding="utf-8"))
            self.runs, self.cells, self.bars = known["runs"], known["cells"], known["bars"]
        self.bars = self.bars if args.report else []
        self.options = telling_options(sys.argv[1:])
        self.done, self.computed, self.began = 0, 0, time.perf_counter()
        self.current: dict[str, Any] | None = None

    def fill(self, plan: Iterable[tuple[Any, ...]], processes: int = 1) -> None:
        """Fill the cells of a plan, a list of (key, compute, *args), in so many processes.

        With several, ``compute`` is a function of a module and times are those of a busy machine.
        """
        jobs = [(_name(key), compute, rest) for key, compute, *rest in plan]
        self.total = len(jobs)
        missing = [job for job in jobs if job[0] not in self.cells and not self.report_only]
        self.done = len(jobs) - len(missing)
        if not missing:
            return
        with self.working():
            if processes == 1:
                for name, compute, rest in missing:
                    self.cell([name], compute, *rest)
                return
            self._begin()
            context = multiprocessing.get_context("spawn")
            with context.Pool(min(processes, len(missing)), _worker, (self.timed,)) as pool:
                self._say(f"{len(missing)} cells in {processes} processes")
                for name, record, reason in pool.imap_unordered(_work, missing):
                    self.done += 1
                    self._keep(name, record, reason)
                    self._say(name)

    def cell(self, key: Iterable[Any], compute: Callable[..., dict[str, Any]], *args: Any) -> None:
        """Fill a cell with ``compute(*args)`` unless an earlier run did."""
        name = _name(key)
        if name not in self.cells and not self.report_only:
            self._begin()
            self._say(name)
            self._keep(*_work((name, compute, args)))
        self.done += 1

    def get(self, *key: Any) -> dict[str, Any] | None:
        """A cell, None where it is missing."""
        return self.cells.get(_name(key))

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Cells are filled in this block; Ctrl-C ends it and goes on to the report."""
        try:
            yield
        except KeyboardInterrupt:
            print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        else:
            if self.current and sys.stderr.isatty():
                print("\r\x1b[K", end="", file=sys.stderr)
        for reason in sorted(set(self.skipped.values())):
            count = sum(r == reason for r in self.skipped.values())
            print(f"skipped {count} of {self.total or '?'} cells: {reason}", file=sys.stderr)

    def bar(self, text: str, measured: Any, met: bool | None) -> None:
        """Say whether a bar is met; None where it was not measured in full, as in a quick run."""
        met = None if met is None or self.quick else bool(met)
        word = {True: "met", False: "MISSED", None: "not measured"}[met]
        if not self.report_only:
            self.bars.append({"bar": text, "measured": measured, "met": met})
            self.save()
        print(f"- {word}: {text} (measured: {short(measured)})")

    def save(self) -> None:
        """Write it all, at once or not at all, with one line per cell."""
        parts = {"options": self.options, "runs": self.runs, "bars": self.bars}
        parts |= {"cells": self.cells, "skipped": self.skipped}
        lines = [f"{json.dumps(key)}: {_lines(_plain(part))}" for key, part in parts.items()]
        self.path.parent.mkdir(exist_ok=True)
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        os.replace(scratch, self.path)

    def _begin(self) -> None:
        """Describe the run and compile, before its first cell."""
        if self.current is not None:
            return
        self.current = environment()
        if any(run["commit"] != self.current["commit"] for run in self.runs):
            print("some cells are of other versions; --fresh starts over", file=sys.stderr)
        self.runs.append(self.current)
        if self.timed:
            warm_up()
        self.began = time.perf_counter()

    def _keep(self, name: str, record: dict[str, Any] | None, reason: str | None) -> None:
        if record is None:
            self.skipped[name] = reason or "no reason given"
        else:
            self.cells[name] = {**record, "run": len(self.runs) - 1}
        self.computed += 1
        self.save()

    def _say(self, name: str) -> None:
        spent = time.perf_counter() - self.began
        left = spent / self.computed * (self.total - self.done) if self.computed else math.nan
        rest = f", about {left:.0f} s left" if self.total and self.computed else ""
        full = round(BAR * min(self.done / self.total, 1.0)) if self.total else 0
        place = f"{'█' * full}{'░' * (BAR - full)} {self.done}/{self.total or '?'} "
        start, end = ("\r\x1b[K", "") if sys.stderr.isatty() else ("", "\n")
        print(f"{start}{place}{name} ({spent:.0f} s{rest})", end=end, file=sys.stderr, flush=True)


def _name(key: Iterable[Any]) -> str:
    return "/".join(str(part) for part in key)


def _work(job: tuple[str, Callable[..., dict[str, Any]], Iterable[Any]]) -> tuple[Any, ...]:
    """(name, record, reason): a cell, or why there is none."""
    name, compute, args = job
    began = time.perf_counter()
    try:
        record = compute(*args)
    except Skipped as reason:
        return name, None, str(reason)
    return name, {**record, "took": time.perf_counter() - began}, None


def _worker(timed: bool) -> None:
    """Start a process that leaves Ctrl-C to its parent, and has compiled what is ``timed``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if timed:
        warm_up()


def _plain(x: Any) -> Any:
    """``x`` in types that JSON knows; numbers that are not finite become null."""
    if isinstance(x, dict):
        return {str(key): _plain(value) for key, value in x.items()}
    if isinstance(x, list | tuple | np.ndarray):
        return [_plain(value) for value in x]
    if isinstance(x, np.generic):
        x = x.item()
    return None if isinstance(x, float) and not math.isfinite(x) else x


def _lines(part: Any) -> str:
    """JSON of a list or a dictionary, with one line per item."""
    if isinstance(part, dict):
        items = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in part.items()]
        return "{\n" + ",\n".join(items) + "\n}" if items else "{}"
    return "[\n" + ",\n".join(json.dumps(value) for value in part) + "\n]" if part else "[]"
