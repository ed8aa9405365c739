"""Moreau-Yosida regularization of the support kernel machine's dual [bach2004, §4.1, app. B, C].

    G(v) = min_{γ ≥ 0, μ}  ½γ² + ½ Σ_j (μ_j − γd_j)²/a_j² − cᵀv + ½ρ‖v‖²    s.t.  θ_j ≤ μ_j

with θ_j = √(vᵀK_j v) and signed variables v = y∘α. As a → 0 this becomes ½ max_j θ_j²/d_j² − cᵀv
+ ½ρ‖v‖², which has kinks wherever several kernels attain the maximum; G has none:

    ∇G = Σ_j η_j K_j v − c + ρv,     η_j = (1 − γd_j/θ_j)₊/a_j²,     η̃_j = η_j/(1 − a_j²η_j)

and Σ_j d_j² η̃_j = 1, so that η̃ are weights of the machine that is not regularized. With all
d_j = 0 the minimum is at γ = 0, η_j = 1/a_j²: the SVM on Σ_j K_j/a_j², for which there is no η̃.
Where only some d_j are zero, these have η_j = 1/a_j², no part in γ, and η̃_j = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelweave._core.jit import jit
from kernelweave._core.types import Array


@dataclass(frozen=True)
class Regularized:
    """What G(v) is made of at one v.

    ``value`` is ½γ² + ½ Σ_j (μ_j − γd_j)²/a_j²; ``eta`` are the weights in ∇G, ``eta_tilde`` those
    with Σ d_j² η̃_j = 1.
    """

    value: float
    gamma: float
    mu: Array
    eta: Array
    eta_tilde: Array


def regularize(sizes: Array, a: Array, d: Array) -> Regularized:
    """All quantities of [bach2004, app. C] from ``sizes`` θ_j = √(vᵀK_j v), in O(m log m).

    Where γd_j exceeds θ_j the best μ_j is γd_j, not the 0 of the paper's figure 3.
    """
    gamma = float(_level(sizes, a, d, np.argsort(-_ratios(sizes, d))))
    excess = np.maximum(sizes - gamma * d, 0.0)
    value = 0.5 * gamma * gamma + 0.5 * float(((excess / a) ** 2).sum())
    eta = np.divide(excess, sizes * a * a, out=np.zeros(a.size), where=excess > 0.0)
    floor = gamma * d
    some = (excess > 0.0) & (floor > 0.0)
    eta_tilde = np.divide(excess, floor * a * a, out=np.zeros(a.size), where=some)
    return Regularized(value, gamma, floor + excess, eta, eta_tilde)


def _ratios(sizes: Array, d: Array) -> Array:
    """γ_j = θ_j/d_j."""
    return np.divide(sizes, d, out=np.full(d.size, np.inf), where=d > 0.0)


@jit
def _level(sizes, a, d, order):  # type: ignore[no-untyped-def]
    """The minimizing γ: a mean of 0 and of the γ_j above it, taken in from the largest down.

    Each new one raises the mean but not beyond itself, so that none has to leave again.
    """
    top, bottom = 0.0, 1.0
    for j in order:
        if sizes[j] * bottom <= top * d[j]:
            break
        weight = d[j] / (a[j] * a[j])
        top += weight * sizes[j]
        bottom += weight * d[j]
    return top / bottom
