"""A saved run, read as every command reads one: strictly, audited, with a warning where it may have been edited."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen

if TYPE_CHECKING:
    from planner.domain import Plan

Run = Annotated[Path, typer.Argument(help="A run folder, or its plan.json.", show_default=False)]
Trace = Annotated[
    str | None,
    typer.Option(
        help="A trace (.csv, .jsonl, .gz), a workload's file or name, or lengths: the plan's own table of lengths. "
        "[default: the trace that the plan was made for, where it is at hand, else lengths]",
        show_default=False,
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(help="0.9x of the capacity, promise, or requests/s. [default: promise]", show_default=False),
]


def read_run(run: Path) -> "Plan":
    """The plan of a run folder or of its plan.json.

    Raises InputError where there is none, where it was edited, or where it contradicts itself.
    """
    from planner import files, pipeline

    plan = pipeline.recheck(files.load_run(run), str(run))
    if plan.provenance.unverified:
        screen.show_warning(
            f"{run}: unverified: it was saved without digests, so its bounds, sensitivity and trials may have been "
            "edited. Plan again for a certificate that can be checked."
        )
    return plan
