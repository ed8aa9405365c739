"""Modules under their first paths: pickles name them, and code from before they moved."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "_core.decay": "stacks._passes",
    "_solvers.radius": "",  # a package of its own then
    "_solvers.radius.enclosing_ball": "_solvers.enclosing_ball",
    "banks.default": "banks.plan",
    "banks.features": "banks.approximation",
    "banks.fitting": "banks.unseen",
    "banks.generated": "stacks.generated",
    "learners.hessian": "papers.chapelle2008.hessian",
    "learners.qcqp": "papers.lanckriet2004.qcqp",
    "learners.radius": "papers.gai2010.radius",
    "learners.radius_bound": "papers.gai2010.radius_bound",
    "learners.sdp": "papers.lanckriet2004.sdp",
    "learners.silp": "papers.rakoto2007.silp",
    "learners.simple": "papers.rakoto2007.simple",
    "learners.skm": "papers.bach2004.skm",
    "learners.skm_published": "papers.bach2004.skm_published",
    "progress": "solving",
    "stacks.memory": "stacks.resources",
    "stacks.precision": "stacks.rounding",
    "stacks.threads": "stacks.resources",
    "views.distances": "views.products",
    "views.triangle": "views.products",
}


class _Moved(MetaPathFinder, Loader):
    """Finds a module under its first path; asked last, where there is no such file."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        new = MOVED.get(name.removeprefix("kernelweave."))
        return None if new is None else ModuleSpec(name, self, is_package=not new)

    def exec_module(self, module: ModuleType) -> None:
        # the import system hands out what it then finds there: one module, under two names
        if new := MOVED[module.__name__.removeprefix("kernelweave.")]:
            sys.modules[module.__name__] = import_module(f"kernelweave.{new}")


sys.meta_path.append(_Moved())
