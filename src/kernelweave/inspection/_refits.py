"""One estimator on one set of kernels, fitted again and again: other rows, targets, kernels, costs.

Kernels are computed once, on all rows given. What they learn from rows (widths, means, scales) is
therefore the same in every fit; kernel weights and machines are learned anew. So are parameters
of kernels that are learned from targets, and fits to targets in another order are refused there.
"""

from __future__ import annotations

from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kernelweave._core.checks import shown
from kernelweave._core.types import Array, Places
from kernelweave.banks.fitted import FittedBank
from kernelweave.estimators._base import MKLEstimator
from kernelweave.estimators._fit import Posed, fit_kernels, keep, pose, read, solve_all
from kernelweave.estimators._search import CrossValidated
from kernelweave.estimators._training import Learnt, Training
from kernelweave.estimators.transductive import TransductiveMKLClassifier
from kernelweave.inspection._running import quiet
from kernelweave.parameters.bank import refuse_parameters, with_parameters
from kernelweave.stacks.mixed import MixedStack

LOOSE = 3e-3  # relative gap of fits whose weights are summed up over many draws


@dataclass(frozen=True)
class Refit:
    """One of the fits: what was posed, and what was learned."""

    posed: Posed
    learnt: Learnt

    @property
    def weights(self) -> Array:
        """Weights of all kernels of the bank, (m,); their mean if machines have their own."""
        weights = self.learnt.weights
        return weights if weights.ndim == 1 else weights.mean(axis=0)

    @property
    def start(self) -> Array:
        """Where a fit on the same kernels may start."""
        return self.weights[self.learnt.bank.kept]


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
        training = read(single, X, y)
        single.set_params(kernels=training.bank)  # kernel matrices given as X are a bank, too
        with quiet() if hasattr(model, "bank_") else nullcontext():
            bank = _fitted(single, training, n_jobs)
        return cls(single, training.targets, training, bank)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.training.places)

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
        training = replace(
            self.training,
            table=self.training.table.take(rows),
            targets=None if self.targets is None else self.training.targets[rows],
            places=self.training.places[rows],
        )
        bank = _fitted(self.model, training)
        return replace(self, training=training, bank=bank)

    def only(self, kernels: Places) -> Refits:
        """The same with some of the kernels of the stack."""
        bank = replace(
            self.bank, kept=self.bank.kept[kernels], _stack=self.bank.stack.select(kernels)
        )
        return replace(self, bank=bank)

    def shuffled(self, view: str, order: Places) -> Refits:
        """The same with the rows of one view in another order, which breaks all its ties."""
        self._refuse_parameters()
        stack, inside = self.bank.stack, self.kernels_of(view)
        outside = np.setdiff1d(np.arange(stack.m), inside)
        moved = stack.select(inside).restrict(order)
        if not outside.size:
            return replace(self, bank=self._with(moved))
        mixed = MixedStack([moved, stack.select(outside)], [inside, outside])
        return replace(self, bank=self._with(mixed))

    @property
    def learns_parameters(self) -> bool:
        """Whether kernels have parameters that are learned from targets."""
        return bool(with_parameters(self.training.bank))

    def _refuse_parameters(self) -> None:
        """Raise an error if kernels know the targets, of which moved rows must know nothing."""
        refuse_parameters(self.training.bank, "A test on moved rows")

    def _with(self, stack: Any) -> FittedBank:
        return replace(self.bank, _stack=stack)

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
        model = copy(self.model).set_params(**params)
        training = replace(self.training, weights=counts)
        asked = training
        if order is not None and training.targets is not None:
            asked = replace(training, targets=training.targets[order])
        posed = pose(model, asked)
        return Refit(posed, solve_all(self.bank, training, posed, start))

    def estimator(self, refit: Refit) -> MKLEstimator:
        """A fitted estimator of one of the fits."""
        fitted = copy(self.model)
        keep(fitted, refit.learnt)
        refit.posed.targets.keep(fitted, refit.learnt)
        return fitted

    def values(self, fitted: MKLEstimator, rows: Places, *views: str) -> Array:
        """f of rows for each machine, or with ``views`` what these contribute to it.

        Rows are numbered as in the table of these refits; ``fitted`` may know others.
        """
        chosen = np.isin(fitted.bank_.views, views) if views else np.True_
        table = self.training.table.take(rows)
        values = fitted.bank_.decision(table, fitted.weights_ * chosen, fitted.dual_coef_.T)
        return values if views else values + fitted.intercept_


def _fitted(model: MKLEstimator, training: Training, n_jobs: int | None = None) -> FittedBank:
    """Kernels of the rows; of approximate ones, nothing is to be proved for the exact ones."""
    bank = fit_kernels(training, pose(model, training), n_jobs)
    return replace(bank, _exactness=None)


def recalled(fitted: MKLEstimator, values: Array) -> MKLEstimator:
    """An estimator that predicts from these values, whatever X it is asked about."""
    known = copy(fitted)
    known.__dict__["_values"] = lambda X: values
    return known


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
        found = shown(model)
        if hasattr(model, "steps"):
            found = f"a {type(model).__name__}: pass its last step, and X as that step gets it"
        elif hasattr(model, "param_grid") or hasattr(model, "best_estimator_"):
            found = f"a {type(model).__name__}: pass its best_estimator_"
        raise TypeError(
            f"model must be an estimator of kernelweave, such as MKLClassifier(), found {found}"
        )
    return clone(model).set_params(verbose=0, n_jobs=None)
