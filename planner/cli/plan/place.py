"""`planner place`: a finished plan onto the nodes of a cluster."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import fleet_folders, saved_runs
from planner.errors import InfeasibleError, InputError

if TYPE_CHECKING:
    from planner.cli.cluster.repairing import RepairsAtHand
    from planner.domain import PlacementSettings, Plan, Qos


def command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    cluster: Annotated[Path, typer.Option(help="The cluster, as `planner cluster` writes it.")],
    out: Annotated[
        Path | None, typer.Option(help="Run folder of the placed plan. [default: RUN itself]", show_default=False)
    ] = None,
    qos: Annotated[
        str | None,
        typer.Option(
            help="guaranteed, best_effort, none, single_numa, or a kubelet policy. [default: the scenario's]",
            show_default=False,
        ),
    ] = None,
    cpus_per_gpu: Annotated[
        int | None, typer.Option(min=0, max=1024, help="Cores that each GPU takes along. [default: the scenario's]")
    ] = None,
    preempt: Annotated[bool, typer.Option("--preempt", help="Evict preemptible pods of lower priority.")] = False,
    priority: Annotated[
        int | None, typer.Option(help="Priority of the islands' pods. [default: the scenario's]")
    ] = None,
    most_victims: Annotated[
        int | None,
        typer.Option(min=0, help="Most pods to evict. [default: the scenario's]", show_default=False),
    ] = None,
    most_lost_gpu_hours: Annotated[
        float | None,
        typer.Option(min=0, help="Most work that may be lost. [default: the scenario's]", show_default=False),
    ] = None,
    moves: Annotated[
        int,
        typer.Option(min=0, help="Most moves of other pods to look for where an island finds no room (0: none)."),
    ] = 0,
    exchange: Annotated[
        str, typer.Option(help="Two servers' parts that swap nodes, as --repairs prints it.", show_default=False)
    ] = "",
    repairs: Annotated[
        Path | None,
        typer.Option(help="Folder for the single changes that win most back; needs --out.", show_default=False),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Engine of the manifests. [default: that of RUN]", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a placement that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the placement as JSON.")] = False,
) -> None:
    """Put the islands of a plan on nodes; its rates are then those of where they lie.

    Of a fleet's folder: all deployments on the nodes of one cluster; services that go first choose first."""
    from dataclasses import replace

    from planner import files, pipeline
    from planner.cli.cluster.repairing import repair_paths, repairs_at_hand
    from planner.runs import publication
    from planner.runs.publication import scenario_on

    def asked_for(settings: "PlacementSettings") -> "PlacementSettings":
        settings = _changed(settings, _qos(qos), cpus_per_gpu, priority, preempt=preempt)
        settings = _limited(settings, most_victims, most_lost_gpu_hours)
        return replace(settings, most_moves=moves or settings.most_moves, exchange=exchange)

    if fleet_folders.of_fleet(run):
        _refuse_of_fleet(repairs, exchange)
        _place_fleet(run, cluster, out, asked_for, engine=engine or "", force=force, as_json=json)
        return
    saved = saved_runs.read_run(run)
    folder = out or run
    _claim(run, saved, out, force=force)
    settings = asked_for(saved.scenario.placement)
    nodes = files.load_cluster(cluster)
    scenario = scenario_on(saved, nodes, settings, (files.input_hash(cluster),))
    options = {
        "--qos": qos,
        "--cpus-per-gpu": cpus_per_gpu,
        "--preempt": preempt,
        "--priority": priority,
        "--most-victims": most_victims,
        "--most-lost-gpu-hours": most_lost_gpu_hours,
        "--moves": moves or None,
    }
    paths = None if repairs is None else repair_paths(run, cluster, repairs, out, options, engine or "")
    repaired = repairs_at_hand(saved, scenario, paths, force=force)
    try:
        placed = pipeline.place(saved, scenario)
    except InfeasibleError:
        if repaired is not None:  # what may yet make room
            repaired.show(as_json=json)
        raise
    published = publication.publish(placed, engine=engine or files.engine_of(run))
    if out is None:
        files.write_run(folder, {**published.files, **files.search_files(run)}, force=True)
    else:
        files.write_run(folder, published.files, force=force)
    for warning in published.warnings:
        screen.show_warning(warning)
    _tell(placed, folder, repaired, as_json=json)


def _refuse_of_fleet(repairs: Path | None, exchange: str) -> None:
    """Both are of one plan on its own."""
    option = "--repairs" if repairs is not None else "--exchange" if exchange else ""
    if option:
        raise InputError(
            f"{option}: goes with the run of one service, RUN is the folder of a fleet.",
            hint="Give the folder of one of its services.",
        )


def _place_fleet(
    run: Path,
    cluster: Path,
    out: Path | None,
    asked_for: "Callable[[PlacementSettings], PlacementSettings]",
    *,
    engine: str,
    force: bool,
    as_json: bool,
) -> None:
    from planner.domain import PlacementSettings

    if out is None:
        raise InputError(
            "--out: must be given where RUN is the folder of a fleet.",
            hint="Give the placed fleet a folder of its own.",
        )
    settings = asked_for(PlacementSettings())
    fleet_folders.place_fleet(run, cluster, settings, out, engine=engine, force=force, as_json=as_json)


def _claim(run: Path, saved: "Plan", out: Path | None, *, force: bool) -> None:
    """Fail before the work where its result could not be written."""
    from planner import files

    if out is not None:
        files.claim_run_folder(out, force=force)
    elif not files.is_folder(run):
        raise InputError(f"{run}: is a file, the placed plan needs a folder.", hint="Give --out DIR.")
    elif files.holds_search(run):
        raise InputError(
            f"{run}: holds an unfinished search.",
            hint=f"Finish it with `planner plan --resume {run}` first, or give --out DIR.",
        )
    elif saved.placement is not None and not force:
        raise InputError(
            f"{run}: is placed already, on cluster {saved.placement.cluster}.",
            hint="Give --force to replace that placement, or --out DIR.",
        )


def _qos(word: str | None) -> "Qos | None":
    from planner.domain import Qos

    if word is None:
        return None
    classes = {qos.value: qos for qos in Qos} | {qos.kubelet_policy: qos for qos in Qos}
    if word not in classes:
        raise InputError(f"--qos: must be one of {', '.join(classes)}, got {word!r}.", hint="Choose one of them.")
    return classes[word]


def _changed(
    settings: "PlacementSettings", qos: "Qos | None", cpus_per_gpu: int | None, priority: int | None, *, preempt: bool
) -> "PlacementSettings":
    from dataclasses import replace

    if qos is not None:
        settings = replace(settings, prefill_qos=qos, decode_qos=qos)
    if cpus_per_gpu is not None:
        settings = replace(settings, cpus_per_gpu=cpus_per_gpu)
    if priority is not None:
        settings = replace(settings, priority=priority)
    return replace(settings, preempt=settings.preempt or preempt)


def _limited(
    settings: "PlacementSettings", most_victims: int | None, most_lost_gpu_hours: float | None
) -> "PlacementSettings":
    from dataclasses import replace

    limits = {"--most-victims": most_victims, "--most-lost-gpu-hours": most_lost_gpu_hours}
    option = next((name for name, value in limits.items() if value is not None), None)
    if option is not None and not settings.preempt:
        raise InputError(
            f"{option}: limits which pods may be evicted, and none may be.", hint="Add --preempt, or drop the limit."
        )
    if most_victims is not None:
        settings = replace(settings, most_victims=most_victims)
    if most_lost_gpu_hours is not None:
        if not most_lost_gpu_hours < float("inf"):
            raise InputError(
                f"--most-lost-gpu-hours: must be finite, got {most_lost_gpu_hours:g}.",
                hint="Leave it out for no limit.",
            )
        settings = replace(settings, most_lost_gpu_hours=most_lost_gpu_hours)
    return settings


def _tell(placed: "Plan", folder: Path, repaired: "RepairsAtHand | None", *, as_json: bool) -> None:
    from planner import files, report
    from planner.report.kit.markdown import sections_text

    assert placed.placement is not None
    if as_json:
        document = files.plan_document(placed)
        keys = ("throughput_rps", "placement", "placement_report")
        more = {} if repaired is None else {"repairs": repaired.document()}
        screen.show_json({**{key: document[key] for key in keys}, "loaded_w": placed.loaded_w, **more})
        return
    screen.show_markdown("\n\n".join(sections_text([report.placement_section(placed)])))
    screen.show_text(f"Written to {folder}")
    if repaired is not None:
        repaired.show()
