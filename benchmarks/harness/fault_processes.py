"""Processes that faults are put upon, and what became of each."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CHILDREN = "benchmarks.harness.faults"  # the module whose ``child_…`` functions are run
PATIENCE = 300.0  # seconds after which a process has hung
Found = Counter[str]


class Place:
    """A folder with a filled cache, and what an undisturbed fit gives."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.full = folder, folder / "full"
        first = ended(self.start("fit", self.full))
        self.right = first["digest"]
        assert not first["warnings"], first

    def empty(self, name: str) -> Path:
        cache = self.folder / name
        cache.mkdir()
        return cache

    def start(
        self, child: str, cache: Path, *words: str, before: tuple[str, ...] = (), **environment: str
    ) -> subprocess.Popen[str]:
        """A process that runs ``child_…``; ``before`` are the words of a command around it."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG"))}
        env |= {"NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"} | environment
        return subprocess.Popen(
            [*before, sys.executable, "-m", CHILDREN, "--child", child, *words],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def judge(self, process: subprocess.Popen[str], told: str | None = None) -> Found:
        """The outcome of a process that fits; ``told``: the folder that its one warning names."""
        answer = ended(process)
        if "digest" not in answer:
            return Counter({answer["kind"]: 1})
        if answer["digest"] != self.right:
            return Counter({"wrong": 1})
        cache = [text for text in answer["warnings"] if "NUMBA_CACHE_DIR" in text]
        fine = len(cache) == (told is not None) and all(told in text for text in cache)
        if not fine:
            say(f"  warnings: {answer['warnings']}")
        return Counter({"result" if fine else "broken": 1})


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the process prints in its last line, or the kind of its end."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"kind": "died or hung"}
    if process.returncode == -signal.SIGTERM:
        return {"kind": "refused"}
    if process.returncode:
        say(f"  code {process.returncode}: {err[-2000:]}")
        return {"kind": "broken" if process.returncode > 0 else "died or hung"}
    return json.loads(out.splitlines()[-1])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def can_mount() -> bool:
    found = shutil.which("unshare")
    return (
        bool(found)
        and not subprocess.run(
            ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True
        ).returncode
    )


def mounted(folder: Path, options: str) -> tuple[str, ...]:
    """Words that run a command with a small file system in this folder, which only it sees."""
    script = f'mount -t tmpfs -o {options} tmpfs "$0" && exec "$@"'
    return "unshare", "-rm", "sh", "-c", script, str(folder)
