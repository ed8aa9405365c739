"""What is in the folders: experiments that stand alone, and one file that knows the inside."""

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCHMARKS, PACKAGE = ROOT / "benchmarks", ROOT / "src" / "kernelweave"
PUBLIC = ("inspection", "learners", "papers")  # folders of the package whose modules are documented


def test_every_experiment_says_what_it_asks(harness):
    found = harness("pages").experiments()
    assert {"rakoto_gaps", "gai_table1", "newton_speed", "figures"} <= set(found)
    assert not {"common", "runner", "pages", "run"} & set(found)
    for experiment in found.values():
        assert experiment.title != experiment.name


def test_a_page_names_the_command_for_all_of_it(harness):
    """Runs of some parts add to a page of all; numbers such as --limit stay."""
    known = {"options": ["--quick", "--parts", "floor", "conic", "--limit", "900", "--sets", "a"]}
    found = harness("pages").experiments()
    command = found["newton_speed"].command(known)
    module = ["-m", "benchmarks.speed.newton_speed"]
    assert command == ["python", *module, "--quick", "--limit", "900"]
    lists = re.compile(r'(\w+)=\{\s*"nargs": "\+"')
    experiments = [e.path.read_text(encoding="utf-8") for e in found.values()]
    options = {f"--{name}" for text in experiments for name in lists.findall(text)}
    assert options == set(harness("pages").CHOICES)


def imports(path):
    """Modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_experiment_imports_another(harness):
    groups = tuple(f"benchmarks.{group}" for group in harness("folders").GROUPS)
    for path in BENCHMARKS.rglob("*.py"):
        assert not [name for name in imports(path) if name.startswith(groups)], path


def test_one_file_knows_the_inside_of_the_package():
    users = set()
    for path in BENCHMARKS.rglob("*.py"):
        for name in imports(path):
            package, *inside = name.split(".")
            if package == "kernelweave" and len(inside) > 1 and inside[0] not in PUBLIC:
                users.add(path.name)
    assert users == {"internals.py"}


def test_no_file_has_the_name_of_a_module_of_the_package():
    names = {path.stem for path in BENCHMARKS.rglob("*.py")} - {"__init__"}
    assert not names & {path.stem for path in PACKAGE.rglob("*.py")}
