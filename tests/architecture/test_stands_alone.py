"""A clone by itself is enough: nothing looks outside it, and what others made is named with its source."""

import re

from reference_data import FOLDER, reference_names
from source_tree import ROOT

OUTSIDE = re.compile(r"parents\[[3-9]\]|\.\./" + r"shared|/work" + "/")
TEXTS = sorted(
    path
    for pattern in ("tests/**/*.py", "planner/**/*.py", "notebooks/*.ipynb", "*.md", "Makefile", "pyproject.toml")
    for path in ROOT.glob(pattern)
)


def test_nothing_looks_outside_the_repository() -> None:
    assert len(TEXTS) > 400
    found = {path.relative_to(ROOT).as_posix(): OUTSIDE.findall(path.read_text("utf-8")) for path in TEXTS}
    assert {name: hits for name, hits in found.items() if hits} == {}
    assert OUTSIDE.search("Path(__file__).parents" + "[3]")


def named_in_sources() -> list[re.Pattern[str]]:
    """The names in the first column, each without a folder standing in the folder before it."""
    named, folder = [], ""
    for line in (FOLDER / "SOURCES.md").read_text("utf-8").splitlines():
        for cell in re.findall(r"`([^`]+)`", line.split("|")[1]) if line.startswith("| `") else ():
            folder = cell.split("/")[0] if "/" in cell else folder
            named.append(re.compile(re.escape(f"{folder}/{cell.split('/')[-1]}").replace(r"\*", "[^/]*")))
    return named


def test_every_file_has_a_source_and_every_source_a_file() -> None:
    files, named = reference_names("*/*"), named_in_sources()
    assert len(files) > 40
    assert [name for name in files if not any(pattern.fullmatch(name) for pattern in named)] == []
    assert [pattern.pattern for pattern in named if not any(map(pattern.fullmatch, files))] == []


def test_the_data_stay_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.suffix != ".pyc") < 4_000_000
