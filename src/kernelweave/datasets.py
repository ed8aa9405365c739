"""Data sets by name, and simulated ones."""

from kernelweave.io.datasets import DataSet, MultiOmics, breast_cancer, load, make_multiomics, names

__all__ = ["DataSet", "MultiOmics", "breast_cancer", "load", "make_multiomics", "names"]
