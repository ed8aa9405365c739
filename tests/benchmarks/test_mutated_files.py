"""Model files changed at random: a small sample of ``benchmarks.harness.mutated_files``."""

from __future__ import annotations


def test_changed_files_are_refused_or_predict(harness, tmp_path):
    tool = harness("mutated_files")
    outcomes, wrong = tool.run(60, 3, tmp_path, names=("default", "missing", "strings"))
    assert not wrong
    total = sum((found.total() for found in outcomes.values()), 0)
    assert total == 60 and len(outcomes) > 10
    assert sum(found["refused"] for found in outcomes.values()) > 20
