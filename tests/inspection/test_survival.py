"""Reports on times and on intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelweave import Gaussian, KernelBank, MKLRegressor, MKLSurvival
from kernelweave.inspection.html import charts
from kernelweave.inspection.html.facts import Predicted

N = 60
RNG = np.random.default_rng(8)
X = RNG.standard_normal((N, 3))
BANK = KernelBank([Gaussian(2.0)], views={"a": [0], "b": [1, 2]})
Y = np.stack([np.exp(X[:, 0]), np.arange(N) % 3 > 0], axis=1)


@pytest.mark.parametrize("kind", ["times", "intervals"])
def test_the_report_speaks_of_the_task(kind: str, tmp_path: Any) -> None:
    path = tmp_path / "r.html"
    options: dict[str, Any] = {"cv": 2, "n_resamples": 5}
    if kind == "times":
        verdict = MKLSurvival(BANK).fit(X, Y).report(path, X, Y, **options)
        assert "The model predicts the target: C-index 0.9" in verdict
        assert "the same risk for all rows gives 0.50." in verdict
    else:
        y = np.stack([X[:, 0], np.where(Y[:, 1] > 0, X[:, 0], np.inf)], axis=1)
        verdict = MKLRegressor(BANK, loss="interval").fit(X, y).report(path, X, y, **options)
        assert "The model predicts the target: minus mean cost −0" in verdict
        assert "always saying the mean gives −0" in verdict
    page = path.read_text("utf-8")
    assert ("Kaplan–Meier" in page) == (kind == "times")
    assert ("12+ is a row that was last seen at 12" in page) == (kind == "times")
    assert (" to ∞" in page) == (kind == "intervals")


@pytest.mark.parametrize("events", [1, 0])
def test_thirds_of_equal_risks_and_without_events(events: int) -> None:
    truth = np.zeros(9, [("event", bool), ("time", float)])
    truth["time"], truth["event"] = np.arange(1.0, 10.0), events
    for risk in (np.zeros(9), np.arange(9.0)):
        found = Predicted(truth, risk, None, risk, np.arange(9))
        assert charts.risk_thirds(found).url.startswith("data:image/png")
