"""What times to an event tell without kernels: concordance, Kaplan–Meier, curves from risks.

A row has a time and says whether the event came then; else it was censored: last seen without the
event. At equal times, events come first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from kernelweave._core.checks import check_floats, refuse_masked, shown
from kernelweave._core.jit import jit
from kernelweave._core.types import Array, Mask
from kernelweave.estimators._targets import as_vector, refuse_complex

TIMES = np.dtype([("event", bool), ("time", float)])  # as scikit-survival has them
TINY = np.finfo(float).tiny
_LARGEST = 500.0  # exponent of a factor on hazards: nobody is left
_STEEPEST = 20.0  # log hazard per standard deviation of the risks: more is perfect order


def concordance(time: Array, event: Mask, risk: Array, weights: Array | None = None) -> float:
    """Harrell's C: the share of pairs in which the row with the earlier event has the higher risk.

    A pair counts if it is known whose event came first: i has an event, and j has a later time, or
    the same without an event. It counts w_i w_j times; equal risks are half right. NaN if no pair
    counts.
    """
    counts = np.ones(len(time)) if weights is None else np.asarray(weights, dtype=float)
    levels, place = np.unique(risk, return_inverse=True)
    order = np.lexsort((event, -time))  # from the last one; at equal times, events at the end
    pairs, right = _concordant(
        time[order], event[order], place[order].astype(np.int64), counts[order], len(levels)
    )
    return float(right / pairs) if pairs > 0.0 else float("nan")


@jit
def _concordant(time: Any, event: Any, place: Any, counts: Any, levels: Any) -> Any:
    """The weight of all pairs that count, and of those that are right.

    ``tree`` is a Fenwick tree of the weights of later rows by risk: a prefix sum takes log n steps.
    """
    tree, equal, later = np.zeros(levels + 1), np.zeros(levels), 0.0
    pairs, right, start = 0.0, 0.0, 0
    while start < time.size:
        stop = start + 1
        while stop < time.size and time[stop] == time[start] and event[stop] == event[start]:
            stop += 1
        for k in range(start, stop if event[start] else start):
            below, node = 0.0, place[k]
            while node > 0:
                below += tree[node]
                node -= node & -node
            pairs += counts[k] * later
            right += counts[k] * (below + 0.5 * equal[place[k]])
        for k in range(start, stop):
            node = place[k] + 1
            while node <= levels:
                tree[node] += counts[k]
                node += node & -node
            equal[place[k]] += counts[k]
            later += counts[k]
        start = stop
    return pairs, right


def kaplan_meier(
    time: Array, event: Mask, weights: Array | None = None
) -> tuple[Array, Array, Array]:
    """Times of events, the share without one after each, and its standard error [Greenwood].

    S(t) = Π_{t_k ≤ t} (1 − d_k / n_k): d_k events at time t_k, among the n_k rows seen until then.
    """
    counts = np.ones(len(time)) if weights is None else weights
    times, place = np.unique(time, return_inverse=True)
    events = np.bincount(place, counts * event)
    at_risk = np.cumsum(np.bincount(place, counts)[::-1])[::-1]
    some = events > 0.0
    times, events, at_risk = times[some], events[some], at_risk[some]
    share = np.asarray(np.cumprod(1.0 - events / at_risk), dtype=float)
    rest = at_risk * (at_risk - events)
    steps = np.divide(events, rest, out=np.zeros_like(rest), where=rest > 0.0)
    error: Array = share * np.sqrt(np.cumsum(steps))
    return np.asarray(times), share, error


def baseline(
    time: Array, event: Mask, risk: Array, weights: Array | None = None
) -> tuple[float, float, Array, Array]:
    """β, an origin o, times of events and H₀ there: S(t | r) = exp(−H₀(t) exp(β(r − o))).

    β ≥ 0 maximizes Cox's partial likelihood, with Breslow's cumulative hazard H₀: equal times count
    as Σ_k d_k / Σ_{t_j ≥ t_k} w_j exp(β(r_j − o)). Risks should be of rows that were held out.
    """
    counts = np.ones(len(time)) if weights is None else weights
    times, place = np.unique(time, return_inverse=True)
    events, top, spread = np.bincount(place, counts * event), risk.max(), float(risk.std())
    some, seen = events > 0.0, float(counts[event] @ (risk[event] - top))

    def at_risk(beta: float, values: Array) -> Array:
        """Sums over the rows seen until each time of an event; risks below ``top`` count less."""
        found = np.bincount(place, counts * np.exp(beta * (risk - top)) * values)
        return np.asarray(np.cumsum(found[::-1])[::-1][some])

    def excess(beta: float) -> float:
        """Minus the derivative of the logarithm of the likelihood, which rises with β."""
        mean = at_risk(beta, risk - top) / np.maximum(at_risk(beta, ones), TINY)
        return float(events[some] @ mean) - seen

    ones, beta, most = np.ones(len(time)), 0.0, _STEEPEST / spread if spread > 0.0 else 0.0
    if excess(0.0) < 0.0 < most:
        beta = most if excess(most) <= 0.0 else float(brentq(excess, 0.0, most))
    hazard = np.cumsum(events[some] / np.maximum(at_risk(beta, ones), TINY))
    origin = float(np.average(risk, weights=counts))
    return beta, origin, times[some], hazard * np.exp(beta * (origin - top))


def survival(
    beta: float, origin: float, times: Array, hazard: Array, risk: Array, at: Array
) -> Array:
    """S(t | r) of ``baseline`` for every risk and time, (n, n_times)."""
    reached = np.concatenate([[0.0], hazard])[np.searchsorted(times, at, side="right")]
    factor = np.exp(np.minimum(beta * (risk - origin), _LARGEST))
    return np.exp(-reached * factor[:, None])


# ---- targets -----------------------------------------------------------------------------------


def read_times(y: Any) -> Any:
    """Times and events of all rows as ``TIMES``, (n,).

    y: a structured array of a field of truth values and one of numbers, as scikit-survival has it;
    two columns, time and event, as an array or a frame; or (n,), where all events were seen.
    """
    refuse_masked("y", y, "leave rows without a time out of X and y.")
    refuse_complex(y)
    time, event = _columns(y)
    found = np.empty(len(time), TIMES)
    found["time"], found["event"] = _as_times(time), _as_events(event)
    return found


def _columns(y: Any) -> tuple[Any, Any]:
    """Times and events as they were given."""
    if hasattr(y, "columns"):
        columns = [y.iloc[:, place].to_numpy() for place in range(y.shape[1])]
    elif (array := np.asarray(y)).dtype.names:
        columns = [array[name] for name in array.dtype.names]
    elif array.ndim == 1 or array.shape[1:] == (1,):
        return (vector := as_vector(y)), np.ones(len(vector), dtype=bool)
    else:
        columns = [*array.T] if array.ndim == 2 else []
    if len(columns) != 2:
        raise ValueError(
            "y must be two columns, time and event, a structured array of both, or times alone "
            f"where all events were seen; found {shown(np.asarray(y))}."
        )
    time, event = columns
    return (event, time) if time.dtype == bool and event.dtype != bool else (time, event)


def _as_times(time: Any) -> Array:
    """Times as floats, none negative or missing."""
    try:
        values = check_floats("y", time)
    except TypeError as error:
        raise TypeError(f"{error}. Times must be numbers; give (time, event).") from None
    for wrong, what in (
        (np.isnan(values), "Input y contains NaN among its times"),
        (np.isinf(values), "Input y contains infinity among its times"),
        (values < 0.0, "y holds negative times"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"{what}, in {np.count_nonzero(wrong)} rows, the first in row {row}: "
                f"{values[row]:g}; leave these rows out of X and y."
            )
    return values


def _as_events(event: Any) -> Mask:
    """Whether the event of each row was seen, from truth values or the numbers 0 and 1."""
    if event.dtype == bool:
        return np.asarray(event)
    try:
        values = check_floats("y", event)
    except TypeError as error:
        raise TypeError(f"{error}. Events must be true or false, or 1 or 0.") from None
    if not np.isin(values, (0.0, 1.0)).all():
        row = int(np.argmax(~np.isin(values, (0.0, 1.0))))
        raise ValueError(
            f"y: events must be 1 (seen) or 0 (censored), found {values[row]:g} in row {row}; the "
            "columns of y are time and event, in this order."
        )
    return values == 1.0
