"""Every solver to the same certified gap: seconds, and how many times newton's they are.

Problems: a random half of each set of rakoto2007 with all its kernels, of unit trace, C = 100; breast
cancer with the 20 kernels of gai2010, C = 10; ionosphere with 48 Gaussians on random features, as in
bach2004, figure 2, C = 1. Solvers: our learners that minimise this objective; a loop of SVC and
scipy's linprog; Clarabel on two cone programs; SCS on the primal one, which suits it better.

Each solver meets newton in the same process, in turns; a rival uses the loosest setting of its own
that certifies the gap, and one that takes more than two seconds runs once. Cone programs need the
kernels factored: that time is theirs. A solver that misses a gap within the limit of a minute is not
asked for a smaller one. Where another is faster than newton, the row says why.
"""

import time
from functools import lru_cache

import common
from newton_speed import breast_cancer, random_stack
from rakoto_gaps import SETS, prepare
from rakoto_gaps import C as RAKOTO_C

import kernelweave as kw
from kernelweave.learners import NAMES

GAPS = (1e-2, 1e-4)
LIMIT, SLOW = 60.0, 2.0  # seconds: of a fit, and of one that is not repeated
OURS = [name for name in ("simple", "silp", "skm", "qcqp") if name in NAMES]
CONES = {"Clarabel dual": ("Clarabel", "dual"), "Clarabel primal": ("Clarabel", "primal")}
CONES["SCS primal"] = ("SCS", "primal")
LOOP = "SVC + linprog"
OTHERS = [LOOP, *CONES]
PROBLEMS = [*SETS, "breast cancer", "random"]


# ---- problems ----------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def problem(data, name, quick):
    """Kernels, labels and C."""
    if name == "random":
        stack, y, _ = random_stack(data, "ionosphere", *((60, 6) if quick else (351, 48)), 0)
        return stack, y, 1.0
    if name == "breast cancer":
        return *breast_cancer(100 if quick else 569), 10.0
    split, bank = prepare(name, "unit_trace", 0, data)
    return bank.stack, split.y, RAKOTO_C


@lru_cache(maxsize=1)
def factored(data, name, quick):
    """The factors of the kernels, and how long it took to find them."""
    K = common.matrices(problem(data, name, quick)[0])
    began = time.perf_counter()
    return common.factors(K), time.perf_counter() - began


# ---- solvers -----------------------------------------------------------------------------------


def attempt(solver, data, name, quick, gap, limit):
    """One run to the gap, at a setting that suits the solver, and the same run as a function."""
    stack, y, C = problem(data, name, quick)
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


def measure(data, name, solver, quick, limit, seconds):
    """A solver beside newton at every gap, until it misses one."""
    stack, y, C = problem(data, name, quick)
    record = {"m": stack.m, "n": stack.n, "C": C}
    for gap in GAPS:
        found, again = attempt(solver, data, name, quick, gap, limit)
        runners = {"newton": lambda: kw.learn(stack, y, C=C, tol=gap, learner="newton")}  # noqa: B023
        often = found.get("reached", False) and found["seconds"] <= SLOW
        if often:
            runners[solver] = again
        times = common.race(runners, seconds)
        record[f"{gap:g}"] = {
            **{field: found.get(field) for field in ("gap", "reached", "status", "solves")},
            "factoring": found.get("factoring", 0.0),
            "newton": times["newton"],
            "time": times[solver] if often else common.spread([found["seconds"]]),
        }
        if not found.get("reached", False):
            break
    return record


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
        reached = f"gap {cell['gap']:.0e}" if cell["gap"] is not None else "no answer"
        return f"{reached} in {cell['time']['median']:.0f} s"
    return f"{total(cell):.3g} ×{ratio(cell):.3g} {cell['gap']:.0e}"


def why(solver, cell, newton):
    """What made a solver faster than newton: fewer steps or shorter ones."""
    steps = [f"×{ratio(cell):.2f}"]
    for each, what in ((cell, solver), (newton, "newton")):
        if each["solves"]:
            per = 1e3 * each["time"]["median"] / each["solves"]
            steps.append(f"{what} {each['solves']} SVMs, {per:.2g} ms each with its step")
    return f"{solver}: " + "; ".join(steps)


def report(results, names):
    rows, slower, beaten = [], 0, []
    solvers = [*OURS, *OTHERS]
    for name in names:
        newton = results.get(name, "newton")
        if not newton:
            continue
        cells = {solver: results.get(name, solver) for solver in solvers}
        for gap in GAPS:
            key = f"{gap:g}"
            here = {s: c[key] if c and key in c else None for s, c in cells.items()}
            own = newton.get(key)
            faster = [s for s, c in here.items() if c and c["reached"] and ratio(c) < 1.0]
            fastest = min(faster, key=lambda s: ratio(here[s]), default=None)
            slower += fastest is not None
            beaten += [f"{name} {key}: {s}" for s in faster if s in OTHERS]
            rows.append(
                [f"{name}, C = {newton['C']:g}", newton["m"], newton["n"], gap]
                + [f"{own['time']['median']:.3g} {own['gap']:.0e}" if own else None]
                + [word(here[s], cells[s]) for s in solvers]
                + [why(fastest, here[fastest], own) if fastest else "newton"]
            )
    print("seconds (median), times newton's, certified gap\n")
    header = ["data", "M", "n", "to gap", "newton", *solvers, "fastest"]
    common.table(header, rows)
    parts = [
        [f"{name}, {solver}", gap, cell["time"]["median"], cell["factoring"], total(cell)]
        for name in names
        for solver in CONES
        for gap in GAPS
        if (cell := (results.get(name, solver) or {}).get(f"{gap:g}")) and cell["reached"]
    ]
    if parts:
        print("cone programs: the solver alone, and with the kernels factored\n")
        common.table(["data, solver", "to gap", "solve s", "factoring s", "both s"], parts)
    whole = set(names) == set(PROBLEMS) and len(rows) == len(PROBLEMS) * len(GAPS)
    results.bar(
        "at equal certified gap no other program is faster, in any row",
        ", ".join(beaten) or f"none in {len(rows)} rows",
        not beaten if whole else None,
    )
    results.bar(
        "newton is the fastest in every row, or the row says why not",
        f"fastest in {len(rows) - slower} of {len(rows)} rows",
        True if whole else None,
    )


def main():
    args = common.arguments(
        __doc__, sets={"nargs": "+", "choices": PROBLEMS, "default": PROBLEMS, "metavar": "SET"}
    )
    names, limit, seconds = args.sets, LIMIT, 2.0
    if args.quick:
        names, limit, seconds = ["liver", "random"], 5.0, 0.1
    plan = [(name, solver) for name in names for solver in ("newton", *OURS, *OTHERS)]
    results = common.Results("speed", args)
    results.fill([(key, measure, args.data, *key, args.quick, limit, seconds) for key in plan])
    report(results, names)


if __name__ == "__main__":
    main()
