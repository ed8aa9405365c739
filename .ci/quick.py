"""Which tests a change needs: prints their paths, for ``make quick``.

A test that changed runs itself. A changed ``src/kernelweave/ROOM/NAME.py`` runs
``tests/ROOM/test_NAME.py``, where there is none all of ``tests/ROOM``, where there is no such
folder ``tests/test_ROOM.py``. What is tested under another name is in ``ELSEWHERE``. ``CORE`` runs
always.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
CORE = ["tests/test_imports.py", "tests/_core", "tests/stacks/test_duck.py", "tests/machines"]
CORE += ["tests/problems/test_dual_qp.py", "tests/learners/test_newton.py"]
CORE += ["tests/test_certificate.py", "tests/test_problem_file.py"]
ELSEWHERE = {
    "_solvers/signed": "tests/papers/lanckriet2004/test_sdp.py",
    "datasets.py": "tests/io",
    "inspection/html": "tests/inspection/test_html.py",
    "papers/rakoto2007": "tests/learners/test_learners.py",
    "plotting.py": "tests/inspection/test_plotting.py",
    "report.py": "tests/inspection/test_html.py",
    "stacks/torch": "tests/device",
}


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
    inside = Path(*path.parts[2:])
    for start, test in ELSEWHERE.items():
        if inside.as_posix().startswith(start):
            return [test]
    room = Path("tests") / inside.parent
    own = room / f"test_{path.stem.lstrip('_')}.py"
    of_room = room.with_name(f"test_{room.name}.py")
    found = [own, *([room, of_room] if room.name != "tests" else [])]
    return [each.as_posix() for each in found if (TREE / each).exists()][:1]


if __name__ == "__main__":
    chosen = {*CORE, *(test for file in changed() for test in tests_of(file))}
    folders = {test for test in chosen if (TREE / test).is_dir()}
    nested = {test for test in chosen for folder in folders if test.startswith(f"{folder}/")}
    print(*sorted(chosen - nested))
