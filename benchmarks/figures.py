"""Figures 1–3 of rakoto2007 and of chapelle2008, redrawn.

Data, kernels and C are the papers'; all fits stop at a certified gap of 1e-2 unless a title says
otherwise. rakoto2007 takes kernels of unit trace, chapelle2008 centres them first. Each figure
is a PNG; ``--only`` draws some of them.
"""

import argparse
import os
import pathlib
import warnings
from functools import cache

import common
import matplotlib
import numpy as np
from path_cost import values_of_C
from rakoto_gaps import SETS, C, prepare

import kernelweave as kw
from kernelweave import plotting
from kernelweave.learners import make_learner
from kernelweave.learners.newton import Newton

matplotlib.use("Agg")
from matplotlib import pyplot as plt

TOL, CLOSE = 1e-2, 1e-4
TITLES = {"simple": "SimpleMKL", "silp": "SILP", "newton": "Newton", "mixed": "Newton, mixed"}
COST = {"seconds": "time (s)", "solves": "SVM solves", "passes": "passes over the kernels"}


class Watched:
    """A learner, the weights it solves at, and its passes over all kernels.

    A pass gives the gradient, gradient and Hessian together, or the bound that a mixture of
    solutions proves.
    """

    def __init__(self, name):
        self.learner = Newton(mixed=True) if name == "mixed" else make_learner(name)
        self.weights, self.passes = [], 0

    def iterate(self, oracle, e, tol):
        solve, quads, products = oracle.solve, oracle.quads, oracle.products

        def watched_solve(e, tol):
            self.weights.append(oracle.weight_set.scale * e)
            return solve(e, tol)

        def watched_quads(v, kernels=None):
            self.passes += kernels is None  # else it fills in what an earlier pass left out
            return quads(v, kernels)

        def watched_products(point, kernels=None):
            self.passes += 1
            return products(point, kernels)

        oracle.solve, oracle.quads, oracle.products = watched_solve, watched_quads, watched_products
        yield from self.learner.iterate(oracle, e, tol)


def problem(args, name, normalize, seed=0):
    """Kernels, labels and the names of the kernels."""
    split, bank = prepare(name, normalize, seed, args.data)
    return bank.stack, split.y, [bank.names[k] for k in bank.kept]


def fit(stack, y, learner, tol=TOL):
    """The solution, how it went, and the learner with what was watched."""
    watched = Watched(learner)
    solution, record = common.fit(stack, y, C=C, tol=tol, learner=watched, max_iter=100_000)
    if not record["reached"]:
        print(f"{TITLES[learner]}: gap {record['gap']:.2g}, not {tol:g}")
    return solution, {**record, "passes": watched.passes}, watched


def heaviest(solutions):
    """Seven kernels to colour alike in several panels."""
    weights = np.max([solution.weights for solution in solutions], axis=0)
    return np.argsort(-weights, kind="stable")[: len(plotting.COLORS)]


# ---- rakoto2007 --------------------------------------------------------------------------------


def rakoto2007_1(args):
    """Pima: weights by iteration, and how the best ones differ."""
    stack, y, names = problem(args, "pima", "unit_trace")
    (silp, _, watched), (simple, _, _) = fit(stack, y, "silp"), fit(stack, y, "simple")
    figure = plt.figure(figsize=(8.0, 9.5), layout="constrained")
    axes = [part.subplots() for part in figure.subfigures(3, 1)]
    top = heaviest([silp, simple])
    plotting.plot_weight_history(np.array(watched.weights), axes[0], names, top)
    plotting.plot_weight_history(simple, axes[1], names, top)
    plotting.plot_weights(silp.weights - simple.weights, axes[2], names, top=12)
    for ax, name in zip(axes, ("silp", "simple"), strict=False):
        ax.set_title(f"{TITLES[name]} on pima, C = {C:g}", loc="left")
    axes[2].set_title(
        f"final weights, SILP − SimpleMKL; objectives differ by "
        f"{100.0 * abs(silp.objective / simple.objective - 1.0):.1g} %",
        loc="left",
    )
    axes[2].set_xlabel("difference of weights")
    return figure


@cache
def path(data, learner, count, seed):
    """A regularisation path on ionosphere, its values of C, and the names of its kernels."""
    split, bank = prepare("ionosphere", "unit_trace", seed, data)
    Cs = values_of_C(count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solutions = kw.regularization_path(bank.stack, split.y, Cs, learner=learner, tol=TOL)
    gaps = [
        common.certify(bank.stack, split.y, value, solution)
        for value, solution in zip(Cs, solutions, strict=True)
    ]
    seconds = sum(solution.seconds for solution in solutions)
    print(f"path {seed} of {TITLES[learner]}: {seconds:.1f} s, largest gap {max(gaps):.2g}")
    return solutions, Cs, [bank.names[k] for k in bank.kept]


def rakoto2007_2(args):
    """Ionosphere: weights along the path."""
    figure, axes = plt.subplots(2, 1, figsize=(8.0, 7.0), layout="constrained", sharex=True)
    paths = {learner: path(args.data, learner, args.values, 0) for learner in ("simple", "silp")}
    top = heaviest([solution for solutions, _, _ in paths.values() for solution in solutions])
    for ax, (learner, (solutions, Cs, names)) in zip(axes, paths.items(), strict=True):
        plotting.plot_weight_path(solutions, Cs, ax, names, top)
        ax.set_title(f"{TITLES[learner]} on ionosphere, from C = {Cs.max():g} down", loc="left")
    axes[0].set_xlabel("")
    axes[1].get_legend().remove()
    return figure


def rakoto2007_3(args):
    """Ionosphere: time for each C of the path."""
    figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for learner, color in zip(("silp", "simple"), plotting.COLORS, strict=False):
        runs = [path(args.data, learner, args.values, seed) for seed in range(args.runs)]
        seconds = np.mean([[s.seconds for s in solutions] for solutions, _, _ in runs], axis=0)
        ax.plot(runs[0][1], seconds, marker=".", color=color, label=TITLES[learner])
    ax.set(xlabel="C", ylabel="time (s)", yscale="log")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    ax.set_title(f"path on ionosphere, from C = 100 down, mean of {args.runs} runs", loc="left")
    return figure


# ---- chapelle2008 ------------------------------------------------------------------------------


def chapelle2008_1(args):
    """What simple, newton and newton with a first step of simple cost on five sets."""
    learners = ["simple", "newton", "mixed"]
    records = {}
    for name in args.sets:
        for seed in range(args.trials):
            stack, y, _ = problem(args, name, "center+unit_trace", seed)
            for learner in learners:
                records.setdefault((name, learner), []).append(fit(stack, y, learner)[1])
    figure, axes = plt.subplots(1, 3, figsize=(10.0, 4.6), layout="constrained", sharey=True)
    for ax, (field, label) in zip(axes, COST.items(), strict=True):
        for place, learner in enumerate(learners):
            values = [[r[field] for r in records[name, learner]] for name in args.sets]
            bars = ax.barh(
                np.arange(len(values)) + 0.27 * (place - 1),
                [np.mean(v) for v in values],
                height=0.25,
                color=plotting.COLORS[place],
                label=TITLES[learner],
            )
            ax.bar_label(bars, fmt="{:#.2g}" if field == "seconds" else "{:.0f}", padding=3)
        ax.set_xlabel(label)
        ax.margins(x=0.15)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(np.arange(len(args.sets)), args.sets)
    axes[0].invert_yaxis()
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=3, frameon=False)
    rows = [
        [name, learner, *(common.mean(cells, field) for field in COST)]
        for (name, learner), cells in records.items()
    ]
    common.table(["data", "learner", *COST], rows)
    return figure


def chapelle2008_2(args):
    """Ionosphere and liver: the gap by iteration and by SVM solves."""
    figure, axes = plt.subplots(2, 2, figsize=(9.0, 6.5), layout="constrained", sharey="row")
    for row, name in zip(axes, ("ionosphere", "liver"), strict=True):
        stack, y, _ = problem(args, name, "center+unit_trace")
        fits = {TITLES[k]: fit(stack, y, k, CLOSE)[0] for k in ("simple", "newton")}
        for ax, x in zip(row, ("iteration", "n_svm_solves"), strict=True):
            plotting.plot_convergence(fits, ax, x=x)
            ax.axhline(TOL, color=plotting.GREY, linewidth=0.8, zorder=1.0)
            ax.set_title(f"{name}, to gap {CLOSE:g}", loc="left")
        place = {"transform": row[0].get_yaxis_transform(), "ha": "right", "va": "bottom"}
        row[0].text(1.0, TOL, "the paper stops here", fontsize="small", color="#666666", **place)
        row[1].set_ylabel("")
        row[1].get_legend().remove()
    return figure


def chapelle2008_3(args):
    """Ionosphere: weights by iteration."""
    stack, y, names = problem(args, "ionosphere", "center+unit_trace")
    figure, axes = plt.subplots(2, 1, figsize=(8.0, 7.0), layout="constrained", sharey=True)
    fits = {learner: fit(stack, y, learner)[0] for learner in ("simple", "newton")}
    for ax, (learner, solution) in zip(axes, fits.items(), strict=True):
        plotting.plot_weight_history(solution, ax, names, heaviest(fits.values()))
        ax.set_title(f"{TITLES[learner]} on ionosphere, C = {C:g}", loc="left")
    return figure


FIGURES = [rakoto2007_1, rakoto2007_2, rakoto2007_3]
FIGURES += [chapelle2008_1, chapelle2008_2, chapelle2008_3]


def main():
    names = [draw.__name__ for draw in FIGURES]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        default=os.environ.get("KERNELWEAVE_DATA"),
        help="folder of the data sets (or set KERNELWEAVE_DATA)",
    )
    root = common.HERE.parent
    parser.add_argument("--out", type=pathlib.Path, help="folder for the PNGs (docs/figures)")
    parser.add_argument(
        "--quick", action="store_true", help="few trials, to see that it works (to build/figures)"
    )
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="FIGURE")
    args = parser.parse_args()
    args.values, args.runs, args.trials, args.sets = 100, 5, 20, SETS
    if args.quick:
        args.values, args.runs, args.trials, args.sets = 8, 2, 2, SETS[:2]
    out = args.out or root / ("build" if args.quick else "docs") / "figures"
    out.mkdir(parents=True, exist_ok=True)
    common.environment()  # says so where times are noise
    common.warm_up()
    for draw in FIGURES:
        if draw.__name__ in args.only:
            figure = draw(args)
            figure.savefig(out / f"{draw.__name__}.png", dpi=110)
            plt.close(figure)
            print(f"{draw.__name__}: {draw.__doc__}")


if __name__ == "__main__":
    main()
