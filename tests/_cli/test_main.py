"""The command line: the demo's output, versions, pipes that close and terminals without UTF-8."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import kernelweave
from kernelweave._cli import demo
from kernelweave._cli import main as cli
from kernelweave._core.settings import SETTINGS
from kernelweave.io.datasets import breast_cancer


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"kernelweave {kernelweave.__version__}\n"


def test_help_names_the_commands(capsys):
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    for command in ("compare", "demo", "evaluate", "fit", "info", "path", "predict", "report"):
        assert re.search(rf"^\s+{command}\s+\w+", out, re.MULTILINE)
        assert cli.main([command, "--help"]) == 0


def test_demo(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(SETTINGS, "permutations", 19)
    path = tmp_path / "r.html"
    assert cli.main(["demo", "--seed", "3", "-o", str(path)]) == 0
    out = capsys.readouterr().out
    by_kernel = re.findall(r"^  (0\.\d{3})  #+ +\S+ on \w+$", out, re.MULTILINE)
    by_view = re.findall(r"^  (0\.\d{3})  #+ +(\w+)$", out, re.MULTILINE)
    assert sum(map(float, by_kernel)) == pytest.approx(1.0, abs=0.005)
    assert sorted(view for _, view in by_view) == ["shape", "size"]
    assert sum(float(weight) for weight, _ in by_view) == pytest.approx(1.0, abs=0.005)
    (gap,) = re.findall(r"duality gap +(\S+):", out)
    assert float(gap) <= 1e-3
    (right,) = re.findall(r"(\d\d) %\s+of\s+rows\s+it\s+had\s+not\s+seen", out)
    assert int(right) > 90
    assert out.splitlines()[-1].endswith(f"The report is in {path}")
    assert "Predicting malignant tumors from" in path.read_text(encoding="utf-8")
    assert max(map(len, out.splitlines()[:-1])) <= 90


def test_views_of_the_demo_cover_all_columns():
    data = breast_cancer()
    assert sorted(data.views["size"] + data.views["shape"]) == list(range(30))
    assert len(data.views["size"]) == 9
    assert set(data.y) == {"benign", "malignant"}


def test_a_terminal_without_utf8(monkeypatch):
    screen = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(screen, encoding="ascii"))
    monkeypatch.setattr(demo, "run", lambda asked: print("width=2×median"))
    assert cli.main(["demo"]) == 0
    assert screen.getvalue().split() == [b"width=2?median"]


def test_a_reader_that_leaves(monkeypatch, tmp_path):
    def leave(asked):
        raise BrokenPipeError

    monkeypatch.setattr(demo, "run", leave)
    with open(tmp_path / "out", "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert cli.main(["demo"]) == 1


def test_interrupted(monkeypatch):
    def interrupt(asked):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupt)
    assert cli.main(["demo"]) == 130


def test_as_a_module():
    found = subprocess.run(
        [sys.executable, "-m", "kernelweave", "--version"], capture_output=True, text=True
    )
    assert found.stdout == f"kernelweave {kernelweave.__version__}\n"


@pytest.mark.parametrize("seed", ["-1", "x", "1.5", ""])
def test_seeds_are_whole_numbers(seed, capsys):
    assert cli.main(["demo", "--seed", seed]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kernelweave: Invalid value for '--seed'")


def test_what_is_not_installed_is_named(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "kernelweave._cli.commands", raising=False)
    monkeypatch.setitem(sys.modules, "click", None)
    assert cli.main(["demo"]) == 2
    told = "this command needs click, the extra 'cli': pip install click pandas jinja2 matplotlib"
    assert capsys.readouterr().err == f"kernelweave: {told}\n"


def test_what_a_report_lacks_is_named(monkeypatch, capsys, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,y\n1,u\n2,v\n3,u\n4,v\n")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    report = tmp_path / "r.html"
    assert cli.main(["fit", str(table), "--target", "y", "--report", str(report)]) == 2
    assert capsys.readouterr().err.endswith("the extra 'report': pip install jinja2 matplotlib\n")
    assert [*tmp_path.iterdir()] == [table]


def test_warnings_are_one_line(monkeypatch, capsys):
    def warn(asked):
        for level in (1, 2):  # from two places
            warnings.warn("two\nlines", stacklevel=level)

    monkeypatch.setattr(demo, "run", warn)
    assert cli.main(["demo"]) == 0
    assert capsys.readouterr().err == "kernelweave: note: two lines\n"


def test_completion(monkeypatch, capsys):
    monkeypatch.setenv("_KERNELWEAVE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "kernelweave pre")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit) as done:
        cli.main([])
    assert done.value.code == 0
    assert capsys.readouterr().out == "plain,predict\n"


def shell(redirection):
    """Exit code and standard error of a command that prints, and imports no solver."""
    code = (
        "import sys, types; demo = types.ModuleType('demo'); "
        "demo.run = lambda asked: [print('line', flush=True) for _ in range(9)]; "
        "import kernelweave._cli as cli; cli.demo = sys.modules['kernelweave._cli.demo'] = demo; "
        "from kernelweave._cli.main import main; sys.exit(main(['demo']))"
    )
    words = ["bash", "-c", f'"$1" -c "$2" {redirection}', "bash", sys.executable, code]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_standard_output_that_is_full_or_closed():
    full = (1, "kernelweave: standard output: No space left on device\n")
    assert shell("> /dev/full") == full
    assert shell(">&-") == (1, "kernelweave: standard output is closed\n")
    assert shell(">&- 2>&-") == (1, "")


@pytest.mark.parametrize("command", [["--version"], ["--help"], ["demo", "--help"]])
def test_help_on_a_full_disk(command, monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(command) == 1
        monkeypatch.undo()
    told = "kernelweave: standard output: No space left on device\n"
    assert capsys.readouterr().err == told


@pytest.mark.skipif(sys.platform == "win32", reason="bash")
def test_a_reader_that_is_gone():
    code, told = shell("| (exec 0<&-; sleep 0.2); exit ${PIPESTATUS[0]}")
    assert (code, told) == (1, "")


def test_errors_of_files_name_them(monkeypatch, capsys):
    def missing(asked):
        open("/nowhere/data.csv")

    monkeypatch.setattr(demo, "run", missing)
    assert cli.main(["demo"]) == 2
    assert capsys.readouterr().err == "kernelweave: /nowhere/data.csv: No such file or directory\n"
