"""Estimators with scikit-learn's interface."""

from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.estimators.transductive import TransductiveMKLClassifier

__all__ = ["MKLClassifier", "TransductiveMKLClassifier"]
