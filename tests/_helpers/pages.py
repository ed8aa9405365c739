"""Code blocks of pages: run, and what they print compared with what the page says."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?(?![\w.]*×)")


def agree(found: str, expected: str, slack: float) -> None:
    """Equal but for the numbers, which lie within ``slack`` of each other."""
    assert NUMBER.sub("#", found) == NUMBER.sub("#", expected)
    assert [float(n) for n in NUMBER.findall(found)] == pytest.approx(
        [float(n) for n in NUMBER.findall(expected)], abs=slack
    )


def run(page: Path, slack: float = 0.02) -> dict[str, object]:
    """Run the blocks of a page in order, as one program; its names at the end.

    What is printed has to stand on the page. A block that needs data which are not here skips the
    test, with the reason.
    """
    names: dict[str, object] = {}
    for code, shown in BLOCK.findall(page.read_text("utf-8")):
        printed = io.StringIO()
        try:
            with redirect_stdout(printed):
                exec(compile(code, page.name, "exec"), names)
        except FileNotFoundError as error:
            if "KERNELWEAVE_DATA" not in str(error):
                raise
            pytest.skip(f"{page.name} needs data: {error}")
        agree(printed.getvalue(), shown, slack)
    return names
