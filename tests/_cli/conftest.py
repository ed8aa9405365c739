"""What tests of the command line share."""

import pytest

from kernelweave._cli.main import main


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Runs a command in the ``folder`` of the test's file: exit code, output, messages."""
    monkeypatch.chdir(folder)

    def run(line, *more):
        code = main([*line.split(), *more])
        found = capsys.readouterr()
        return code, found.out, found.err

    return run
