"""Peak memory as plan(X) tells it beside the one that a fit takes, each in a process of its own

    told      KernelBank.plan(X).peak, before anything large is allocated
    taken     how far the resident memory of the process rises during the fit, which compiled before
    refused   seconds until a fit that cannot fit raises MemoryError

Gaussians on ten columns, or one per column, of rows drawn at random; learned to gap 1e-2, or 1e-1
where rows are computed on demand. Linux.
"""

import gc
import time

import numpy as np

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.child_process import in_process
from benchmarks.harness.resident_memory import MIB, resident

SETTINGS = {  # rows, kernels, views, classes or None for numbers, how kernels are kept
    "matrices": (6000, 3, "all", 2, {"storage": "dense"}),
    "float32 matrices": (8000, 2, "all", 2, {"storage": "dense", "dtype": "float32"}),
    "more float32 matrices": (8000, 4, "all", 2, {"storage": "dense", "dtype": "float32"}),
    "one matrix": (12_000, 1, "all", 2, {"storage": "dense"}),
    "float32, numbers": (8000, 3, "all", None, {"storage": "dense", "dtype": "float32"}),
    "many matrices": (1800, 40, "all", 2, {"storage": "dense"}),
    "three classes": (6000, 3, "all", 3, {"storage": "dense"}),
    "numbers": (6000, 3, "all", None, {"storage": "dense"}),
    "factors": (1_100_000, 1, "each", 2, {"storage": "factors"}),
    "float32 factors": (1_200_000, 1, "each", 2, {"storage": "factors", "dtype": "float32"}),
    "Nyström": (600_000, 3, "all", 2, {"approximation": kw.Nystroem(60)}),
    "random features": (600_000, 3, "all", 2, {"approximation": kw.RandomFeatures(60)}),
    "rows on demand": (12_000, 2, "all", 2, {"storage": "lazy", "cache_size": 1000.0}),
}


def rows(n, classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    score = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    if classes is None:
        return X, score
    return X, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


def bank_of(m, views, kept):
    return kw.KernelBank([kw.Gaussian(w) for w in np.geomspace(6.0, 1.0, m)], views=views, **kept)


def taken(name, scale):
    n, m, views, classes, kept = SETTINGS[name]
    X, y = rows(int(n * scale), classes)
    bank = bank_of(m, views, kept)
    make = kw.MKLRegressor if classes is None else kw.MKLClassifier
    tol = 1e-1 if bank.storage == "lazy" else 1e-2
    make(bank, tol=tol).fit(X[:300], y[:300])  # compiles
    gc.collect()
    plan = bank.plan(X)
    before = resident("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as reset:
        reset.write("5")
    began = time.process_time()
    make(bank, tol=tol).fit(X, y)
    seconds = time.process_time() - began
    peak = max(resident("VmHWM") - before, 1.0)
    told = plan.peak / MIB
    found = {"n": len(y), "m": len(plan.names), "told": told, "taken": peak}
    return found | {"ratio": told / peak, "seconds": seconds}


def refused(n):
    """A fit on so many rows that it cannot fit anywhere, and how soon that is told."""
    X, y = rows(n, 2)
    bank = bank_of(5, "all", {"storage": "dense"})
    kw.MKLClassifier(bank).fit(X[:300], y[:300])
    wall, began = time.perf_counter(), time.process_time()
    try:
        kw.MKLClassifier(bank).fit(X, y)
    except MemoryError as error:
        times = {"seconds": time.process_time() - began, "clock": time.perf_counter() - wall}
        return {"n": n, "said": str(error), **times}
    raise AssertionError("it was not refused")


def main():
    args = common.arguments(
        __doc__, only={"nargs": "+", "choices": list(SETTINGS), "default": list(SETTINGS)}
    )
    scale = 0.02 if args.quick else 1.0
    plan = [((name,), in_process, taken, name, scale) for name in args.only]
    plan.append((("refused",), in_process, refused, 400_000))
    results = common.Results("memory_forecast", args)
    results.fill(plan)
    report(results)


def report(results):
    cells = {s: c for s in SETTINGS if (c := results.get(s)) and "why" not in c}
    columns = ["n", "m", "told", "taken", "ratio", "seconds"]
    header = ["kept as", "n", "m", "told MiB", "taken MiB", "ratio", "seconds"]
    common.table(header, [[s, *(cell[c] for c in columns)] for s, cell in cells.items()])
    if missing := [name for name in SETTINGS if name not in cells]:
        print(f"not run: {', '.join(missing)}\n")
    large = [cell for cell in cells.values() if cell["taken"] >= 1024.0]
    if cells:
        off = max(abs(1.0 - cell["ratio"]) for cell in large or cells.values())
        text = f"told within 20 % of the peak, {len(large)} settings of at least 1 GiB"
        results.bar(text, off, off <= 0.2 if len(large) >= 10 else None)
    told = results.get("refused")
    if told:
        print(f"refused: {told['said']}\n")
        results.bar("what does not fit raises in under 1 s", told["seconds"], told["seconds"] < 1.0)


if __name__ == "__main__":
    main()
