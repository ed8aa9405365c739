"""Warnings at the user's own line, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_PACKAGE = __name__.partition(".")[0]


class LacksView(UserWarning):
    """Some rows lack a view."""


class SeesLittle(UserWarning):
    """Some rows lack the views that a prediction rests on."""


class UnseenCategory(UserWarning):
    """Some rows hold categories that no training row had."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the nearest caller outside the package."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    # on a worker of Dask, whoever asked for its work shall hear of it
    tell = getattr(sys.modules.get("distributed"), "warn", warnings.warn)
    tell(message, category, stacklevel=level)


def warn_unconverged(message: str) -> None:
    """Warn that a tolerance was not reached, in scikit-learn's class for that."""
    from sklearn.exceptions import ConvergenceWarning

    warn(message, ConvergenceWarning)
