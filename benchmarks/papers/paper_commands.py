"""Runs every command that docs/papers.md names, and says which of them fail.

    python -m benchmarks.papers.paper_commands

Tests run together, in one pytest; programs print what they have measured.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def commands() -> tuple[list[str], list[str]]:
    """The tests, and the programs with their options, each once."""
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    tests = sorted(set(re.findall(r"`pytest ([^`]+)`", rows)))
    whole = {test for test in tests if "::" not in test}  # a file runs its tests anyway
    tests = [test for test in tests if test in whole or test.partition("::")[0] not in whole]
    return tests, sorted(set(re.findall(r"`python -m ([^`]+)`", rows)))


def main() -> int:
    """Run them; the number of failures is the exit status."""
    tests, programs = commands()
    failed = []
    if subprocess.run([sys.executable, "-m", "pytest", *tests], cwd=ROOT).returncode:
        failed.append("pytest")
    for program in programs:
        ran = subprocess.run(
            [sys.executable, "-m", *program.split()], cwd=ROOT, capture_output=True, text=True
        )
        if ran.returncode or not ran.stdout.strip():
            failed.append(program)
            print(ran.stderr)
    print(f"{len(tests)} tests or files of tests, {len(programs)} programs")
    print(f"failed: {', '.join(failed) or 'none'}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
