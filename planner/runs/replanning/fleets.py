"""A deployed fleet changed: what is asked of it now, and the folder of the new plan with the steps that lead there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from planner import files
from planner.domain.fleets import FleetPlan, FleetScenario, FleetService
from planner.domain.serving.fleets.changes import DeploymentChange, FleetChange, FleetTerms
from planner.errors import InputError
from planner.files.disk.documents import read_bytes
from planner.files.disk.folders import PLAN_FILE
from planner.files.disk.opening import MOST_OF_A_LIST
from planner.files.plan.digests import with_seal
from planner.files.plan.fleet_document import folder_of
from planner.files.plan.runs import SERVICES_FOLDER
from planner.files.scenario.fleets import load_fleet
from planner.files.scenario.settings import Setting
from planner.files.sections import Section, nearest_hint
from planner.replanning.changes import joining_others
from planner.replanning.fleets.standing import on_inventory
from planner.report.replanning.files import DOCUMENT as CHANGE_DOCUMENT
from planner.report.replanning.files import PAGE as CHANGE_PAGE
from planner.report.replanning.files import TABLES as CHANGE_TABLES
from planner.report.replanning.fleet_changes import DOCUMENT, change_files_of_fleet
from planner.runs.fleets import PublishedFleet, own_files
from planner.runs.publication import Publication, publish
from planner.runs.replanning.asking import HTML, ChangedPlan, fewer_servers, publish_change
from planner.runs.replanning.inputs import deployed_manifests
from planner.runs.replanning.steps import FOLDER, step_name
from planner.workload import summarize

_OF_A_CHANGE = frozenset({CHANGE_DOCUMENT, CHANGE_PAGE, CHANGE_TABLES, HTML, FOLDER})
"""What a run folder has of the change that led to it."""
_KEYS = ("demand", "weight", "priority")
_MOST = 1e9
_AS = "Write services.chat.demand=40 or inventory.H20=24; for anything else give the new fleet's file (--scenario)."


def asked_of_fleet(
    saved: FleetPlan,
    scenario: str | Path | None = None,
    *,
    inventory: Mapping[str, int] | None = None,
    settings: Sequence[Setting] = (),
) -> FleetScenario:
    """What is asked of a fleet now: a new file, or its own question with other demands, weights, priorities and GPUs.
    Types that `inventory` does not name stay as they are. Raises InputError where something cannot be used."""
    if scenario is None:
        fleet = saved.fleet
        for setting in settings:
            fleet = _with_setting(fleet, setting)
    else:
        read = load_fleet(Path(scenario), summarize, settings)
        if read is None:
            raise InputError(
                f"{scenario}: services: must be there, is missing: the folder is of a fleet, the file of one service.",
                hint="Give the fleet's file, with the services that it is to have.",
            )
        fleet = read
    if inventory:
        fleet = _with_counts(fleet, inventory, "inventory")
    return fleet


def _with_counts(fleet: FleetScenario, counts: Mapping[str, int], key: str) -> FleetScenario:
    known = dict(fleet.inventory.counts)
    for gpu, count in counts.items():
        if gpu not in known:
            raise InputError(
                f"{key}: must name GPU types of the fleet, got {gpu}.",
                hint=f"{nearest_hint(gpu, known, noun='types')} A new type comes with a new file (--scenario).",
            )
        if not 0 <= count <= _MOST:
            raise InputError(f"{key}.{gpu}: must be a number of GPUs from 0 on, got {count}.", hint="Write 24.")
    return on_inventory(fleet, known | dict(counts))


def _with_setting(fleet: FleetScenario, setting: Setting) -> FleetScenario:
    top, _, below = setting.key.partition(".")
    section = Section({below: setting.value}, file="--set", path=top)
    if top == "inventory" and below:
        return _with_counts(fleet, {below: section.integer(below, low=0)}, "--set inventory")
    name, _, key = below.rpartition(".")
    if top != "services" or key not in _KEYS:
        raise InputError(
            f"--set {setting.key}: must be services.NAME.{'|'.join(_KEYS)} or inventory.TYPE for a fleet that runs.",
            hint=_AS,
        )
    names = [service.name for service in fleet.interactive]
    if name not in names:
        raise InputError(
            f"--set {setting.key}: must name a service with a demand, got {name!r:.80}.",
            hint=nearest_hint(name, names, noun="services"),
        )
    section = Section({key: setting.value}, file="--set", path=f"services.{name}")
    services = (_with_key(s, key, section) if s.name == name else s for s in fleet.services)
    return replace(fleet, services=tuple(services))


def _with_key(service: FleetService, key: str, section: Section) -> FleetService:
    """The service with a key set anew; a demand takes the place of its curve."""
    if key == "weight":
        return replace(service, weight=section.number(key, above=0, high=_MOST))
    if key == "priority":
        return replace(service, priority=section.integer(key, low=1, high=100))
    demand_rps = section.number(key, above=0, high=_MOST)
    scenarios = tuple(replace(s, objective=replace(s.objective, demand_rps=demand_rps)) for s in service.scenarios)
    return replace(service, scenarios=scenarios, demand_rps=demand_rps, rates=None)


def terms_of_change(
    saved: FleetPlan,
    lost: Iterable[str] = (),
    *,
    least_share: float | None = None,
    meanwhile: Mapping[str, int] | None = None,
) -> FleetTerms:
    """What is lost (GPU=COUNT, DEPLOYMENT/GPU=COUNT, each said once), and what steps have to keep. InputError for other
    words."""
    types, names = dict(saved.fleet.inventory.counts), [part.name for part in saved.plans]
    by_type, by_name, seen = dict[str, int](), dict[str, dict[str, int]](), set[str]()
    for word in lost:
        place, _, count = word.partition("=")
        name, slash, gpu = place.rpartition("/")
        if gpu not in types or (slash and name not in names) or not (count.isascii() and count.isdecimal()):
            raise InputError(
                f"lost: must be GPU=COUNT or DEPLOYMENT/GPU=COUNT of the fleet, got {word!r:.80}.",
                hint=f"Write {min(types)}=8 or {names[0]}/{min(types)}=8; types: {', '.join(sorted(types))}; "
                f"deployments: {', '.join(names)}.",
            )
        if place in seen or len(count) > 9:
            raise InputError(f"lost: must name each loss once, got {word!r:.80} again.", hint="Add them up.")
        seen.add(place)
        if slash:
            by_name.setdefault(name, {})[gpu] = int(count)
        else:
            by_type[gpu] = int(count)
    return FleetTerms(lost=by_type, lost_of=by_name, least_share=least_share, meanwhile=dict(meanwhile or {}))


def publish_fleet_change(
    change: FleetChange, run: Path | None = None, *, target: str = "", engine: str = ""
) -> PublishedFleet:
    """Every file of the new fleet's folder; nothing is written here. `run`: the folder of the fleet that runs: what
    stays as it is has its files from there, and what changes goes on from the manifests that stand there."""
    contents, warnings = dict(own_files(change.plan)), list[str]()
    folders: dict[tuple[str, int], str] = {}
    for row in change.deployments:
        if row.after is None:
            continue
        folder = folder_of(row.after)
        published = _deployment(row, run, target, engine)
        contents |= {f"{folder}/{name}": content for name, content in published.files.items()}
        warnings += [f"{row.name}: {warning}" for warning in published.warnings]
        for step in () if row.roll_out is None else row.roll_out.steps:
            place = f"{folder}/{FOLDER}/{step_name(step)}"
            if any(path.startswith(f"{place}/") for path in contents):
                folders[row.name, step.number] = place
    before = change.before.fleet.name if run is None else str(run)
    contents |= with_seal(change_files_of_fleet(change, folders, before), DOCUMENT)
    return PublishedFleet(files=contents, warnings=tuple(warnings))


def _deployment(row: DeploymentChange, run: Path | None, target: str, engine: str) -> Publication:
    """A deployment's run folder: as it is, with its change, or new."""
    assert row.after is not None, "what goes has no folder"
    place = None if run is None or row.before is None else run / folder_of(row.before)
    if row.stays and place is not None:
        return Publication(files=_files_below(place))
    plan = row.after.plan
    if row.replan is None or row.change is None or row.roll_out is None or row.before is None:
        return publish(plan, engine=engine or plan.scenario.engine.name)
    changed = ChangedPlan(
        replan=row.replan,
        change=row.change,
        roll_out=row.roll_out,
        joining=joining_others(row.replan.change),
        lost=fewer_servers(row.before.plan, row.replan.before),
    )
    stands = deployed_manifests(row.before.plan, place, target=target, engine=engine)
    return publish_change(changed, deployed=stands.files, target=stands.target, engine=stands.engine)


def _files_below(folder: Path) -> dict[str, bytes]:
    """The files of a run folder, but for those of the change that led to it, which is over."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path: path.relative_to(folder) for path in paths}
    assert folder / PLAN_FILE in names, f"{SERVICES_FOLDER} are run folders"
    return {
        name.as_posix(): read_bytes(path, most_bytes=MOST_OF_A_LIST)
        for path, name in names.items()
        if name.parts[0] not in _OF_A_CHANGE and name.name != files.PAGE_FILE
    }
