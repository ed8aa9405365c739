"""The walk counts functions of the package, and shows what crosses from file to file."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST = (40, 320, 15, 61)


def test_a_walk_tells_what_ran_and_what_was_handed_over():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.harness.walk"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    numbers = re.findall(r"^(fit|predict): (\d+) files, (\d+) functions$", done.stdout, re.M)
    (fit, *fitted), (predict, *predicted) = numbers
    assert (fit, predict) == ("fit", "predict")
    assert [int(k) > 5 for k in (*fitted, *predicted)] == [True] * 4
    if sys.version_info < (3, 12):  # later ones run comprehensions in place
        counts = [int(k) for k in (*fitted, *predicted)]
        assert all(k <= most for k, most in zip(counts, MOST, strict=True)), counts
    assert "MKLClassifier.fit(X: array (569, 30), y: array int64 (569,)" in done.stdout
    assert "MKLClassifier.predict(X: array (569, 30))" in done.stdout
    lines = re.findall(r"^ +\S+\.py: (?!\(again\)).*", done.stdout.partition("predict:")[0], re.M)
    assert len(lines) == len(set(lines)) > 10
