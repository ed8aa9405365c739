"""Multiple kernel learning: which kernels, views and features matter, and how surely.

The public names load on first use, so that ``import kernelweave`` costs nothing and the numeric
core never pays for scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernelweave._core import moved as _moved  # noqa: F401  (old paths)

if TYPE_CHECKING:
    from kernelweave._solvers.enclosing_ball import enclosing_ball as enclosing_ball
    from kernelweave.banks.approximation import Cholesky as Cholesky
    from kernelweave.banks.approximation import Nystroem as Nystroem
    from kernelweave.banks.approximation import RandomFeatures as RandomFeatures
    from kernelweave.banks.bank import KernelBank as KernelBank
    from kernelweave.banks.dask_storage import DaskStorage as DaskStorage
    from kernelweave.banks.fitted import FittedBank as FittedBank
    from kernelweave.banks.torch_storage import TorchStorage as TorchStorage
    from kernelweave.certificate import Certificate as Certificate
    from kernelweave.certificate import duality_gap as duality_gap
    from kernelweave.estimators.classifier import MKLClassifier as MKLClassifier
    from kernelweave.estimators.consensus import ConsensusKernel as ConsensusKernel
    from kernelweave.estimators.cross_validated import MKLClassifierCV as MKLClassifierCV
    from kernelweave.estimators.cross_validated import MKLRegressorCV as MKLRegressorCV
    from kernelweave.estimators.gp_kernel import MKLKernel as MKLKernel
    from kernelweave.estimators.kernel_k_means import MKLKernelKMeans as MKLKernelKMeans
    from kernelweave.estimators.kernel_transformer import (
        MKLKernelTransformer as MKLKernelTransformer,
    )
    from kernelweave.estimators.one_class import MKLOneClass as MKLOneClass
    from kernelweave.estimators.regressor import MKLRegressor as MKLRegressor
    from kernelweave.estimators.survival import MKLSurvival as MKLSurvival
    from kernelweave.estimators.survival_cv import MKLSurvivalCV as MKLSurvivalCV
    from kernelweave.estimators.transductive import (
        TransductiveMKLClassifier as TransductiveMKLClassifier,
    )
    from kernelweave.inspection.alignment import alignment as alignment
    from kernelweave.io.model_file import ModelFileError as ModelFileError
    from kernelweave.io.model_file import load as load
    from kernelweave.io.onnx import to_onnx as to_onnx
    from kernelweave.kernels.categorical import Hamming as Hamming
    from kernelweave.kernels.differentiable import GaussianWidths as GaussianWidths
    from kernelweave.kernels.fingerprints import Tanimoto as Tanimoto
    from kernelweave.kernels.graphs import Diffusion as Diffusion
    from kernelweave.kernels.graphs import Graph as Graph
    from kernelweave.kernels.labeled_graphs import WeisfeilerLehman as WeisfeilerLehman
    from kernelweave.kernels.labeled_graphs import structures as structures
    from kernelweave.kernels.numeric import Gaussian as Gaussian
    from kernelweave.kernels.numeric import Laplacian as Laplacian
    from kernelweave.kernels.numeric import Linear as Linear
    from kernelweave.kernels.numeric import Polynomial as Polynomial
    from kernelweave.kernels.polynomial_widths import PolynomialWidths as PolynomialWidths
    from kernelweave.kernels.precomputed import Precomputed as Precomputed
    from kernelweave.kernels.ranges import GaussianRange as GaussianRange
    from kernelweave.kernels.sequences import SmithWaterman as SmithWaterman
    from kernelweave.kernels.similarity_maps import EmpiricalKernelMap as EmpiricalKernelMap
    from kernelweave.kernels.spectrum import Spectrum as Spectrum
    from kernelweave.kernels.text import BagOfWords as BagOfWords
    from kernelweave.kernels.text import LatentConcepts as LatentConcepts
    from kernelweave.kernels.trees import SubsetTree as SubsetTree
    from kernelweave.learning import learn as learn
    from kernelweave.parameters import learn_parameters as learn_parameters
    from kernelweave.path import regularization_path as regularization_path
    from kernelweave.problems.dual_qp import DualQP as DualQP
    from kernelweave.problems.groups import GroupNorm as GroupNorm
    from kernelweave.problems.huber import Huber as Huber
    from kernelweave.problems.losses import Loss as Loss
    from kernelweave.solution import Solution as Solution
    from kernelweave.stacks.dense import KernelStack as KernelStack
    from kernelweave.stacks.factors import FactorStack as FactorStack
    from kernelweave.stacks.generated import GeneratedStack as GeneratedStack
    from kernelweave.views.gene_sets import views_from_gmt as views_from_gmt
    from kernelweave.views.joining import join_views as join_views

__version__ = "0.1.0"

_HOME = {
    "BagOfWords": "kernels.text",
    "Certificate": "certificate",
    "Cholesky": "banks.approximation",
    "ConsensusKernel": "estimators.consensus",
    "DaskStorage": "banks.dask_storage",
    "Diffusion": "kernels.graphs",
    "DualQP": "problems.dual_qp",
    "EmpiricalKernelMap": "kernels.similarity_maps",
    "FactorStack": "stacks.factors",
    "FittedBank": "banks.fitted",
    "Gaussian": "kernels.numeric",
    "GaussianRange": "kernels.ranges",
    "GaussianWidths": "kernels.differentiable",
    "GeneratedStack": "stacks.generated",
    "Graph": "kernels.graphs",
    "GroupNorm": "problems.groups",
    "Hamming": "kernels.categorical",
    "Huber": "problems.huber",
    "KernelBank": "banks.bank",
    "KernelStack": "stacks.dense",
    "Laplacian": "kernels.numeric",
    "LatentConcepts": "kernels.text",
    "Linear": "kernels.numeric",
    "Loss": "problems.losses",
    "ModelFileError": "io.model_file",
    "MKLClassifier": "estimators.classifier",
    "MKLClassifierCV": "estimators.cross_validated",
    "MKLKernel": "estimators.gp_kernel",
    "MKLKernelKMeans": "estimators.kernel_k_means",
    "MKLKernelTransformer": "estimators.kernel_transformer",
    "MKLOneClass": "estimators.one_class",
    "MKLRegressor": "estimators.regressor",
    "MKLRegressorCV": "estimators.cross_validated",
    "MKLSurvival": "estimators.survival",
    "MKLSurvivalCV": "estimators.survival_cv",
    "Nystroem": "banks.approximation",
    "Polynomial": "kernels.numeric",
    "PolynomialWidths": "kernels.polynomial_widths",
    "Precomputed": "kernels.precomputed",
    "RandomFeatures": "banks.approximation",
    "SmithWaterman": "kernels.sequences",
    "Spectrum": "kernels.spectrum",
    "Solution": "solution",
    "Tanimoto": "kernels.fingerprints",
    "SubsetTree": "kernels.trees",
    "TransductiveMKLClassifier": "estimators.transductive",
    "TorchStorage": "banks.torch_storage",
    "WeisfeilerLehman": "kernels.labeled_graphs",
    "alignment": "inspection.alignment",
    "duality_gap": "certificate",
    "enclosing_ball": "_solvers.enclosing_ball",
    "join_views": "views.joining",
    "learn": "learning",
    "learn_parameters": "parameters",
    "load": "io.model_file",
    "regularization_path": "path",
    "structures": "kernels.labeled_graphs",
    "to_onnx": "io.onnx",
    "views_from_gmt": "views.gene_sets",
}

_MODULES = ("datasets", "inspection", "io", "learners", "papers", "plotting", "report")

__all__ = ["__version__", *_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(f"{__name__}.{name}")
    elif name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
