"""Two versions of the library, fit by fit in turn: has a change made it slower?

    git worktree add ../before COMMIT
    python -m benchmarks.harness.versus ../before/src               every problem
    python -m benchmarks.harness.versus ../before/src newton pima   rows with these words

Problems are those of ``speed.py`` for our learners, to a gap of 1e-2, and those of
``smo_vs_libsvm.py``: one Gaussian kernel, equal weights, to 1e-3. "bank" is the stack as each
version's bank keeps it, "array" the same kernels given as an array. Each version has a process of
its own, which stays; the two take turns, so that both see the same load. Times are medians of
processor seconds, one thread.
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

ROUNDS = 11  # after one that is not counted
LEARNERS = ["newton", "simple", "silp", "skm"]
WORKER = """
import json, sys, time, warnings
import numpy as np
import kernelweave as kw
warnings.simplefilter("ignore")
stacks = {}
def stack(path, single, kind):
    if (path, kind) not in stacks:
        data = np.load(path)
        if kind == "array":
            found = kw.KernelStack(data["K"])
        else:
            kernels = [kw.Gaussian(1.0, relative=True)]
            if not single:
                kernels = [kw.Gaussian(w) for w in (0.5, 1, 2, 5, 7, 10, 12, 15, 17, 20)]
                kernels += [kw.Polynomial(degree) for degree in (1, 2, 3)]
            views, rule = ("all", "trace") if single else ("all+each", "unit_trace")
            found = kw.KernelBank(kernels, views, rule, "standard").fit(data["X"]).stack
        stacks[path, kind] = found, data["y"]
    return stacks[path, kind]
for line in sys.stdin:
    task = json.loads(line)
    K, y = stack(task["path"], task["single"], task["kind"])
    began = time.process_time()
    solution = kw.learn(K, y, C=task["C"], learner=task["learner"], tol=task["tol"])
    seconds = time.process_time() - began
    print(json.dumps([seconds, solution.n_svm_solves, solution.gap]), flush=True)
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

    def fit(self, task: dict) -> tuple[float, int, float]:
        """Processor seconds, machines solved, gap."""
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
                for kind in ("bank", "array"):
                    key = f"{name} {learner} C={C:g} {kind}"
                    found[key] = {"path": path, "single": False, "kind": kind, "C": C}
                    found[key] |= {"learner": learner, "tol": 1e-2}
    for n, name in {350: "ionosphere", 2000: "adult_a6a"}.items():
        X, y = sample(name, data, n)
        path = str(folder / f"one{n}.npz")
        np.savez(path, X=X, y=y)
        for C in (1.0, 10.0, 100.0):
            task = {"path": path, "single": True, "kind": "bank", "C": C}
            found[f"one kernel n={n} C={C:g}"] = {**task, "learner": "uniform", "tol": 1e-3}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="the source folder of the earlier version")
    parser.add_argument("words", nargs="*", help="only problems whose name has all these words")
    parser.add_argument("--data", default=os.environ.get("KERNELWEAVE_DATA"))
    args = parser.parse_args()
    now = Path(__file__).parents[2] / "src"
    before, after = Version(args.before.resolve()), Version(now)
    rows, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, task in tasks(args.data, Path(folder)).items():
            if not set(args.words) <= set(name.split()):
                continue
            pairs = [(before.fit(task), after.fit(task)) for _ in range(ROUNDS + 1)][1:]
            old, new = (median(pair[k][0] for pair in pairs) for k in (0, 1))
            ratios.append(new / old)
            solves = "{} → {}".format(*(part[1] for part in pairs[-1]))
            rows.append([name, 1e3 * old, 1e3 * new, new / old, solves])
            print(name, f"{new / old:.2f}", file=sys.stderr, flush=True)
    table(["problem", "ms before", "ms now", "ratio", "machines solved"], rows)
    print(f"median ratio {median(ratios):.2f}, largest {max(ratios):.2f} of {len(ratios)}")


if __name__ == "__main__":
    main()
