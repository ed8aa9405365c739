"""What a cross-validated estimator chooses from: banks of kernels, weight norms and values of C."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelweave._core.checks import check_floats, is_number, is_whole, shown
from kernelweave._core.types import Array
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.default import WIDTHS, default_kernels, default_rule
from kernelweave.estimators._banks import as_bank
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.numeric import Gaussian, Laplacian, Linear
from kernelweave.problems.losses import check_C
from kernelweave.problems.weight_sets import check_norm
from kernelweave.stacks.memory import GIB, available_bytes
from kernelweave.views.columns import View
from kernelweave.views.table import Table

EQUAL = "equal"
_RANGE = 1e-2, 1e3  # between which C is tried if only the number of values is given
_SHARE, _MOST = 0.25, 2.0 * GIB  # of the available memory that the kernels of one fold may take


@dataclass(frozen=True)
class Way:
    """How kernels are weighted: a weight norm, or equal weights."""

    norm: float | str

    def options(self, learner: Any) -> dict[str, Any]:
        """The options of an estimator, or of ``learn``, that weight kernels this way."""
        if self.norm == EQUAL:
            return {"learner": "uniform", "weight_norm": 1}
        return {"learner": learner, "weight_norm": self.norm}


@dataclass(frozen=True)
class Choice:
    """A bank by its name, and the ways to weight its kernels."""

    name: str
    bank: KernelBank
    ways: list[Way]


def read_ways(weight_norms: Any) -> list[Way]:
    """The ways to weight kernels that ``weight_norms`` lists."""
    single = isinstance(weight_norms, str) or not isinstance(weight_norms, Iterable)
    given = [weight_norms] if single else list(weight_norms)
    if not given:
        raise ValueError("weight_norms is empty; give numbers ≥ 1, or 'equal' for equal weights.")
    for norm in given:
        if isinstance(norm, str) and norm == EQUAL:
            continue
        if not is_number(norm):
            raise ValueError(
                f"weight_norms must hold numbers ≥ 1 or 'equal', found {shown(norm)}; 'equal' "
                "stands for equal weights."
            )
        check_norm(norm, False)
    if len(set(given)) < len(given):
        raise ValueError(f"weight_norms names a norm twice: {shown(given)}.")
    return [Way(norm) for norm in given]


def read_Cs(Cs: Any) -> Array:
    """The values of C: as listed, or so many between 0.01 and 1000."""
    if is_whole(Cs):
        if Cs < 1:
            raise ValueError(f"Cs must be at least 1 value, found {Cs}; give a number or a list.")
        return np.geomspace(*_RANGE, int(Cs)) if Cs > 1 else np.ones(1)
    if isinstance(Cs, str):
        raise TypeError(f"Cs must be a number of values or a list of them, found {Cs!r}.")
    values = np.atleast_1d(check_floats("Cs", Cs))
    if values.ndim != 1 or not values.size:
        raise ValueError(
            f"Cs must be a number of values or a list of them, found shape {values.shape}."
        )
    for value in values:
        try:
            check_C(value, 0)
        except (TypeError, ValueError) as error:
            raise type(error)(f"Cs: {error}") from None
    if not np.isfinite(values).all():
        raise ValueError("Cs must be finite; the hard margin is MKLClassifier(C=inf).")
    if np.unique(values).size < values.size:
        raise ValueError(f"Cs names a value twice: {shown(values.tolist())}.")
    return values


# ---- banks -------------------------------------------------------------------------------------


def read_choices(
    banks: Any,
    views: Any,
    impute: str | None,
    ways: list[Way],
    lone: Sequence[Kernel],
    table: Table,
) -> tuple[list[Choice], dict[str, str]]:
    """Every bank with every way, and why other banks were skipped.

    ``banks=None``: those that suit the columns of X and whose kernels fit into memory, and before
    them each of the ``lone`` kernels by itself, which needs one way only; all of them fill in
    empty cells by ``impute``.
    """
    if banks is None:
        several, skipped = _automatic(views, impute, table)
        single = _alone(lone, impute, table) if "all" in several and table.numeric.all() else {}
    else:
        several, single, skipped = _given(banks, views, impute), {}, {}
    for bank in several.values():
        bank.check(table)  # a fold may lack the very row that shows what is wrong
    choices = [Choice(name, bank, ways[:1]) for name, bank in single.items()]
    return choices + [Choice(name, bank, ways) for name, bank in several.items()], skipped


def _given(banks: Any, views: Any, impute: str | None) -> dict[str, KernelBank]:
    """Banks by name, as the user gives them."""
    for name, value in (("views", views), ("impute", impute)):
        if value is not None:
            raise ValueError(
                f"{name} goes with banks=None only; give it to the banks themselves, "
                f"KernelBank(kernels, {name}=…)."
            )
    if not isinstance(banks, Mapping):
        return {"bank": as_bank(banks)}
    if not banks:
        raise ValueError("banks is empty; give {name: KernelBank(…)}, or None to choose from all.")
    return {str(name): as_bank(bank) for name, bank in banks.items()}


def _automatic(
    views: Any, impute: str | None, table: Table
) -> tuple[dict[str, KernelBank], dict[str, str]]:
    skipped: dict[str, str] = {}
    plain = bool(table.numeric.all()) and not table.sparse
    kernels, scale = (_on_all(), "standard") if plain else (None, "auto")
    found = {"all": KernelBank(kernels, normalize=_rule(table), scale=scale, impute=impute)}
    if not plain:
        skipped["each"] = "X is sparse" if table.sparse else "some columns do not hold numbers"
    elif table.n_columns == 1:
        skipped["each"] = "X has one column"
    else:
        found["each"] = KernelBank(_on_each(table), scale="standard", impute=impute)
    if views is not None:
        if not isinstance(views, Mapping):
            raise TypeError(f"views must be {{name: columns}}, found {shown(views)}.")
        _leave_out_unsuited(found, skipped, table)
        found["views"] = KernelBank(views=views, impute=impute)
    for name in [name for name in found if name != "all"]:
        if why := _too_large(found[name], table):
            del found[name]
            skipped[name] = why
    return found, skipped


def _leave_out_unsuited(
    found: dict[str, KernelBank], skipped: dict[str, str], table: Table
) -> None:
    """Skip banks that cannot read X, such as one whose rows lack a view: named views still can."""
    for name in [*found]:
        try:
            found[name].check(table)
        except (TypeError, ValueError) as error:
            del found[name]
            skipped[name] = f"it cannot read X: {str(error).partition('. ')[0]}"


def _alone(kernels: Sequence[Kernel], impute: str | None, table: Table) -> dict[str, KernelBank]:
    """Single kernels, for data that need no more: of equal scores the first is taken."""
    scale, rule = "auto" if table.sparse else "standard", _rule(table)
    return {k.label(): KernelBank([k], normalize=rule, scale=scale, impute=impute) for k in kernels}


def _rule(table: Table) -> str:
    """How all kernels on all columns are normalized: as the default ones would be."""
    return default_rule(View("all", tuple(range(table.n_columns))), table, None)


def _on_all() -> list[Any]:
    """The default kernels, and Laplacians of the same widths, which tell near rows apart better."""
    return [*default_kernels(), *(Laplacian(width, relative=True) for width in WIDTHS)]


def _on_each(table: Table) -> list[Any]:
    """The same on all columns, and three on each: a line, a smooth curve and a rough one."""
    each = Linear(), Gaussian(0.5, relative=True), Laplacian(1.0, relative=True)
    return _on_all() + [
        (f"{kernel.label()} on {table.label(column)}", kernel, [column])
        for column in range(table.n_columns)
        for kernel in each
    ]


def _too_large(bank: KernelBank, table: Table) -> str | None:
    count = bank.check(table)
    needed = 8.0 * count * len(table) ** 2
    available = available_bytes()
    limit = _MOST if available is None else min(_MOST, _SHARE * available)
    if needed <= limit:
        return None
    return (
        f"its {count} kernels on {len(table)} rows take {needed / GIB:.3g} GiB, more than the "
        f"{limit / GIB:.3g} GiB set aside; name it in banks to have it tried"
    )
