"""Running experiments, on one made for it: no data set, no timing."""

import json

TOY = "benchmarks.papers.toy"


def test_an_interrupted_run_goes_on_and_its_page_tells_all(project, run):
    run(project, TOY, "--stop", "3", "--data", "somewhere")
    kept = json.loads((project / "benchmarks" / "results" / "toy.json").read_text(encoding="utf-8"))
    assert set(kept["cells"]) == {"0/squared", "1/squared"}
    assert kept["skipped"] == {"2/squared": "two is missing"}
    assert kept["options"] == kept["runs"][0]["options"] == ["--stop", "3"]

    done = run(project, "benchmarks.run")
    assert done.returncode == 0, done.stderr
    now = json.loads((project / "benchmarks" / "results" / "toy.json").read_text(encoding="utf-8"))
    assert {key: cell["run"] for key, cell in now["cells"].items()} == {
        "0/squared": 0,
        "1/squared": 0,
        "3/squared": 1,
    }
    run_record = now["runs"][-1]
    assert {"date", "commit", "versions", "processor", "cores", "threads"} <= set(run_record)
    assert "numba: 1" in run_record["threads"]
    assert "threads: " in done.stderr and "numba: 1" in done.stderr

    page = (project / "docs" / "results" / "toy.md").read_text(encoding="utf-8")
    for text in (
        "# What is a square\n",
        "euclid, table 1",
        "`python -m benchmarks.papers.toy`",
        run_record["date"][:10],
        "| 3 |  9 |",
        "- met: three squares (measured: 3)",
        "- 2/squared: two is missing",
    ):
        assert text in page
    index = (project / "docs" / "results" / "README.md").read_text(encoding="utf-8")
    assert "[What is a square](toy.md)" in index and "1 of 1" in index
    assert "`python -m benchmarks.papers.toy`" in (project / "benchmarks" / "README.md").read_text(
        encoding="utf-8"
    )


def test_several_processes_find_the_same(project, run):
    done = run(project, TOY, "--quick", "--fresh", "--processes", "2")
    assert "| 3 |  9 |" in done.stdout
    kept = json.loads(
        (project / "benchmarks" / "results" / "toy.quick.json").read_text(encoding="utf-8")
    )
    assert {key: cell["square"] for key, cell in kept["cells"].items()} == {
        f"{k}/squared": k * k for k in (0, 1, 3)
    }
    assert kept["skipped"] == {"2/squared": "two is missing"}


def test_a_failing_experiment_is_reported_and_stops_no_other(project, run):
    broken = project / "benchmarks" / "speed" / "broken.py"
    broken.parent.mkdir()
    broken.write_text(
        '"""What breaks."""\n\n\ndef main():\n    raise ValueError\n\n\nmain()\n', encoding="utf-8"
    )
    try:
        done = run(project, "benchmarks.run", "--quick")
    finally:
        broken.unlink()
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert (project / "build" / "results" / "toy.md").exists()
