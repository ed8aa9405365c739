"""Theory and criteria of single papers, one module or package per paper."""
