"""Estimators with scikit-learn's interface."""

from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.estimators.cross_validated import MKLClassifierCV, MKLRegressorCV
from kernelweave.estimators.one_class import MKLOneClass
from kernelweave.estimators.regressor import MKLRegressor
from kernelweave.estimators.survival import MKLSurvival
from kernelweave.estimators.survival_cv import MKLSurvivalCV
from kernelweave.estimators.transductive import TransductiveMKLClassifier

__all__ = [
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLOneClass",
    "MKLRegressor",
    "MKLRegressorCV",
    "MKLSurvival",
    "MKLSurvivalCV",
    "TransductiveMKLClassifier",
]
