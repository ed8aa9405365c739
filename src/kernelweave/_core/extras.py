"""Packages that only some of the library needs: what is said where one is missing."""

from __future__ import annotations

_PACKAGES = {  # of extras with more than one, as in pyproject.toml
    "dask": "'dask[array,dataframe]' distributed",
    "cli": "click pandas jinja2 matplotlib",
    "report": "jinja2 matplotlib",
}


def missing(what: str, package: str, extra: str) -> ImportError:
    """The error for a package that ``what`` needs, and how to get all of its ``extra``."""
    return ImportError(
        f"{what} {package}, the extra {extra!r}: pip install {_PACKAGES.get(extra, package)}"
    )
