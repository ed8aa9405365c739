"""The problems on which solvers are timed: kernels and labels by name."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.harness.paper_data import breast_cancer, random_stack
from benchmarks.harness.rakoto_sets import SETS, prepare

GAPS = (1e-2, 1e-4)
PROBLEMS = [(name, C) for C in (100.0, 1.0) for name in SETS]
PROBLEMS += [("breast cancer", 10.0), ("random", 1.0)]


@lru_cache(maxsize=1)
def problem(data: str | None, name: str, quick: bool) -> tuple[Any, np.ndarray]:
    """Kernels and labels; fewer of them where it shall be quick."""
    if name == "random":
        return random_stack("ionosphere", data, *((60, 6) if quick else (351, 48)), 0)[:2]
    if name == "breast cancer":
        return breast_cancer(100 if quick else 569)
    split, bank = prepare(name, "unit_trace", 0, data)
    return bank.stack, split.y
