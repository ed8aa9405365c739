"""Kernels on views of the data, and stacks of their matrices."""
