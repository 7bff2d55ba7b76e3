"""`planner defrag`: pods moved so that nodes come free, or scattered jobs together."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain.defragmentation import MoveAim

AIMS = "nodes (vacate them), switch or nvlink_domain (bring the pods of each job under one)"


def command(
    cluster: Annotated[Path, typer.Argument(help="A cluster file.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="Folder for the migration plan. [default: none]")] = None,
    aim: Annotated[str, typer.Option(help=f"What moves are for: {AIMS}.")] = "nodes",
    most_moves: Annotated[int | None, typer.Option(min=0, help="Most moves.", show_default=False)] = None,
    most_gpu_hours: Annotated[
        float | None, typer.Option(min=0, help="Most GPU-hours held twice, by old and new copies.", show_default=False)
    ] = None,
    most_at_once: Annotated[
        int | None,
        typer.Option(min=1, help="Most moves side by side. [default: what is safe]", show_default=False),
    ] = None,
    overlap_minutes: Annotated[
        float, typer.Option(min=0, max=525_600, help="How long both copies of a pod run.")
    ] = 15.0,
    depth: Annotated[int, typer.Option(min=1, max=8, help="Most moves of a chain.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="Most rounds.")] = 5,
    partition_nodes: Annotated[int, typer.Option(min=2, max=1_000_000, help="Most nodes of a partition.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Of the random partitions.")] = 0,
    processes: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Partitions at once. [default: all cores]", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a plan that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Plan moves that vacate nodes: ordered, make-before-break, replayed on the cluster before they are written."""
    from planner import files, report
    from planner.domain.defragmentation import DefragmentationSettings, MoveBudget
    from planner.runs import defragmenting

    if out is not None:
        files.claim_folder(out, defragmenting.file_names(), force=force)
    settings = DefragmentationSettings(
        aim=_aim(aim),
        depth=depth,
        rounds=rounds,
        partition_nodes=partition_nodes,
        seed=seed,
        overlap_hours=overlap_minutes / 60,
        budget=MoveBudget(most_moves=most_moves, most_gpu_hours=most_gpu_hours, most_at_once=most_at_once),
    )
    migration = defragmenting.migrate(files.load_cluster(cluster), settings, processes=processes or os.cpu_count() or 1)
    if out is not None:
        files.write_folder(out, migration.files, force=force, kinds=defragmenting.file_names())
    if json:
        screen.show_json(report.migration_document(migration.plan))
        return
    screen.show_markdown(report.migration_summary(migration.plan))
    if out is not None:
        screen.show_text(f"Written to {out}")


def _aim(word: str) -> "MoveAim":
    from planner.domain.defragmentation import MoveAim

    if word not in tuple(MoveAim):
        raise InputError(f"--aim: must be one of {', '.join(MoveAim)}, got {word!r}.", hint="Choose one of them.")
    return MoveAim(word)
