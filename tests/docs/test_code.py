"""Every Python block of the pages in docs/ runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [page for page in sorted(DOCS.glob("*.md")) if BLOCK.search(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code(page: Path) -> None:
    names: dict[str, object] = {}
    for code in BLOCK.findall(page.read_text("utf-8")):
        exec(compile(code, page.name, "exec"), names)
    assert "kernelweave" in page.read_text("utf-8")
