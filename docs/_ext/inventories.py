"""Inventories of other projects, made of the lists in ``docs/_inventories``: no network is asked.

A list begins with the address of a project and the pattern of its pages; then a line per name,
``role name``.
"""

import zlib
from pathlib import Path

LISTS = Path(__file__).parents[1] / "_inventories"


def lines_of(path):
    """The address of a project, and the lines of its inventory."""
    (address, pattern), *names = (
        line.split() for line in path.read_text("utf-8").splitlines() if line
    )
    found = []
    for role, name in names:
        page = pattern.format(name=name, module=name.rpartition(".")[0])
        found.append(f"{name} py:{role} 1 {page}#$ -")
    return address, found


def write(path, lines):
    """An inventory of version 2."""
    head = f"# Sphinx inventory version 2\n# Project: {path.stem}\n# Version: \n"
    note = "# The remainder of this file is compressed using zlib.\n"
    packed = zlib.compress("\n".join([*lines, ""]).encode())
    path.write_bytes((head + note).encode() + packed)


def mapping(folder):
    """What ``intersphinx_mapping`` takes; the inventories are written to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for source in sorted(LISTS.glob("*.txt")):
        address, lines = lines_of(source)
        target = folder / f"{source.stem}.inv"
        write(target, lines)
        found[source.stem] = (address, str(target))
    return found
