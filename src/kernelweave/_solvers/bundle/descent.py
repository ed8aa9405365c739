"""The one driver of bundle methods: propose, look, and make a serious step or a null step.

A step minimizes the cuts near the center: with curvature and a proximal term, or within a trust
region. What it promises is the fall of the model. It is serious, and moves the center, where the
function falls by a share of that; otherwise it is a null step, which teaches the model a cut. How
far the model is trusted grows where steps keep their promise, and shrinks where they do not.
"""

from __future__ import annotations

from typing import ClassVar, Generic, Protocol, TypeVar

from kernelweave._core.tolerances import TINY
from kernelweave._core.types import Array

GOOD = 0.3  # share of the promise from which on the model is trusted more


class Valued(Protocol):
    """What a look at the function has to tell."""

    @property
    def primal(self) -> float:
        """An upper bound of the function."""
        ...


Seen = TypeVar("Seen", bound=Valued)


class Descent(Generic[Seen]):
    """The state of the method: the center, and how far the model is trusted there.

    ``damping`` is the size of the proximal term, ``serious`` the share of its promise that a
    serious step keeps. Subclasses say how to ``propose`` a place, and how to ``look`` at the
    function there.
    """

    serious: ClassVar[float] = 0.05

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
        if fit >= self.serious:
            self.accept(seen, fit)
        else:
            self.reject(seen, promise, share)
        return fit >= self.serious

    def propose(self) -> tuple[Array, float]:
        """Where to go next, and the value of the model there."""
        raise NotImplementedError

    def look(self, e: Array, share: float) -> Seen:
        """The function there, as exactly as a step needs that promises this share of it."""
        raise NotImplementedError

    def accept(self, seen: Seen, fit: float) -> None:
        """A serious step, which kept the share ``fit`` of its promise: the new center."""
        self.center = seen
        self.damping *= 0.25 if fit > GOOD else 1.0

    def reject(self, seen: Seen, promise: float, share: float) -> None:
        """A null step: the center stays, and the proximal term grows."""
        self.damping = max(4.0 * self.damping, 1e-3)
