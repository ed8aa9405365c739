"""Which columns inside the views a model uses.

    gradient       mean_i |∂f(x_i)/∂x_j| · s_j        s_j the standard deviation of column j
    permutation    mean_i |f(x_i) − f(x_i with x_j of another row)|

Both are in the units of f, and say what the model does with a column, not what the column is worth.
For a linear f the first is |coefficient| · s_j. Columns that some kernel reads without a derivative
are permuted under either method.

Beside them stands a marginal test, which knows no model: whether the mean of a column, or its
spread, differs between classes, or goes with a numeric target. p is twice the smaller of the two
p-values, adjusted for the number of columns by Benjamini and Hochberg.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from kernelweave._core.blocks import blocks
from kernelweave._core.checks import check_choice, check_level, check_number
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array, Places
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.gradients import gradient, readers, without_gradient
from kernelweave.estimators._base import MKLEstimator, read_new
from kernelweave.inspection._frames import frame
from kernelweave.inspection._models import check_readable
from kernelweave.inspection._refits import Refit, Refits, run
from kernelweave.inspection._resampling import Blocks
from kernelweave.inspection.marginal import marginal_p_values
from kernelweave.inspection.selection import adjust
from kernelweave.inspection.uncertainty import loose
from kernelweave.views.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

METHODS = ("gradient", "permutation")


@dataclass(frozen=True, repr=False, eq=False)
class FeatureImportance:
    """How much a model's values depend on each column.

    Attributes
    ----------
    columns, views, methods : tuple of str
        The name of each column, the views that read it, and how it was asked: "gradient" or
        "permutation".
    importance : array (n_columns,)
        In the units of the decision values; the mean over machines, where there are several.
    draws : array (n_resamples, n_columns)
        The same under resampled rows.
    adjusted : array (n_columns,)
        p-values of the marginal test, adjusted for the number of columns; NaN without targets.
    level : float
        How sure intervals are.
    """

    columns: tuple[str, ...]
    views: tuple[str, ...]
    methods: tuple[str, ...]
    importance: Array
    draws: Array
    adjusted: Array
    level: float = 0.95

    @property
    def intervals(self) -> Array:
        """Lower and upper ends, (2, n_columns): the importance, plus and minus the draws' spread.

        Their quantiles would not do: a resample holds fewer different rows, and says less.
        """
        freedom = max(len(self.draws) - 1, 1)
        error = self.draws.std(axis=0, ddof=min(1, len(self.draws) - 1))
        spread = student.ppf(0.5 + self.level / 2.0, freedom) * error
        low = np.maximum(self.importance - spread, np.minimum(self.importance, 0.0))
        return np.array([low, self.importance + spread])

    def frame(self) -> DataFrame:
        """One line per column, the most important first.

        column, view, importance, low, high, method; and marginal_p, adjusted, if there are targets.
        """
        low, high = self.intervals
        columns: dict[str, Any] = {
            "column": np.array(self.columns, dtype=object),
            "view": np.array(self.views, dtype=object),
            "importance": self.importance,
            "low": low,
            "high": high,
            "method": np.array(self.methods, dtype=object),
        }
        if not np.isnan(self.adjusted).all():
            columns["marginal_p"] = self.adjusted
        order = np.argsort(-self.importance, kind="stable")
        return frame({name: values[order] for name, values in columns.items()})

    def plot(self, ax: Axes | None = None, top: int = 20) -> Axes:
        """The ``top`` columns with their intervals."""
        from kernelweave.inspection.interval_plots import plot_intervals

        shown = np.argsort(-self.importance, kind="stable")[:top]
        low, high = self.intervals[:, shown]
        names = [self.columns[k] for k in shown]
        label = f"importance, {100 * self.level:g} % interval by {len(self.draws)} resamples"
        return plot_intervals(names, self.importance[shown], low, high, ax, label)

    def __repr__(self) -> str:
        low, high = self.intervals
        width = max(map(len, self.columns))
        lines = [f"importance of columns [{100 * self.level:g} % of {len(self.draws)} resamples]"]
        for k in np.argsort(-self.importance, kind="stable")[:20]:
            p = "" if np.isnan(self.adjusted[k]) else f"  marginal p = {self.adjusted[k]:.3f}"
            value = f"{self.importance[k]:.3g} [{low[k]:.3g}, {high[k]:.3g}]"
            lines.append(f"{self.columns[k]:<{width}}  {value}{p}")
        return "\n".join(lines + (["…"] if len(self.columns) > 20 else []))


def feature_importance(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    method: str = "gradient",
    groups: Any = None,
    n_resamples: int = 30,
    n_shuffles: int = 5,
    level: float = 0.95,
    tol: float | None = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: int = 0,
) -> FeatureImportance:
    """How much a model's values depend on each column, with intervals.

    ``permutation_importance`` asks what a whole view is worth for predictions, on rows held out.
    This asks which columns the model uses, on the rows given, in the units of its values: it needs
    no score, and is quick for thousands of columns.

    Trust a gradient to say what the model does, and from some 500 rows on to rank columns. With
    fewer, or with weak effects, slopes along single columns fall behind, and ``marginal_p`` is
    the better evidence that a column has to do with the target. The test in turn sees one column at
    a time: not those that matter only together, nor that one repeats another.

    Parameters
    ----------
    model : estimator
        As for ``stability``. Without ``y``, it must be fitted.
    X, y
        The rows to fit it to, as its ``fit`` takes them. Without ``y``, any rows: the model stays
        as it is, and intervals tell only what other rows would change in the mean.
    method : "gradient" or "permutation"
        See ``kernelweave.inspection.features``. Permutation works with any kernel, but computes
        kernels anew for each column.
    groups : array-like (n,), optional
        Rows of one group are drawn together.
    n_resamples : int
        Fits to resampled rows, from which intervals follow.
    n_shuffles : int
        How often a column is permuted.
    level, tol, n_jobs, random_state, verbose
        As for ``stability``.

    Returns
    -------
    FeatureImportance
        ``frame()``, ``plot()``.
    """
    check_choice("method", method, METHODS)
    level, rng = check_level(level), np.random.default_rng(random_state)
    count = check_number("n_resamples", n_resamples, int)
    shuffles = check_number("n_shuffles", n_shuffles, int)
    if y is None and not _learns_without_targets(model):
        fits, table, p_values = _of_fitted(model, X, groups, count, rng)
    else:
        refits = Refits.of(model, X, y, n_jobs)
        fits = _refitted(refits, groups, count, loose(refits, tol), rng, n_jobs, verbose)
        table = refits.training.table
        p_values = marginal_p_values(table, refits.targets, is_classifier(refits.model))
    found, permuted = _importances(fits, table, method, shuffles, rng)
    views = _views_by_column(fits.bank)
    read = np.array(sorted(views), dtype=np.intp)
    return FeatureImportance(
        columns=tuple(table.label(column) for column in read),
        views=tuple(views[column] for column in read),
        methods=tuple(METHODS[column in permuted] for column in read),
        importance=found[0, read],
        draws=found[1:, read],
        adjusted=_adjusted(p_values[read]),
        level=level,
    )


@dataclass(frozen=True)
class _Fits:
    """Several fits on one bank: the first to all rows, the others to resamples of them.

    ``weights`` (F, k, m) and ``coef`` (F, k, n) of k machines; ``counts`` (F, rows): how often each
    row of the table counts in the mean.
    """

    bank: FittedBank
    weights: Array
    coef: Array
    counts: Array


def _learns_without_targets(model: Any) -> bool:
    return isinstance(model, MKLEstimator) and model._targets.kind == "nothing"


def _of_fitted(
    model: Any, X: Any, groups: Any, count: int, rng: np.random.Generator
) -> tuple[_Fits, Table, Array]:
    """One fitted model, which stays as it is, and the rows it is asked about."""
    model = getattr(model, "best_estimator_", model)
    check_readable("model", model, ("weights_", "bank_", "dual_coef_"))
    check_is_fitted(model)
    bank, table = read_new(model, X, model.bank_)
    units = Blocks(len(table), groups=groups)
    counts = np.array([np.ones(len(table)), *(units.bootstrap(rng) for _ in range(count))])
    coef = model.dual_coef_
    weights = (
        np.tile(model.weights_, (len(coef), 1)) if model.weights_.ndim == 1 else model.weights_
    )
    return _Fits(bank, weights[None], coef[None], counts), table, np.full(table.n_columns, np.nan)


def _refitted(
    refits: Refits,
    groups: Any,
    count: int,
    tol: float,
    rng: np.random.Generator,
    n_jobs: int | None,
    verbose: int,
) -> _Fits:
    """The fit to all rows, and fits to resamples."""
    units = Blocks(refits.n, refits.strata, groups)
    drawn = [units.bootstrap(rng) for _ in range(count)]
    base = refits.fit()

    def job(counts: Array) -> Refit:
        return refits.fit(counts=counts, start=base.start, tol=tol)

    found = [base, *run("feature_importance", job, drawn, n_jobs, verbose)]
    weights = [
        np.vstack([np.tile(refits.bank.spread(one.weights), (len(np.atleast_2d(one.coef)), 1))
                   for one in fit.learned.solutions])
        for fit in found
    ]  # fmt: skip
    coef = np.array([fit.learned.coef for fit in found])
    return _Fits(refits.bank, np.array(weights), coef, np.array([np.ones(refits.n), *drawn]))


def _importances(
    fits: _Fits, table: Table, method: str, shuffles: int, rng: np.random.Generator
) -> tuple[Array, set[int]]:
    """Of all columns under all draws, (1 + n_resamples, n_columns); and those permuted."""
    union = np.abs(fits.weights).max(axis=(0, 1))
    read = {c for k in np.flatnonzero(union) for c in fits.bank.members[k].view.columns}
    permuted = {*without_gradient(fits.bank, union)} if method == "gradient" else read
    found = np.zeros((len(fits.counts), table.n_columns))
    if permuted != read:
        found += _by_gradient(fits, table) * _spread(table)
    for column in sorted(permuted):
        found[:, column] = _by_permutation(fits, table, column, shuffles, rng)
    return found, permuted


def _by_gradient(fits: _Fits, table: Table) -> Array:
    """The mean of |∂f/∂x_j| over rows and machines."""
    bank, total = fits.bank, np.zeros((len(fits.counts), table.n_columns))
    machines = fits.coef.shape[1]
    for block in blocks(len(table), max(len(bank.table), table.n_columns), SETTINGS.computed):
        rows = table.block(block)
        for fit, (weights, coef) in enumerate(zip(fits.weights, fits.coef, strict=True)):
            own = slice(None) if len(fits.weights) == 1 else slice(fit, fit + 1)
            for machine in range(machines):
                steep = np.abs(gradient(bank, rows, weights[machine], coef[machine]))
                total[own] += fits.counts[own, block] @ steep
    return total / (machines * fits.counts.sum(axis=1)[:, None])


def _by_permutation(
    fits: _Fits, table: Table, column: int, shuffles: int, rng: np.random.Generator
) -> Array:
    """The mean change of f when the cells of a column change places, under every draw."""
    bank, (count, machines) = fits.bank, fits.coef.shape[:2]
    weights = readers(bank, fits.weights.reshape(count * machines, -1), [column])
    coef = fits.coef.reshape(count * machines, -1).T
    plain = bank.decision(table, weights, coef)
    change = np.zeros(plain.shape)
    for _ in range(shuffles):
        moved = _shuffled(bank, table, column, rng)
        change += np.abs(bank.decision(moved, weights, coef) - plain) / shuffles
    by_row = change.reshape(len(table), count, machines).mean(axis=2).T
    return np.asarray((fits.counts * by_row).sum(axis=1) / fits.counts.sum(axis=1))


def _shuffled(bank: FittedBank, table: Table, column: int, rng: np.random.Generator) -> Table:
    """The table with a column in another order, among the rows that have all views it is in."""
    if table.sparse:
        raise TypeError("columns of a sparse X cannot be permuted: use kernels with derivatives")
    has = np.ones(len(table), dtype=bool)
    for view in {member.view for member in bank.members if column in member.view.columns}:
        rows = view.rows_of(table)
        if rows is not None:
            has &= np.isin(np.arange(len(table)), rows)
    places: Places = np.flatnonzero(has)
    moved = table.take(slice(None))
    order = rng.permutation(places)
    moved.numbers[places, column] = table.numbers[order, column]
    if moved.objects is not None and table.objects is not None:
        moved.objects[places, column] = table.objects[order, column]
    return replace(moved, source=None)


def _spread(table: Table) -> Array:
    """The standard deviation of each column; 0 where it holds no numbers."""
    values: Any = table.numbers
    if table.sparse:
        mean = np.asarray(values.mean(axis=0)).ravel()
        return np.sqrt(np.maximum(np.asarray((values * values).mean(axis=0)).ravel() - mean**2, 0))
    known = ~np.isnan(values)
    counts = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, values, 0.0).sum(axis=0) / counts
    return np.sqrt((np.where(known, values - mean, 0.0) ** 2).sum(axis=0) / counts)


def _views_by_column(bank: FittedBank) -> dict[int, str]:
    """The names of the views that read each column."""
    names: dict[int, dict[str, None]] = {}
    for member in bank.members:
        for column in member.view.columns:
            names.setdefault(column, {})[member.view_name] = None
    return {column: ", ".join(found) for column, found in names.items()}


def _adjusted(p_values: NDArray[np.floating[Any]]) -> Array:
    """p-values adjusted for their number, those that are NaN left out."""
    known = ~np.isnan(p_values)
    found = np.full(p_values.shape, np.nan)
    found[known] = adjust(p_values[known])
    return found
