"""The README's code runs and prints what the README says; so does every example."""

from __future__ import annotations

import io
import re
import runpy
import tempfile
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from sklearn.exceptions import ConvergenceWarning

import kernelweave
from kernelweave.inspection import report
from kernelweave.learners import NAMES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?(?![\w.]*×)")


def agree(found, expected, slack):
    """Equal but for the numbers, which lie within ``slack`` of each other."""
    assert NUMBER.sub("#", found) == NUMBER.sub("#", expected)
    assert [float(n) for n in NUMBER.findall(found)] == pytest.approx(
        [float(n) for n in NUMBER.findall(expected)], abs=slack
    )


def test_code_of_the_readme():
    blocks = BLOCK.findall(README)
    assert len(blocks) >= 4 and blocks[0][1], "the first block shows its output"
    assert len(blocks[0][0].splitlines()) <= 12
    names: dict[str, object] = {}
    for code, shown in blocks:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), names)
        agree(printed.getvalue(), shown, slack=0.02)
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


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples(path, capsys, monkeypatch, tmp_path):
    """As they run for who has neither the data nor a wish for warnings."""
    monkeypatch.delenv("KERNELWEAVE_DATA", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        for kind in (UserWarning, RuntimeWarning):  # at a line of the example or of the package
            warnings.filterwarnings("error", category=kind, module=r"(__main__|kernelweave)\b")
        runpy.run_path(str(path), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 3
