"""Every example runs without a warning, prints something and draws a picture."""

from __future__ import annotations

import re
import runpy
import tempfile
import warnings
from pathlib import Path

import pytest
from sklearn.exceptions import ConvergenceWarning

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEED_DATA = {"heterogeneous"}  # they draw nothing for who has no data
plt = pytest.importorskip("matplotlib.pyplot", reason="examples draw with matplotlib")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_runs(path, capsys, monkeypatch, tmp_path):
    """As they run for who has neither the data nor a wish for warnings."""
    monkeypatch.delenv("KERNELWEAVE_DATA", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.switch_backend("agg")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        for kind in (UserWarning, RuntimeWarning):  # at a line of the example or of the package
            warnings.filterwarnings("error", category=kind, module=r"(__main__|kernelweave)\b")
        runpy.run_path(str(path), run_name="__main__")
    drawn = len(plt.get_fignums())
    plt.close("all")
    assert drawn or path.stem in NEED_DATA
    assert len(capsys.readouterr().out.splitlines()) >= 3


def test_there_are_many_and_the_gallery_shows_each_once():
    page = (ROOT / "docs" / "examples.md").read_text("utf-8")
    shown = re.findall(r"\.\./examples/(\w+)\.py", page)
    assert sorted(shown) == [path.stem for path in EXAMPLES]
    assert len(shown) >= 20


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_opens_with_a_title(path):
    assert re.match(r'"""\n(.{5,50})\n(=+)\n\n', path.read_text("utf-8"))
