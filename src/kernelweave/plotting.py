"""Plots of fits: every function takes matplotlib axes, or makes some, and returns them."""

from kernelweave.inspection.plotting import (
    plot_convergence,
    plot_cv_scores,
    plot_weight_history,
    plot_weight_path,
    plot_weights,
)
from kernelweave.inspection.widths import plot_widths

__all__ = [
    "plot_convergence",
    "plot_cv_scores",
    "plot_weight_history",
    "plot_weight_path",
    "plot_weights",
    "plot_widths",
]
