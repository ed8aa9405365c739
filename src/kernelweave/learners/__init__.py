"""Learners: how the kernel weights move."""

from __future__ import annotations

from importlib import import_module

from .base import Learner

_BY_NAME = {
    "uniform": "uniform.Uniform",
    "simple": "simple.Simple",
    "silp": "silp.Silp",
    "alternate": "alternate.Alternate",
    "newton": "newton.Newton",
    "radius": "radius.Radius",
    "radius_bound": "radius_bound.RadiusBound",
}
AUTO = "newton"
NAMES = ("auto", *_BY_NAME)


def make_learner(learner: str | Learner) -> Learner:
    """The learner of that name, or the object itself."""
    if isinstance(learner, str):
        name = AUTO if learner == "auto" else learner
        if name not in _BY_NAME:
            raise ValueError(
                f"learner must be one of {list(NAMES)} or an object, found {learner!r}"
            )
        module, _, cls = _BY_NAME[name].partition(".")
        made: Learner = getattr(import_module(f".{module}", __name__), cls)()
        return made
    if isinstance(learner, type) or not isinstance(learner, Learner):
        raise TypeError(
            f"learner must be one of {list(NAMES)} or a learner object, found {learner!r}"
        )
    return learner
