"""Packages that only some of the library needs: what is said where one is missing."""

from __future__ import annotations


def missing(what: str, package: str, extra: str) -> ImportError:
    """The error for a package that ``what`` needs; ``extra`` is how pyproject.toml calls it."""
    return ImportError(f"{what} {package}, the extra {extra!r}: pip install {package}")
