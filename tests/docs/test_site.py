"""The site has every public name, a page per learner, and every reference that pages cite."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import kernelweave
from kernelweave import papers
from kernelweave.learners import CLASSES, NAMES  # the former are told under learners

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts]
MODULES = ["inspection", "io", "learners", "plotting", "report", "datasets"]


def listed() -> set[str]:
    """Dotted names in the tables of the API page."""
    found, module = set(), ""
    for line in (DOCS / "api.md").read_text("utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   \w[\w.]*", line):
            found.add(f"{module}.{line.strip()}")
    return found


def public() -> set[str]:
    """What ``import kernelweave`` offers: its names, and those of its modules."""
    own = [name for name in kernelweave.__all__ if name[0] != "_"]
    names = {f"kernelweave.{n}" for n in own if not inspect.ismodule(getattr(kernelweave, n))}
    for module in MODULES:
        found = import_module(f"kernelweave.{module}")
        names |= {f"kernelweave.{module}.{name}" for name in found.__all__}
    for info in walk_packages(papers.__path__, f"{papers.__name__}."):
        what = vars(import_module(info.name)).items()
        own = [n for n, v in what if n[0] != "_" and getattr(v, "__module__", "") == info.name]
        if "._" not in info.name:  # underscored: a paper's solvers
            names |= {f"{info.name}.{name}" for name in own if name not in CLASSES}
    return names


def test_every_public_name_is_in_the_api():
    missing = sorted(public() - listed())
    assert not missing, f"docs/api.md lacks {missing}"
    assert len(public()) > 100


def test_modules_are_those_that_are_public():
    found = {n for n in kernelweave.__all__ if inspect.ismodule(getattr(kernelweave, n))}
    assert found == {*MODULES, "papers"}


def test_names_of_the_api_exist():
    for name in listed():
        module, _, rest = name.rpartition(".")
        assert hasattr(import_module(module), rest), name


@pytest.mark.parametrize("learner", [name for name in NAMES if name != "auto"])
def test_a_page_per_learner(learner):
    text = (DOCS / "learners" / f"{learner}.md").read_text("utf-8")
    assert f'`learner="{learner}"`' in text
    heads = ["The problem", "Paper", "Use it when", "It fails, or disappoints, when", "Options"]
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == heads


def test_the_table_of_learners_is_complete():
    table = (DOCS / "learners" / "index.md").read_text("utf-8")
    assert set(re.findall(r'^\| \[?`"(\w+)"`', table, re.MULTILINE)) == set(NAMES)


def test_what_is_cited_is_in_the_references():
    known = set(re.findall(r"^- \*\*\[(\w+)\]\*\*", (DOCS / "references.md").read_text(), re.M))
    texts = [page.read_text("utf-8") for page in PAGES if page.parent.name != "results"]
    cited = {key for text in texts for key in re.findall(r"\[([a-z]+\d{4})(?:\]|, )", text)}
    assert known == cited
