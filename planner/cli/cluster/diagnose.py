"""`planner cluster diagnose`, `planner defrag`: why idle GPUs cannot serve, and what moving pods frees."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain import Qos
    from planner.domain.defragmentation import MoveAim
    from planner.domain.diagnosis import ClusterDiagnosis

KINDS = (".md", ".html", ".png", ".svg")
NONE = "none"


def command(
    cluster: Annotated[Path, typer.Argument(help="A cluster file.", show_default=False)],
    request: Annotated[
        list[str] | None,
        typer.Option(
            help="What a pod asks for, as 4G32C or 4G32C256GB; once a request. [default: the eight of the ASI paper]",
            metavar="GPUS-CPUS",
        ),
    ] = None,
    job: Annotated[
        list[str] | None,
        typer.Option(
            help="GPUs of a job of many nodes, once a job; none: no jobs. [default: 128, 256]", metavar="GPUS"
        ),
    ] = None,
    cpus_per_gpu: Annotated[int, typer.Option(help="CPUs that each GPU of a job takes along.")] = 12,
    qos: Annotated[
        str,
        typer.Option(help="How a request's GPUs align on NUMA nodes: none, best_effort, guaranteed or single_numa."),
    ] = "best_effort",
    guaranteed_only: Annotated[
        bool, typer.Option("--guaranteed-only", help="Preemptible pods count as gone, as in the ASI paper.")
    ] = False,
    moves: Annotated[
        bool, typer.Option("--moves", help="Also plan the moves that vacate nodes, and count what they open.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write FILE.md or FILE.html; or draw figures 13 and 14 as FILE.png or FILE.svg.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the diagnosis as JSON.")] = False,
) -> None:
    """Idle GPUs that cannot serve a request, by cause and GPU type; which single change would open most."""
    from planner import files, report
    from planner.domain.diagnosis import PUBLISHED_JOBS, PUBLISHED_REQUESTS, GpuRequest
    from planner.placement.diagnosis import diagnose
    from planner.runs.defragmenting import with_moves

    requests = tuple(map(GpuRequest.parse, request)) if request else PUBLISHED_REQUESTS
    jobs = PUBLISHED_JOBS if job is None else _jobs(job)
    alignment = _qos(qos)
    if out is not None:
        if out.suffix.lower() not in KINDS:
            raise InputError(f"--out: must end in .md, .html, .png or .svg, got {str(out)!r}.", hint="As idle.png.")
        files.refuse_existing(out, force=force)
    loaded = files.load_cluster(cluster)
    diagnosis = diagnose(
        loaded,
        requests=requests,
        jobs=jobs,
        cpus_per_gpu=cpus_per_gpu,
        qos=alignment,
        guaranteed_only=guaranteed_only,
    )
    if moves:
        diagnosis = with_moves(diagnosis, loaded)
    if out is not None:
        files.write_file(out, _rendered(diagnosis, out.suffix.lower()), force=force)
    if json:
        screen.show_json(report.diagnosis_document(diagnosis))
    else:
        screen.show_markdown(report.page_text(report.diagnosis_page(diagnosis)))


def _jobs(texts: list[str]) -> tuple[int, ...]:
    if [text.lower() for text in texts] == [NONE]:
        return ()
    wrong = [text for text in texts if not (text.isascii() and text.isdigit() and len(text) <= 7)]
    if wrong:
        raise InputError(f"--job: must be a number of GPUs, or none, got {wrong[0]!r}.", hint="Write 128.")
    return tuple(map(int, texts))


def _qos(word: str) -> "Qos":
    from planner.domain import Qos

    if word not in list(Qos):
        raise InputError(f"--qos: must be one of {', '.join(Qos)}, got {word!r}.", hint="Write best_effort.")
    return Qos(word)


def _rendered(diagnosis: "ClusterDiagnosis", suffix: str) -> bytes:
    from planner import report

    if suffix == ".md":
        return report.page_text(report.diagnosis_page(diagnosis)).encode()
    if suffix == ".html":
        from planner.runs.pages import page_bytes

        return page_bytes(report.diagnosis_page(diagnosis))
    return report.encode_figure(report.diagnosis_figure(diagnosis), "svg" if suffix == ".svg" else "png")


AIMS = "nodes (vacate them), switch or nvlink_domain (bring the pods of each job under one)"


def defrag(
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
        states=states,
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
