"""Plots of a fit: its gap over time, its weights by iteration and by C, and its kernels.

Every function draws on the given axes, or on those of a new figure, and returns them; no other
state of matplotlib is touched. A fit is a ``Solution`` or a fitted estimator; an estimator also has
the names of its kernels. If its machines have weights of their own, convergence is drawn for each
of them, and weights by their mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._core.checks import check_choice, shown
from kernelweave._core.extras import missing
from kernelweave._core.types import Array
from kernelweave.inspection._fits import (
    chosen_kernels,
    found_instead,
    history_of,
    is_one,
    kernel_labels,
    named_fits,
    weights_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Okabe and Ito's colors, which color-blind readers can tell apart; without yellow, too light
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", ":", "-.")
GRAY = "#BBBBBB"
X_LABELS = {"seconds": "time (s)", "n_svm_solves": "SVM solves", "iteration": "iteration"}
Y_LABELS = {"gap": "relative duality gap", "objective": "objective"}
FEW = 30  # up to this many points, each has a marker


def plot_convergence(
    solutions: Any,
    ax: Axes | None = None,
    x: str = "seconds",
    y: str = "gap",
) -> Axes:
    """Gap or objective over time, SVM solves or iterations: one step curve per fit.

    Parameters
    ----------
    solutions : fit, list of fits, or mapping of names to fits
        Names appear in the legend.
    ax : matplotlib axes, optional
        By default those of a new figure.
    x : "seconds", "n_svm_solves" or "iteration"
        The effort; time and solves on a log axis.
    y : "gap" or "objective"
        The best value so far; the gap on a log axis.

    Returns
    -------
    matplotlib axes
    """
    check_choice("x", x, X_LABELS)
    check_choice("y", y, Y_LABELS)
    curves = []
    for name, fit in named_fits(solutions):
        history = history_of(fit)
        ys = np.asarray(history[y], dtype=float)
        xs = np.arange(1, ys.size + 1) if x == "iteration" else np.asarray(history[x], dtype=float)
        curves.append((name, xs, ys))
    ax = _axes(ax)
    for name, xs, ys in curves:
        place = len(ax.lines)
        label = f"fit {place + 1}" if name is None else name
        marker = "." if ys.size <= FEW else ""
        ax.plot(xs, ys, label=label, marker=marker, drawstyle="steps-post", **_look(place))
    if x == "iteration":
        _whole_numbers(ax)
    else:
        _log_axis(ax)
    if y == "gap" and any((ys > 0.0).any() for _, _, ys in curves):
        ax.set_yscale("log")
    _finish(ax, X_LABELS[x], Y_LABELS[y])
    if len(ax.lines) > 1:
        ax.legend(frameon=False)
    return ax


def plot_weights(
    fit: Any,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
    top: int | Sequence[int] = 20,
) -> Axes:
    """Kernel weights as horizontal bars, the heaviest first; the axis label sums up the rest.

    Parameters
    ----------
    fit : fit, or array (m,)
        Weights, or differences of weights: negative ones are drawn to the left.
    ax : matplotlib axes, optional
        By default those of a new figure.
    names : sequence of str, optional
        One per kernel; by default those of the estimator, or numbers from 0.
    top : int or sequence of int
        The largest number of bars (weights of zero get none), or the kernels to show, in order.

    Returns
    -------
    matplotlib axes
    """
    weights = weights_of(fit)
    labels = kernel_labels(names, fit, weights.size)
    shown = chosen_kernels(top, np.abs(weights))
    rest = np.setdiff1d(np.flatnonzero(weights), shown)
    signed = bool((weights < 0.0).any())
    ax = _axes(ax)
    if shown.size:
        colors = [COLORS[0] if weight > 0.0 else COLORS[1] for weight in weights[shown]]
        bars = ax.barh(np.arange(shown.size), weights[shown], height=0.7, color=colors)
        ax.bar_label(bars, fmt=_number, padding=3, fontsize="small", color="#444444")
        ax.margins(x=0.2 if signed else 0.12)
    ax.set_yticks(np.arange(shown.size), [labels[k] for k in shown])
    ax.set_ylim(max(shown.size, 1) - 0.4, -0.6)
    if signed:
        ax.axvline(0.0, color="black", linewidth=0.8)
    _finish(ax, "weight" + _remainder(weights[rest], signed), "")
    ax.tick_params(axis="y", length=0)
    return ax


def plot_weight_path(
    solutions: Iterable[Any],
    Cs: ArrayLike,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
    top: int | Sequence[int] = len(COLORS),
) -> Axes:
    """Kernel weights along a regularization path, C on a log axis.

    Parameters
    ----------
    solutions : list of fits, or of arrays (m,)
        One per C, as ``regularization_path`` returns them.
    Cs : array
        Positive numbers, in the order of ``solutions``.
    ax : matplotlib axes, optional
        By default those of a new figure.
    names : sequence of str, optional
        One per kernel; by default those of the estimators, or numbers from 0.
    top : int or sequence of int
        How many kernels get a color and a name, by their largest weight on the path; or the
        kernels themselves, in order, for the same colors in several plots.

    Returns
    -------
    matplotlib axes
    """
    if not isinstance(solutions, Iterable) or is_one(solutions):
        raise TypeError(f"solutions must be a list of fits, found {found_instead(solutions)}")
    fits = list(solutions)
    values = np.asarray(Cs, dtype=float)
    if not fits:
        raise ValueError("solutions is empty")
    if values.shape != (len(fits),):
        raise ValueError(
            f"Cs must hold one number for each of {len(fits)} solutions, found shape {values.shape}"
        )
    if not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError("Cs must be positive and finite: the axis is logarithmic")
    rows = [weights_of(fit) for fit in fits]
    sizes = sorted({row.size for row in rows})
    if len(sizes) > 1:
        raise ValueError(f"solutions must have the same number of kernels, found {sizes}")
    labels = kernel_labels(names, fits[0], sizes[0])
    order = np.argsort(values, kind="stable")
    weights = np.array(rows)[order]
    named = chosen_kernels(top, np.abs(weights).max(axis=0))
    ax = _axes(ax)
    _lines(ax, values[order], weights, named, labels)
    _log_axis(ax)
    _finish(ax, "C", "weight")
    _legend_beside(ax)
    return ax


def plot_weight_history(
    fit: Any,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
    top: int | Sequence[int] = len(COLORS),
) -> Axes:
    """Kernel weights by iteration.

    The history of a fit holds the best weights so far, not those of rejected steps.

    Parameters
    ----------
    fit : fit, or array (iterations, m)
        The weights are ``history["weights"]`` of the fit.
    ax : matplotlib axes, optional
        By default those of a new figure.
    names : sequence of str, optional
        One per kernel; by default those of the estimator, or numbers from 0.
    top : int or sequence of int
        How many kernels get a color and a name, by their weight at the end; or the kernels
        themselves, in order, for the same colors in several plots.

    Returns
    -------
    matplotlib axes
    """
    given = fit if isinstance(fit, np.ndarray | list | tuple) else history_of(fit)["weights"]
    weights = np.asarray(given, dtype=float)
    if weights.ndim != 2 or weights.size == 0:
        raise ValueError(
            f"a history of weights has shape (iterations, kernels), found {weights.shape}"
        )
    labels = kernel_labels(names, fit, weights.shape[1])
    named = chosen_kernels(top, np.abs(weights[-1]))
    ax = _axes(ax)
    _lines(ax, np.arange(1, len(weights) + 1), weights, named, labels)
    _whole_numbers(ax)
    _finish(ax, "iteration", "weight")
    _legend_beside(ax)
    return ax


# ---- drawing ------------------------------------------------------------------------------------


def plot_cv_scores(model: Any, ax: Axes | None = None) -> Axes:
    """Mean score over C of every bank (color) and weight norm (dashes); a ring marks the choice.

    Parameters
    ----------
    model : MKLClassifierCV or MKLRegressorCV, fitted
    ax : matplotlib axes, optional
        By default those of a new figure.

    Returns
    -------
    matplotlib axes
    """
    found = getattr(model, "cv_results_", {})
    needed = [f"param_{name}" for name in ("bank", "weight_norm", "C")]
    if not all(name in found for name in needed):
        raise TypeError(
            f"model must be a fitted MKLClassifierCV or MKLRegressorCV, found {shown(model)}"
        )
    bank, norm, C = (np.array(found[name].tolist(), dtype=object) for name in needed)
    score = found["mean_test_score"]
    ax = _axes(ax)
    for i, name in enumerate(dict.fromkeys(bank)):
        for j, p in enumerate(dict.fromkeys(norm)):
            rows = np.flatnonzero((bank == name) & (norm == p))
            rows = rows[np.argsort(C[rows])]
            weights = "equal weights" if isinstance(p, str) else f"norm {_number(p)}"
            look: dict[str, Any] = {
                "color": COLORS[i % len(COLORS)],
                "linestyle": STYLES[j % len(STYLES)],
            }
            ax.plot(C[rows], score[rows], label=f"{name}, {weights}", marker=".", **look)
    best = model.best_index_
    ring: dict[str, Any] = {
        "markersize": 10,
        "markerfacecolor": "none",
        "markeredgecolor": COLORS[-1],
    }
    ax.plot([C[best]], [score[best]], "o", label="chosen", **ring)
    _log_axis(ax)
    _finish(ax, "C", "mean score over folds")
    _legend_beside(ax)
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise missing("plotting needs", "matplotlib", "plot") from None
    return pyplot.subplots(layout="constrained")[1]


def _look(place: int) -> dict[str, Any]:
    """Color and dashes of line number ``place``."""
    return {
        "color": COLORS[place % len(COLORS)],
        "linestyle": STYLES[place // len(COLORS) % len(STYLES)],
        "linewidth": 1.5,
    }


def _lines(
    ax: Axes, xs: NDArray[Any], weights: Array, named: NDArray[np.intp], labels: list[str]
) -> None:
    """One line per kernel that ever has a weight: colored if named, else thin and gray."""
    others = np.setdiff1d(np.flatnonzero(weights.any(axis=0)), named)
    marker = "." if len(xs) <= FEW else ""
    for place, k in enumerate(named):
        ax.plot(xs, weights[:, k], label=labels[k], marker=marker, **_look(place))
    if others.size:  # one artist with breaks, since there may be thousands
        lines = np.vstack([weights[:, others], np.full(others.size, np.nan)])
        ax.plot(
            np.tile(np.append(xs, np.nan), others.size),
            lines.T.ravel(),
            color=GRAY,
            linewidth=0.6,
            marker=marker,
            markersize=2.0,
            zorder=1.5,
            label=f"{others.size} {'other' if others.size == 1 else 'others'}",
        )
    ax.update_datalim([(xs[0], 0.0)])
    for line in ax.lines:
        line.sticky_edges.y.append(0.0)  # no margin below zero
    ax.autoscale_view()


def _legend_beside(ax: Axes) -> None:
    """A legend to the right if the figure's layout makes room for it, else inside the axes."""
    if not ax.lines:
        return
    if ax.figure.get_layout_engine() is None:
        ax.legend(fontsize="small")
    else:
        ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _log_axis(ax: Axes) -> None:
    """Make x a log axis whose labels are plain numbers."""
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):  # labels between powers of ten if those are too few
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(Plain())


def _whole_numbers(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def _finish(ax: Axes, x: str, y: str) -> None:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.spines[["top", "right"]].set_visible(False)


def _number(x: float) -> str:
    return f"{x:.3g}".replace("-", "−")


def _remainder(weights: Array, signed: bool) -> str:
    """Summary of the kernels that have no bar."""
    if not weights.size:
        return ""
    more = f"{weights.size} more {'kernel' if weights.size == 1 else 'kernels'}"
    if signed:
        return f" ({more}, each within ±{np.abs(weights).max():.2g})"
    return f" ({more}: {weights.sum():.3g} together)"
