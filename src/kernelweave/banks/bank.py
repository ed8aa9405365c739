"""A bank of kernels on views of X: the kernels to weight, before any data is seen."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._core.checks import (
    check_choice,
    check_number,
    float_type,
    is_on_dask,
    is_one_of,
    shown,
)
from kernelweave._core.html import html_table
from kernelweave._core.params import Params
from kernelweave._core.settings import SETTINGS
from kernelweave._core.types import Array
from kernelweave._core.warnings import warn
from kernelweave.banks.approximation import Approximation, check_approximation
from kernelweave.banks.evaluation import Exactness
from kernelweave.banks.fitted import FittedBank
from kernelweave.banks.forecast import Forecast, Told, check_memory, forecast
from kernelweave.banks.member import Group, Member, TrainingKernel, reasons, told_dropped
from kernelweave.banks.normalize import ASKED
from kernelweave.banks.plan import Planned, as_list, by_position, has_name, make_plan, several_views
from kernelweave.banks.storage import Recipe, Storage, check_storage, keep, make_storage
from kernelweave.banks.torch_storage import TorchStorage, on_device
from kernelweave.banks.unseen import MISSING, count_filled, tell_missing
from kernelweave.kernels.differentiable import DifferentiableKernel
from kernelweave.kernels.ranges import GaussianRange
from kernelweave.stacks.resources import advised
from kernelweave.views.columns import FILLINGS
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
        Precision of the training stack. Matrices are always computed in float64; "combined" keeps
        its large matrix in float32 anyhow, and goes over to float64 where a small ``tol`` asks for
        it and there is room, unless "float32" is asked for here.
    missing : "mean", "indicator" or "error"
        Rows that lack a view of several: NaN, None or NA in all of its columns. ``"mean"``: they
        stand at the view's mean in feature space, in training and for new rows. Width, scaling,
        normalization and mean are learned on the rows that have the view; a view that some
        training rows lack is centered over these, and its kernel entries for the others are zero,
        which keeps it positive semidefinite. ``"indicator"``: also adds a kernel per such view
        that compares who has it. ``"error"``: NaN is an error. NaN in only some columns of a view
        is one unless ``impute`` is given.
    storage : "auto", "combined", "dense", "factors", "lazy" or an object
        How the training stack keeps kernels. All words are exact, and choose time and memory only.
        "dense": a matrix of n² numbers for each. "factors": a factor F for every numeric kernel,
        K = FFᵀ up to 1e-13 of its trace, which is rounding; n times its rank. "combined": one
        matrix, whatever the number of kernels. Gaussian, Laplacian, linear and polynomial kernels
        on dense numbers are computed anew in every pass, in float32 where the matrix is large, and
        certified in float64; other kernels are matrices. "lazy": factors of linear kernels, and of
        ranks up to 500 and n/4; all others on demand, for n where no matrix fits, and nobody looks
        for equal ones among these. "auto": each kernel as a matrix or a factor, whichever is
        cheaper; "combined" where matrices would be large, unless all kernels have a low rank. An
        object builds the stack itself, on a GPU for example: see ``kernelweave.banks.storage``;
        ``dtype`` and ``cache_size`` are not for it.
    approximation : None, Nystroem(…), Cholesky(…) or RandomFeatures(…)
        None keeps kernels exactly. The others put kernels of few features in their place, n·r
        numbers where a matrix has n², for training and for new rows; ``storage`` is then not
        asked, but for ``TorchStorage``. Scales are learned from the exact diagonals.
    cache_size : float
        Megabytes of rows that "lazy" keeps.
    impute : None, "median" or "mean"
        Single empty cells (NaN, None or NA) of a row that has the view. None: they are refused.
        The others fill in the median or the mean of the column over the training rows that have a
        value, before anything else is learned; new rows get the same values. In columns of
        categories, an empty cell is a level of its own; a row that has no category at all lacks
        that part of the view. Functions see filled cells where all columns of their view hold
        numbers. NaN in a sparse X is always refused.
    device : None, "cpu", "auto", "cuda", "cuda:1" or "mps"
        Where kernels are computed and machines are solved. None follows X: a tensor of PyTorch on a
        GPU stays there, everything else is for the processor. "cpu": the processor. "cuda": that
        GPU, or an error that says what PyTorch sees. "auto": the GPU where there is one and rows
        are many enough for it to be faster. "mps" was never tested. A GPU keeps kernels as
        ``TorchStorage`` does, and needs the extra ``torch``; give it no ``storage`` then.
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
        device: str | None = None,
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
        self.device = device

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

    @advised
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
        recipe = self._recipe(X, n_jobs)
        table, weights, groups = self._fitted_views(X, sample_weight)
        if any(map(attrgetter("rows.view.may_lack"), groups)):
            centered = ASKED[self.normalize][0]
            groups += tell_missing(groups, table, weights, self.missing, centered=centered)
        n, storage = len(table), make_storage(recipe, table.apart)
        members, kernels = _training_kernels(groups, n, verbose)
        if (verbose or 8 * len(kernels) * n * n > SETTINGS.tiny) and not table.apart:
            check_memory(storage, kernels, n, recipe, verbose)
        kept, stack = keep(storage, kernels)
        for one in kernels:
            members[one.number] = one.member
        if stack is None:
            raise ValueError(
                f"No kernel is left on these {n} rows. {reasons(members)} Give columns whose "
                "values differ between rows, or other kernels on them."
            )
        exactness = getattr(storage, "rests", None)
        if recipe.approximation is not None and not table.apart:
            below = recipe.approximation.from_below
            exactness = Exactness.of(kernels, table, below, getattr(stack, "exact", None))
        numbers = np.fromiter(map(attrgetter("number"), kept), dtype=np.intp)
        kind = _elsewhere() if table.apart else FittedBank
        fitted = kind(tuple(members), table, numbers, stack, weights=weights, _exactness=exactness)
        if isinstance(recipe.storage, TorchStorage):
            fitted = replace(fitted, device=recipe.storage.device)
        if len(kept) < len(members):
            warn(told_dropped(fitted.dropped, len(members)))
        return fitted

    def plan(self, X: Any, sample_weight: ArrayLike | None = None) -> Forecast:
        """What a fit on X will take: how each kernel will be kept, bytes, and the peak.

        Kernels are looked at on some hundreds of rows; none is computed.
        """
        table, _, groups = self._fitted_views(X, sample_weight)
        _, kernels = _training_kernels(groups, len(table))
        return forecast(make_storage(self._recipe(X), table.apart), kernels, len(table))

    def read(self, X: Any) -> Table:
        """The rows of X; those of a dask array or data frame stay where they are."""
        if not is_on_dask(X):
            return Table.read(X)
        from kernelweave.banks.dask_storage import DaskStorage

        own = self.storage if isinstance(self.storage, DaskStorage) else DaskStorage()
        return own.read(X)

    def by_position(self, X: Any) -> KernelBank:
        """The same bank with its columns as positions in X, which need no names.

        For wrappers that pass on X without its column names, such as scikit-learn's
        ``OneVsOneClassifier``: ``OneVsOneClassifier(MKLClassifier(bank.by_position(X)))``.
        """
        kernels, views = by_position(self.kernels, self.views, Table.read(X))
        return KernelBank(**{**self.get_params(deep=False), "kernels": kernels, "views": views})

    def on_device(self, device: str) -> KernelBank:
        """The same bank on the ``device`` of an estimator."""
        if self.device not in (None, device):
            raise ValueError(
                f"device={device!r} of the estimator and device={self.device!r} of its bank "
                "differ: set one of them alone."
            )
        return KernelBank(**{**self.get_params(deep=False), "device": device})

    def check(self, X: Any) -> int:
        """Raise the errors of ``fit`` about X, without computing kernels; returns their number.

        Kernels that become several when they are fitted count once.
        """
        table = Table.read(X)
        plan = self._plan(table)
        for planned in plan:
            planned.check(table)
        return sum(len(planned.requests) for planned in plan)

    def filled_cells(self, X: Any) -> dict[str, int]:
        """How many single empty cells ``fit`` would fill in, by column; none of a whole view."""
        table = Table.read(X)
        return count_filled(self._plan(table), table)

    def learnable(self) -> list[str]:
        """The kernels with parameters that estimators learn, as they are written."""
        items = [item[1] if has_name(item) else item for item in as_list(self.kernels)]
        kinds = DifferentiableKernel, GaussianRange
        return [repr(item) for item in items if isinstance(item, kinds)]

    def at_widths(self, chosen: Mapping[tuple[int, ...], Sequence[float]]) -> KernelBank:
        """The same bank with ranges of widths at these alone, given by the columns of a view."""

        def placed(kernel: Any) -> Any:
            return kernel.at(chosen) if isinstance(kernel, GaussianRange) else kernel

        kernels = [
            (item[0], placed(item[1]), *item[2:]) if has_name(item) else placed(item)
            for item in as_list(self.kernels)
        ]
        return KernelBank(**{**self.get_params(deep=False), "kernels": kernels})

    def allows_gaps(self) -> bool:
        """Whether X may hold NaN: cells are filled in, or rows may lack a view of several."""
        if self.impute is not None:
            return True
        return not is_one_of(self.missing, ["error"]) and several_views(self.kernels, self.views)

    def _fitted_views(
        self, X: Any, sample_weight: ArrayLike | None
    ) -> tuple[Table, Array | None, list[Group]]:
        """The rows, how often they count, and kernels fitted to the rows of each view."""
        table = self.read(X) if "dask" in sys.modules else Table.read(X)
        weights = None
        if sample_weight is not None:
            weights = check_row_weights(sample_weight, len(table))
        plan = self._plan(table, weights)
        if not table.apart:
            table = replace(table.take(slice(None)), source=None)  # a copy
        return table, weights, list(map(Planned.fit, plan, repeat(table), repeat(weights)))

    def _recipe(self, X: Any, n_jobs: int | None = None) -> Recipe:
        """How kernels are kept, checked."""
        if self.approximation is not None:
            check_approximation(self.approximation)
        storage = check_storage(self.storage)
        given = getattr(X, "source", X)
        if self.device is not None or hasattr(given, "is_cuda"):
            storage = on_device(self.device, given, storage, self.dtype)
        return Recipe(
            float_type(self.dtype),
            storage,
            self.approximation,
            check_number("cache_size", self.cache_size, zero=True),
            n_jobs,
        )

    def _plan(self, table: Table, weights: Array | None = None) -> list[Planned]:
        check_choice("normalize", self.normalize, ASKED)
        check_choice("missing", self.missing, MISSING)
        check_choice("impute", self.impute, (None, *FILLINGS))
        rules = self.scale, self.normalize, self.missing != "error", self.impute
        return make_plan(self.kernels, self.views, *rules, table, weights)


def _elsewhere() -> type[FittedBank]:
    """The class of banks whose training rows are on a cluster."""
    from kernelweave.banks.elsewhere import BankElsewhere

    return BankElsewhere


def _training_kernels(
    groups: list[Group], n: int, verbose: int = 0
) -> tuple[list[Member], list[TrainingKernel]]:
    """All kernels, under names of their own; and those not dropped, on the training rows."""
    members: list[Member] = []
    kernels: list[TrainingKernel] = []
    tell = Told(sum(len(group.members) for group in groups), verbose).one if verbose else None
    seen: dict[str, int] = {}
    for group in groups:
        for member in group.members:
            count = seen[member.name] = seen.get(member.name, 0) + 1
            if count > 1:
                member = replace(member, name=f"{member.name} ({count})")
            if member.kernel is not None:
                kernels.append(TrainingKernel(member, group, n, len(members), tell))
            members.append(member)
    return members, kernels
