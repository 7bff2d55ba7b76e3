"""`planner replan`: a deployed plan for a new workload, inventory, price or cluster, changed as little as will do."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.plan import saved_runs
from planner.cli.replanning.fleets import FleetChangeOptions, replan_fleet
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain import Plan, Scenario
    from planner.runs.publication import Publication
    from planner.runs.replanning.asking import ChangedPlan


def command(
    run: Annotated[
        Path,
        typer.Argument(help="The run folder of the plan that is deployed, or that of a fleet.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="Run folder of the new plan.", show_default=False)],
    workload: Annotated[
        str | None,
        typer.Option(help="The new workload: a shipped name, a workload file or a trace. [default: RUN's]"),
    ] = None,
    scenario: Annotated[
        Path | None, typer.Option(help="The new scenario: a file, or a shipped name. [default: RUN's]")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the scenario, such as slo.tpot_ms=40."),
    ] = None,
    inventory: Annotated[
        str | None, typer.Option(help="The GPUs at hand now, as H200=64,H20=96. [default: RUN's]", show_default=False)
    ] = None,
    meanwhile: Annotated[
        str | None,
        typer.Option(
            help="GPUs that there are until the change is done, as A100=24: lent, or given back after it. "
            "[default: --inventory]",
            show_default=False,
        ),
    ] = None,
    lost: Annotated[
        list[str] | None,
        typer.Option(
            help="GPU=COUNT, ISLAND=COUNT or NODE that are lost with the servers on them; of a fleet GPU=COUNT or "
            "DEPLOYMENT/GPU=COUNT; may be repeated."
        ),
    ] = None,
    cluster: Annotated[
        Path | None, typer.Option(help="The cluster as it is now, as `planner cluster` writes it.")
    ] = None,
    most_gpus: Annotated[int | None, typer.Option(min=0, help="Most GPUs that the change may touch.")] = None,
    keep: Annotated[
        float | None, typer.Option(min=0, max=1, help="Least share of the servers that run on, as 0.8.")
    ] = None,
    turns_only: Annotated[
        bool | None,
        typer.Option(
            "--turns-only/--any-change",
            help="Servers stay as they are, but for those that turn to the other phase or get other flags.",
        ),
    ] = None,
    horizon_hours: Annotated[
        float | None, typer.Option(min=0.01, help="A change must pay within so long, where the objective is in USD.")
    ] = None,
    least_share: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Of the rate, that no step of the roll-out undercuts. [default: 0.9]"),
    ] = None,
    storage_gb_s: Annotated[
        float | None, typer.Option(help="GB/s at which a node reads weights. [default: 2]", show_default=False)
    ] = None,
    start_s: Annotated[
        float | None, typer.Option(help="Seconds from the weights to the first request. [default: 120]")
    ] = None,
    drain_s: Annotated[
        float | None, typer.Option(help="Most seconds that requests in flight are waited for. [default: 300]")
    ] = None,
    target: Annotated[str, typer.Option(help="Kind of the steps' manifests. [default: that of RUN]")] = "",
    engine: Annotated[str, typer.Option(help="Engine of the manifests. [default: that of RUN]")] = "",
    replay: Annotated[bool, typer.Option("--replay/--no-replay", help="Replay what serves during each step.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace a run folder that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the change as JSON.")] = False,
) -> None:
    """Change a deployed plan as little as new load, GPUs or levels need, in steps that keep it serving."""
    from planner import files
    from planner.files.plan.fleet_document import holds_fleet
    from planner.files.scenario.offers import inventory_of

    if holds_fleet(run):
        options = FleetChangeOptions(
            scenario=scenario,
            settings=settings or [],
            inventory=inventory,
            meanwhile=meanwhile,
            lost=lost or [],
            least_share=least_share,
            target=target,
            engine=engine,
            others={
                "--workload": workload,
                "--cluster": cluster,
                "--most-gpus": most_gpus,
                "--keep": keep,
                "--turns-only": turns_only,
                "--horizon-hours": horizon_hours,
                "--storage-gb-s": storage_gb_s,
                "--start-s": start_s,
                "--drain-s": drain_s,
            },
        )
        replan_fleet(run, out, options, force=force, as_json=json)
        return
    from planner.runs.replanning.asking import ChangeQuestion, change_plan, lost_servers, publish_change
    from planner.runs.replanning.inputs import change_limits, change_settings, deployed_manifests

    saved = saved_runs.read_run(run)
    changed_scenario = _scenario(saved, scenario, workload, inventory, cluster, settings or [])
    policy = changed_scenario.changes
    question = ChangeQuestion(
        scenario=changed_scenario,
        settings=change_settings(policy.times, storage_gb_s=storage_gb_s, start_s=start_s, drain_s=drain_s),
        limits=change_limits(policy.limits, most_gpus, keep, horizon_hours, turns_only=turns_only),
        lost=lost_servers(saved, lost or []),
        least_share=least_share,
        replays=replay,
        meanwhile=inventory_of("--meanwhile", meanwhile, fewest=0) if meanwhile is not None else {},
    )
    if out.resolve() == run.resolve():
        raise InputError(f"--out {out}: is the deployed plan's own folder.", hint="Give the new plan another folder.")
    files.claim_run_folder(out, force=force)
    stands = deployed_manifests(saved, run, target=target, engine=engine)
    changed = change_plan(saved, question)
    published = publish_change(changed, deployed=stands.files, target=stands.target, engine=stands.engine)
    files.write_run(out, published.files, force=force)
    _tell(changed, published, out, as_json=json)


def _scenario(
    saved: "Plan",
    scenario: Path | None,
    workload: str | None,
    inventory: str | None,
    cluster: Path | None,
    settings: list[str],
) -> "Scenario":
    from planner.files.scenario.offers import inventory_of
    from planner.files.scenario.settings import read_setting
    from planner.runs.replanning.inputs import new_scenario

    return new_scenario(
        saved,
        scenario,
        workload=workload,
        inventory=None if inventory is None else inventory_of("--inventory", inventory, fewest=0),
        cluster=cluster,
        settings=tuple(map(read_setting, settings)),
    )


def _tell(changed: "ChangedPlan", published: "Publication", out: Path, *, as_json: bool) -> None:
    from planner.report.kit.markdown import page_text
    from planner.report.replanning.files import change_document
    from planner.report.replanning.words import change_page
    from planner.runs.replanning.steps import FOLDER, NOT_WRITTEN

    for warning in published.warnings:
        screen.show_warning(warning)
    results = (changed.change, changed.frontier, changed.roll_out, changed.plan, changed.notes)
    if as_json:
        screen.show_json({"folder": str(out), **change_document(*results)})
        return
    screen.show_markdown(page_text(change_page(*results)))
    written = changed.roll_out.steps and f"{FOLDER}/{NOT_WRITTEN}" not in published.files
    steps = f"; its steps, with their commands, to {out / FOLDER}" if written else ""
    screen.show_text(f"Written to {out}{steps}")
