"""What the tests of the inputs share: a scenario as a mapping, and a place to write files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.domain import Scenario
from planner.errors import InputError
from planner.files import scenario_from_document
from planner.workload import summarize


@pytest.fixture
def document() -> dict[str, Any]:
    return {
        "name": "small",
        "model": "deepseek-v3",
        "workload": "normal-500-2000",
        "inventory": {"H200": 16, "H20": 8},
    }


@pytest.fixture
def read(tmp_path: Path) -> Callable[[dict[str, Any]], Scenario]:
    def read_document(document: dict[str, Any]) -> Scenario:
        return scenario_from_document(document, origin="notebook", base=tmp_path, summarize=summarize)

    return read_document


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def refused() -> Callable[..., None]:
    """Calls, and checks that an InputError says every one of the words in its text and gives a remedy."""

    def check(call: Callable[[], object], *words: str, hint: str = "") -> None:
        with pytest.raises(InputError) as caught:
            call()
        missing = [word for word in words if word not in caught.value.message]
        assert not missing, f"{caught.value.message!r} lacks {missing}"
        assert hint in caught.value.hint

    return check
