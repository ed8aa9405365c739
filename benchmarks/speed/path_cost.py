"""The regularization path against cold fits, and refits from a solution's own end.

100 values of C on a random half of ionosphere: 50 evenly in [0.1, 10], 50 in [10, 100]; unit
trace, gap 1e-2. The path hands weights and alphas on from the largest C down [rakoto2007, §3.1];
the cold fits start from equal weights each time.

Learners: 24 values of C from 1 to 100, evenly on a logarithmic scale, on halves of three sets, by
four learners at two gaps. Processor seconds of the path and of as many cold fits, in one process.
On the path every C but the first begins with Newton's steps, whatever the learner; cold fits have
none.
"""

import time
import warnings

import numpy as np

import kernelweave as kw
from benchmarks.harness import common
from benchmarks.harness.rakoto_sets import PATH_TOL, along, follow, prepare, values_of_C
from kernelweave.learners import NAMES

LEAST = {"newton": 4.0, "simple": 3.0, "silp": 2.5, "skm": 2.0}  # cold fits over path
SETS = ("ionosphere", "sonar", "pima")


def compare(data, learner, seed, Cs):
    split, bank = prepare("ionosphere", "unit_trace", seed, data)
    stack, y = bank.stack, split.y
    ways = {
        "path": along(stack, y, Cs, learner),
        "cold": follow(
            stack,
            y,
            Cs,
            lambda: [kw.learn(stack, y, C=C, learner=learner, tol=PATH_TOL) for C in Cs],
        ),
    }
    record = {"Cs": Cs, "ratio": ways["path"]["total"] / ways["cold"]["total"]}
    for name, found in ways.items():
        record[name] = found.pop("total")
        record |= {f"{name}_{field}": value for field, value in found.items()}
    return record


def refit(data, learner, tol, limit):
    split, bank = prepare("ionosphere", "unit_trace", 0, data)
    stack, y = bank.stack, split.y
    options = {"C": 100.0, "tol": tol, "learner": learner, "limit": limit}
    try:
        solution, record = common.fit(stack, y, **options)
    except ValueError as error:
        return {"status": f"refused: {error}"}
    if solution is None:
        return record
    _, again = common.fit(stack, y, start=solution, **options)
    return {**record, "again_solves": again.get("solves"), "again_gap": again.get("own_gap")}


def by_learner(data, name, learner, tol, count):
    """Processor seconds of a path and of cold fits, machines for each C, and the worst gaps."""
    split, bank = prepare(name, "unit_trace", 0, data)
    options = {"learner": learner, "tol": tol, "max_iter": 100_000}
    Cs = np.geomspace(1.0, 100.0, count)
    ways = {
        "path": lambda Cs: kw.regularization_path(bank.stack, split.y, Cs, **options),
        "cold": lambda Cs: [kw.learn(bank.stack, split.y, C=C, **options) for C in Cs],
    }
    record = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way, solve in ways.items():
            solve(Cs[:2])  # compiled
            began = time.process_time()
            found = solve(Cs)
            record[way] = time.process_time() - began
            record[f"{way}_solves"] = sum(one.n_svm_solves for one in found) / count
            record[f"{way}_gap"] = max(one.certificate().gap for one in found)
    return record | {"times": record["cold"] / record["path"]}


def tell_learners(results, keys):
    print("24 values of C from 1 to 100: cold fits against the path, processor seconds\n")
    fields = ["path", "cold", "times", "path_solves", "cold_solves", "path_gap", "cold_gap"]
    cells = {key: cell for key in keys if (cell := results.get("learners", *key))}
    header = ["set", "learner", "tol", "path s", "cold s", *fields[2:]]
    common.table(header, [[*key, *map(cell.get, fields)] for key, cell in cells.items()])
    for learner, least in LEAST.items():
        found = [cells[key]["times"] for key in keys if key in cells and key[1] == learner]
        worst = min(found) if len(found) == sum(key[1] == learner for key in keys) else None
        met = None if worst is None else worst >= least
        results.bar(f"{learner}: cold fits take at least {least:g} times as long", worst, met)
    gaps = [cell["path_gap"] / key[2] for key, cell in cells.items()]
    worst = max(gaps) if len(gaps) == len(keys) else None
    results.bar("paths of all learners: largest gap over tol", worst, worst and worst <= 1.01)


def main():
    args = common.arguments(
        __doc__, splits={"type": int, "default": 3, "help": "random halves of ionosphere (3)"}
    )
    Cs = values_of_C(6 if args.quick else 100)
    splits, limit = (1, 5.0) if args.quick else (args.splits, 300.0)
    paths = [(learner, seed) for seed in range(splits) for learner in ("simple", "newton")]
    refits = [(name, tol) for name in NAMES if name != "auto" for tol in (1e-2, 1e-4)]
    plan = [(("refit", *key), refit, args.data, *key, limit) for key in refits]
    plan += [(("path", *key), compare, args.data, *key, Cs) for key in paths]
    tols = (1e-2,) if args.quick else (1e-2, 1e-4)
    keys = [(name, learner, tol) for name in SETS for learner in LEAST for tol in tols]
    count = 4 if args.quick else 24
    plan += [(("learners", *key), by_learner, args.data, *key, count) for key in keys]
    results = common.Results("path_cost", args)
    results.fill(plan)

    print(f"path of {len(Cs)} values of C against as many cold fits, gap {PATH_TOL:g}\n")
    fields = ["path", "cold", "ratio", "path_solves", "cold_solves"]
    fields += ["path_worst_gap", "cold_worst_gap"]
    rows = [
        [learner, seed, *(cell[field] for field in fields)]
        for learner, seed in paths
        if (cell := results.get("path", learner, seed))
    ]
    common.table(["learner", "split", "path s", "cold s", *fields[2:]], rows)
    print("refit with start= its own solution, C = 100\n")
    fields = ["status", "own_gap", "solves", "again_solves", "again_gap"]
    rows = [
        [learner, tol, *(cell.get(field) for field in fields)]
        for learner, tol in refits
        if (cell := results.get("refit", learner, tol))
    ]
    common.table(["learner", "tol", *fields], rows)

    ratios = [row["ratio"] for s in range(splits) if (row := results.get("path", "simple", s))]
    worst = max(ratios, default=None)
    met = worst <= 0.2 if len(ratios) == splits else None
    results.bar("a path with simple costs at most a fifth of cold fits", worst, met)
    again = {
        f"{learner} {tol:g}": cell.get("again_solves")
        for learner, tol in refits
        if (cell := results.get("refit", learner, tol)) and cell["status"] == "optimal"
    }
    met = all(n is not None and n <= 2 for n in again.values()) if again else None
    results.bar("a refit from its own solution takes at most 2 SVM solves", again, met)
    tell_learners(results, keys)


if __name__ == "__main__":
    main()
