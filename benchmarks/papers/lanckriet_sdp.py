"""Signed weights by semidefinite programming: right on awkward problems, and how fast.

Twenty random problems of each criterion of lanckriet2004: hard margin (31), 1-norm (36), 2-norm
(41), 2-norm with C learned (45). At most 60 rows, up to half of them without labels, up to five
kernels: the paper's three, Grams of random rank, kernels of rank 1 to 3, one that is a combination
of others, copies, scales a million apart, one kernel alone. The reference is the program as
printed, with its n² unknowns, by cvxpy and Clarabel. "Over" is by what share an optimum exceeds one
that it must not exceed: signed weights, nonnegative ones (qcqp), the best single kernel, all with
the same trace.

Then 200 rows and three kernels: the program as printed by SCS and Clarabel, at the loosest setting
that gets value and semidefiniteness right to 1e-4, against a fit with a certified gap of that.
Their time is that of the solver alone, without cvxpy's; processor seconds, one thread. A rival has
``--limit`` of them per setting, and nine tenths of the memory that is free.
"""

import time

import numpy as np

import kernelweave as kw
from benchmarks.harness import child_process, common
from benchmarks.harness.internals import HardMarginInfeasible

SHOWS = "lanckriet2004, (31), (36), (41), (45)"
CRITERIA = {
    "hard margin": {"C": np.inf},
    "1-norm": {"loss": "hinge"},
    "2-norm": {"loss": "squared_hinge"},
    "2-norm, C learned": {"C": "learn", "loss": "squared_hinge"},
}
KINDS = ("mixed", "any rank", "low rank", "canceling", "copies", "scales", "single")
SEEDS, TOL, NEAR, EIGENVALUE = 20, 1e-7, 1e-5, -1e-8
TIMED, ROWS, ACCURACY, TIMES = "1-norm", 200, 1e-4, 50.0
LADDER = {"SCS": (1e-3, 1e-4, 1e-5), "Clarabel": (1e-4, 1e-6, 1e-8)}
TIGHT = {
    **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-9),
    "max_iter": 500,
}


# ---- problems ----------------------------------------------------------------------------------


def gram(X):
    K = X @ X.T
    return (K + K.T) / 2


def gaussian(X, width):
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / (2.0 * width**2))


def papers(X):
    """K1, K2, K3 of the paper."""
    return [(gram(X) + 1.0) ** 2, gaussian(X, 1.0), gram(X)]


def kernels(kind, X, rng):
    """A list of kernel matrices over the rows of X."""
    columns = X.shape[1]
    if kind == "single":
        return [gaussian(X, 10.0 ** rng.uniform(-0.5, 1.0))]
    if kind == "any rank":
        widths = rng.integers(1, len(X), rng.integers(2, 6))
        return [gram(X @ rng.standard_normal((columns, w)) ** 3) + 0.1 * np.eye(len(X)) * (w % 2)
                for w in widths]  # fmt: skip
    if kind == "low rank":
        parts = [rng.permutation(columns)[: 1 + k % 3] for k in range(4)]
        return [gram(X[:, part]) for part in parts] + [gram(X[:, [0]])]
    K = papers(X)
    if kind == "canceling":
        a, b = rng.random(2) + 0.1
        return [*K, a * K[0] + b * K[2], K[1] + 2.0 * K[2]]
    if kind == "copies":
        return [*K, K[1], 3.0 * K[0]]
    if kind == "scales":
        return [s * k for s, k in zip(rng.permutation([1e-3, 1.0, 1e3]), K, strict=True)]
    return K


def problem(criterion, seed):
    """Kernels, labels with 0 for none, options of ``learn``; every hard margin exists."""
    rng = np.random.default_rng([list(CRITERIA).index(criterion), seed])
    kind = KINDS[seed % len(KINDS)]
    n = 60 if seed == SEEDS - 1 else int(rng.integers(12, 36))
    y = rng.permutation(np.where(np.arange(n) < rng.integers(n // 4, 3 * n // 4 + 1), 1.0, -1.0))
    X = rng.standard_normal((n, int(rng.integers(2, 7))))
    X[:, ::2] += 0.7 * y[:, None]
    if criterion == "hard margin":
        X[:, 0] = y * (0.5 + rng.random(n))
    known = y.copy()
    if seed % 2:
        known[rng.permutation(n)[: int(rng.uniform(0.1, 0.5) * n)]] = 0.0
    K = np.stack(kernels(kind, X, rng))
    options = dict(CRITERIA[criterion])
    options.setdefault("C", 10.0 ** rng.uniform(-1, 2) * n / np.trace(K, axis1=1, axis2=2).mean())
    return kind, K, known, options


def usual_trace(K, options):
    """The mean trace, that of the identity among them where C is learned."""
    traces = np.trace(K, axis1=1, axis2=2)
    return float(np.append(traces, K.shape[1]).mean() if options["C"] == "learn" else traces.mean())


# ---- the program as printed --------------------------------------------------------------------


def printed(K, y, trace, C, loss="hinge"):
    """(31), (36), (41) or (45) in cvxpy, the weights and the unit of the value: 2J is value/unit.

    Where all rows have labels and nothing is added to the kernel, the first constraint says K ⪰ 0.
    """
    import cvxpy as cp

    n = K.shape[1]
    seen = np.flatnonzero(y)
    signs, unit = np.outer(y[seen], y[seen]), trace / n
    sizes = np.trace(K, axis1=1, axis2=2) / n
    K = K / sizes[:, None, None]
    mu, bias, t = cp.Variable(len(K)), cp.Variable(), cp.Variable()
    nu = cp.Variable(seen.size, nonneg=True)
    total, cost, right = cp.sum(mu), t, 1.0 + nu + bias * y[seen]
    G = sum(mu[k] * (K[k][np.ix_(seen, seen)] * signs) for k in range(len(K)))
    limits = []
    if C == "learn":
        ridge = cp.Variable(nonneg=True)
        G, total = G + ridge * np.eye(seen.size), total + ridge
    elif loss == "squared_hinge":
        G = G + np.eye(seen.size) / (C * unit)
    elif C < np.inf:
        over = cp.Variable(seen.size, nonneg=True)
        right, cost = right - over, t + 2.0 * C * unit * cp.sum(over)
    if loss == "squared_hinge" or seen.size < n:
        limits.append(sum(mu[k] * K[k] for k in range(len(K))) >> 0)
    side = cp.reshape(right, (seen.size, 1), order="C")
    block = cp.bmat([[G, side], [side.T, cp.reshape(t, (1, 1), order="C")]])
    return cp.Problem(cp.Minimize(cost), [total == 1.0, block >> 0, *limits]), mu, unit


def reference(K, y, trace, options):
    """J by Clarabel and how exact it is by its own account, at the regularization that suits it.

    Singular kernels leave the program without an interior, which costs digits or all of them.
    """
    import cvxpy as cp

    program, _, unit = printed(K, y, trace, **options)
    data, chain, _ = program.get_problem_data(cp.CLARABEL)
    best, least = np.nan, np.inf
    for regularization in (1e-8, 1e-7, 1e-6):
        settings = TIGHT | {"static_regularization_constant": regularization}
        found = chain.solve_via_data(program, data, verbose=False, solver_opts=settings)
        between = abs(found.obj_val - found.obj_val_dual) / abs(found.obj_val)
        inexact = max(between, found.r_prim, found.r_dual)
        if inexact < least:
            best, least = 0.5 * found.obj_val / unit, inexact
        if least <= 1e-8:
            break
    return best, least


# ---- right -------------------------------------------------------------------------------------


def compare(criterion, seed):
    """One problem: ours beside the reference, and the order of the optima."""
    common.need("cvxpy")
    kind, K, y, options = problem(criterion, seed)
    c = usual_trace(K, options)
    signed = kw.learn(K, y, learner="sdp", trace=c, tol=TOL, **options)
    plain = kw.learn(K, y, learner="qcqp", trace=c, tol=TOL, **options)
    value, inexact = reference(K, y, c, options)
    combined = np.tensordot(signed.weights, K, axes=1)
    return {
        "kind": kind,
        "m": len(K),
        "n": y.size,
        "without": int(np.count_nonzero(y == 0.0)),
        "value": signed.primal,
        "gap": signed.gap,
        "reference": value,
        "inexact": inexact,
        "apart": abs(signed.primal / value - 1.0),
        "eigenvalue": float(np.linalg.eigvalsh(combined)[0] / np.trace(combined)),
        "negative": float(signed.weights.min()),
        "nonnegative": plain.primal,
        "single": min(alone(k, y, c, options) for k in K),
        "iterations": signed.n_iter,
    }


def alone(K, y, trace, options):
    """The optimum of one kernel; infinite where it has no hard margin."""
    try:
        return kw.learn(K[None], y, trace=trace, tol=TOL, **options).primal
    except HardMarginInfeasible:
        return np.inf


# ---- fast --------------------------------------------------------------------------------------


def large(criterion, n):
    """The paper's three kernels on n rows, all with labels: the rivals' easiest case."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.tile([1.0, -1.0], n // 2))
    X = rng.standard_normal((n, 8))
    X[:, ::2] += 0.5 * y[:, None]
    X /= np.linalg.norm(X, axis=1)[:, None]
    K = np.stack(papers(X))
    return (
        K * (n / np.trace(K, axis1=1, axis2=2))[:, None, None],
        y,
        {"C": 1.0} | CRITERIA[criterion],
    )


def ours(criterion, n):
    """Processor seconds of a fit, the better of value and bound for the rivals to meet."""
    K, y, options = large(criterion, n)
    stack, c = kw.KernelStack(K), usual_trace(K, options)
    kw.learn(stack, y, learner="sdp", trace=c, tol=ACCURACY, **options)
    taken = []
    for _ in range(7):
        began = time.process_time()
        found = kw.learn(stack, y, learner="sdp", trace=c, tol=ACCURACY, **options)
        taken.append(time.process_time() - began)
    exact = kw.learn(stack, y, learner="sdp", trace=c, tol=1e-8, **options)
    return {
        "time": common.spread(taken),
        "gap": found.gap,
        "value": exact.primal,
        "iterations": found.n_iter,
    }


def rival(criterion, n, solver, value, limit):
    """The loosest setting that is right to ``ACCURACY``, or the least time that one takes."""
    common.need("cvxpy")
    common.need(solver.lower())
    tried = []
    for setting in LADDER[solver]:
        found = child_process.in_process(timed, limit, criterion, n, solver, setting)
        if found.get("why") == child_process.TIME:
            found["seconds"] = limit
        if "value" in found:
            found["error"] = max(abs(found["value"] / value - 1.0), -found["eigenvalue"])
        tried.append({"setting": setting, "reached": found.get("error", 1.0) <= ACCURACY, **found})
        if tried[-1]["reached"] or "why" in found:
            break
    return {**tried[-1], "tried": tried}


def timed(limit, criterion, n, solver, setting):
    """Seconds and answer of one solver; only ``limit`` processor seconds are for solving."""
    program = prepare(criterion, n, solver, setting)
    child_process.allow(limit)
    return solve(*program, criterion, n)


def prepare(criterion, n, solver, setting):
    """The program, compiled for the solver."""
    import cvxpy as cp

    K, y, options = large(criterion, n)
    program, mu, unit = printed(K, y, usual_trace(K, options), **options)
    if solver == "SCS":
        settings = {"eps_abs": setting, "eps_rel": setting, "max_iters": 10**6}
    else:
        settings = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), setting)
    compiled = program.get_problem_data(getattr(cp, solver.upper()), solver_opts=settings)
    return program, mu, unit, compiled, settings


def solve(program, mu, unit, compiled, settings, criterion, n):
    """Seconds, J and the smallest eigenvalue over the trace."""
    data, chain, inverse = compiled
    began = time.process_time()
    raw = chain.solve_via_data(program, data, verbose=False, solver_opts=settings)
    seconds = time.process_time() - began
    program.unpack_results(raw, chain, inverse)
    K, _, _ = large(criterion, n)
    values = np.linalg.eigvalsh(np.tensordot(mu.value, K, axes=1))
    return {
        "seconds": seconds,
        "value": 0.5 * program.value / unit,
        "eigenvalue": float(values[0] / values.sum()),
        "status": program.status,
    }


# ---- all of it ---------------------------------------------------------------------------------


def main():
    args = common.arguments(
        __doc__,
        limit={"type": float, "default": 60.0, "help": "processor seconds for a rival (60)"},
    )
    seeds, rows, limit = (3, 30, 20.0) if args.quick else (SEEDS, ROWS, args.limit)
    results = common.Results("lanckriet_sdp", args, len(CRITERIA) * seeds + 3)
    with results.working():
        for seed in range(seeds):
            for criterion in CRITERIA:
                results.cell((criterion, seed), compare, criterion, seed)
        results.cell((TIMED, rows, "sdp"), ours, TIMED, rows)
        mine = results.get(TIMED, rows, "sdp")
        for solver in LADDER if mine else ():
            results.cell((TIMED, rows, solver), rival, TIMED, rows, solver, mine["value"], limit)
    report_right(results, seeds)
    report_fast(results, rows)


def over(less, more):
    """By what share an optimum exceeds one that it must not exceed."""
    return less / more - 1.0 if more is not None else -1.0


def report_right(results, seeds):
    rows, every = [], []
    for criterion in CRITERIA:
        cells = [c for seed in range(seeds) if (c := results.get(criterion, seed))]
        if not cells:
            continue
        every += cells
        rows.append(
            [
                *(criterion, len(cells), sum(c["without"] > 0 for c in cells)),
                *(max(c[field] for c in cells) for field in ("apart", "gap")),
                min(c["eigenvalue"] for c in cells),
                sum(c["negative"] < 0.0 for c in cells),
                max(over(c["value"], c["nonnegative"]) for c in cells),
                max(over(c["nonnegative"], c["single"]) for c in cells),
                max(c["iterations"] for c in cells),
                max(c["inexact"] for c in cells),
            ]
        )
    if not every:
        return
    print(f"sdp at tol {TOL:g} beside the program as printed; the worst of each column\n")
    header = ["criterion", "problems", "unlabeled rows", "apart", "gap", "eigenvalue / trace"]
    header += ["negative weights", "signed over nonnegative", "nonnegative over single"]
    common.table([*header, "iterations", "reference inexact by"], rows)
    whole = len(every) == len(CRITERIA) * SEEDS or None
    apart, least = max(c["apart"] for c in every), min(c["eigenvalue"] for c in every)
    text = f"within {NEAR:g} of cvxpy and Clarabel on {SEEDS} problems of each criterion"
    results.bar(text, apart, whole and apart <= NEAR)
    text = f"smallest eigenvalue on all rows at least {EIGENVALUE:g} times the trace"
    results.bar(text, least, whole and least >= EIGENVALUE)
    worst = max(
        max(over(c["value"], c["nonnegative"]), over(c["nonnegative"], c["single"])) for c in every
    )
    text = f"signed ≤ nonnegative ≤ best single kernel, up to gaps of {TOL:g}"
    results.bar(text, worst, whole and worst <= 2.0 * TOL)
    print()


def report_fast(results, n):
    mine = results.get(TIMED, n, "sdp")
    if not mine:
        return
    median = mine["time"]["median"]
    rows, ratios, told = [["sdp", common.ms(mine["time"]), 1.0, mine["gap"], None]], {}, []
    for solver in LADDER:
        for cell in (results.get(TIMED, n, solver) or {"tried": []})["tried"]:
            seconds, more = cell.get("seconds"), "> " if "why" in cell else ""
            rows.append(
                [
                    f"{solver} at {cell['setting']:g}",
                    seconds and f"{more}{1e3 * seconds:.3g}",
                    seconds and f"{more}{common.short(seconds / median)}",
                    cell.get("error"),
                    cell.get("why") or ("right" if cell["reached"] else "not right"),
                ]
            )
        if cell := results.get(TIMED, n, solver):
            ratios[solver] = cell.get("seconds", np.inf) / median
            there = f"{common.short(ratios[solver])} times" if cell["reached"] else cell["why"]
            if not cell["reached"] and np.isfinite(ratios[solver]):
                there = f"{there} at {common.short(ratios[solver])} times"
            told.append(f"{solver}: {there}")
    print(f"{TIMED}, n = {n}, m = 3: processor milliseconds to {ACCURACY:g}\n")
    common.table(["solver", "ms", "times ours", "gap or error", ""], rows)
    whole = n == ROWS and len(ratios) == len(LADDER)
    text = f"n = {ROWS}, m = 3: SCS and Clarabel take {TIMES:g} times as long, or do not get there"
    results.bar(text, "; ".join(told), min(ratios.values()) >= TIMES if whole else None)


if __name__ == "__main__":
    main()
