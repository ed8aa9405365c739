"""A bank of kernels on views of X: the kernels to weight, before any data is seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import shown
from kernelweave._core.params import Params
from kernelweave._core.warnings import warn
from kernelweave.banks.build import build
from kernelweave.banks.default import default_kernels
from kernelweave.banks.factoring import check_storage
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.fitting import Request, check_view, fit_view
from kernelweave.banks.member import Group, Member
from kernelweave.banks.missing import check_missing, tell_missing, with_optional_views
from kernelweave.banks.normalize import RULES, check_rule
from kernelweave.kernels.adapters import as_kernel
from kernelweave.kernels.base import Kernel
from kernelweave.stacks.validation import float_type
from kernelweave.views.columns import View, find_columns, make_views
from kernelweave.views.table import Table
from kernelweave.views.weighted import check_row_weights


class KernelBank(Params):
    """Kernels k_m on views of X: every kernel on every view, normalized, in one stack.

    Parameters
    ----------
    kernels : list of items, or one of them; None for the default kernels
        An item is a kernel, which is applied to each of ``views``; ``(name, kernel)`` for a kernel
        on all columns as a view of that name; or ``(name, kernel, columns)`` for a kernel on its
        own columns. A kernel is a kernelweave kernel, a scikit-learn Gaussian-process kernel, the
        name of a ``sklearn.metrics.pairwise`` kernel, or a function f(A, B) that returns a
        (len(A), len(B)) array. Kernels are ordered by view, then as in this list.
    views : "all", "each", "all+each" or {name: columns}
        All columns as one view, each column as its own view, both, or named views. Columns: names
        (of a data frame), positions, a slice, a mask, or a list of names or positions. Strings are
        names and integers are positions, even if a data frame has integer column names.
    normalize : "trace", "unit_trace", "sphere", "center+trace", "center+unit_trace" or None
        See ``kernelweave.banks.normalize``. Learned on the training rows.
    scale : "auto", "standard" or None
        ``"standard"``: numeric kernels see each column at mean 0 and variance 1, learned on the
        training rows; functions, kernels on structures and ``Precomputed`` see it unchanged.
        ``"auto"``: ``"standard"`` for the default kernels, None for kernels you name. Columns of
        a sparse X are never centered or standardized, which would fill in its zeros: ``"auto"``
        leaves them as they are, ``"standard"`` is refused.
    dtype : "float64" or "float32"
        Precision of the training stack. Distances and products are always computed in float64.
    missing : "mean", "indicator" or "error"
        Rows that lack a view of several: NaN, None or NA in all of its columns. ``"mean"``: they
        stand at the view's mean in feature space, in training and for new rows. Width, scaling,
        normalization and mean are learned on the rows that have the view; a view that some
        training rows lack is centered over these, and its kernel entries for the others are zero,
        which keeps it positive semidefinite. ``"indicator"``: also adds a kernel per such view
        that compares who has it. ``"error"``: NaN is an error. NaN in only some columns of a view
        always is.
    storage : "auto", "dense" or "factors"
        How the training stack keeps a kernel: as a matrix (n², "dense"), or as a factor F with
        K = FFᵀ up to 1e-13 of its trace, which is rounding (n times its numerical rank). "auto":
        each kernel in its cheaper form; kernels on few columns have a low rank. "factors": a factor
        of every numeric kernel, whatever its rank.
    """

    def __init__(
        self,
        kernels: Any = None,
        views: Any = "all",
        normalize: str | None = "trace",
        scale: str | None = "auto",
        dtype: Any = "float64",
        missing: str = "mean",
        storage: str = "auto",
    ) -> None:
        self.kernels = kernels
        self.views = views
        self.normalize = normalize
        self.scale = scale
        self.dtype = dtype
        self.missing = missing
        self.storage = storage

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; ``deep`` adds named kernels and their parameters, ``name__beta``."""
        params = super().get_params(deep)
        for name, kernel in self._searchable(self.kernels).items() if deep else ():
            params[name] = kernel
            if hasattr(kernel, "get_params") and not isinstance(kernel, type):
                params.update({f"{name}__{key}": v for key, v in kernel.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; those of a named kernel as ``name__beta``."""
        named = self._searchable(params.get("kernels", self.kernels))
        inner = {key: params.pop(key) for key in [*params] if key.partition("__")[0] in named}
        super().set_params(**params)
        for key in sorted(inner):  # so that a kernel is set before its parameters
            name, _, rest = key.partition("__")
            if not rest:
                named[name] = inner[key]
            elif hasattr(named[name], "set_params"):
                named[name].set_params(**{rest: inner[key]})
            else:
                raise ValueError(
                    f"Invalid parameter {key!r}: {shown(named[name])} has no parameters."
                )
        if inner:
            items = _as_list(self.kernels)
            self.kernels = [
                (item[0], named.get(item[0], item[1]), *item[2:]) if _has_name(item) else item
                for item in items
            ]
        return self

    def _searchable(self, kernels: Any) -> dict[str, Any]:
        """Kernels with a unique name that is not a parameter of the bank."""
        items = [item for item in _as_list(kernels) if _has_name(item)]
        names = [item[0] for item in items] + self._param_names()
        usable = [name for name in names if names.count(name) == 1 and "__" not in f"{name}_"]
        return {name: kernel for name, kernel, *_ in items if name in usable}

    def fit(
        self, X: Any, n_jobs: int | None = None, sample_weight: ArrayLike | None = None
    ) -> FittedBank:
        """Learn widths, scalings and normalizations on the rows of X, and compute all kernels.

        Row i counts ``sample_weight[i]`` times (a positive number) in all that is learned here;
        matrices have one row for it all the same.

        Large banks are computed by ``n_jobs`` threads: −1 for one per core, None for one. Results
        do not depend on it. Functions and scikit-learn kernels are never called by two threads at
        once.

        Warns once if kernels are dropped: those on views that are constant on these rows, those
        of trace zero, and those equal to an earlier kernel up to scale.
        """
        rule, dtype = check_rule(self.normalize), float_type(self.dtype)
        check_missing(self.missing)
        table = Table.read(X).take(slice(None))
        standardize = self._standardize(table)
        weights = check_row_weights(sample_weight, len(table))
        plan = with_optional_views([*self._plan(table)], self.missing)
        groups = [fit_view(view, requests, table, weights, standardize) for view, requests in plan]
        groups += tell_missing(groups, table, weights, self.missing, centered=RULES[rule][0])
        members, kept, stack = build(
            _with_unique_names(groups), len(table), rule, dtype, n_jobs, check_storage(self.storage)
        )
        fitted = FittedBank(members, table, kept, stack, weights=weights)
        if fitted.dropped:
            warn(_told(fitted.dropped, fitted.m_all))
        return fitted

    def check(self, X: Any) -> int:
        """Raise the errors of ``fit`` about X, without computing kernels; returns their number.

        Kernels that become several when they are fitted count once.
        """
        table = Table.read(X)
        plan = with_optional_views([*self._plan(table)], self.missing)
        for view, requests in plan:
            check_view(view, requests, table)
        return sum(len(requests) for _, requests in plan)

    def allows_gaps(self) -> bool:
        """Whether there are several views, of which rows may lack some."""
        items = _as_list(self.kernels)
        named = [item for item in items if isinstance(item, tuple)]
        crossed = 0 if len(named) == len(items) else _count_views(self.views)
        return self.missing != "error" and crossed + sum(len(item) == 3 for item in named) > 1

    def _plan(self, table: Table) -> Iterator[tuple[View, list[Request]]]:
        """Each distinct set of columns, with all kernels that read it."""
        items = _as_list(default_kernels() if self.kernels is None else self.kernels)
        if not items:
            raise ValueError("kernels: the bank is empty; give at least one kernel.")
        crossed = [_checked(item) for item in items if not isinstance(item, tuple)]
        labels = [kernel.label() for kernel in crossed]
        plan: dict[tuple[int, ...], tuple[View, list[Request]]] = {}
        for view in make_views(self.views, table) if crossed else []:
            plan.setdefault(view.columns, (view, []))[1].extend(
                (f"{label} on {view.name}", view.name, kernel)
                for label, kernel in zip(labels, crossed, strict=True)
            )
        for item in (item for item in items if isinstance(item, tuple)):
            name, kernel, columns = _named(item)
            own = len(item) == 3
            found = find_columns(columns, table, f"kernel {name!r}")
            view = View(table.label(found[0]) if own and len(found) == 1 else name, found)
            plan.setdefault(found, (view, []))[1].append((name, view.name, kernel))
        return iter(plan.values())

    def _standardize(self, table: Table) -> bool:
        if self.scale not in ("auto", "standard", None):
            raise ValueError(
                f"scale must be 'auto', 'standard' or None; found {shown(self.scale)}."
            )
        if table.sparse and self.scale == "standard":
            raise ValueError(
                "scale='standard' would fill in the zeros of a sparse X: use scale='auto' or None, "
                "which leave its columns as they are. To give columns one size, put "
                "sklearn.preprocessing.MaxAbsScaler before the bank; or pass X.toarray()."
            )
        named = self.scale == "auto" and self.kernels is not None
        return not (table.sparse or self.scale is None or named)


def _as_list(kernels: Any) -> list[Any]:
    """A list of items. A tuple that begins with a name is one; ("rbf", "chi2") is two kernels."""
    if not isinstance(kernels, list | tuple):
        return [kernels]
    item = _has_name(kernels) and not (len(kernels) == 2 and isinstance(kernels[1], str))
    return [kernels] if item else list(kernels)


def _has_name(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) in (2, 3) and isinstance(item[0], str)


def _count_views(views: Any) -> float:
    """How many views there are to lack; NaN in one column is a gap in "all"."""
    return len(views) if isinstance(views, Mapping) else np.inf if views == "each" else 1


def _checked(item: Any) -> Kernel:
    kernel = as_kernel(item)
    kernel.validate()
    return kernel


def _named(item: tuple[Any, ...]) -> tuple[str, Kernel, Any]:
    if not _has_name(item):
        raise ValueError(
            "kernels: a named kernel is (name, kernel), or (name, kernel, columns) on its own "
            f"columns, the name a string; found {shown(item)}."
        )
    return item[0], _checked(item[1]), item[2] if len(item) == 3 else slice(None)


def _with_unique_names(groups: list[Group]) -> list[Group]:
    seen: dict[str, int] = {}

    def unique(member: Member) -> Member:
        count = seen[member.name] = seen.get(member.name, 0) + 1
        return member if count == 1 else member.renamed(f"{member.name} ({count})")

    return [replace(group, members=[*map(unique, group.members)]) for group in groups]


def _told(dropped: dict[str, str], total: int, most: int = 5) -> str:
    shown = "; ".join(f"{name}: {reason}" for name, reason in list(dropped.items())[:most])
    rest = f"; and {len(dropped) - most} more" if len(dropped) > most else ""
    return f"{len(dropped)} of {total} kernels are left out, with weight 0. {shown}{rest}."
