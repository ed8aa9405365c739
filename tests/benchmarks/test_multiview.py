"""The multi-view experiment: its methods are ours, and test rows decide nothing."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

MULTIVIEW = """
import dataclasses, json, numpy as np
from benchmarks.accuracy import multiview
from benchmarks.harness import multiview_data
from kernelweave import KernelBank, MKLClassifier

rng = np.random.default_rng(0)
y = np.where(np.arange(120) % 3 == 0, 1.0, -1.0)
X = rng.standard_normal((120, 4)) + 0.7 * y[:, None] * np.array([1.0, 0.0, 1.0, 0.0])
columns = {"left": [0, 1], "right": [2, 3]}
banks = {name: KernelBank(views={name: own}) for name, own in columns.items()}
views = multiview_data.MultiView(X, {"task": y}, y, banks, KernelBank(), 60, 40)
train, test = views.split(0)
found = multiview.measure_split(views, 0)["tasks"]["task"]

opposite = y.copy()
opposite[test] *= -1
flipped = dataclasses.replace(views, tasks={"task": opposite})
noise = X.copy()
noise[test] = rng.standard_normal((40, 4))
noisy = dataclasses.replace(views, X=noise)

def accuracy(bank, method, **options):
    model = MKLClassifier(bank, C=found[method]["C"], **options).fit(X[train], y[train])
    return 100 * model.score(X[test], y[test])

every = KernelBank(views=columns)
print(json.dumps({
    "found": found,
    "flipped": multiview.measure_split(flipped, 0)["tasks"]["task"],
    "noisy": multiview.measure_split(noisy, 0)["tasks"]["task"],
    "estimators": {
        "left": accuracy(banks["left"], "left", learner="uniform"),
        "concatenated": accuracy(None, "concatenated", learner="uniform"),
        "uniform": accuracy(every, "uniform", learner="uniform"),
        "MKL ℓ1": accuracy(every, "MKL ℓ1"),
        "MKL ℓ2": accuracy(every, "MKL ℓ2", weight_norm=2),
        "radius": accuracy(every, "radius", learner="radius"),
    },
}))
"""


@pytest.fixture(scope="module")
def split():
    """One split of two views as the multi-view experiment measures it, and by other ways."""
    done = subprocess.run(
        [sys.executable, "-c", MULTIVIEW], cwd=ROOT, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_methods_of_several_views_are_what_estimators_fit(split):
    for method, accuracy in split["estimators"].items():
        assert split["found"][method]["accuracy"] == pytest.approx(accuracy, abs=1e-3), method
    best = split["found"]["best view"]
    assert {**split["found"][best["view"]], "view": best["view"]} == best


def test_test_rows_decide_nothing(split):
    """Neither C nor the weights nor the best view change with the labels or values of test rows."""
    for other in ("flipped", "noisy"):
        for method, record in split["found"].items():
            for field in ("C", "gap", "kernels", "views", "view"):
                assert split[other][method].get(field) == record.get(field), (method, field)
    for method, record in split["found"].items():
        assert split["flipped"][method]["accuracy"] == pytest.approx(
            100.0 - record["accuracy"], abs=1e-3
        )
        assert split["flipped"][method]["auc"] == pytest.approx(100.0 - record["auc"], abs=1e-3)
