"""docs/papers.md: each item of each paper has a row, all names exist, all links lead somewhere."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import pytest

import kernelweave.papers
from kernelweave.learners import NAMES, make_learner

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TEXT = (DOCS / "papers.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Paper:
    """What a paper numbers, counted in its text."""

    sections: str
    equations: int
    tables: int = 0
    figures: int = 0
    algorithms: int = 0
    appendices: str = ""
    problems: str = ""  # with a name in place of a number
    statements: dict[str, list[int]] = field(default_factory=dict)

    def items(self) -> set[str]:
        """All that a row can be about, as ``read`` tells it."""
        kinds = {"Table": self.tables, "Figure": self.figures, "Algorithm": self.algorithms}
        found = {f"§{number}" for number in self.sections.split()}
        found |= {f"({number})" for number in range(1, self.equations + 1)}
        found |= {f"({name})" for name in self.problems.split()}
        found |= {f"Appendix {letter}" for letter in self.appendices.split()}
        found |= {f"{kind} {k}" for kind, count in kinds.items() for k in range(1, count + 1)}
        return found | {f"{kind} {k}" for kind, many in self.statements.items() for k in many}


PAPERS = {
    "lanckriet2004": Paper(
        sections="1 2 2.1 3 3.1 3.2 3.3 4 4.1 4.2 4.3 4.4 4.5 4.6 4.7 4.8 5"
        " 6 6.1 6.2 6.2.1 6.2.2 7",
        equations=64,
        tables=4,
        figures=2,
        appendices="A B",
        statements={
            "Definition": [1, 3, 4, 5, 6, 7, 10, 12, 13],
            "Proposition": [2, 15],
            "Lemma": [8, 9, 11, 14],
            "Theorem": [16, 17, 19, 20, 21, 22, 23, 24],
            "Corollary": [18],
        },
    ),
    "bach2004": Paper(
        sections="1 2 2.1 2.2 2.2.1 2.2.2 2.2.3 2.3 2.4 3 3.1 3.2 3.3 3.4 4 4.1 4.2 4.3 4.4 5 6",
        equations=2,
        figures=3,
        appendices="A B C D",
        problems="L P D D_K S R OPT_0 OPT_1 OPT_2 OPT_3 OPT_4 OPT_5 OPT_6",
        statements={"Theorem": [1], "Corollary": [2]},
    ),
    "rakoto2007": Paper(
        sections="1 1.1 1.2 1.2.1 1.2.2 2 2.1 2.2 2.3 2.4 2.5 3 3.1 4",
        equations=11,
        tables=2,
        figures=3,
        algorithms=1,
    ),
    "chapelle2008": Paper(sections="1 2 3 4 5", equations=4, figures=3),
    "gai2010": Paper(
        sections="1 2 2.1 2.2 3 3.1 3.2 4 5 6 7",
        equations=23,
        tables=1,
        statements={"Theorem": [1], "Proposition": [1, 2, 3, 4]},
    ),
}
MEASURED = {  # tables and figures with numbers or curves; the others are drawings
    "lanckriet2004": "Table 1, Table 2, Table 3, Table 4, Figure 1, Figure 2",
    "bach2004": "Figure 2",
    "rakoto2007": "Table 1, Table 2, Figure 1, Figure 2, Figure 3",
    "chapelle2008": "Figure 1, Figure 2, Figure 3",
    "gai2010": "Table 1",
}
COLUMNS = ["In the paper", "What it is", "In the package", "How", "Shown by", "Example", "Results"]
ITEM = re.compile(
    r"(?P<section>§[\d.]+)"
    r"|\((?P<first>\d+)\)(?:–\((?P<last>\d+)\))?"
    r"|(?P<problem>\([A-Z_0-9a-z]+\))"
    r"|(?P<appendix>Appendix [A-Z])"
    r"|(?P<kind>[A-Z][a-z]+?)s? (?P<from>\d+)(?:–(?P<to>\d+))?"
)
COMMANDS = re.compile(r"`(pytest|python -m) ([^`]+)`")
CALL = re.compile(r"(kernelweave(?:\.\w+)*)(?:\((\w+=.*)\))?")


def read(cell: str) -> set[str]:
    """The items that the first cell of a row names, ranges written out."""
    found: set[str] = set()
    for words in cell.split(", "):
        match = ITEM.fullmatch(words)
        assert match, f"{words!r} in the row {cell!r} is no section, equation, table, …"
        part = match.groupdict()
        if part["first"]:
            numbers = range(int(part["first"]), int(part["last"] or part["first"]) + 1)
            found |= {f"({number})" for number in numbers}
        elif part["kind"]:
            numbers = range(int(part["from"]), int(part["to"] or part["from"]) + 1)
            found |= {f"{part['kind']} {number}" for number in numbers}
        else:
            found.add(words)
    return found


def section(key: str) -> str:
    """The text between the heading of a paper and the next."""
    found = re.search(rf"^## {key}$(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    assert found, f"docs/papers.md has no section {key}"
    return found[1]


def rows(key: str) -> list[list[str]]:
    """The rows of a paper's table, cell by cell."""
    lines = [line for line in section(key).splitlines() if line.startswith("|")]
    header, rule, *body = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines)
    assert header == COLUMNS and set("".join(rule)) == {"-"}
    return body


def resolve(path: str) -> Any:
    """What a dotted path names: a module, or something within one."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        try:
            module: Any = import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # the module is there, but not what it imports
            continue
        return reduce(getattr, parts[count:], module)
    raise ModuleNotFoundError(path)


@pytest.mark.parametrize("key", PAPERS)
def test_every_item_has_a_row(key):
    told = set().union(*(read(row[0]) for row in rows(key)))
    missing, unknown = PAPERS[key].items() - told, told - PAPERS[key].items()
    assert not missing, f"docs/papers.md says nothing of {sorted(missing)} in {key}"
    assert not unknown, f"docs/papers.md has {sorted(unknown)}, which {key} has not"


def test_papers_are_those_of_the_page():
    assert re.findall(r"^## (.+)$", TEXT, re.MULTILINE) == list(PAPERS)


@pytest.mark.parametrize("key", PAPERS)
def test_every_row_says_where(key):
    for row in rows(key):
        assert len(row) == len(COLUMNS) and all(row), f"{key}: {row}"
        item, what, where, how, shown, example, results = row
        assert len(what) < 120, f"{key}, {item}: a few words will do"
        said = "`kernelweave" in where or re.match(r"background\b|not implemented\b", where)
        assert said, f"{key}, {item}: neither a path nor a word why there is none"
        assert re.fullmatch(r"background|as published|(differs|open|not here): .+", how), (
            f"{key}, {item}: {how!r} does not say how close it is"
        )
        none = how == "background" or how.startswith(("open", "not here"))
        assert COMMANDS.findall(shown) or (shown == "–" and none), f"{key}, {item}: no command"
        for cell, folder in ((example, r"\.\./examples/"), (results, r"(?:results|figures)/")):
            link = rf"\[\w+\]\({folder}\w+\.\w+\)"
            told = cell == "–" or re.fullmatch(rf"{link}(?:, {link})*", cell)
            assert told, f"{key}, {item}: {cell!r} is neither – nor links to {folder}"


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(kernelweave[^`]*)`", TEXT))))
def test_names_exist(name):
    call = CALL.fullmatch(name)
    assert call, f"`{name}` in docs/papers.md is no dotted path"
    path, arguments = call.groups()
    try:
        found = resolve(path)
    except (ImportError, AttributeError) as error:
        pytest.fail(f"`{path}` in docs/papers.md does not exist: {error}")
    if arguments is not None:
        known = inspect.signature(found).parameters
        unknown = set(re.findall(r"(\w+)=", arguments)) - set(known)
        assert not unknown, f"{path} has no parameter {sorted(unknown)}"


def test_commands_exist():
    """Tests and programs that rows name; ``benchmarks.papers.paper_commands`` runs them."""
    named = {match for key in PAPERS for row in rows(key) for match in COMMANDS.findall(row[4])}
    assert len(named) > 50
    for kind, what in sorted(named):
        if kind == "pytest":
            path, _, name = what.partition("::")
            assert name == "" or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), what
            assert (ROOT / path).is_file(), what
        else:
            module, _, options = what.partition(" ")
            assert (ROOT / module.replace(".", "/")).with_suffix(".py").is_file(), what
            assert options == "--report", f"{what}: only what takes seconds"


def test_the_count_on_top_is_that_of_the_rows():
    told = Counter(row[3].partition(":")[0] for key in PAPERS for row in rows(key))
    listed = ", ".join(
        f"{told[how]} {how}" for how in ("as published", "differs", "open", "not here")
    )
    assert f"Of {told.total() - told['background']} rows that are not background: {listed}." in TEXT


def test_learners_exist():
    named = set(re.findall(r'learner="(\w+)"', TEXT)) | set(re.findall(r'`"(\w+)"`', TEXT))
    unknown = named - set(NAMES)
    assert named and not unknown, f"docs/papers.md names learners {sorted(unknown)}"


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)]+)\)", TEXT)
    headings = {f"#{key}" for key in PAPERS}
    local = [t for t in targets if "://" not in t and t not in headings]
    missing = sorted({target for target in local if not (DOCS / target).exists()})
    assert local and not missing, f"docs/papers.md links to {missing}"


def test_every_learner_is_on_the_page():
    made = [type(make_learner(name)) for name in NAMES]
    paths = {f"{cls.__module__}.{cls.__name__}" for cls in made}
    missing = sorted(path for path in paths if f"`{path}" not in TEXT)
    assert not missing, f"docs/papers.md does not name {missing}"


def test_every_function_for_a_paper_is_on_the_page():
    folder = kernelweave.papers
    names = [found.name for found in walk_packages(folder.__path__, f"{folder.__name__}.")]
    public = [name for name in names if "._" not in name]  # underscored: its solvers
    functions = [path for name in public for path in public_functions(import_module(name))]
    assert len(functions) > 10
    for path in functions:
        key = path.split(".")[2]
        assert f"`{path}" in section(key), f"docs/papers.md does not name {path} under {key}"


def public_functions(module: ModuleType) -> list[str]:
    """Dotted paths of the functions that a module defines for others."""
    return [
        f"{module.__name__}.{name}"
        for name, what in vars(module).items()
        if inspect.isfunction(what) and what.__module__ == module.__name__ and name[0] != "_"
    ]


@pytest.mark.parametrize("key", PAPERS)
def test_pages_and_figures_of_a_paper_are_in_its_rows(key):
    for page in sorted((DOCS / "results").glob("*.md")):
        shown = re.search(r"^Paper: (.+)\.$", page.read_text(encoding="utf-8"), re.MULTILINE)
        if shown and key in shown[1]:
            linked = f"(results/{page.name})" in section(key)
            assert linked, f"docs/papers.md does not link results/{page.name} under {key}"
    for figure in sorted((DOCS / "figures").glob(f"{key}_*.png")):
        item = f"Figure {figure.stem.partition('_')[2]}"
        linked = [row for row in rows(key) if item in read(row[0]) and figure.name in row[-1]]
        assert linked, f"docs/papers.md does not link {figure.name} at {item} of {key}"


@pytest.mark.parametrize("key", PAPERS)
def test_every_table_and_figure_that_was_measured_has_a_page_of_its_paper(key):
    """The page says which paper it is of, and shows the picture where the paper has one."""
    for item in MEASURED[key].split(", "):
        (cell,) = [row[-1] for row in rows(key) if item in read(row[0])]
        pages = [DOCS / link for link in re.findall(r"\((results/\w+\.md)\)", cell)]
        texts = [page.read_text(encoding="utf-8") for page in pages]
        shown = [text for text in texts if re.search(rf"^Paper: .*{key}", text, re.MULTILINE)]
        assert shown, f"{key}, {item}: no page of results names the paper"
        kind, number = item.split()
        picture = f"](../figures/{key}_{number}.png)"
        assert kind == "Table" or any(picture in text for text in shown), f"{item}: not drawn"


def test_ranges_are_written_out_and_slips_of_the_pen_found():
    assert read("(4)–(6), Tables 1–2") == {"(4)", "(5)", "(6)", "Table 1", "Table 2"}
    assert read("§2.1, (OPT_3), Appendix A") == {"§2.1", "(OPT_3)", "Appendix A"}
    for wrong in ("(4", "4.1", "(4)-(6)", "table 1", "§2.1 and (3)"):
        with pytest.raises(AssertionError):
            read(wrong)
