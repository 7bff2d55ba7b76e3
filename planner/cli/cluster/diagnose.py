"""`planner cluster diagnose`: why idle GPUs cannot serve."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain import Qos
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
