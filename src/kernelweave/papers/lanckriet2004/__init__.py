"""Lanckriet et al. (2004): error bound, kernel completion, maximum determinant."""
