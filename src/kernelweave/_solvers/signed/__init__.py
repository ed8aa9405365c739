"""Weights of either sign under which the combined kernel is positive semidefinite."""
