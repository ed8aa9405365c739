"""JSON and arrays as objects again: the reverse of ``_encode``, for files that may be anything.

Only classes of the registry are made, and only with attributes of the types that they declare.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave.io._conform import check_state, completed
from kernelweave.io._encode import TYPES
from kernelweave.io._registry import class_of

_LONGEST = 2**23  # what a length may be in any file; in large ones, as many as they have bytes
_ROOM = 1000  # letters that an array may have room for though no word has so many
_SPREAD = 256  # bytes that a letter may take in an array whose strings are of different lengths


class Allowance:
    """What a file of so many bytes may ask for, if it may hold ``most``.

    A file takes some times its bytes, and objects take a little more: whoever allows larger files
    allows more of them.
    """

    def __init__(self, size: int, most: int) -> None:
        self._most, self._beside = most, most // 24 + 3 * size
        self._longest = max(size, _LONGEST)

    def claim(self, size: int, explained: int = 0) -> None:
        """Raise MemoryError if so many bytes more are too many; some explain themselves."""
        self._most -= size
        self._beside -= max(0, size - explained)
        if min(self._most, self._beside) < 0:
            raise MemoryError(
                "it asks for more memory than its size explains; if you trust it, raise max_bytes"
            )

    def length(self, value: int) -> int:
        """``value``, if a length may be so large."""
        if value > self._longest:
            raise ValueError(f"{value} is too long for what it holds")
        return value


class Decoder:
    """Objects from JSON and arrays."""

    def __init__(self, arrays: list[NDArray[Any]], limits: Allowance) -> None:
        self.objects: list[Any] = []
        self._arrays, self._limits = arrays, limits

    def add(self, found: dict[str, Any]) -> None:
        """One more object, which may refer to those before it."""
        name, state = found["class"], found["state"]
        state = {str(key): self.decode(part) for key, part in state.items()}
        cls = class_of(name)
        state = completed(cls, state)
        check_state(name, cls, state)
        if issubclass(cls, tuple):
            made = cls(**state)
        else:
            made = object.__new__(cls)
            made.__dict__.update(state)
        if hasattr(cls, "validate"):
            made.validate()
        self.objects.append(made)

    def decode(self, found: Any) -> Any:
        """What stands there in JSON."""
        if isinstance(found, list):
            return [self.decode(item) for item in found]
        if not isinstance(found, dict):
            return found
        what = next(iter(found))
        return _MADE[what](self, found[what], found)

    def _object(self, place: int, found: Any) -> Any:
        return self.objects[index(place)]

    def _array(self, place: int, found: Any) -> Any:
        return self._arrays[index(place)]

    def _tuple(self, items: list[Any], found: Any) -> Any:
        return tuple(self.decode(item) for item in items)

    def _dict(self, pairs: list[Any], found: Any) -> Any:
        return {self.decode(key): self.decode(item) for key, item in pairs}

    def _slice(self, parts: list[Any], found: Any) -> Any:
        if not all(part is None or type(part) in (int, str) for part in parts):
            raise TypeError("a slice has ends of another kind")
        return slice(*parts)

    def _range(self, parts: list[Any], found: Any) -> Any:
        made = range(*parts)
        self._limits.length(len(made))
        return made

    def _float(self, text: str, found: Any) -> Any:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[text]

    def _dtype(self, text: str, found: Any) -> Any:
        return np.dtype(str(text)).type

    def _type(self, name: str, found: Any) -> Any:
        return TYPES[name]

    def _strings(self, items: list[str], found: Any) -> Any:
        width, longest = index(found["width"]), max(map(len, items), default=0)
        letters = len(items) + sum(map(len, items))
        self._limits.claim(4 * width * len(items), explained=_SPREAD * letters)
        width = min(width, max(longest, _ROOM))  # predictions get the same width
        return self._filled(items, found["shape"], f"<U{max(width, 1)}")

    def _objects(self, items: list[Any], found: Any) -> Any:
        return self._filled([self.decode(item) for item in items], found["shape"], object)

    def _csr(self, parts: list[Any], found: Any) -> Any:
        from scipy import sparse

        kind = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}[found["kind"]]
        shape = tuple(self._limits.length(index(size)) for size in found["shape"])
        self._limits.claim(8 * shape[1])  # columns are walked down when rows meet
        made = kind(tuple(self.decode(part) for part in parts), shape=shape)
        made.check_format(full_check=True)
        made.sum_duplicates()
        return made

    def _filled(self, items: list[Any], shape: list[int], dtype: Any) -> NDArray[Any]:
        if math.prod(self._limits.length(index(size)) for size in shape) != len(items):
            raise ValueError("an array does not have the size that its shape says")
        flat = np.empty(len(items), dtype=dtype)
        flat[:] = items
        return flat.reshape(shape)


_MADE: dict[str, Callable[[Decoder, Any, Any], Any]] = {
    "array": Decoder._array,
    "csr": Decoder._csr,
    "dict": Decoder._dict,
    "dtype": Decoder._dtype,
    "float": Decoder._float,
    "object": Decoder._object,
    "objects": Decoder._objects,
    "range": Decoder._range,
    "slice": Decoder._slice,
    "strings": Decoder._strings,
    "tuple": Decoder._tuple,
    "type": Decoder._type,
}


def index(value: Any) -> int:
    """``value``, if it is a whole number ≥ 0."""
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a number ≥ 0, found {value!r}")
    return value
