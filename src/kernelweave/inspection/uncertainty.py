"""How far kernel weights can be believed: under other rows, without any signal, at other C.

Kernels are computed once, on all rows. Each draw solves the estimator's own problem anew, from the
weights of the fit to all rows, to a relative gap of at least ``LOOSE``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_level, check_number, is_number, shown
from kernelweave._core.types import Array
from kernelweave.inspection._refits import LOOSE, Refit, Refits, run
from kernelweave.inspection._resampling import Blocks
from kernelweave.inspection.draws import WeightDraws, WeightPath

_FACTORS = np.geomspace(1e-2, 1e2, 9)  # by which over_C changes C


def stability(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    n_resamples: int = 100,
    groups: Any = None,
    level: float = 0.95,
    tol: float | None = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: int = 0,
) -> WeightDraws:
    """Kernel weights on resampled rows: an interval for each, and how often it is selected.

    A resample draws as many rows as there are, with replacement: within classes, and whole groups
    if there are some. A row drawn twice has weight 2.

    Parameters
    ----------
    model : estimator
        ``MKLClassifier``, ``MKLRegressor``, ``MKLOneClass``, or one that chooses by
        cross-validation, whose choice is kept. Fitted or not: it is not changed.
    X, y
        The rows to fit it to, as its ``fit`` takes them.
    n_resamples : int
        Number of draws.
    groups : array-like (n,), optional
        Rows of one group, such as the visits of a patient, are drawn together.
    level : float
        The share of the draws that an interval holds.
    tol : float, optional
        Relative gap of each fit; by default that of the model, or 0.003 if that is less.
    n_jobs : int, optional
        Threads; results do not depend on it.
    random_state : int, Generator or None
        Seed of the draws.
    verbose : int
        1 prints the progress to standard error.

    Returns
    -------
    WeightDraws
        ``by_view()``, ``by_kernel()``, ``tidy()``, ``plot()``.
    """
    level = check_level(level)
    refits = Refits.of(model, X, y, n_jobs)
    units = Blocks(refits.n, refits.strata, groups)
    rng = np.random.default_rng(random_state)
    count = check_number("n_resamples", n_resamples, int)
    drawn = [units.bootstrap(rng) for _ in range(count)]
    base, tol = refits.fit(), loose(refits, tol)

    def job(counts: Array) -> Array:
        return refits.fit(counts=counts, start=base.start, tol=tol).weights

    weights = run("stability", job, drawn, n_jobs, verbose)
    return gathered(refits, base, weights, "resamples", level)


def null(
    model: Any,
    X: Any,
    y: Any,
    *,
    n_permutations: int = 100,
    groups: Any = None,
    level: float = 0.95,
    tol: float | None = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: int = 0,
) -> WeightDraws:
    """Kernel weights when targets are permuted: what they look like where there is no signal.

    Weights that sum to 1 are large somewhere even then, and so no weight is evidence by itself.
    To ask whether a view is of use, see ``select_views``.

    Parameters are those of ``stability``; under ``groups``, whole groups of the same size exchange
    their targets.
    """
    level = check_level(level)
    refits = Refits.of(model, X, y, n_jobs)
    if refits.targets is None:
        raise ValueError(f"null permutes targets, and {type(refits.model).__name__} has none.")
    units = Blocks(refits.n, groups=groups)
    units.check_exchangeable()
    rng = np.random.default_rng(random_state)
    count = check_number("n_permutations", n_permutations, int)
    orders = [units.permutation(rng) for _ in range(count)]
    base, tol = refits.fit(), loose(refits, tol)
    weights = run(
        "null",
        lambda order: refits.fit(order=order, start=base.start, tol=tol).weights,
        orders,
        n_jobs,
        verbose,
    )
    return gathered(refits, base, weights, "permutations", level)


def over_C(
    model: Any,
    X: Any,
    y: Any,
    *,
    Cs: ArrayLike | None = None,
    tol: float | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> WeightPath:
    """Kernel weights for several C, from the largest down, each started from the last.

    Parameters
    ----------
    model, X, y, tol, n_jobs, verbose
        As for ``stability``; ``n_jobs`` serves the computation of kernels.
    Cs : array, optional
        Positive numbers; by default nine from a hundredth to a hundred times the model's C.

    Returns
    -------
    WeightPath
        ``by_view()``, ``by_kernel()``, ``plot()``.
    """
    refits = Refits.of(model, X, y, n_jobs)
    if "C" not in refits.model.get_params(deep=False):
        raise TypeError(f"over_C needs an estimator with a C, found {type(refits.model).__name__}.")
    own = refits.model.get_params(deep=False)["C"]
    center = own if is_number(own) and np.isfinite(own) else 1.0
    values = center * _FACTORS if Cs is None else np.asarray(Cs, dtype=float)
    if values.ndim != 1 or not values.size or not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError(f"Cs must be a list of positive numbers, found {shown(Cs)}")
    weights = np.empty((values.size, refits.bank.m_all))
    last: list[Refit] = []

    def job(place: int) -> None:
        start = last[-1].start if last else None
        last[:] = [refits.fit(C=float(values[place]), start=start, tol=loose(refits, tol))]
        weights[place] = last[-1].weights

    run("over_C", job, np.argsort(-values).tolist(), None, verbose)
    return WeightPath(refits.bank.names, refits.bank.views, values, weights)


def loose(refits: Refits, tol: float | None) -> float:
    """``tol``, or what will do for weights that are one draw of many."""
    return max(refits.model.tol, LOOSE) if tol is None else check_number("tol", tol)


def gathered(
    refits: Refits, base: Refit, weights: list[Array], what: str, level: float
) -> WeightDraws:
    """The draws as one result."""
    bank = refits.bank
    return WeightDraws(bank.names, bank.views, base.weights, np.array(weights), what, level)
