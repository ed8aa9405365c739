"""Faults that must lose nothing: quick versions of ``benchmarks/harness/faults.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits, signals and /proc")

ROOT = Path(__file__).resolve().parents[1]

FIT = """
import json, resource, sys, warnings
import numpy as np
from kernelweave import KernelStack

if sys.argv[1] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
y = np.repeat([-1.0, 1.0], 10)
X = np.random.default_rng(0).normal(size=(20, 2)) + y[:, None]
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    stack = KernelStack(X.T[:, :, None] * X.T[:, None, :])
    found = stack.quad_forms(y), stack.matvecs(y), stack.combined([1.0, 2.0]).dense()
print(json.dumps([[each.tolist() for each in found], [str(one.message) for one in told]]))
"""


def answer(*words: str, **environment: str) -> Any:
    """What a process of its own prints in its last line."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def child(*words: str) -> dict[str, int]:
    """The counts of one fault, by outcome."""
    return answer("-m", "benchmarks.harness.faults", "--child", *words)


def test_a_full_disk_and_a_damaged_cache(tmp_path: Path) -> None:
    def fit(disk: str) -> Any:
        return answer("-c", FIT, disk, NUMBA_CACHE_DIR=str(tmp_path))

    right, told = fit("free")
    files = list(tmp_path.rglob("*.nbc"))
    assert told == [] and len(files) > 2
    for number, file in enumerate(files):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // (1 + number % 3) - 1])
    again, told = fit("full")
    assert again == right
    assert len(told) == 1 and str(tmp_path) in told[0] and "NUMBA_CACHE_DIR" in told[0]


def test_interrupts_leave_a_model_as_it_was_or_fitted() -> None:
    found = child("interrupted", "20")
    assert found.keys() <= {"result", "refused"} and sum(found.values()) == 20
    assert found["refused"] > 0


def test_too_little_memory_is_an_error_or_enough() -> None:
    found = child("bounded", "4")
    assert found.keys() <= {"result", "refused"} and sum(found.values()) == 4
    assert found["refused"] > 0


def test_forks_during_a_fit() -> None:
    found = child("forking", "3")
    assert found.keys() == {"result"} and found["result"] >= 4
