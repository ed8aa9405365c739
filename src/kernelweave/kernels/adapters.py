"""Kernels from other libraries: scikit-learn's, by name or as objects, and any function.

None of them is known to be positive semidefinite, so the bank checks their training matrices.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import did_you_mean, refuse_masked, shown
from kernelweave._core.types import Array
from kernelweave.kernels.base import Kernel
from kernelweave.views.rows import Pair, Rows

_DIAGONAL_BLOCK = 32
_MATRIX = (
    " For a kernel matrix use Precomputed(K), with X the row numbers "
    "np.arange(len(K)).reshape(-1, 1), or kernelweave.learn on matrices alone."
)


class Foreign(Kernel):
    """A kernel whose matrix another library or function computes."""

    known_psd = False
    of_two_rows = False
    advice = (
        "It is not a kernel on these rows. To set the negative eigenvalues of its matrix to zero, "
        "use Precomputed(K, indefinite='clip')."
    )

    @abstractmethod
    def evaluate(self, a: NDArray[Any], b: NDArray[Any]) -> Any:
        """The matrix of k(x, z) for x in ``a``, z in ``b``; ``a is b`` on training rows."""

    def fill(self, pair: Pair, out: Array) -> None:
        """The other library's matrix."""
        out[...] = self.matrix(pair)

    def matrix(self, pair: Pair) -> NDArray[Any]:
        """The other library's matrix, with its shape and type checked."""
        return self._matrix(self._input(pair.a), self._input(pair.b))

    def diagonal(self, rows: Rows) -> Array:
        """k(x, x), read off small blocks of the matrix."""
        data = self._input(rows)
        starts = range(0, data.shape[0], _DIAGONAL_BLOCK)
        blocks = [data[start : start + _DIAGONAL_BLOCK] for start in starts]
        found = [self._matrix(block, block).diagonal() for block in blocks]
        return np.concatenate(found).astype(np.float64)

    def _input(self, rows: Rows) -> NDArray[Any]:
        return rows.values if self.numeric else rows.raw

    def _matrix(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        answer, shape = self.evaluate(a, b), (a.shape[0], b.shape[0])
        refuse_masked(f"what {self.label()} returned", answer)
        matrix = np.asarray(answer)
        if matrix.ndim == 0:
            raise ValueError(
                f"{self.label()} returned {type(answer).__name__}; a kernel of {shape[0]} rows "
                f"against {shape[1]} is an array of shape {shape}. It is called once with all "
                "rows, not with one pair at a time."
            )
        if matrix.shape != shape:
            raise ValueError(
                f"{self.label()} returned an array of shape {matrix.shape}; "
                f"a kernel of {shape[0]} rows against {shape[1]} has shape {shape}. It is called "
                "once with all rows, not with one pair at a time."
            )
        if matrix.dtype.kind not in "biufO":
            raise ValueError(f"{self.label()} returned {matrix.dtype} values; a kernel is real.")
        return matrix


class PairwiseKernel(Foreign):
    """A ``sklearn.metrics.pairwise`` kernel by name, with scikit-learn's default parameters."""

    reads = "numbers"

    def __init__(self, metric: str) -> None:
        self.metric = metric

    @property
    def takes_sparse(self) -> bool:
        """Whether scikit-learn's function does: all but the χ² kernels."""
        return "chi2" not in self.metric

    @property
    def numeric(self) -> bool:
        """False of kernels on counts: they need values ≥ 0, which scaling would move."""
        return "chi2" not in self.metric

    def label(self) -> str:
        """Its name."""
        return self.metric

    def validate(self) -> None:
        """Raise ValueError if scikit-learn has no such kernel."""
        self._function()

    def evaluate(self, a: NDArray[Any], b: NDArray[Any]) -> Any:
        """Call the function of that name."""
        return self._function()(a, b)

    def _function(self) -> Callable[..., Any]:
        from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS as known

        if self.metric in known:
            return known[self.metric]
        hint = did_you_mean(self.metric, known)
        if self.metric == "precomputed":
            hint = "give the matrix: Precomputed(K)."
        raise ValueError(f"kernels: scikit-learn has no kernel named {self.metric!r}; {hint}")


class GaussianProcessKernel(Foreign):
    """A kernel object of ``sklearn.gaussian_process.kernels``, with its parameters unchanged."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    @property
    def numeric(self) -> bool:
        """Kernels on structures (``requires_vector_input`` false) get the columns unchanged."""
        return bool(getattr(self.kernel, "requires_vector_input", True))

    def label(self) -> str:
        """The kernel as scikit-learn prints it."""
        return repr(self.kernel)

    def expand(self, rows: Rows) -> list[tuple[str, Kernel]]:
        """A frozen copy."""
        from sklearn.base import clone

        return [("", GaussianProcessKernel(clone(self.kernel)))]

    def evaluate(self, a: NDArray[Any], b: NDArray[Any]) -> Any:
        """Call the kernel object, with a single argument for training rows."""
        return self.kernel(a) if a is b else self.kernel(a, b)  # differs for white noise

    def diagonal(self, rows: Rows) -> Array:
        """The kernel object's own diagonal."""
        return np.asarray(self.kernel.diag(self._input(rows)), dtype=np.float64)


class FunctionKernel(Foreign):
    """k = any function f(A, B) of two arrays of rows that returns a (len(A), len(B)) matrix.

    The function gets the columns of its view unchanged: floats if all of them hold numbers,
    else an object array.
    """

    numeric = False  # the function reads its columns itself

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def label(self) -> str:
        """The function's name, with any arguments that ``functools.partial`` adds."""
        if isinstance(self.function, partial):
            given = [f"{key}={value!r}" for key, value in self.function.keywords.items()]
            return f"{FunctionKernel(self.function.func).label()}({', '.join(given)})"
        return getattr(self.function, "__name__", None) or repr(self.function)

    def validate(self) -> None:
        """Raise TypeError if the function cannot be called with two arguments."""
        try:
            signature(self.function).bind(None, None)
        except ValueError:  # a function written in another language does not say
            pass
        except TypeError as error:
            raise TypeError(
                f"kernels: {self.label()} cannot be called as f(A, B): {error}. A kernel is a "
                "function of two arrays of rows that returns an array (len(A), len(B)); "
                "functools.partial fixes other arguments."
            ) from None

    def evaluate(self, a: NDArray[Any], b: NDArray[Any]) -> Any:
        """Call the function."""
        return self.function(a, b)


def as_kernel(item: Any) -> Kernel:
    """A kernel object from a kernelweave kernel, a scikit-learn object or name, or a function."""
    if isinstance(item, Kernel):
        return item
    if isinstance(item, str):
        return PairwiseKernel(item)
    if isinstance(item, type):
        raise TypeError(
            f"kernels: found the class {item.__name__}; pass an object, {item.__name__}(…)."
        )
    if hasattr(item, "is_stationary") and hasattr(item, "diag"):
        return GaussianProcessKernel(item)
    if callable(item):
        return FunctionKernel(item)
    matrix = hasattr(item, "__array__") or isinstance(item, list)
    hint = _MATRIX if matrix else ""
    raise TypeError(
        "kernels: an item is a kernel, a scikit-learn kernel (object or name), a function "
        f"f(A, B), (name, kernel) or (name, kernel, columns); found {shown(item)}.{hint}"
    )
