"""Conjugate gradients for several right sides at once, on arrays of NumPy or of a device alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ITERATIONS = 80
Step = Callable[[Any], Any]


def conjugate_gradients(product: Step, precondition: Step, B: Any, X: Any, accuracy: float) -> Any:
    """The solution of AX = B, begun at X, for columns of its own each; A and the other positive.

    ``product`` multiplies by A, ``precondition`` by M, which is near A⁻¹. It ends where each
    residual is below ``accuracy`` in the norm of M, as a share of B.
    """
    aim = precondition(B)
    small = accuracy**2 * (B * aim).sum(0)
    if X is None:  # the first step goes along ``aim``, as far as is best
        X, R, Z = 0.0 * B, B, aim
    else:
        R = B - product(X)
        Z = precondition(R)
    P = Z
    rz = (R * Z).sum(0)
    for _ in range(_ITERATIONS):
        if bool((rz <= small).all()):
            break
        AP = product(P)
        step = _share(rz, (P * AP).sum(0))
        X = X + step * P
        R = R - step * AP
        Z = precondition(R)
        last, rz = rz, (R * Z).sum(0)
        P = Z + _share(rz, last) * P
    return X


def _share(a: Any, b: Any) -> Any:
    """a/b, and 0 where b is not positive."""
    return a * (b > 0.0) / (b + (b <= 0.0) * (1.0 - b))
