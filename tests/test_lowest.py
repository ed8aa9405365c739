"""What `make lowest` installs is what pyproject.toml allows at the least."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

requirements = pytest.importorskip("packaging.requirements")
version = pytest.importorskip("packaging.version")
ROOT = Path(__file__).parents[1]


def bounds():
    """The lower bound of every package that the core or an extra for users needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"]]
    for name in ("lp", "conic", "plot", "pandas", "cli", "parquet", "onnx", "report"):
        lines += extras[name]
    lines += [line for line in extras["test"] if line.startswith("polars")]
    found = [requirements.Requirement(line) for line in lines]
    return {
        one.name: version.Version(next(iter(one.specifier)).version)
        for one in found
        if one.name != "kernelweave"
    }


def test_the_lowest_versions_are_those_of_pyproject():
    path = ROOT / ".ci" / "lowest.txt"
    if not path.exists():
        pytest.skip("only in a checkout")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    pinned = {name: version.Version(found) for name, found in (line.split("==") for line in lines)}
    allowed = bounds()
    assert pinned.keys() == allowed.keys()
    for name, least in allowed.items():
        assert pinned[name].release[: len(least.release)] == least.release, name
