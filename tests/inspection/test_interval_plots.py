"""Plots of numbers with intervals show each of them."""

from __future__ import annotations

import numpy as np
import pytest

from kernelweave.inspection.draws import WeightDraws, WeightPath
from kernelweave.inspection.held_out import HeldOut

pytest.importorskip("matplotlib").use("Agg")

DRAWS = WeightDraws(
    ("k0", "k1", "k2"),
    ("a", "a", "b"),
    np.array([0.2, 0.3, 0.5]),
    np.array([[0.1, 0.3, 0.6], [0.3, 0.3, 0.4]]),
    "resamples",
)


def labels(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def points(ax):
    return ax.collections[-1].get_offsets()[:, 0]


def test_weights_of_views_and_kernels():
    assert labels(DRAWS.plot()) == ["a", "b"]
    ax = DRAWS.plot(by="kernel", top=2)
    assert labels(ax) == ["k2", "k1"]
    np.testing.assert_allclose(points(ax), [0.5, 0.3])
    assert "2 resamples" in ax.get_xlabel()
    with pytest.raises(ValueError, match="by must be one of"):
        DRAWS.plot(by="rows")


def test_differences_of_scores():
    scores = HeldOut(("all", "one"), np.array([[0.9, 0.7], [0.8, 0.8]]), "accuracy", 0.25)
    ax = scores.plot()
    assert labels(ax) == ["one"]
    np.testing.assert_allclose(points(ax), [0.1])


def test_weights_by_C():
    path = WeightPath(("k0", "k1"), ("a", "b"), np.array([1.0, 10.0]), np.array([[0, 1], [1, 0.0]]))
    assert path.plot().get_xlabel() == "C"
    assert len(path.plot(by="kernel").lines) == 2
