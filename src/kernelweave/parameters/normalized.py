"""The derivatives of kernels that a bank normalizes, from those of the kernels themselves.

    K̃ = A∘uuᵀ,    A = K − 1mᵀ − m1ᵀ + (wᵀm)11ᵀ, m = Kw    if the rule centers, else A = K
                   u = a^−½,  a_i = A_ii ("sphere"), Σ_i w_i A_ii ("trace"), n times that

w holds the shares of the rows, 1/n each where none has a weight. A is linear in K, so that only u
takes more than A of the derivatives. With ℓ = log u and (ℓ⊕ℓ)_ij = ℓ_i + ℓ_j

    ∂K̃  = (∂A + A∘(∂ℓ⊕∂ℓ))∘uuᵀ,    ∂_iℓ = −½ ∂_ia/a,    ∂_i∂_jℓ = −½ ∂_i∂_ja/a + 2 ∂_iℓ ∂_jℓ

and so on. Products of second derivatives with a symmetric M are those of the kernel's own with
another: with N = M∘uuᵀ, g = (N∘A)1, and h_i = g_i/a_i, or a number times w where a is a mean,

    ⟨M, ∂_i∂_jK̃⟩ = ⟨P(N − diag h)Pᵀ, ∂_i∂_jK⟩ + 2r_i·q_j + 2q_i·r_j + 6 Σ g q_i q_j + 2q_iᵀ(N∘A)q_j

where q_i = ∂_iℓ, r_i = (N∘∂_iA)1, and P = I − w1ᵀ if the rule centers.

For "center+unit_trace" K̃ is K centered over T(K), its re-centered trace: J(K̃) is the criterion of
[chapelle2008, §2], T(K)Ω(K) where the margin is hard, as a function of parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelweave._core.types import Array
from kernelweave.banks.normalize import Normalizer, learn_normalizer
from kernelweave.kernels.differentiable import Bends, DifferentiableKernel, Expansion, bends

PLAIN: tuple[bool, str | None] = (False, None)


@dataclass(frozen=True)
class LearnableKernel:
    """A kernel with parameters, the rows that it reads, and how its matrix is normalized.

    ``rule``: whether to center, and the scaling, as in ``banks/normalize.py``. ``weights``: how
    often each row counts in that; None for once.
    """

    name: str
    kernel: DifferentiableKernel
    X: Array
    rule: tuple[bool, str | None] = PLAIN
    weights: Array | None = None

    def expansion(self, t: Array) -> Expansion:
        """The normalized matrix at parameters t, and its derivatives."""
        inner = self.kernel.with_parameters(t).derivatives(self.X)
        return inner if self.rule == PLAIN else NormalizedExpansion(inner, self, t.size)

    def normalizer(self, t: Array) -> Normalizer:
        """The normalization at parameters t, for new rows."""
        K = self.kernel.with_parameters(t).derivatives(self.X).matrix
        found = learn_normalizer(
            self.rule, np.diagonal(K), lambda w: K @ w / w.sum(), self.name, self.weights
        )
        if isinstance(found, str):
            raise FloatingPointError(f"{self.name}: {found}")
        return found


class NormalizedExpansion:
    """K̃ and its derivatives."""

    def __init__(self, inner: Expansion, part: LearnableKernel, parameters: int) -> None:
        center, self.scaling = part.rule
        self.parameters = parameters
        n = len(part.X)
        weights = np.ones(n) if part.weights is None else part.weights
        self.inner, self.count = inner, float(weights.sum())
        self.shares = weights / self.count
        self.center = center
        self.A = self._centered(inner.matrix)
        self.a = self._size(self.A)
        if not (np.isfinite(self.a).all() and (self.a > 0.0).all()):
            raise FloatingPointError(f"{part.name}: nothing is left of it to normalize")
        root = 1.0 / np.sqrt(self.a)
        self.outer = np.multiply.outer(root, root)
        self.matrix = self.A * self.outer

    def first(self, i: int) -> Array:
        """∂K̃/∂t_i."""
        D, rate = self._first(i)
        if rate.any():
            D = D + self.A * np.add.outer(rate, rate)
        return D * self.outer

    def second(self, i: int, j: int) -> Array:
        """∂²K̃/∂t_i∂t_j."""
        D = self._centered(self.inner.second(i, j))
        (A_i, p), (A_j, q) = self._first(i), self._first(j)
        bend = -0.5 * self._size(D, derivative=True) / self.a + 2.0 * p * q
        if p.any() or q.any() or bend.any():
            P, Q = np.add.outer(p, p), np.add.outer(q, q)
            D = D + A_i * Q + A_j * P + self.A * (np.add.outer(bend, bend) + P * Q)
        return D * self.outer

    def bends(self, M: Array) -> Bends:
        """z ↦ (Σ_j ⟨M, ∂_i∂_jK̃⟩ z_j)_i."""
        N = M * self.outer
        G = N * self.A
        g = G.sum(axis=1)
        pairs = [self._first(i) for i in range(self.parameters)]
        r = np.array([np.sum(N * D, axis=1) for D, _ in pairs])
        q = np.array([rate for _, rate in pairs])
        inner = bends(self.inner, self._returned(N - np.diag(self._share(g))), self.parameters)

        def along(z: Array) -> Array:
            q_z, r_z = z @ q, z @ r
            bent = 2.0 * (r @ q_z + q @ r_z) + 6.0 * (q @ (g * q_z)) + 2.0 * (q @ (G @ q_z))
            return np.asarray(inner(z) + bent)

        return along

    def _share(self, g: Array) -> Array:
        """h with h·diag(D) = g·(derivative of a)/a, D a derivative of A."""
        if self.scaling is None:
            return np.zeros(g.size)
        if self.scaling == "sphere":
            return g / self.a
        return self.shares * float((g / self.a).sum()) * (self.count if self._is_sum else 1.0)

    def _returned(self, M: Array) -> Array:
        """PMPᵀ: what ⟨M, centered K⟩ is a product of K with."""
        if not self.center:
            return M
        M = M - np.outer(self.shares, M.sum(axis=0))
        return M - np.outer(M.sum(axis=1), self.shares)

    def _first(self, i: int) -> tuple[Array, Array]:
        """∂_iA and ∂_iℓ."""
        D = self._centered(self.inner.first(i))
        return D, -0.5 * self._size(D, derivative=True) / self.a

    def _centered(self, K: Array) -> Array:
        if not self.center:
            return K
        means = K @ self.shares
        means = means - 0.5 * (means @ self.shares)
        return K - np.add.outer(means, means)

    def _size(self, A: Array, derivative: bool = False) -> Array:
        """a, or its derivative from that of A."""
        diagonal = np.diagonal(A)
        if self.scaling is None:
            return np.full(diagonal.size, 0.0 if derivative else 1.0)
        if self.scaling == "sphere":
            return diagonal
        mean = float(self.shares @ diagonal)
        return np.full(diagonal.size, mean * (self.count if self._is_sum else 1.0))

    @property
    def _is_sum(self) -> bool:
        """Whether a is the trace itself, not its mean."""
        return self.scaling == "unit_trace"
