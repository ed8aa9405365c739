"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


def check_place(path: str | os.PathLike[str]) -> None:
    """Raise OSError if no file can stand there: complain before the work that will fill it."""
    goal = Path(path)
    if not goal.parent.is_dir():
        told = "No such directory: make the folder first"
        raise FileNotFoundError(2, told, str(goal.parent))
    if goal.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(goal))


@contextmanager
def written(path: str | os.PathLike[str], mode: str = "wb", **options: Any) -> Iterator[IO[Any]]:
    """A file to write; it takes the place of ``path`` at the end, unless there was an error.

    ``mode`` is "wb" or "w"; ``options`` are those of ``open``. Where ``path`` is a link, the file
    that it leads to is written. What is no regular file, such as a pipe, is written directly.
    """
    check_place(path)
    goal = Path(path)
    if goal.exists() and not goal.is_file():
        with open(goal, mode, **options) as file:
            yield file
        return
    target = Path(os.path.realpath(goal))
    draft = target.with_name(f".{target.name[:100]}.{os.urandom(4).hex()}.part")
    try:
        with open(draft, mode.replace("w", "x"), **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(draft)):
            raise
        raise OSError(error.errno, error.strerror, str(goal)) from None  # as on a full disk
    finally:
        with suppress(OSError):
            draft.unlink()
