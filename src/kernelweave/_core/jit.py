"""One decorator for every compiled loop of the package.

Compiled code is kept on disk where some cache folder is writable and in memory where none is. No
fault of the disk stops a call: files that are damaged or cannot be written are told once, and the
loops are compiled in memory. Loops release the interpreter lock. Nothing assumes finite numbers,
because bounds and masks are often infinite.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from typing import Any

import numba

from kernelweave._core.atomic import written
from kernelweave._core.cached import cached_property
from kernelweave._core.warnings import warn

FLAGS = frozenset({"reassoc", "contract", "arcp", "nsz"})
ORDERED = FLAGS - {"reassoc"}

_told = False  # whether this process has warned of its cache
_one_at_a_time = RLock()  # compiling one function compiles those that it calls


def jit(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on its first call; its sums may be reordered, so that they vectorize."""
    return _compile(function, FLAGS)


def ordered_jit(function: Callable[..., Any]) -> Any:
    """The same with sums in the order written.

    For loops that both sum and store: their vector and scalar forms round differently, and which
    one runs depends on where the arrays lie in memory.
    """
    return _compile(function, ORDERED)


def inlined(function: Callable[..., Any]) -> Any:
    """A part of compiled functions that stands apart for the reader.

    It is compiled within the function that calls it, which takes less time than both apart; what
    several call is better compiled once, by ``jit``.
    """
    return _compile(function, FLAGS, inline="always")


def _compile(function: Callable[..., Any], flags: frozenset[str], **options: Any) -> Any:
    options |= {"nogil": True, "fastmath": set(flags), "error_model": "numpy"}
    kept = KeptCode(function, options)
    kept.compiled.compile = kept.compile
    return kept.compiled


class KeptCode:
    """Compiled code of one function on disk: one file per signature, checked before it is used.

    Numba's own cache has no checksums (a changed bit would be executed), and one index for all
    signatures, which two processes that compile at once may leave pointing to each other's code.
    So each signature gets a cache of its own, in a folder that only this process sees, and what
    Numba writes there becomes one file with a checksum. Whether it is the code of this source,
    version and processor is for Numba to say.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self.options = function, options
        self.compiled = self._new()
        self._makers: list[Any] = []  # Numba forgets code when its maker is gone

    def compile(self, types: tuple[Any, ...]) -> Any:
        """What Numba calls for arguments of types that it has not seen."""
        with _one_at_a_time:
            known = self.compiled.overloads
            if types not in known and self._folder is not None:
                try:
                    self._through_file(self._folder, types)
                except numba.errors.NumbaError:
                    raise
                except Exception as error:
                    if types not in known and isinstance(error, MemoryError):
                        raise
                    _tell(self._folder, error)
            if types not in known:
                self._take(self._new(), types)
            return known[types].entry_point

    def _through_file(self, folder: Path, types: tuple[Any, ...]) -> None:
        """Take the code from its file in ``folder``, or compile it and write the file."""
        facts = self.function.__qualname__, types, _numbers(self.function)
        key = sha256(repr(facts).encode()).hexdigest()[:16]
        file = folder / f"{self.function.__module__.split('.')[-1]}.{key}.nbc"
        with TemporaryDirectory() as scratch:
            try:
                _unpack(file, Path(scratch))
            except (OSError, ValueError, pickle.UnpicklingError) as error:
                _tell(folder, error)
            maker = self._in(scratch)
            try:
                self._take(maker, types)
            except RuntimeError:  # llvmlite lost its copy, as an interrupt makes it
                return
            if not maker.stats.cache_hits:
                _pack(Path(scratch), file)

    def _take(self, maker: Any, types: tuple[Any, ...]) -> None:
        """Let ``maker`` load or compile the code; what is compiled is in use if saving it fails."""
        self._makers.append(maker)
        try:
            maker.compile(types)
        finally:
            if types in maker.overloads:
                self.compiled.add_overload(maker.overloads[types])

    def _new(self, **options: Any) -> Any:
        """The function as Numba's own, not yet compiled."""
        return numba.njit(**self.options, **options)(self.function)

    def _in(self, folder: str) -> Any:
        """The function as Numba's own, with its cache in ``folder``."""
        config: Any = numba.config
        chosen, config.CACHE_DIR = config.CACHE_DIR, folder
        try:
            return self._new(cache=True)
        finally:
            config.CACHE_DIR = chosen

    @cached_property
    def _folder(self) -> Path | None:
        """Where Numba would keep the code; None if it finds no folder to write."""
        try:
            return Path(self._new(cache=True).stats.cache_path)
        except RuntimeError:
            return None


def _numbers(function: Callable[..., Any]) -> list[tuple[str, float]]:
    """Constants that a function and those that it calls read: other files may hold them.

    Numba sees no edits there. So compiled functions that are called stand in the same file.
    """
    names = function.__code__.co_names
    known: dict[str, Any] = {name: function.__globals__.get(name) for name in names}
    found = [(name, value) for name, value in known.items() if isinstance(value, int | float)]
    called = [value.py_func for value in known.values() if hasattr(value, "py_func")]
    return found + [number for each in called for number in _numbers(each)]


def _unpack(file: Path, folder: Path) -> None:
    """Write the files that ``file`` holds into ``folder``; none where there is no such file."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return
    if sha256(content[32:]).digest() != content[:32]:
        raise ValueError(f"the file {file.name} is damaged")
    for name, part in pickle.loads(content[32:]).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(part)


def _pack(folder: Path, file: Path) -> None:
    """Make one file of those in ``folder``, which appears when it is complete."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    content = pickle.dumps({str(path.relative_to(folder)): path.read_bytes() for path in paths})
    with written(file) as target:
        target.write(sha256(content).digest() + content)


def _tell(folder: Path, error: Exception) -> None:
    """Warn of a fault of the disk, once in a process."""
    global _told
    if not _told:
        _told = True
        warn(
            f"The cache of compiled code in {folder} cannot be used "
            f"({error or type(error).__name__}). Results are not affected, but loops are "
            "compiled in memory, which takes some seconds in each process. Delete the files "
            "*.nbc in this folder, make room on the disk, or set the environment variable "
            "NUMBA_CACHE_DIR to a folder that can be written."
        )
