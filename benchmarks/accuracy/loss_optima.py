"""Every loss and both forms of several classes against the textbook's program, conically solved.

20 random problems each: 20 to 40 rows, 2 to 8 kernels, Gaussian and linear, of one feature and of
all, duplicates, rank one, scales up to 1e4 apart; C from 0.1 to 100. ``newton`` is asked for a gap
of 1e-6, Clarabel for 1e-8. Every problem follows from its seed: ``problem(form, seed)``.

"interval" has 30 problems, asked for 1e-8 and to be within 1e-6: exact, right-, left- and
interval-censored rows, rows of which nothing is known, and weights of rows in half of the problems.
"worst claim" is the most by which a gap in exact arithmetic exceeds the one that was reported.
"""

from fractions import Fraction

import numpy as np

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.exact_gap import of_solution
from tests._helpers.textbook import loss_optimum

FORMS = {
    "hinge": ("hinge", "labels"),
    "squared hinge": ("squared_hinge", "labels"),
    "epsilon insensitive": ("epsilon_insensitive", "values"),
    "squared": ("squared", "values"),
    "quantile": ("quantile", "values"),
    "one class": ("one_class", None),
    "one versus rest": ("hinge", "rest"),
    "one versus one": ("hinge", "pairs"),
    "squared, three targets": ("squared", "targets"),
    "quantile, three targets": ("quantile", "targets"),
    "interval": ("interval", "ends"),
}
TOL, NEAR, COUNT = 1e-6, 1e-5, 20
SHARPER = {"interval": (1e-8, 1e-6, 30)}


def problem(form, seed):
    """Kernels (m, n, n), y, C, the loss and weights of the rows."""
    rng = np.random.default_rng(seed)
    loss, kind = FORMS[form]
    n, m = int(rng.integers(20, 41)), int(rng.integers(2, 9))
    X = rng.standard_normal((n, 5))
    K = []
    for _ in range(m):
        Z = X[:, [rng.integers(5)]] if rng.random() < 0.5 else X
        squares = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
        width = 10.0 ** rng.uniform(-0.3, 0.7)
        K.append(Z @ Z.T if rng.random() < 0.5 else np.exp(-squares / (2.0 * width**2)))
    if kind is None:  # linear kernels alone have the origin among the points: the optimum is 0
        K[0] = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 8.0)
    if rng.random() < 0.4:
        K[-1] = K[0].copy()
    K = np.stack(K)
    K *= (n / np.trace(K, axis1=1, axis2=2))[:, None, None]
    if rng.random() < 0.4:
        K *= 10.0 ** rng.uniform(-2, 2, m)[:, None, None]
    C = float(10.0 ** rng.uniform(-1, 2))
    signal = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.5 * rng.standard_normal(n)
    three = np.digitize(signal, np.quantile(signal, [0.3, 0.7]))
    y = {
        "labels": np.where(signal > np.median(signal), 1.0, -1.0),
        "values": signal,
        "targets": np.stack([signal, X[:, 2] ** 2, X[:, 3]], axis=1),
        "rest": np.where(three[:, None] == np.arange(3), 1.0, -1.0),
        "pairs": np.stack(
            [1.0 * (three == a) - (three == b) for a, b in ((0, 1), (0, 2), (1, 2))], 1
        ),
        "ends": ends(rng, signal),
    }.get(kind)
    weights = rng.integers(0, 4, n) if kind == "ends" and seed % 2 else np.ones(n)
    return K, y, 1.0 / (rng.uniform(0.1, 0.7) * n) if kind is None else C, loss, weights


def ends(rng, values):
    """What is known of values: themselves, one end, both, or nothing."""
    kind, wide = rng.integers(0, 5, values.size), rng.uniform(0.0, 1.0, values.size)
    low, high = values - wide * (kind == 1), values + wide * (kind == 1)
    low[(kind == 2) | (kind == 4)], high[(kind == 3) | (kind == 4)] = -np.inf, np.inf
    return np.stack([low, high], axis=1)


def measure(form, seed):
    common.need("cvxpy")
    K, y, C, loss, weights = problem(form, seed)
    tol = SHARPER.get(form, (TOL,))[0]
    solution = kw.learn(K, y, C, loss=loss, tol=tol, sample_weight=weights)
    best = loss_optimum(K, y, C * weights, loss)
    exact = of_solution(K, y, solution, C, loss=loss, sample_weight=weights)
    size = max(abs(best), abs(solution.objective))
    judged = solution.certificate()
    return {
        "away": abs(solution.objective - best) / size,
        "above": (solution.dual - best) / size,
        "gap": judged.gap,
        "claim": float(exact.gap - Fraction(solution.gap)),
        "status": solution.status,
        "solves": solution.n_svm_solves,
    }


def main():
    args = common.arguments(__doc__)
    results = common.Results("loss_optima", args)
    counts = {form: 2 if args.quick else SHARPER.get(form, (0, 0, COUNT))[2] for form in FORMS}
    plan = [(form, seed) for form in FORMS for seed in range(counts[form])]
    results.fill([(key, measure, *key) for key in plan])
    rows = []
    for form in FORMS:
        cells = [c for seed in range(counts[form]) if (c := results.get(form, seed))]
        if not cells:
            continue
        away, gap, claim = (max(c[name] for c in cells) for name in ("away", "gap", "claim"))
        near = SHARPER.get(form, (0, NEAR))[1]
        reached = sum(c["status"] == "optimal" for c in cells)
        solves = max(c["solves"] for c in cells)
        rows.append([form, len(cells), reached, away, gap, claim, solves])
        met = away <= near if len(cells) >= COUNT else None
        results.bar(f"{form}: within {near:.0e} of the conic reference", away, met)
        results.bar(f"{form}: gaps hold in exact arithmetic, to 1e-15", claim, claim <= 1e-15)
    common.table(
        [
            "form",
            "problems",
            "optimal",
            "worst distance",
            "worst gap",
            "worst claim",
            "most solves",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
