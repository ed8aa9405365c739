"""The plot of a choice: a line per bank and norm, and a ring around what was chosen."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from kernelweave import Gaussian, Linear, MKLClassifier, MKLClassifierCV
from kernelweave.inspection.plotting import plot_cv_scores


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    X = rng.standard_normal((40, 2)) + y[:, None]
    banks = {"line": [Linear()], "curve": [Gaussian(1.0), Linear()]}
    return MKLClassifierCV(banks, [10.0, 0.1, 1.0], [1, "equal"], cv=2).fit(X, y)


def test_lines_hold_the_scores(model):
    ax = plot_cv_scores(model)
    *lines, ring = ax.lines
    assert [line.get_label() for line in lines] == [
        f"{bank}, {norm}" for bank in ("line", "curve") for norm in ("norm 1", "equal weights")
    ]
    found = model.cv_results_
    for k, line in enumerate(lines):
        assert list(line.get_xdata()) == [0.1, 1.0, 10.0]
        scores = found["mean_test_score"][3 * k : 3 * k + 3][[1, 2, 0]]
        assert np.array_equal(line.get_ydata(), scores)
    assert ring.get_xdata() == [model.C_] and ring.get_ydata() == [model.best_score_]
    assert ax.get_xscale() == "log"
    plt.close("all")


@pytest.mark.parametrize("other", [MKLClassifier(), MKLClassifierCV(), 3])
def test_other_models_are_refused(other):
    with pytest.raises(TypeError, match="fitted MKLClassifierCV or MKLRegressorCV"):
        plot_cv_scores(other)
