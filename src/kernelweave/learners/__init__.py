"""Learners: how the kernel weights move.

Each class is here under its own name and loads on use: ``from kernelweave.learners import Radius``.
Those of the papers live in ``kernelweave.papers``; nothing here imports one before it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelweave.learners.base import AUTO, CLASSES, NAMES, Learner, make_learner
from kernelweave.learners.base import check_options as check_options
from kernelweave.problems.losses import load

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
    from kernelweave.papers.gai2010.sum_of_radii import MarginAndRadius as MarginAndRadius
    from kernelweave.papers.lanckriet2004.qcqp import Qcqp as Qcqp
    from kernelweave.papers.lanckriet2004.sdp import Sdp as Sdp
    from kernelweave.papers.rakoto2007.silp import Silp as Silp
    from kernelweave.papers.rakoto2007.simple import Simple as Simple

__all__ = ["AUTO", "NAMES", "Learner", "make_learner", *CLASSES]


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return load(CLASSES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *CLASSES})
