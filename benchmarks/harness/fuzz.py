"""Random fits made to break promises, each judged in exact arithmetic.

    python -m benchmarks.harness.fuzz --fits 2000            so many fits
    python -m benchmarks.harness.fuzz --minutes 20           as many as that allows
    python -m benchmarks.harness.fuzz --seed 7 --only 123    one fit again, with all that is known

Kernels of scales from 1e-30 to 1e30, C from 1e-3 to 1e14, near duplicates, kernels indefinite by
1e-9, float32, added constants, zero kernels, rank one, 2 to 60 rows, C per row, hard margins; all
learners, losses and norms, ridges, traces, C="learn", tol from 1e-2 to 1e-10; targets of sizes from
1e-6 to 1e6, several machines, weights of the rows.

What counts as a finding:

- false gap: the exact gap (``exact_gap.py``) exceeds the reported one by more than 1e-15. "weights"
  is said where it holds for the decision function as it is, and only dividing the weights by their
  norm breaks it. ``sdp`` is not judged, nor is a gap above 1: it says that not even the sign of the
  optimum is known;
- not finite: a number of the solution is NaN or infinite (the gap alone may be infinite);
- above tol: status "optimal" with a gap above tol;
- exception: any but those that are documented, for hard margins that do not separate the classes,
  radii of kernels under which all points coincide, and the trace of kernels that are all zero;
- late: a fit takes a second more than ``max_time`` = 5 s.

Every finding is one line with its seed and number. The last line sums up, and the exit code is 1 if
there was a finding.
"""

from __future__ import annotations

import argparse
import inspect
import math
import multiprocessing
import os
import secrets
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

import kernelweave as kw
from benchmarks.harness.exact_gap import Exact, of_solution
from benchmarks.harness.timing import TimeUp, time_limit
from kernelweave.learners import NAMES, make_learner

SECONDS = 5.0  # max_time of a fit
PATIENCE = 60.0  # seconds after which a fit that does not heed it is ended
SLACK = Fraction(1, 10**15)  # by which an exact gap may exceed the reported one
KINDS = ("false gap", "not finite", "above tol", "exception", "late")
KNOWS_TIME = "max_time" in inspect.signature(kw.learn).parameters

Random = np.random.Generator


@dataclass(frozen=True)
class Case:
    """One fit: ``learn(K, y, C, learner, tol=tol, **problem)``."""

    seed: int
    number: int
    K: Any = field(repr=False)
    y: Any = field(repr=False)
    C: Any
    learner: str
    tol: float
    problem: dict[str, Any]
    words: str

    def __str__(self) -> str:
        C = f"{self.C:.3g}" if isinstance(self.C, float) else self.C
        C = C if isinstance(C, str) else f"{C.min():.3g}…{C.max():.3g} per row"
        short = {name: shown(value) for name, value in self.problem.items()}
        told = ", ".join(f"{name}={value}" for name, value in short.items())
        told = f", {told}" if told else ""
        told += f", y {np.shape(self.y)}" if np.ndim(self.y) > 1 else ""
        return f"{self.learner}, C={C}, tol={self.tol:g}{told}; {self.words}"

    def fit(self, seconds: float = SECONDS) -> Any:
        options: dict[str, Any] = {"max_time": seconds} if KNOWS_TIME else {}
        options |= self.problem
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kw.learn(self.K, self.y, self.C, self.learner, tol=self.tol, **options)

    def exact(self, solution: Any, same_f: bool = False) -> Exact:
        return of_solution(self.K, self.y, solution, self.C, **self.problem, same_f=same_f)


# --- making problems ----------------------------------------------------------------------------


def make(seed: int, number: int, names: tuple[str, ...] = NAMES) -> Case:
    """The fit of that number; ``names`` are the learners to draw from."""
    rng = np.random.default_rng([seed, number])
    n, m = 2 + int(59 * rng.random() ** 1.5), int(rng.integers(1, 9))
    y = np.where(rng.random(n) < rng.uniform(0.2, 0.8), 1.0, -1.0)
    y[rng.choice(n, 2, replace=False)] = 1.0, -1.0
    single = rng.random() < 0.15
    separable = rng.random() < 0.4
    learner = str(rng.choice(names))
    # radius_bound refuses kernels under which all points coincide: mostly it gets none
    blind = learner != "radius_bound" or rng.random() < 0.05
    kinds = [kind for kind in MAKERS if blind or kind not in ("zero", "constant")]
    K, words = [], []
    for _ in range(m):
        kind = str(rng.choice(kinds))
        matrix = MAKERS[kind](rng, points(rng, y, separable), K, single)
        K.append((matrix + matrix.T) / 2)
        words.append(kind)
    scale = 1.0
    if chance := rng.random() < 0.4:
        scale = 10.0 ** (rng.uniform(-15, 15) if single else rng.uniform(-30, 30))
    scales = np.full(m, scale)
    if not chance and rng.random() < 0.3:
        scales = scales * 10.0 ** rng.uniform(-6, 6, m)
    stack = np.array(K) * scales[:, None, None]
    stack = stack.astype(np.float32) if single else stack
    size = f"{m} × {n}{' float32' if single else ''}, scales {scales.min():.2g}…{scales.max():.2g}"
    C, problem = options(rng, learner, stack, scale)
    y, C, problem = task(rng, learner, y, C, problem)
    tol = float(10.0 ** -rng.integers(2, 11))
    words.append("separable" if separable else "not separable")
    return Case(seed, number, stack, y, C, learner, tol, problem, f"{size}: {', '.join(words)}")


def options(rng: Random, learner: str, K: Any, scale: float) -> tuple[Any, dict[str, Any]]:
    """C and the rest of the problem, of what the learner can do."""
    made = make_learner(learner)
    norms = made.weight_norms or (1, 1, 1, 4 / 3, 2, np.inf)
    problem: dict[str, Any] = {}
    if (p := norms[rng.integers(len(norms))]) != 1:
        problem["weight_norm"] = float(p)
    traces = np.trace(K.astype(float), axis1=1, axis2=2)
    usable = "weight_norm" not in problem and traces.min() > 0.0
    if rng.random() < 0.3:
        problem["loss"] = "squared_hinge"
    if usable and rng.random() < 0.15:
        problem["trace"] = float(10.0 ** rng.uniform(-3, 3) * traces.mean())
    if usable and made.objective == "margin" and rng.random() < 0.08:
        return "learn", {**problem, "loss": "squared_hinge"}
    if rng.random() < 0.1:
        problem["ridge"] = float(scale * 10.0 ** rng.uniform(-8, 1))
    kind = rng.random()
    if kind < 0.12:
        return np.inf, problem
    C = 10.0 ** rng.uniform(-3, 14) if kind < 0.6 else 10.0 ** rng.uniform(-3, 4) / scale
    if "loss" not in problem and rng.random() < 0.15:
        return C * 10.0 ** rng.uniform(-2, 2, K.shape[1]), problem
    return float(C), problem


def task(rng: Random, learner: str, y: Any, C: Any, problem: dict[str, Any]) -> tuple[Any, ...]:
    """What y holds, and for how many machines, with the C and the problem that go with it."""
    made, n, kind = make_learner(learner), y.size, rng.random()
    soft = not isinstance(C, str) and bool(np.isfinite(C).all())
    if soft and kind < 0.35 and "values" in made.targets:
        loss = str(rng.choice(["epsilon_insensitive", "squared", "quantile"]))
        size = 10.0 ** rng.uniform(-6, 6)
        y = size * (rng.standard_normal(n) + rng.choice([0.0, 0.0, 100.0]))
        problem = {**problem, "loss": loss, "epsilon": float(size * 10.0 ** rng.uniform(-3, 0))}
        problem["quantile"] = float(rng.uniform(0.05, 0.95))
    elif soft and kind < 0.45 and "nothing" in made.targets:
        return None, float(1.0 / (rng.uniform(0.1, 1.0) * n)), {**problem, "loss": "one_class"}
    if made.sums and rng.random() < 0.4:
        y = several(rng, y, values="epsilon" in problem)
    if made.weighted and soft and rng.random() < 0.3:
        weights = 10.0 ** rng.uniform(-3, 3, n) if rng.random() < 0.5 else rng.integers(1, 4, n)
        absent = rng.random(n) < 0.2
        left = y[~absent]
        if len(left) > 1 and ("epsilon" in problem or (np.ptp(left, axis=0) == 2.0).all()):
            weights = np.where(absent, 0.0, weights)
        problem = {**problem, "sample_weight": weights.astype(float)}
    return y, C, problem


def several(rng: Random, y: Any, values: bool) -> Any:
    """Columns: targets, or each of up to four classes against the rest or against another."""
    if values:
        return y[:, None] * rng.uniform(0.1, 3.0, int(rng.integers(1, 4)))
    kinds = rng.integers(0, min(4, y.size), y.size)
    kinds[rng.choice(y.size, 2, replace=False)] = 0, 1
    found = np.unique(kinds)
    if rng.random() < 0.5 and found.size > 2:
        pairs = [(a, b) for a in found for b in found if a < b]
        return np.stack([1.0 * (kinds == a) - (kinds == b) for a, b in pairs], axis=1)
    return np.where(kinds[:, None] == found, 1.0, -1.0)


def shown(value: Any) -> Any:
    """A value in a line of text."""
    return f"{value.min():.3g}…{value.max():.3g}" if isinstance(value, np.ndarray) else value


def points(rng: Random, y: Any, separable: bool) -> Any:
    X = rng.standard_normal((y.size, int(rng.integers(1, 8))))
    X[:, 0] = y * (0.5 + rng.random(y.size)) if separable else X[:, 0] + 0.7 * y
    return X


def gaussian(rng: Random, X: Any, width: float | None = None) -> Any:
    width = 10.0 ** rng.uniform(-0.5, 1.5) if width is None else width
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / (2.0 * width**2))


def near_duplicate(rng: Random, X: Any, earlier: list[Any], single: bool) -> Any:
    base = earlier[int(rng.integers(len(earlier)))] if earlier else gaussian(rng, X, 1.0)
    return base + 10.0 ** rng.uniform(-15, -4) * np.trace(base) / len(base) * (X @ X.T)


def indefinite(rng: Random, X: Any, earlier: list[Any], single: bool) -> Any:
    A = gaussian(rng, X) if rng.random() < 0.5 else X @ X.T
    u = rng.standard_normal(len(A))
    return A - 1e-9 * np.linalg.norm(A, 2) * np.outer(u, u) / (u @ u)


def plus_constant(rng: Random, X: Any, earlier: list[Any], single: bool) -> Any:
    return gaussian(rng, X, 1.0) + 10.0 ** rng.uniform(0, 1 if single else 8)


MAKERS: dict[str, Any] = {
    "linear": lambda rng, X, earlier, single: X @ X.T,
    "Gaussian": lambda rng, X, earlier, single: gaussian(rng, X),
    "polynomial": lambda rng, X, earlier, single: (1.0 + X @ X.T) ** 2,
    "rank one": lambda rng, X, earlier, single: np.outer(X[:, -1], X[:, -1]),
    "coarse": lambda rng, X, earlier, single: np.sign(X) @ np.sign(X).T,
    "identity": lambda rng, X, earlier, single: np.eye(len(X)),
    "zero": lambda rng, X, earlier, single: np.zeros((len(X), len(X))),
    "constant": lambda rng, X, earlier, single: np.ones((len(X), len(X))),
    "plus constant": plus_constant,
    "near duplicate": near_duplicate,
    "indefinite": indefinite,
}


# --- judging ------------------------------------------------------------------------------------


def judge(case: Case) -> tuple[str, list[tuple[str, str]]]:
    """The status of a fit, and what is wrong with it: kinds, each with its numbers."""
    began = time.perf_counter()
    try:
        with time_limit(PATIENCE):
            solution = case.fit()
    except TimeUp:
        return "ended", [("late", f"ended after {PATIENCE:g} s")]
    except Exception as error:
        if documented(case, error):
            return type(error).__name__, []
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        return "raised", [("exception", f"{type(error).__name__} at {where}: {error}")]
    seconds = time.perf_counter() - began
    found = []
    if seconds > SECONDS + 1.0:
        found.append(("late", f"{seconds:.1f} s, status {solution.status}"))
    if solution.status == "optimal" and not solution.gap <= case.tol:
        found.append(("above tol", f"gap {solution.gap:.3g}"))
    numbers = (solution.weights, solution.coef, solution.bias, solution.dual_alpha, solution.dual)
    if math.isnan(solution.gap) or not all(np.isfinite(part).all() for part in numbers):
        return solution.status, [*found, ("not finite", f"{solution!r}")]
    if case.learner != "sdp" and too_small(solution.gap, case.exact(solution)):
        exact, kept = case.exact(solution), case.exact(solution, same_f=True)
        why = "" if too_small(solution.gap, kept) else " (weights)"
        more = f"{float(exact.gap - Fraction(solution.gap)):.3g} more{why}"
        if exact.primal == math.inf:
            more = f"infinite, slack {float(exact.slack):.3g}{why}"
        told = f"reported {solution.gap:.3g}, exact {more}, status {solution.status}"
        found.append(("false gap", told))
    return solution.status, found


def too_small(reported: float, exact: Exact) -> bool:
    """Whether a reported gap is less than the exact one."""
    return reported <= 1.0 and exact.gap > Fraction(reported) + SLACK


def documented(case: Case, error: Exception) -> bool:
    """Whether the documentation says that such a problem raises such an error."""
    if not isinstance(error, ValueError):
        return False
    hard = type(error).__name__ == "HardMarginInfeasible" or "separate" in str(error)
    if hard and (isinstance(case.C, str) or np.isinf(case.C).all()):
        return True
    if case.learner == "sdp" and not case.K.any():
        return "positive trace" in str(error)
    return case.learner.startswith("radius") and "coincide" in str(error)


def stripe(seed: int, first: int, step: int, fits: float, end: float) -> Counter[str]:
    """Every ``step``-th fit from ``first`` on; findings are printed at once."""
    warm_up()
    counts: Counter[str] = Counter()
    for number in range(first, sys.maxsize, step):
        if number >= fits or time.time() > end:
            break
        case = make(seed, number)
        status, found = judge(case)
        counts.update(["fits", status, *(kind for kind, _ in found)])
        for kind, told in found:
            print(f"--seed {seed} --only {number}: {kind}: {told} | {case}", flush=True)
    return counts


def warm_up() -> None:
    """One fit by every learner: compiling and importing are not what is timed."""
    import scipy.optimize  # noqa: F401

    y = np.repeat([-1.0, 1.0], 5)
    K = np.array([np.outer(y, y) + np.eye(10), np.eye(10)])
    for name in NAMES:
        for options in ({}, {"loss": "squared_hinge"}, {"C": np.inf}, {"loss": "squared"}):
            if options.get("loss") != "squared" or "values" in make_learner(name).targets:
                kw.learn(K, y, learner=name, **options)


def show(seed: int, number: int) -> bool:
    """All that is known of one fit; whether something is wrong with it."""
    warm_up()
    case = make(seed, number)
    print(case)
    status, found = judge(case)
    for kind, told in found:
        print(f"{kind}: {told}")
    if any(kind == "exception" for kind, _ in found):
        case.fit()
    if status not in ("ended", "HardMarginInfeasible", "ValueError", "PointsCoincide"):
        solution = case.fit()
        print(f"{solution!r}, weights {solution.weights}")
        print(f"reported: primal {solution.primal!r}, dual {solution.dual!r}, gap {solution.gap!r}")
        for name, same_f in (("exact", False), ("same f", True)):
            if case.learner != "sdp":
                primal, dual, gap, slack = map(float, case.exact(solution, same_f))
                print(f"{name:8}: primal {primal!r}, dual {dual!r}, gap {gap!r}, slack {slack!r}")
    return bool(found)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fits", type=float, help="2000, unless minutes are given")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(10**6), help="any, if left out"
    )
    parser.add_argument("--only", type=int, help="the number of one fit")
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=2, help="processes")
    args = parser.parse_args()
    if args.only is not None:
        return int(show(args.seed, args.only))
    fits = args.fits or (math.inf if args.minutes < math.inf else 2000)
    end = time.time() + 60.0 * args.minutes
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    print(f"seed {args.seed}", flush=True)
    work = [(args.seed, first, args.jobs, fits, end) for first in range(args.jobs)]
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        counts: Counter[str] = sum(pool.starmap(stripe, work), Counter())
    found = {kind: counts.pop(kind, 0) for kind in KINDS}
    total = counts.pop("fits", 0)
    ends = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    told = ", ".join(f"{count} {kind}" for kind, count in found.items())
    print(f"seed {args.seed}: {total} fits ({ends}): {told}")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
