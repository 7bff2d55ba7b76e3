"""Fleets: several services on one inventory, each read as a scenario of its own.

    name: company
    inventory: {H200: 64, H20: 128}
    objective: {kind: multiple}        # target, weighted, priority; judged: placed, with a cluster, or replayed
    share_nodes: false
    services:
      - {name: chat, model: qwen3-235b-a22b-fp8, workload: azure-conv-2023, slo: {...}, demand: 120}
      - {name: agents, model: qwen3-235b-a22b-fp8, workload: azure-code-2023, slo: {...}, demand: 20, shares: chat}
      - {name: nightly, model: ..., workload: ..., batch: {tokens_a_day: 2000000000}}

Any other key of a scenario may stand in a service, or at the top for all of them. `demand`: requests/s to be promised;
`{share: 0.3}` of `objective.demand_rps`; `{rates: FILE, pool: NAME, times: 1.2}`: the highest of a curve. Without one
it is the workload's own rate. `model: {checkpoints: [a, b], quality: {a: 0.82, b: 0.81}, floor: 0.8}`: checkpoints of
one model that pools may run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from planner.domain import InputHash, Scenario
from planner.domain.fleets import BatchTerms, FleetObjective, FleetScenario, FleetService
from planner.domain.schedules import RateSeries
from planner.files.disk.documents import input_hash, read_yaml
from planner.files.records import read_record
from planner.files.scenario.fleet_judges import read_fleet_objective, read_nodes, require_judgeable
from planner.files.scenario.inventories import read_inventory
from planner.files.scenario.scenarios import ReadRequests, Summarize, scenario_from_section, scenario_path
from planner.files.scenario.settings import Setting, with_settings
from planner.files.sections import Section, nearest_hint, top_level
from planner.files.tables.rates import load_rates
from planner.files.tables.workloads import read_workload

SERVICES = "services"
MOST_SERVICES = 64
MOST_CHECKPOINTS = 6
_OWN = ("name", "demand", "weight", "priority", "shares", "batch")
_OF_DEMAND = ("demand", "weight", "priority", "shares")
_OF_THE_FLEET = ("name", SERVICES, "objective", "share_nodes", "cluster", "placement")
_NOT_OF_SERVICES = ("cluster", "placement", "network", "objective", "inventory", "prices_usd_per_gpu_hour")
"""What several services have in common, or what no fleet knows."""


def is_fleet(document: Mapping[str, object]) -> bool:
    """Whether a scenario's document is of several services, or of several checkpoints."""
    model = document.get("model")
    return SERVICES in document or (isinstance(model, Mapping) and "checkpoints" in model)


def load_fleet(
    path: Path,
    summarize: Summarize,
    settings: Sequence[Setting] = (),
    read_requests: ReadRequests = read_workload,
) -> FleetScenario | None:
    """The fleet of a file, or of a shipped scenario's name; None where its document is of one service. Raises
    InputError as `load_scenario` does."""
    file = scenario_path(path)
    section = read_yaml(file)
    if settings:
        section = top_level(with_settings(section.plain(), settings, str(path)), str(path))
    if not is_fleet(section.plain()):
        return None
    return fleet_from_section(section, file.parent, summarize, (input_hash(file),), read_requests)


def is_fleet_file(path: Path) -> bool:
    """Whether a scenario's file, or the shipped one of that name, is of a fleet. Raises InputError where it cannot be
    read."""
    return is_fleet(read_yaml(scenario_path(path)).plain())


def fleet_from_document(
    document: Mapping[str, object], *, origin: str, base: Path, summarize: Summarize
) -> FleetScenario:
    """The fleet of a mapping, read as strictly as a file."""
    return fleet_from_section(top_level(document, origin), base, summarize)


def fleet_from_section(
    document: Section,
    base: Path,
    summarize: Summarize,
    inputs: tuple[InputHash, ...] = (),
    read_requests: ReadRequests = read_workload,
) -> FleetScenario:
    """The fleet of a mapping with its place."""
    values = document.plain()
    if "network" in values:
        raise document.refusal(
            "network",
            "must be left out where there are services",
            hint="Plan the fleet, then place each run by itself.",
        )
    rows = document.sections(SERVICES) if SERVICES in values else (_only_service(document),)
    if not 1 <= len(rows) <= MOST_SERVICES:
        raise document.refusal(
            SERVICES, f"must be 1 to {MOST_SERVICES}, got {len(rows)}", hint="Begin with `- name: chat`."
        )
    objective = read_fleet_objective(_objective(document))
    cluster, placement, cluster_inputs = read_nodes(document, objective, base)
    inventory, inventory_inputs = read_inventory(document, cluster, placement)
    common = {key: value for key, value in values.items() if key not in _OF_THE_FLEET}
    services = [_service(document, row, common, base, summarize, (inputs, read_requests), objective) for row in rows]
    _require_names(document, services)
    fleet = FleetScenario(
        name=document.name("name"),
        inventory=inventory,
        services=tuple(services),
        objective=objective,
        share_nodes=document.flag("share_nodes", default=False),
        inputs=inputs + inventory_inputs + cluster_inputs,
        cluster=cluster,
        placement=placement,
    )
    require_judgeable(document, fleet)
    if not fleet.interactive:
        raise document.refusal(
            SERVICES, "must have one with a demand, got batches alone", hint="Plan one of them by itself."
        )
    return fleet


def _only_service(document: Section) -> Section:
    """The service of a scenario with checkpoints: itself."""
    service: dict[str, object] = {"name": document.name("name")}
    objective = document.section("objective", optional=True)
    if "demand_rps" in objective:
        service["demand"] = objective.number("demand_rps")
    return Section(service, file=document.file, path=SERVICES)


def _objective(document: Section) -> Section:
    """What the fleet is divided for; a scenario with checkpoints alone may ask for the rate, its one demand."""
    section = document.section("objective", optional=True)
    if SERVICES in document or section.plain().get("kind") != "rate":
        return section
    return Section({**section.plain(), "kind": "multiple"}, file=document.file, path="objective")


def _service(
    document: Section,
    row: Section,
    common: Mapping[str, object],
    base: Path,
    summarize: Summarize,
    reading: tuple[tuple[InputHash, ...], ReadRequests],
    objective: FleetObjective,
) -> FleetService:
    name, values = row.name("name"), row.plain()
    for key in _NOT_OF_SERVICES:
        if key in values:
            raise row.refusal(key, "must stand once, for all services", hint="Write it at the top of the file.")
    if "promise" in {**common, **values}:
        raise row.refusal(
            "promise",
            "must be left out in a fleet, whose promises are divided as predicted",
            hint="Plan the service by itself with promise.sure, or ask `planner doubt` how sure its run is.",
        )
    merged = {**common, **{key: value for key, value in values.items() if key not in _OWN}, "name": name}
    inputs, read_requests = reading
    batch = read_record(BatchTerms, row.section("batch")) if "batch" in row else None
    scenarios = []
    for checkpoint, suffix in _checkpoints(row if "model" in values else document):
        deployment_keys = {**merged, "model": checkpoint, "name": f"{name}{suffix}"}
        section = Section(deployment_keys, file=f"{document.file}: {SERVICES}: {name}")
        scenarios.append(scenario_from_section(section, base, summarize, inputs, read_requests))
    _require_alike(row, scenarios)
    first = scenarios[0]
    if batch is not None:
        for key in _OF_DEMAND:
            if key in values:
                raise row.refusal(
                    key, "must be left out of a batch, which takes what others leave", hint="Leave it out."
                )
        if first.slo.bounds_anything:
            raise row.refusal(
                "batch",
                "must have no levels (slo): work that waits has none",
                hint="Leave out slo; where it stands at the top, write `slo: {}` in the batch.",
            )
        return FleetService(name=name, scenarios=tuple(scenarios), demand_rps=0.0, batch=batch)
    rates = _rates(row, base)
    demand_rps = _demand_rps(row, first, objective) if rates is None else rates.peak_rps
    asked_rps = demand_rps if "demand" in row else 0.0
    posed = [replace(s, objective=replace(s.objective, demand_rps=asked_rps)) for s in scenarios]
    return FleetService(
        name=name,
        scenarios=tuple(posed),
        demand_rps=demand_rps,
        weight=row.number("weight", default=1.0, above=0, high=1e9),
        priority=row.integer("priority", default=1, low=1, high=100),
        shares=_names(row, "shares"),
        rates=rates,
    )


def _names(row: Section, key: str) -> tuple[str, ...]:
    if key not in row:
        return ()
    return row.texts(key) if row.holds_list(key) else (row.text(key),)


def _checkpoints(row: Section) -> list[tuple[object, str]]:
    """(model, what its deployment's name has behind the service's) of every checkpoint that is good enough."""
    model = row.plain().get("model")
    if not isinstance(model, Mapping) or "checkpoints" not in model:
        return [(model, "")]
    section = row.section("model")
    section.allow_only("checkpoints", "quality", "floor")
    names = section.texts("checkpoints")
    if not 1 <= len(names) <= MOST_CHECKPOINTS or len(set(names)) < len(names):
        raise section.refusal("checkpoints", f"must be 1 to {MOST_CHECKPOINTS} different ones", hint="Name each once.")
    if "floor" not in section:
        return [(name, f"-{n + 1}" if n else "") for n, name in enumerate(names)]
    floor, quality = section.number("floor"), section.section("quality")
    quality.allow_only(*names)
    for name in names:
        if name not in quality:
            raise quality.refusal(
                name, "must have a score where there is a floor", hint=f"Measure it, or leave {name} out."
            )
    good = [name for name in names if quality.number(name) >= floor]
    if not good:
        best = max(names, key=quality.number)
        raise section.refusal(
            "floor",
            f"must admit a checkpoint, got {floor:g}; the best is {best} with {quality.number(best):g}",
            hint=f"Lower it to {quality.number(best):g}, or add a better checkpoint.",
        )
    return [(name, f"-{n + 1}" if n else "") for n, name in enumerate(good)]


def _require_alike(row: Section, scenarios: Sequence[Scenario]) -> None:
    """Checkpoints are of one model: equal layers of equal size, whatever the bytes of their weights."""
    first = scenarios[0].model
    for scenario in scenarios[1:]:
        other = scenario.model
        shapes = [(m.hidden_size, m.layers, m.heads, m.routed_experts, m.expert_parameters) for m in (first, other)]
        if shapes[0] != shapes[1]:
            raise row.refusal(
                "model",
                f"must have checkpoints of one model, got {first.name} and {other.name}",
                hint="Make a service of each.",
            )


def _demand_rps(row: Section, scenario: Scenario, objective: FleetObjective) -> float:
    if "demand" not in row:
        rate = scenario.workload.arrival_rps
        if not rate:
            raise row.refusal(
                "demand", "must be given: the workload has no rate of its own", hint="Write `demand: 20`, requests/s."
            )
        return rate
    if row.holds_number("demand"):
        return row.number("demand", above=0, high=1e9)
    section = row.section("demand")
    section.allow_only("share")
    return section.number("share", above=0, high=1) * objective.demand_rps


def _rates(row: Section, base: Path) -> RateSeries | None:
    """The curve of a service whose demand is the highest of one."""
    if "demand" not in row or row.holds_number("demand") or "share" in row.section("demand"):
        return None
    section = row.section("demand")
    section.allow_only("share", "rates", "pool", "times")
    pool = section.text("pool") if "pool" in section else None
    series = load_rates(section.text("rates"), pool, base=base)
    if not series.peak_rps:
        raise section.refusal("rates", "must have a rate above 0", hint="Give a curve with requests.")
    return series.times(section.number("times", default=1.0, above=0, high=1e6))


def _require_names(document: Section, services: Sequence[FleetService]) -> None:
    names = [service.name for service in services]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise document.refusal(SERVICES, f"must have different names, got {twice[0]} twice", hint="Rename one.")
    by_name = {service.name: service for service in services}
    for service in services:
        for other in service.shares:
            if other not in by_name or other == service.name or by_name[other].batch is not None:
                raise document.refusal(
                    SERVICES,
                    f"{service.name}: shares: must name another service with a demand, got {other}",
                    hint=nearest_hint(other, [name for name in names if name != service.name], noun="services"),
                )
            if by_name[other].shares:
                raise document.refusal(
                    SERVICES,
                    f"{service.name}: shares: must name a service that shares nobody's pools itself, {other} shares "
                    f"those of {by_name[other].shares[0]}",
                    hint="Let both share the pools of one of them.",
                )
