"""Every Python block of the pages in docs/ runs, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from _helpers.pages import BLOCK, run

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if "_build" not in page.parts and BLOCK.search(page.read_text("utf-8"))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code(page: Path) -> None:
    run(page)
