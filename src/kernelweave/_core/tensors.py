"""Tensors of PyTorch as arguments: read on the host, answered where they were."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from kernelweave._core.checks import on_host


def answering(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of an estimator and rows X: where X is a tensor, arrays it gives are, too.

    They are on the device of X. Labels that no tensor can hold, strings, stay arrays.
    """

    @wraps(method)
    def answered(self: Any, X: Any, *args: Any, **more: Any) -> Any:
        if not hasattr(X, "is_cuda"):
            return method(self, X, *args, **more)
        named = {name: on_host(value) for name, value in more.items()}
        return _beside(X, method(self, on_host(X), *map(on_host, args), **named))

    return answered


def _beside(X: Any, found: Any) -> Any:
    """An array of numbers as a tensor on the device of X."""
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "biuf":
        return found
    if X.device.type == "mps" and found.dtype == np.float64:  # which that device does not have
        found = found.astype(np.float32)
    return sys.modules["torch"].as_tensor(found, device=X.device)
