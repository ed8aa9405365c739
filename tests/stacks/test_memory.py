"""How much may be worked on at a time, by the memory that is left."""

from __future__ import annotations

import pytest

from kernelweave.stacks import memory


@pytest.mark.parametrize(
    ("available", "rows"), [(None, 2000), (0, 2000), (16 * 8 * 5000**2, 5000), (2**40, 10_000)]
)
def test_a_chunk_takes_a_quarter_of_what_is_left(available, rows, monkeypatch) -> None:
    """Four arrays of so many rows and columns, of 8 bytes an entry."""
    monkeypatch.setattr(memory, "available_bytes", lambda: available)
    assert memory.largest_chunk() == rows
