"""Progress: a bar that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr

import numpy as np
import pytest

from kernelweave import KernelBank, MKLClassifier
from kernelweave._core.settings import SETTINGS
from kernelweave._core.status import Bar, tell
from kernelweave.inspection import stability

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 6))
Y = X[:, 0] + 0.3 * X[:, 3] > 0


class Terminal(io.StringIO):
    """A terminal, and what a user sees on it."""

    def isatty(self):
        return True

    def lines(self):
        """Each line as it looks in the end: what follows a carriage return takes its place."""
        shown = []
        for line in self.getvalue().split("\n"):
            parts = [part for part in line.split("\r") if part]
            shown.append(parts[-1].replace("\x1b[K", "") if parts else "")
        return shown


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return Terminal()


def test_a_fit_shows_kernels_gap_and_time(terminal, monkeypatch):
    monkeypatch.setattr(SETTINGS, "pictures", -1.0)
    bank = KernelBank(views={"a": [0, 1, 2], "b": [3, 4, 5]})
    with redirect_stderr(terminal):
        model = MKLClassifier(bank, verbose=1).fit(X, Y)
    bars = re.findall(r"\[kernelweave\] ([#-]{24}) (.*?)\r", terminal.getvalue())
    counts = [text for _, text in bars if text.startswith("kernel ")]
    assert len(counts) == 10 and counts[-1].startswith("kernel 10 of 10, ")
    gaps = [(bar.count("#"), text) for bar, text in bars if text.startswith("gap ")]
    assert len(gaps) == model.n_iter_
    assert gaps[-1][0] == 24 and gaps[0][0] < 24
    assert re.fullmatch(r"gap \S+ of 0\.001, \d+ of 10 kernels, \d+\.\d s", gaps[-1][1])
    *_, last, end = terminal.lines()
    assert last.startswith(f"[kernelweave] optimal: gap {model.duality_gap_:.1e}") and end == ""


def test_many_fits_show_one_bar(terminal, monkeypatch):
    monkeypatch.setattr(SETTINGS, "pictures", -1.0)
    with redirect_stderr(terminal):
        stability(MKLClassifier(tol=0.1), X, Y, n_resamples=3, verbose=1)
    bars = re.findall(r"[#-]{24} (stability: \d of 3)", terminal.getvalue())
    assert bars == ["stability: 1 of 3", "stability: 2 of 3"]
    (line, end) = terminal.lines()
    assert line.startswith("[kernelweave] stability: 3 of 3") and end == ""


def test_a_bar_is_no_wider_than_the_terminal(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    with redirect_stderr(terminal):
        Bar(1).show(0.5, "x" * 99, "line")
    assert len(terminal.lines()[0]) == 39


@pytest.mark.parametrize("kind", ["dumb", "file"])
def test_elsewhere_there_are_lines(kind, monkeypatch):
    screen = Terminal() if kind == "dumb" else io.StringIO()
    monkeypatch.setenv("TERM", "dumb" if kind == "dumb" else "xterm")
    with redirect_stderr(screen):
        bar = Bar(1)
        bar.show(0.1, "too soon")
        bar.show(0.5, "short", "the longer line")
        bar.end("not needed")
        tell("said")
        Bar(0).show(0.5, "short", "nobody asked")
    assert screen.getvalue() == "[kernelweave] the longer line\n[kernelweave] said\n"
