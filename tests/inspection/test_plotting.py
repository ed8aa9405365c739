"""Plots: what the artists hold, what the axes say, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from kernelweave import KernelBank, MKLClassifier, learn, regularization_path
from kernelweave.inspection.plotting import (
    COLORS,
    GRAY,
    plot_convergence,
    plot_weight_history,
    plot_weight_path,
    plot_weights,
)

EVERY = [plot_convergence, plot_weights, plot_weight_history]


@pytest.fixture(autouse=True)
def nothing_global_changes():
    """No figure stays behind but those a test makes, and no setting changes."""
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


@pytest.fixture
def ax():
    return plt.subplots()[1]


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    y = np.repeat([-1.0, 1.0], 20)
    X = rng.standard_normal((40, 5)) + np.array([1.0, 0.5, 0.0, 0.0, 0.0]) * y[:, None]
    distances = (X.T[:, :, None] - X.T[:, None]) ** 2
    return np.exp(-distances / 2.0), y


@pytest.fixture(scope="module")
def fits(problem):
    K, y = problem
    names = ("newton", "simple", "alternate")
    return {name: learn(K, y, C=10.0, learner=name, tol=1e-4) for name in names}


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 4))
    X[:, 3] = 2.0  # its kernels are dropped
    with pytest.warns(UserWarning):
        return MKLClassifier(KernelBank(views="each")).fit(X, X[:, 0] + X[:, 1] > 0.0)


def fake(weights, **history):
    weights = np.atleast_2d(np.array(weights, dtype=float))
    return SimpleNamespace(
        weights=weights[-1], history={"weights": weights, "gap": np.ones(len(weights)), **history}
    )


def labels_of(ax):
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def bars_of(ax):
    return [bar.get_width() for bar in ax.patches]


def ticks_of(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


# ---- convergence --------------------------------------------------------------------------------


@pytest.mark.parametrize("y", ["gap", "objective"])
@pytest.mark.parametrize("x", ["seconds", "n_svm_solves", "iteration"])
def test_convergence_draws_the_history(ax, fits, x, y):
    assert plot_convergence(fits, ax, x=x, y=y) is ax
    assert labels_of(ax) == list(fits)
    for line, fit in zip(ax.lines, fits.values(), strict=True):
        xs = np.arange(1, fit.n_iter + 1) if x == "iteration" else fit.history[x]
        np.testing.assert_array_equal(line.get_xdata(), xs)
        np.testing.assert_array_equal(line.get_ydata(), fit.history[y])
    assert ax.get_yscale() == ("log" if y == "gap" else "linear")
    assert ax.get_xscale() == ("linear" if x == "iteration" else "log")
    words = {"seconds": "time (s)", "n_svm_solves": "SVM solves", "iteration": "iteration"}
    assert ax.get_xlabel() == words[x]
    assert ax.get_ylabel() == {"gap": "relative duality gap", "objective": "objective"}[y]


def test_convergence_of_one_and_of_several_unnamed(ax, fits, model):
    plot_convergence(fits["simple"], ax)
    assert ax.get_legend() is None
    plot_convergence([fits["newton"], model], ax)
    assert labels_of(ax) == ["fit 1", "fit 2", "fit 3"]
    assert [to_hex(line.get_color()) for line in ax.lines] == [c.lower() for c in COLORS[:3]]
    np.testing.assert_array_equal(ax.lines[2].get_ydata(), model.history_["gap"])


def test_convergence_of_more_fits_than_colors(ax, fits):
    plot_convergence([fits["newton"]] * 9, ax)
    looks = {(line.get_color(), line.get_linestyle()) for line in ax.lines}
    assert len(looks) == 9


def test_convergence_of_a_gap_of_zero_is_drawn(ax, recwarn):
    plot_convergence(fake([[1.0]], gap=np.zeros(1)), ax, x="iteration")
    ax.figure.canvas.draw()
    assert ax.get_yscale() == "linear"
    assert not recwarn.list


def test_log_axis_over_less_than_a_decade_has_plain_labels(ax):
    fit = fake([[1.0]] * 3, gap=[0.5, 0.2, 0.1], n_svm_solves=[2, 3, 6])
    plot_convergence(fit, ax, x="n_svm_solves")
    ax.figure.canvas.draw()
    shown = [text.get_text() for text in ax.get_xticklabels(which="both")]
    assert {"2", "3", "6"} & set(shown)
    assert all(text == "" or float(text) > 0.0 for text in shown)


# ---- weights ------------------------------------------------------------------------------------


def test_weights_are_bars_the_heaviest_first(ax):
    assert plot_weights([0.1, 0.0, 0.6, 0.3], ax, names="abcd") is ax
    assert bars_of(ax) == [0.6, 0.3, 0.1]
    assert ticks_of(ax) == ["c", "d", "a"]
    assert [text.get_text() for text in ax.texts] == ["0.6", "0.3", "0.1"]
    low, high = ax.get_ylim()
    assert low > high  # the first one at the top
    assert ax.get_xlim()[0] == 0.0
    assert ax.get_xlabel() == "weight"


def test_weights_say_what_is_not_shown(ax):
    plot_weights([0.5, 0.3, 0.15, 0.05, 0.0], ax, top=2)
    assert ticks_of(ax) == ["kernel 0", "kernel 1"]
    assert ax.get_xlabel() == "weight (2 more kernels: 0.2 together)"
    plot_weights([0.5, 0.3, 0.2], other := plt.subplots()[1], top=2)
    assert other.get_xlabel() == "weight (1 more kernel: 0.2 together)"


def test_weights_of_chosen_kernels(ax):
    plot_weights([0.5, 0.0, 0.3, 0.2], ax, top=[3, 1])
    assert bars_of(ax) == [0.2, 0.0]
    assert ticks_of(ax) == ["kernel 3", "kernel 1"]
    assert ax.get_xlabel() == "weight (2 more kernels: 0.8 together)"


def test_weights_may_be_differences(ax):
    plot_weights([0.01, -0.4, 0.2], ax, top=2)
    assert bars_of(ax) == [-0.4, 0.2]
    assert len({bar.get_facecolor() for bar in ax.patches}) == 2
    assert [text.get_text() for text in ax.texts] == ["−0.4", "0.2"]
    assert ax.get_xlabel() == "weight (1 more kernel, each within ±0.01)"


def test_weights_all_zero_draw_no_bar(ax):
    plot_weights(np.zeros(3), ax)
    assert bars_of(ax) == []
    ax.figure.canvas.draw()


def test_weights_of_a_solution_and_of_a_model(ax, fits, model):
    solution = fits["newton"]
    plot_weights(solution, ax)
    assert bars_of(ax) == sorted(solution.weights[solution.weights > 0], reverse=True)
    plot_weights(model, other := plt.subplots()[1], top=3)
    order = np.argsort(-model.weights_, kind="stable")[:3]
    assert bars_of(other) == list(model.weights_[order])
    assert ticks_of(other) == list(model.kernel_names_[order])


# ---- weights that move --------------------------------------------------------------------------


def test_path_draws_weights_by_C(ax, problem):
    Cs = [100.0, 0.1, 1.0]
    solutions = regularization_path(*problem, Cs, tol=1e-2)
    assert plot_weight_path(solutions, Cs, ax, names="abcde", top=2) is ax
    assert ax.get_xscale() == "log"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("C", "weight")
    weights = np.array([solutions[k].weights for k in (1, 2, 0)])
    largest = np.argsort(-weights.max(axis=0), kind="stable")[:2]
    others = int(weights.any(axis=0).sum()) - 2
    assert len(ax.lines) == 2 + (others > 0)  # the others are one line
    for line, k in zip(ax.lines[:2], largest, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), [0.1, 1.0, 100.0])
        np.testing.assert_array_equal(line.get_ydata(), weights[:, k])
        assert line.get_label() == "abcde"[k]
    assert labels_of(ax)[2:] == ([f"{others} others"] if others > 1 else ["1 other"] * others)


def test_others_are_one_grey_line_with_breaks(ax):
    weights = np.array([[0.1, 0.2, 0.7, 0.0, 0.0], [0.2, 0.3, 0.4, 0.1, 0.0]])
    plot_weight_history(weights, ax, top=1)
    colored, grey = ax.lines
    assert (colored.get_label(), grey.get_label()) == ("kernel 2", "3 others")
    assert grey.get_color() == GRAY
    np.testing.assert_array_equal(grey.get_xdata(), [1, 2, np.nan] * 3)
    expected = [0.1, 0.2, np.nan, 0.2, 0.3, np.nan, 0.0, 0.1, np.nan]
    np.testing.assert_array_equal(grey.get_ydata(), expected)
    assert labels_of(ax) == ["kernel 2", "3 others"]


def test_history_draws_the_weights_of_a_fit(ax, fits, model):
    solution = fits["simple"]
    assert plot_weight_history(solution, ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("iteration", "weight")
    weights = solution.history["weights"]
    order = np.argsort(-weights[-1], kind="stable")[: np.count_nonzero(weights[-1])]
    others = np.count_nonzero(weights.any(axis=0)) > order.size
    assert len(ax.lines) == order.size + others > 0
    for line, k in zip(ax.lines[: order.size], order, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, solution.n_iter + 1))
        np.testing.assert_array_equal(line.get_ydata(), weights[:, k])
        assert line.get_label() == f"kernel {k}"
    plot_weight_history(model, other := plt.subplots()[1], top=1)
    heaviest = np.argmax(model.history_["weights"][-1])
    assert other.lines[0].get_label() == model.kernel_names_[heaviest]


def test_chosen_kernels_have_the_same_colors_everywhere():
    first, second = plt.subplots(1, 2)[1]
    plot_weight_history([[0.9, 0.1], [0.8, 0.2]], first, top=[1, 0])
    plot_weight_path([[0.3, 0.7], [0.2, 0.8]], [1.0, 10.0], second, top=[1, 0])
    for ax in (first, second):
        assert [line.get_label() for line in ax.lines] == ["kernel 1", "kernel 0"]
        assert [line.get_color() for line in ax.lines] == list(COLORS[:2])


def test_weights_stand_on_zero_and_shared_axes_hold_all():
    first, second = plt.subplots(1, 2, sharey=True)[1]
    plot_weight_history([[0.4, 0.6], [0.45, 0.55]], first)
    plot_weight_history([[0.4, 0.6], [0.05, 0.95]], second)
    bottom, top = first.get_ylim()
    assert bottom == 0.0
    assert 0.95 < top < 1.1
    plot_weight_history([[0.4, -0.6]], other := plt.subplots()[1])
    assert other.get_ylim()[0] < -0.6


def test_legend_stands_beside_where_the_layout_makes_room():
    for layout, beside in ((None, False), ("constrained", True)):
        figure, ax = plt.subplots(layout=layout)
        plot_weight_history([[0.4, 0.6]], ax)
        figure.canvas.draw()
        left = ax.get_legend().get_window_extent().x0
        assert (left >= ax.get_window_extent().x1) == beside


def test_weights_that_are_zero_throughout_draw_nothing(ax, recwarn):
    plot_weight_path([[0.0], [0.0]], [1.0, 2.0], ax)
    assert not ax.lines
    assert not recwarn.list


# ---- figures, imports, refusals -----------------------------------------------------------------


def test_figures_are_made_only_where_no_axes_are_given(fits):
    axes = plt.subplots(1, 3)[1]
    for plot, ax in zip(EVERY, axes, strict=True):
        plot(fits["simple"], ax)
        assert len(plt.get_fignums()) == 1
    for number, plot in enumerate(EVERY, start=2):
        made = plot(fits["simple"])
        assert plt.get_fignums() == list(range(1, number + 1))
        assert made.figure.number == number
    assert plot_weight_path([[1.0]], [1.0]).figure.number == 5


@pytest.mark.parametrize("plot", EVERY)
def test_bad_input_makes_no_figure(plot):
    with pytest.raises(TypeError, match=r"found a Pipeline: pass its last step, pipeline\[-1\]"):
        plot(make_pipeline(MKLClassifier()))
    with pytest.raises(TypeError, match="expected a Solution"):
        plot(MKLClassifier())
    with pytest.raises((TypeError, ValueError)):
        plot([])
    assert not plt.get_fignums()


def test_import_error_names_the_extra(monkeypatch, fits):
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    for plot in EVERY:
        told = re.escape("the extra 'plot': pip install matplotlib")
        with pytest.raises(ImportError, match=told):
            plot(fits["simple"])


def test_matplotlib_loads_on_use():
    code = "import sys, kernelweave.inspection.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_axes_given_need_no_pyplot():
    code = (
        "import sys; from matplotlib.figure import Figure; from kernelweave import plotting\n"
        "ax = Figure().subplots()\n"
        "plotting.plot_weights([0.5, 0.5], ax); plotting.plot_weight_history([[0.5, 0.5]], ax)\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fit: plot_convergence(fit, x="time"), "x must be one of .* found 'time'"),
        (lambda fit: plot_convergence(fit, y="dual"), "y must be one of .* found 'dual'"),
        (lambda fit: plot_convergence([]), "solutions is empty"),
        (lambda fit: plot_convergence({}), "solutions is empty"),
        (lambda fit: plot_convergence(fake([[1.0]], gap=[])), "history of the fit is empty"),
        (lambda fit: plot_weights([]), r"shape \(m,\), found \(0,\)"),
        (lambda fit: plot_weights(np.eye(2)), r"shape \(m,\), found \(2, 2\)"),
        (lambda fit: plot_weights([1.0, np.nan]), "finite"),
        (lambda fit: plot_weights(fit, names=["a"]), "one name for each of 5 kernels, found 1"),
        (lambda fit: plot_weights(fit, top=0), "top must be .* found 0"),
        (lambda fit: plot_weights(fit, top=2.5), "top must be .* found 2.5"),
        (lambda fit: plot_weights(fit, top=True), "top must be .* found True"),
        (lambda fit: plot_weights(fit, top=[0, 5]), r"out of 5, found \[0, 5\]"),
        (lambda fit: plot_weights(fit, top=[-1]), r"found \[-1\]"),
        (lambda fit: plot_weights(fit, top=[1, 1]), r"different kernels .* found \[1, 1\]"),
        (lambda fit: plot_weights(fit, top=[]), r"found \[\]"),
        (lambda fit: plot_weight_path([], []), "solutions is empty"),
        (lambda fit: plot_weight_path([fit], [1.0, 2.0]), "each of 1 solutions"),
        (lambda fit: plot_weight_path([fit], 1.0), r"found shape \(\)"),
        (lambda fit: plot_weight_path([fit], [np.inf]), "positive and finite"),
        (lambda fit: plot_weight_path([fit], [0.0]), "positive and finite"),
        (
            lambda fit: plot_weight_path([fit, [1.0]], [1.0, 2.0]),
            r"same number of kernels.* \[1, 5\]",
        ),
        (lambda fit: plot_weight_path([fit], [1.0], names="ab"), "one name for each of 5"),
        (lambda fit: plot_weight_history([1.0, 2.0]), r"\(iterations, kernels\), found \(2,\)"),
        (lambda fit: plot_weight_history([]), r"\(iterations, kernels\)"),
        (lambda fit: plot_weight_history(fit, names="ab"), "one name for each of 5"),
        (lambda fit: plot_weight_history(fit, top=-1), "top must be .* found -1"),
    ],
)
def test_bad_input_is_named(fits, call, message):
    with pytest.raises(ValueError, match=message):
        call(fits["newton"])
    assert not plt.get_fignums()


class Other:
    """A model of another library, with attributes of our names."""

    history = SimpleNamespace(history={"loss": [1.0]})
    weights = "uniform"


class Keras(Other):
    history = {"loss": [1.0]}  # noqa: RUF012


@pytest.mark.parametrize("plot", EVERY)
@pytest.mark.parametrize(
    "foreign",
    [SVC(), RandomForestClassifier(), MKLClassifier(), Other(), Keras(), None, "model"],
    ids=lambda model: type(model).__name__,
)
def test_foreign_models(plot, foreign):
    with pytest.raises(TypeError, match="expected a Solution"):
        plot(foreign)
    with pytest.raises(TypeError, match="expected a Solution"):
        plot_weight_path([foreign], [1.0])
    assert plt.get_fignums() == []


def test_a_path_of_one_fit(fits):
    with pytest.raises(TypeError, match=r"solutions must be a list of fits, found Solution"):
        plot_weight_path(fits["newton"], [1.0])
