"""Cells that cannot be measured here, for want of data or of a package."""

import importlib.util


class Skipped(Exception):
    """A cell cannot be measured here; the message says what is missing."""


def need(package: str) -> None:
    """Skip the cell where an optional package is not installed."""
    if importlib.util.find_spec(package) is None:
        raise Skipped(f"{package} is not installed")
