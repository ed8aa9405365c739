"""A report of a model with a hostile name, made once for all who read it."""

from __future__ import annotations

import pytest
from inspection.several_views import HOSTILE, VIEWS, bank, rows

from kernelweave import MKLClassifier
from kernelweave._core.settings import SETTINGS


@pytest.fixture(scope="session", autouse=True)
def few_shuffles():
    """Reports shuffle views no more often than their tests need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SETTINGS, "permutations", 19)
        yield


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    X, y = rows(40)
    model = MKLClassifier(bank(**{HOSTILE: VIEWS["a"], "b": VIEWS["b"]})).fit(X, y)
    path = tmp_path_factory.mktemp("report") / "report.html"
    model.report(path, X, y, cv=2, n_resamples=3, title=HOSTILE)
    return path
