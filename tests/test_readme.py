"""The README's code runs and prints what the README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from _helpers.pages import BLOCK, agree, run

import kernelweave
from kernelweave.inspection import report
from kernelweave.learners import NAMES

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "README.md"
README = PAGE.read_text(encoding="utf-8")


def test_code_of_the_readme():
    blocks = BLOCK.findall(README)
    assert len(blocks) >= 4 and blocks[0][1], "the first block shows its output"
    assert len(blocks[0][0].splitlines()) <= 12
    names = run(PAGE)
    assert names["solution"].gap <= 1e-4
    assert names["judged"].primal == pytest.approx(names["solution"].primal, rel=1e-9)


def test_output_is_compared():
    agree("0.54  Gaussian(width=0.5×median)", "0.55  Gaussian(width=0.5×median)", slack=0.02)
    for other in ("0.58  Gaussian(width=0.5×median)", "0.54  Gaussian(width=1×median)", "0.54"):
        with pytest.raises(AssertionError):
            agree("0.54  Gaussian(width=0.5×median)", other, slack=0.02)


def test_the_readme_names_what_there_is():
    table = re.findall(r'^\| `"(\w+)"`', README, re.MULTILINE)
    assert set(table) == set(NAMES)
    cited = set(re.findall(r"\[([a-z]+\d{4})\]", README))
    assert cited == set(re.findall(r"^- \*\*\[(\w+)\]\*\*", README, re.MULTILINE))
    for line in README.splitlines():
        assert "pip install kernelweave" not in line, "it is on no index yet"
    for command in ("make demo", "make test"):
        assert command in "\n".join(README.splitlines()[:40]), "on the first screen"


def test_reports_of_the_readme():
    for name in re.findall(r"`(\w+)\(model\)`", README):
        assert hasattr(report, name)
    for told in ("kernelweave demo", "MKLClassifier(KernelBank())", "with that view left out"):
        assert told in README


@pytest.mark.parametrize(
    "told",
    [
        *("MKLClassifierCV", "MKLRegressorCV", "join_views", '"precomputed"', "Hamming()"),
        *("missing=", ".save(", "kernelweave.load(", "kernelweave fit"),
        *('storage="factors"', "approximation="),
    ],
)
def test_the_readme_mentions_what_most_people_need(told):
    assert told in README


def test_links_of_the_readme():
    targets = re.findall(r"\]\(([^)]+)\)", README)
    local = [target for target in targets if "://" not in target]
    missing = [target for target in local if not (ROOT / target).exists()]
    assert not missing


def test_names_of_the_readme_are_public():
    imported = re.findall(r"^from kernelweave import (.+)$", README, re.MULTILINE)
    for name in ", ".join(imported).split(", "):
        assert name in kernelweave.__all__
