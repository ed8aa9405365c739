"""The classes that a model file may name, beside those that users register (``_own.py``).

Whatever is in neither is never made from a file.

Names are part of the file format: a class that moves or is renamed keeps its name here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from kernelweave import _HOME
from kernelweave.io._own import PREFIX, own_class, own_name
from kernelweave.learners.base import CLASSES as LEARNERS
from kernelweave.problems.losses import CLASSES as LOSSES

ESTIMATORS = {
    "ConsensusKernel": "kernelweave.estimators.consensus.ConsensusKernel",
    "MKLClassifier": "kernelweave.estimators.classifier.MKLClassifier",
    "MKLClassifierCV": "kernelweave.estimators.cross_validated.MKLClassifierCV",
    "MKLKernelKMeans": "kernelweave.estimators.kernel_k_means.MKLKernelKMeans",
    "MKLOneClass": "kernelweave.estimators.one_class.MKLOneClass",
    "MKLRegressor": "kernelweave.estimators.regressor.MKLRegressor",
    "MKLRegressorCV": "kernelweave.estimators.cross_validated.MKLRegressorCV",
    "MKLSurvival": "kernelweave.estimators.survival.MKLSurvival",
    "MKLSurvivalCV": "kernelweave.estimators.survival_cv.MKLSurvivalCV",
    "TransductiveMKLClassifier": "kernelweave.estimators.transductive.TransductiveMKLClassifier",
}

# those that kernelweave names are all there, by that name; these are other ones, and parts of some
_KERNELS = {
    "BagOfWords.words": "text._Words",
    "Diffusion.graph": "graphs.Graph",
    "EigenvectorKernels": "eigen.EigenvectorKernels",
    "EigenvectorKernels.basis": "eigen._Basis",
    "EigenvectorKernels.fitted": "eigen._Eigenvector",
    "EmpiricalKernelMap.features": "similarity_maps._Similarities",
    "FeatureKernel": "features.FeatureKernel",
    "Hamming.codes": "categorical._Codes",
    "Hamming.fitted": "categorical._FittedHamming",
    "LatentConcepts.features": "text._Concepts",
    "LatentConcepts.model": "_plsa.ConceptModel",
    "Spectrum.features": "spectrum._Features",
    "Spectrum.fitted": "spectrum._WordKernel",
    "Spectrum.words": "spectrum._Substrings",
    "SubsetTree.fitted": "trees._TreeKernel",
    "SubsetTree.productions": "trees._Productions",
    "WeisfeilerLehman.fitted": "labeled_graphs._LabelKernel",
    "WeisfeilerLehman.labels": "labeled_graphs._Labels",
    "sklearn.kernel": "adapters.GaussianProcessKernel",
    "sklearn.pairwise": "adapters.PairwiseKernel",
}


_SKLEARN = {
    "feature_extraction.text": ("CountVectorizer", "TfidfTransformer", "TfidfVectorizer"),
    "gaussian_process.kernels": (
        "CompoundKernel",
        "ConstantKernel",
        "DotProduct",
        "ExpSineSquared",
        "Exponentiation",
        "Matern",
        "PairwiseKernel",
        "Product",
        "RBF",
        "RationalQuadratic",
        "Sum",
        "WhiteKernel",
    ),
}

CLASSES = {
    **ESTIMATORS,
    **{
        f"kernels.{name}": f"kernelweave.{module}.{name}"
        for name, module in _HOME.items()
        if module.startswith("kernels.") and name not in ("Graph", "structures")
    },
    **{f"kernels.{name}": f"kernelweave.kernels.{path}" for name, path in _KERNELS.items()},
    **{f"learners.{name}": f"kernelweave.{path}" for name, path in LEARNERS.items()},
    **{f"losses.{name}": f"kernelweave.{path}" for name, path in LOSSES.items()},
    **{
        f"sklearn.{name}": f"sklearn.{module}.{name}"
        for module, names in _SKLEARN.items()
        for name in names
    },
    "Calibration": "kernelweave.estimators._probabilities.Calibration",
    "Calibration.sigmoid": "kernelweave.estimators._probabilities.Sigmoid",
    "Calibration.steps": "kernelweave.estimators._probabilities.Steps",
    "Cholesky": "kernelweave.banks.approximation.Cholesky",
    "Columns": "kernelweave.banks.approximation.Columns",
    "FittedBank": "kernelweave.banks.fitted.FittedBank",
    "FittedBank.elsewhere": "kernelweave.banks.elsewhere.BankElsewhere",
    "GroupNorm": "kernelweave.problems.groups.GroupNorm",
    "KernelBank": "kernelweave.banks.bank.KernelBank",
    "Landmarks": "kernelweave.banks.approximation.Landmarks",
    "LowRank": "kernelweave.banks.approximation.LowRank",
    "Member": "kernelweave.banks.member.Member",
    "Normalized": "kernelweave.banks.approximation.Normalized",
    "Normalizer": "kernelweave.banks.normalize.Normalizer",
    "Nystroem": "kernelweave.banks.approximation.Nystroem",
    "RandomFeatures": "kernelweave.banks.approximation.RandomFeatures",
    "Rows": "kernelweave.views.rows.Rows",
    "Solution": "kernelweave.solution.Solution",
    "SparseTable": "kernelweave.views.sparse_table.SparseTable",
    "Table": "kernelweave.views.table.Table",
    "View": "kernelweave.views.columns.View",
    "Waves": "kernelweave.banks.approximation.Waves",
    "matrix of predict": "kernelweave.estimators._matrices._Cross",
}

_NAMES = {path: name for name, path in CLASSES.items()}


def name_of(cls: type) -> str | None:
    """The name of a class in model files; None if they may not hold it."""
    return _NAMES.get(f"{cls.__module__}.{cls.__qualname__}") or own_name(cls)


def class_of(name: str) -> Any:
    """The class of that name; raises LookupError if there is none."""
    return own_class(name) if name.startswith(PREFIX) else _known(name)


@cache
def _known(name: str) -> Any:
    module, _, cls = CLASSES[name].rpartition(".")
    return getattr(import_module(module), cls)
