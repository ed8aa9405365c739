"""What a patient user sees on standard error: a bar that moves on a terminal, elsewhere lines."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Sequence

from kernelweave._core.settings import SETTINGS
from kernelweave._core.tolerances import TINY

_LINES = 2.0  # seconds between two lines
_BAR = 24  # characters
_CLEAR = "\r\x1b[K"


def is_live() -> bool:
    """Whether standard error is a terminal on which a line can change."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def tell(text: str) -> None:
    """A line that stays."""
    sys.stderr.write(f"{_CLEAR if is_live() else ''}[kernelweave] {text}\n")


class Bar:
    """How far a long piece of work is; nothing is shown unless ``verbose``."""

    def __init__(self, verbose: int) -> None:
        self.verbose = verbose
        self._spoke = time.perf_counter()

    def show(self, share: float, text: str, line: str | None = None) -> None:
        """Move the bar; where there is none, write ``line``, or ``text`` every other second."""
        if not self.verbose or (line is None and not self._due()):
            return
        self._spoke = time.perf_counter()
        if not is_live():
            tell(text if line is None else line)
            return
        done = round(_BAR * min(max(share, 0.0), 1.0))
        whole = f"[kernelweave] {'#' * done}{'-' * (_BAR - done)} {text}"
        sys.stderr.write(_CLEAR + whole[: shutil.get_terminal_size().columns - 1] + "\r")
        sys.stderr.flush()

    def end(self, text: str) -> None:
        """Leave a line in place of the bar."""
        if self.verbose and is_live():
            tell(text)

    def _due(self) -> bool:
        since = time.perf_counter() - self._spoke
        return since > (SETTINGS.pictures if is_live() else _LINES)


def share_done(gaps: Sequence[float], goal: float) -> float:
    """How much of the way from the first gap to the goal is done, by orders of magnitude."""
    if not gaps:
        return 0.0
    first, gap, goal = min(gaps[0], 1.0), gaps[-1], max(goal, TINY)
    if gap <= goal:
        return 1.0
    return math.log(first / gap) / math.log(first / goal) if gap < first else 0.0
