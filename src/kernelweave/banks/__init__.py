"""Kernels on views of a table: what is to be weighted."""
