"""SimpleMKL as published, with nothing to help it: does it reach gap 1e-2, in how many iterations?

Random halves of the five sets of rakoto2007, its kernels of unit trace, as they are and centred,
C = 100. ``published`` is ``Simple(finish=False)``: reduced gradient, golden section, weights below
1e-8 dropped, no bundle. ``journal`` adds the maximal step and the dropping of the later journal
version (``drop=True``). ``reference`` and ``reference, journal`` are the same two algorithms in
another program, around scikit-learn's SVC (LIBSVM), on the first splits alone: its SVMs start cold.
"""

import numpy as np

from benchmarks.harness import common
from benchmarks.harness.rakoto_sets import SETS, C, prepare
from benchmarks.harness.rival_simplemkl import Reference
from kernelweave.learners import Simple

SHOWS = "rakoto2007, algorithm 1"
NORMALIZE = ["unit_trace", "center+unit_trace"]
OURS = {"published": Simple(finish=False), "journal": Simple(drop=True, finish=False)}
THEIRS = {"reference": False, "reference, journal": True}
SPLITS, BESIDE, GAP, MAX_ITER = 20, 2, 1e-2, 5000


def measure(data, name, normalize, seed, variant):
    split, bank = prepare(name, normalize, seed, data)
    if variant in OURS:
        solution, record = common.fit(
            bank.stack, split.y, C=C, tol=GAP, learner=OURS[variant], max_iter=MAX_ITER
        )
        return record | {"by": sorted(set(map(str, solution.history["by"])))}
    K = common.matrices(bank.stack)
    found = Reference(np.asarray(K), split.y, C, THEIRS[variant]).run(GAP, MAX_ITER)
    return found | {"reached": found["gap"] <= GAP, "m": len(K)}


def report(results, names, splits):
    for normalize in NORMALIZE:
        rows = []
        for name in names:
            for variant in (*OURS, *THEIRS):
                found = [results.get(name, normalize, seed, variant) for seed in range(splits)]
                cells = [cell for cell in found if cell]
                if not cells:
                    continue
                reached = sum(cell["reached"] for cell in cells)
                iterations = [cell["iterations"] for cell in cells]
                rows.append(
                    [
                        *(name, common.mean(cells, "m"), variant, f"{reached}/{len(cells)}"),
                        *(float(np.median(iterations)), max(iterations)),
                        float(np.median([cell["solves"] for cell in cells])),
                        common.mean(cells, "cpu") if variant in OURS else None,
                    ]
                )
        print(f"{normalize}, C = {C:g}, to a relative gap of {GAP:g}\n")
        header = ["data", "M", "algorithm", "reached", "median iterations", "most iterations"]
        common.table([*header, "median SVMs", "CPU-s"], rows)


def bars(results, names, splits):
    for variant in OURS:
        cells = [
            cell
            for name in names
            for normalize in NORMALIZE
            for seed in range(splits)
            if (cell := results.get(name, normalize, seed, variant))
        ]
        reached = sum(cell["reached"] and cell["by"] == ["simple"] for cell in cells)
        whole = len(cells) == len(SETS) * len(NORMALIZE) * SPLITS
        results.bar(
            f"{variant}: gap 1e-2 by steps of SimpleMKL alone on 200 of 200 fits",
            f"{reached} of {len(cells)}",
            reached == len(cells) if whole else None,
        )


def main():
    args = common.arguments(
        __doc__,
        splits={"type": int, "default": SPLITS, "help": "random halves of each set"},
        beside={"type": int, "default": BESIDE, "help": "those on which the reference runs"},
        sets={"nargs": "+", "choices": SETS, "default": SETS, "metavar": "SET"},
    )
    names, splits, beside = args.sets, args.splits, args.beside
    if args.quick:
        names, splits, beside = names[:1], 1, 1
    plan = [
        (name, normalize, seed, variant)
        for variant in (*OURS, *THEIRS)
        for seed in range(splits if variant in OURS else beside)
        for name in names
        for normalize in NORMALIZE
    ]
    results = common.Results("rakoto_simplemkl", args)
    results.fill([(key, measure, args.data, *key) for key in plan], processes=2)
    report(results, names, splits)
    bars(results, names, splits)


if __name__ == "__main__":
    main()
