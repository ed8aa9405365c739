"""The compile cache: what is damaged, stale or cannot be written never stops a call."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from kernelweave._core import jit as jit_module

SOURCE = """
from kernelweave._core.jit import jit

@jit
def total(x):
    s = {start}
    for k in range(x.size):
        s += x[k]
    return s
"""


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``fresh()`` imports the function anew, as another process would; its cache is in tmp_path."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # whose date is in whole seconds
    file = tmp_path / "looped.py"

    def load(start: float = 0.0, text: str = "") -> Any:
        monkeypatch.setattr(jit_module, "_told", False)
        text = text or SOURCE.format(start=start)
        if not file.exists() or file.read_text() != text:  # older numba looks at the date
            file.write_text(text)
        spec = importlib.util.spec_from_file_location("looped", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.total

    return load


def files(tmp_path: Path) -> list[Path]:
    return sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())


def written(tmp_path: Path) -> set[tuple[str, int]]:
    """The files as they were written: one that is written again is another."""
    return {(path.name, path.stat().st_ino) for path in files(tmp_path)}


X = np.arange(4.0)


@pytest.fixture(autouse=True)
def strict() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_code_is_loaded_from_the_cache(fresh: Any, tmp_path: Path) -> None:
    assert fresh()(X) == 6.0
    assert [path.suffix for path in files(tmp_path)] == [".nbc"]
    before = written(tmp_path)
    again = fresh()
    assert again(X) == 6.0 and written(tmp_path) == before
    assert again(X.astype(np.float32)) == 6.0
    assert len(files(tmp_path)) == 2  # one per signature


def test_code_of_an_older_source_is_replaced(fresh: Any, tmp_path: Path) -> None:
    fresh()(X)
    old = written(tmp_path)
    assert fresh(1.0)(X) == 7.0
    new = written(tmp_path)
    assert not new & old
    assert fresh(1.0)(X) == 7.0
    assert written(tmp_path) == new and len(new) == 1


def test_an_edit_of_a_constant_in_another_file(
    fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The functions that are called read it, too."""
    text = """
from kernelweave._core.jit import inlined, jit
from elsewhere import CONSTANT

@inlined
def more(x):
    return x + CONSTANT

@jit
def total(x):
    return more(x.sum())
"""
    monkeypatch.syspath_prepend(str(tmp_path))
    for constant in (1, 2, 1):
        (tmp_path / "elsewhere.py").write_text(f"CONSTANT = {constant}")
        monkeypatch.delitem(sys.modules, "elsewhere", raising=False)
        importlib.invalidate_caches()
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        assert fresh(text=text)(X) == 6.0 + constant
    assert len(files(tmp_path)) == 2


def test_code_of_another_numba_is_replaced(
    fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(numba, "__version__", "0.0.1")
        fresh()(X)
    old = written(tmp_path)
    assert fresh()(X) == 6.0 and not written(tmp_path) & old


@pytest.mark.parametrize("damage", ["empty", "cut", "short", "one bit", "garbage", "folder"])
def test_damaged_files_are_told_once_and_replaced(fresh: Any, tmp_path: Path, damage: str) -> None:
    function = fresh()
    function(X), function(X.astype(np.float32))
    for path in files(tmp_path):
        content = bytearray(path.read_bytes())
        flipped = bytearray(content)
        flipped[len(content) // 2] ^= 1
        if damage == "folder":
            path.unlink()
            path.mkdir()
        else:
            path.write_bytes(
                {
                    "empty": b"",
                    "cut": content[: len(content) // 2],
                    "short": content[:40],
                    "one bit": flipped,
                    "garbage": b"\x80\x05\x95" + bytes(range(256)) * 8,
                }[damage]
            )
    function = fresh()
    with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR") as told:
        assert function(X) == 6.0
        assert function(X.astype(np.float32)) == 6.0
    assert len(told) == 1 and str(tmp_path / "cache") in str(told[0].message)
    if damage != "folder":
        before = written(tmp_path)
        assert fresh()(X) == 6.0 and written(tmp_path) == before


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), PermissionError("no"), MemoryError]
)
def test_code_that_cannot_be_written_stays_in_memory(
    fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    function = fresh()

    def full(*args: Any) -> None:
        raise error

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match="compiled in memory") as told:
        assert function(X) == 6.0
        assert function(X.astype(np.float32)) == 6.0
    assert len(told) == 1
    assert files(tmp_path) == []  # nothing half written is left behind


def test_an_interrupt_leaves_nothing_half_written(
    fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = fresh()

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        function(X)
    assert files(tmp_path) == []
    assert function(X) == 6.0


def test_code_that_llvmlite_does_not_hand_out_is_no_fault_of_the_disk(
    fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its callback drops an interrupt, and with it the bytes to save."""
    function = fresh()

    def nothing(*args: Any) -> None:
        raise RuntimeError("no compiled object yet for <Library 'total'>")

    monkeypatch.setattr(os, "replace", nothing)
    assert function(X) == 6.0  # and no warning
    assert files(tmp_path) == []


def test_a_folder_that_is_removed(fresh: Any, tmp_path: Path) -> None:
    function = fresh()
    function(X.astype(np.float32))
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("a file")
    with pytest.warns(UserWarning, match="compiled in memory"):
        assert function(X) == 6.0


def test_memory_that_runs_out_on_loading_is_no_damage(
    fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh()(X)
    function = fresh()

    def full(*args: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(jit_module.pickle, "loads", full)
    with pytest.raises(MemoryError):
        function(X)


def test_recompile_forgets_the_files(fresh: Any, tmp_path: Path) -> None:
    function = fresh()
    function(X)
    function.recompile()
    assert function(X) == 6.0 and len(files(tmp_path)) == 1
