"""Learners: how the kernel weights move.

Each class is here under its own name and loads on use: ``from kernelweave.learners import Radius``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernelweave.learners.base import Learner

if TYPE_CHECKING:
    from kernelweave.learners.alignment import Alignment as Alignment
    from kernelweave.learners.alignment import alignf as alignf
    from kernelweave.learners.alternate import Alternate as Alternate
    from kernelweave.learners.easy import EasyMKL as EasyMKL
    from kernelweave.learners.grouped import Grouped as Grouped
    from kernelweave.learners.hessian import Hessian as Hessian
    from kernelweave.learners.newton import Newton as Newton
    from kernelweave.learners.qcqp import Qcqp as Qcqp
    from kernelweave.learners.radius import Radius as Radius
    from kernelweave.learners.radius_bound import RadiusBound as RadiusBound
    from kernelweave.learners.sdp import Sdp as Sdp
    from kernelweave.learners.silp import Silp as Silp
    from kernelweave.learners.simple import Simple as Simple
    from kernelweave.learners.skm import Skm as Skm
    from kernelweave.learners.skm_published import SkmPublished as SkmPublished
    from kernelweave.learners.uniform import Uniform as Uniform

_BY_NAME = {
    "uniform": "uniform.Uniform",
    "simple": "simple.Simple",
    "silp": "silp.Silp",
    "alternate": "alternate.Alternate",
    "newton": "newton.Newton",
    "hessian": "hessian.Hessian",
    "skm": "skm.Skm",
    "skm_published": "skm_published.SkmPublished",
    "sdp": "sdp.Sdp",
    "qcqp": "qcqp.Qcqp",
    "alignment": "alignment.Alignment",
    "alignf": "alignment.alignf",
    "easy": "easy.EasyMKL",
    "grouped": "grouped.Grouped",
    "radius": "radius.Radius",
    "radius_bound": "radius_bound.RadiusBound",
}
AUTO = "newton"
NAMES = ("auto", *_BY_NAME)
CLASSES = {path.partition(".")[2]: path for path in _BY_NAME.values()}  # by their own names

__all__ = ["AUTO", "NAMES", "Learner", "make_learner", *CLASSES]


def make_learner(learner: str | Learner) -> Learner:
    """The learner of that name, or the object itself."""
    if isinstance(learner, str):
        name = AUTO if learner == "auto" else learner
        if name not in _BY_NAME:
            raise ValueError(
                f"learner must be one of {list(NAMES)} or an object, found {learner!r}; 'sdp' is "
                "for learn and TransductiveMKLClassifier alone"
            )
        made: Learner = _load(_BY_NAME[name])()
        return made
    if not isinstance(learner, Learner):
        raise TypeError(
            f"learner must be one of {list(NAMES)} or a learner object, found {learner!r}"
        )
    return learner


def _load(path: str) -> Any:
    module, _, cls = path.partition(".")
    return getattr(import_module(f".{module}", __name__), cls)


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return _load(CLASSES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *CLASSES})
