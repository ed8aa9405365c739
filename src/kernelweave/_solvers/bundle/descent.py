"""Newton steps on a bundle: propose, look, accept or reject.

A step minimizes the cuts plus curvature and a proximal term, which keeps it near the center. What
it promises is the fall of the model; it is accepted where the function falls by a share of that,
and otherwise teaches the model a cut. The proximal term shrinks where steps keep their promise and
grows where they do not.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from kernelweave._core.tolerances import TINY
from kernelweave._core.types import Array

_SERIOUS = 0.05  # share of the promise from which on a step is accepted
_GOOD = 0.3  # share from which on the model is trusted more


class Valued(Protocol):
    """What a look at the function has to tell."""

    @property
    def primal(self) -> float:
        """An upper bound of the function."""
        ...


Seen = TypeVar("Seen", bound=Valued)


class Descent(Generic[Seen]):
    """The state of the method: the center, and how far the model is trusted there.

    ``damping`` is the size of the proximal term. Subclasses say how to ``propose`` a place, and how
    to ``look`` at the function there.
    """

    def __init__(self, center: Seen, damping: float) -> None:
        self.center, self.damping = center, damping

    def step(self) -> bool:
        """One step; whether it was accepted."""
        return self.go(*self.propose())

    def go(self, e: Array, model: float) -> bool:
        """Look at the function where it was proposed to go; whether the step was accepted."""
        promise = max(self.center.primal - model, TINY)
        share = promise / max(abs(self.center.primal), TINY)
        seen = self.look(e, share)
        fit = (self.center.primal - seen.primal) / promise
        if fit >= _SERIOUS:
            self.accept(seen, fit > _GOOD)
        else:
            self.reject(seen, promise, share)
        return fit >= _SERIOUS

    def propose(self) -> tuple[Array, float]:
        """Where to go next, and the value of the model there."""
        raise NotImplementedError

    def look(self, e: Array, share: float) -> Seen:
        """The function there, as exactly as a step needs that promises this share of it."""
        raise NotImplementedError

    def accept(self, seen: Seen, good: bool) -> None:
        """The new center; where the step was ``good`` the proximal term shrinks."""
        self.center = seen
        self.damping *= 0.25 if good else 1.0

    def reject(self, seen: Seen, promise: float, share: float) -> None:
        """The center stays, and the proximal term grows."""
        self.damping = max(4.0 * self.damping, 1e-3)
