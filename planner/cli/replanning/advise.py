"""`planner advise`: what runs without a plan, what it wastes and breaks, and what to change of it first."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.option_records import with_records
from planner.cli.program.shared_options import Answers, KubernetesFlags, PrometheusFlags, Queries, show_queries
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.runs.live.advice.advising import AdvisedFolder


@with_records
def command(
    answers: Answers = None,
    *,
    manifests: Annotated[
        Path | None,
        typer.Option(help="Folder of Kubernetes objects, YAML or JSON: any, as they run.", show_default=False),
    ] = None,
    cluster: KubernetesFlags,
    queries: Queries = False,
    source: PrometheusFlags,
    window: Annotated[str, typer.Option(help="The last so long, as 1h or 30m.")] = "1h",
    workload: Annotated[
        list[str] | None,
        typer.Option(
            help="A shipped name, a workload file or a trace; of one service: SERVICE=FILE.", show_default=False
        ),
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(
            help="Levels, as ttft_ms=2000, tpot_ms=50 or percentile=90; of one service: SERVICE:tpot_ms=50.",
            show_default=False,
        ),
    ] = None,
    rps: Annotated[
        list[str] | None,
        typer.Option(help="Requests/s where no metrics tell; of one service: SERVICE=5.", show_default=False),
    ] = None,
    gpu: Annotated[
        list[str] | None,
        typer.Option(help="GPU type of a deployment that no label tells: NAME=H100.", show_default=False),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Model of a deployment: NAME=MODEL, a shipped name or a file.", show_default=False),
    ] = None,
    inventory: Annotated[
        str | None,
        typer.Option(help="All GPUs at hand, as H100=32. [default: what runs, and free nodes]", show_default=False),
    ] = None,
    prices: Annotated[
        str | None, typer.Option(help="USD per GPU and hour: a file, or H100=2.2,A100=1.1.", show_default=False)
    ] = None,
    router: Annotated[
        str, typer.Option(help="Who chooses today: random (a Service), round_robin, least_work.")
    ] = "random",
    headroom: Annotated[float, typer.Option(help="Share of what comes that promises must cover beyond it.")] = 0.2,
    least_servers: Annotated[
        int, typer.Option(min=1, max=1000, help="Copies of a model that are left, where it has so many.")
    ] = 2,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the advice, the plans and scenarios.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace advice that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Find engines that run without a plan: what they serve, waste and break, and the first three changes in USD."""
    from planner import files
    from planner.runs.live.advice import advising
    from planner.runs.live.advice.asking import queries_of
    from planner.runs.live.advice.options import terms_of
    from planner.runs.live.advice.sources import Sources, advised_of

    if manifests is not None and cluster.kubernetes:
        raise InputError("--manifests: goes without --kubernetes.", hint="Leave one of them out.")
    places = Sources(
        manifests=manifests, cluster=cluster.cluster(), prometheus=source.source(), answers=tuple(answers or ())
    )
    terms = terms_of(
        workload=workload or [],
        slo=slo or [],
        rps=rps or [],
        gpu=gpu or [],
        model=model or [],
        inventory=inventory,
        prices=prices,
        router=router,
        headroom=headroom,
        least_servers=least_servers,
        window=window,
    )
    if out is not None and not queries:
        files.claim_folder(out, advising.KINDS, force=force)
    engines, notes = places.engines(terms)
    if queries:
        show_queries(queries_of(engines.services, terms.window), "planner advise ...", as_json=json)
        return
    tell = (lambda _step: None) if quiet or json else screen.show_note
    advised = advised_of(places, engines, terms, out or Path("advised"), tell)
    if out is not None:
        files.write_folder(out, advised.files, force=force, kinds=advising.KINDS)
    _show(advised, out, as_json=json)
    for note in notes:
        screen.show_warning(note)


def _show(advised: "AdvisedFolder", out: Path | None, *, as_json: bool) -> None:
    from planner import report
    from planner.report import advice as pages

    advice = advised.advice
    if as_json:
        screen.show_json({"folder": None if out is None else str(out), **pages.advice_document(advice)})
        return
    screen.show_markdown(report.page_text(pages.advice_page(advice)))
    for warning in advised.warnings if out is not None else ():
        screen.show_warning(warning)
    screen.show_text(
        f"Written to {out}"
        if out is not None
        else "Nothing is written: --out FOLDER writes the advice, and plans to go on with."
    )
