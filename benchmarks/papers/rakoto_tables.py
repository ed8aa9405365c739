"""Tables 1 and 2 of rakoto2007: SILP and SimpleMKL on five sets, and paths over 100 values of C.

As in the paper: random halves, features standardized; 10 Gaussians and 3 polynomials on all
features and on each, of unit trace; C from {0.1, 1, 10, 100}, the one of best test accuracy; 50
splits, or as many as the table says; weights below 0.001 do not count as kernels. Rows "to the gap"
end otherwise than there, at a certified relative gap of 1e-2, and so do paths; all would after a
minute; a path of SimpleMKL alone may end short of it where J has a kink; the paper
does not say its ten widths, ours are those of gai2010; newton runs, too; times are processor
seconds of the first 5 splits, the paper's those of a Pentium D at 3 GHz and Matlab; paths are over
at most 3 runs, not 5, and end after five minutes of the processor.

Who made the steps: in table 1 "SILP" and "SimpleMKL" are the paper's, and end by its rule, where no
weight moves by 0.01, or after 500 iterations: ``Silp(stop="change")`` and
``Simple(stop="change", small=1e-3)``, on fewer splits. What reaches a gap stands after them: "SILP,
to the gap" is ``Silp()``, "SimpleMKL, cuts" is ``Simple()``, whose last steps a bundle method
makes. In table 2 "SimpleMKL" is ``Simple(finish=False)``, algorithm 1 alone, to the gap.

By the rule of the paper SimpleMKL takes less time than SILP on all five sets, as there (on credit
the two are level), but it stops early and has more kernels than printed. To the gap SimpleMKL with
cuts is faster than SILP on four sets of five.
On liver, the set of fewest kernels, the order is reversed: 0.059 s against 0.037 s, where the paper
has 3.2 s against 7.7 s. There SILP needs 17 SVMs, and SimpleMKL's line searches 82. On credit C =
10 and C = 100 are level, 86.65 % and 86.62 % for SILP, so that the C chosen says little. At 10 SILP
has one kernel; at 100 it has 6.7, and SimpleMKL with cuts 10.1, where the paper has 10.4 and 16.8.
"""

import numpy as np

from benchmarks.harness import common
from benchmarks.harness.rakoto_sets import MAX_ITER, SETS, measure, one_by_one, prepare, values_of_C
from kernelweave.learners import Newton, Silp, Simple

SHOWS = "rakoto2007, tables 1–2"
COSTS = (0.1, 1.0, 10.0, 100.0)
PUBLISHED = {"silp_rule": Silp(stop="change"), "simple_rule": Simple(stop="change", small=1e-3)}
LEARNERS = {  # of table 1: the paper's, then what reaches a certified gap
    "silp_rule": "SILP",
    "simple_rule": "SimpleMKL",
    "silp": "SILP, to the gap",
    "simple": "SimpleMKL, cuts, to the gap",
    "newton": "Newton, to the gap",
}
PATHS = {"silp": Silp(), "published": Simple(finish=False), "simple": Simple(), "newton": Newton()}
NAMES = {
    "silp": "SILP",
    "published": "SimpleMKL",
    "simple": "SimpleMKL, cuts",
    "newton": "Newton",
}
SPLITS, PURE, TIMED, RUNS, TOL = 50, 20, 5, 3, 1e-2
LIMIT, PATH_LIMIT = 60.0, 300.0
KEPT = ("accuracy", "kernels_above_1e-3", "solves", "cpu", "gap", "status")
GUESS = "the paper gives neither its widths nor its splits, and other ones move the accuracies."
PATH_WORDS = (
    "The paper's SimpleMKL is 5 to 66 times as fast as SILP on a path, more so with more kernels. "
    "Ours tends to gain with the kernels, too, but less, and not evenly; with the fewest it is "
    "slower. Three runs are few, and times differ from one measurement to the next: on the same "
    "three splits of ionosphere the figures page has a ratio of 1.24, measured at another time, "
    "where the table has 2.37. A guess at why ours gains less: the linear programs of SILP are "
    "kept alive here, in HiGHS; the paper's used LPSOLVE."
)
TABLE_1 = {  # kernels, accuracy and seconds, a standard deviation after each
    "liver": {"silp": (8.3, 1.8, 65.4, 2.7, 7.7, 2.7), "simple": (10.2, 2.0, 65.0, 2.3, 3.2, 0.9)},
    "pima": {
        "silp": (10.9, 1.6, 75.8, 1.8, 78.0, 18.8),
        "simple": (14.3, 2.2, 75.8, 1.6, 27.1, 7.2),
    },
    "credit": {
        "silp": (10.4, 1.9, 86.4, 1.4, 124, 28),
        "simple": (16.8, 5.4, 86.3, 1.4, 32.7, 9.7),
    },
    "ionosphere": {
        "silp": (19.9, 2.1, 92.2, 1.5, 152, 39),
        "simple": (30.5, 7.0, 92.3, 1.4, 18.1, 5.8),
    },
    "sonar": {
        "silp": (29.1, 3.5, 79.2, 4.6, 383, 113),
        "simple": (46.0, 7.6, 78.6, 4.2, 21.8, 16.9),
    },
}
TABLE_2 = {  # seconds of a path: SILP, SimpleMKL
    "liver": (612, 116),
    "pima": (4496, 754),
    "credit": (4830, 753),
    "ionosphere": (5000, 221),
    "sonar": (11234, 170),
}


def split(name, learner, seed, data):
    """A learner at every C on one split."""
    record = {}
    made, most = PUBLISHED.get(learner, learner), 500 if learner in PUBLISHED else MAX_ITER
    for C in COSTS:
        found = measure(name, "unit_trace", seed, data, made, TOL, LIMIT, C, most)
        record[f"{C:g}"] = {field: found.get(field) for field in KEPT}
        record["m"] = found.get("m", record.get("m"))
    return record


def path(name, learner, seed, data, Cs):
    split, bank = prepare(name, "unit_trace", seed, data)
    try:
        with common.time_limit(PATH_LIMIT, cpu=True):
            return one_by_one(bank.stack, split.y, Cs, PATHS[learner])
    except common.TimeUp:
        return {"total": PATH_LIMIT, "cpu": None}


# ---- table 1 -----------------------------------------------------------------------------------


def at_best(cells):
    """The C of best mean accuracy, and the records there."""
    means = {}
    for C in COSTS:
        accuracy = common.mean([cell[f"{C:g}"] for cell in cells], "accuracy")
        means[C] = -np.inf if accuracy is None else accuracy
    best = max(COSTS, key=means.get)
    return best, [cell[f"{best:g}"] for cell in cells]


def _pairs(known):
    return zip(known[::2], known[1::2], strict=True)


def spread(values):
    values = [v for v in values if v is not None]
    if len(values) < 2:
        return values[0] if values else None
    return f"{np.mean(values):.3g} ± {np.std(values):.2g}"


def report_splits(results, names, splits):
    rows, beside = [], common.Comparison("data", "algorithm")
    late = 0
    for name in names:
        for learner in LEARNERS:
            cells = [c for s in range(splits) if (c := results.get("split", name, learner, s))]
            if not cells:
                continue
            C, found = at_best(cells)
            values = [r["accuracy"] for r in found if r["accuracy"] is not None]
            late += len(found) - len(values)
            seconds = [record["cpu"] for record in found[:TIMED]]
            known = TABLE_1[name].get(learner.removesuffix("_rule"), [None] * 6)
            paper = [f"{m:g} ± {s:g}" if m else None for m, s in _pairs(known)]
            faster = known[4] / np.mean(seconds) if known[4] and None not in seconds else None
            rows.append(
                [
                    *(
                        name,
                        float(np.mean([c["m"] for c in cells])),
                        LEARNERS[learner],
                        len(cells),
                        C,
                    ),
                    *(spread([r["kernels_above_1e-3"] for r in found]), paper[0]),
                    *(spread(values), paper[1], spread([r["solves"] for r in found])),
                    *(spread(seconds), paper[2], faster),
                ]
            )
            if learner in PUBLISHED:
                beside.add((name, LEARNERS[learner]), values, known[2], known[3] / np.sqrt(50))
    print("table 1: at the best C, mean ± standard deviation over the splits\n")
    header = ["data", "M", "algorithm", "splits", "C", "kernels", "paper", "accuracy %", "paper"]
    common.table([*header, "SVM solves", "CPU-s", "paper s", "paper / ours"], rows)
    if late:
        print(f"{late} fits took more than {LIMIT:g} s and are left out\n")
    pure = [results.get("split", n, k, s) for n in SETS for k in PUBLISHED for s in range(PURE)]
    beside.show(results, 2 * len(SETS) if all(pure) else -1, guess=GUESS)
    print()


# ---- table 2 -----------------------------------------------------------------------------------


def report_paths(results, names, runs, count):
    rows, gaps, most = [], {}, dict.fromkeys(PATHS, 0)
    for name in names:
        taken, solves = {}, []
        for learner in PATHS:
            cells = [c for r in range(runs) if (c := results.get("path", name, learner, r))]
            taken[learner] = [c["cpu"] for c in cells]
            most[learner] = max(most[learner], len(cells))
            solves.append(common.mean(cells, "solves"))
            for run, cell in enumerate(cells):
                gaps[NAMES[learner], name, run] = cell.get("worst_gap", 0.0)
        told = [f"over {PATH_LIMIT:g}" if None in v else spread(v) for v in taken.values()]
        pairs = list(zip(taken["silp"], taken["published"], strict=False))  # of the same runs
        known = pairs and None not in sum(pairs, ())
        ratio = np.divide(*np.sum(pairs, axis=0)) if known else None
        silp, simple = TABLE_2[name]
        rows.append([name, *told, silp, simple, ratio, silp / simple, *solves])
    if any(gaps.values()):
        told = ", ".join(f"{NAMES[k]} {number}" for k, number in most.items())
        print(f"table 2: CPU-seconds of a path of {count} values of C; runs: {told}\n")
        header = ["data", *(NAMES[k] for k in PATHS), "paper's SILP", "paper's SimpleMKL"]
        header += ["SILP / SimpleMKL", "paper", *(f"{NAMES[k]}: SVMs" for k in PATHS)]
        common.table(header, rows)
        who, where, run = largest = max(gaps, key=gaps.get)
        rest = max(gap for each, gap in gaps.items() if each != largest)
        print(
            f"the largest gap at any C is {common.short(gaps[largest])}, of {who} on {where}, run "
            f"{run}; in all other runs {common.short(rest)}\n\n{PATH_WORDS}"
        )


def main():
    number = {"type": int}
    args = common.arguments(
        __doc__,
        splits={**number, "default": SPLITS, "help": "random halves of each set"},
        runs={**number, "default": RUNS, "help": "paths of each set"},
        published={**number, "default": PURE, "help": "of these, for the paper's own rule"},
        sets={"nargs": "+", "choices": SETS, "default": SETS, "metavar": "SET"},
        learners={
            "nargs": "+",
            "choices": list(PATHS),
            "default": list(PATHS),
            "metavar": "LEARNER",
        },
    )
    names, splits, runs, Cs = args.sets, args.splits, args.runs, values_of_C(100)
    if args.quick:
        splits, runs, Cs = 1, 1, values_of_C(4)
    asked = [k for k in LEARNERS if k in args.learners or k in PUBLISHED]
    halves = [
        ("split", n, k, seed)
        for seed in range(splits)
        for n in names
        for k in asked
        if k not in PUBLISHED or seed < args.published
    ]
    paths = [("path", n, k, r) for r in range(runs) for n in names for k in args.learners]
    results = common.Results("rakoto_tables", args)
    results.fill([(key, path, *key[1:], args.data, Cs) for key in paths])
    results.fill([(key, split, *key[1:], args.data) for key in halves])
    report_splits(results, names, splits)
    report_paths(results, names, runs, len(Cs))


if __name__ == "__main__":
    main()
