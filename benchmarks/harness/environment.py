"""What figures depend on: versions, processor, threads and load of a run."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import os
import pathlib
import platform
import subprocess
import sys
from typing import Any

import threadpoolctl

import kernelweave as kw
from benchmarks.harness.folders import ROOT

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "highspy", "clarabel", "scs")
PACKAGES += ("MKLpy", "torch", "cvxopt", "himalaya")


def environment() -> dict[str, Any]:
    """Command, versions, processor and threads of this run; also said on stderr."""
    loads = os.getloadavg() if hasattr(os, "getloadavg") else (0.0,)
    if loads[0] > 0.5:
        print(f"others use this machine (load {loads[0]:.1f}): times are noise", file=sys.stderr)
    found = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "options": telling_options(sys.argv[1:]),
        "kernelweave": kw.__version__,
        "commit": _git("rev-parse", "--short=12", "HEAD")
        + ("+" if _git("status", "--porcelain", "--untracked-files=no", "src") else ""),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {name: _version(name) for name in PACKAGES},
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": loads[0],
        "threads": sorted(
            {
                f"{p['user_api']} {p['internal_api']}: {p['num_threads']}"
                for p in threadpoolctl.threadpool_info()
            }
            | {f"numba: {os.environ['NUMBA_NUM_THREADS']}"}
        ),
    }
    print(
        f"kernelweave {found['kernelweave']} ({found['commit']}), {found['processor']}, "
        f"{found['cores']} cores; threads: {', '.join(found['threads'])}",
        file=sys.stderr,
    )
    return found


def telling_options(words: list[str]) -> list[str]:
    """The options that decide what is measured: not where the data are, nor --fresh."""
    kept, previous = [], ""
    for word in words:
        if previous != "--data" and word != "--fresh" and not word.startswith("--data"):
            kept.append(word)
        previous = word
    return kept


def _git(*command: str) -> str:
    try:
        return subprocess.run(
            ["git", "-C", str(ROOT), *command], capture_output=True, text=True, check=True
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
