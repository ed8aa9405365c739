"""Weights and certificate of a fit as plain text, to print."""

from kernelweave.inspection.report import bars, certificate, weights_by_kernel, weights_by_view

__all__ = ["bars", "certificate", "weights_by_kernel", "weights_by_view"]
