"""The commands: what each may be told, and who does it.

Whatever takes time to import is imported by the command that needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kernelweave import __version__
from kernelweave._cli.options import (
    COST,
    DATA,
    DROP_UNLABELED,
    EPILOG,
    FILES,
    JOBS,
    JSON,
    LEARNING,
    NAME_ROWS,
    ON_CLUSTER,
    SEED,
    TARGET,
    parse_view,
    takes,
)


def run(argv: Sequence[str] | None) -> int:
    """Run the command line; returns the exit code. Bad input raises ValueError."""
    try:
        words = None if argv is None else list(argv)
        code = program.main(words, prog_name="kernelweave", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return 2
    except click.ClickException as error:
        raise ValueError(error.format_message()) from error
    except click.exceptions.Abort:
        return 130
    return int(code or 0)


@click.group(
    epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(__version__, message="kernelweave %(version)s")
def program() -> None:
    """Learn which kernels and views matter, with a certificate of optimality."""


@program.command()
@takes(SEED)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="kernelweave-demo.html",
    help="HTML file to write: the report.",
)
def demo(seed: int, output: str) -> None:
    """Learn on two views of scikit-learn's breast cancer data, and write a report."""
    from kernelweave._cli import demo as demonstration
    from kernelweave._cli.data import Source
    from kernelweave._cli.reporting import Report

    asked = Report(output, seed=seed, jobs=-1)
    asked.check("-o", Source(None))
    demonstration.run(asked)


@program.command()
@takes(*DATA, *LEARNING, COST, JSON)
@click.option("-o", "--output", type=click.Path(), help="Model file to write.")
@click.option("--cv", type=click.IntRange(2), help="Also score on held-out rows, in so many folds.")
@click.option(
    "--report",
    type=click.Path(),
    help="File to write: what the views and the model are worth; .html, .md or .json.",
)
@takes(NAME_ROWS)
@takes(*ON_CLUSTER)
@click.option(
    "--proba",
    is_flag=True,
    help="Also learn probabilities of the classes, for predict --proba; takes three to five times "
    "as long.",
)
def fit(
    output: str | None,
    report: str | None,
    as_json: bool,
    C: float | None,
    more: tuple[str, ...],
    cluster: str | None,
    landmarks: int,
    **said: Any,
) -> None:
    """Learn a model from TABLE, show which views matter, save it, and report on it.

    With --cluster, TABLE may be several files, of more rows than memory holds.
    """
    from kernelweave._cli import models
    from kernelweave._cli.output import check_output, say, show_json, show_model, summary

    if cluster is not None:
        from kernelweave._cli.cluster import fit_on_cluster

        asked = {**said, "report": report, "C": C, "landmarks": landmarks}
        found_there, seen = fit_on_cluster(cluster, (said["table"], *more), asked)
        if output is not None:
            found_there.save(output)
        if as_json:
            show_json({**seen, **summary(found_there), "model": output})
        else:
            show_model(found_there)
        return
    if more:
        raise ValueError(f"one table is needed, found {1 + len(more)}: several need --cluster")
    if report is not None and report == output:
        raise ValueError(f"-o and --report name the same file, {output}")
    asked = _report(said, "--report", report)
    check_output("-o", output, _source(said))
    cv = said["cv"]
    needed = (cv, "--cv") if report is None or cv is not None else (2, "--report")
    data, task, options = _learning(said, C, *needed)
    scored = None if cv is None else models.held_out(data, task, options, cv)
    model = models.fitted(data, task, options)
    rows = models.Labeled.of(data, task)
    verdict = "" if asked is None else asked.write(model, rows, _predicted(said))
    if output is not None:
        model.save(output)
    if as_json:
        found = {"task": task, "rows": len(data), **summary(model)}
        show_json(found | {"held_out": scored, "model": output, "report": report})
        return
    if verdict:
        print(f"{verdict}\n")
    show_model(model)
    if scored is not None:
        print(f"\nHeld-out {scored['metric']}, mean of {cv} folds: {scored['mean']:.3f}")
    for what, path in (("model", output), ("report", report)):
        if path is not None:
            say(f"{what} written to {path}")


@program.command()
@click.argument("model", type=click.Path())
@click.argument("table", type=click.Path())
@takes(*FILES)
@click.option("-o", "--output", type=click.Path(), help="CSV file to write; default: the screen.")
@click.option("--decision", is_flag=True, help="Add the decision values.")
@click.option("--proba", is_flag=True, help="Add the probability of each class.")
@click.option(
    "--raw-text",
    is_flag=True,
    help="Write ids, classes and names that begin as formulas do (=1+1) without an apostrophe.",
)
def predict(
    model: str,
    table: str,
    output: str | None,
    decision: bool,
    proba: bool,
    raw_text: bool,
    **said: Any,
) -> None:
    """Predict every row of TABLE with MODEL, some rows at a time, as CSV."""
    from kernelweave._cli.output import check_output
    from kernelweave._cli.predicting import Beside, predict_table

    source = _source(said, table)
    check_output("-o", output, source, model)
    predict_table(model, source, output, Beside(decision, proba), raw_text)


@program.command()
@click.argument("model", type=click.Path())
@click.argument("table", type=click.Path())
@takes(*DATA[2:], JSON)
@click.option(
    "--row",
    "rows",
    multiple=True,
    required=True,
    metavar="ID",
    help="The id of a row, or without --id its number, the first is 1; once for each.",
)
@click.option("-o", "--output", type=click.Path(), help="Picture of the first of them: PNG, SVG.")
def explain(
    model: str, table: str, rows: tuple[str, ...], output: str | None, as_json: bool, **said: Any
) -> None:
    """Tell why rows of TABLE get their predictions: what each view and column adds."""
    from kernelweave._cli.explaining import explain_rows
    from kernelweave._cli.output import check_output

    source = _source(said, table)
    check_output("-o", output, source, model)
    explain_rows(model, source, rows, output, as_json)


@program.command()
@click.argument("model", type=click.Path())
@takes(*DATA, DROP_UNLABELED, JSON)
def evaluate(model: str, as_json: bool, **said: Any) -> None:
    """Score the predictions of MODEL for the rows of TABLE, whose targets are known."""
    from kernelweave._cli.models import scores
    from kernelweave._cli.output import show_json, show_table
    from kernelweave._cli.predicting import labeled_rows

    found = scores(*labeled_rows(model, _source(said)))
    if as_json:
        show_json(found)
    else:
        show_table([("measure", "value"), *found.items()])


@program.command()
@click.argument("model", type=click.Path())
@click.argument("table", type=click.Path(), required=False)
@takes(*TARGET, *FILES, DROP_UNLABELED, SEED, JOBS)
@click.option(
    "-o", "--output", type=click.Path(), required=True, help="File to write; .html, .md or .json."
)
@click.option("--cv", type=click.IntRange(2), help="Folds of the held-out scores; 5 by default.")
@takes(NAME_ROWS)
def report(model: str, output: str, **said: Any) -> None:
    """Report on MODEL and what its views are worth on the rows of TABLE that it was fitted to.

    Without TABLE, only what the model itself knows.
    """
    from kernelweave._cli.output import say
    from kernelweave._cli.predicting import labeled_rows
    from kernelweave.io.model_file import load

    asked = _report(said, "-o", output, model)
    known = said["table"] is None
    found, rows = (load(model), None) if known else labeled_rows(model, _source(said))
    print(asked.write(found, rows, _predicted(said)))
    say(f"report written to {output}")


@program.command()
@takes(*DATA, *LEARNING, JSON)
@click.option(
    "--Cs",
    "costs",
    default="0.01,0.1,1,10,100",
    help="Values of C, separated by commas.",
)
def path(costs: str, as_json: bool, **said: Any) -> None:
    """Show the weights of the views of TABLE for several C."""
    from kernelweave._cli.models import along_path, parse_costs
    from kernelweave._cli.output import show_json, show_table

    Cs = parse_costs(costs)
    found = along_path(*_learning(said, 1.0), Cs)
    if as_json:
        show_json(found)
        return
    views = found["views"]
    weights = [[f"{weight:.3f}" for weight in column] for column in views.values()]
    rows = zip(found["C"], *weights, found["gap"], strict=True)
    show_table([("C", *views, "duality gap"), *rows])


@program.command()
@takes(*DATA, *LEARNING, COST, JSON)
@click.option("--cv", type=click.IntRange(2), default=5, help="Folds.")
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=4,
    help="How often the rows are cut into folds.",
)
def compare(cv: int, repeats: int, as_json: bool, C: float | None, **said: Any) -> None:
    """Tell whether learned weights predict TABLE better than simpler ways to use its views."""
    from kernelweave._cli.models import compared
    from kernelweave._cli.output import show_json, show_table

    found = compared(*_learning(said, C, cv), cv, repeats)
    scores = found.frame()
    if as_json:
        show_json({"verdict": found.verdict, "scores": scores.to_dict("records")})
        return
    print(f"{found!r}\n")
    show_table([tuple(scores.columns), *scores.itertuples(index=False, name=None)])


@program.command()
@click.argument("model", type=click.Path())
@takes(JSON)
def info(model: str, as_json: bool) -> None:
    """Show what a model file holds: weights, kernels, certificate, columns."""
    from kernelweave._cli.data import counted
    from kernelweave._cli.output import show_json, show_model, summary
    from kernelweave.io.model_file import load

    loaded = load(model)
    columns = [str(name) for name in getattr(loaded, "feature_names_in_", ())]
    if as_json:
        show_json({**summary(loaded), "columns": columns})
        return
    print(repr(loaded))
    if columns:
        shown = ", ".join(columns[:20]) + ", …" * (len(columns) > 20)
        print(f"{counted(len(columns), 'column')}: {shown}")
    print()
    show_model(loaded)


def _source(said: dict[str, Any], table: str | None = None) -> Any:
    from kernelweave._cli.data import Source

    views = tuple(parse_view(text) for text in said["views"])
    where = said["table"] if table is None else table
    roles = said.get("target"), said["key"]
    time, event = said.get("time"), said.get("event")
    if (time is None) != (event is None):
        raise ValueError("--time and --event go together: one names times, the other says of what")
    if event is not None and roles[0] is not None:
        raise ValueError("--target goes without --time and --event: they are what is predicted")
    return Source(
        where,
        *roles,
        views,
        said["delimiter"],
        drop=said.get("drop", ()),
        text_ids=said["text_ids"],
        labeled=said.get("drop_unlabeled", False),
        times=None if time is None or event is None else (time, event),
    )


def _predicted(said: dict[str, Any]) -> str | None:
    """What is predicted, in words; None if nothing is named."""
    return said["target"] if said["event"] is None else f"time to {said['event']}"


def _learning(
    said: dict[str, Any], C: float | None, folds: int | None = None, option: str = "--cv"
) -> tuple[Any, str, Any]:
    """Data, task and options of a command that learns, checked; then tells what was found."""
    from kernelweave._cli import models
    from kernelweave._cli.data import read_data
    from kernelweave._cli.lacking import told_of_data
    from kernelweave._cli.output import say
    from kernelweave._core.checks import some

    source = _source(said)
    if not source.targets:
        raise ValueError(
            "Missing option '--target': name the column to predict, or with --time and --event "
            "those of times to an event"
        )
    data = read_data(source)
    task = models.task_of(data.target, said["task"])
    told = [data.left_out] * bool(data.left_out) + [models.told(data.target, task)]
    models.check_folds(data, task, folds, option)
    if C is None:
        models.check_folds(data, task, 2, "-C auto")
    models.check_words(data, source)
    if data.unused:
        told.append(f"columns in no view are left out: {some(data.unused)}")
    if task == "survival" and not _said("C"):
        C = models.default_C(task)
    impute = None if said["impute"] == "none" else said["impute"]
    asked = C, said["learner"], said["norm"], said["seed"], said["jobs"], impute
    options = models.Options(
        *asked,
        models.class_weight_of(said["class_weight"], data.target, task),
        models.calibration_of(said.get("proba", False), data.target, task),
    )
    for line in (*told, *told_of_data(data, options)):
        say(line)
    return data, task, options


def _said(option: str) -> bool:
    """Whether the user gave an option of this command, or left it at what it is."""
    source = click.get_current_context().get_parameter_source(option)
    return source is not click.core.ParameterSource.DEFAULT


def _report(said: dict[str, Any], option: str, path: str | None, *inputs: str) -> Any:
    """The report that is asked for, checked; None if there is none."""
    from kernelweave._cli.reporting import Report

    if path is None:
        if said["name_rows"]:
            raise ValueError("--name-rows names rows in a report: ask for one with --report")
        return None
    asked = Report(path, said["cv"], said["jobs"], said["seed"], said["name_rows"])
    asked.check(option, _source(said), *inputs)
    return asked
