"""Every solver to the same certified gap: seconds, and how many times newton's they are.

Problems: a random half of each set of rakoto2007 with all its kernels, of unit trace, at C = 1,
where few kernels are enough, and at C = 100; breast cancer with the 20 kernels of gai2010, C = 10;
ionosphere with 48 Gaussians on random features, as in bach2004, figure 2, C = 1. Solvers: our
learners for this objective; a loop of SVC and scipy's linprog; Clarabel on two cone programs; SCS
on the primal one, which suits it better.

Each solver meets newton in the same process, in turns; a rival uses the loosest setting of its own
that certifies the gap, and one that takes more than two seconds runs once. Cone programs need the
kernels factored: that time is theirs. A solver that misses a gap within 20 seconds is not asked
for a smaller one. Where another is faster than newton, the row says why.

``learner="auto"`` beside silp and skm, which are the fastest of the others, or level with them: the
least processor time of five turns each.
"""

import time
from functools import lru_cache, partial

import numpy as np

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.speed_rows import GAPS, PROBLEMS, problem
from kernelweave.learners import NAMES

LIMIT, SLOW = 20.0, 2.0  # seconds: of a fit, and of one that is not repeated
OURS = [name for name in ("simple", "silp", "skm", "qcqp") if name in NAMES]
CONES = {"Clarabel dual": ("Clarabel", "dual"), "Clarabel primal": ("Clarabel", "primal")}
CONES["SCS primal"] = ("SCS", "primal")
LOOP = "SVC + linprog"
OTHERS = [LOOP, *CONES]


@lru_cache(maxsize=1)
def factored(data, name, quick):
    """The factors of the kernels, and how long it took to find them."""
    K = common.matrices(problem(data, name, quick)[0])
    began = time.perf_counter()
    return common.factors(K), time.perf_counter() - began


# ---- solvers -----------------------------------------------------------------------------------


def attempt(solver, data, name, C, quick, gap, limit):
    """One run to the gap, at a setting that suits the solver, and the same run as a function."""
    stack, y = problem(data, name, quick)
    if solver in CONES:
        package, form = CONES[solver]
        L, factoring = factored(data, name, quick)
        program = common.FORMS[form](L, y, C)
        found = common.certified_cone(stack, y, C, program, package, gap, limit)
        found["factoring"] = factoring
        return found, lambda: common.solve_cone(program, package, found["tol"], limit)
    if solver == LOOP:
        K = common.matrices(stack)
        found = common.certified_loop(stack, K, y, C, gap, limit)
        return found, lambda: common.cutting_planes(K, y, C, gap, found["svc_tol"], limit)
    options = {"C": C, "tol": gap, "learner": solver, "max_iter": 100_000}
    found = common.fit(stack, y, limit=limit, **options)[1]
    return found, lambda: kw.learn(stack, y, **options)


def measure(data, name, C, solver, quick, limit, seconds):
    """A solver beside newton at every gap, until it misses one."""
    stack, y = problem(data, name, quick)
    record = {"m": stack.m, "n": stack.n}
    for gap in GAPS:
        found, again = attempt(solver, data, name, C, quick, gap, limit)
        reached = found.get("reached", False)
        often = reached and found["seconds"] <= SLOW
        runners = {"newton": partial(kw.learn, stack, y, C=C, tol=gap, learner="newton")}
        times = common.race(runners | ({solver: again} if often else {}), seconds)
        record[f"{gap:g}"] = {
            **{field: found.get(field) for field in ("gap", "status", "solves")},
            "reached": reached,
            "factoring": found.get("factoring", 0.0),
            "newton": times["newton"],
            "time": times[solver] if often else common.spread([found["seconds"]]),
        }
        if not reached:
            break
    return record


def among_ours(data, name, C, quick, limit, turns):
    """The least processor seconds of each of our learners at every gap; None where it misses it."""
    stack, y = problem(data, name, quick)
    return {
        f"{gap:g}": {
            learner: quickest(stack, y, limit, turns, C=C, tol=gap, learner=learner)
            for learner in ("auto", "silp", "skm")
        }
        for gap in GAPS
    }


def quickest(stack, y, limit, turns, **options):
    least = np.inf
    for _ in range(turns):
        found = common.fit(stack, y, limit=limit, max_iter=100_000, **options)[1]
        if not found.get("reached"):
            return None
        least = min(least, found["cpu"])
        if least > SLOW / 10.0:
            break
    return least


# ---- the table ---------------------------------------------------------------------------------


def ratio(cell):
    """How many times newton's the time of a solver is, factoring included."""
    return total(cell) / cell["newton"]["median"]


def total(cell):
    return cell["time"]["median"] + cell["factoring"]


def word(cell, known):
    """Seconds, times newton's, and certified gap; or why there is nothing."""
    if cell is None:
        return "not tried" if known else None
    if not cell["reached"]:
        reached = "no answer" if cell["gap"] is None else f"gap {cell['gap']:.0e}"
        return f"{reached} in {cell['time']['median']:.0f} s"
    return f"{total(cell):.3g} (×{ratio(cell):.3g}, {cell['gap']:.0e})"


def why(solver, cell, newton):
    """What made a solver faster than newton in the same turns: fewer steps or shorter ones."""
    text = f"{solver}, ×{ratio(cell):.2g}"
    if cell["solves"] and newton["solves"]:
        steps = [
            f"{solves} SVMs, {1e3 * times['median'] / solves:.2g} ms each with what follows"
            for solves, times in (
                (cell["solves"], cell["time"]),
                (newton["solves"], cell["newton"]),
            )
        ]
        text += f": {steps[0]}; newton {steps[1]}"
    return text


def report(results, problems):
    solvers, rows, slower, beaten = [*OURS, *OTHERS], [], 0, []
    for name, C in problems:
        newton = results.get(name, C, "newton")
        if not newton:
            continue
        cells = {solver: results.get(name, C, solver) or {} for solver in solvers}
        for gap in GAPS:
            here = {solver: cell.get(f"{gap:g}") for solver, cell in cells.items()}
            own = newton[f"{gap:g}"]
            ratios = {s: ratio(c) for s, c in here.items() if c and c["reached"]}
            fastest = min(ratios, key=ratios.get, default=None)
            if fastest and ratios[fastest] < 1.0:
                slower += 1
                reason = why(fastest, here[fastest], own)
                if fastest in OTHERS:
                    beaten.append(f"{name}, C = {C:g}, {gap:g}: {fastest}")
            else:
                reason = "newton"
            rows.append(
                [
                    *(f"{name}, C = {C:g}", newton["m"], newton["n"], gap),
                    f"{own['time']['median']:.3g} ({own['gap']:.0e})",
                    *(word(here[solver], cells[solver]) for solver in solvers),
                    reason,
                ]
            )
    print("seconds (times newton's, certified gap), medians\n")
    common.table(["data", "M", "n", "to gap", "newton", *solvers, "fastest"], rows)
    report_cones(results, problems)
    report_auto(results, problems)
    whole = len(rows) == len(PROBLEMS) * len(GAPS) or None
    results.bar(
        "at equal certified gap a learner of ours is the fastest in every row",
        "; ".join(beaten) or f"in {len(rows)} of {len(rows)} rows",
        whole and not beaten,
    )
    results.bar(
        "newton is the fastest in every row, or the row says why not",
        f"fastest in {len(rows) - slower} of {len(rows)} rows",
        whole,
    )


def report_auto(results, problems):
    """What "auto" takes beside the fastest of our learners."""
    rows = []
    for name, C in problems:
        for gap, times in (results.get(name, C, "auto") or {}).items():
            if gap in map("{:g}".format, GAPS):
                known = {learner: t for learner, t in times.items() if t is not None}
                fastest = min(known, key=known.get)
                share = times["auto"] / known[fastest]
                rows.append([f"{name}, C = {C:g}", gap, 1e3 * times["auto"], fastest, share])
    if rows:
        print("auto beside the fastest of our learners\n")
        common.table(["data", "to gap", "auto ms", "fastest", "times the fastest"], rows)
        late = [row for row in rows if row[-1] > 1.3]
        worst = max(row[-1] for row in rows)
        text = f"auto at most 1.3 times the fastest of our learners, {len(rows)} rows"
        results.bar(text, f"{worst:.3g} at worst, above it in {len(late)}", not late)


def report_cones(results, problems):
    """What a cone program takes without the factors and with them."""
    rows = [
        [f"{name}, C = {C:g}", solver, gap, cell["time"]["median"], cell["factoring"], total(cell)]
        for name, C in problems
        for solver in CONES
        for gap in GAPS
        if (cell := (results.get(name, C, solver) or {}).get(f"{gap:g}")) and cell["reached"]
    ]
    if rows:
        print("cone programs: the solver alone, and with the kernels factored\n")
        common.table(["data", "solver", "to gap", "solve s", "factoring s", "both s"], rows)


def main():
    names = list(dict.fromkeys(name for name, _ in PROBLEMS))
    args = common.arguments(
        __doc__, sets={"nargs": "+", "choices": names, "default": names, "metavar": "SET"}
    )
    problems, limit, seconds = [p for p in PROBLEMS if p[0] in args.sets], LIMIT, 2.0
    if args.quick:
        problems, limit, seconds = [("liver", 100.0), ("random", 1.0)], 5.0, 0.1
    plan = [(*each, solver) for each in problems for solver in ("newton", *OURS, *OTHERS)]
    results = common.Results("speed", args)
    jobs = [(key, measure, args.data, *key, args.quick, limit, seconds) for key in plan]
    turns = 1 if args.quick else 5
    jobs += [((*p, "auto"), among_ours, args.data, *p, args.quick, limit, turns) for p in problems]
    results.fill(jobs)
    report(results, problems)


if __name__ == "__main__":
    main()
