"""``kernelweave fit big/*.parquet --cluster local``: tables of more rows than memory holds."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from kernelweave._cli import models
from kernelweave._cli.data import Source, fits, views_of
from kernelweave._cli.options import parse_view
from kernelweave._cli.output import say
from kernelweave._core.extras import missing
from kernelweave.banks.approximation import Nystroem
from kernelweave.banks.bank import KernelBank
from kernelweave.banks.dask_storage import DaskStorage

_NOT_THERE = {"report": "--report", "cv": "--cv", "drop_unlabeled": "--drop-unlabeled"}


def fit_on_cluster(where: str, tables: tuple[str, ...], said: dict[str, Any]) -> Any:
    """The fitted model, and what was found: task and number of rows."""
    if asked := [option for name, option in _NOT_THERE.items() if said[name]]:
        raise ValueError(f"{asked[0]} is for tables on this machine: leave --cluster out")
    if said["C"] is None:
        raise ValueError("-C auto is for tables on this machine: with --cluster give a number")
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise missing("--cluster needs", "distributed", "dask") from None
    with ExitStack() as open_:
        if where == "local":
            where = open_.enter_context(LocalCluster(threads_per_worker=1, dashboard_address=":0"))
        client = open_.enter_context(Client(where))
        frame = _read(tables)
        target = said["target"]
        if target not in frame.columns:
            raise ValueError(f"{tables[0]} has no column {target!r}; it has {list(frame.columns)}")
        y = frame[target].compute()
        task = models.task_of(y, said["task"])
        said_by_us = models.told(y, task), f"{len(y)} rows on {client.scheduler.address}"
        for line in said_by_us:
            say(line)
        names = [str(name) for name in frame.columns]
        kept = [
            name
            for name in names
            if name not in (target, said["key"])
            and not any(fits(name, pattern) for pattern in said["drop"])
        ]
        given = tuple(parse_view(text) for text in said["views"])
        source = Source(tables[0], target, said["key"], given)
        if source.files or source.matrices:
            raise ValueError(
                "--view FILE is for tables on this machine: with --cluster name columns"
            )
        views, _ = views_of(source, kept)
        used = list(dict.fromkeys(name for columns in views.values() for name in columns))
        approximation, storage = Nystroem(said["landmarks"]), DaskStorage(client)
        bank = KernelBank(views=views, approximation=approximation, storage=storage)
        class_weight = models.class_weight_of(said["class_weight"], y, task)
        options = models.Options(
            said["C"], said["learner"], said["norm"], said["seed"], None, None, class_weight
        )
        model = models.estimator(bank, task, options)
        model.fit(frame[used], models.labels(y, task))
        return model, {"task": task, "rows": len(y)}


def _read(tables: tuple[str, ...]) -> Any:
    """All files as one data frame, whose rows nobody has read yet."""
    import dask.dataframe as dd

    kinds = {name.lower().rpartition(".")[2] for name in tables}
    if kinds == {"parquet"}:
        return dd.read_parquet(list(tables))
    if kinds <= {"csv", "tsv"}:
        return dd.read_csv(list(tables), sep="\t" if kinds == {"tsv"} else ",")
    raise ValueError(f"--cluster reads .parquet, .csv or .tsv files of one kind, found {tables[0]}")
