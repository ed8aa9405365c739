"""Losses: what y may be, and how each is lowered to the dual QP.

    hinge                 C Σ ξ_i                    c = y,      v_i between 0 and C·y_i
    squared_hinge         (C/2) Σ ξ_i²               c = y,      v_i between 0 and ∞·y_i,  ρ = 1/C
    epsilon_insensitive   C Σ (|h_i| − ε)₊           c = y ∓ ε,  0 ≤ v⁺ ≤ C,  −C ≤ v⁻ ≤ 0
    squared               (C/2) Σ h_i²               c = y,      no bounds,  ρ = 1/C
    huber                 C Σ h_i²/2 or δ|h_i| − δ²/2   c = y,   −Cδ ≤ v ≤ Cδ,  ρ = 1/C
    quantile              C Σ max(qh_i, (q − 1)h_i)  c = y,      −C(1 − q) ≤ v ≤ Cq
    interval              C Σ (l_i − f_i − b − ε)₊ + C Σ (f_i + b − u_i − ε)₊
                                                     c = l − ε, u + ε,  bounds as ε-insensitive;
                                                     v = 0 where an end l = −∞ or u = ∞ is open
    one_class             C Σ (−f_i − b)₊ + b        c = 0,      0 ≤ v ≤ C,  Σv = 1

with ξ_i = (1 − y_i(f_i + b))₊ and h = y − f − b. C may be one number or one per row; C = ∞ is the
hard margin under the first two. A label of 0 says that the row takes no part.

A loss is an object, and may be one of the user's own: a subclass of ``Loss``. ``LOSSES`` are those
that have a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import check_choice, check_floats, refuse_masked, some
from kernelweave._core.params import Params
from kernelweave._core.types import Array, Mask
from kernelweave.problems.dual_qp import DualQP

_REGRESSION = "loss='squared', 'epsilon_insensitive' or 'quantile'"
_LARGEST_C = 1e100  # and the least is 1 over it


class Loss(Params):
    """What slacks cost: a subclass lowers it to the dual QP, and says what y holds.

    Parameters of a loss are those of its constructor. The primal follows from the QP (see
    ``DualQP``): derive on paper that it is the loss that was meant.

    Attributes
    ----------
    target : str
        What y holds: "labels", "values" (numbers), "intervals", "nothing", or a word of your own.
        Estimators and learners that need one kind of target refuse others.
    blank : float or tuple
        The target of a row that takes no part.
    hard : bool
        Whether C = ∞ has a meaning.
    of_errors : bool
        Whether it charges y − f − b alone, so that targets far from 0 may be measured from their
        middle.
    learns_C : bool
        Whether 1/C is nothing but a ridge, so that ``learn(C="learn")`` can learn it.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> class Absolute(kw.Loss):
    ...     def lower(self, y, C, ridge=0.0):  # C Σ |y_i − f_i − b|
    ...         cost = np.broadcast_to(C, y.shape)
    ...         return kw.DualQP(y, -cost, cost, y.size, ridge=ridge)
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> kw.learn([X @ X.T], X[:, 0], loss=Absolute()).status
    'optimal'
    """

    target: ClassVar[str] = "values"
    blank: ClassVar[Any] = 0.0
    hard: ClassVar[bool] = False
    of_errors: ClassVar[bool] = False
    learns_C: ClassVar[bool] = False

    def check(self) -> None:
        """Complain about parameters that make no sense."""

    def read(self, y: Any) -> tuple[Array, Mask]:
        """Targets from y as it was given, and which rows have one.

        The first axis is the rows, a second one the machines. What a row has more than one number
        of goes into a structured array.
        """
        values = check_values(y)
        return values, np.ones(len(values), dtype=bool)

    def check_left(self, targets: Array) -> None:
        """Complain about what rows with a positive weight have as targets."""

    def lower(self, y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
        """The dual QP for the targets of one machine; C is one number or one per row.

        ``ridge`` is what the diagonal of the kernel gets: it adds to the ridge of the QP.
        """
        raise NotImplementedError(f"{type(self).__name__} has no lower")


def hinge(y: Array, C: float | Array, ridge: float | Array = 0.0) -> DualQP:
    """½‖f‖² + C Σ (1 − y_i(f_i + b))₊ ; with a ridge, the hinge rounded off at its corner."""
    return DualQP(
        linear=y,
        lower=np.where(y < 0.0, -np.asarray(C), 0.0),
        upper=np.where(y > 0.0, C, 0.0),
        n=y.size,
        ridge=ridge,
        sign=y,
    )


def squared_hinge(y: Array, C: float | Array, ridge: float = 0.0) -> DualQP:
    """½‖f‖² + (C/2) Σ (1 − y_i(f_i + b))₊²."""
    return hinge(y, np.inf, ridge + 1.0 / C)


class Hinge(Loss):
    """½‖f‖² + C Σ (1 − y_i(f_i + b))₊."""

    target = "labels"
    hard = True
    lower = staticmethod(hinge)

    def read(self, y: Any) -> tuple[Array, Mask]:
        """Labels −1 and +1; 0 where a row has none."""
        labels = check_labels(y, partly=True, columns=True)
        any_of: Any = labels != 0.0
        return labels, any_of if labels.ndim == 1 else any_of.any(axis=1)

    def check_left(self, targets: Array) -> None:
        """Complain where rows of weight zero were all that a class had."""
        try:
            check_classes(targets)
        except ValueError as problem:
            told = f"among the rows with a positive sample_weight, {problem}"
            raise ValueError(told) from None


class SquaredHinge(Hinge):
    """½‖f‖² + (C/2) Σ (1 − y_i(f_i + b))₊²."""

    learns_C = True
    lower = staticmethod(squared_hinge)  # type: ignore[assignment]


_BY_TARGET = {
    "labels": {
        "hinge": "problems.losses.Hinge",
        "squared_hinge": "problems.losses.SquaredHinge",
    },
    "values": {
        "epsilon_insensitive": "problems.value_losses.EpsilonInsensitive",
        "squared": "problems.value_losses.Squared",
        "huber": "problems.huber.Huber",
        "quantile": "problems.value_losses.Quantile",
    },
    "intervals": {"interval": "problems.interval.Interval"},
    "nothing": {"one_class": "problems.one_class.OneClass"},
}
LOSSES = {word: path for words in _BY_TARGET.values() for word, path in words.items()}
CLASSES = {path.rpartition(".")[2]: path for path in LOSSES.values()}  # by their own names
READ_BY = {  # arguments beside the word
    "epsilon": ("epsilon_insensitive", "interval"),
    "quantile": ("quantile",),
}


def as_loss(loss: Any, **given: Any) -> Loss:
    """The loss of that name, which takes what it reads of the parameters given, or the object."""
    if isinstance(loss, Loss):
        found = loss
    else:
        if isinstance(loss, type) and issubclass(loss, Loss):
            raise TypeError(f"loss must be an object, found the class: pass {loss.__name__}()")
        check_choice("loss", loss, LOSSES)
        read = {}
        for name, value in given.items():
            if loss in READ_BY[name]:
                read[name] = value
            else:  # wrong even where another loss is asked for
                load(LOSSES[READ_BY[name][0]])(value).check()
        found = load(LOSSES[loss])(**read)
    found.check()
    return found


@lru_cache
def load(path: str) -> Any:
    """The class or function of that path in the package."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"kernelweave.{module}"), name)


def check_loss(loss: Any, target: str, also: Iterable[str] = ()) -> None:
    """Complain about what is no loss for targets of this kind, and none of the words ``also``."""
    if not (isinstance(loss, Loss) and loss.target == target):
        check_choice("loss", loss, [*_BY_TARGET[target], *also])


def far_origin(y: Array) -> float:
    """The middle of targets that are far from 0, all within a factor of 2; else 0.

    As Σv = 0 it changes the bias alone. It is taken off without rounding: y/2 ≤ origin ≤ 2y for all
    of them (Sterbenz). What is left has the digits in which they differ.
    """
    low, high = float(y.min()), float(y.max())
    near, far = sorted((abs(low), abs(high)))
    return 0.5 * low + 0.5 * high if np.sign(low) == np.sign(high) and far <= 2.0 * near else 0.0


def make_qp(y: ArrayLike, n: int, C: ArrayLike, loss: str) -> DualQP:
    """The dual QP of labels and one of the hinges for ``n`` kernel rows, every argument checked."""
    found = as_loss(loss)
    if found.target != "labels":
        hinges = [*_BY_TARGET["labels"]]
        raise ValueError(f"loss must be one of {hinges} here, found {loss!r}")
    return found.lower(check_labels(y, n), check_C(C, n))


def check_costs(costs: Array, what: str = "C") -> Array:
    """``costs``, if one can compute with numbers of their size."""
    wrong = np.isfinite(costs) & ((costs < 1.0 / _LARGEST_C) | (costs > _LARGEST_C))
    if wrong.any():
        raise ValueError(
            f"{what} must lie between 1e-100 and 1e100, or be infinite, found "
            f"{float(costs.flat[np.argmax(wrong)]):g}"
        )
    return costs


def check_C(C: ArrayLike, n: int, loss: str | Loss = "hinge") -> float | Array:
    """C as a positive number or as ``n`` of them; ∞ where the loss has a hard margin."""
    if type(C) is float and 1.0 / _LARGEST_C <= C <= _LARGEST_C:
        return C
    refuse_masked("C", C)
    if C is None or isinstance(C, str | bool):
        raise TypeError(f"C must be a positive number, an array of them or 'learn', found {C!r}")
    try:
        bound = np.asarray(C, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"C must be a positive number or an array of them, found {C!r}") from None
    if bound.ndim > 0 and bound.shape != (n,):
        raise ValueError(f"C must be one number or {n} of them, found shape {bound.shape}")
    if not (bound > 0.0).all():
        raise ValueError(f"C must be positive, found {float(bound.min()):g}")
    check_costs(bound)
    if bound.ndim and np.isinf(bound).any() and np.isfinite(bound).any():
        raise ValueError("C must be finite for all rows or infinite for all, found both")
    if np.isinf(bound).any() and not as_loss(loss).hard:
        raise ValueError(f"C must be finite with loss={loss!r}, found inf: there is no hard margin")
    return bound if bound.ndim else float(bound)


def check_labels(
    y: ArrayLike, n: int | None = None, partly: bool = False, columns: bool = False
) -> Array:
    """Labels as an array of ±1.0, both present; one for each of ``n`` kernel rows, if n is given.

    ``partly``: 0 is allowed, too, and means that a row has no label. ``columns``: y may have shape
    (n, k), one machine per column, with both labels in each.
    """
    also = ", or give them 0" if partly else ""
    refuse_masked("y", y, f"leave rows without a label out{also}")
    labels = np.asarray(y)
    if labels.dtype.kind not in "iufb":
        raise ValueError(f"y must hold the numbers -1 and +1, found dtype {labels.dtype}")
    _check_shape(labels, n, columns)
    labels = labels.astype(float)
    if not np.isfinite(labels).all():
        raise ValueError("y must be finite, found NaN or infinity")
    found = np.unique(labels)
    if not {*found.tolist()} <= ({-1.0, 0.0, 1.0} if partly else {-1.0, 1.0}):
        also = "; 0 means no label" if partly else ""
        told = some(f"{value:g}" for value in found)
        if found.size > 3 or (found != np.round(found)).any():
            also += f"; targets that are numbers need {_REGRESSION}"
        raise ValueError(f"y must hold the labels -1 and +1 only, found {told}{also}")
    if (
        labels.ndim > 1 or found.size < 2 or found[0] * found[-1] >= 0.0
    ):  # else both labels are there
        check_classes(labels)
    return labels


def check_values(y: ArrayLike) -> Array:
    """Targets of a regression as floats, all finite, shape (n,) or (n, k)."""
    values = np.array(check_floats("y", y), order="C")
    _check_shape(values, None, columns=True)
    if not values.size:
        raise ValueError("y holds no number")
    if not np.isfinite(values).all():
        raise ValueError("y must be finite, found NaN or infinity")
    return values


def _check_shape(y: np.ndarray[Any, Any], n: int | None, columns: bool) -> None:
    if y.ndim != 1 and not (columns and y.ndim == 2 and y.shape[1] > 0):
        several = ", or have a column per machine" if columns else ""
        raise ValueError(f"y must be one-dimensional{several}, found shape {y.shape}")
    if n is not None and len(y) != n:
        raise ValueError(f"y has {len(y)} labels, but the kernels have {n} rows")


def check_classes(labels: Array) -> None:
    """Complain about a machine without both labels."""
    for place, column in enumerate(labels[None] if labels.ndim == 1 else labels.T):
        where = "y" if labels.ndim == 1 else f"column {place} of y"
        found = np.unique(column)
        classes = found[found != 0.0]
        if classes.size < 2:
            which = "no class" if not classes.size else f"one class only ({classes[0]:+g})"
            also = " beside 0, which means no label" if found.size > classes.size else ""
            advice = ": for labels 0 and 1 pass 2 * y - 1" if found.tolist() == [0.0, 1.0] else ""
            raise ValueError(f"{where} holds {which}{also}; both -1 and +1 are needed{advice}")
