"""The entry of the command line: runs a command, and turns what goes wrong into one line."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from kernelweave._core.extras import missing
from kernelweave._core.warnings import LacksView

_EXTRAS = {"click": "cli", "pandas": "cli", "pyarrow": "parquet"}
_BAD_INPUT = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 2 for bad input, 1 if the output cannot be written."""
    if sys.stdout is None:
        _tell("standard output is closed")
        return 1
    with warnings.catch_warnings():
        warnings.showwarning = _Notes()
        warnings.simplefilter("ignore", LacksView)  # told once, by the command
        try:
            try:
                return _run(argv)
            finally:  # also after --help
                sys.stdout.flush()
        except OSError as error:
            return _lost(error)
        except KeyboardInterrupt:
            return 130


def _run(argv: Sequence[str] | None) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # names of kernels are not all ASCII
    try:
        from kernelweave._cli.commands import run

        return run(argv)
    except ImportError as error:
        if error.name is None:  # raised by kernelweave, with advice
            _tell(str(error))
            return _BAD_INPUT
        if error.name not in _EXTRAS:
            raise
        _tell(str(missing("this command needs", error.name, _EXTRAS[error.name])))
    except (ValueError, TypeError, MemoryError) as error:
        if "KERNELWEAVE_TRACEBACK" in os.environ:
            raise
        _tell(str(error) or type(error).__name__)
    return _BAD_INPUT


def _lost(error: OSError) -> int:
    """The exit code for a file that cannot be used, or an output that takes no more."""
    if error.filename is not None:
        _tell(f"{error.filename}: {error.strerror or error}")
        return _BAD_INPUT
    # the reader, such as head, has gone, or the disk is full
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        _tell(f"standard output: {error.strerror or error}")
    return 1


class _Notes:
    """Warnings as notes, each told once however many fits it concerns."""

    def __init__(self) -> None:
        self._told = set[str]()

    def __call__(self, message: Warning | str, *where: Any, **more: Any) -> None:
        if str(message) not in self._told:
            self._told.add(str(message))
            _tell(f"note: {message}")


def _tell(message: str) -> None:
    """One line on standard error."""
    if sys.stderr is not None:
        print(f"kernelweave: {' '.join(message.split())}", file=sys.stderr)
