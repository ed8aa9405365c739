"""The door to pandas: every table of this package is made here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kernelweave._core.extras import missing

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(columns: Mapping[str, Any]) -> DataFrame:
    """A data frame of these columns."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise missing("data frames need", "pandas", "pandas") from None
    return DataFrame(dict(columns))
