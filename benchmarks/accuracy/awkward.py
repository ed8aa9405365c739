"""200 random problems made to be hard: are they certified, and does a warning say when not?

5 to 150 points, 1 to 80 kernels: of any rank from one up, Gaussian, duplicate and nearly
parallel; scales up to 1e6 apart; C from 1e-3 to 1e6; down to 2 % of the labels positive. Every
problem follows from its seed: ``awkward.problem(seed)``. "On factors": each kernel as FFᵀ, by
Cholesky's method with pivots to 1e-13 of its trace.
"""

import numpy as np

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.internals import factor

LEARNERS = ["newton", "simple", "silp", "newton on factors"]
TOL, LIMIT = 1e-6, 120.0


def problem(seed):
    """Kernels (m, n, n), labels and C."""
    rng = np.random.default_rng(seed)
    n = round(10.0 ** rng.uniform(np.log10(5), np.log10(150)))
    m = round(10.0 ** rng.uniform(0, np.log10(80)))
    positive = int(np.clip(round(n * 10.0 ** rng.uniform(np.log10(0.02), np.log10(0.5))), 1, n - 1))
    y = rng.permutation(np.where(np.arange(n) < positive, 1.0, -1.0))
    signal = rng.choice([0.0, 0.3, 1.0])
    spread = rng.choice([0.0, 1.0, 3.0])  # scales from 10^-spread to 10^spread
    K, points = [], []
    for _ in range(m):
        kind = rng.choice(["low rank", "any rank", "gaussian", "duplicate", "nearly parallel"])
        if kind in ("duplicate", "nearly parallel") and points:
            gaussian, X = points[rng.integers(len(points))]
            X = X + (1e-6 * rng.standard_normal(X.shape) if kind == "nearly parallel" else 0.0)
        else:
            gaussian = kind == "gaussian"
            rank = rng.integers(1, n + 1) if kind == "any rank" else rng.integers(1, 4)
            X = rng.standard_normal((n, rank))
            X[:, 0] += signal * y
        points.append((gaussian, X))
        inner = X @ X.T
        if gaussian:
            squares = np.diag(inner)
            inner = np.exp(-0.5 * np.maximum(squares[:, None] + squares - 2.0 * inner, 0.0))
        inner = 0.5 * (inner + inner.T)
        K.append(inner * (n / np.trace(inner)) * 10.0 ** rng.uniform(-spread, spread))
    return np.stack(K), y, float(10.0 ** rng.uniform(-3, 6))


def as_factors(K):
    """The kernels as factors, up to 1e-13 of their traces."""
    return kw.FactorStack([factor(matrix, 1e-13 * np.trace(matrix) / len(matrix)) for matrix in K])


def measure(learner, seed, limit):
    K, y, C = problem(seed)
    try:
        stack = as_factors(K) if learner.endswith("on factors") else kw.KernelStack(K)
        name = learner.split()[0]
        _, record = common.fit(stack, y, C=C, tol=TOL, learner=name, limit=limit)
    except Exception as error:  # a crash is a finding, and must not end the run
        return {"status": f"{type(error).__name__}: {error}"[:300], "gap": None, "seconds": None}
    return {**record, "C": C, "positive": int((y > 0).sum())}


def complaint(cell):
    """What is wrong with a cell, None if nothing is."""
    gap = cell["gap"]
    if gap is None:
        return cell["status"]
    if gap > TOL * (1 + 1e-6) and not cell["warned"]:
        return f"gap {gap:.2g} and no warning"
    if gap <= TOL and cell["warned"]:
        return f"a warning at gap {gap:.2g}"
    return f"gap {gap:.2g}" if gap > TOL * (1 + 1e-6) else None


def main():
    args = common.arguments(
        __doc__,
        count={"type": int, "default": 200, "help": "problems, seeds 0, 1, … (200)"},
        learners={"nargs": "+", "default": LEARNERS, "metavar": "LEARNER"},
    )
    count, limit = (12, 10.0) if args.quick else (args.count, LIMIT)
    plan = [(learner, seed) for learner in args.learners for seed in range(count)]
    results = common.Results("awkward", args)
    results.fill([(key, measure, *key, limit) for key in plan])
    rows, complaints = [], []
    for learner in args.learners:
        cells = {seed: c for seed in range(count) if (c := results.get(learner, seed))}
        if not cells:
            continue
        gaps = np.array([np.inf if c["gap"] is None else c["gap"] for c in cells.values()])
        tight, loose = float((gaps <= TOL).mean()), float((gaps <= 1e-4).mean())
        wrong = {seed: text for seed, c in cells.items() if (text := complaint(c))}
        dishonest = sum("warning" in text for text in wrong.values())
        seconds = [c["seconds"] for c in cells.values() if c["seconds"] is not None]
        solves = [c["solves"] for c in cells.values() if c.get("solves")]
        rows.append(
            [
                *(learner, len(cells), 100 * tight, 100 * loose, float(gaps.max()), dishonest),
                *(float(np.median(solves)), max(solves), float(np.median(seconds)), max(seconds)),
            ]
        )
        complaints += [(learner, seed, cells[seed], text) for seed, text in wrong.items()]
        full = len(cells) >= 200
        if learner.startswith("newton"):
            text = f"{learner}: 95 % certified to 1e-6, all to 1e-4"
            met = tight >= 0.95 and loose == 1.0
        else:
            text, met = f"{learner}: all certified to 1e-4", loose == 1.0
        results.bar(text, f"{100 * tight:.4g} %, {100 * loose:.4g} %", met if full else None)
        text = f"{learner}: a warning exactly where tol was not reached"
        results.bar(text, f"{dishonest} exceptions", dishonest == 0 if full else None)
    print()
    header = ["learner", "problems", "% ≤ 1e-6", "% ≤ 1e-4", "worst gap", "wrong warnings"]
    header += ["solves", "most", "seconds", "most"]
    common.table(header, rows)
    for learner, seed, c, text in complaints:
        shape = ", ".join(f"{k}={common.short(c[k])}" for k in ("n", "m", "C") if k in c)
        solved = f"; {c['status']} after {c['solves']} solves" if "solves" in c else ""
        print(f"- {learner}, seed {seed} ({shape}): {text}{solved}")


if __name__ == "__main__":
    main()
