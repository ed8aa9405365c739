"""Which tests a change needs: prints their paths, for ``make quick``.

A test that changed runs itself. A changed ``src/kernelweave/ROOM/NAME.py`` runs
``tests/ROOM/test_NAME.py``, or where there is none all of ``tests/ROOM``. ``CORE`` runs always.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
CORE = ["tests/test_imports.py", "tests/_core", "tests/stacks/test_duck.py", "tests/machines"]
CORE += ["tests/problems/test_dual_qp.py", "tests/learners/test_newton.py"]


def changed() -> list[str]:
    """Files that differ from main, committed or not; those of the work tree alone without main."""
    base = ["git", "-C", str(TREE)]
    names = []
    for command in (
        ["diff", "--name-only", "--merge-base", "main"],
        ["diff", "--name-only", "HEAD"],
        ["ls-files", "--others", "--exclude-standard"],
    ):
        done = subprocess.run([*base, *command], capture_output=True, text=True)
        names += done.stdout.splitlines()
    return sorted(set(names))


def tests_of(file: str) -> list[str]:
    """The tests that belong to a file: none where it has none of its own."""
    path = Path(file)
    if path.parts[0] == "tests":
        return [file] if path.name.startswith("test_") and (TREE / path).exists() else []
    if path.parts[:2] != ("src", "kernelweave") or path.suffix != ".py":
        return []
    room = Path("tests", *path.parts[2:-1])
    own = room / f"test_{path.stem.lstrip('_')}.py"
    if (TREE / own).exists():
        return [own.as_posix()]
    return [room.as_posix()] if len(room.parts) > 1 and (TREE / room).is_dir() else []


if __name__ == "__main__":
    chosen = {*CORE, *(test for file in changed() for test in tests_of(file))}
    folders = {test for test in chosen if (TREE / test).is_dir()}
    nested = {test for test in chosen for folder in folders if test.startswith(f"{folder}/")}
    print(*sorted(chosen - nested))
