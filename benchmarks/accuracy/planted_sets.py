"""Gene sets as views: is the planted set first, is nothing found in shuffled labels, and the cost

300 rows, 5,000 independent columns, 1,000 sets of 5 to 500. The classes differ in the 40 columns of
one set, by so much that the best rule that knows these columns and no others is right for 70 % of
the rows. Six other sets share 25, 50 or 75 % of its columns, two each. A linear kernel on each set.
"First": the heaviest weight of ``MKLClassifier``. "Informative": by ``associated_views``.
"""

import time
import warnings

import numpy as np
from scipy.stats import norm

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.child_process import in_process
from benchmarks.harness.resident_memory import resident
from kernelweave.inspection import associated_views

N, COLUMNS, SETS, SIZE, ACCURACY = 300, 5000, 1000, 40, 0.70
OVERLAPS = (0.25, 0.25, 0.5, 0.5, 0.75, 0.75)
COSTS = {1000: (20.0, 1.5), 5000: (60.0, 2.0)}  # seconds, GiB


def sets_of(rng, count):
    """Sets of columns; the first is the planted one, those behind it overlap it."""
    sizes = np.clip(np.exp(rng.normal(4.0, 0.9, count)).astype(int), 5, 500)
    sets = [rng.choice(COLUMNS, size, replace=False) for size in sizes]
    sets[0] = np.arange(SIZE)
    for place, share in enumerate(OVERLAPS, start=1):
        inside = rng.choice(SIZE, round(share * SIZE), replace=False)
        outside = rng.choice(np.arange(SIZE, COLUMNS), SIZE - inside.size, replace=False)
        sets[place] = np.concatenate([inside, outside])
    return {f"set {k}": np.sort(one).tolist() for k, one in enumerate(sets)}


def rows(seed, count=SETS):
    rng = np.random.default_rng(seed)
    y = np.repeat([-1.0, 1.0], N // 2)
    X = rng.standard_normal((N, COLUMNS))
    X[:, :SIZE] += norm.ppf(ACCURACY) / np.sqrt(SIZE) * y[:, None]
    return X, y, sets_of(rng, count)


def measure(seed):
    warnings.simplefilter("ignore")
    X, y, views = rows(seed)
    model = kw.MKLClassifier(kw.KernelBank([kw.Linear()], views=views))
    weights = model.fit(X, y).weights_frame()
    found = associated_views(model, X, y, random_state=seed).frame()
    shuffled = np.random.default_rng([seed, 1]).permutation(y)
    none = associated_views(model, X, shuffled, random_state=seed)
    return {
        "heaviest": weights["view"][0],
        "strongest": found["view"][0],
        "called": int(found["informative"].sum()),
        "false": int(
            sum(int(v.split()[1]) > len(OVERLAPS) for v in found["view"][found["informative"]])
        ),
        "shuffled": int(none.informative.sum()),
    }


def _cost(count, storage):
    warnings.simplefilter("ignore")
    X, y, views = rows(0, count)
    start, spent = time.perf_counter(), time.process_time()
    bank = kw.KernelBank([kw.Linear()], views=views, storage=storage)
    model = kw.MKLClassifier(bank).fit(X, y)
    seconds = time.perf_counter() - start
    spent = time.process_time() - spent
    return {
        "seconds": seconds,
        "processor": spent,
        "gib": resident("VmHWM") / 1024,
        "gap": model.duality_gap_,
    }


def cost(count, storage="auto"):
    return in_process(_cost, count, storage)


def main():
    draws = {"type": int, "default": 20, "help": "draws (20)"}
    args = common.arguments(__doc__, draws=draws)
    count = 2 if args.quick else args.draws
    results = common.Results("planted_sets", args)
    costs = {} if args.quick else COSTS
    cells = [(("draw", seed), measure, seed) for seed in range(count)]
    results.fill([*cells, *((("cost", sets), cost, sets) for sets in costs)])
    found = [cell for seed in range(count) if (cell := results.get("draw", seed))]
    full = len(found) >= 20
    table = []
    for what, good in (
        ("heaviest weight on the planted set", lambda cell: cell["heaviest"] == "set 0"),
        ("strongest association of the planted set", lambda cell: cell["strongest"] == "set 0"),
        ("no false set among those called informative", lambda cell: not cell["false"]),
        ("shuffled labels: no set called informative", lambda cell: not cell["shuffled"]),
    ):
        table.append([what, sum(map(good, found)), len(found)])
    first, none = table[0][1], table[3][1]
    results.bar("planted set first in at least 18 of 20", str(first), first >= 18 if full else None)
    text = "shuffled labels: no set informative in at least 19 of 20"
    results.bar(text, str(none), none >= 19 if full else None)
    print()
    common.table(["what", "draws", "of"], table)
    shown = []
    for sets, (seconds, gib) in costs.items():
        cell = results.get("cost", sets)
        if cell is None or "seconds" not in cell:
            continue
        shown.append([sets, cell["seconds"], cell["processor"], cell["gib"], cell["gap"]])
        told = f"{cell['seconds']:.1f} s, {cell['gib']:.2f} GiB"
        met = cell["seconds"] <= seconds and cell["gib"] <= gib
        results.bar(f"{sets} sets in {seconds:.0f} s and {gib} GiB", told, met)
    print()
    common.table(["sets", "seconds", "of processor", "GiB at the peak", "duality gap"], shown)


if __name__ == "__main__":
    main()
