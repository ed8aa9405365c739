"""What tests of the command line share."""

import pytest

from kernelweave._cli.main import main
from kernelweave._core.settings import SETTINGS


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Runs a command in the ``folder`` of the test's file: exit code, output, messages.

    Reports shuffle views no more often than their tests need.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setattr(SETTINGS, "permutations", 19)

    def run(line, *more):
        code = main([*line.split(), *more])
        found = capsys.readouterr()
        return code, found.out, found.err

    return run
