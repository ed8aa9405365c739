"""Charts as images in data URLs, drawn without pyplot: nothing of a session is touched."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, roc_auc_score, roc_curve

from kernelweave._core.extras import missing
from kernelweave._core.types import Array
from kernelweave.estimators._times import kaplan_meier
from kernelweave.inspection.draws import WeightDraws, WeightPath
from kernelweave.inspection.features import FeatureImportance
from kernelweave.inspection.held_out import HeldOut
from kernelweave.inspection.html.bars import colors
from kernelweave.inspection.html.facts import Predicted, Reliability
from kernelweave.inspection.importance import SHUFFLED
from kernelweave.inspection.interval_plots import plot_intervals
from kernelweave.inspection.plotting import COLORS, GRAY, plot_convergence, plot_weight_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _BROAD, _DPI = 4.8, 8.0, 140  # inches: two charts side by side, or one alone
_MOST_CLASSES = len(COLORS)
_OTHERS = 20  # models that the first is compared with


@dataclass(frozen=True)
class Chart:
    """An image and what it shows, in words."""

    url: str
    words: str
    broad: bool = False


def chart(
    words: str, draw: Callable[[Axes], Any], height: float = 3.2, broad: bool = False
) -> Chart:
    """What ``draw`` puts on its axes, in matplotlib's own style, whatever a session has set."""
    try:
        from matplotlib import style
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise missing("charts need", "matplotlib", "report") from None
    buffer = BytesIO()
    with style.context("default"):
        size = (_BROAD if broad else _WIDTH, height)
        figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.subplots())
        figure.savefig(buffer, format="png", facecolor="white", metadata={"Software": None})
    data = base64.b64encode(buffer.getvalue()).decode()
    return Chart(f"data:image/png;base64,{data}", words, broad)


def plain(name: object, most: int = 40) -> str:
    """A name as matplotlib shows it: no mathematics, and not too long, cut in the middle."""
    text = " ".join(str(name).split())
    if len(text) > most:
        text = f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"
    return text.replace("$", r"\$")


def labels(names: Sequence[object], most: int = 40) -> list[str]:
    """Names as matplotlib shows them; those that are alike when cut are numbered."""
    short = [plain(name, most) for name in names]
    return [
        text if short.count(text) == 1 else f"{text} ({short[: place + 1].count(text)})"
        for place, text in enumerate(short)
    ]


def _tall(count: int) -> float:
    return 1.2 + 0.26 * count


def weights(draws: WeightDraws, top: int = 20) -> Chart:
    """Weights of kernels, with intervals, in the colors of their views."""
    columns = draws.summary(draws.weights, draws.draws)
    shown = np.argsort(-np.maximum(draws.weights, columns["high"]), kind="stable")[:top]
    color = colors(tuple(dict.fromkeys(draws.views)))
    return chart(
        f"Weight of each kernel; bars: {100 * draws.level:g} % of {len(draws.draws)} resamples.",
        lambda ax: plot_intervals(
            labels([draws.names[k] for k in shown]),
            draws.weights[shown],
            columns["low"][shown],
            columns["high"][shown],
            ax,
            "weight",
            color=[color[draws.views[k]] for k in shown],
        ),
        _tall(len(shown)),
        broad=True,
    )


def columns(found: FeatureImportance, views: Sequence[str], top: int = 15) -> Chart:
    """The columns that the model uses most, in the colors of their views; gray where several."""
    low, high = found.intervals
    shown = np.argsort(-found.importance, kind="stable")[:top]
    known = colors(tuple(views))
    return chart(
        f"What the model uses: the {len(shown)} columns that change its value most.",
        lambda ax: plot_intervals(
            labels([found.columns[k] for k in shown]),
            found.importance[shown],
            low[shown],
            high[shown],
            ax,
            "importance",
            color=[known.get(found.views[k], GRAY) for k in shown],
        ),
        _tall(len(shown)),
        broad=True,
    )


def differences(scores: HeldOut) -> Chart:
    """By how much the first model is better than others."""
    others = sorted(scores.names[1:], key=lambda name: -scores.difference(name)[0])[:_OTHERS]
    known = colors(tuple(name.removesuffix(SHUFFLED) for name in scores.names[1:]))
    shuffled = all(name.endswith(SHUFFLED) for name in others)
    found = np.array([scores.difference(name) for name in others]).T
    return chart(
        f"{scores.scoring} of {scores.names[0]} less that of others, with intervals.",
        lambda ax: plot_intervals(
            labels(others),
            found[0],
            found[1],
            found[2],
            ax,
            plain(f"{scores.scoring} of {scores.names[0]}, less that of …", 80),
            zero=True,
            color=[known[name.removesuffix(SHUFFLED)] for name in others] if shuffled else None,
        ),
        _tall(len(others)),
        broad=True,
    )


def path(found: WeightPath) -> Chart:
    """Weights of views, or of kernels where there is one view, by C."""
    by_view = len(set(found.views)) > 1
    keys = found.views if by_view else found.names
    names = list(dict.fromkeys(keys))
    sums = np.array(
        [[row[[k == name for k in keys]].sum() for name in names] for row in found.weights]
    )
    return chart(
        f"Weight of each {'view' if by_view else 'kernel'} for several C.",
        lambda ax: plot_weight_path(
            list(sums), found.Cs, ax, labels(names, 25), range(min(len(names), _MOST_CLASSES))
        ),
        broad=True,
    )


def convergence(model: Any) -> Chart:
    """The gap over time."""
    return chart(
        "Relative duality gap over time.",
        lambda ax: plot_convergence(model, ax, x="seconds"),
        2.8,
        broad=True,
    )


def roc(found: Predicted, positive: Any) -> Chart:
    """The ROC curve of rows held out."""
    truth = found.truth == positive
    wrong, right, _ = roc_curve(truth, found.scores)
    area = roc_auc_score(truth, found.scores)

    def draw(ax: Axes) -> None:
        ax.plot([0, 1], [0, 1], ":", color="#888888")
        ax.plot(wrong, right, color=COLORS[0])
        ax.set_aspect("equal")
        ax.set_xlabel("share of other rows taken for it")
        ax.set_ylabel(plain(f"share of class {positive} found"))

    return chart(f"ROC curve of rows held out; area under it {area:.3f}.", draw, 3.6)


def reliability(found: Reliability) -> Chart:
    """Probabilities of rows held out, and how often they came true."""

    def draw(ax: Axes) -> None:
        ax.plot([0, 1], [0, 1], ":", color="#888888")
        ax.vlines(found.said, found.low, found.high, color=COLORS[0], linewidth=2.0)
        ax.plot(found.said, found.found, "o-", color=COLORS[0], linewidth=1.0)
        ax.set(xlim=(0.0, 1.0), ylim=(-0.02, 1.02))
        ax.set_xlabel(plain(f"probability of {found.what}", 60))
        ax.set_ylabel("share that came true")

    words = f"Reliability of probabilities of rows held out; Brier score {found.brier:.3f}."
    return chart(words, draw, 3.6, broad=True)


def confusion(found: Predicted, classes: NDArray[Any]) -> Chart:
    """Counts of rows by their class and the class predicted."""
    counts = confusion_matrix(found.truth, found.said, labels=classes)
    names = labels(list(classes), 16)

    def draw(ax: Axes) -> None:
        _heat(ax, counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), names, 0.0)
        for (i, j), count in np.ndenumerate(counts) if len(classes) <= 12 else ():
            dark = count > 0.5 * counts[i].sum()
            ax.text(j, i, count, ha="center", va="center", color="white" if dark else "black")
        ax.set_xlabel("predicted class")
        ax.set_ylabel("true class")

    return chart("Confusion matrix of rows held out.", draw, 3.6)


def risk_thirds(found: Predicted) -> Chart:
    """Kaplan–Meier curves of the thirds of rows held out, by the risk predicted."""
    risk = found.said if found.scores is None else found.scores
    third = np.searchsorted(np.quantile(risk, (1 / 3, 2 / 3)), risk)

    def draw(ax: Axes) -> None:
        for part, name in enumerate(("lowest third of risks", "middle", "highest")):
            rows = found.truth[third == part]
            if not len(rows):  # equal risks
                continue
            times, share, error = kaplan_meier(rows["time"], rows["event"])
            last = rows["time"].max()
            at, left = np.r_[0.0, times, last], np.r_[1.0, share, share[-1:], 1.0][: len(times) + 2]
            off = 1.96 * np.r_[0.0, error, error[-1:], 0.0][: len(times) + 2]
            ax.step(at, left, where="post", color=COLORS[part], label=f"{name} ({len(rows)} rows)")
            band = np.clip(left - off, 0.0, 1.0), np.clip(left + off, 0.0, 1.0)
            ax.fill_between(at, *band, step="post", color=COLORS[part], alpha=0.15, linewidth=0)
        ax.set_ylim(0.0, 1.02)
        ax.set_xlabel("time")
        ax.set_ylabel("share without the event")
        ax.legend(fontsize="small", frameon=False)

    return chart(
        "Share without the event over time, by thirds of the risk predicted for rows held out "
        "(Kaplan–Meier, with 95 % bands). The further apart the curves, the more the risk tells.",
        draw,
        3.6,
        broad=True,
    )


def residuals(found: Predicted, targets: Array) -> Chart:
    """Predictions of rows held out against their targets."""
    truth, said = targets.reshape(len(targets), -1), found.said
    said = said.reshape(truth.shape)

    def draw(ax: Axes) -> None:
        for target in range(min(truth.shape[1], _MOST_CLASSES)):
            ax.plot(said[:, target], truth[:, target] - said[:, target], ".", color=COLORS[target])
        ax.axhline(0.0, color="#888888", linewidth=1.0)
        ax.set_xlabel("prediction")
        ax.set_ylabel("target less prediction")

    return chart("Residuals of rows held out.", draw, broad=True)


def alignment(names: Sequence[str], values: Array) -> Chart:
    """How alike kernels are, and how alike the target."""
    shown = [f"{plain(name)}  {number}" for number, name in enumerate(names)]

    def draw(ax: Axes) -> None:
        _heat(ax, values, shown, min(0.0, float(values.min())))
        ax.set_xticks(range(len(names)), [str(k) for k in range(len(names))], rotation=0)

    words = "Centered alignment of kernels with one another and with the target."
    return chart(words, draw, 1.2 + 0.2 * len(names), broad=True)


def points(places: Array, targets: NDArray[Any], classes: NDArray[Any] | None) -> Chart:
    """Kernel PCA of the learned kernel."""

    def draw(ax: Axes) -> None:
        if classes is None:
            ax.scatter(
                places[:, 0], places[:, 1], c=np.asarray(targets, dtype=float), s=10, cmap="viridis"
            )
        else:
            for k, name in enumerate(classes[:_MOST_CLASSES]):
                mine = targets == name
                ax.plot(*places[mine].T, ".", color=COLORS[k], label=plain(name, 20))
            ax.legend(fontsize="small", frameon=False)
        ax.set_xlabel("first direction")
        ax.set_ylabel("second direction")

    words = "Rows in the two main directions of the learned kernel."
    return chart(words, draw, 3.6, broad=True)


def _heat(ax: Axes, values: Array, names: Sequence[str], low: float) -> None:
    image = ax.imshow(values, cmap="Blues", vmin=low, vmax=1.0)
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    size = "small" if len(names) <= 20 else "x-small"
    ax.set_xticks(range(len(names)), names, rotation=90 if len(names) > 3 else 0, fontsize=size)
    ax.set_yticks(range(len(names)), names, fontsize=size)
