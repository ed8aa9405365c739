"""How much may be worked on at a time, by the memory that is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelweave import (
    KernelBank,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    learn,
    regularization_path,
)
from kernelweave._core.settings import SETTINGS
from kernelweave.stacks import memory

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc")
X = np.random.default_rng(0).normal(size=(30, 3))
Y = np.where(X[:, 0] > 0.0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("available", "rows"), [(None, 2000), (0, 2000), (16 * 8 * 5000**2, 5000), (2**40, 10_000)]
)
def test_a_chunk_takes_a_quarter_of_what_is_left(available, rows, monkeypatch) -> None:
    """Four arrays of so many rows and columns, of 8 bytes an entry."""
    monkeypatch.setattr(memory, "available_bytes", lambda: available)
    assert memory.largest_chunk() == rows


def folder_of(tmp_path: Path, pages: int) -> Path:
    """A machine with a TiB of memory, on which this process has mapped so many pages."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(f"MemAvailable: {2**30} kB\n")
    (tmp_path / "proc/self/statm").write_text(f"{pages} 100 10 1 0 5 0\n")
    return tmp_path


@linux
def test_a_limit_of_addresses_counts_what_is_mapped(tmp_path, monkeypatch) -> None:
    import resource

    root, pages = folder_of(tmp_path, 50_000), 50_000 * resource.getpagesize()
    limits = {"soft": resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limits["soft"], -1))
    assert memory.available_bytes(root) == 2**40
    limits["soft"] = 2**33
    left = memory.available_bytes(root)
    assert left is not None and 2**33 - pages - 2**29 < left < 2**33 - pages - 2**26
    limits["soft"] = pages
    assert memory.available_bytes(root) == 0


LIMITED = """
import resource, sys
import numpy as np
from kernelweave import KernelBank, MKLClassifier

X = np.random.default_rng(0).normal(size=(5000, 6))
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**30, mapped + 2**30))
try:
    MKLClassifier(KernelBank(storage="dense")).fit(X, X[:, 0] > 0)
except MemoryError as error:
    print(error)
"""


@linux
def test_a_fit_under_a_limit_of_addresses_is_refused_before_it_begins() -> None:
    """5,000 rows take 1.5 GiB: what is left of 1 GiB is told, and what takes less."""
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "on 5000 rows" in done.stdout and "what takes less: KernelBank(app" in done.stdout
    assert "GiB are available" in done.stdout


def fails(*args: Any, **more: Any) -> Any:
    np.empty(2**57)  # NumPy's own error


FITS = {
    "kernels": ("kernelweave.banks.bank.keep", lambda: MKLClassifier().fit(X, Y)),
    "bank": ("kernelweave.banks.bank.keep", lambda: KernelBank().fit(X)),
    "machines": ("kernelweave.estimators._fit.solve", lambda: MKLClassifier().fit(X, Y)),
    "reading": ("kernelweave.views.table.Table.read", lambda: MKLRegressor().fit(X, X[:, 0])),
    "choosing": (
        "kernelweave.estimators._search.solve_all",
        lambda: MKLClassifierCV(Cs=[1.0], cv=2).fit(X, Y),
    ),
    "learn": ("kernelweave.learning.solve", lambda: learn([X @ X.T], Y)),
    "path": ("kernelweave.path.solve", lambda: regularization_path([X @ X.T], Y, [1.0, 2.0])),
}


@pytest.mark.parametrize("name", FITS)
def test_memory_that_runs_out_later_is_told_with_advice(name, monkeypatch) -> None:
    place, fit = FITS[name]
    monkeypatch.setattr(place, fails)
    with pytest.raises(memory.OutOfMemory, match=r"Unable to allocate.*what takes less: Kern"):
        fit()


def test_advice_that_was_given_stays(monkeypatch) -> None:
    monkeypatch.setattr(SETTINGS, "tiny", 0)
    monkeypatch.setattr(memory, "available_bytes", lambda: 10)
    with pytest.raises(memory.OutOfMemory, match="1 kernels on 30 rows take") as caught:
        learn([X @ X.T], Y)
    assert "ran out" not in str(caught.value)
