"""Why a row gets its value: what each view and column contribute, and which rows are near.

    f(x) = baseline + Σ_v part_v(x),    baseline = b + Σ_v f_v(mean)

What the parts are is told in ``kernelweave.inspection._parts``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kernelweave._core.checks import check_number
from kernelweave._core.types import Array
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.member import Side
from kernelweave.banks.unseen import seen_weight
from kernelweave.estimators._base import MKLEstimator, read_new
from kernelweave.estimators.transductive import TransductiveMKLClassifier
from kernelweave.inspection._fits import found_instead
from kernelweave.inspection._frames import frame
from kernelweave.inspection._parts import Cells, Parts, cells_of
from kernelweave.views.rows import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, repr=False, eq=False)
class Explanation:
    """What the values of some rows are made of.

    Attributes
    ----------
    machines : tuple of str
        What each value speaks for: a class, a pair of classes, a target.
    views, columns : tuple of str
        Names of the views, and of all columns of X.
    values : array (n, k)
        Decision values, or predicted numbers: ``baseline`` plus the sum of ``parts``.
    baseline : array (k,)
        The value of a row that lacks everything.
    parts : array (n, k, n_views)
        What each view adds; 0 for a view that the row lacks.
    cells : list
        The parts of columns inside views: ``view``, ``column``, ``parts`` (n, k), and ``how``.
    seen : array (n,)
        The share of the kernel weights on views that the row has.
    nearest, similarity : arrays (n, n_nearest)
        Numbers of the nearest training rows under the learned kernel, and its values there.
    """

    machines: tuple[str, ...]
    views: tuple[str, ...]
    columns: tuple[str, ...]
    values: Array
    baseline: Array
    parts: Array
    cells: list[Cells]
    seen: Array
    nearest: NDArray[np.intp]
    similarity: Array

    def by_view(self) -> DataFrame:
        """One line per row, machine and view: row, machine, view, part; the baseline comes first.

        The parts of a row and machine sum to its value.
        """
        n, k = self.values.shape
        names = ("baseline", *self.views)
        base = np.broadcast_to(self.baseline[None, :, None], (n, k, 1))
        return frame(
            {
                "row": np.repeat(np.arange(n), k * len(names)),
                "machine": np.tile(np.repeat(np.array(self.machines, object), len(names)), n),
                "view": np.tile(np.array(names, dtype=object), n * k),
                "part": np.concatenate([base, self.parts], axis=2).ravel(),
            }
        )

    def by_column(self) -> DataFrame:
        """One line per row, machine, view and column: row, machine, view, column, part, how.

        Where all columns of a view are "integrated", their parts and "(all means)", what the row
        of all means adds, sum to the view's part. "local" parts do not add up.
        """
        n, k = self.values.shape
        lines = [(c.view, self.named(c), c.parts, c.how) for c in self.inside()]
        part = np.array([parts for _, _, parts, _ in lines]).reshape(len(lines), n, k)
        count = len(lines)
        return frame(
            {
                "row": np.repeat(np.arange(n), k * count),
                "machine": np.tile(np.repeat(np.array(self.machines, dtype=object), count), n),
                "view": np.tile(np.array([one[0] for one in lines], dtype=object), n * k),
                "column": np.tile(np.array([one[1] for one in lines], dtype=object), n * k),
                "part": part.transpose(1, 2, 0).ravel(),
                "how": np.tile(np.array([one[3] for one in lines], dtype=object), n * k),
            }
        )

    def named(self, cell: Cells) -> str:
        """The name of the column."""
        return "(all means)" if cell.column < 0 else self.columns[cell.column]

    def inside(self) -> list[Cells]:
        """Cells, and before those of each smooth view, what the row of all means adds."""
        found = list[Cells]()
        for place, view in enumerate(self.views):
            own = [cell for cell in self.cells if cell.view == view]
            if own and all(cell.how == "integrated" for cell in own):
                rest = self.parts[:, :, place] - sum(cell.parts for cell in own)
                found.append(Cells(view, -1, rest, "integrated"))
            found += own
        return found

    def plot(self, row: int = 0, machine: int = 0, ax: Axes | None = None, top: int = 20) -> Axes:
        """Views as bars around 0 and, inside each, its columns: the ``top`` largest of all."""
        from kernelweave.inspection.explanation_plot import plot_row

        return plot_row(self, row, machine, ax, top)

    def in_words(self, row: int = 0, top: int = 5, first: int = 0) -> str:
        """What a row's value is made of, a line for each thing, the largest first.

        ``top`` columns of each view; training rows are numbered from ``first``.
        """
        lines, inside = [], self.inside()
        for machine, name in enumerate(self.machines):
            value = f"{self.values[row, machine]:.3f}"
            lines.append(f"{name}: {value}, of which {self.baseline[machine]:.3f} is the baseline")
            parts = self.parts[row, machine]
            for place in np.argsort(-np.abs(parts), kind="stable"):
                view = self.views[place]
                lines.append(f"  {parts[place]:+.3f}  {view}")
                own = [cell for cell in inside if cell.view == view]
                own.sort(key=lambda cell: -abs(cell.parts[row, machine]))
                for cell in own[:top]:
                    local = " (local)" if cell.how == "local" else ""
                    part = f"{cell.parts[row, machine]:+.3f}"
                    lines.append(f"      {part}  {self.named(cell)}{local}")
        lines.append(f"its views have {100 * self.seen[row]:.0f} % of the weight")
        near = ", ".join(map(str, self.nearest[row] + first))
        return "\n".join([*lines, f"nearest training rows: {near}"])

    def __repr__(self) -> str:
        shown = [f"row {row}\n{self.in_words(row)}" for row in range(min(len(self.values), 3))]
        return "\n".join(shown + ["…"] * (len(self.values) > 3))


def explain(model: Any, X: Any, *, columns: bool = True, n_nearest: int = 5) -> Explanation:
    """Why rows get their values: parts of views and columns, and the nearest training rows.

    Parameters
    ----------
    model : fitted estimator
        ``MKLClassifier``, ``MKLRegressor``, ``MKLOneClass`` and what chooses one of them.
    X
        The rows to explain, as ``predict`` takes them.
    columns : bool
        Whether to look inside views, which takes a few hundred times as long as a prediction.
    n_nearest : int
        Training rows to name; numbered as in ``fit``, rows of weight 0 left out. Models from files
        and pickles know their support rows alone, and name those.

    Returns
    -------
    Explanation
        ``by_view()``, ``by_column()``, ``plot(row)``, ``in_words(row)``.

    Notes
    -----
    Parts are exact sums of the model, no samples: with the baseline they are the decision value. A
    view's part says how far its values move this row from a row without the view. It says what the
    model does, and nothing about causes. For ``multi_class="ovo"`` there is one value per pair.

    Where X holds kernel matrices, the baseline is the bias, and there are no columns.
    """
    model = getattr(model, "best_estimator_", model)
    if not isinstance(model, MKLEstimator) or isinstance(model, TransductiveMKLClassifier):
        raise TypeError(
            "model must be a fitted estimator of kernelweave that predicts new rows, such as "
            f"MKLClassifier, found {found_instead(model)}"
        )
    check_is_fitted(model)
    count = check_number("n_nearest", n_nearest, int)
    bank, table = read_new(model, X, model.bank_)
    k = len(model.dual_coef_)
    weights = np.tile(model.weights_, (k, 1)) if model.weights_.ndim == 1 else model.weights_
    whole = getattr(model, "_training_bank", model.bank_)
    train = None if model._given_matrices else whole.table
    parts = Parts(bank, weights, model.dual_coef_.T, table, train)
    found = np.zeros((len(table), k, len(parts.views)))
    baseline = np.array(model.intercept_, dtype=float)
    for place, view in enumerate(parts.views):
        own = parts.of_view(view)
        if not own.any():
            continue
        base, has = parts.at_mean(own), parts.having(view)
        baseline += base
        found[has, :, place] = (parts.values(table, own) - base)[has]
    cells = [cell for view in parts.views for cell in cells_of(parts, view)] if columns else []
    near = _nearest(model, X, whole, weights.mean(axis=0), count)
    return Explanation(
        machines=_machines(model, k),
        views=parts.views,
        columns=tuple(table.label(column) for column in range(table.n_columns)),
        values=parts.values(table, weights) + model.intercept_,
        baseline=baseline,
        parts=found,
        cells=cells,
        seen=seen_weight(table, bank.members, model.weights_),
        nearest=near[0],
        similarity=near[1],
    )


def _machines(model: MKLEstimator, k: int) -> tuple[str, ...]:
    """What the value of each machine speaks for, where it is large."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return ("value",) if k == 1 else tuple(f"target {machine}" for machine in range(k))
    names = [str(label) for label in classes]
    if len(names) == 2:
        return (names[1],)
    if k == len(names) and getattr(model, "multi_class", "ovr") == "ovr":
        return tuple(names)
    return tuple(f"{b} against {a}" for a, b in combinations(names, 2))


def _nearest(
    model: MKLEstimator, X: Any, whole: FittedBank, weights: Array, count: int
) -> tuple[NDArray[np.intp], Array]:
    """The rows x_i of the smallest K(x_i, x_i) − 2K(x, x_i), their numbers and K(x, x_i)."""
    bank, table = read_new(model, X, whole)
    K = bank.cross(table, weights)
    own = np.zeros(K.shape[1]) if model._given_matrices else _diagonal(whole, weights)
    order = np.argsort(own - 2.0 * K, axis=1, kind="stable")[:, :count]
    numbers = np.arange(K.shape[1]) if hasattr(model, "_training_bank") else model.support_
    return np.asarray(numbers)[order], np.take_along_axis(K, order, axis=1)


def _diagonal(bank: FittedBank, weights: Array) -> Array:
    """K(x_i, x_i) of the rows that kernels are evaluated against; 0 in views they lack."""
    found, table = np.zeros(bank.n_rows), bank.table.take(bank.places)
    for number in np.flatnonzero(weights):
        member = bank.members[number]
        having, rows = Rows.having(table, member.view)
        here = np.arange(bank.n_rows) if having is None else having
        numbers: Any = here
        if member.centered:  # numbered among all rows that have the view
            all_of_them = member.view.rows_of(bank.table)
            places = bank.places[here]
            numbers = places if all_of_them is None else np.searchsorted(all_of_them, places)
        found[here] += weights[number] * member.diagonal(Side(rows, bank.n_rows, train=numbers))
    return found
