"""Looks at arguments that many functions have: numbers, vectors of them, words and indices."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kernelweave._core.tolerances import ASYMMETRY
from kernelweave._core.types import Index, Places


def is_number(x: object) -> TypeGuard[float]:
    """Whether x is one real number; true and false are none."""
    return isinstance(x, Real) and not isinstance(x, bool)


def is_on_dask(x: object) -> bool:
    """Whether x is an array or a data frame of Dask, whose rows lie elsewhere; loads nothing."""
    return type(x).__module__.partition(".")[0] == "dask" and hasattr(x, "to_delayed")


def on_host(x: Any) -> Any:
    """A tensor as an array; all else as it is."""
    return x.detach().cpu().numpy() if hasattr(x, "is_cuda") else x


def is_whole(x: object) -> TypeGuard[int]:
    """Whether x is an integer by type; true and false are none."""
    return isinstance(x, Integral) and not isinstance(x, bool)


def check_number(name: str, x: Any, kind: type = float, *, zero: bool = False) -> Any:
    """``x`` as a finite number of that kind, int or float: positive, or with ``zero`` zero too."""
    what = "an integer" if kind is int else "a finite number"
    told = f"{name} must be {what} ≥ 0" if zero else f"{name} must be positive"
    numbers: Any = Integral if kind is int else Real
    if not isinstance(x, numbers) or isinstance(x, bool):
        told = told if zero else f"{name} must be a positive {kind.__name__}"
        raise TypeError(f"{told}, found {shown(x)}")
    if not (0 < x < np.inf or (zero and x == 0)):
        raise ValueError(f"{told}, found {x!r}")
    return kind(x)


def check_truth(name: str, x: Any) -> None:
    """Raise TypeError unless ``x`` is True or False."""
    if not isinstance(x, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, found {shown(x)}")


def check_verbose(verbose: Any) -> None:
    """Raise an error unless it is a whole number ≥ 0 or a truth value."""
    if not isinstance(verbose, bool | np.bool_):
        check_number("verbose", verbose, int, zero=True)


def check_level(level: Any) -> float:
    """A level between 0 and 1, such as 0.95."""
    if not (is_number(level) and 0.0 < level < 1.0):
        raise ValueError(f"level must be between 0 and 1, found {shown(level)}")
    return float(level)


def check_floats(
    name: str, x: ArrayLike, advice: str = "fill its gaps first, with its .filled(value)"
) -> NDArray[np.float64]:
    """``x`` as an array of floats; nothing masked, sparse or complex, and no strings."""
    refuse_masked(name, x, advice)
    refuse_sparse(name, x)
    try:
        array = np.asarray(x)
        found = _foreign(array)
        if not found:
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        found = type(x).__name__
    raise TypeError(f"{name} must hold real numbers, found {found}")


def _foreign(array: NDArray[Any]) -> str:
    """What there is beside real numbers: complex ones, dates, strings (NumPy reads some)."""
    kind = array.dtype.kind
    if kind == "c":
        return "complex ones"
    words = kind == "O" and any(isinstance(value, str | bytes) for value in array.flat)
    if words or kind in "SUT":
        return "strings"
    return "" if kind in "biufO" else f"dtype {array.dtype}"


def check_finite(name: str, x: Any) -> float:
    """``x`` as one finite number."""
    if np.asarray(x).dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a finite number, found {shown(x)}")
    if np.ndim(x) != 0 or not np.isfinite(x):
        raise ValueError(f"{name} must be a finite number, found {shown(x)}")
    return float(x)


def check_vector(name: str, x: ArrayLike, size: int, *, finite: bool = True) -> NDArray[np.float64]:
    """``x`` as ``size`` finite floats, in a fresh C-contiguous array."""
    vector = np.array(check_floats(name, x), order="C")
    if vector.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), found {vector.shape}")
    if finite and not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite, found NaN or infinity")
    return vector


def check_nonnegative(name: str, x: ArrayLike, size: int) -> NDArray[np.float64]:
    """``x`` as ``size`` finite floats, none of them negative."""
    vector = check_vector(name, x, size)
    if vector.min() < 0.0:
        raise ValueError(f"{name} must be nonnegative, found {vector.min():g}")
    return vector


def check_positive(name: str, x: ArrayLike, size: int) -> NDArray[np.float64]:
    """``x`` as ``size`` finite floats, all of them positive."""
    vector = check_vector(name, x, size)
    if not vector.min() > 0.0:
        raise ValueError(f"{name} must hold positive numbers, found {vector.min():g}")
    return vector


def refuse_masked(
    name: str, x: object, advice: str = "fill its gaps first, with its .filled(value)"
) -> None:
    """Raise ``TypeError`` for a masked array: NumPy would read on behind the mask."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; {advice}")


def refuse_sparse(name: str, x: object) -> None:
    """Raise ``TypeError`` for a sparse matrix: NumPy takes it for a single object."""
    if is_sparse(x):
        raise TypeError(f"{name} is sparse, but must be dense: pass its .toarray()")


def is_sparse(x: object) -> bool:
    """Whether x is a sparse matrix or array of SciPy."""
    return hasattr(x, "toarray") and hasattr(x, "nnz")


def some(items: Iterable[object], most: int = 5) -> str:
    """The first items in an error message: a, b and 3 more."""
    words = [str(item) for item in items]
    rest = len(words) - most
    return ", ".join(words[:most]) + (f" and {rest} more" if rest > 0 else "")


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """For an error message: the known names most like ``name``, or all of them if none is."""
    names = [str(one) for one in known]
    near = difflib.get_close_matches(str(name), names)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"known: {some(map(repr, names), 40)}."


def is_one_of(value: Any, names: Iterable[str | None]) -> bool:
    """Whether ``value`` is one of these names; arrays, which compare by entry, are none."""
    return isinstance(value, str | None) and value in names


def check_choice(name: str, value: Any, known: Iterable[str | None]) -> None:
    """Raise ValueError unless the argument ``name`` is one of the ``known`` words."""
    words = [*known]
    if not isinstance(value, str | None) or value not in words:
        raise ValueError(f"{name} must be one of {words}; found {shown(value)}.")


def shown(value: Any, most: int = 60) -> str:
    """``value`` in an error message: short, and never all numbers of an array."""
    if getattr(value, "shape", ()) and not isinstance(value, type):
        return f"{type(value).__name__} of shape {value.shape}"
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def float_type(dtype: DTypeLike | None) -> np.dtype:
    """float64 (the default) or float32."""
    try:
        kind = np.dtype(np.float64 if dtype is None else dtype)
    except TypeError:
        raise ValueError(f"dtype must be float64 or float32, found {shown(dtype)}") from None
    if kind not in ASYMMETRY:
        raise ValueError(f"dtype must be float64 or float32, found {kind}")
    return kind


def as_places(index: Index | None, size: int, name: str, empty: bool = True) -> Places:
    """What ``index`` picks from 0, …, size − 1, as NumPy would: numbers, a mask or a slice."""
    if index is None or isinstance(index, slice):
        places = np.arange(*(slice(None) if index is None else index).indices(size))
    else:
        index = np.asarray(index)
        index = index if index.size else index.astype(np.intp)
        if index.ndim != 1:
            raise IndexError(f"{name} must be one-dimensional, found shape {index.shape}")
        try:
            places = np.arange(size)[index]
        except IndexError as error:
            raise IndexError(f"{name}: {error}") from None
    if not (empty or len(places)):
        raise ValueError(f"{name} picks nothing")
    return places


def indices(chosen: ArrayLike, size: int, what: str) -> NDArray[np.intp]:
    """Positions from integers or from a mask of length ``size``."""
    array = np.atleast_1d(np.asarray(chosen))
    if array.dtype == bool:
        if array.shape != (size,):
            raise ValueError(f"{what}: a mask must have {size} entries; found {array.shape}.")
        return np.flatnonzero(array)
    if array.size == 0:
        return np.empty(0, dtype=np.intp)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ValueError(f"{what} must be integers or a mask; found {shown(chosen)}.")
    if array.min() < 0 or array.max() >= size:
        raise ValueError(
            f"{what} must lie between 0 and {size - 1}; found {array.min()} to {array.max()}."
        )
    return array.astype(np.intp)
