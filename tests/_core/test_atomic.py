"""Files appear whole or not at all, and what goes wrong is told with the user's own path."""

from __future__ import annotations

import errno
import os

import pytest

from kernelweave._core.atomic import check_place, written


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    goal = tmp_path / "nowhere" / "m.kweave"
    told = "No such directory: make the folder first"
    for ask in (lambda: check_place(goal), lambda: written(goal).__enter__()):
        with pytest.raises(FileNotFoundError) as caught:
            ask()
        assert str(caught.value) == f"[Errno {errno.ENOENT}] {told}: {str(goal.parent)!r}"


def test_a_full_disk_is_told_with_the_file_that_was_asked_for(tmp_path, monkeypatch):
    goal = tmp_path / "m.kweave"

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as caught, written(goal) as file:
        file.write(b"1")
    told = f"[Errno {errno.ENOSPC}] No space left on device: {str(goal)!r}"
    assert str(caught.value) == told and caught.value.filename == str(goal)
    assert list(tmp_path.iterdir()) == []
