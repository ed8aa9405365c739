"""Kernel banks: the kernels on views of a table that learning weights."""
