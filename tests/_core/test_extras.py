"""What is said where a package is missing."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

from kernelweave._core.extras import _PACKAGES, missing


def test_all_packages_of_an_extra_are_named() -> None:
    """As pyproject.toml has them, extras within extras included."""
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    known = extras["project"]["optional-dependencies"]

    def packages(extra: str) -> list[str]:
        found = []
        for each in known[extra]:
            inner = re.fullmatch(r"kernelweave\[(.*)\]", each)
            more = [p for name in inner[1].split(",") for p in packages(name)] if inner else []
            found += more or [re.split(r"[<>=~!]", each)[0]]
        return found

    for extra, told in _PACKAGES.items():
        assert shlex.split(told) == packages(extra)  # brackets are quoted for the shell
    assert str(missing("plotting needs", "matplotlib", "plot")) == (
        "plotting needs matplotlib, the extra 'plot': pip install matplotlib"
    )
