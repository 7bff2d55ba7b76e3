"""`planner workloads`: the workloads at hand."""

from typing import Annotated

import typer

from planner.cli import screen
from planner.domain import LengthProfile


def command(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the shipped workloads; a scenario may also name a workload file or a trace CSV."""
    from planner import files

    profiles = [files.load_workload(name) for name in files.shipped_workloads()]
    rows = [_row(profile) for profile in profiles if isinstance(profile, LengthProfile)]
    columns = ("name", "requests", "mean_input_tokens", "longest_prompt", "mean_output_tokens", "max_output_tokens",
               "arrival_rps", "burstiness", "licence")  # fmt: skip
    if json:
        screen.show_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        screen.show_table("Workloads", columns, rows)


def _row(profile: LengthProfile) -> tuple[object, ...]:
    return (
        profile.name,
        profile.requests,
        round(profile.mean_input_tokens, 1),
        profile.input_tokens[-1],
        round(profile.mean_output_tokens, 1),
        profile.max_output_tokens,
        profile.arrival_rps,
        profile.burstiness,
        profile.licence,
    )
