"""Experiments and what they share. Importing this package fixes every library at one thread.

``python -m benchmarks.papers.NAME`` imports it before numpy, and so does every process it starts.
"""

import os

for _library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"
