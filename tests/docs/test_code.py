"""Every Python block of the pages in docs/ runs, and prints what the page says."""

from __future__ import annotations

import ast
import builtins
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


def names(tree: ast.AST, kind: type) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, kind)}


@pytest.mark.parametrize("page", ["migration.md", "guides/precomputed.md", "guides/weights.md"])
def test_blocks_can_be_pasted_one_by_one(page: str) -> None:
    for code, _ in BLOCK.findall((DOCS / page).read_text("utf-8")):
        tree = ast.parse(code)
        nodes = list(ast.walk(tree))
        made = names(tree, ast.Store) | {n.arg for n in nodes if isinstance(n, ast.arg)}
        made |= {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
        made |= {(n.asname or n.name) for n in nodes if isinstance(n, ast.alias)}
        assert names(tree, ast.Load) <= made | set(dir(builtins)), code
