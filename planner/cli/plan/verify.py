"""`planner verify`: what a run says, against what comes out when it is computed anew."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.errors import EXIT_BAD_INPUT, InputError

if TYPE_CHECKING:
    from planner.domain.comparisons import Verification

MOST_ROWS = 60
"""Differences that are shown; --json has all."""


def command(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run folder, its plan.json, or a folder of a schedule, a watch, a batch, a sweep, of runs."
        ),
    ],
    scenario: Annotated[
        Path | None,
        typer.Option(help="The scenario that RUN was planned from. [default: found by its name]", show_default=False),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="As it was planned with; goes with --scenario."),
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Repeat a search, too; else its layouts are judged anew, not chosen anew.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Compute a run anew from its question: list every figure, line and file that differs from what is written."""
    from planner.files.scenario.settings import read_setting
    from planner.runs.verifying.folders import verify

    if settings and scenario is None:
        raise InputError("--set: goes with --scenario only.", hint="Name the scenario that the run was planned from.")
    found = verify(run, scenario=scenario, settings=tuple(map(read_setting, settings or [])), search=search)
    if json:
        screen.show_json(_document(run, found))
    else:
        _show(run, found)
    if not found.agrees:
        raise typer.Exit(EXIT_BAD_INPUT)


def _document(run: Path, found: "Verification") -> dict[str, object]:
    from dataclasses import asdict

    return {"run": str(run), "agrees": found.agrees, **asdict(found)}


def _show(run: Path, found: "Verification") -> None:
    count = len(found.differences)
    if found.differences:
        rows = [(row.file, row.key, row.written, row.due) for row in found.differences[:MOST_ROWS]]
        screen.show_table(
            f"{run}: written, and computed anew",
            ("file", "key", "written", "comes out"),
            rows,
            important=("file", "key"),
        )
    if count > MOST_ROWS:
        screen.show_note(f"and {count - MOST_ROWS:,} more; --json has all.")
    if found.unchecked:
        screen.show_text("Taken as it is written:")
        for sentence in found.unchecked:
            screen.show_text(f"  {sentence}")
    files = f"{len(found.files):,} file{'s' * (len(found.files) != 1)}"
    verdict = "agree with what comes out" if found.agrees else f"looked at: {count:,} difference{'s' * (count != 1)}"
    screen.show_prose(f"{run}: {files} {verdict}.")
