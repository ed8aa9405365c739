"""One estimator on one set of kernels, fitted again and again: other rows, targets, kernels, costs.

Kernels are computed once, on all rows given. What they learn from rows (widths, means, scales) is
therefore the same in every fit; kernel weights and machines are learned anew. So are parameters
of kernels that are learned from targets, and fits to targets in another order are refused there.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from kernelweave._core.status import Bar, tell
from kernelweave._core.types import Array, Places
from kernelweave._core.warnings import LacksView
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.fitted import FittedBank
from kernelweave.estimators._base import MKLEstimator
from kernelweave.estimators._fit import Learned, fit_kernels, keep, pose, read, solve_all
from kernelweave.estimators._search import CrossValidated, share_rows
from kernelweave.estimators._targets import Training
from kernelweave.estimators._threads import in_threads
from kernelweave.estimators.transductive import TransductiveMKLClassifier
from kernelweave.inspection._fits import found_instead
from kernelweave.parameters.bank import refuse_parameters
from kernelweave.stacks.mixed import MixedStack
from kernelweave.stacks.protocol import Stack

LOOSE = 3e-3  # relative gap of fits whose weights are summed up over many draws
CHOOSING = 1e-2  # of fits that are only ranked, by scores that hardly depend on it


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warning that rows lack a view, which the user's own fit has given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LacksView)
        yield


@dataclass(frozen=True)
class Refit:
    """One of the fits, and its weights in the terms of reports."""

    learned: Learned

    @property
    def weights(self) -> Array:
        """Weights of all kernels of the bank, (m,); their mean if machines have their own."""
        return self.learned.bank.spread(self.start)

    @property
    def start(self) -> Array:
        """Where a fit on the same kernels may start."""
        return np.mean([solution.weights for solution in self.learned.solutions], axis=0)

    @property
    def primal(self) -> float:
        """The value reached, of all machines together."""
        return float(sum(solution.primal for solution in self.learned.solutions))

    @property
    def dual(self) -> float:
        """Their lower bound."""
        return float(sum(solution.dual for solution in self.learned.solutions))


@dataclass(frozen=True)
class Refits:
    """An estimator, the targets of all rows, and the kernels on some of the rows."""

    model: MKLEstimator
    targets: Any
    training: Training
    bank: FittedBank

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, n_jobs: int | None = None) -> Refits:
        """All rows of X; ``model`` is an estimator of kernelweave, fitted or not."""
        single = as_single(model, X, y)
        training = replace(read(single, X, y), matrices=False)
        training = replace(training, table=share_rows(training.table))
        single = bound(single, training.bank)  # kernel matrices given as X are a bank, too
        with quiet() if hasattr(model, "bank_") else nullcontext():
            bank = fit_kernels(pose(single, training), n_jobs, exact=False)
        return cls(single, training.targets, training, bank)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.training.places)

    @property
    def strata(self) -> Any:
        """Classes, or what else folds and draws keep the shares of, (n,); None without such."""
        if self.targets is None:
            return None
        given = self.targets[self.training.places]
        return given if is_classifier(self.model) else self.model._targets.strata(given)

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the views, each once, in the order of the bank."""
        return tuple(dict.fromkeys(self.bank.views))

    @property
    def lacking(self) -> dict[str, NDArray[np.bool_]]:
        """The rows that lack a view, or all its numbers or categories, by incomplete view."""
        found = dict[str, NDArray[np.bool_]]()
        parts = {(m.view_name, m.view.columns) for m in self.bank.members if m.view.may_lack}
        for name, columns in sorted(parts, key=lambda part: self.views.index(part[0])):
            lacks = self.training.table.lacking(columns)
            if lacks.any():
                found[name] = found.get(name, False) | lacks
        return found

    def kernels_of(self, *views: str) -> Places:
        """Numbers in the stack of the kernels of these views."""
        return np.flatnonzero([self.bank.views[number] in views for number in self.bank.kept])

    def part(self, rows: Places) -> Refits:
        """The same on some of the rows, with kernels fitted to these alone."""
        training = self.training.take(rows)
        bank = fit_kernels(pose(self.model, training), exact=False)
        return replace(self, training=training, bank=bank)

    def only(self, kernels: Places) -> Refits:
        """The same with some of the kernels of the stack."""
        bank = self.bank
        return replace(self, bank=bank.on(bank.stack.select(kernels), bank.kept[kernels]))

    def shuffled(self, view: str, order: Places) -> Refits:
        """The same with the rows of one view in another order, which breaks all its ties."""
        self._refuse_parameters()
        stack, inside = self.bank.stack, self.kernels_of(view)
        outside = np.setdiff1d(np.arange(stack.m), inside)
        moved: Stack = stack.select(inside).restrict(order)
        if outside.size:
            moved = MixedStack([moved, stack.select(outside)], [inside, outside])
        return replace(self, bank=self.bank.on(moved))

    @property
    def learns_parameters(self) -> bool:
        """Whether kernels have parameters that are learned from targets."""
        return bool(self.training.bank.learnable())

    def _refuse_parameters(self) -> None:
        """Raise an error if kernels know the targets, of which moved rows must know nothing."""
        refuse_parameters(self.training.bank, "A test on moved rows")

    def fit(
        self,
        *,
        counts: Array | None = None,
        order: Places | None = None,
        start: Array | None = None,
        **params: Any,
    ) -> Refit:
        """Weights and machines, with some parameters of the estimator changed.

        Row i counts ``counts[i]`` times; under ``order`` it has the target of row ``order[i]``.
        """
        if order is not None:
            self._refuse_parameters()
        model: Any = object.__new__(
            type(self.model)
        )  # a copy as scikit-learn makes it takes longer
        model.__dict__.update(vars(self.model), **params)
        training = replace(self.training, weights=counts)
        if order is not None and training.targets is not None:
            training = replace(training, targets=training.targets[order])
        return Refit(solve_all(self.bank, pose(model, training), start))

    def estimator(self, refit: Refit) -> MKLEstimator:
        """A fitted estimator of one of the fits."""
        fitted = copy(self.model)
        keep(fitted, refit.learned)
        return fitted

    def values(self, fitted: MKLEstimator, rows: Places, *views: str) -> Array:
        """f of rows for each machine, or with ``views`` what these contribute to it.

        Rows are numbered as in the table of these refits; ``fitted`` may know others.
        """
        chosen = np.isin(fitted.bank_.views, views) if views else np.True_
        table = self.training.table.take(rows)
        values = fitted.bank_.decision(table, fitted.weights_ * chosen, fitted.dual_coef_.T)
        return values if views else values + fitted.intercept_


def bound(model: MKLEstimator, bank: KernelBank) -> MKLEstimator:
    """The estimator with this bank in place of its kernels, and views."""
    own = {"views"} & model.get_params(deep=False).keys()
    return model.set_params(kernels=bank, **dict.fromkeys(own))


def as_single(model: Any, X: Any, y: Any) -> MKLEstimator:
    """An unfitted estimator without choices: of one that chooses, the candidate chosen."""
    if isinstance(model, CrossValidated):
        chosen = model if hasattr(model, "best_estimator_") else clone(model).fit(X, y)
        check_is_fitted(chosen, "best_estimator_")
        model = chosen.best_estimator_
    if isinstance(model, TransductiveMKLClassifier):
        raise TypeError(
            "model must be able to predict new rows: TransductiveMKLClassifier is fitted to rows "
            "known beforehand. Use MKLClassifier."
        )
    if not isinstance(model, MKLEstimator):
        raise TypeError(
            "model must be an estimator of kernelweave, such as MKLClassifier(), found "
            f"{found_instead(model, 'and X as that step gets it')}"
        )
    return clone(model).set_params(verbose=0, n_jobs=None)


def run(
    what: str, job: Callable[..., Any], items: Sequence[Any], n_jobs: int | None, verbose: int
) -> list[Any]:
    """``job(item)`` of each item, in order, in threads, with a word on their progress."""
    began, bar, count = time.perf_counter(), Bar(verbose), len(items)

    def line(done: int) -> str:
        return f"{what}: {done} of {count}, {time.perf_counter() - began:.1f} s"

    found = in_threads(
        job,
        items,
        n_jobs,
        lambda late: f"{what}: {late} fits did not reach their tolerance",
        lambda done: bar.show(done / count, line(done)) if done < count else None,
    )
    if verbose and found:
        tell(line(count))
    return found
