"""The benchmark harness, on experiments of its own: no data set, no timing."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"

EXPERIMENT = """\"\"\"What is a square.

Whole numbers only.
\"\"\"

import common

SHOWS = "euclid, table 1"


def square(k, stop):
    if k == stop:
        raise KeyboardInterrupt
    if k == 2:
        raise common.Skipped("two is missing")
    return {"square": k * k}


def main():
    number = {"type": int, "default": -1}
    args = common.arguments(__doc__, stop=number, processes={**number, "default": 1})
    results = common.Results("toy", args)
    results.fill([((k, "squared"), square, k, args.stop) for k in range(4)], args.processes)
    known = [k for k in range(4) if results.get(k, "squared")]
    common.table(["k", "k²"], [[k, results.get(k, "squared")["square"]] for k in known])
    results.bar("three squares", len(known), len(known) == 3)


if __name__ == "__main__":
    main()
"""


def load(name):
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def report():
    return load("report")


@pytest.fixture(scope="module")
def ranking():
    return load("ranking")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The harness with one experiment."""
    folder = tmp_path_factory.mktemp("project") / "benchmarks"
    folder.mkdir()
    shared = ["common", "conic", "datasets", "objective", "report", "run", "runner", "solvers"]
    for name in shared:
        shutil.copy(BENCHMARKS / f"{name}.py", folder)
    shutil.copy(BENCHMARKS / "README.md", folder)
    (folder / "toy.py").write_text(EXPERIMENT, encoding="utf-8")
    return folder


def run(folder, *command):
    return subprocess.run(
        [sys.executable, str(folder / command[0]), *command[1:]],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )


def test_an_interrupted_run_goes_on_and_its_page_tells_all(folder):
    run(folder, "toy.py", "--stop", "3", "--data", "somewhere")
    kept = json.loads((folder / "results" / "toy.json").read_text(encoding="utf-8"))
    assert set(kept["cells"]) == {"0/squared", "1/squared"}
    assert kept["skipped"] == {"2/squared": "two is missing"}
    assert kept["options"] == kept["runs"][0]["options"] == ["--stop", "3"]

    done = run(folder, "run.py")
    assert done.returncode == 0, done.stderr
    now = json.loads((folder / "results" / "toy.json").read_text(encoding="utf-8"))
    assert {key: cell["run"] for key, cell in now["cells"].items()} == {
        "0/squared": 0,
        "1/squared": 0,
        "3/squared": 1,
    }
    run_record = now["runs"][-1]
    assert {"date", "commit", "versions", "processor", "cores", "threads"} <= set(run_record)
    assert "numba: 1" in run_record["threads"]
    assert "threads: " in done.stderr and "numba: 1" in done.stderr

    page = (folder.parent / "docs" / "results" / "toy.md").read_text(encoding="utf-8")
    for text in (
        "# What is a square\n",
        "euclid, table 1",
        "`python benchmarks/toy.py`",
        run_record["date"][:10],
        "| 3 |  9 |",
        "- met: three squares (measured: 3)",
        "- 2/squared: two is missing",
    ):
        assert text in page
    index = (folder.parent / "docs" / "results" / "README.md").read_text(encoding="utf-8")
    assert "[What is a square](toy.md)" in index and "1 of 1" in index
    assert "`python benchmarks/toy.py`" in (folder / "README.md").read_text(encoding="utf-8")


def test_several_processes_find_the_same(folder):
    done = run(folder, "toy.py", "--quick", "--fresh", "--processes", "2")
    assert "| 3 |  9 |" in done.stdout
    kept = json.loads((folder / "results" / "toy.quick.json").read_text(encoding="utf-8"))
    assert {key: cell["square"] for key, cell in kept["cells"].items()} == {
        f"{k}/squared": k * k for k in (0, 1, 3)
    }
    assert kept["skipped"] == {"2/squared": "two is missing"}


def test_a_failing_experiment_is_reported_and_stops_no_other(folder):
    (folder / "broken.py").write_text(
        '"""What breaks."""\n\n\ndef main():\n    raise ValueError\n\n\nmain()\n', encoding="utf-8"
    )
    try:
        done = run(folder, "run.py", "--quick")
    finally:
        (folder / "broken.py").unlink()
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert (folder.parent / "build" / "results" / "toy.md").exists()


def test_every_experiment_says_what_it_asks(report):
    found = report.experiments()
    assert {"rakoto_gaps", "gai_table1", "newton_speed", "figures"} <= set(found)
    assert not {"common", "runner", "report", "run"} & set(found)
    for experiment in found.values():
        assert experiment.title != experiment.name


def test_a_page_names_the_command_for_all_of_it(report):
    """Runs of some parts add to a page of all; numbers such as --limit stay."""
    known = {"options": ["--quick", "--parts", "floor", "conic", "--limit", "900", "--sets", "a"]}
    command = report.experiments()["newton_speed"].command(known)
    assert command == ["python", "benchmarks/newton_speed.py", "--quick", "--limit", "900"]
    lists = re.compile(r'(\w+)=\{\s*"nargs": "\+"')
    experiments = [e.path.read_text(encoding="utf-8") for e in report.experiments().values()]
    found = {f"--{name}" for text in experiments for name in lists.findall(text)}
    assert found == set(report.CHOICES)


class Silent:
    def bar(self, text, measured, met):
        self.measured, self.met = measured, met


def test_comparison_with_a_paper(report, capsys):
    ours = np.array([79.0, 81.0, 80.0, 80.0])  # mean 80, standard error √(2/3)/2
    error = np.sqrt(2.0 / 3.0) / 2.0
    comparison = report.Comparison("set")
    comparison.add(("paper's error",), ours, 81.2, 0.5)
    comparison.add(("ours for both",), ours, 81.2)
    comparison.add(("too far",), ours, 81.3, 0.1)
    comparison.add(("not rounded",), np.full(3, 70.04), 70.0, 0.0)
    comparison.add(("not measured",), [], 50.0, 1.0)
    first, second, third, fourth = comparison.pairs
    assert first.allowed == pytest.approx(2.0 * np.sqrt(error**2 + 0.25))
    assert second.allowed == pytest.approx(2.0 * np.sqrt(2.0) * error)
    assert [pair.agrees for pair in (first, second, third, fourth)] == [True, False, False, False]
    assert fourth.difference == pytest.approx(0.04)
    results = Silent()
    comparison.show(results, wanted=4)
    assert results.measured == "1 of 4, 25 %" and results.met is False
    assert "too far" in capsys.readouterr().out
    comparison.show(results, wanted=5)
    assert results.met is None


def test_times_show_their_spread(report):
    assert report.ms({"median": 0.0021, "low": 0.002, "high": 0.0024}) == "2.1 (2–2.4)"
    assert report.ms({"median": 0.002, "low": 0.002, "high": 0.002}) == "2"


def test_splits_without_common_rows_are_independent(report):
    differences = np.array([0.3, -0.1, 0.8, 0.4, 0.2])
    mean, half, p = report.corrected_t_test(differences, 0.0)
    plain = scipy.stats.ttest_1samp(differences, 0.0)
    assert mean == pytest.approx(0.32) and p == pytest.approx(plain.pvalue)
    assert mean + half == pytest.approx(plain.confidence_interval(0.95).high)


def test_splits_with_common_rows_prove_less(report):
    """Nadeau and Bengio: a third of the rows to test adds n_test/n_train = 1/2 to 1/J."""
    differences = np.array([0.3, -0.1, 0.8, 0.4, 0.2])
    _, plain, _ = report.corrected_t_test(differences, 0.0)
    _, corrected, _ = report.corrected_t_test(differences, 1.0 / 3.0)
    assert corrected / plain == pytest.approx(np.sqrt((0.2 + 0.5) / 0.2))
    assert report.corrected_t_test(np.zeros(4), 0.2) == (0.0, 0.0, 1.0)


MULTIVIEW = """
import dataclasses, json, multiview, multiview_data, numpy as np
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
        [sys.executable, "-c", MULTIVIEW],
        capture_output=True,
        encoding="utf-8",
        env={
            **os.environ,
            "PYTHONPATH": f"{BENCHMARKS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        },
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


def test_ranks_and_what_tells_them_apart(ranking):
    scores = np.array([[90.0, 80.0, 80.0], [70.0, 75.0, 60.0]])
    np.testing.assert_allclose(ranking.average_ranks(scores), [1.5, 1.75, 2.75])
    # [demsar2006]: four methods on 14 sets; q for ten methods
    assert ranking.critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert ranking.critical_difference(10, 1) == pytest.approx(3.164 * np.sqrt(110 / 6), abs=0.01)
    np.testing.assert_allclose(ranking.holm([0.04, 0.01, 0.03]), [0.06, 0.03, 0.06])
    assert ranking.wilcoxon(scores[:, 0], scores[:, 0]) == 1.0
    # six differences of one sign: 2/2⁶
    assert ranking.wilcoxon(np.arange(1.0, 7.0), np.zeros(6)) == pytest.approx(1 / 32)
    assert ranking.standing(scores[:, 0], scores[:, 1]) == "1 – 0 – 1"
    alike = np.tile([3.0, 2.0, 1.0], (12, 1))
    assert ranking.friedman(alike) < 1e-4


RIVALS = """
import common
import numpy as np
from methods import choose, one_kernel, weighted

import kernelweave as kw

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


def test_rivals_reach_what_they_are_said_to_reach(folder):
    for name in ("methods", "ranking"):
        shutil.copy(BENCHMARKS / f"{name}.py", folder)
    (folder / "snippet.py").write_text(RIVALS, encoding="utf-8")
    done = run(folder, "snippet.py")
    assert done.returncode == 0, done.stderr
