"""What a cross-validated estimator chooses from, the rows it is tried on, and how the choice falls.

A candidate is a bank of kernels, a weight norm and a value of C. What is done with candidates and
folds is told in ``_search.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import check_scoring, get_scorer_names

from kernelweave._core.checks import check_floats, did_you_mean, is_number, is_whole, shown
from kernelweave._core.types import Array, Places
from kernelweave._core.warnings import warn
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.plan import WIDTHS, default_kernels, default_rule
from kernelweave.estimators._base import as_bank
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.numeric import Gaussian, Laplacian, Linear
from kernelweave.problems.losses import check_C
from kernelweave.problems.weight_sets import check_norm
from kernelweave.stacks.resources import GIB, available_bytes
from kernelweave.views.columns import View
from kernelweave.views.table import Table

EQUAL = "equal"
SELECTIONS = ("best", "one_se")
_RANGE = 1e-2, 1e3  # between which C is tried if only the number of values is given
_SHARE, _MOST = 0.25, 2.0 * GIB  # of the available memory that the kernels of one fold may take
_FOLDS = 5
_NEEDS = {  # by whether targets are numbers
    True: "R² needs two rows in each fold, with different targets: use fewer folds (cv)",
    False: "Some scores need rows of every class in each fold: use stratified folds (an integer "
    "cv)",
}


@dataclass(frozen=True)
class Choice:
    """A bank by its name, and the norms to weight its kernels with; ``EQUAL`` is one."""

    name: str
    bank: KernelBank
    norms: list[float | str]


def read_norms(weight_norms: Any) -> list[float | str]:
    """The norms that ``weight_norms`` lists."""
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
    return given


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
    norms: list[float | str],
    lone: Sequence[Kernel],
    table: Table,
) -> tuple[list[Choice], dict[str, str]]:
    """Every bank with every norm, and why other banks were skipped.

    ``banks=None``: those that suit the columns of X and whose kernels fit into memory, and before
    them each of the ``lone`` kernels by itself, which needs one norm only; all of them fill in
    empty cells by ``impute``.
    """
    if banks is None and table.apart:
        raise ValueError(
            "banks=None compares kernels of full rank, which rows on a cluster cannot have: give "
            "banks=KernelBank(…, approximation=Nystroem(500))"
        )
    if banks is None:
        several, skipped = _automatic(views, impute, table)
        single = _alone(lone, impute, table) if "all" in several and table.numeric.all() else {}
    else:
        several, single, skipped = _given(banks, views, impute), {}, {}
    for bank in several.values():
        bank.check(table)  # a fold may lack the very row that shows what is wrong
    choices = [Choice(name, bank, norms[:1]) for name, bank in single.items()]
    return choices + [Choice(name, bank, norms) for name, bank in several.items()], skipped


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
    if views is not None:
        if not isinstance(views, Mapping):
            raise TypeError(f"views must be {{name: columns}}, found {shown(views)}.")
        found["views"] = KernelBank(views=views, impute=impute)
    if not plain:
        skipped["each"] = "X is sparse" if table.sparse else "some columns do not hold numbers"
    elif table.n_columns == 1:
        skipped["each"] = "X has one column"
    else:
        found["each"] = KernelBank(_on_each(table), scale="standard", impute=impute)
    if views is not None:
        _leave_out_unsuited(found, skipped, table)
    for name in [name for name in found if name != "all"]:
        if why := _too_large(found[name], table):
            del found[name]
            skipped[name] = why
    return found, skipped


def _leave_out_unsuited(
    found: dict[str, KernelBank], skipped: dict[str, str], table: Table
) -> None:
    """Skip banks that cannot read X, such as one whose rows lack a view: named views still can."""
    for name in [name for name in found if name != "views"]:
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


# ---- folds -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fold:
    """Numbers of the rows to learn on and of those held out."""

    number: int
    train: Places
    test: Places


def number_of_folds(cv: int | None, smallest: int, what: str, each: int = 1) -> int:
    """``cv``, or five where there are as many rows to share out; raises ValueError if too many.

    ``each``: how many of them a fold needs to be scored.
    """
    if smallest < 2:
        raise ValueError(
            f"Cross-validation needs at least 2 {what}, found {smallest} sample; add rows, or use "
            "an estimator without CV in its name."
        )
    if cv is None:
        return min(_FOLDS, max(smallest // each, 2))
    if not 2 <= cv <= smallest:
        raise ValueError(
            f"cv must be between 2 and {smallest}, the least number of {what}; found {cv}."
        )
    return int(cv)


def as_folds(splits: Any, n: int, used: Places) -> list[Fold]:
    """Folds of the ``used`` rows, numbered among these, from pairs of numbers among n, or masks."""
    folds = []
    for number, (train, test) in enumerate(splits):
        learned, held_out = (
            np.searchsorted(used, rows[np.isin(rows, used)])
            for rows in (_numbers(train, n), _numbers(test, n))
        )
        if not learned.size or not held_out.size:
            raise ValueError(f"cv: split {number} has no rows to learn on, or none to test.")
        if np.intersect1d(learned, held_out).size:
            raise ValueError(
                f"cv: split {number} tests rows that it also learns on; its scores would say "
                "nothing of new rows."
            )
        folds.append(Fold(number, learned, held_out))
    if not folds:
        raise ValueError("cv holds no split; give at least one pair (train, test).")
    return folds


def _numbers(rows: Any, n: int) -> Places:
    rows = np.asarray(rows)
    if rows.dtype == bool:
        rows = np.flatnonzero(rows)
    if rows.size == 0:
        return np.empty(0, dtype=np.intp)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n:
        raise ValueError(f"cv must hold row numbers between 0 and {n - 1}, found {shown(rows)}.")
    return rows.astype(np.intp)


# ---- the choice --------------------------------------------------------------------------------


def read_scorer(scoring: Any, single: Any, advice: str) -> Any:
    """The scorer for such estimators; ``advice`` ends the error if they lack what it needs."""
    if isinstance(scoring, str) and scoring not in (known := get_scorer_names()):
        raise ValueError(
            f"scoring must be the name of a score, found {scoring!r}; "
            f"{did_you_mean(scoring, known)}"
        )
    if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
        raise TypeError(
            "scoring must be one score: a name such as 'accuracy', a scorer (model, X, y) -> "
            f"number, or None; found {shown(scoring)}. The candidate with the best score is "
            "chosen; compute other scores of the fitted model."
        )
    scorer = check_scoring(single, scoring=scoring)
    needed = getattr(scorer, "_response_method", "predict")
    methods = [needed] if isinstance(needed, str) else list(needed)
    if not any(hasattr(single, method) for method in methods):
        raise ValueError(
            f"scoring={shown(scoring)} needs {' or '.join(methods)}, which "
            f"{type(single).__name__} does not have; {advice}"
        )
    return scorer


def as_score(value: Any) -> float:
    """What a scorer returned, as a float; raises TypeError unless it is one number."""
    if np.ndim(value) or np.asarray(value).dtype.kind not in "biuf":
        raise TypeError(f"scoring must return one number for a model, but gave {shown(value)}.")
    return float(value)


def check_scores(scores: Array, values: bool) -> None:
    """Warn if some scores (n_candidates, n_folds) are not finite; raise ValueError if none will do.

    A candidate needs a score on every fold. ``values``: of numbers, not of classes.
    """
    bad = ~np.isfinite(scores)
    if not bad.any():
        return
    candidate, fold = (int(place) for place in np.argwhere(bad)[0])
    told = (
        f"{np.count_nonzero(bad)} of {bad.size} scores are not finite, the first "
        f"{scores[candidate, fold]} for candidate {candidate} on fold {fold}. {_NEEDS[values]}, or "
        "use other scoring."
    )
    if bad.any(axis=1).all():
        raise ValueError(f"No candidate can be chosen: {told}")
    warn(f"{told} Candidates without a score on every fold are not chosen.")


def results(params: list[dict[str, Any]], scores: Array) -> dict[str, Any]:
    """``cv_results_`` from scores (n_candidates, n_folds)."""
    found: dict[str, Any] = {}
    for name in params[0]:
        values = np.ma.MaskedArray(np.empty(len(params), dtype=object), mask=False)
        values[:] = [candidate[name] for candidate in params]
        found[f"param_{name}"] = values
    found["params"] = params
    for k in range(scores.shape[1]):
        found[f"split{k}_test_score"] = scores[:, k]
    found["mean_test_score"] = scores.mean(axis=1)
    found["std_test_score"] = scores.std(axis=1)
    worst = np.nan_to_num(found["mean_test_score"], nan=-np.inf)
    found["rank_test_score"] = rankdata(-worst, method="min").astype(np.int32)
    return found


def choose(selection: str, params: list[dict[str, Any]], scores: Array) -> int:
    """The number of the candidate chosen, from scores (n_candidates, n_folds).

    "best": the highest mean score. "one_se": the smallest C among all candidates whose mean is
    within one standard error of the highest, since these cannot be told apart. Ties go to the
    higher mean, then to the first.
    """
    means = np.nan_to_num(scores.mean(axis=1), nan=-np.inf)
    best = int(np.argmax(means))
    if selection == "best" or scores.shape[1] < 2 or not np.isfinite(means[best]):
        return best
    error = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    near = np.flatnonzero(means >= means[best] - error)
    return int(min(near, key=lambda k: (params[k]["C"], -means[k], k)))


def equal_if_as_good(chosen: int, params: list[dict[str, Any]], scores: Array) -> int:
    """Equal weights of the same bank, at their best C, where they are as good as those ``chosen``.

    That is where the mean difference over the folds is at most its standard error. Folds hold the
    same rows out for both, so that what is easy in one of them counts for neither.
    """
    bank, means = params[chosen]["bank"], np.nan_to_num(scores.mean(axis=1), nan=-np.inf)
    equal = [k for k, p in enumerate(params) if p["bank"] == bank and p["weight_norm"] == EQUAL]
    if not equal or chosen in equal or scores.shape[1] < 2:
        return chosen
    best = max(equal, key=lambda k: means[k])
    less = scores[chosen] - scores[best]
    return best if less.mean() <= less.std(ddof=1) / np.sqrt(less.size) else chosen
