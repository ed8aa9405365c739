"""What is published says the same everywhere, and works as README.md writes it."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import kernelweave

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", ["datasets", "report", "learners", "papers", "plotting"])
def test_modules_load_on_use(module, monkeypatch):
    monkeypatch.delitem(vars(kernelweave), module, raising=False)
    assert getattr(kernelweave, module).__name__ == f"kernelweave.{module}"
    assert import_module(f"kernelweave.{module}") is getattr(kernelweave, module)


def test_data_by_name_as_the_readme_writes_it():
    assert kernelweave.datasets.load("iris").X.shape == (150, 4)


def test_one_version():
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == kernelweave.__version__
