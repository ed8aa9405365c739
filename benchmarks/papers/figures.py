"""Figures 1–3 of rakoto2007 and of chapelle2008, redrawn.

Data and C are the papers', and the kinds of kernels; rakoto2007 does not say its ten widths, ours
are those of gai2010. All fits stop at a certified gap of 1e-2 unless a title says otherwise;
rakoto2007 stops where weights no longer change. It takes kernels of unit trace, chapelle2008
centres them first. Each figure is a PNG in docs/figures (of a quick run, in build/figures), drawn
from results/figures.json; ``--only`` draws some of them, ``--trials`` sets the splits of
chapelle2008's figure 1: the paper has 20, ours as many as the table below says; so it is with
``--runs`` and rakoto2007's figure 3, where the paper has 5.

Who made the steps: "SimpleMKL" is ``Simple(finish=False)``, algorithm 1 of rakoto2007 alone;
"SimpleMKL, journal" adds the maximal step and dropping of its journal version, which is what
chapelle2008 compares with (``drop=True``); "HessianMKL" is ``Hessian()``, chapelle2008 alone;
"mixed" is the same after one step of SimpleMKL; "SILP" is ``Silp()``; "newton" is ours: Newton
steps with cuts, here without screening, so that every gap is one of all kernels. "SimpleMKL
finished by cuts", in rakoto2007's figure 3, is ours, too: ``Simple()``, whose last steps a bundle
method makes. Passes are gradients, or gradients with Hessians, over all kernels; times are the
processor's. The curves of chapelle2008's figure 2 end after 300 iterations, if not before.

Where ours differ: in rakoto2007's figure 1 SimpleMKL converges after fewer iterations than SILP,
both ended by the change of the weights. Here both end at a gap, and SimpleMKL takes more: its
weights soon change little, and the rule of the paper takes that for convergence. By that rule both
are in rakoto_simplemkl. In figure 3 SILP's time grows with C, as in the paper, and SimpleMKL's
falls at once after C = 100. There it stays small; here it grows again, unevenly, from the second C
on, from 0.007 s to as much as 0.6 s at C = 32. From C = 40 down to 10 it takes 3.8 s in all where
SILP takes 1.4 s, and more than twice SILP's time at 11 of 17 values of C. Below 10 every step of
either takes less than 0.04 s. Half of the values lie below 10: the axis of C is logarithmic.
Without the bundle SimpleMKL ends short of the gap at some C of a path: the table has the largest
gap.

As in chapelle2008: HessianMKL takes fewer SVMs and less time than SimpleMKL, 7 to 19 steps where
the paper has about 10, and mixing does not pay. A first step of SimpleMKL saves up to five steps,
but its line search makes the whole slower on all five sets, up to eight times. In figure 2 the gaps
are the least so far. There as in the paper SimpleMKL's gap falls faster at first, by iteration: on
ionosphere it is 0.35 after six, where HessianMKL's is 1; on liver 0.17 after five, where
HessianMKL's is 0.31. From iteration 8 on, on liver 7, HessianMKL is ahead. By SVMs it is ahead much
earlier: SimpleMKL's ten iterations are 648 of them, HessianMKL is done after 16. In figure 3 the
paper's SimpleMKL soon has nearly its last weights, which then vary little. Ours do not: the largest
last weight is 0.07 at iteration 67 and 0.19 at iteration 85, of 126. What is nearly reached soon is
the objective, not the weights: on three splits, at gap 1e-2, J is within a tenth of its minimum
after 3 or 4 iterations of SimpleMKL (journal), and within a hundredth after 44, 65 and 44 of 121,
176 and 151; after ten, the weights are still 0.97 to 1.29 from the last ones, in sums of |Δd|,
which are 2 at most. HessianMKL takes 3 to 6 iterations to a tenth and 5 to 9 to a hundredth. So the
claim holds for the objective on all three, and for the weights on none. Algorithm 1 alone stalls:
after 80 iterations J is 0.16 to 0.24 above its minimum.
"""

import pathlib
import time
import warnings

import matplotlib
import numpy as np
from sklearn.base import clone

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.internals import Watched
from benchmarks.harness.rakoto_sets import SETS, C, prepare, values_of_C
from kernelweave.inspection import plotting
from kernelweave.learners import Hessian, Newton, Silp, Simple

matplotlib.use("Agg")
from matplotlib import pyplot as plt

SHOWS = "rakoto2007, figures 1–3; chapelle2008, figures 1–3"
TOL, CLOSE = 1e-2, 1e-4
MOST = {TOL: 3000, CLOSE: 300}  # iterations; SimpleMKL's tail is longer than a figure needs
COUNTS = {None: "iteration", "solved": "SVM solves"}  # what gaps are drawn over
CLOSING = ("journal", "hessian", "newton_unscreened")  # programs whose gaps are followed to CLOSE
CENTERED = "center+unit_trace"
NEWTONS = ("journal", "hessian", "hessian_mixed", "newton_unscreened")
PROGRAMS = {
    "published": Simple(finish=False),
    "journal": Simple(drop=True, finish=False),
    "silp": Silp(),
    "hessian": Hessian(),
    "hessian_mixed": Hessian(mixed=True),
    "newton_unscreened": Newton(screen=False),
}
PATHS = {"published": PROGRAMS["published"], "silp": PROGRAMS["silp"], "simple": Simple()}
FOLLOWED = [("pima", "unit_trace"), ("ionosphere", CENTERED)]  # weights by iteration
TITLES = {
    "published": "SimpleMKL",
    "journal": "SimpleMKL, journal",
    "silp": "SILP",
    "hessian": "HessianMKL",
    "hessian_mixed": "HessianMKL, mixed",
    "newton_unscreened": "newton (ours)",
    "simple": "SimpleMKL finished by cuts (ours)",
}
COST = {"cpu": "processor time (s)", "solves": "SVM solves", "passes": "passes over the kernels"}


# ---- cells -------------------------------------------------------------------------------------


def measure(data, name, normalize, seed, learner, tol):
    """A fit; with its history where a figure shows it."""
    split, bank = prepare(name, normalize, seed, data)
    watched = Watched(clone(PROGRAMS[learner]))
    solution, record = common.fit(
        bank.stack, split.y, C=C, tol=tol, learner=watched, max_iter=MOST[tol]
    )
    record["passes"] = watched.passes
    history = solution.history
    if tol == CLOSE:
        record |= {"gaps": history["gap"], "solved": history["n_svm_solves"]}
    elif seed == 0 and (name, normalize) in FOLLOWED:
        record |= pack(watched.weights if learner == "silp" else history["weights"], bank)
        record["final"] = solution.weights
    return record


def follow(data, learner, seed, count):
    """A regularization path on ionosphere."""
    split, bank = prepare("ionosphere", "unit_trace", seed, data)
    Cs = values_of_C(count)[::-1]
    solution, weights, gaps, seconds = None, [], [], []
    for value in Cs:  # each learner's own steps alone: kw.regularization_path begins with Newton's
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {"start": solution, "tol": TOL, "max_iter": MOST[TOL]}
            solution = kw.learn(bank.stack, split.y, C=value, learner=PATHS[learner], **options)
        seconds.append(time.process_time() - began)
        weights.append(solution.weights)
        gaps.append(common.certify(bank.stack, split.y, value, solution))
    record = {"Cs": Cs, "seconds": seconds, "worst_gap": max(gaps)}
    return record | (pack(weights, bank) if seed == 0 else {})


def pack(weights, bank):
    """Rows of weights to four digits, only of kernels that matter somewhere, and their names."""
    weights = np.array(weights)
    used = np.flatnonzero(weights.max(axis=0) > 1e-3)
    return {
        "m": weights.shape[1],
        "used": used,
        "names": [bank.names[bank.kept[k]] for k in used],
        "weights": np.round(weights[:, used], 4),
    }


def unpack(cell):
    """Rows of all weights, and names of all kernels."""
    weights, names = np.zeros((len(cell["weights"]), cell["m"])), [""] * cell["m"]
    weights[:, cell["used"]] = cell["weights"]
    for k, name in zip(cell["used"], cell["names"], strict=True):
        names[k] = name
    return weights, names


def together(cells):
    """Rows of weights of each cell, names of all kernels, and seven to color alike."""
    rows, names = zip(*(unpack(cell) for cell in cells), strict=True)
    most = np.max([np.max(weights, axis=0) for weights in rows], axis=0)
    top = np.argsort(-most, kind="stable")[: len(plotting.COLORS)]
    return rows, [max(each) for each in zip(*names, strict=True)], top


def whole(count, cells_of):
    """Cells of the first splits, as far as all of them are there; at least those of one."""
    found = [cells_of(0)]
    for seed in range(1, count):
        try:
            found.append(cells_of(seed))
        except KeyError:
            break
    return found


# ---- rakoto2007 --------------------------------------------------------------------------------


def rakoto2007_1(args, get):
    """Pima: weights by iteration, and how the best ones differ."""
    silp, simple = (get("fit", "pima", "unit_trace", 0, k, TOL) for k in ("silp", "published"))
    rows, names, top = together([silp, simple])
    figure = plt.figure(figsize=(8.0, 9.5), layout="constrained")
    axes = [part.subplots() for part in figure.subfigures(3, 1)]
    for ax, weights, name in zip(axes, rows, ("silp", "published"), strict=False):
        plotting.plot_weight_history(weights, ax, names, top)
        ax.set_title(f"{TITLES[name]} on pima, C = {C:g}", loc="left")
    difference = np.subtract(silp["final"], simple["final"])
    plotting.plot_weights(difference, axes[2], names, top=12)
    axes[2].set_title(
        f"final weights, SILP − SimpleMKL; objectives differ by "
        f"{100.0 * abs(silp['value'] / simple['value'] - 1.0):.1g} %",
        loc="left",
    )
    axes[2].set_xlabel("difference of weights")
    return figure


def rakoto2007_2(args, get):
    """Ionosphere: weights along the path."""
    figure, axes = plt.subplots(2, 1, figsize=(8.0, 7.0), layout="constrained", sharex=True)
    learners = ("published", "silp")
    paths = [get("path", learner, 0) for learner in learners]
    rows, names, top = together(paths)
    for ax, learner, cell, weights in zip(axes, learners, paths, rows, strict=True):
        plotting.plot_weight_path(list(weights), cell["Cs"], ax, names, top)
        ax.set_title(
            f"{TITLES[learner]} on ionosphere, from C = {max(cell['Cs']):g} down", loc="left"
        )
    axes[0].set_xlabel("")
    axes[1].get_legend().remove()
    return figure


def rakoto2007_3(args, get):
    """Ionosphere: time for each C of the path."""
    figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    runs = whole(args.runs, lambda seed: {k: get("path", k, seed) for k in PATHS})
    for learner, color in zip(PATHS, plotting.COLORS, strict=False):
        paths = [cells[learner] for cells in runs]
        seconds = np.mean([cell["seconds"] for cell in paths], axis=0)
        ax.plot(paths[0]["Cs"], seconds, marker=".", color=color, label=TITLES[learner])
    ax.set(xlabel="C", ylabel="processor time (s)", xscale="log", yscale="log")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    ax.set_title(f"path on ionosphere, from C = 100 down, mean of {len(runs)} runs", loc="left")
    rows = []
    for learner in PATHS:
        seconds = np.array([cells[learner]["seconds"] for cells in runs])
        gap = max(cells[learner]["worst_gap"] for cells in runs)
        row = [seconds.sum(axis=1).mean(), seconds[:, 0].mean(), seconds[:, 1:].mean(), gap]
        rows.append([TITLES[learner], len(runs), *row])
    header = ["path", "runs", "CPU-s", "of C = 100", "of each later C", "largest gap"]
    common.table(header, rows)
    return figure


# ---- chapelle2008 ------------------------------------------------------------------------------


def chapelle2008_1(args, get):
    """What SimpleMKL, HessianMKL, the mixture of both, and newton cost on five sets."""
    pairs = [(name, learner) for name in args.sets for learner in NEWTONS]
    found = whole(
        args.trials,
        lambda seed: {pair: get("fit", pair[0], CENTERED, seed, pair[1], TOL) for pair in pairs},
    )
    records = {pair: [cells[pair] for cells in found] for pair in pairs}
    figure, axes = plt.subplots(1, 3, figsize=(10.0, 6.0), layout="constrained", sharey=True)
    for ax, (field, label) in zip(axes, COST.items(), strict=True):
        for place, learner in enumerate(NEWTONS):
            values = [[r[field] for r in records[name, learner]] for name in args.sets]
            bars = ax.barh(
                np.arange(len(values)) + 0.21 * (place - 1.5),
                [np.mean(v) for v in values],
                height=0.2,
                color=plotting.COLORS[place],
                label=TITLES[learner],
            )
            ax.bar_label(bars, fmt="{:#.2g}" if field == "cpu" else "{:.0f}", padding=3)
        ax.set(xlabel=label, xscale="log")
        ax.margins(x=0.25)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(np.arange(len(args.sets)), args.sets)
    axes[0].invert_yaxis()
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=4, frameon=False)
    rows = [
        [name, TITLES[learner], len(cells), sum(c["reached"] for c in cells)]
        + [common.mean(cells, field) for field in (*COST, "iterations")]
        for (name, learner), cells in records.items()
    ]
    common.table(["data", "program", "splits", "reached", *COST, "iterations"], rows)
    return figure


def chapelle2008_2(args, get):
    """Ionosphere and liver: the gap by iteration and by SVM solves."""
    figure, axes = plt.subplots(2, 2, figsize=(9.0, 6.5), layout="constrained", sharey="row")
    for row, name in zip(axes, ("ionosphere", "liver"), strict=True):
        cells = {k: get("fit", name, CENTERED, 0, k, CLOSE) for k in CLOSING}
        for ax, (field, label) in zip(row, COUNTS.items(), strict=True):
            for (k, cell), color in zip(cells.items(), plotting.COLORS, strict=False):
                at = cell[field] if field else np.arange(1, len(cell["gaps"]) + 1)
                ax.step(at, cell["gaps"], where="post", color=color, label=TITLES[k])
            ax.set(xscale="log", yscale="log", xlabel=label)
            ax.spines[["top", "right"]].set_visible(False)
            ax.axhline(TOL, color=plotting.GRAY, linewidth=0.8, zorder=1.0)
            ax.set_title(f"{name}, to gap {CLOSE:g}", loc="left")
        place = {"transform": row[0].get_yaxis_transform(), "ha": "left", "va": "bottom"}
        row[0].text(0.02, TOL, "the paper stops here", fontsize="small", color="#666666", **place)
        row[0].set_ylabel("relative duality gap")
    axes[0, 0].legend(frameon=False)
    return figure


def chapelle2008_3(args, get):
    """Ionosphere: weights by iteration."""
    learners = ("journal", "hessian")
    cells = [get("fit", "ionosphere", CENTERED, 0, learner, TOL) for learner in learners]
    rows, names, top = together(cells)
    figure, axes = plt.subplots(2, 1, figsize=(8.0, 7.0), layout="constrained", sharey=True)
    for ax, learner, weights in zip(axes, learners, rows, strict=True):
        plotting.plot_weight_history(weights, ax, names, top)
        ax.set_title(f"{TITLES[learner]} on ionosphere, C = {C:g}", loc="left")
    return figure


FIGURES = [rakoto2007_1, rakoto2007_2, rakoto2007_3]
FIGURES += [chapelle2008_1, chapelle2008_2, chapelle2008_3]


def wanted(args):
    """The cells that the figures are drawn from."""
    drawn = {
        "rakoto2007_1": [("fit", "pima", "unit_trace", 0, k, TOL) for k in ("silp", "published")],
        "rakoto2007_2": [("path", k, 0) for k in ("published", "silp")],
        "rakoto2007_3": [("path", k, s) for s in range(args.runs) for k in PATHS],
        "chapelle2008_1": [
            ("fit", name, CENTERED, seed, learner, TOL)
            for seed in range(args.trials)
            for name in args.sets
            for learner in NEWTONS
        ],
        "chapelle2008_2": [
            ("fit", name, CENTERED, 0, learner, CLOSE)
            for name in ("ionosphere", "liver")
            for learner in CLOSING
        ],
        "chapelle2008_3": [("fit", "ionosphere", CENTERED, 0, k, TOL) for k in NEWTONS[:2]],
    }
    return [key for name, keys in drawn.items() if name in args.only for key in keys]


def main():
    names = [draw.__name__ for draw in FIGURES]
    args = common.arguments(
        __doc__,
        out={"type": pathlib.Path, "help": "folder for the PNGs (docs/figures)"},
        trials={"type": int, "default": 20, "help": "splits of chapelle2008's figure 1"},
        runs={"type": int, "default": 5, "help": "paths of rakoto2007's figure 3"},
        only={"nargs": "+", "choices": names, "default": names, "metavar": "FIGURE"},
    )
    args.values, args.sets = 100, SETS
    if args.quick:
        args.values, args.runs, args.trials = 8, 1, 1
    results = common.Results("figures", args)
    plan = []
    for key in dict.fromkeys(wanted(args)):
        if key[0] == "path":
            plan.append((key, follow, args.data, *key[1:], args.values))
        else:
            plan.append((key, measure, args.data, *key[1:]))
    results.fill(plan)
    out = args.out or common.output_folder("figures", args.quick)
    out.mkdir(parents=True, exist_ok=True)
    for draw in FIGURES:
        if draw.__name__ not in args.only:
            continue
        try:
            figure = draw(args, lambda *key: results.cells["/".join(map(str, key))])
        except KeyError as error:
            print(f"{draw.__name__} is not drawn: no cell {error}\n")
            continue
        figure.savefig(out / f"{draw.__name__}.png", dpi=110)
        plt.close(figure)
        print(f"{draw.__name__}: {draw.__doc__}\n")
        print(f"![{draw.__doc__}](../figures/{draw.__name__}.png)\n")
    short = [key for key, c in results.cells.items() if not c.get("reached", True)]
    for key in short:
        print(f"- {key}: gap {results.cells[key]['gap']:.2g}, short of its tol")


if __name__ == "__main__":
    main()
