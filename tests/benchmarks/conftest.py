"""The benchmarks' own package, and a project of one small experiment."""

import importlib
import os
import pathlib
import shutil
import subprocess
import sys
from unittest import mock

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

EXPERIMENT = """\"\"\"What is a square.

Whole numbers only.
\"\"\"

from benchmarks.harness.markdown_tables import table
from benchmarks.harness.runner import Results, arguments
from benchmarks.harness.skipped import Skipped

SHOWS = "euclid, table 1"


def square(k, stop):
    if k == stop:
        raise KeyboardInterrupt
    if k == 2:
        raise Skipped("two is missing")
    return {"square": k * k}


def main():
    number = {"type": int, "default": -1}
    args = arguments(__doc__, stop=number, processes={**number, "default": 1})
    results = Results("toy", args, timed=False)
    results.fill([((k, "squared"), square, k, args.stop) for k in range(4)], args.processes)
    known = [k for k in range(4) if results.get(k, "squared")]
    table(["k", "k²"], [[k, results.get(k, "squared")["square"]] for k in known])
    results.bar("three squares", len(known), len(known) == 3)


if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="session")
def harness():
    """Parts of the harness by name, for what needs no process of its own.

    Importing them fixes the threads in the environment, which is not for other tests.
    """

    def load(name):
        with mock.patch.dict(os.environ):
            return importlib.import_module(f"benchmarks.harness.{name}")

    sys.path.insert(0, str(ROOT))
    yield load
    sys.path.remove(str(ROOT))


@pytest.fixture(scope="session")
def run():
    """A module of a project in a process of its own: ``run(project, module, *options)``."""

    def run(project, module, *options):
        return subprocess.run(
            [sys.executable, "-m", module, *options],
            cwd=project,
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )

    return run


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The harness with one experiment."""
    project = tmp_path_factory.mktemp("project")
    keep = shutil.ignore_patterns("__pycache__", "results", "papers", "speed", "accuracy")
    shutil.copytree(ROOT / "benchmarks", project / "benchmarks", ignore=keep)
    (project / "benchmarks" / "papers").mkdir()
    (project / "benchmarks" / "papers" / "toy.py").write_text(EXPERIMENT, encoding="utf-8")
    return project
