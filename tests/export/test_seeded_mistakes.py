"""Seeded mistakes over all targets: each is caught by the checks, in the right file, object and field."""

import sys
from functools import cache
from pathlib import Path

import pytest
from seeded_mistakes import CASES, MISTAKES, Mistake

from planner.cli import main
from planner.domain import Plan
from planner.export import TARGETS, find_faults

BY_COMMAND = (
    "wrong GPU count",
    "latest image",
    "unrouted range",
    "nodeCount 1",
    "role typo",
    "tensor x dataLocal",
    "flavor that is none",
    "copies off by one",
)


@cache
def case(name: str) -> tuple[Plan, dict[str, str]]:
    """A case's plan and its sound manifests, rendered once."""
    return CASES[name].plan(), CASES[name].files()


def places(files: dict[str, str], plan: Plan | None) -> list[str]:
    """Where the checks find faults."""
    return [fault.where for fault in find_faults(files, plan)]


def is_told(mistake: Mistake, found: list[str]) -> bool:
    """Whether one of the faults is the mistake's: the very field, or (a name that is wrong itself) its object."""
    return any(where == mistake.where or where.startswith(f"{mistake.where}, metadata.name") for where in found)


def test_the_table_has_every_target_and_no_mistake_twice() -> None:
    assert {CASES[mistake.case].target for mistake in MISTAKES} == set(TARGETS)
    assert len({(mistake.case, mistake.name) for mistake in MISTAKES}) == len(MISTAKES) >= 30
    assert set(BY_COMMAND) <= {mistake.name for mistake in MISTAKES}


@pytest.mark.parametrize("name", CASES)
def test_the_cases_are_sound_before_the_mistake(name: str) -> None:
    plan, files = case(name)
    assert places(files, plan) == places(files, None) == []


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: f"{one.case}: {one.name}")
def test_a_mistake_is_caught_in_its_field(mistake: Mistake) -> None:
    plan, files = case(mistake.case)
    found = places(mistake.sow(files), plan)
    assert is_told(mistake, found), found


@pytest.mark.parametrize("mistake", [m for m in MISTAKES if m.folder], ids=lambda one: f"{one.case}: {one.name}")
def test_the_folder_alone_is_enough(mistake: Mistake) -> None:
    _, files = case(mistake.case)
    found = places(mistake.sow(files), None)
    assert found, "a mistake that only the plan tells must say so"


@pytest.mark.parametrize("mistake", [m for m in MISTAKES if m.name in BY_COMMAND], ids=lambda one: one.name)
def test_the_command_ends_in_2_and_names_the_field(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, files = case(mistake.case)
    for name, text in mistake.sow(files).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["planner", "export", "--check", str(tmp_path)])
    with pytest.raises(SystemExit) as left:
        main()
    told = capsys.readouterr()
    assert left.value.code == 2
    assert any(line.startswith(f"{mistake.where}: ") for line in told.out.splitlines()), told.out
    assert " fault" in told.err
