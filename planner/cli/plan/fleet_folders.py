"""Commands of runs given the folder of a fleet: what they do to one plan, done to all of its deployments."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from planner.cli import screen
from planner.errors import EXIT_BAD_INPUT, EXIT_FAILURE, EXIT_INFEASIBLE, InputError

if TYPE_CHECKING:
    from planner.domain import PlacementSettings
    from planner.domain.arrivals import ReplaySettings
    from planner.domain.fleets import FleetPlan
    from planner.export import CrdSchemas

_ALWAYS = ("run", "out", "force", "json", "quiet")
_SAME = 1e-9


def of_fleet(folder: Path | None) -> bool:
    """Whether a command was given a fleet's folder, or its fleet.json."""
    from planner.files.plan.fleet_document import holds_fleet
    from planner.files.plan.runs import FLEET_FILE

    return folder is not None and (holds_fleet(folder) or folder.name == FLEET_FILE)


def refuse_options(context: typer.Context, accepted: Collection[str], hint: str) -> None:
    """Raises InputError where an option was typed that a fleet does not take."""
    typed = [
        f"--{name.replace('_', '-')}"
        for name in sorted(context.params)
        if name not in (*_ALWAYS, *accepted)
        and (source := context.get_parameter_source(name)) is not None
        and source.name == "COMMANDLINE"
    ]
    if typed:
        raise InputError(f"{', '.join(typed)}: must be left out where RUN is the folder of a fleet.", hint=hint)


def export_fleet(
    context: typer.Context,
    run: Path,
    out: Path,
    *,
    target: str,
    engine: str,
    router: str,
    queues: bool,
    schemas: "CrdSchemas | None",
    force: bool,
    as_json: bool,
) -> None:
    """Manifests of all deployments and of what they share. Raises PlannerError; then nothing is written."""
    from planner import files
    from planner.runs.deployments import render_fleet
    from planner.runs.fleets import read_fleet

    refuse_options(
        context,
        ("target", "engine", "router", "queues", "schemas"),
        "What a deployment's manifests have stands in `deploy` of its service; plan again with it.",
    )
    plan = read_fleet(run)
    rendered = render_fleet(plan, target=target, engine=engine, router=router, queues=queues, schemas=schemas)
    files.write_folder(out, rendered.folder, force=force)
    for warning in rendered.warnings:
        screen.show_warning(warning)
    names = [str(out / name) for name in rendered.folder]
    if as_json:
        targets = {name: row.target for name, row in rendered.deployments.items()}
        screen.show_json({"targets": targets, "files": names, "warnings": list(rendered.warnings)})
    else:
        screen.show_text(f"{len(names)} files written to {out}: a folder a deployment, and what they share")


def replay_fleet(
    run: Path, rate: str | None, settings: "Mapping[str, object]", *, strict: bool, as_json: bool, quiet: bool
) -> None:
    """Every deployment at its promise, or so much of its capacity; `settings`: as of the replay of a plan."""
    from planner import pipeline
    from planner.domain.serving.levels import Standing
    from planner.report.replay.services import services_table
    from planner.runs.fleets import read_fleet

    plan = read_fleet(run)
    share = _share(plan, rate)

    def tell(step: str) -> None:
        if not (quiet or as_json):
            screen.show_note(step)

    result = pipeline.replay_fleet(plan, _settings(plan, settings), share, tell=tell)
    table, standing = services_table(result), result.standing
    holds = None if standing in (None, Standing.UNTOLD) else standing is Standing.HOLDS
    if as_json:
        screen.show_json({"fleet": result.fleet, "share": share, "holds": holds, "services": table.records()})
    else:
        screen.show_table(f"Services at {share:.3g} times what they are promised", *table.words())
    if strict and holds is not True:
        raise typer.Exit(EXIT_INFEASIBLE if holds is False else EXIT_BAD_INPUT)


def _settings(plan: "FleetPlan", settings: "Mapping[str, object]") -> "dict[str, ReplaySettings]":
    from planner.runs.replays.replay_settings import replay_settings

    return {part.name: replay_settings(part.plan, **settings) for part in plan.parts}  # type: ignore[arg-type]


def _share(plan: "FleetPlan", rate: str | None) -> float:
    """Of what every deployment promises."""
    from planner.runs.replays.replays import PROMISE, rate_of

    if rate not in (None, PROMISE) and not str(rate).endswith("x"):
        raise InputError(
            f"--rate: must be promise or such as 0.9x where several services are replayed, got {rate}.",
            hint="Replay one deployment by itself for a rate of its own.",
        )
    shares = [rate_of(part.plan, rate) / part.promise_rps for part in plan.parts]
    if max(shares) - min(shares) > _SAME:
        raise InputError(
            f"--rate: {rate} must be one share of all promises, is {min(shares):.3g} to {max(shares):.3g} of them: "
            "routing.margin differs between services.",
            hint="Leave it out, or replay the deployments one by one.",
        )
    return shares[0]


def place_fleet(
    run: Path, cluster: Path, settings: "PlacementSettings", out: Path, *, engine: str, force: bool, as_json: bool
) -> None:
    """All deployments on the nodes of one cluster, each on nodes of its own."""
    from planner import files, pipeline
    from planner.runs.fleets import KINDS, publish_fleet, read_fleet, write_fleet

    plan = read_fleet(run)
    files.claim_folder(out, KINDS, force=force)
    placed = pipeline.place_fleet(plan, files.load_cluster(cluster), settings)
    published = publish_fleet(placed, engine=engine)
    write_fleet(out, published, force=force)
    for warning in published.warnings:
        screen.show_warning(warning)
    _show_placed(plan, placed, out, as_json=as_json)


def _show_placed(plan: "FleetPlan", placed: "FleetPlan", out: Path, *, as_json: bool) -> None:
    rows = []
    for before, part in zip(plan.plans, placed.plans, strict=True):
        assert part.plan.placement is not None, "a placed plan lies somewhere"
        nodes = sorted({piece.node for piece in part.plan.placement.parts})
        rows.append((part.name, ", ".join(nodes), before.promise_rps, part.promise_rps))
    if as_json:
        keys = ("deployment", "nodes", "promise_rps_before", "promise_rps")
        screen.show_json({"folder": str(out), "deployments": [dict(zip(keys, row, strict=True)) for row in rows]})
        return
    columns = ("deployment", "nodes", "promise before (requests/s)", "placed (requests/s)")
    words = [(name, nodes, f"{old:.4g}", f"{new:.4g}") for name, nodes, old, new in rows]
    screen.show_table(f"Fleet {placed.fleet.name} on its nodes", columns, words, important=("deployment", "nodes"))
    screen.show_text(f"Written to {out}")


def schedule_fleet(
    folder: Path,
    out: Path,
    *,
    days: float | None,
    headroom: float | None,
    replay: "tuple[float, int, tuple[int, ...]] | None",
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Hour by hour who has which nodes, for the rates of the services' curves; `replay`: (burstiness, requests, seeds)
    at which every level is replayed."""
    from planner import pipeline
    from planner.domain.serving.fleets.lending import LendingTerms
    from planner.report.kit.markdown import page_text
    from planner.report.replanning.fleet_tables import fleet_schedule_page
    from planner.runs.fleets import read_fleet
    from planner.runs.replanning.fleet_weeks import claim_week_folder, week_document, write_week
    from planner.runs.replanning.scheduling import checked

    claim_week_folder(out, force=force)
    plan = read_fleet(folder)
    terms = LendingTerms() if headroom is None else checked(LendingTerms, headroom=headroom)
    tell = (lambda _: None) if quiet or as_json else screen.show_note
    week = pipeline.schedule_fleet(plan, terms, days, tell)
    replayed = () if replay is None else pipeline.replay_fleet_schedule(week, *replay)
    page = fleet_schedule_page(week, replayed)
    write_week(out, week, replayed, force=force)
    if as_json:
        screen.show_json({"folder": str(out), **week_document(week, replayed)})
        return
    screen.show_markdown(page_text(page))
    screen.show_text(f"Written to {out}")


def compare_fleets(folders: Sequence[Path], csv: Path | None, html: Path | None, *, force: bool, as_json: bool) -> None:
    """Fleets beside each other. Raises InputError where one of the folders is none."""
    from planner import files
    from planner.cli.terminal.wide_tables import show_rows
    from planner.report.fleets.beside import fleets, fleets_page
    from planner.runs.comparisons import FOLDER_SOURCE, folder_names
    from planner.runs.fleets import read_fleet
    from planner.runs.pages import page_bytes

    for folder in folders:
        if not of_fleet(folder):
            raise InputError(
                f"{folder}: must be the folder of a fleet, as others are.", hint="Compare fleets, or runs, not both."
            )
    for path in filter(None, (csv, html)):
        files.refuse_existing(path, force=force)
    plans = {name: read_fleet(folder) for name, folder in zip(folder_names(folders), folders, strict=True)}
    table = fleets(plans)
    outputs = ((csv, table.csv), (html, lambda: page_bytes(fleets_page(plans), FOLDER_SOURCE)))
    files.write_files({path: encoded() for path, encoded in outputs if path is not None}, force=force)
    if as_json:
        screen.show_json(table.records())
        return
    columns, rows = table.words()
    show_rows("Fleets beside each other", columns, rows, first=1)
    screen.show_prose(fleets_page(plans).verdict.replace("**", ""))


def diff_fleets(old: Path, new: Path, *, exit_code: bool, as_json: bool) -> None:
    """What changes from one fleet to another."""
    from planner.report.fleets.beside import changes_document, changes_page
    from planner.report.kit.markdown import page_text
    from planner.runs.fleets import read_fleet, source_of_fleet

    for folder in (old, new):
        if not of_fleet(folder):
            raise InputError(
                f"{folder}: must be the folder of a fleet, as the other is.", hint="Compare two fleets, or two runs."
            )
    before, after = read_fleet(old), read_fleet(new)
    if as_json:
        screen.show_json(changes_document(before, after))
    else:
        screen.show_markdown(page_text(changes_page(before, after)))
    if exit_code and source_of_fleet(before) != source_of_fleet(after):
        raise typer.Exit(EXIT_FAILURE)
