"""Experiments that redo a table or figure of a paper, or its data sets."""
