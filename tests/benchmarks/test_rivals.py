"""Rivals: certified as they are said to be, and chosen among by cross-validation."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

RIVALS = """
from benchmarks.harness import common
from benchmarks.harness.rival_methods import choose, one_kernel, weighted

import kernelweave as kw
import numpy as np

rng = np.random.default_rng(0)
y = np.repeat([-1.0, 1.0], 30)
X = rng.standard_normal((4, 60, 3))
X[0] += y[:, None]
X[1] += 0.4 * y[:, None]
K = np.exp(-0.5 * ((X[:, :, None] - X[:, None]) ** 2).sum(axis=3))
stack = kw.KernelStack(K)
L = common.factors(K)
for form, build in common.FORMS.items():
    for solver in ("Clarabel", "SCS"):
        found = common.certified_cone(stack, y, 1.0, build(L, y, 1.0), solver, 1e-4, 30.0)
        assert found["reached"] and found["gap"] <= 1e-4, (form, solver, found)
assert common.certified_loop(stack, K, y, 1.0, 1e-4)["reached"]

rows = np.arange(60)
inner = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
model, record = choose(one_kernel(), K, y, inner)
assert record["setting"].startswith("(0,") and not record["failed"], record
assert common.accuracy(model(K), y) > 80.0
first = weighted(lambda K, y, setting, late: np.eye(len(K))[0], [(None, 1.0)])
alone, _ = choose(first, K, y, inner)
np.testing.assert_allclose(alone(K), common.svc(K[0], y, 1.0).decision_function(K[0]))


def broken(K, y, setting, late):
    raise RuntimeError("singular")


model, record = choose(weighted(broken, [(None, 1.0), (None, 10.0)]), K, y[::-1] * 1.0, inner)
assert record["failed"] == ["RuntimeError singular"] * 4 and set(model(K)) == {-1.0}
"""


def test_rivals_reach_what_they_are_said_to_reach():
    done = subprocess.run(
        [sys.executable, "-c", RIVALS], cwd=ROOT, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
