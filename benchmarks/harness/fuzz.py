"""Random fits made to break promises, each judged in exact arithmetic.

    python -m benchmarks.harness.fuzz --fits 2000            so many fits
    python -m benchmarks.harness.fuzz --minutes 20           as many as that allows
    python -m benchmarks.harness.fuzz --max-time 1           no fit takes longer
    python -m benchmarks.harness.fuzz --seed 7 --only 123    one fit again, with all that is known
    python -m benchmarks.harness.fuzz --replay case.npz      the same for a file that tells of it

Kernels of scales from 1e-30 to 1e30, C from 1e-3 to 1e14, near duplicates, kernels indefinite by
1e-9, float32, added constants, zero kernels, rank one, 2 to 60 rows, C per row, hard margins; all
learners, losses and norms, ridges, traces, C="learn", tol from 1e-2 to 1e-10; targets of sizes from
1e-6 to 1e6, some of them censored, several machines, weights of the rows; kernels asymmetric by
1e-13 to 1e-9, stacks of one's own that sum in float32 or as tensor cores do, one class in units
from 1e-150 to 1e150. Every other fit is compared with another that has to agree with it
(``fuzz_relations.py``).

What counts as a finding:

- false gap: the exact gap (``exact_gap.py``) exceeds the reported one by more than 1e-15. "weights"
  is said where it holds for the decision function as it is, and only dividing the weights by their
  norm breaks it. ``sdp`` is not judged, nor is a gap above 1: it says that not even the sign of the
  optimum is known;
- not finite: a number of the solution is NaN or infinite (the gap alone may be infinite);
- above tol: status "optimal" with a gap above tol;
- relation: two fits of one problem, such as one with its rows permuted or its kernels in another
  storage, whose intervals [dual, primal] do not meet;
- exception: any but those that are documented, for hard margins that do not separate the classes,
  radii of kernels under which all points coincide, the trace of kernels that are all zero, and
  numbers too small or too large to compute with;
- late: a fit takes a processor second more than ``max_time``, 5 s unless told.

Every finding is one line with its seed and number, and a file ``case.npz`` in the folder
``--into``: the problem made smaller as long as the finding stays, as ``Solution.dump`` would write
it. The last line sums up, and the exit code is 1 if there was a finding.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import kernelweave as kw
from benchmarks.harness.fuzz_cases import SECONDS, Case, make, read, varied
from benchmarks.harness.fuzz_judging import KINDS, Finding, judge
from benchmarks.harness.fuzz_relations import related
from benchmarks.harness.fuzz_shrinking import shrunk
from kernelweave.learners import NAMES, make_learner


def stripe(
    seed: int, first: int, step: int, fits: float, end: float, folder: Path, seconds: float
) -> Counter[str]:
    """Every ``step``-th fit from ``first`` on; findings are printed at once."""
    warm_up()
    counts: Counter[str] = Counter()
    for number in range(first, sys.maxsize, step):
        if number >= fits or time.time() > end:
            break
        case = drawn(seed, number, seconds)
        status, found = judge(case)
        counts.update(["beside"] * bool(case.relation))
        counts.update(["fits", status, *(kind for kind, _ in found)])
        for kind, told in found:
            print(f"--seed {seed} --only {number}: {kind}: {told} | {case}", flush=True)
            keep(case, (kind, told), folder)
    return counts


def drawn(seed: int, number: int, seconds: float = SECONDS) -> Case:
    """The fit of that number, with all that may be wrong between it and another."""
    return replace(related(varied(make(seed, number))), seconds=seconds)


def keep(case: Case, finding: Finding, folder: Path) -> None:
    """Write the smallest case that shows the finding; what is late is not solved many times."""
    kind, told = finding
    small = case if kind == "late" else shrunk(case, finding)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.seed}-{case.number}-{kind.replace(' ', '-')}.npz"
    small.write(path, finding=f"{kind}: {told}")
    print(f"  {path}: {small}, {small.K.shape[0]} × {small.K.shape[1]}", flush=True)


def warm_up() -> None:
    """One fit by every learner: compiling and importing are not what is timed."""
    import scipy.optimize  # noqa: F401

    y = np.repeat([-1.0, 1.0], 5)
    K = np.array([np.outer(y, y) + np.eye(10), np.eye(10)])
    for name in NAMES:
        labels = {"loss": "hinge"}, {"loss": "squared_hinge"}, {"loss": "hinge", "C": np.inf}
        values = {"loss": "squared"}, {"loss": "huber"}, {"loss": "quantile"}
        made = make_learner(name)
        for options in labels + values if "values" in made.targets else labels:
            if made.losses is None or options["loss"] in made.losses:
                kw.learn(K, y, learner=name, **options)


def show(case: Case, before: Mapping[str, Any] | None = None) -> bool:
    """All that is known of one fit, and of one ``before``; whether something is wrong with it."""
    warm_up()
    print(case)
    for name, value in (before or {}).items():
        if np.ndim(value) == 0 and value != "":
            print(f"  {name}: {value}")
    if before and "weights" in before:
        print("as it was found:")
        tell(case, SimpleNamespace(**before, extras=before))
    status, found = judge(case)
    for kind, told in found:
        print(f"{kind}: {told}")
    if any(kind == "exception" for kind, _ in found):
        case.fit()
    if status not in ("ended", "HardMarginInfeasible", "ValueError", "PointsCoincide"):
        solution = case.fit()
        print(f"{solution!r}, weights {solution.weights}")
        tell(case, solution)
    return bool(found)


def tell(case: Case, solution: Any) -> None:
    """Bounds and gap as reported, and in exact arithmetic."""
    s = solution
    print(f"reported: primal {float(s.primal)!r}, dual {float(s.dual)!r}, gap {float(s.gap)!r}")
    for name, same_f in (("exact", False), ("same f", True)):
        if case.is_judged:
            primal, dual, gap, slack = map(float, case.exact(solution, same_f))
            print(f"{name:8}: primal {primal!r}, dual {dual!r}, gap {gap!r}, slack {slack!r}")


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
    parser.add_argument("--replay", type=Path, help="a file that the fuzzer or a user wrote")
    parser.add_argument("--into", type=Path, default=Path("build/fuzz"), help="for such files")
    parser.add_argument("--max-time", type=float, default=SECONDS, help="seconds of one fit")
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=2, help="processes")
    args = parser.parse_args()
    if args.only is not None:
        return int(show(drawn(args.seed, args.only, args.max_time)))
    if args.replay is not None:
        return int(show(*read(args.replay)))
    fits = args.fits or (math.inf if args.minutes < math.inf else 2000)
    end = time.time() + 60.0 * args.minutes
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    print(f"seed {args.seed}", flush=True)
    more = args.jobs, fits, end, args.into, args.max_time
    work = [(args.seed, first, *more) for first in range(args.jobs)]
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        counts: Counter[str] = sum(pool.starmap(stripe, work), Counter())
    found = {kind: counts.pop(kind, 0) for kind in KINDS}
    total, beside = counts.pop("fits", 0), counts.pop("beside", 0)
    ends = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    told = ", ".join(f"{count} {kind}" for kind, count in found.items())
    print(f"seed {args.seed}: {total} fits ({ends}), {beside} others beside them: {told}")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
