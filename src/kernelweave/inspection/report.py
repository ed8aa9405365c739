"""Learned weights and their certificate as plain text.

If the machines of a model have weights of their own, reports show the mean of these weights, and
the certificate of all machines together.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernelweave.estimators._base import MKLEstimator
from kernelweave.inspection._fits import weights_of
from kernelweave.inspection._models import check_readable
from kernelweave.solution import Solution

WIDTH = 30  # characters of the longest bar
SHOWN = 5e-4  # weights below this round to 0.000


def weights_by_kernel(model: MKLEstimator) -> str:
    """One line with a bar per kernel with a weight, the heaviest first."""
    check_readable("model", model, ("weights_", "kernel_names_"))
    rows = [
        (str(name), float(weight))
        for name, weight in zip(model.kernel_names_, weights_of(model), strict=True)
    ]
    heavy = [(name, weight) for name, weight in rows if abs(weight) >= SHOWN]
    rest = len(rows) - len(heavy)
    lines = [bars(heavy)] if heavy else []
    if rest:
        lines.append(f"0.000  {rest} {'other kernel' if rest == 1 else 'other kernels'}")
    return "\n".join(lines)


def weights_by_view(model: MKLEstimator) -> str:
    """One line with a bar per view: the sum of its kernels' weights."""
    check_readable("model", model, ("weights_", "bank_"))
    sums: dict[str, float] = {}
    for view, weight in zip(model.bank_.views, weights_of(model), strict=True):
        sums[view] = sums.get(view, 0.0) + float(weight)
    return bars(sums.items())


def bars(rows: Iterable[tuple[str, float]]) -> str:
    """Lines ``weight  bar  name``, sorted by weight; ties keep their order.

    Negative weights come last, and their bars are drawn with dashes.
    """
    rows = sorted(rows, key=lambda row: -row[1])
    longest = max((abs(weight) for _, weight in rows), default=0.0)
    unit = WIDTH / longest if longest > 0.0 else 0.0
    digits = 6 if rows and rows[-1][1] < 0.0 else 5  # room for a sign
    drawn = [("#" if weight > 0.0 else "-") * round(abs(weight) * unit) for _, weight in rows]
    return "\n".join(
        f"{weight:{digits}.3f}  {bar:<{WIDTH}}  {name}"
        for bar, (name, weight) in zip(drawn, rows, strict=True)
    )


def certificate(fitted: MKLEstimator | Solution) -> str:
    """The bounds of a model or a solution, and what they prove in words."""
    solutions: tuple[Solution, ...]
    if isinstance(fitted, Solution):
        solutions, gap = (fitted,), fitted.gap
    else:
        check_readable("fitted", fitted, ("solution_", "duality_gap_"), " or a Solution")
        found, gap = fitted.solution_, fitted.duality_gap_
        solutions = found if isinstance(found, tuple) else (found,)
    primal, dual = (sum(getattr(s, name) for s in solutions) for name in ("primal", "dual"))
    given = solutions[0].criterion == "given"
    exact = getattr(fitted, "exact_gap_", gap)
    told = "" if exact == gap else f"\nfor exact kernels   {_exactly(exact)}"
    return (
        f"objective reached   {primal:.6g}\n"
        f"no solution below   {dual:.6g}{' on these weights' if given else ''}\n"
        f"duality gap         {gap:.1e}: {'no machine on them' if given else 'nothing'} "
        f"lowers the objective by more than {100.0 * gap:.2g} %{told}"
    )


def _exactly(gap: float | None) -> str:
    """What is known of kernels that the model approximates."""
    return "nothing is known" if gap is None else f"{gap:.1e}: the gap with exact kernels"
