"""What must hold between two fits: metamorphic relations, for ``fuzz.py``.

Both fits report an interval [dual, primal] that holds their optimum, whatever ended them. So where
two problems have the same optimum, but for a factor, their intervals intersect, and where one
cannot be above the other, its dual is not above the other's primal. Nothing is said of weights.
Under kernels with a negative eigenvalue this holds for both solutions as judged with it removed
(``fuzz_judging.py``).

Each relation says for which learners, losses and norms it holds. Left out are learners whose
intervals are for weights that rounding moves (``alignment``, ``alignf``, ``easy``), and
``radius_bound``, which ends in one of several local optima.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness.fuzz_cases import IN_UNITS, Case

ROUNDING = Fraction(1, 10**15)  # by which two numbers that are rounded may miss each other
Random = np.random.Generator


class Pair(NamedTuple):
    """The optimum of ``other`` is ``unit`` times that of ``one``, or at least that, ``grows``."""

    one: Case
    other: Case
    unit: float = 1.0
    grows: bool = False


class Relation(NamedTuple):
    """``holds`` says of which fits, ``pair`` draws the other one."""

    holds: Callable[[Case], bool]
    pair: Callable[[Random, Case], Pair]


# --- of which fits ------------------------------------------------------------------------------


def certifies(case: Case) -> bool:
    """Whether its interval is for the optimum over the weights, or for weights that are equal."""
    return case.made.objective in ("margin", "radius") or type(case.made).__name__ == "Uniform"


def minimizes(case: Case) -> bool:
    """Whether it minimizes J over nonnegative weights."""
    return case.made.objective == "margin" and not case.made.signed


def is_plain(case: Case) -> bool:
    """Whether its weight set does not depend on the kernels."""
    return not isinstance(case.C, str) and "trace" not in case.problem


def takes_any_stack(case: Case) -> bool:
    """Whether its kernels may be handed over otherwise, which double precision can hold."""
    size = np.abs(case.K).max()
    return (
        case.storage == "array"
        and certifies(case)
        and not case.made.needs_dense
        and (1e-15 < size < 1e15)
    )


# --- the same problem otherwise -----------------------------------------------------------------


def by_row(case: Case, change: Callable[[Any], Any]) -> dict[str, Any]:
    """What a case holds by row, changed: targets, C and weights."""
    rows = {"y": case.y, "C": case.C, "sample_weight": case.problem.get("sample_weight")}
    held = {k: v for k, v in rows.items() if isinstance(v, np.ndarray)}
    found: dict[str, Any] = {name: change(value) for name, value in held.items()}
    weights = {k: found.pop(k) for k in ("sample_weight",) if k in found}
    return {**found, "problem": {**case.problem, **weights}}


def rows_permuted(rng: Random, case: Case) -> Pair:
    order = rng.permutation(case.K.shape[1])
    K = case.K[:, order][:, :, order]
    return Pair(case, replace(case, K=K, **by_row(case, lambda part: part[order])))


def kernels_permuted(rng: Random, case: Case) -> Pair:
    return Pair(case, replace(case, K=case.K[rng.permutation(len(case.K))]))


def targets_flipped(rng: Random, case: Case) -> Pair:
    problem = dict(case.problem)
    if problem.get("loss") == "quantile":
        problem["quantile"] = 1.0 - problem.get("quantile", 0.5)
    y = case.y[:, ::-1] if problem.get("loss") == "interval" else case.y  # ends change places
    return Pair(case, replace(case, y=-y, problem=problem))


def row_doubled(rng: Random, case: Case) -> Pair:
    n = case.K.shape[1]
    row = int(rng.integers(n))
    order = np.append(np.arange(n), row)
    problem = {**case.problem, "sample_weight": case.problem.get("sample_weight", np.ones(n))}
    case = replace(case, problem=problem)
    twice = replace(case, K=case.K[:, order][:, :, order], **by_row(case, lambda x: x[order]))
    weights = problem["sample_weight"] * np.where(np.arange(n) == row, 2.0, 1.0)
    return Pair(twice, replace(case, problem={**problem, "sample_weight": weights}))


def kernel_twice(rng: Random, case: Case) -> Pair:
    again = int(rng.integers(len(case.K)))
    return Pair(case, replace(case, K=np.concatenate([case.K, case.K[again : again + 1]])))


def kernel_halved(rng: Random, case: Case) -> Pair:
    part = int(rng.integers(len(case.K)))
    K = np.concatenate([case.K, case.K[part : part + 1]])
    K[[part, -1]] /= 2
    return Pair(case, replace(case, K=K))


def zeros_added(rng: Random, case: Case) -> Pair:
    return Pair(case, replace(case, K=np.concatenate([case.K, np.zeros_like(case.K[:1])])))


def in_other_units(rng: Random, case: Case) -> Pair:
    """K·s with C/s has the objective/s; one class, whose Σv is given, K·s alone objective·s."""
    s = 2.0 ** int(rng.integers(-12, 13))
    scaled = {key: value * s for key, value in case.problem.items() if key in IN_UNITS}
    problem, K = {**case.problem, **scaled}, (case.K * s).astype(case.K.dtype)
    if case.problem.get("loss") == "one_class":
        return Pair(case, replace(case, K=K, problem=problem), s)
    return Pair(case, replace(case, K=K, C=case.C / s, problem=problem), 1.0 / s)


# --- a problem that is not below ----------------------------------------------------------------


def slacks_cost_more(rng: Random, case: Case) -> Pair:
    return Pair(case, replace(case, C=case.C * 10.0 ** rng.uniform(0, 2)), grows=True)


def fewer_kernels(rng: Random, case: Case) -> Pair:
    kept = np.sort(rng.permutation(len(case.K))[: int(rng.integers(1, len(case.K)))])
    return Pair(case, replace(case, K=case.K[kept]), grows=True)


# --- the same kernels in another storage --------------------------------------------------------


def storage(name: str) -> Relation:
    return Relation(takes_any_stack, lambda rng, case: Pair(case, replace(case, storage=name)))


def widened(rng: Random, case: Case) -> Pair:
    """With so much more on the diagonal that rounding to float32 leaves no negative eigenvalue."""
    K = case.K + 1e-5 * np.abs(case.K).max() * np.eye(case.K.shape[1], dtype=np.float32)
    case = replace(case, K=K.astype(np.float32))
    return Pair(case, replace(case, storage="widened"))


def as_factors(rng: Random, case: Case) -> Pair:
    """Other kernels: FFᵀ of numbers so short that no product is rounded, and F."""
    shape = len(case.K), case.K.shape[1], int(rng.integers(1, 6))
    F = np.rint(rng.standard_normal(shape) * 64) / 64
    if not case.loss_of_numbers and np.ndim(case.y) == 1:
        F[0, :, 0] = np.rint(F[0, :, 0] * 64 + 32 * case.y) / 64
    known = {k: v for k, v in case.problem.items() if k not in IN_UNITS}
    case = replace(case, K=F, storage="products", problem=known)
    return Pair(case, replace(case, storage="factors"))


SOFT = Relation(lambda case: minimizes(case) and case.norm == 1 and is_plain(case), kernel_twice)
RELATIONS = {
    "rows permuted": Relation(certifies, rows_permuted),
    "kernels permuted": Relation(certifies, kernels_permuted),
    "targets flipped": Relation(
        lambda case: certifies(case) and case.problem.get("loss") != "one_class", targets_flipped
    ),
    "row doubled": Relation(
        lambda case: (
            certifies(case)
            and case.made.weighted
            and not isinstance(case.C, str)
            and "ridge" not in case.problem
        ),
        row_doubled,
    ),
    "kernel twice": SOFT,
    "kernel halved": Relation(
        lambda case: minimizes(case) and case.norm == 1 and "trace" in case.problem, kernel_halved
    ),
    "zeros added": Relation(lambda case: minimizes(case) and is_plain(case), zeros_added),
    "in other units": Relation(
        lambda case: (
            (minimizes(case) and not isinstance(case.C, str))
            or (type(case.made).__name__ == "Uniform")
        ),
        in_other_units,
    ),
    "slacks cost more": Relation(
        lambda case: minimizes(case) and not isinstance(case.C, str), slacks_cost_more
    ),
    "fewer kernels": Relation(
        lambda case: minimizes(case) and is_plain(case) and len(case.K) > 1, fewer_kernels
    ),
    "widened": Relation(
        # what signed weights may be depends on how precise the kernels are said to be
        lambda case: case.K.dtype == np.float32 and certifies(case) and not case.made.signed,
        widened,
    ),
    **{name: storage(name) for name in ("blocks", "on demand", "float32 sums", "tf32 sums")},
    "factors": Relation(lambda case: takes_any_stack(case) and case.C is not np.inf, as_factors),
}


def related(case: Case) -> Case:
    """The case, every other time with a relation that has to hold."""
    rng = np.random.default_rng([case.seed, case.number, 2])
    names = [name for name, relation in RELATIONS.items() if relation.holds(case)]
    if not names or rng.random() < 0.5:
        return case
    return replace(case, relation=str(rng.choice(names)))


def pair_of(case: Case) -> Pair:
    """The two fits that the case's relation speaks of."""
    rng = np.random.default_rng([case.seed, case.number, 3])
    return RELATIONS[case.relation].pair(rng, case)


def apart(pair: Pair, one: Any, other: Any) -> str:
    """How two solutions contradict each other; empty where they do not."""
    if np.isnan([one.dual, one.primal, other.dual, other.primal]).any():
        return ""  # which is a finding of its own
    # negative eigenvalues may put a dual above its primal: the gap then is their distance, too
    low, high = sorted([one.dual, one.primal])
    least, most = sorted([other.dual, other.primal])
    unit, size = Fraction(pair.unit), max(abs(low), abs(high))
    slack = ROUNDING * Fraction(size if np.isfinite(size) else 0.0)
    if is_above(low, most, unit, slack) or (
        not pair.grows and is_above(-high, -least, unit, slack)
    ):
        ends = float(pair.unit) * low, float(pair.unit) * high
        return f"[{ends[0]:.9g}, {ends[1]:.9g}] and [{least:.9g}, {most:.9g}]"
    return ""


def is_above(low: float, high: float, unit: Fraction, slack: Fraction) -> bool:
    """Whether unit·low exceeds high, in exact arithmetic."""
    if np.isinf(low) or np.isinf(high):
        return low == np.inf and high < np.inf
    return bool(unit * (Fraction(low) - slack) > Fraction(high))
