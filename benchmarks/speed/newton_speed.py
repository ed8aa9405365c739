"""How fast newton is: against the floor, a cutting-plane loop, conic solvers, and as m and n grow.

    floor      one SVC(kernel="precomputed") on the learned kernel + one pass over the kernels with
               NumPy; the half sets of rakoto2007 at C = 100, gap 1e-2
    cutting    a loop of SVC and scipy's linprog, at certified gap 1e-4; breast cancer, 20 kernels
    conic      Clarabel on two cone programs at certified gap 1e-4, its solver's time and that of
               factoring the kernels, which a cone program needs; ionosphere, n = 351, 48 kernels:
               of the bank of rakoto2007 under two normalizations (most on one feature, of low
               rank, and factored so), and Gaussians on random features
    growth     m from 10 to 2,000 at n = 351, n from 200 to 6,000 at 20 kernels, gap 1e-3; exponents
               fitted over times of at least 20 times the overhead of a fit

One thread. Rivals may use the loosest setting of their own that certifies the gap.
"""

import time

import numpy as np

import kernelweave as kw
from benchmarks.harness import common

PARTS = ["floor", "cutting", "conic", "growth"]
SETS = ["ionosphere", "sonar", "pima"]
TIMED = ("newton", "svc", "pass")
CLOSE = 1e-4  # the certified gap at which rivals are met


# ---- the floor ---------------------------------------------------------------------------------


def floor(stack, y, C, tol, seconds):
    solution, record = common.fit(stack, y, C=C, tol=tol, learner="newton")
    combined = np.array(stack.combined(solution.weights).dense())
    K, v = common.matrices(stack), solution.coef
    m, n = stack.m, stack.n
    times = common.race(
        {
            "newton": lambda: kw.learn(stack, y, C=C, tol=tol, learner="newton"),
            "svc": lambda: common.svc(combined, y, C),
            "pass": lambda: (K.reshape(m * n, n) @ v).reshape(m, n) @ v,
        },
        seconds=seconds,
    )
    ground = times["svc"]["median"] + times["pass"]["median"]
    return {**record, **times, "floor": ground, "ratio": times["newton"]["median"] / ground}


def floor_paper(data, name, seed, seconds):
    split = common.half(name, data, seed)
    return floor(common.rakoto_bank(split.X).stack, split.y, 100.0, 1e-2, seconds)


def floor_wide(data, name, n, m, seconds):
    stack, y, _ = common.random_stack(name, data, n, m, 0)
    return floor(stack, y, 1.0, 1e-2, seconds)


# ---- rivals ------------------------------------------------------------------------------------


def cutting(C, rows, seconds):
    stack, y = common.breast_cancer(rows)
    K = common.matrices(stack)
    _, record = common.fit(stack, y, C=C, tol=CLOSE, learner="newton")
    best = common.certified_loop(stack, K, y, C, CLOSE)
    times = common.race(
        {
            "newton": lambda: kw.learn(stack, y, C=C, tol=CLOSE, learner="newton"),
            "loop": lambda: common.cutting_planes(K, y, C, CLOSE, best["svc_tol"]),
        },
        seconds=seconds,
    )
    ratio = times["loop"]["median"] / times["newton"]["median"]
    return {**record, **times, "best": best, "ratio": ratio}


def conic(data, n, m, kind, C, seconds):
    if kind == "random":
        stack, y, _ = common.random_stack("ionosphere", data, n, m, 0)
    else:
        X, y = common.sample("ionosphere", data, n)
        stack = common.rakoto_bank(X, kind).stack
        stack = stack.select(np.linspace(0, stack.m - 1, m).astype(int))
    K = common.matrices(stack)
    began = time.perf_counter()
    L = common.factors(K)
    factoring = time.perf_counter() - began
    _, record = common.fit(stack, y, C=C, tol=CLOSE, learner="newton")
    times = common.race(
        {"newton": lambda: kw.learn(stack, y, C=C, tol=CLOSE, learner="newton")}, seconds
    )
    record |= {**times, "total_rank": sum(B.shape[1] for B in L), "factoring": factoring}
    for form, build in common.FORMS.items():
        record[form] = common.certified_cone(stack, y, C, build(L, y, C), "Clarabel", CLOSE)
        record[form]["with_factoring"] = record[form]["seconds"] + factoring
    solved = [record[f]["with_factoring"] for f in common.FORMS if record[f]["reached"]]
    record["ratio"] = min(solved) / times["newton"]["median"] if solved else None
    return record


# ---- growth ------------------------------------------------------------------------------------


def growth(data, name, n, m, draws):
    cells = []
    for seed in range(draws):
        stack, y, built = common.random_stack(name, data, n, m, seed)
        repeats = [common.fit(stack, y, C=1.0, tol=1e-3, learner="newton")[1] for _ in range(3)]
        cell = min(repeats, key=lambda r: r["seconds"])
        cells.append({**cell, "bank": built, "total": built + cell["seconds"]})
        del stack
    fields = ("seconds", "bank", "total", "solves", "kernels", "m")
    return {"n": n, "gap": max(c["gap"] for c in cells)} | {
        field: common.mean(cells, field) for field in fields
    }


# ---- all of it ---------------------------------------------------------------------------------


def main():
    args = common.arguments(
        __doc__, parts={"nargs": "+", "choices": PARTS, "default": PARTS, "metavar": "PART"}
    )
    quick = args.quick
    seconds = 0.1 if quick else 3.0
    splits = range(1 if quick else 5)
    sets = SETS[2:] if quick else SETS
    wide = [("ionosphere", 351, 100), ("ionosphere", 351, 2000), ("adult_a6a", 2000, 50)]
    wide += [("adult_a6a", 1000, 500), ("adult_a6a", 6000, 10)]
    wide = [("ionosphere", 60, 20)] if quick else wide
    costs = (1.0,) if quick else (1.0, 10.0, 100.0)
    cones = [("trace", 1.0), ("unit_trace", 100.0), ("random", 1.0)]
    n, m = (60, 6) if quick else (351, 48)
    many = (10, 20, 40) if quick else (10, 20, 50, 100, 200, 500, 1000, 2000)
    long = (100, 200) if quick else (200, 400, 800, 1500, 3000, 6000)
    fixed_n, fixed_m, draws = (60, 5, 1) if quick else (351, 20, 3)
    plan = [(("floor", s, k), floor_paper, args.data, s, k, seconds) for k in splits for s in sets]
    plan += [(("floor", "wide", *w), floor_wide, args.data, *w, seconds) for w in wide]
    plan += [(("cutting", C), cutting, C, 100 if quick else 569, seconds) for C in costs]
    plan += [(("conic", *case), conic, args.data, n, m, *case, seconds) for case in cones]
    plan += [(("growth", "overhead"), common.overhead, "newton")]
    plan += [(("growth", "m", k), growth, args.data, "ionosphere", fixed_n, k, draws) for k in many]
    plan += [(("growth", "n", k), growth, args.data, "adult_a6a", k, fixed_m, draws) for k in long]
    plan = [job for job in plan if job[0][0] in args.parts]
    results = common.Results("newton_speed", args)
    results.fill(plan)

    report_floor(results, sets, splits, wide)
    report_rivals(results, costs, cones)
    report_growth(results, many, long)


def report_floor(results, sets, splits, wide):
    rows = []
    for name in sets:
        cells = [c for k in splits if (c := results.get("floor", name, k))]
        if not cells:
            continue
        ratio = float(np.median([c["ratio"] for c in cells]))
        rows.append(
            [name, cells[0]["m"], cells[0]["n"], common.mean(cells, "solves")]
            + [1e3 * float(np.median([c[k]["median"] for c in cells])) for k in TIMED]
            + [ratio, max(c["ratio"] for c in cells), max(c["gap"] for c in cells)]
        )
    for key in wide:
        if c := results.get("floor", "wide", *key):
            times = [common.ms(c[k]) for k in TIMED]
            rows.append([f"{key[0]} (random)", c["m"], c["n"], c["solves"], *times])
            rows[-1] += [c["ratio"], c["ratio"], c["gap"]]
    if not rows:
        return
    print("time to gap 1e-2 against the floor\n")
    header = ["data", "m", "n", "solves", "newton ms", "SVC ms", "pass ms"]
    common.table([*header, "ratio", "worst ratio", "worst gap"], rows)
    for row in rows[: len(sets)]:
        if row[0] in sets:
            results.bar(f"{row[0]}: at most 10 times the floor", row[-3], row[-3] <= 10.0)


def report_rivals(results, costs, cones):
    rows = [
        [
            *(C, c["m"], c["n"], c["gap"], common.ms(c["newton"])),
            *(c["best"]["gap"], common.ms(c["loop"]), c["ratio"]),
        ]
        for C in costs
        if (c := results.get("cutting", C))
    ]
    if rows:
        print("a cutting-plane loop at certified gap 1e-4, breast cancer\n")
        header = ["C", "m", "n", "newton gap", "newton ms", "loop gap", "loop ms", "ratio"]
        common.table(header, rows)
        worst = min(row[-1] for row in rows)
        met = worst >= 5.0 and all(row[5] <= CLOSE for row in rows)
        results.bar("at least 5 times as fast as a cutting-plane loop", worst, met)
    rows, ratios = [], {}
    for kind, C in cones:
        if c := results.get("conic", kind, C):
            rows.append([kind, C, c["m"], c["n"], c["total_rank"], common.ms(c["newton"])])
            rows[-1].append(c["factoring"])
            for form in common.FORMS:
                rows[-1] += [c[form][field] for field in ("seconds", "with_factoring", "gap")]
            rows[-1].append(c["ratio"])
            ratios[kind] = c["ratio"]
    if rows:
        print("Clarabel at certified gap 1e-4, ionosphere; ratio: the better form with factoring\n")
        header = ["kernels", "C", "m", "n", "ranks", "newton ms", "factoring s"]
        for form in common.FORMS:
            header += [f"{form} form: solve s", "with factoring s", "gap"]
        common.table([*header, "ratio"], rows)
        for kind, ratio in ratios.items():
            text = f"{kind} kernels: at least 100 times as fast as Clarabel, factoring included"
            results.bar(text, ratio, ratio is not None and ratio >= 100.0)


def report_growth(results, many, long):
    base = results.get("growth", "overhead")
    if not base:
        return
    least = 20.0 * base["median"]
    for axis, sizes in (("m", many), ("n", long)):
        cells = [c for k in sizes if (c := results.get("growth", axis, k))]
        if not cells:
            continue
        print(f"growth with {axis}; overhead of a fit {1e3 * base['median']:.2g} ms\n")
        fields = ["m", "n", "solves", "kernels", "gap", "seconds", "bank", "total"]
        header = ["m", "n", "solves", "kernels", "worst gap", "learn s", "bank s", "both s"]
        common.table(header, [[c[field] for field in fields] for c in cells])
        at = [c[axis] for c in cells]
        for field, what in (("seconds", "learn"), ("total", "bank and learn")):
            slope, points = common.exponent(at, [c[field] for c in cells], least)
            text = f"{what}: exponent in {axis} over {points} points"
            if axis == "m":
                met = slope <= 1.1 if slope is not None and len(cells) == len(sizes) else None
                results.bar(f"{text}, at most 1.1", slope, met)
            else:
                print(f"- reported: {text}: {common.short(slope)}")


if __name__ == "__main__":
    main()
