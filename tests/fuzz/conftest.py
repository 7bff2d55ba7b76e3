"""What fuzzed commands and commands on terminals share."""

from pathlib import Path

import pytest
from fuzz_calls import call
from fuzz_workshop import furnish


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound file of every kind."""
    folder = tmp_path_factory.mktemp("workshop")

    def run_line(words: list[str], where: Path) -> None:
        answer = call(words, where)
        assert answer.status == 0, f"{words}: {answer.err}{answer.crash}"

    furnish(folder, run_line)
    return folder
