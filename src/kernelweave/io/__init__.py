"""Data sets by name, and model files.

``register`` lets model files hold kernels, learners and losses of your own.
"""

from kernelweave.io._own import register

__all__ = ["register"]
