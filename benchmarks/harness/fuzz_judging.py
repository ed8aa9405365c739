"""What is wrong with a fit, judged in exact arithmetic: for ``fuzz.py``, which lists the kinds."""

from __future__ import annotations

import math
import time
import traceback
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import kernelweave as kw
from benchmarks.harness.exact_gap import Exact
from benchmarks.harness.fuzz_cases import Case
from benchmarks.harness.fuzz_relations import Pair, apart, pair_of
from benchmarks.harness.timing import TimeUp, time_limit

PATIENCE = 30.0  # processor seconds after which a fit that does not heed its limit is ended
SLACK = Fraction(1, 10**15)  # by which an exact gap may exceed the reported one
KINDS = ("false gap", "not finite", "above tol", "relation", "exception", "late")

Finding = tuple[str, str]  # its kind, and what is to be said


def judge(case: Case) -> tuple[str, list[Finding]]:
    """The status of a fit, and what is wrong with it: kinds, each with its numbers."""
    began = time.process_time()
    try:
        with time_limit(PATIENCE, cpu=True):
            solution = case.fit()
    except TimeUp:
        return "ended", [("late", f"ended after {PATIENCE:g} processor s")]
    except Exception as error:
        return (type(error).__name__, []) if documented(case, error) else ("raised", [told(error)])
    seconds = time.process_time() - began
    found = []
    if seconds > case.seconds + 1.0:
        found.append(("late", f"{seconds:.1f} s, status {solution.status}"))
    if solution.status == "optimal" and not solution.gap <= case.tol:
        found.append(("above tol", f"gap {solution.gap:.3g}"))
    if case.relation:
        found += contradiction(case, solution)
    if not is_finite(solution):
        return solution.status, [*found, ("not finite", f"{solution!r}")]
    if case.is_judged:
        found += false_gaps(case, solution)
    return solution.status, found


def is_finite(solution: Any) -> bool:
    """Whether all of its numbers are; the gap alone may be infinite."""
    names = ("weights", "coef", "bias", "dual_alpha", "dual")
    numbers = all(np.isfinite(getattr(solution, name)).all() for name in names)
    return numbers and not math.isnan(solution.gap)


def false_gaps(case: Case, solution: Any) -> list[Finding]:
    """Gaps that are told smaller than they are: that of the solution, and that of its certificate.

    A certificate counts slacks within rounding of a hard margin as none: it is judged elsewhere.
    """
    exact, found = case.exact(solution), []
    hard = isinstance(case.C, str) or bool(np.isinf(case.C).any())
    told = {"": solution.gap} | ({} if hard else {"certificate ": solution.certificate().gap})
    for name, gap in told.items():
        if too_small(gap, exact):
            why = "" if too_small(gap, case.exact(solution, same_f=True)) else " (weights)"
            more = f"{float(exact.gap - Fraction(gap)):.3g} more{why}"
            if exact.primal == math.inf:
                more = f"infinite, slack {float(exact.slack):.3g}{why}"
            said = f"{name}reported {gap:.3g}, exact {more}, status {solution.status}"
            found.append(("false gap", said))
    return found


def contradiction(case: Case, solution: Any) -> list[Finding]:
    """What is wrong between this fit and the one that its relation names, and with that one."""
    pair = pair_of(case)
    try:
        with time_limit(PATIENCE, cpu=True):
            one = solution if pair.one is case else pair.one.fit()
            other = pair.other.fit()
    except TimeUp:
        return [("late", f"{case.relation}: ended after {PATIENCE:g} processor s")]
    except Exception as error:
        return [] if documented(case, error) else [told(error)]
    ends = apart(pair, one, other) and apart(*as_definite(case, pair, one, other))
    found = [("relation", f"{case.relation}: {ends}")] if ends else []
    for beside, fit in ((pair.one, one), (pair.other, other)):
        if fit is not solution and beside.is_judged and is_finite(fit):
            found += false_gaps(beside, fit)
    return found


def as_definite(case: Case, pair: Pair, one: Any, other: Any) -> tuple[Pair, Any, Any]:
    """The same, both solutions judged under kernels without the negative eigenvalues of these.

    Below 0 by the share of rounding that a check lets pass, they have no optimum, and no interval
    holds it: a dual value may lie above a primal one by C² times what is missing.
    """
    K = definite(case.K) if pair.one.is_judged and pair.other.is_judged else case.K
    if K is case.K:
        return pair, one, other
    pair = pair_of(replace(case, K=K))
    exact = (beside.exact(fit) for beside, fit in ((pair.one, one), (pair.other, other)))
    intervals = [SimpleNamespace(dual=float(e.dual), primal=float(e.primal)) for e in exact]
    return pair, *intervals


def definite(K: Any) -> Any:
    """Kernels with so much more on the diagonal that none is negative; K itself if none was."""
    values = [np.linalg.eigvalsh((one + one.T).astype(float) / 2) for one in K]
    rounding = 8.0 * K.shape[1] * np.finfo(K.dtype).eps
    raised = np.array([max(rounding * each[-1] - each[0], 0.0) for each in values])
    lacking = np.array([each[0] < 0.0 for each in values])
    if not lacking.any():
        return K
    return (K + np.where(lacking, raised, 0.0)[:, None, None] * np.eye(K.shape[1])).astype(K.dtype)


def told(error: Exception) -> Finding:
    """Its type and the innermost function of ours, which tell whether two are the same."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(kw.__file__).parent in Path(frame.filename).parents]
    place = (ours or frames)[-1]
    where = f"{Path(place.filename).name}:{place.name}"
    return "exception", f"{type(error).__name__} in {where}, line {place.lineno}: {error}"


def too_small(reported: float, exact: Exact) -> bool:
    """Whether a reported gap is less than the exact one."""
    return reported <= 1.0 and exact.gap > Fraction(reported) + SLACK


def documented(case: Case, error: Exception) -> bool:
    """Whether the documentation says that such a problem raises such an error."""
    if not isinstance(error, ValueError):
        return False
    if "divide it by a number of its size" in str(error):
        return True
    hard = type(error).__name__ == "HardMarginInfeasible" or "separate" in str(error)
    if hard and (isinstance(case.C, str) or np.isinf(case.C).all()):
        return True
    if case.learner == "sdp" and not case.K.any():
        return "positive trace" in str(error)
    return case.learner.startswith("radius") and "coincide" in str(error)
