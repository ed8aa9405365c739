"""The folds of a cross-validation: every candidate learned on each, nothing computed twice.

A fold's kernels are computed once for all norms and all C, from what folds may share
(``kernelweave.views.parts``). Within a fold each norm has one path over C, and the held-out rows
meet each kernel once, for all candidates together.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from kernelweave._core.checks import shown
from kernelweave._core.status import tell
from kernelweave._core.types import Array, Places
from kernelweave._core.warnings import warn_unconverged
from kernelweave.banks.fitted import FittedBank
from kernelweave.estimators._candidates import Choice
from kernelweave.path import regularization_path
from kernelweave.solution import Solution
from kernelweave.stacks.memory import GIB, available_bytes
from kernelweave.views.parts import share
from kernelweave.views.table import Table

_FOLDS = 5
_SHARE, _MOST = 0.25, 4.0 * GIB  # of the available memory that folds may share


@dataclass(frozen=True)
class Fold:
    """Numbers of the rows to learn on and of those held out."""

    number: int
    train: Places
    test: Places


@dataclass(frozen=True)
class Trial:
    """One bank on one fold: values of the held-out rows, (n_candidates, n_test, n_machines)."""

    bank: str
    fold: Fold
    values: Array
    seconds: float


@dataclass(frozen=True)
class Posed:
    """What the machines learn from some rows, and what their values mean.

    ``targets`` and ``options`` are those of ``regularization_path``; predictions are
    scale · value + shift, per machine.
    """

    targets: Array
    options: dict[str, Any]
    scale: Array | float = 1.0
    shift: Array | float = 0.0


@dataclass(frozen=True)
class Task:
    """What all folds share: the rows, how to learn, and among which candidates to choose.

    ``pose(rows)`` says what is to be learned from these rows. ``weights``: how often each row
    counts; None for once.
    """

    rows: Table
    weights: Array | None
    pose: Callable[[Places], Posed]
    Cs: Array
    learner: Any
    verbose: int = 0

    def learn(self, choice: Choice, rows: Places) -> tuple[FittedBank, list[Solution]]:
        """The kernels of a bank on these rows, and the solution of every candidate."""
        return self._learn(choice, rows, self.pose(rows))

    def _learn(
        self, choice: Choice, rows: Places, posed: Posed
    ) -> tuple[FittedBank, list[Solution]]:
        weights = None if self.weights is None else self.weights[rows]
        fitted = choice.bank.fit(self.rows.take(rows), sample_weight=weights)
        solutions = [
            solution
            for way in choice.ways
            for solution in regularization_path(
                fitted.stack,
                posed.targets,
                self.Cs,
                **way.options(self.learner),
                **posed.options,
            )
        ]
        return fitted, solutions

    def run(self, choice: Choice, fold: Fold) -> Trial:
        """Learn all candidates of a bank on the rows of a fold, and meet the rows held out."""
        began = time.perf_counter()
        posed = self.pose(fold.train)
        fitted, solutions = self._learn(choice, fold.train, posed)
        values = held_out_values(fitted, solutions, self.rows.take(fold.test))
        values = values * posed.scale + posed.shift
        seconds = time.perf_counter() - began
        if self.verbose:
            tell(
                f"fold {fold.number + 1}, bank {choice.name!r}: {fitted.m_all} kernels, "
                f"{len(solutions)} fits, {seconds:.1f} s"
            )
        return Trial(choice.name, fold, values, seconds)


def held_out_values(bank: FittedBank, solutions: list[Solution], new: Table) -> Array:
    """f(x) of every solution and machine for the new rows, (n_solutions, n_new, n_machines)."""
    coefs = [np.atleast_2d(solution.coef) for solution in solutions]
    weights = [
        np.tile(bank.spread(solution.weights), (len(coef), 1))
        for solution, coef in zip(solutions, coefs, strict=True)
    ]
    biases = np.array([np.atleast_1d(solution.bias) for solution in solutions])
    values = bank.decision(new, np.vstack(weights), np.vstack(coefs).T)
    return values.T.reshape(*biases.shape, len(new)).swapaxes(1, 2) + biases[:, None, :]


def share_rows(X: Any) -> Table:
    """X, to be cut into parts that share what depends on two rows alone."""
    available = available_bytes()
    return share(X, _MOST if available is None else min(_MOST, _SHARE * available))


def run_all(
    task: Task,
    choices: list[Choice],
    folds: list[Fold],
    n_jobs: int | None,
    step: Callable[[], bool] | None = None,
) -> list[Trial]:
    """Every bank on every fold; ``step`` is called after each. One warning for all late fits.

    What else folds warn of is their own business: the final fit tells which kernels are dropped.
    """
    jobs = [delayed(task.run)(choice, fold) for choice in choices for fold in folds]
    trials = list[Trial]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for trial in Parallel(n_jobs=n_jobs, backend="threading", return_as="generator")(jobs):
            trials.append(trial)
            if step is not None:
                step()
    late = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    if late:
        fits = len(folds) * len(task.Cs) * sum(len(choice.ways) for choice in choices)
        warn_unconverged(
            f"{len(late)} of {fits} fits in folds did not reach tol. The first: {late[0].message}"
        )
    return trials


def number_of_folds(cv: int | None, smallest: int, what: str, each: int = 1) -> int:
    """``cv``, or five where there are as many rows to share out; raises ValueError if too many.

    ``each``: how many of them a fold needs to be scored.
    """
    if smallest < 2:
        raise ValueError(
            f"Cross-validation needs at least 2 {what}, found {smallest} sample; add rows, or use "
            "an estimator without CV in its name."
        )
    if cv is None:
        return min(_FOLDS, max(smallest // each, 2))
    if not 2 <= cv <= smallest:
        raise ValueError(
            f"cv must be between 2 and {smallest}, the least number of {what}; found {cv}."
        )
    return int(cv)


def as_folds(splits: Any, n: int, used: Places) -> list[Fold]:
    """Folds of the ``used`` rows, numbered among these, from pairs of numbers among n, or masks."""
    folds = []
    for number, (train, test) in enumerate(splits):
        learned, held_out = (
            np.searchsorted(used, rows[np.isin(rows, used)])
            for rows in (_numbers(train, n), _numbers(test, n))
        )
        if not learned.size or not held_out.size:
            raise ValueError(f"cv: split {number} has no rows to learn on, or none to test.")
        if np.intersect1d(learned, held_out).size:
            raise ValueError(
                f"cv: split {number} tests rows that it also learns on; its scores would say "
                "nothing of new rows."
            )
        folds.append(Fold(number, learned, held_out))
    if not folds:
        raise ValueError("cv holds no split; give at least one pair (train, test).")
    return folds


def _numbers(rows: Any, n: int) -> Places:
    rows = np.asarray(rows)
    if rows.dtype == bool:
        rows = np.flatnonzero(rows)
    if rows.size == 0:
        return np.empty(0, dtype=np.intp)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"cv must hold row numbers between 0 and {n - 1}, found {shown(rows)}.")
    return rows.astype(np.intp)
