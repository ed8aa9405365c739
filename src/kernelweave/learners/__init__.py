"""Learners: how the kernel weights move.

Each class is here under its own name and loads on use: ``from kernelweave.learners import Radius``.
Those of the papers live in ``kernelweave.papers``; nothing here imports one before it is asked for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from kernelweave.learners.base import Learner

if TYPE_CHECKING:
    from kernelweave.learners.alignment import Alignment as Alignment
    from kernelweave.learners.alignment import alignf as alignf
    from kernelweave.learners.alternate import Alternate as Alternate
    from kernelweave.learners.easy import EasyMKL as EasyMKL
    from kernelweave.learners.grouped import Grouped as Grouped
    from kernelweave.learners.newton import Newton as Newton
    from kernelweave.learners.uniform import Uniform as Uniform
    from kernelweave.papers.bach2004.skm import Skm as Skm
    from kernelweave.papers.bach2004.skm_published import SkmPublished as SkmPublished
    from kernelweave.papers.chapelle2008.hessian import Hessian as Hessian
    from kernelweave.papers.gai2010.radius import Radius as Radius
    from kernelweave.papers.gai2010.radius_bound import RadiusBound as RadiusBound
    from kernelweave.papers.lanckriet2004.qcqp import Qcqp as Qcqp
    from kernelweave.papers.lanckriet2004.sdp import Sdp as Sdp
    from kernelweave.papers.rakoto2007.silp import Silp as Silp
    from kernelweave.papers.rakoto2007.simple import Simple as Simple

_BY_NAME = {
    "uniform": "learners.uniform.Uniform",
    "simple": "papers.rakoto2007.simple.Simple",
    "silp": "papers.rakoto2007.silp.Silp",
    "alternate": "learners.alternate.Alternate",
    "newton": "learners.newton.Newton",
    "hessian": "papers.chapelle2008.hessian.Hessian",
    "skm": "papers.bach2004.skm.Skm",
    "skm_published": "papers.bach2004.skm_published.SkmPublished",
    "sdp": "papers.lanckriet2004.sdp.Sdp",
    "qcqp": "papers.lanckriet2004.qcqp.Qcqp",
    "alignment": "learners.alignment.Alignment",
    "alignf": "learners.alignment.alignf",
    "easy": "learners.easy.EasyMKL",
    "grouped": "learners.grouped.Grouped",
    "radius": "papers.gai2010.radius.Radius",
    "radius_bound": "papers.gai2010.radius_bound.RadiusBound",
}
AUTO = "newton"
NAMES = ("auto", *_BY_NAME)
CLASSES = {path.rpartition(".")[2]: path for path in _BY_NAME.values()}  # by their own names

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
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"kernelweave.{module}"), name)


class _Moved(MetaPathFinder, Loader):
    """The learners of papers under their first paths, ``kernelweave.learners.simple`` and others.

    Pickles name them, and code that was written before they moved.
    """

    paths: ClassVar = {
        f"{__name__}.{path.split('.')[2]}": f"kernelweave.{path.rpartition('.')[0]}"
        for path in _BY_NAME.values()
        if path.startswith("papers.")
    }

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in self.paths else None

    def exec_module(self, module: ModuleType) -> None:
        # the import system hands out what it then finds there: one module, under two names
        sys.modules[module.__name__] = import_module(self.paths[module.__name__])


sys.meta_path.append(_Moved())  # asked last, where there is no such file


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return _load(CLASSES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *CLASSES})
