"""Multiple kernel learning: which kernels, views and features matter, and how surely.

The public names load on first use, so that ``import kernelweave`` costs nothing and the numeric
core never pays for scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .certificate import Certificate as Certificate
    from .certificate import duality_gap as duality_gap
    from .estimators import MKLClassifier as MKLClassifier
    from .kernels.alignment import alignment as alignment
    from .kernels.bank import KernelBank as KernelBank
    from .kernels.differentiable import GaussianWidths as GaussianWidths
    from .kernels.fitted import FittedBank as FittedBank
    from .kernels.functions import Gaussian as Gaussian
    from .kernels.functions import Laplacian as Laplacian
    from .kernels.functions import Linear as Linear
    from .kernels.functions import Polynomial as Polynomial
    from .kernels.graphs import Diffusion as Diffusion
    from .kernels.graphs import Graph as Graph
    from .kernels.maps import EmpiricalKernelMap as EmpiricalKernelMap
    from .kernels.precomputed import Precomputed as Precomputed
    from .kernels.sequences import SmithWaterman as SmithWaterman
    from .kernels.stack import KernelStack as KernelStack
    from .kernels.text import BagOfWords as BagOfWords
    from .kernels.text import LatentConcepts as LatentConcepts
    from .mkl import learn as learn
    from .parametric import learn_parameters as learn_parameters
    from .path import regularization_path as regularization_path
    from .solution import Solution as Solution
    from .solvers.enclosing_ball import enclosing_ball as enclosing_ball
    from .transduction import TransductiveMKLClassifier as TransductiveMKLClassifier

__version__ = "0.1.0.dev0"

_HOME = {
    "BagOfWords": "kernels.text",
    "Certificate": "certificate",
    "Diffusion": "kernels.graphs",
    "EmpiricalKernelMap": "kernels.maps",
    "FittedBank": "kernels.fitted",
    "Gaussian": "kernels.functions",
    "GaussianWidths": "kernels.differentiable",
    "Graph": "kernels.graphs",
    "KernelBank": "kernels.bank",
    "KernelStack": "kernels.stack",
    "Laplacian": "kernels.functions",
    "LatentConcepts": "kernels.text",
    "Linear": "kernels.functions",
    "MKLClassifier": "estimators",
    "Polynomial": "kernels.functions",
    "Precomputed": "kernels.precomputed",
    "SmithWaterman": "kernels.sequences",
    "Solution": "solution",
    "TransductiveMKLClassifier": "transduction",
    "alignment": "kernels.alignment",
    "duality_gap": "certificate",
    "enclosing_ball": "solvers.enclosing_ball",
    "learn": "mkl",
    "learn_parameters": "parametric",
    "regularization_path": "path",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
