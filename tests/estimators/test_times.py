"""Concordance, Kaplan–Meier and curves from risks against their definitions; what y may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelweave.estimators._times import (
    TIMES,
    baseline,
    concordance,
    kaplan_meier,
    read_times,
    survival,
)


def drawn(seed: int, n: int = 40) -> tuple[Any, Any, Any, Any]:
    """Times, events, risks and weights with many ties."""
    rng = np.random.default_rng(seed)
    risk = rng.integers(0, 8, n) if seed % 2 else rng.standard_normal(n)
    return rng.integers(1, 12, n) * 1.0, rng.random(n) < 0.6, risk * 1.0, rng.integers(1, 4, n)


@pytest.mark.parametrize("seed", range(6))
def test_concordance_is_harrells_definition(seed: int) -> None:
    time, event, risk, weights = drawn(seed)
    for w in (np.ones(time.size), weights):
        pairs = right = 0.0
        for i in range(time.size):
            for j in range(time.size):
                later = time[j] > time[i] or (time[j] == time[i] and not event[j])
                if i != j and event[i] and later:
                    pairs += w[i] * w[j]
                    right += w[i] * w[j] * ((risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j]))
        assert concordance(time, event, risk, w) == pytest.approx(right / pairs, rel=1e-13)
    distinct = risk + 1e-6 * np.arange(risk.size)
    total = concordance(time, event, distinct) + concordance(time, event, -distinct)
    assert total == pytest.approx(1.0, rel=1e-13)


def test_whole_weights_are_repeated_rows() -> None:
    """But for pairs of copies of one row, which are never comparable."""
    time, event, risk, weights = drawn(1)
    rows = np.repeat(np.arange(time.size), weights)
    repeated = concordance(time[rows], event[rows], risk[rows])
    assert concordance(time, event, risk, weights) == pytest.approx(repeated, rel=1e-13)
    once = kaplan_meier(time[rows], event[rows])
    for found, expected in zip(kaplan_meier(time, event, weights), once, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    curve, copies = (time, event, risk, weights), (time[rows], event[rows], risk[rows])
    for found, expected in zip(baseline(*curve), baseline(*copies), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_no_pair_to_compare() -> None:
    assert np.isnan(concordance(np.ones(3), np.zeros(3, dtype=bool), np.arange(3.0)))
    assert np.isnan(concordance(np.ones(3), np.ones(3, dtype=bool), np.arange(3.0)))
    assert np.isnan(concordance(np.arange(3.0), np.arange(3) == 2, np.arange(3.0)))


@pytest.mark.parametrize("seed", range(4))
def test_kaplan_meier_is_the_product_of_its_definition(seed: int) -> None:
    time, event, _, _ = drawn(seed)
    times, share, error = kaplan_meier(time, event)
    assert times.tolist() == sorted(set(time[event]))
    left, terms = 1.0, 0.0
    for t, s, e in zip(times, share, error, strict=True):
        at_risk, events = np.sum(time >= t), np.sum((time == t) & event)
        left *= 1.0 - events / at_risk
        if at_risk > events:
            terms += events / (at_risk * (at_risk - events))
        assert s == pytest.approx(left, abs=1e-14)
        assert e == pytest.approx(left * np.sqrt(terms), abs=1e-14)


@pytest.mark.parametrize("seed", range(4))
def test_the_curves_maximize_the_partial_likelihood(seed: int) -> None:
    time, event, risk, _ = drawn(seed)
    beta, origin, times, hazard = baseline(time, event, risk)
    assert origin == pytest.approx(risk.mean())

    def likelihood(b: float) -> float:
        return float(
            sum(b * risk[i] - np.log(np.exp(b * risk[time >= time[i]]).sum())
                for i in np.flatnonzero(event))
        )  # fmt: skip

    assert all(likelihood(beta) >= likelihood(b) - 1e-6 for b in (0.0, beta / 2, beta + 0.1))
    shares = np.exp(beta * (risk - origin))
    steps = [np.sum((time == t) & event) / shares[time >= t].sum() for t in times]
    np.testing.assert_allclose(hazard, np.cumsum(steps), rtol=1e-10)


def test_curves_fall_from_1_and_order_rows_by_risk() -> None:
    time, event, _, _ = drawn(0, 200)
    fitted = baseline(time, event, -time)  # perfect order: a finite slope all the same
    assert np.isfinite(fitted[0]) and np.isfinite(fitted[3]).all()
    at = np.linspace(0.0, 20.0, 30)
    curves = survival(*fitted, np.array([-9.0, -5.0, -2.0]), at)
    assert curves.shape == (3, 30) and (curves[:, 0] == 1.0).all()
    assert (np.diff(curves, axis=1) <= 0.0).all() and (np.diff(curves, axis=0) <= 0.0).all()
    assert (survival(*fitted, np.array([1e9]), at)[0, -1:] == 0.0).all()
    same = baseline(time, event, np.zeros(200))
    assert same[0] == 0.0
    times, share, _ = kaplan_meier(time, event)
    found = survival(*same, np.zeros(1), times)[0]  # Nelson and Aalen's estimate
    lost = 1.0 - share / np.r_[1.0, share[:-1]]
    np.testing.assert_allclose(found, np.exp(-np.cumsum(lost)), rtol=1e-12)


def test_nearly_equal_risks_overflow_nothing() -> None:
    time, event, _, _ = drawn(0, 200)
    fitted = baseline(time, event, 1e3 - 1e-9 * time)
    curves = survival(*fitted, np.array([0.0, 1e3, 2e3]), time)
    assert np.isfinite(curves).all()


def test_all_forms_of_y_are_one() -> None:
    time, event, _, _ = drawn(0)
    both = np.empty(time.size, [("dead", bool), ("days", float)])
    both["dead"], both["days"] = event, time
    frame = pd.DataFrame({"days": time, "dead": event.astype(int)})
    turned = pd.DataFrame({"dead": event, "days": time})
    forms = [both, np.column_stack([time, event]), frame, turned, frame.to_numpy().tolist()]
    for y in forms:
        found = read_times(y)
        assert found.dtype == TIMES
        np.testing.assert_array_equal(found["time"], time)
        np.testing.assert_array_equal(found["event"], event)
    assert read_times(time)["event"].all() and read_times(pd.Series(time))["event"].all()


WRONG: dict[str, tuple[Any, str]] = {
    "negative": ([[1.0, 1], [-2.0, 0]], "negative times, in 1 rows, the first in row 1: -2"),
    "missing": ([1.0, np.nan, 2.0], "contains NaN among its times.*row 1"),
    "infinite": ([np.inf, 1.0], "infinity among its times"),
    "other order": ([[1, 5.0], [0, 3.0]], "events must be 1 .*found 5 in row 0.*in this order"),
    "three columns": (np.ones((4, 3)), r"two columns, time and event.*shape \(4, 3\)"),
    "deep": (np.ones((4, 2, 2)), "two columns, time and event"),
    "no event known": ([[1.0, np.nan]], "events must be 1"),
    "complex": (np.ones(3) * 1j, "Complex data not supported"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name: str) -> None:
    y, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        read_times(y)


def test_words_are_refused() -> None:
    with pytest.raises(TypeError, match="Times must be numbers"):
        read_times(["soon", "late"])
    with pytest.raises(TypeError, match="Events must be true or false"):
        read_times(pd.DataFrame({"t": [1.0, 2.0], "e": ["yes", "no"]}))
    with pytest.raises(TypeError, match="masked"):
        read_times(np.ma.masked_array([1.0, 2.0], [False, True]))
