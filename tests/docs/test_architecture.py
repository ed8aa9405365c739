"""The rooms table of ARCHITECTURE.md names every module, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import kernelweave

ROOT = Path(__file__).parents[2]
PACKAGE = Path(kernelweave.__file__).parent
PLAIN = {"__init__.py", "__main__.py"}  # every package has the one


def table() -> list[tuple[str, str]]:
    """Place and idea of each room."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    part = text.split("## The rooms")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| `")]
    return [(place, idea) for place, idea in rows]


def named() -> list[str]:
    """The modules that rows name, relative to the folder of their row unless written in full."""
    found = []
    for place, idea in table():
        folder = ""
        for token in re.findall(r"`([\w/]+(?:\.py|/))`", place):
            folder = token.rpartition("/")[0] if "/" in token else folder
            found.append(f"{folder}/{token.rpartition('/')[2]}".lstrip("/"))
        for token in re.findall(r"`([\w/]+\.py)`", idea):
            inside = f"{folder}/{token}".lstrip("/")
            found.append(inside if (PACKAGE / inside).exists() else token)
    return [name for name in found if name.endswith(".py")]


def test_every_module_is_named() -> None:
    modules = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    missing = {name for name in modules if Path(name).name not in PLAIN} - set(named())
    assert not missing, f"no room of ARCHITECTURE.md names {sorted(missing)}"


def test_every_name_is_a_module() -> None:
    names = named()
    assert len(names) > 100
    gone = [name for name in names if not (PACKAGE / name).is_file()]
    assert not gone, f"ARCHITECTURE.md names {gone}, which are not there"
