"""Rows of three views: two that tell the classes, one that is noise."""

from __future__ import annotations

import numpy as np

from kernelweave import Gaussian, KernelBank, Linear

HOSTILE = "<script>alert('$x$')</script>\"&"
VIEWS = {"a": slice(0, 4), "b": slice(4, 8), "noise": slice(8, 12)}


def rows(n: int = 60, effect: float = 0.9, seed: int = 0):
    rng = np.random.default_rng(seed)
    y = np.repeat(["no", "yes"], n // 2)
    X = rng.normal(size=(n, 12))
    X[:, :8] += effect * np.where(y == "yes", 1.0, -1.0)[:, None] * np.tile([1.0, 1.0, 0.0, 0.0], 2)
    return X, y


def bank(**views):
    return KernelBank([Linear(), Gaussian(2.0)], views=views or VIEWS)
