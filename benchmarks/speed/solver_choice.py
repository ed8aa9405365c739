"""How a machine under a factor is solved: SMO, interior point, chunks; and what auto picks

One support vector machine at C = 1 to gap 1e-3 on FFᵀ, F with R columns: Gaussian features of four
columns of normal numbers, labels with noise. SMO is given the time to write the array out. The
model of ``kernelweave/_solvers/svm/choice.py`` shall pick a method that takes at most 1.5 times as
long as the quickest. Processor seconds, one thread.
"""

import time

import numpy as np

from benchmarks.harness import common
from benchmarks.harness.internals import FactorCombined, JoinedFactor, choice, hinge

SIZES = [(2000, 20), (2000, 200), (2000, 1000), (6000, 50), (6000, 300), (6000, 2000)]
METHODS = ["smo", "interior_point", "chunks"]


def measured(n, R):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    waves = X @ rng.normal(size=(4, R)) + rng.uniform(0.0, 2.0 * np.pi, R)
    y = np.where(np.sin(2.0 * X[:, 0]) + X[:, 1] + rng.normal(size=n) > 0.0, 1.0, -1.0)
    K, qp = (
        FactorCombined(JoinedFactor.of(np.sqrt(2.0 / R) * np.cos(waves)), np.ones(R)),
        hinge(y, 1.0),
    )
    found = {"n": n, "R": R, "auto": choice.choose(K, qp)}
    for method in METHODS:
        choice.solve(method, FactorCombined(K._G.take(slice(0, 200)), np.ones(R)),
                     [hinge(y[:200], 1.0)], None, 1e-2)  # compiles  # fmt: skip
        began = time.process_time()
        choice.solve(method, K, [qp], None, 1e-3)
        found[method] = time.process_time() - began
    found["ratio"] = found[found["auto"]] / min(found[method] for method in METHODS)
    return found


def main():
    args = common.arguments(__doc__)
    sizes = [(300, 10)] if args.quick else SIZES
    results = common.Results("solver_choice", args)
    results.fill([((n, R), measured, n, R) for n, R in sizes])
    cells = [cell for size in sizes if (cell := results.get(*size))]
    columns = ["n", "R", *METHODS, "auto", "ratio"]
    common.table(columns, [[cell[c] for c in columns] for cell in cells])
    if len(cells) == len(sizes):
        worst = max(cell["ratio"] for cell in cells)
        results.bar("auto at most 1.5 times as long as the quickest", worst, worst <= 1.5)


if __name__ == "__main__":
    main()
