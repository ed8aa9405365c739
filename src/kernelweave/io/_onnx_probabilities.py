"""Probabilities from decision values as nodes of an ONNX graph: the formulas of a calibration."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from kernelweave._core.tolerances import COINCIDE


def probabilities(graph: Any, calibration: Any, values: str) -> str:
    """The name of the probabilities (n, n_classes), from that of values (n, n_machines)."""
    count, curves = calibration.n_classes, calibration.curves
    if calibration.method == "isotonic":
        columns = [_steps(graph, one, _column(graph, values, k)) for k, one in enumerate(curves)]
        shares = graph.add("Concat", *columns, axis=1)
    else:
        slopes = graph.constant(np.array([[curve.slope for curve in curves]]))
        shifts = graph.constant(np.array([[curve.shift for curve in curves]]))
        logits = graph.add("Add", graph.add("Mul", values, slopes), shifts)
        if calibration.by_logits:
            return str(graph.add("Softmax", logits, axis=1))
        shares = graph.add("Sigmoid", logits)
    one = graph.number(1.0)
    if count == 2:
        return str(graph.add("Concat", graph.add("Sub", one, shares), shares, axis=1))
    if calibration.multi_class == "ovo":
        shares = _coupled(graph, shares, count)
    total = graph.add("MatMul", shares, graph.constant(np.ones((count, 1))))
    some = graph.add("Greater", total, graph.number(0.0))
    parts = graph.add("Div", shares, graph.add("Where", some, total, one))
    return str(graph.add("Where", some, parts, graph.number(1.0 / count)))


def _column(graph: Any, values: str, place: int) -> str:
    return str(graph.add("Gather", values, graph.constant(np.array([place])), axis=1))


def _steps(graph: Any, curve: Any, values: str) -> str:
    """Linear between knots, constant beyond: the rises of all pieces, as far as values reach."""
    knots, rises = np.asarray(curve.values), np.diff(curve.shares)
    if len(knots) == 1:
        knots, rises = np.array([knots[0], knots[0] + 1.0]), np.zeros(1)
    widths = np.diff(knots)
    into = graph.add("Sub", values, graph.constant(knots[None, :-1]))
    reached = graph.add("Div", into, graph.constant(widths[None, :]))
    reached = graph.add("Min", graph.add("Max", reached, graph.number(0.0)), graph.number(1.0))
    risen = graph.add("MatMul", reached, graph.constant(rises[:, None]))
    return str(graph.add("Add", risen, graph.number(float(curve.shares[0]))))


def _coupled(graph: Any, shares: str, count: int) -> str:
    """x of Qx = 1, by elimination; Q is positive definite, so that no rows are exchanged."""
    r: dict[tuple[int, int], str] = {}
    for place, (a, b) in enumerate(combinations(range(count), 2)):
        r[b, a] = _column(graph, shares, place)
        r[a, b] = graph.add("Sub", graph.number(1.0), r[b, a])
    Q = dict[tuple[int, int], str]()
    for k in range(count):
        Q[k, count], Q[k, k] = graph.number(1.0), graph.number(COINCIDE)
        for other in set(range(count)) - {k}:
            Q[k, k] = graph.add("Add", Q[k, k], graph.add("Mul", r[other, k], r[other, k]))
            Q[k, other] = graph.add("Neg", graph.add("Mul", r[other, k], r[k, other]))
    for k in range(count):
        for row in set(range(count)) - {k}:
            factor = graph.add("Div", Q[row, k], Q[k, k])
            for column in range(k + 1, count + 1):
                part = graph.add("Mul", factor, Q[k, column])
                Q[row, column] = graph.add("Sub", Q[row, column], part)
    found = [graph.add("Div", Q[k, count], Q[k, k]) for k in range(count)]
    every = graph.add("Concat", *found, axis=1)
    return str(graph.add("Max", every, graph.number(0.0)))
