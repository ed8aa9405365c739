"""What a learner returns: weights, the machine that goes with them, and the proof."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_floats
from kernelweave._core.html import html_table
from kernelweave._core.types import Array
from kernelweave.certificate import Certificate, certify, certify_given
from kernelweave.learners import make_learner
from kernelweave.problem_file import arguments_of, write_problem
from kernelweave.problems.losses import Loss, as_loss
from kernelweave.problems.problem import Problem


@dataclass(frozen=True, repr=False, eq=False)
class Solution:
    """A learned kernel and its machine: f = Σ_m weights_m K_m coef + bias.

    Where y has k columns, ``coef``, ``alpha`` and ``dual_alpha`` have shape (k, n), ``bias`` (k,).

    Attributes
    ----------
    weights : array (m,)
        Kernel weights.
    coef, bias
        The decision function over the training rows.
    alpha : array (n,)
        The dual variables of the machine: y∘coef for classification, coef for other losses.
    dual_alpha : array (n,)
        The feasible point that proves the lower bound; where J(d) has a kink it is not
        ``alpha`` but a combination of several solutions.
    primal, dual, gap
        Upper and lower bound of the optimum, and |primal − dual|/max(|primal|, |dual|): rounding
        may put the dual above the primal.
    C : float or array (n,)
        The cost of slacks: as given, or as learned.
    status : str
        "optimal" (gap ≤ tol), "rule_met" (the learner's own stopping rule, such as that of
        ``Skm(stop="optimality")``), "max_iter", "max_time", "callback" (a callback ended the
        fit), or "stopped" (it could do no more).
    n_iter, n_svm_solves : int
        Iterations of the learner; inner solves at new weights, line searches included.
    history : mapping of arrays
        By iteration: "weights", "objective", "gap", "seconds", "n_svm_solves", and "by", the
        method that made the step.
    seconds : float
        Time spent learning.
    extras : mapping
        What a learner with an objective of its own has to say: under ``radius`` and
        ``radius_bound`` the "radius" of the enclosing ball at ``weights`` (with the ridge where
        ``RadiusBound(ridge_in_ball=True)`` says so) and "stationarity"; under ``radius``
        also the "center" β that proves the lower bound together with ``dual_alpha``; under
        ``margin_and_radius`` the "radii" of all kernels; under
        ``alignment`` and ``alignf`` the "alignment" and, as "stationarity", by what share others
        could exceed it; under ``easy`` the "distances" between the classes, one per kernel, the
        "distance" that is least, and "stationarity";
        under ``skm`` the pair "alpha", "eta" of the last regularized machine, its "kappa", and the
        "eps1" (per sample) and "eps2" to which the pair is optimal.
    criterion : str
        What was minimized: "margin", "radius", "radius_bound", "margin_and_radius", or "given"
        where the weights were not learned with the machine (``uniform``, ``alignment``,
        ``alignf``, ``easy``): the bound is then for machines on ``weights``.
    loss : str or Loss
        The loss that was asked for.
    problem : Problem or None
        What was solved, kernels included; None in pickles and in fitted estimators, which do not
        keep the kernels.
    """

    weights: Array
    coef: Array
    alpha: Array
    dual_alpha: Array
    bias: float | Array
    primal: float
    dual: float
    gap: float
    C: float | Array
    status: str
    n_iter: int
    n_svm_solves: int
    history: Mapping[str, Array]
    seconds: float
    extras: Mapping[str, Any] = field(default_factory=dict)
    criterion: str = "margin"
    loss: str | Loss = "hinge"
    problem: Problem | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "problem": None}

    def certificate(self) -> Certificate:
        """Judge the solution anew, from the kernels alone: both bounds of what was minimized.

        It needs the ``problem``.
        """
        if self.problem is None:
            raise ValueError(
                "this solution does not keep its kernels: pickles and fitted estimators leave them "
                "out; call duality_gap with the kernels instead, for an estimator those of "
                "KernelBank(…).fit(X).stack with the bank of its parameter kernels"
            )
        if self.criterion not in ("margin", "given"):
            return make_learner(self.criterion).judged(self)
        model = self.weights, self.coef, self.bias, self.dual_alpha
        if self.criterion == "given":
            return certify_given(self.problem, *model)
        learned = float(1.0 / self.C) if self.problem.learns_C else 0.0
        return certify(self.problem, *model, learned)

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Write the problem and its solution to a file (.npz), to send it to somebody.

        It holds the kernels, the targets and the numbers of the solution, but no name of a column,
        a row or a class. ``python -m benchmarks.harness.fuzz --replay FILE``, in a checkout of
        kernelweave, judges the numbers exactly and solves the problem again. It needs the
        ``problem``.
        """
        if self.problem is None:
            raise ValueError(
                "this solution does not keep its kernels: pickles and fitted estimators leave them "
                "out; call learn with the kernels, and dump what it returns"
            )
        arrays = ("weights", "coef", "alpha", "dual_alpha", "bias", "primal", "dual", "gap", "C")
        told = ("status", "criterion", "n_iter", "n_svm_solves", "seconds")
        found = {name: getattr(self, name) for name in arrays + told}
        write_problem(path, arguments_of(self.problem), {**found, **self.extras})

    def __repr__(self) -> str:
        """What a reader wants to know first; the arrays are in the attributes."""
        active = np.count_nonzero(self.weights)
        return (
            f"Solution({active} of {self.weights.size} kernels, objective {self.primal:.6g}, "
            f"gap {self.gap:.2g}, status {self.status!r}, {self.n_iter} iterations, "
            f"{self.n_svm_solves} SVM solves, {self.seconds:.2g} s)"
        )

    def _repr_html_(self) -> str:
        order = np.argsort(-np.abs(self.weights), kind="stable")
        rows = [(int(k), f"{self.weights[k]:.4g}") for k in order if self.weights[k] != 0.0]
        return html_table(repr(self), ("kernel", "weight"), rows)

    @property
    def objective(self) -> float:
        """The primal value."""
        return self.primal

    def decision_function(self, K_cross: ArrayLike) -> Array:
        """Decision values of new points, from their kernels against the training points.

        ``K_cross`` has shape (m, n_new, n); the result (n_new,), or with several machines
        (n_new, n_machines).
        """
        K = check_floats("K_cross", K_cross)
        m, n = self.weights.size, self.coef.shape[-1]
        if K.ndim != 3 or K.shape[0] != m or K.shape[2] != n:
            raise ValueError(f"K_cross must have shape ({m}, n_new, {n}), found {K.shape}")
        values = np.zeros((K.shape[1], *self.coef.shape[:-1]))
        for k in np.flatnonzero(self.weights):
            values += self.weights[k] * (K[k] @ self.coef.T)
        if not np.isfinite(values).all():
            raise ValueError("K_cross must be finite, found NaN or infinity")
        return values + self.bias

    def predict(self, K_cross: ArrayLike) -> Array:
        """What new points are, from their kernels against the training points (m, n_new, n).

        For one machine of labels and for one class −1 or +1, by the sign of the decision value (0
        counts as −1); for regression the values themselves. Several machines of labels do not say
        what their labels stand for: ask for ``decision_function`` then.
        """
        values = self.decision_function(K_cross)
        target = as_loss(self.loss).target
        if target not in ("labels", "nothing"):
            return values
        if target == "labels" and values.ndim > 1:
            raise ValueError(
                "several machines have no prediction in common: use decision_function, whose "
                "largest column is the class in one-versus-rest"
            )
        return np.where(values > 0.0, 1.0, -1.0)
