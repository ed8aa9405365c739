"""The README's code runs and prints what the README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from _helpers.pages import BLOCK, agree, run

import kernelweave

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "README.md"
README = PAGE.read_text(encoding="utf-8")


def test_code_of_the_readme():
    blocks = BLOCK.findall(README)
    assert len(blocks) >= 4 and blocks[0][1], "the first block shows its output"
    assert len(blocks[0][0].splitlines()) <= 12
    names = run(PAGE)
    assert (names["same"].predict(names["X"]) == names["model"].predict(names["X"])).all()


def test_it_takes_five_minutes():
    assert len(README.splitlines()) <= 150


def test_output_is_compared():
    agree("0.54  Gaussian(width=0.5×median)", "0.55  Gaussian(width=0.5×median)", slack=0.02)
    for other in ("0.58  Gaussian(width=0.5×median)", "0.54  Gaussian(width=1×median)", "0.54"):
        with pytest.raises(AssertionError):
            agree("0.54  Gaussian(width=0.5×median)", other, slack=0.02)


def test_the_first_screen_says_what_to_type():
    for line in README.splitlines():
        assert "pip install kernelweave" not in line, "it is on no index yet"
    for command in ("make demo", "make test"):
        assert command in "\n".join(README.splitlines()[:40]), "on the first screen"


@pytest.mark.parametrize(
    "told", ["MKLClassifierCV", "join_views", ".save(", "kernelweave.load(", "--report", "pickle"]
)
def test_the_readme_mentions_what_most_people_need(told):
    assert told in README


@pytest.mark.parametrize(
    "told",
    [
        *("MKLClassifierCV", "MKLRegressorCV", "join_views", '"precomputed"', "Hamming"),
        *("missing=", ".save(", "kernelweave.load(", "kernelweave fit", "kernelweave demo"),
        *('storage="factors"', "approximation=", "MKLClassifier(KernelBank())"),
        *("with that view left out", "Loading a pickle runs code", "CalibratedClassifierCV"),
        *("indefinite=", "OneVsRestClassifier", 'C="learn"', "skops.io.load", "raw_weights_"),
        *("weights_by_view(model)", "certificate(model)", 'unknown="isolated"', "n_jobs"),
    ],
)
def test_the_guides_have_the_rest(told):
    guides = (ROOT / "docs" / "guides").glob("*.md")
    assert any(told in page.read_text("utf-8") for page in guides)


def test_links_of_the_readme():
    targets = re.findall(r"\]\(([^)]+)\)", README)
    local = [target for target in targets if "://" not in target]
    missing = [target for target in local if not (ROOT / target).exists()]
    assert not missing


def test_names_of_the_readme_are_public():
    imported = re.findall(r"^from kernelweave import (.+)$", README, re.MULTILINE)
    for name in ", ".join(imported).split(", "):
        assert name in kernelweave.__all__
