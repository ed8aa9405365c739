"""The face towards scikit-learn."""

from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.estimators.transductive import TransductiveMKLClassifier

__all__ = ["MKLClassifier", "TransductiveMKLClassifier"]
