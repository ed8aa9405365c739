"""Estimators with scikit-learn's interface."""

from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.estimators.one_class import MKLOneClass
from kernelweave.estimators.regressor import MKLRegressor
from kernelweave.estimators.transductive import TransductiveMKLClassifier

__all__ = ["MKLClassifier", "MKLOneClass", "MKLRegressor", "TransductiveMKLClassifier"]
