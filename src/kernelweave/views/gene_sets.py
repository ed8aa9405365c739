"""Gene sets as views: files in the GMT format of MSigDB and Enrichr.

A line is a set: its name, a description, and the names of its members, separated by tabs. Members
may carry a number after a comma (Enrichr). Sets may overlap, and so do the views.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kernelweave._core.checks import check_number, some
from kernelweave._core.warnings import warn

_JOINED = "__"  # what join_views puts between the names of view and column


def views_from_gmt(
    path: Any, columns: Any, min_size: int = 5, max_size: int = 500
) -> dict[str, list[int]]:
    r"""Views of the columns that belong to the gene sets of a GMT file.

    A warning says how many names of the file are no columns, and which sets are left out.

    Parameters
    ----------
    path : path or open text file
        A GMT file, such as those of MSigDB and Enrichr; ``.gmt.gz`` is read, too.
    columns : sequence of str, or a data frame
        The names of the columns of X, in their order. Of ``join_views``, ``genes__TP53`` is the
        gene TP53.
    min_size, max_size : int
        Sets with fewer or more columns are left out.

    Returns
    -------
    {name: list of int}
        The positions of the columns of each set, for ``KernelBank(views=…)``. A set may repeat the
        columns of another: kernels of both are then equal, and the bank keeps the first.

    Examples
    --------
    >>> from io import StringIO
    >>> from kernelweave import views_from_gmt
    >>> sets = "REPAIR _ ATM TP53", "GROWTH _ MYC TP53"
    >>> file = StringIO("\n".join(line.replace(" ", "\t") for line in sets))
    >>> views_from_gmt(file, ["ATM", "MYC", "TP53"], min_size=2)
    {'REPAIR': [0, 2], 'GROWTH': [1, 2]}
    """
    check_number("min_size", min_size, int)
    check_number("max_size", max_size, int)
    if min_size > max_size:
        raise ValueError(f"min_size must not exceed max_size, found {min_size} and {max_size}")
    places = _places(getattr(columns, "columns", columns))
    sets = _read(path)
    views, unmatched, small, large = dict[str, list[int]](), dict[str, None](), [], []
    for name, members in sets.items():
        found = sorted({places[gene] for gene in members if gene in places})
        unmatched.update(dict.fromkeys(gene for gene in members if gene not in places))
        if len(found) < min_size:
            small.append(name)
        elif len(found) > max_size:
            large.append(name)
        else:
            views[name] = found
    if not views:
        held = [gene for members in sets.values() for gene in members]
        raise ValueError(
            f"{path}: none of {len(sets)} sets has {min_size} to {max_size} columns of X. The file "
            f"names {some(map(repr, held), 3)}, X {some(map(repr, places), 3)}: give columns the "
            "same kind of names, or change min_size and max_size."
        )
    names = {gene for members in sets.values() for gene in members}
    told = [f"{len(unmatched)} of {len(names)} names are no columns: {some(unmatched)}"]
    told *= bool(unmatched)
    for which, bound in ((small, f"fewer than {min_size}"), (large, f"more than {max_size}")):
        if which:
            count = "1 set" if len(which) == 1 else f"{len(which)} sets"
            told.append(f"{count} of {bound} columns left out: {some(which)}")
    if told:
        warn(f"{path}: {'; '.join(told)}.")
    return views


def _places(columns: Iterable[Any]) -> dict[str, int]:
    """The position of each column, by its name and by what stands after the name of its view."""
    names = [str(name) for name in columns]
    places = dict[str, int]()
    for number, name in enumerate(names):
        if name in places:
            raise ValueError(f"columns: {name!r} occurs twice; gene sets need distinct names.")
        places[name] = number
    twice = set[str]()
    for number, name in enumerate(names):
        short = name.rpartition(_JOINED)[2]
        if short == name or short in twice:
            continue
        if short in places:  # of two views: which one is meant is not known
            if places[short] >= 0 and names[places[short]] != short:
                twice.add(short)
                del places[short]
            continue
        places[short] = number
    return places


def _read(path: Any) -> dict[str, list[str]]:
    """The members of each set, each once, by its name."""
    text = path.read() if hasattr(path, "read") else _text(Path(path))
    sets = dict[str, list[str]]()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, *rest = (cell.strip() for cell in line.split("\t"))
        if len(rest) < 2 or not name:
            raise ValueError(
                f"{path}: line {number} is no gene set: GMT has a name, a description and members, "
                f"separated by tabs; found {line[:60]!r}"
            )
        if name in sets:
            raise ValueError(f"{path}: line {number}: the set {name!r} occurs twice")
        members = (gene.partition(",")[0] for gene in rest[1:])
        sets[name] = list(dict.fromkeys(gene for gene in members if gene))
    if not sets:
        raise ValueError(f"{path} holds no gene set")
    return sets


def _text(path: Path) -> str:
    if path.suffix == ".gz":
        import gzip

        with gzip.open(path, "rt", encoding="utf-8") as file:
            return file.read()
    return path.read_text(encoding="utf-8-sig")
