"""The error bound of lanckriet2004 (theorem 24) beside the errors that it bounds.

Random halves of each set, one with labels; K1 polynomial of degree 2, K2 Gaussian, K3 linear, each
with a diagonal of 1 on all rows; weights ≥ 0 and machine by the 1-norm soft margin. δ = 0.05. The
bound holds for all functions at once, so that it may be looked at for every C. The bias is the
weight of a constant kernel, which is in the class. C(𝒦) by 100 random signs; "certain" has the
closed form instead.

Terms, all shares of the rows without labels: the margin cost on those with them, 4/√n for sampling,
the confidence with the price of reading the margin off the model, and the complexity. A bound of 1
or more says nothing: such cells are counted.
"""

from functools import lru_cache

import numpy as np

import kernelweave as kw
from benchmarks.harness import common
from kernelweave.papers.lanckriet2004.bounds import error_bound

SHOWS = "lanckriet2004, theorem 24"
SETS = {  # rows to take at most
    "sonar": 208,
    "heart": 270,
    "ionosphere": 351,
    "breast_wisconsin": 683,
    "pima": 768,
    "german_numeric": 1000,
    "adult_a6a": 4000,
    "w8a": 4000,
}
COSTS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
SPLITS, DELTA, SAMPLES, TOL = 5, 0.05, 100, 1e-3
TERMS = ("margin_cost", "sampling", "confidence", "complexity")


@lru_cache(maxsize=1)
def prepare(data, name, rows):
    """Kernels on all rows, and their labels; an even number of rows."""
    X, y = common.load(name, data)
    chosen = np.random.default_rng(0).permutation(len(y))[: min(rows, len(y)) // 2 * 2]
    X = common.standardize(X[chosen])[0]
    kernels = [kw.Polynomial(2), kw.Gaussian(1.0, relative=True), kw.Linear()]
    return common.fit_bank(X, kernels, normalize="sphere").stack, y[chosen]


def measure(data, name, rows, C, seed):
    """One half: the bound, its terms and the errors on the other half."""
    stack, y = prepare(data, name, rows)
    hidden = np.random.default_rng(seed).permutation(len(y))[: len(y) // 2]
    known = y.copy()
    known[hidden] = 0.0
    model = kw.learn(stack, known, C=C, tol=TOL, trace=float(stack.n))
    values = stack.combined(model.weights) @ model.coef + model.bias
    bound = error_bound(
        stack,
        known,
        model.weights,
        model.coef,
        bias=model.bias,
        delta=DELTA,
        samples=SAMPLES,
        random_state=seed,
    )
    return {
        "error": float((y[hidden] * values[hidden] <= 0.0).mean()),
        "total": bound.total,
        "certain": bound.total_limit,
        **{term: getattr(bound, term) for term in TERMS},
        "margin": bound.margin,
        "capacity": bound.capacity.mean / bound.trace,
        "capacity_limit": bound.capacity.limit / bound.trace,
        "n": len(hidden),
        "gap": model.gap,
    }


def main():
    args = common.arguments(
        __doc__,
        sets={"nargs": "+", "choices": list(SETS), "default": list(SETS), "metavar": "SET"},
        splits={"type": int, "default": SPLITS},
    )
    sets, splits = (["heart"], 2) if args.quick else (args.sets, args.splits)
    plan = [(name, C, seed) for name in sets for C in COSTS for seed in range(splits)]
    results = common.Results("lanckriet_bound", args)
    results.fill([((n, C, seed), measure, args.data, n, SETS[n], C, seed) for n, C, seed in plan])
    rows, every = [], []
    for name in sets:
        for C in COSTS:
            cells = [c for seed in range(splits) if (c := results.get(name, C, seed))]
            if not cells:
                continue
            every += cells
            mean = {field: float(np.mean([c[field] for c in cells])) for field in cells[0]}
            vacuous = sum(c["total"] >= 1.0 for c in cells)
            rows.append(
                [
                    *(name, int(mean["n"]), C, mean["error"], mean["total"], mean["certain"]),
                    *(mean[term] for term in TERMS),
                    *(mean["capacity"], mean["capacity_limit"], f"{vacuous} of {len(cells)}"),
                ]
            )
    if not every:
        return
    print()
    common.table(
        [
            *("set", "n", "C", "error", "bound", "certain"),
            *("margin cost", "sampling", "confidence", "complexity"),
            *("C(𝒦)/c", "at most", "vacuous"),
        ],
        rows,
    )
    exceeded = sum(c["error"] > c["total"] for c in every)
    results.bar(
        "the errors never exceed the bound",
        f"{exceeded} of {len(every)} do; closest: bound − error = "
        f"{min(c['total'] - c['error'] for c in every):.3g}",
        exceeded == 0,
    )
    results.bar(
        "estimated C(𝒦) is at most the closed form",
        f"largest ratio {max(c['capacity'] / c['capacity_limit'] for c in every):.3g}",
        all(c["capacity"] <= c["capacity_limit"] for c in every),
    )
    vacuous = sum(c["total"] >= 1.0 for c in every)
    print(f"\nvacuous (bound ≥ 1): {vacuous} of {len(every)}")
    for name in sets:
        best = [
            min((c for C in COSTS if (c := results.get(name, C, seed))), key=lambda c: c["total"])
            for seed in range(splits)
            if results.get(name, COSTS[0], seed)
        ]
        if best:
            told = np.mean([[c["total"], c["error"]] for c in best], axis=0)
            print(f"  {name}: least bound over C {told[0]:.3f}, errors there {told[1]:.3f}")


if __name__ == "__main__":
    main()
