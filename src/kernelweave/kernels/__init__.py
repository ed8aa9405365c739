"""Kernel functions, one family per file."""
