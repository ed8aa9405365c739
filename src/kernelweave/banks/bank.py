"""A bank of kernels on views of X: the kernels to weight, before any data is seen."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Self

from numpy.typing import ArrayLike

from kernelweave._core.checks import check_number, is_one_of, shown
from kernelweave._core.html import html_table
from kernelweave._core.params import Params
from kernelweave._core.status import tell
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn
from kernelweave.banks.approximation import Approximation, check_approximation
from kernelweave.banks.build import build
from kernelweave.banks.factoring import Recipe
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.fitting import check_view, fit_view
from kernelweave.banks.forecast import Forecast, Told, forecast, worst
from kernelweave.banks.member import EQUALS, Group, Member
from kernelweave.banks.missing import check_impute, check_missing, count_filled, tell_missing
from kernelweave.banks.normalize import ASKED, check_rule
from kernelweave.banks.plan import Planned, as_list, by_position, has_name, make_plan, several_views
from kernelweave.banks.storage import Storage, check_storage
from kernelweave.stacks.memory import available_bytes
from kernelweave.stacks.validation import float_type
from kernelweave.views.table import Table
from kernelweave.views.weighted import check_row_weights

_REASONS = 5  # kernels left out that a warning names


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
        (of a data frame), wildcards such as "gene__*", positions, a slice of either (of names, the
        last one included), a mask, a list of these, a dtype such as ``float`` or
        ``pandas.CategoricalDtype``, or a function of X such as scikit-learn's
        ``make_column_selector``. Where names have levels (MultiIndex), the first of them will do.
        Strings are names and integers are positions, even if a data frame has integer column
        names. A view that holds numbers and categories is split: ``Hamming`` reads categories
        (strings, and the dtype "category"), numeric kernels the numbers.
    normalize : "auto", "trace", "unit_trace", "sphere", the same after "center+", or None
        See ``kernelweave.banks.normalize``. Learned on the training rows. ``"auto"``: as
        ``"trace"``; but where four fifths of a view are zeros, in ten columns or more, the default
        kernels compare directions, as ``"sphere"``: the few long rows would decide otherwise.
    scale : "auto", "standard", "common" or None
        How numeric kernels see the columns; scaling is learned on the training rows. Functions,
        kernels on structures and ``Precomputed`` always see them unchanged.
        ``"standard"``: each column at mean 0 and variance 1. ``"common"``: all columns divided by
        one number, so that their variances are 1 on average. None: unchanged.
        ``"auto"``: as ``"standard"``; but where columns may share a unit, because no range is more
        than four times the median range, the default bank has every kernel at both scales, and
        learning decides. Columns of a sparse X are never centered or standardized, which would
        fill in its zeros: ``"auto"`` leaves them as they are, the others are refused.
    dtype : "float64" or "float32"
        Precision of the training stack. Distances and products are always computed in float64.
    missing : "mean", "indicator" or "error"
        Rows that lack a view of several: NaN, None or NA in all of its columns. ``"mean"``: they
        stand at the view's mean in feature space, in training and for new rows. Width, scaling,
        normalization and mean are learned on the rows that have the view; a view that some
        training rows lack is centered over these, and its kernel entries for the others are zero,
        which keeps it positive semidefinite. ``"indicator"``: also adds a kernel per such view
        that compares who has it. ``"error"``: NaN is an error. NaN in only some columns of a view
        is one unless ``impute`` is given.
    storage : "auto", "dense", "factors", "lazy" or an object
        How the training stack keeps a kernel: as a matrix (n², "dense"), or as a factor F with
        K = FFᵀ up to 1e-13 of its trace, which is rounding (n times its numerical rank). "auto":
        each kernel in its cheaper form; kernels on few columns have a low rank. "factors": a factor
        of every numeric kernel, whatever its rank. "lazy": factors of linear kernels, and of ranks
        up to 500 and n/4; all others on demand, for n where no matrix fits, and nobody looks for
        equal ones among these. An object builds the stack itself, on a GPU for example: see
        ``kernelweave.banks.storage``; ``dtype`` and ``cache_size`` are not for it.
    approximation : None, Nystroem(…), Cholesky(…) or RandomFeatures(…)
        None keeps kernels exactly. The others put kernels of few features in their place, n·r
        numbers where a matrix has n², for training and for new rows; ``storage`` is then not
        asked. Scales are learned from the exact diagonals.
    cache_size : float
        Megabytes of rows that "lazy" keeps.
    impute : None, "median" or "mean"
        Single empty cells (NaN, None or NA) of a row that has the view. None: they are refused.
        The others fill in the median or the mean of the column over the training rows that have a
        value, before anything else is learned; new rows get the same values. In columns of
        categories, an empty cell is a level of its own; a row that has no category at all lacks
        that part of the view. Functions see filled cells where all columns of their view hold
        numbers. NaN in a sparse X is always refused.
    """

    def __init__(
        self,
        kernels: Any = None,
        views: Any = "all",
        normalize: str | None = "auto",
        scale: str | None = "auto",
        dtype: Any = "float64",
        missing: str = "mean",
        storage: str | Storage = "auto",
        approximation: Approximation | None = None,
        cache_size: float = 200.0,
        impute: str | None = None,
    ) -> None:
        self.kernels = kernels
        self.views = views
        self.normalize = normalize
        self.scale = scale
        self.dtype = dtype
        self.missing = missing
        self.storage = storage
        self.approximation = approximation
        self.cache_size = cache_size
        self.impute = impute

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
            items = as_list(self.kernels)
            self.kernels = [
                (item[0], named.get(item[0], item[1]), *item[2:]) if has_name(item) else item
                for item in items
            ]
        return self

    def __sklearn_clone__(self) -> KernelBank:
        """As scikit-learn's ``clone`` does it, but a storage stays the object that it is."""
        return copy.deepcopy(self, {id(self.storage): self.storage})

    def _saved_state(self) -> dict[str, Any]:
        """What model files keep: a word in the place of a storage."""
        word = self.storage if isinstance(self.storage, str) else "auto"
        return {**self.__dict__, "storage": word}

    def _searchable(self, kernels: Any) -> dict[str, Any]:
        """Kernels with a unique name that is not a parameter of the bank."""
        items = [item for item in as_list(kernels) if has_name(item)]
        names = [item[0] for item in items] + self._param_names()
        usable = [name for name in names if names.count(name) == 1 and "__" not in f"{name}_"]
        return {name: kernel for name, kernel, *_ in items if name in usable}

    def _repr_html_(self) -> str:
        rows = [(name, shown(value, 200)) for name, value in self.get_params(deep=False).items()]
        return html_table("KernelBank", ("parameter", "value"), rows)

    def fit(
        self,
        X: Any,
        n_jobs: int | None = None,
        sample_weight: ArrayLike | None = None,
        verbose: int = 0,
    ) -> FittedBank:
        """Learn widths, scalings and normalizations on the rows of X, and compute all kernels.

        Row i counts ``sample_weight[i]`` times (a positive number) in all that is learned here;
        matrices have one row for it all the same.

        Large banks are computed by ``n_jobs`` threads: −1 for one per core, None for one. Results
        do not depend on it. Functions and scikit-learn kernels are never called by two threads at
        once.

        Raises ``MemoryError`` before anything large is computed if the kernels and a fit on them
        would not fit into memory; ``plan`` tells beforehand. With ``verbose`` it says on standard
        error how far it is.

        Warns once if kernels are dropped: those on views that are constant on these rows, those
        of trace zero, and those equal to an earlier kernel up to scale.
        """
        recipe = self._recipe()
        table, weights, groups = self._fitted_views(X, sample_weight)
        groups += tell_missing(
            groups, table, weights, self.missing, centered=ASKED[self.normalize][0]
        )
        available = available_bytes()
        if verbose or (available is not None and worst(groups, len(table), recipe) > available):
            told = forecast(groups, len(table), recipe)
            told.require(recipe)
            if verbose:
                tell(str(told))
        counted = Told(sum(len(group.members) for group in groups), verbose).one
        built = build(_with_unique_names(groups), table, recipe, n_jobs, counted)
        members, kept, stack, exactness = built
        fitted = FittedBank(members, table, kept, stack, weights=weights, _exactness=exactness)
        if fitted.dropped:
            warn(_told(fitted.dropped, fitted.m_all))
        return fitted

    def plan(self, X: Any, sample_weight: ArrayLike | None = None) -> Forecast:
        """What a fit on X will take: how each kernel will be kept, bytes, and the peak.

        Kernels are looked at on some hundreds of rows; none is computed.
        """
        table, _, groups = self._fitted_views(X, sample_weight)
        return forecast(groups, len(table), self._recipe())

    def by_position(self, X: Any) -> KernelBank:
        """The same bank with its columns as positions in X, which need no names.

        For wrappers that pass on X without its column names, such as scikit-learn's
        ``OneVsOneClassifier``: ``OneVsOneClassifier(MKLClassifier(bank.by_position(X)))``.
        """
        kernels, views = by_position(self.kernels, self.views, Table.read(X))
        return KernelBank(**{**self.get_params(deep=False), "kernels": kernels, "views": views})

    def check(self, X: Any) -> int:
        """Raise the errors of ``fit`` about X, without computing kernels; returns their number.

        Kernels that become several when they are fitted count once.
        """
        table = Table.read(X)
        plan = self._plan(table)
        for planned in plan:
            check_view(planned, table)
        return sum(len(planned.requests) for planned in plan)

    def filled_cells(self, X: Any) -> dict[str, int]:
        """How many single empty cells ``fit`` would fill in, by column; none of a whole view."""
        table = Table.read(X)
        return count_filled(self._plan(table), table)

    def allows_gaps(self) -> bool:
        """Whether X may hold NaN: cells are filled in, or rows may lack a view of several."""
        if self.impute is not None:
            return True
        return not is_one_of(self.missing, ["error"]) and several_views(self.kernels, self.views)

    def _fitted_views(
        self, X: Any, sample_weight: ArrayLike | None
    ) -> tuple[Table, Array | None, list[Group]]:
        """The rows, how often they count, and kernels fitted to the rows of each view."""
        table = Table.read(X)
        weights = check_row_weights(sample_weight, len(table))
        plan = self._plan(table, weights)
        table = replace(table.take(slice(None)), source=None)  # a copy
        return table, weights, [fit_view(planned, table, weights) for planned in plan]

    def _recipe(self) -> Recipe:
        """How kernels are kept, checked."""
        return Recipe(
            float_type(self.dtype),
            check_storage(self.storage),
            check_approximation(self.approximation),
            check_number("cache_size", self.cache_size, zero=True),
        )

    def _plan(self, table: Table, weights: Array | None = None) -> list[Planned]:
        gaps = check_missing(self.missing)
        rule = check_rule(self.normalize)
        asked = self.kernels, self.views, self.scale, rule, gaps, check_impute(self.impute)
        return make_plan(*asked, table, weights)


def _with_unique_names(groups: list[Group]) -> list[Group]:
    seen: dict[str, int] = {}

    def unique(member: Member) -> Member:
        count = seen[member.name] = seen.get(member.name, 0) + 1
        return member if count == 1 else member.renamed(f"{member.name} ({count})")

    return [replace(group, members=[*map(unique, group.members)]) for group in groups]


def _told(dropped: dict[str, str], total: int) -> str:
    reasons = [f"{name}: {reason}" for name, reason in dropped.items()]
    if len(reasons) > _REASONS:
        reasons[_REASONS:] = [f"and {len(reasons) - _REASONS} more"]
    told = f"{len(dropped)} of {total} kernels are left out, with weight 0. {'; '.join(reasons)}."
    if not any(reason.startswith(EQUALS) for reason in dropped.values()):
        return told
    return (
        f"{told} With weight_norm other than 1, or equal weights, this changes the problem; the "
        "certificate is for the kernels kept."
    )
