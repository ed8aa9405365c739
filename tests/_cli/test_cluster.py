"""``kernelweave fit --cluster``: several files, on workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _helpers.small_cluster import cluster, labeled

from kernelweave import load
from kernelweave._cli.main import main

pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")


@pytest.fixture
def client() -> Iterator[Any]:
    with cluster() as found:
        yield found


def test_files_are_learned_together(client: Any, tmp_path: Path, capsys: Any) -> None:
    X, _, values = labeled(240, 3)
    whole = pd.DataFrame(X, columns=["age", "dose", "note"]).assign(value=values)
    whole["kind"] = np.where(X[:, 0] > 3.0, "new", "old")
    whole.loc[::11, "age"] = np.nan  # a view of its own, which rows may lack
    for number, rows in enumerate(np.array_split(np.arange(240), 3)):
        whole.iloc[rows].to_parquet(tmp_path / f"{number}.parquet")
    files = [str(path) for path in sorted(tmp_path.glob("*.parquet"))]
    address = client.cluster.scheduler.address
    out = str(tmp_path / "model.kweave")
    said = ["--target", "value", "--drop", "note", "--learner", "uniform", "--landmarks", "15"]
    views = ["--view", "who=age", "--view", "what=dose,kind"]
    assert main(["fit", *files, *said, *views, "--cluster", address, "--json", "-o", out]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["task"], told["rows"]) == ("regression", 240)
    model = load(out)
    assert list(model.feature_names_in_) == ["age", "dose", "kind"]
    assert model.score(whole[["age", "dose", "kind"]], values) > 0.3


def test_what_the_cluster_refuses(tmp_path: Path, capsys: Any) -> None:
    assert main(["fit", "a.csv", "b.csv", "--target", "y"]) != 0
    assert "several need --cluster" in capsys.readouterr().err
    assert main(["fit", "a.csv", "--target", "y", "--cluster", "local", "--cv", "3"]) != 0
    assert "--cv is for tables on this machine" in capsys.readouterr().err
