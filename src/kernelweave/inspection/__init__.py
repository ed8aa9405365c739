"""What a fit means: weights with their uncertainty, what views are worth, reports and plots."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelweave.inspection.association import Association as Association
    from kernelweave.inspection.association import associated_views as associated_views
    from kernelweave.inspection.comparison import Comparison as Comparison
    from kernelweave.inspection.comparison import compare as compare
    from kernelweave.inspection.draws import WeightDraws as WeightDraws
    from kernelweave.inspection.draws import WeightPath as WeightPath
    from kernelweave.inspection.explanation import Explanation as Explanation
    from kernelweave.inspection.explanation import explain as explain
    from kernelweave.inspection.features import FeatureImportance as FeatureImportance
    from kernelweave.inspection.features import feature_importance as feature_importance
    from kernelweave.inspection.held_out import HeldOut as HeldOut
    from kernelweave.inspection.html.page import write_report as write_report
    from kernelweave.inspection.importance import drop_view as drop_view
    from kernelweave.inspection.importance import permutation_importance as permutation_importance
    from kernelweave.inspection.importance import single_view as single_view
    from kernelweave.inspection.selection import Selection as Selection
    from kernelweave.inspection.selection import select_views as select_views
    from kernelweave.inspection.uncertainty import null as null
    from kernelweave.inspection.uncertainty import over_C as over_C
    from kernelweave.inspection.uncertainty import stability as stability
    from kernelweave.inspection.weights import weights_frame as weights_frame
    from kernelweave.inspection.widths import plot_widths as plot_widths

_HOME = {
    "Association": "association",
    "Comparison": "comparison",
    "Explanation": "explanation",
    "FeatureImportance": "features",
    "HeldOut": "held_out",
    "Selection": "selection",
    "WeightDraws": "draws",
    "WeightPath": "draws",
    "associated_views": "association",
    "compare": "comparison",
    "drop_view": "importance",
    "explain": "explanation",
    "feature_importance": "features",
    "null": "uncertainty",
    "over_C": "uncertainty",
    "permutation_importance": "importance",
    "plot_widths": "widths",
    "select_views": "selection",
    "single_view": "importance",
    "stability": "uncertainty",
    "weights_frame": "weights",
    "write_report": "html.page",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
