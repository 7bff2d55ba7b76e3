"""`planner defrag`: pods moved so that nodes come free, once, or as often as it is worth it."""

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.option_records import with_records
from planner.cli.program.shared_options import seeds_of
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain.defragmentation import DefragmentationSettings, MoveAim
    from planner.domain.turnover import RhythmSettings

AIMS = "nodes (vacate them), switch or nvlink_domain (bring the pods of each job under one)"
NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class RhythmOptions:
    """How rhythms are compared."""

    every: Annotated[
        str | None,
        typer.Option(
            help="Compare rhythms instead: hours between runs, never first, as never,168,24,6,1.", show_default=False
        ),
    ] = None
    tasks: Annotated[
        Path | None,
        typer.Option(
            help="Of rhythms: CSV of tasks that come: submit_h, life_h, gpus, cpus; memory_gb, gpu. [default: copies "
            "of the cluster's own pods]",
            show_default=False,
        ),
    ] = None
    life_hours: Annotated[float, typer.Option(help="Of rhythms without --tasks: mean life of a pod.")] = 24.0
    days: Annotated[float, typer.Option(help="Of rhythms: days that are simulated.")] = 14.0
    seeds: Annotated[str, typer.Option(help="Of rhythms: two or more, 0-4, or 0,2.")] = "0-4"
    most_moves_per_node_hour: Annotated[
        float | None,
        typer.Option(
            help="Of rhythms: moves that a node-hour freed is worth. [default: no more GPU-hours twice than freed]",
            show_default=False,
        ),
    ] = None


@with_records
def defrag(
    *,
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
    states: Annotated[
        int,
        typer.Option(
            min=0, max=1_000_000_000, help="States looked at a number of nodes, where a type has few; 0: heuristic."
        ),
    ] = 50_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the random partitions.")] = 0,
    processes: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Partitions at once. [default: all cores]", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a plan that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    rhythm: RhythmOptions,
) -> None:
    """Plan moves that vacate nodes: ordered, make-before-break, replayed on the cluster before they are written."""
    from planner import files, report
    from planner.domain.defragmentation import DefragmentationSettings, MoveBudget
    from planner.runs import defragmenting

    rhythms = _rhythms(rhythm, aim)
    if out is not None:
        names = defragmenting.file_names() if rhythms is None else defragmenting.rhythm_file_names()
        files.claim_folder(out, names, force=force)
    settings = DefragmentationSettings(
        aim=_aim(aim),
        depth=depth,
        rounds=rounds,
        partition_nodes=partition_nodes,
        seed=seed,
        states=states,
        overlap_hours=overlap_minutes / 60,
        budget=MoveBudget(most_moves=most_moves, most_gpu_hours=most_gpu_hours, most_at_once=most_at_once),
    )
    workers = processes or os.cpu_count() or 1
    if rhythms is not None:
        _compare(cluster, rhythms, settings, rhythm.tasks, out, processes=workers, force=force, json=json)
        return
    migration = defragmenting.migrate(files.load_cluster(cluster), settings, processes=workers)
    if out is not None:
        files.write_folder(out, migration.files, force=force, kinds=defragmenting.file_names())
    if json:
        screen.show_json(report.migration_document(migration.plan))
        return
    screen.show_markdown(report.migration_summary(migration.plan))
    if out is not None:
        screen.show_text(f"Written to {out}")


def _rhythms(options: RhythmOptions, aim: str) -> "RhythmSettings | None":
    """What is to be compared; None where --every was not given."""
    from planner.domain.defragmentation import MoveAim
    from planner.domain.turnover import RhythmSettings

    if options.every is None:
        for option in fields(options):
            if getattr(options, option.name) != option.default:
                flag = f"--{option.name.replace('_', '-')}"
                raise InputError(f"{flag}: goes with --every, which was not given.", hint="Add --every never,24,6,1.")
        return None
    if _aim(aim) is not MoveAim.NODES:
        raise InputError(f"--every: nodes are vacated, got --aim {aim}.", hint="Leave --aim out.")
    try:
        hours = [None if word.strip() == NEVER else float(word) for word in options.every.split(",")]
    except ValueError:
        raise InputError(
            f"--every: must be hours, and never, got {options.every!r}.", hint="Write never,168,24,6,1."
        ) from None
    return RhythmSettings(
        every_hours=tuple(hours),
        seeds=seeds_of(options.seeds),
        days=options.days,
        life_hours=options.life_hours,
        most_moves_per_node_hour=options.most_moves_per_node_hour,
    )


def _compare(
    cluster: Path,
    rhythms: "RhythmSettings",
    settings: "DefragmentationSettings",
    tasks: Path | None,
    out: Path | None,
    *,
    processes: int,
    force: bool,
    json: bool,
) -> None:
    from planner import files, report
    from planner.runs import defragmenting

    for name in ("states", "seed"):
        if getattr(settings, name) != getattr(type(settings)(), name):
            raise InputError(f"--{name}: is of one plan, and does not go with --every.", hint=f"Leave --{name} out.")
    coming = () if tasks is None else files.load_tasks(tasks)
    loaded = files.load_cluster(cluster)
    choice = defragmenting.compare_rhythms(loaded, rhythms, settings, tasks=coming, processes=processes)
    if out is not None:
        written = defragmenting.rhythm_files(choice)
        files.write_folder(out, written, force=force, kinds=defragmenting.rhythm_file_names())
    if json:
        screen.show_json(report.rhythms_document(choice))
        return
    screen.show_markdown(report.rhythms_summary(choice))
    if out is not None:
        screen.show_text(f"Written to {out}")


def _aim(word: str) -> "MoveAim":
    from planner.domain.defragmentation import MoveAim

    if word not in tuple(MoveAim):
        raise InputError(f"--aim: must be one of {', '.join(MoveAim)}, got {word!r}.", hint="Choose one of them.")
    return MoveAim(word)
