"""scikit-learn's checks on every estimator with every learner that supports its loss.

    python -m benchmarks.harness.estimator_checks [LEARNER …]

It takes minutes, so that the tests run a selection; names of learners choose among them. Prints a
line per estimator and learner: how many checks passed, and which did not. Expected to fail are only
those that scikit-learn declares for its own SVC: they compare decisions to 1e-7, which a machine
solved to ``tol`` does not meet.
"""

import sys
import warnings

from sklearn.utils.estimator_checks import check_estimator

import kernelweave as kw
from benchmarks.harness.markdown_tables import table
from kernelweave.learners import NAMES

EXPECTED = {f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")}
SKIPPED = {"check_array_api_input"}
ESTIMATORS = {
    "classes, hinge": lambda name: kw.MKLClassifier(learner=name),
    "classes, pairs": lambda name: kw.MKLClassifier(learner=name, multi_class="ovo"),
    "classes, own weights": lambda name: kw.MKLClassifier(learner=name, shared_weights=False),
    "classes, squared hinge": lambda name: kw.MKLClassifier(learner=name, loss="squared_hinge"),
    "numbers, ε": lambda name: kw.MKLRegressor(learner=name),
    "numbers, squared": lambda name: kw.MKLRegressor(learner=name, loss="squared"),
    "numbers, quantile": lambda name: kw.MKLRegressor(learner=name, loss="quantile"),
    "one class": lambda name: kw.MKLOneClass(learner=name),
}


def supported(model):
    """Whether the learner takes the loss at all."""
    X, y = [[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1]
    try:
        model.fit(X, y)
    except ValueError as reason:
        if "does not go with" in str(reason) or "signed" in str(reason):
            return False
        raise
    return True


def main():
    rows, unexpected = [], 0
    for what, make in ESTIMATORS.items():
        for name in sys.argv[1:] or NAMES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if not supported(make(name)):
                    continue
                found = check_estimator(make(name), on_fail=None)
            passed = [r["check_name"] for r in found if r["status"] == "passed"]
            others = {r["check_name"] for r in found} - {*passed} - SKIPPED
            unexpected += len(others - EXPECTED)
            told = ", ".join(sorted(others - EXPECTED)) or "–"
            rows.append([f"{what}, {name}", len(passed), len(others & EXPECTED), told])
            print(rows[-1], file=sys.stderr, flush=True)
    table(["", "passed", "expected failures", "others"], rows)
    return unexpected


if __name__ == "__main__":
    sys.exit(min(1, main()))
