"""Checks of scikit-learn that fail by themselves, by version."""

from __future__ import annotations

from sklearn import __version__
from sklearn.utils.fixes import parse_version

IS_OLD = parse_version(__version__) < parse_version("1.8")
FAULTS = {"check_positive_only_tag_during_fit"} if IS_OLD else set()  # means less whole numbers
