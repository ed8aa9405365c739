"""Every loss and both forms of several classes against the textbook's program, conically solved.

20 random problems each: 20 to 40 rows, 2 to 8 kernels, Gaussian and linear, of one feature and of
all, duplicates, rank one, scales up to 1e4 apart; C from 0.1 to 100. ``newton`` is asked for a gap
of 1e-6, Clarabel for 1e-9. Every problem follows from its seed: ``problem(form, seed)``.
"""

import numpy as np

import kernelweave as kw
from benchmarks.harness import common
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
}
TOL, NEAR = 1e-6, 1e-5


def problem(form, seed):
    """Kernels (m, n, n), y, C and the loss."""
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
    }.get(kind)
    return K, y, 1.0 / (rng.uniform(0.1, 0.7) * n) if kind is None else C, loss


def measure(form, seed):
    common.need("cvxpy")
    K, y, C, loss = problem(form, seed)
    solution = kw.learn(K, y, C, loss=loss, tol=TOL)
    best = loss_optimum(K, y, C, loss)
    size = max(abs(best), abs(solution.objective))
    judged = solution.certificate()
    return {
        "away": abs(solution.objective - best) / size,
        "above": (solution.dual - best) / size,
        "gap": judged.gap,
        "status": solution.status,
        "solves": solution.n_svm_solves,
    }


def main():
    args = common.arguments(
        __doc__, count={"type": int, "default": 20, "help": "problems of each form (20)"}
    )
    count = 2 if args.quick else args.count
    results = common.Results("loss_optima", args)
    plan = [(form, seed) for form in FORMS for seed in range(count)]
    results.fill([(key, measure, *key) for key in plan])
    rows = []
    for form in FORMS:
        cells = [c for seed in range(count) if (c := results.get(form, seed))]
        if not cells:
            continue
        away, gap = max(c["away"] for c in cells), max(c["gap"] for c in cells)
        reached = sum(c["status"] == "optimal" for c in cells)
        rows.append([form, len(cells), reached, away, gap, max(c["solves"] for c in cells)])
        met = away <= NEAR if len(cells) >= 20 else None
        results.bar(f"{form}: within 1e-5 of the conic reference", away, met)
    common.table(
        ["form", "problems", "optimal", "worst distance", "worst gap", "most solves"], rows
    )


if __name__ == "__main__":
    main()
