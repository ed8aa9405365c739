"""Between X and the solvers: the rows to learn from, and what was learned on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import column_or_1d

from kernelweave._core.checks import check_nonnegative, is_number
from kernelweave._core.types import Array, Places
from kernelweave._core.warnings import warn
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.fitted import FittedBank
from kernelweave.problems.dual_qp import relative_gap
from kernelweave.solution import Solution
from kernelweave.views.table import Table


@dataclass(frozen=True)
class Training:
    """Rows to learn from: all but those of weight 0.

    ``targets`` are theirs, None where there are none; ``places`` are their numbers among the
    ``n_given`` rows of X; ``weights`` say how often each counts, None for once.
    """

    bank: KernelBank
    table: Table
    targets: Any
    places: Places
    weights: Array | None
    n_given: int


def used_rows(sample_weight: ArrayLike | None, n: int) -> tuple[Places, Array | None]:
    """Numbers of the rows with a positive weight, and these weights."""
    if sample_weight is None:
        return np.arange(n), None
    given = np.full(n, sample_weight) if is_number(sample_weight) else sample_weight
    weights = check_nonnegative("sample_weight", given, n)
    places = np.flatnonzero(weights)
    if not places.size:
        raise ValueError(
            "sample_weight: all weights are zero, and no row is left to learn from; give some "
            "rows a positive weight, or leave sample_weight out."
        )
    return places, weights[places]


def as_vector(y: Any) -> NDArray[Any]:
    """``y`` as an array (n,); a single column is taken with a warning at the user's line."""
    vector = column_or_1d(y)
    if np.asarray(y).ndim > 1:
        warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape "
            "of y to (n_samples,), for example using ravel().",
            DataConversionWarning,
        )
    return np.asarray(vector)


def refuse_another_order(X: Any, y: Any) -> None:
    """Raise ValueError if frames X and y name the same rows in another order."""
    if not (hasattr(X, "iloc") and hasattr(y, "iloc")):
        return
    rows, labels = X.index, y.index
    if len(rows) != len(labels) or rows.equals(labels):
        return
    if rows.is_unique and labels.is_unique and labels.isin(rows).all():
        raise ValueError(
            "y has the row labels of X in another order, but rows are matched by position. Give "
            "y.loc[X.index] to match them by label, or y.to_numpy() if their order is right."
        )


@dataclass(frozen=True)
class Learnt:
    """Kernels and machines: one solution for all machines, or one per machine.

    ``bounds``: the upper and lower bounds that each proves for the exact kernels, None where it
    proves none; empty where the kernels are exact.
    """

    bank: FittedBank
    solutions: tuple[Solution, ...]
    training: Training
    bounds: tuple[tuple[float | None, float | None], ...] = ()

    def one_or_each(self, values: list[Any]) -> Any:
        """The only value, or an array with one per solution."""
        return values[0] if len(values) == 1 else np.array(values)

    @property
    def weights(self) -> Array:
        """Weights of all kernels of the bank, (m,), or (n_machines, m) if each has its own."""
        spread = [self.bank.spread(solution.weights) for solution in self.solutions]
        return self.one_or_each(spread)

    @property
    def coef(self) -> Array:
        """Coefficients of the training rows, (n_machines, n)."""
        return np.vstack([solution.coef for solution in self.solutions])

    @property
    def bias(self) -> Array:
        """The bias of each machine."""
        return np.concatenate([np.atleast_1d(solution.bias) for solution in self.solutions])

    @property
    def gap(self) -> float:
        """The relative gap of all machines together: of the sums of their bounds."""
        if len(self.solutions) == 1:
            return self.solutions[0].gap
        primal, dual = (
            sum(getattr(s, name) for s in self.solutions) for name in ("primal", "dual")
        )
        return relative_gap(primal, dual)

    @property
    def exact_gap(self) -> float | None:
        """The relative gap for the exact kernels; None where no bound for them is known."""
        if not self.bounds:
            return self.gap
        known = [(p, d) for p, d in self.bounds if p is not None and d is not None]
        if len(known) < len(self.bounds):
            return None
        return relative_gap(sum(p for p, _ in known), sum(d for _, d in known))

    @property
    def history(self) -> Any:
        """By iteration, with weights of all kernels of the bank; one, or a tuple of them."""
        found = tuple(
            {
                **solution.history,
                "weights": np.array([self.bank.spread(w) for w in solution.history["weights"]]),
            }
            for solution in self.solutions
        )
        return found[0] if len(found) == 1 else found

    def total(self, name: str) -> Any:
        """A number of the solutions, summed."""
        return sum(getattr(solution, name) for solution in self.solutions)
