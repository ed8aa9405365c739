"""Large arrays some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator


def blocks(n: int, width: int, entries: int) -> Iterator[slice]:
    """Slices of n rows, so few at a time that ``width`` columns of them are ``entries`` at most."""
    step = max(1, entries // max(1, width))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
