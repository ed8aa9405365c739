"""How long it takes to believe weights: resamples, permutations and a path over C, at TCGA's size

150 rows in three views of 184, 200 and 142 columns, drawn at random with a signal in two of them.
The default bank on each. Processor seconds, since others may use the machine; the bar is for two
cores.
"""

import time

import numpy as np

import kernelweave as kw
from benchmarks.harness import common
from kernelweave.inspection import null, over_C, select_views, stability

SIZES = {"mirna": 184, "mrna": 200, "protein": 142}
FEW = 30  # draws of a small run: three views need 29 shuffles to be told apart
COUNT, LIMIT, CORES = 100, 15.0, 2


def rows(seed=0):
    """X, labels and views of TCGA's size; the first ten columns of two views tell the classes."""
    rng = np.random.default_rng(seed)
    y = np.repeat([-1.0, 1.0], 75)
    X = rng.standard_normal((150, sum(SIZES.values())))
    ends = np.cumsum([0, *SIZES.values()])
    for start in ends[:2]:
        X[:, start : start + 10] += 0.5 * y[:, None]
    return X, y, {name: slice(*ends[k : k + 2]) for k, name in enumerate(SIZES)}


def measure(count):
    X, y, views = rows()
    model = kw.MKLClassifier(kw.KernelBank(views=views))
    asked = {
        "stability": lambda: stability(model, X, y, n_resamples=count),
        "null": lambda: null(model, X, y, n_permutations=count),
        "over_C": lambda: over_C(model, X, y),
        "select_views": lambda: select_views(model, X, y, n_permutations=count),
    }
    seconds = {}
    for name, ask in asked.items():
        began = time.process_time()
        ask()
        seconds[name] = time.process_time() - began
    return {"cpu": seconds, "kernels": model.fit(X, y).bank_.m_all}


def main():
    args = common.arguments(__doc__)
    count = FEW if args.quick else COUNT
    results = common.Results("inspection_speed", args)
    if not args.report:
        common.warm_up()
        measure(FEW)
    results.fill([((count,), measure, count)])
    cell = results.get(count)
    if cell is None:
        return
    asked = sum(cell["cpu"][name] for name in ("stability", "null", "over_C"))
    text = f"{COUNT} resamples, {COUNT} permutations and over_C: {LIMIT:g} s on {CORES} cores"
    met = asked <= LIMIT if count == COUNT else None  # even on one core
    results.bar(text, f"{asked:.1f} s of one core", met)
    print()
    table = [[name, count, seconds] for name, seconds in cell["cpu"].items()]
    common.table(["function", "draws (of each view)", "processor seconds"], table)


if __name__ == "__main__":
    main()
