"""Objects as JSON and arrays: what a model file holds.

Numbers, strings, None, lists and names of classes stand in JSON, arrays of numbers beside it. An
object is the name of its class and its state, written before whatever refers to it, so that
objects shared by others stay shared. Data only: nothing that a file holds is ever called.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._core.checks import is_sparse, shown
from kernelweave._core.params import Params
from kernelweave.io._registry import name_of

NUMBERS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")  # little-endian

TYPES: dict[str, type] = {kind.__name__: kind for kind in (bool, float, int, object, str)}

_NOT_KEPT = (
    "_kernelweave_version", "_sklearn_version",  # the file has its own
    "_skl_callbacks",  # of the session that fitted it
)  # fmt: skip
_CODE = (
    "A model file holds data and never code, which would run when it is loaded. Use one of "
    "kernelweave's kernels, or Precomputed with its matrix, and name the columns of views; or "
    "pickle the model, for readers who trust you."
)
_OWN = (
    "Its class is your own. Model files can hold its attributes if you call "
    "kernelweave.io.register({0}) before saving, and before loading."
)
_UNKNOWN = (
    "Model files hold numbers, strings, arrays and kernelweave's own objects. Replace it with "
    "set_params, by a number or a name; of a cross-validated model, save best_estimator_."
)


class CannotSave(TypeError):
    """A model has something that a model file cannot hold."""


class Encoder:
    """Collects ``objects``, ready for JSON, and ``arrays``; ``encode`` adds to both."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: list[NDArray[Any]] = []
        self._places: dict[int, Any] = {}  # by id, what stands for it in JSON
        self._alive: list[Any] = []  # so that no id is used twice

    def encode(self, value: Any, where: str) -> Any:
        """``value`` in JSON; errors say ``where`` in the model it stands."""
        if isinstance(value, np.generic) and not isinstance(value.item(), np.generic):
            value = value.item()
        plain = _PLAIN.get(type(value))
        if plain is not None:
            return plain(self, value, where)
        if id(value) not in self._places:
            self._places[id(value)] = None
            self._alive.append(value)
            self._places[id(value)] = self._shared(value, where)
        if self._places[id(value)] is None:
            raise CannotSave(f"{where} refers to itself; a model file cannot hold that.")
        return self._places[id(value)]

    def _shared(self, value: Any, where: str) -> dict[str, Any]:
        """Of what others may refer to as well: arrays and objects."""
        name = name_of(type(value))
        if name is not None:
            found = {"class": name, "state": self._state(value, where)}
            self.objects.append(found)
            return {"object": len(self.objects) - 1}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"dtype": np.dtype(value).str}
        if isinstance(value, type) and value.__name__ in TYPES and value is TYPES[value.__name__]:
            return {"type": value.__name__}
        if is_sparse(value) and value.format == "csr":
            parts = [self.encode(getattr(value, part), where) for part in _CSR]
            return {"csr": parts, "shape": list(value.shape), "kind": type(value).__name__}
        if hasattr(value, "__array__") and not hasattr(value, "columns"):  # an index of pandas, too
            return self._array(np.asarray(value), where)
        told = f"{where} cannot be saved: it is {shown(value)}."
        if isinstance(value, Params) and not type(value).__module__.startswith("kernelweave."):
            raise CannotSave(f"{told} {_OWN.format(type(value).__name__)}")
        code = callable(value) and not hasattr(value, "get_params")
        raise CannotSave(f"{told} {_CODE if code else _UNKNOWN}")

    def _state(self, value: Any, where: str) -> dict[str, Any]:
        state = getattr(value, "_saved_state", value.__getstate__)
        names = value._asdict() if hasattr(value, "_asdict") else state() or {}  # of tuples
        return {
            name: self.encode(part, f"{where}.{name}")
            for name, part in names.items()
            if name not in _NOT_KEPT
        }

    def _array(self, array: NDArray[Any], where: str) -> dict[str, Any]:
        kind = array.dtype.kind
        if array.dtype.str[1:] in NUMBERS:
            self.arrays.append(array)
            return {"array": len(self.arrays) - 1}
        shape = list(array.shape)
        if kind == "U":
            width = array.dtype.itemsize // 4
            return {"strings": array.ravel().tolist(), "shape": shape, "width": width}
        if kind == "O":
            items = [self.encode(item, f"{where}[…]") for item in array.ravel()]
            return {"objects": items, "shape": shape}
        raise CannotSave(f"{where} cannot be saved: its dtype is {array.dtype}.")

    def _dict(self, value: dict[Any, Any], where: str) -> dict[str, Any]:
        pairs = [
            [self.encode(key, where), self.encode(item, f"{where}[{shown(key)}]")]
            for key, item in value.items()
        ]
        return {"dict": pairs}

    def _list(self, value: list[Any] | tuple[Any, ...], where: str) -> list[Any]:
        return [self.encode(item, f"{where}[{place}]") for place, item in enumerate(value)]

    def _tuple(self, value: tuple[Any, ...], where: str) -> dict[str, Any]:
        return {"tuple": self._list(value, where)}

    def _slice(self, value: slice, where: str) -> dict[str, Any]:
        return {"slice": self._list([value.start, value.stop, value.step], where)}

    def _range(self, value: range, where: str) -> dict[str, Any]:
        return {"range": [value.start, value.stop, value.step]}

    def _float(self, value: float, where: str) -> Any:
        return value if math.isfinite(value) else {"float": repr(value)}

    def _itself(self, value: Any, where: str) -> Any:
        return value


_CSR = ("data", "indices", "indptr")

_PLAIN: dict[type, Any] = {
    type(None): Encoder._itself,
    bool: Encoder._itself,
    int: Encoder._itself,
    str: Encoder._itself,
    float: Encoder._float,
    list: Encoder._list,
    tuple: Encoder._tuple,
    dict: Encoder._dict,
    slice: Encoder._slice,
    range: Encoder._range,
}
