"""Where things are: the experiments, their results, and the project around them."""

import pathlib

BENCHMARKS = pathlib.Path(__file__).resolve().parents[1]
ROOT = BENCHMARKS.parent
GROUPS = ("papers", "speed", "accuracy")  # folders of experiments


def results_file(name: str, quick: bool) -> pathlib.Path:
    """The JSON of an experiment; a quick run has one of its own."""
    return BENCHMARKS / "results" / f"{name}{'.quick' if quick else ''}.json"


def output_folder(kind: str, quick: bool) -> pathlib.Path:
    """docs/results or docs/figures; of a quick run, the same in build/."""
    return ROOT / ("build" if quick else "docs") / kind
