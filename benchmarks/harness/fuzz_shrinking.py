"""A case with a finding made smaller, as long as the finding stays: for ``fuzz.py``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.harness.fuzz_cases import Case
from benchmarks.harness.fuzz_judging import Finding, judge
from benchmarks.harness.fuzz_relations import by_row

SECONDS = 120.0  # for one case


def shrunk(case: Case, finding: Finding, seconds: float = SECONDS) -> Case:
    """A smaller case with a finding of that kind: greedily, until none of its parts can go."""
    end = time.monotonic() + seconds
    smaller = True
    while smaller:
        smaller = False
        for less in smaller_cases(case):
            if time.monotonic() > end:
                return case
            if shows(less, finding):
                case, smaller = less, True
                break
    return case


def shows(case: Case, finding: Finding) -> bool:
    """Whether the case has a finding of that kind; exceptions have to be the same."""
    kind, told = finding
    try:
        found = judge(case)[1]
    except Exception:  # what is left is no problem any more
        return False
    same = told.split(", line ")[0]  # its type, file and function
    return any(k == kind and (k != "exception" or t.startswith(same)) for k, t in found)


def smaller_cases(case: Case) -> Iterator[Case]:
    """Cases with less in them, much less first."""
    m, n = case.K.shape[:2]
    for size in halves(n):
        for start in range(0, n, size):
            if n - size >= 2:
                yield on_rows(case, np.r_[:start, min(start + size, n) : n])
    for size in halves(m):
        for start in range(0, m, size):
            kept = np.r_[:start, min(start + size, m) : m]
            if kept.size:
                yield replace(case, K=case.K[kept])
    for name in case.problem:
        if name not in ("loss", "epsilon", "quantile"):
            yield replace(case, problem={k: v for k, v in case.problem.items() if k != name})
    if np.ndim(case.y) == 2:
        for column in range(case.y.shape[1]):
            yield replace(case, y=case.y[:, column])
    yield from plainer(case)


def plainer(case: Case) -> Iterator[Case]:
    """The same with rounder numbers, each only where it is not round yet."""
    if isinstance(case.C, np.ndarray):
        yield replace(case, C=float(np.median(case.C)))
    elif isinstance(case.C, float) and np.isfinite(case.C) and case.C != power(case.C):
        yield replace(case, C=power(case.C))
    if case.tol < 1e-2:
        yield replace(case, tol=10.0 * case.tol)
    if case.storage not in ("array", "products"):
        yield replace(case, storage="array")


def on_rows(case: Case, rows: Any) -> Case:
    """The case on some of its rows."""
    K = case.K[:, rows]
    K = K if case.storage == "products" else K[:, :, rows]
    return replace(case, K=K, **by_row(case, lambda part: part[rows]))


def halves(n: int) -> Iterator[int]:
    size = n // 2
    while size:
        yield size
        size //= 2


def power(x: float) -> float:
    """The power of ten that is nearest."""
    return float(10.0 ** np.round(np.log10(x)))
