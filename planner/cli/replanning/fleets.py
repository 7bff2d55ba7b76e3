"""`planner replan` of a fleet's folder: its nodes divided anew with few that move, in steps that keep every service."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli import screen
from planner.errors import InfeasibleError, InputError

if TYPE_CHECKING:
    from planner.domain.serving.fleets.changes import FleetChange
    from planner.domain.watching import WatchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChangeOptions:
    """What is typed of a fleet's change. `others`: options that are of one plan alone, by their names."""

    scenario: Path | None
    settings: Sequence[str]
    inventory: str | None
    meanwhile: str | None
    lost: Sequence[str]
    least_share: float | None
    target: str
    engine: str
    others: Mapping[str, object]


def replan_fleet(run: Path, out: Path, options: FleetChangeOptions, *, force: bool, as_json: bool) -> None:
    """Change a fleet that runs, write its folder, tell of it. Raises PlannerError; then nothing has been written."""
    from planner import files, pipeline
    from planner.files.scenario.offers import inventory_of
    from planner.files.scenario.settings import read_setting
    from planner.runs.fleets import KINDS, read_fleet, write_fleet
    from planner.runs.replanning.fleets import asked_of_fleet, publish_fleet_change, terms_of_change

    for name, value in options.others.items():
        if value is not None:
            raise InputError(
                f"{name}: must be left out for a fleet, got {value}.",
                hint=f"Write it into the services of the fleet's file (changes, workload): planner replan {run} "
                "--scenario FLEET.yaml.",
            )
    if out.resolve() == run.resolve():
        raise InputError(f"--out {out}: is the deployed fleet's own folder.", hint="Give the new fleet another folder.")
    saved = read_fleet(run)
    meanwhile = {} if options.meanwhile is None else inventory_of("--meanwhile", options.meanwhile, fewest=0)
    terms = terms_of_change(saved, options.lost, least_share=options.least_share, meanwhile=meanwhile)
    fleet = asked_of_fleet(
        saved,
        options.scenario,
        inventory=None if options.inventory is None else inventory_of("--inventory", options.inventory, fewest=0),
        settings=tuple(map(read_setting, options.settings)),
    )
    files.claim_folder(out, KINDS, force=force)

    def tell(step: str) -> None:
        if not as_json:
            screen.show_note(f"{fleet.name}: {step}")

    change = pipeline.replan_fleet(saved, fleet, terms, tell)
    published = publish_fleet_change(change, run, target=options.target, engine=options.engine)
    write_fleet(out, published, force=force)
    _show(change, published.warnings, out, as_json=as_json)


def _show(change: "FleetChange", warnings: Sequence[str], out: Path, *, as_json: bool) -> None:
    from planner.report.kit.markdown import page_text
    from planner.report.replanning.fleet_changes import STEPS_PAGE, change_page_of_fleet, fleet_change_document

    for warning in warnings:
        screen.show_warning(warning)
    if as_json:
        screen.show_json({"folder": str(out), "warnings": list(warnings), **fleet_change_document(change)})
        return
    screen.show_markdown(page_text(change_page_of_fleet(change)))
    steps = f"; in which order steps are carried out, to {out / STEPS_PAGE}" if change.steps else ""
    screen.show_text(f"Written to {out}{steps}")


def watch_fleet(
    run: Path, feeds: Sequence[Path], out: Path, settings: "WatchSettings", *, once: bool, force: bool, as_json: bool
) -> None:
    """One look at a fleet; a new folder where it has to change, or pays to. Raises PlannerError; then nothing has been
    written."""
    from planner import files, pipeline
    from planner.domain.watching import Cause
    from planner.runs.fleets import KINDS, read_fleet, write_fleet
    from planner.runs.replanning.fleets import publish_fleet_change, terms_of_change
    from planner.runs.watching.fleet_looks import asked_by_loads, look_at, require_once

    require_once(once=once)
    if len(feeds) != 1:
        raise InputError(
            f"--feed: must be one file with the loads of all services, got {len(feeds)}.",
            hint="Give a CSV file with time, service and requests_per_s.",
        )
    saved = read_fleet(run)
    look = look_at(saved, feeds[0], settings)
    change = None
    if look.cause is not None:
        files.claim_folder(out, KINDS, force=force)
        try:
            change = pipeline.replan_fleet(saved, asked_by_loads(saved, look, settings), terms_of_change(saved))
        except InfeasibleError:
            if look.cause is Cause.LOAD:
                raise  # a saving that no steps lead to is none
    if change is not None and look.cause is Cause.SAVING:
        saves = change.plan.rent_usd_per_hour <= saved.rent_usd_per_hour * (1 - settings.least_saving)
        change = change if saves else None
    rows = [(row.service, row.load_rps, row.highest_rps, row.promised_rps) for row in look.loads]
    columns = ("service", "load_rps", "highest_rps", "promised_rps")
    published = None if change is None else publish_fleet_change(change, run)
    if published is not None:
        write_fleet(out, published, force=force)
    if as_json:
        verdict, cause = ("keep", None) if change is None else ("replan", look.cause)
        services = [dict(zip(columns, row, strict=True)) for row in rows]
        screen.show_json({"verdict": verdict, "cause": cause, "services": services, "folder": change and str(out)})
        return
    screen.show_table("Loads", columns, [(name, *(f"{value:.4g}" for value in row)) for name, *row in rows])
    if change is None or published is None:
        tightest = look.tightest
        screen.show_text(
            f"The fleet stands: {tightest.service} takes most, {100 * tightest.share:.0f} % of its promise."
        )
    else:
        _show(change, published.warnings, out, as_json=False)
