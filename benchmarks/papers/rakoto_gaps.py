"""The five data sets of rakoto2007: gaps reached, solves, time, sparsity and accuracy.

Random halves of liver, pima, credit, ionosphere and sonar; 10 Gaussians and 3 polynomials on all
features and on each; unit trace, as they are and centered; C = 100. Learners simple, silp and
newton to gap 1e-2 and 1e-4, newton to 1e-6 too, at most 10 minutes per fit.

Who made the steps: ``simple`` is SimpleMKL whose last steps a bundle method makes, ``newton`` takes
Newton steps with cuts; SimpleMKL alone is in rakoto_simplemkl, HessianMKL alone in figures.
"""

from benchmarks.harness import common
from benchmarks.harness.rakoto_sets import SETS, C, measure

NORMALIZE = ["unit_trace", "center+unit_trace"]
RUNS = [("simple", 1e-2), ("silp", 1e-2), ("newton", 1e-2)]
RUNS += [("simple", 1e-4), ("silp", 1e-4), ("newton", 1e-4), ("newton", 1e-6)]
TRIO = ["simple", "silp", "newton"]
LIMIT, SPLITS = 600.0, 20


def report(results, names, splits):
    for normalize in NORMALIZE:
        rows = []
        for name in names:
            for learner, tol in RUNS:
                cells = cells_of(results, name, normalize, learner, tol, splits)
                if not cells:
                    continue
                reached = sum(c.get("reached", False) for c in cells)
                fields = ("solves", "iterations", "cpu", "kernels", "kernels_above_1e-3")
                rows.append(
                    [name, common.mean(cells, "m"), learner, tol, f"{reached}/{len(cells)}"]
                    + [common.mean(cells, field) for field in fields]
                    + [max(c.get("cpu", c["seconds"]) for c in cells)]
                    + [common.mean(cells, "accuracy")]
                )
        print(f"{normalize}, C = {C:g}, means over the splits\n")
        header = "data M learner tol reached solves iterations CPU-s kernels >0.001 slowest"
        common.table([*header.split(), "accuracy"], rows)


def cells_of(results, name, normalize, learner, tol, splits):
    found = [results.get(name, normalize, seed, learner, tol) for seed in range(splits)]
    return [cell for cell in found if cell]


def bars(results, names, splits):
    """A bar is judged once all five sets and all splits are there."""

    def share(learners, tol, norms):
        reached = total = 0
        for learner in learners:
            for name in names:
                for normalize in norms:
                    cells = cells_of(results, name, normalize, learner, tol, splits)
                    reached += sum(c.get("reached", False) for c in cells)
                    total += len(cells)
        wanted = len(learners) * len(SETS) * len(norms) * SPLITS
        return f"{reached} of {total}", (reached == total if total == wanted else None)

    results.bar("gap 1e-2 on every split, unit trace", *share(TRIO, 1e-2, NORMALIZE[:1]))
    results.bar("gap 1e-2 on every split, centered", *share(TRIO, 1e-2, NORMALIZE[1:]))
    for learner in TRIO:
        text = f"{learner}: gap 1e-4 within 10 minutes on every split, unit trace"
        results.bar(text, *share([learner], 1e-4, NORMALIZE[:1]))
    results.bar("newton: gap 1e-6 on every split", *share(["newton"], 1e-6, NORMALIZE))
    for normalize in NORMALIZE:
        for name in names:
            ours, theirs = (
                common.mean(cells_of(results, name, normalize, learner, 1e-2, splits), "solves")
                for learner in ("newton", "simple")
            )
            known = ours is not None and theirs is not None and splits >= SPLITS
            text = f"newton, {name}, {normalize}: at most 15 solves, and fewer than simple"
            measured = f"{common.short(ours)}, simple {common.short(theirs)}"
            results.bar(text, measured, ours <= 15 and ours < theirs if known else None)
    missed = [key for key, c in results.cells.items() if not c.get("reached", False)]
    print(f"\n{len(missed)} of {len(results.cells)} fits missed their tol\n")
    for key in missed:
        c = results.cells[key]
        print(f"- {key}: gap {common.short(c['gap'])}, {c['status']}, {c['seconds']:.1f} s")


def main():
    args = common.arguments(
        __doc__,
        splits={"type": int, "default": SPLITS, "help": "random halves of each set"},
        sets={"nargs": "+", "choices": SETS, "default": SETS, "metavar": "SET"},
        learners={"nargs": "+", "choices": TRIO, "default": TRIO, "metavar": "LEARNER"},
    )
    names, splits, limit = args.sets, args.splits, LIMIT
    if args.quick:
        names, splits, limit = names[:1], 1, 5.0
    plan = [
        (name, normalize, seed, learner, tol)
        for seed in range(splits)  # outermost, so that an interrupted run has a bit of everything
        for name in names
        for normalize in NORMALIZE
        for learner, tol in RUNS
        if learner in args.learners
    ]
    results = common.Results("rakoto_gaps", args)
    results.fill([(key, measure, *key[:3], args.data, *key[3:], limit) for key in plan])
    report(results, names, splits)
    bars(results, names, splits)


if __name__ == "__main__":
    main()
