"""Two versions of the library, fit by fit in turn: has a change made it slower?

    git worktree add ../before COMMIT
    python -m benchmarks.harness.versus ../before/src               every problem
    python -m benchmarks.harness.versus ../before/src newton pima   rows with these words
    python -m benchmarks.harness.versus ../before/src --rounds 31   more of them where it is busy

Problems are those of ``speed.py`` for our learners, to a gap of 1e-2, and those of
``smo_vs_libsvm.py``: one Gaussian kernel, equal weights, to 1e-3. "bank" is the stack as each
version's bank keeps it, "array" the same kernels given as an array. ``KernelStack(K)`` and
``MKLClassifier``, fit and predict, have rows of their own.

Three processes stay and take turns, so that all see the same load: the earlier version twice, and
this one. Times are medians of processor seconds, one thread; what takes less than 20 ms is done
several times. "noise" is the ratio of the earlier version to itself: what a ratio of nothing at
all looks like.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.harness.markdown_tables import table
from benchmarks.harness.paper_data import half, matrices, rakoto_bank, sample
from benchmarks.harness.rakoto_sets import SETS

LEARNERS = ["newton", "simple", "silp", "skm"]
WORKER = """
import json, sys, time, warnings
import numpy as np
import kernelweave as kw
warnings.simplefilter("ignore")
known = {}

def once(make, *key):
    if key not in known:
        known[key] = make()
    return known[key]

def bank(X, single):
    if single:
        return kw.KernelBank([kw.Gaussian(1.0, relative=True)], "all", "trace", "standard").fit(X)
    kernels = [kw.Gaussian(w) for w in (0.5, 1, 2, 5, 7, 10, 12, 15, 17, 20)]
    kernels += [kw.Polynomial(degree) for degree in (1, 2, 3)]
    return kw.KernelBank(kernels, "all+each", "unit_trace", "standard").fit(X)

def job(task):
    path = task["path"]
    data = once(lambda: dict(np.load(path)), path)
    X, y, K = data["X"], data["y"], data.get("K")
    if task["what"] == "stack":
        return lambda: kw.KernelStack(K)
    if task["what"] == "fit":
        return lambda: kw.MKLClassifier().fit(X, y)
    if task["what"] == "predict":
        model = once(lambda: kw.MKLClassifier().fit(X, y), path, "model")
        return lambda: model.predict(X)
    if task["what"] == "array":
        stack = once(lambda: kw.KernelStack(K), path, "array")
    else:
        stack = once(lambda: bank(X, K is None).stack, path, "bank")
    return lambda: kw.learn(stack, y, C=task["C"], learner=task["learner"], tol=task["tol"])

for line in sys.stdin:
    task = json.loads(line)
    run = job(task)
    began = time.process_time()
    for _ in range(task["times"]):
        found = run()
    seconds = (time.process_time() - began) / task["times"]
    print(json.dumps([seconds, getattr(found, "n_svm_solves", "")]), flush=True)
"""


class Version:
    """A process that fits with the library of one source folder."""

    def __init__(self, source: Path) -> None:
        threads = dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "1")
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env={**os.environ, **threads, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, task: dict) -> tuple[float, int]:
        """Processor seconds of one run, machines solved."""
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a version ended at {task}")
        return tuple(json.loads(line))


def tasks(data: str | None, folder: Path) -> dict[str, dict]:
    """Every problem by a name of its own."""
    found = {}
    for name in SETS:
        split, path = half(name, data, 0), str(folder / f"{name}.npz")
        np.savez(path, X=split.X, y=split.y, K=matrices(rakoto_bank(split.X).stack))
        for C in (1.0, 100.0):
            for learner in LEARNERS:
                for what in ("bank", "array"):
                    task = {"path": path, "what": what, "C": C, "learner": learner, "tol": 1e-2}
                    found[f"{name} {learner} C={C:g} {what}"] = task
        found[f"{name} KernelStack(K)"] = {"path": path, "what": "stack"}
        for what in ("fit", "predict"):
            found[f"{name} MKLClassifier {what}"] = {"path": path, "what": what}
    for n, name in {350: "ionosphere", 2000: "adult_a6a"}.items():
        X, y = sample(name, data, n)
        path = str(folder / f"one{n}.npz")
        np.savez(path, X=X, y=y)
        for C in (1.0, 10.0, 100.0):
            task = {"path": path, "what": "bank", "C": C, "learner": "uniform", "tol": 1e-3}
            found[f"one kernel n={n} C={C:g}"] = task
    return found


def compared(versions: list[Version], task: dict, rounds: int) -> tuple[list[float], list[int]]:
    """Median seconds and machines solved of each version, which take turns."""
    for version in versions:  # not counted: first calls compile, first pages are touched
        seconds, _ = version.run({**task, "times": 1})
    seconds, _ = versions[0].run({**task, "times": 1})
    task = {**task, "times": max(1, round(0.02 / max(seconds, 1e-5)))}
    times: list[list[float]] = [[] for _ in versions]
    solves = [0] * len(versions)
    for turn in range(rounds):
        for place in range(len(versions)):
            k = (turn + place) % len(versions)
            seconds, solves[k] = versions[k].run(task)
            times[k].append(seconds)
    return [median(each) for each in times], solves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="the source folder of the earlier version")
    parser.add_argument("words", nargs="*", help="only problems whose name has all these words")
    parser.add_argument("--rounds", type=int, default=11, help="times that each version runs")
    parser.add_argument("--data", default=os.environ.get("KERNELWEAVE_DATA"))
    args = parser.parse_args()
    earlier, now = args.before.resolve(), Path(__file__).parents[2] / "src"
    versions = [Version(source) for source in (earlier, earlier, now)]
    rows, ratios, noise = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, task in tasks(args.data, Path(folder)).items():
            if not set(args.words) <= set(name.split()):
                continue
            (old, same, new), (machines, _, machines_now) = compared(versions, task, args.rounds)
            ratios.append(new / old)
            noise.append(same / old)
            solves = f"{machines} → {machines_now}" if machines else ""
            rows.append([name, 1e3 * old, 1e3 * new, ratios[-1], noise[-1], solves])
            print(name, f"{ratios[-1]:.2f} ({noise[-1]:.2f})", file=sys.stderr, flush=True)
    table(["problem", "ms before", "ms now", "ratio", "noise", "machines solved"], rows)
    for what, found in (("ratio", ratios), ("noise", noise)):
        print(f"{what}: median {median(found):.2f}, largest {max(found):.2f} of {len(found)}")


if __name__ == "__main__":
    main()
