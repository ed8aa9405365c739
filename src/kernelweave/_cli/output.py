"""What commands print: tables for people, JSON for programs; which files they may write."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from kernelweave._cli.data import Source
from kernelweave._cli.models import by_view
from kernelweave._core.atomic import check_place
from kernelweave.inspection import report

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how what spreadsheets compute begins
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?").fullmatch


def say(text: str) -> None:
    """A line for people beside the result, on standard error."""
    print(f"kernelweave: {text}", file=sys.stderr)


class Texts:
    """Texts for tables that people open in spreadsheets, which take some for formulas.

    These get a leading apostrophe, unless they are wanted ``raw``; numbers stay as they are.
    """

    def __init__(self, raw: bool) -> None:
        self._raw, self._count = raw, 0

    def plain(self, frame: Any, names: bool) -> Any:
        """The table with texts that are none; with ``names``, those of its columns, too."""
        if self._raw:
            return frame
        found = frame.copy()
        for name in frame.columns[frame.dtypes.map(lambda kind: kind.kind not in "biuf")]:
            found[name] = [self._one(cell) for cell in frame[name]]
        if names:
            found.columns = [self._one(name) for name in frame.columns]
        return found

    def tell(self) -> None:
        """Say how many texts have been changed, if any."""
        if self._count:
            texts = "text that begins as a formula does has"
            if self._count > 1:
                texts = "texts that begin as formulas do have"
            say(f"{self._count} {texts} a leading apostrophe; --raw-text leaves it out")

    def _one(self, cell: Any) -> Any:
        formula = isinstance(cell, str) and cell.startswith(_FORMULA) and not _NUMBER(cell)
        self._count += formula
        return f"'{cell}" if formula else cell


def check_output(option: str, output: str | None, source: Source, *inputs: str) -> None:
    """Complain before the work, if the file could not be written after it, or is read by it."""
    if output is None:
        return
    check_place(output)
    path = Path(output)
    read = [name for name in (source.table, *(what for _, what in source.views), *inputs) if name]
    if path.is_file() and any(Path(name).is_file() and path.samefile(name) for name in read):
        raise ValueError(f"{option} {output}: this file is read; name another one to write")


def show_json(found: Any) -> None:
    """The result for programs; numbers that are not finite are null."""
    print(json.dumps(_plain(found), indent=2, ensure_ascii=False, allow_nan=False))


def show_table(rows: Iterable[tuple[Any, ...]]) -> None:
    """Aligned columns; the first row is the header."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(padded).rstrip())


def summary(model: Any) -> dict[str, Any]:
    """What a fitted model knows of itself."""
    weights = np.atleast_2d(model.weights_).mean(axis=0)
    kernels = [
        {"name": str(name), "view": view, "weight": float(weight)}
        for name, view, weight in zip(model.kernel_names_, model.bank_.views, weights, strict=True)
    ]
    found: dict[str, Any] = {
        "estimator": type(model).__name__,
        "features": int(model.n_features_in_),
        "support_rows": len(model.support_),
        "views": by_view(model.bank_.views, weights),
        "kernels": kernels,
        "objective": float(np.sum(model.objective_)),
        "duality_gap": float(np.max(model.duality_gap_)),
    }
    if hasattr(model, "best_params_"):
        found["chosen"] = {key: model.best_params_[key] for key in ("C", "weight_norm")}
    if hasattr(model, "classes_"):
        found["classes"] = model.classes_.tolist()
    return found


def show_model(model: Any) -> None:
    """Weights by view and by kernel, and the certificate."""
    print("Weight by view\n" + indented(report.weights_by_view(model)))
    print("\nWeight by kernel\n" + indented(report.weights_by_kernel(model)))
    if hasattr(model, "best_params_"):
        C, norm = (model.best_params_[key] for key in ("C", "weight_norm"))
        print(f"\nChosen by cross-validation: C = {C:.4g}, norm {norm}")
    print("\nCertificate, computed from the data\n" + indented(report.certificate(model)))


def indented(text: str) -> str:
    """The same lines, moved to the right."""
    return "\n".join(f"  {line}" for line in text.splitlines())


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else " ".join(str(value).split())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
