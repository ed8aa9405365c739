"""One decorator for every compiled loop of the package.

Compiled code is cached on disk where some cache folder is writable and kept in memory where
none is. No fault of the disk stops a call: files that are damaged or cannot be written are told
once, and the loops are compiled in memory. Loops release the interpreter lock. Nothing assumes
finite numbers, because bounds and masks are often infinite.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from numba.core import caching
from numba.core.serialize import dumps

from kernelweave._core.atomic import written
from kernelweave._core.warnings import warn

FLAGS = frozenset({"reassoc", "contract", "arcp", "nsz"})
ORDERED = FLAGS - {"reassoc"}

_told = False  # whether this process has warned of its cache


def jit(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on its first call; its sums may be reordered, so that they vectorise."""
    return _compile(function, FLAGS)


def ordered_jit(function: Callable[..., Any]) -> Any:
    """The same with sums in the order written.

    For loops that both sum and store: their vector and scalar forms round differently, and which
    one runs depends on where the arrays lie in memory.
    """
    return _compile(function, ORDERED)


def _compile(function: Callable[..., Any], flags: frozenset[str]) -> Any:
    options: dict[str, Any] = {"nogil": True, "fastmath": set(flags), "error_model": "numpy"}
    try:
        compiled = numba.njit(cache=True, **options)(function)
        compiled._cache = FunctionCache(function)
    except RuntimeError:  # numba found no writable folder for its cache
        compiled = numba.njit(**options)(function)
    return compiled


class FunctionCache(caching.FunctionCache):
    """Numba's cache of one function, whose errors end in a warning instead of the call."""

    _cache_file: Any

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = numba.__version__, self._impl.locator.get_source_stamp()
        self._cache_file = CodeFiles(Path(self._cache_path), self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for this signature, or None if there is none that can be used."""
        try:
            return super().load_overload(sig, target_context)
        except MemoryError:
            raise
        except Exception as error:
            self._tell(error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write compiled code; it is in use already, so that nothing is lost if this fails."""
        try:
            super().save_overload(sig, data)
        except RuntimeError:  # llvmlite lost its copy, as an interrupt during compilation makes it
            return
        except Exception as error:
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        global _told
        if not _told:
            _told = True
            warn(
                f"The cache of compiled code in {self._cache_path} cannot be used "
                f"({error or type(error).__name__}). Results are not affected, but loops are "
                "compiled in memory, which takes some seconds in each process. Delete the files "
                "*.nbc in this folder, make room on the disk, or set the environment variable "
                "NUMBA_CACHE_DIR to a folder that can be written."
            )


class CodeFiles:
    """Compiled code on disk: one file per signature, with a checksum that is read first.

    Numba's own files have none (a changed bit would be executed), and they share an index, which
    two processes that compile at once may leave pointing to each other's code.
    """

    def __init__(self, folder: Path, stem: str, stamp: object) -> None:
        self._folder, self._stem = folder, stem
        self._stamp = sha256(repr(stamp).encode()).digest()

    def load(self, key: object) -> Any:
        """What was saved under ``key``; None if nothing was, or for another source or numba."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        checksum, stamp, data = content[:32], content[32:64], content[64:]
        if sha256(stamp + data).digest() != checksum:
            raise ValueError(f"the file {path.name} is damaged")
        return pickle.loads(data) if stamp == self._stamp else None

    def save(self, key: object, data: object) -> None:
        """Write a file, which appears under its name when it is complete."""
        content = self._stamp + dumps(data)
        with written(self._path(key)) as file:
            file.write(sha256(content).digest() + content)

    def flush(self) -> None:
        """Delete the files of all signatures."""
        for path in self._folder.glob(f"{self._stem}.*.nbc"):
            path.unlink(missing_ok=True)

    def _path(self, key: object) -> Path:
        return self._folder / f"{self._stem}.{sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
