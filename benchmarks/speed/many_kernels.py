"""100,000 and a million kernels on sonar: single columns, pairs and triples, never kept

    100,000      1,830 sets of one or two columns × (52 Gaussians and polynomials of degree 1–3)
    1,000,000    the same and 16,353 sets of three columns, drawn at random

104 rows, a half of the set as rakoto2007 draws it; unit trace, C = 100, newton to gap 1e-2. Kernels
are generated in every pass. Processor seconds of one thread.
"""

import time
from itertools import combinations

import numpy as np

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.child_process import in_process
from benchmarks.harness.resident_memory import resident

SECONDS, GIB = {100_000: 60.0, 1_000_000: 1800.0}, 20.0


def column_sets(columns, triples):
    sets = [*combinations(range(columns), 1), *combinations(range(columns), 2)]
    every = np.array([*combinations(range(columns), 3)])
    chosen = np.random.default_rng(0).permutation(len(every))[:triples]
    return [*sets, *every[np.sort(chosen)]]


def learned(data, widths, triples):
    split = common.half("sonar", data, 0)
    common.warm_up()
    began, wall = time.process_time(), time.perf_counter()
    sets = column_sets(split.X.shape[1], triples)
    stack = kw.GeneratedStack(split.X, sets, np.geomspace(0.1, 10.0, widths), [1, 2, 3])
    found = kw.learn(stack, split.y, C=100.0, tol=1e-2, verbose=1)
    times = {"seconds": time.process_time() - began, "clock": time.perf_counter() - wall}
    kept = {"kernels": int(np.count_nonzero(found.weights)), "machines": found.n_svm_solves}
    return {"m": stack.m, "gap": found.gap, **kept, **times, "GiB": resident("VmHWM") / 1024}


def main():
    args = common.arguments(
        __doc__, most={"type": int, "default": 1_000_000, "help": "kernels of the largest run"}
    )
    sizes = [100] if args.quick else [m for m in SECONDS if m <= args.most]
    plan = [
        ((m,), in_process, learned, args.data, 2 if args.quick else 52, 16_353 * (m > 100_000))
        for m in sizes
    ]
    results = common.Results("many_kernels", args)
    results.fill(plan)
    report(results, [100] if args.quick else SECONDS)


def report(results, sizes):
    cells = {m: cell for m in sizes if (cell := results.get(m)) and "why" not in cell}
    columns = ["m", "gap", "machines", "kernels", "seconds", "clock", "GiB"]
    header = ["kernels", "gap", "machines", "with a weight", *columns[4:]]
    common.table(header, [[cell[c] for c in columns] for cell in cells.values()])
    for m, most in SECONDS.items():
        if m not in cells:
            print(f"{m} kernels: not run\n")
            continue
        cell = cells[m]
        met = cell["gap"] <= 1e-2 and cell["seconds"] <= most and cell["GiB"] <= GIB
        results.bar(f"{m} kernels to gap 1e-2 in {most:.0f} s", cell["seconds"], met)


if __name__ == "__main__":
    main()
