"""The `objective:` section of a scenario."""

from dataclasses import replace
from pathlib import Path

from planner.domain import (
    CurrentIsland,
    DrawnFrom,
    Goal,
    InputHash,
    ObjectiveKind,
    ObjectiveSettings,
    Phase,
    Pick,
    RequestTrace,
    Scenario,
    SearchSettings,
    require_buckets,
)
from planner.domain.arrivals import ArrivalProcess
from planner.domain.objective import OBJECTIVES
from planner.errors import InputError
from planner.files.disk.documents import input_hash
from planner.files.disk.folders import PLAN_FILE
from planner.files.disk.names import canonical, resolve
from planner.files.disk.opening import is_folder
from planner.files.models.gpu_specs import gpu_spec_files
from planner.files.plan.digests import read_saved_plan
from planner.files.records import read_record, record_document, record_keys
from planner.files.scenario.inventories import require_prices
from planner.files.sections import Section, nearest_hint, referred_from

_OF_SEVERAL = ("goals", "pick", "within", "demand_rps", "current")
_OF_REPLAYED = ("arrivals", "drawn_from", "requests", "replays")
_OF_ROBUST = ("measure",)
_FIGURES = ("budget_usd_per_hour", "target_rps")
_FEWEST_GOALS = 2


def objective_section(document: Section) -> Section:
    """The `objective:` section of a scenario; a single word stands for its kind."""
    if document.holds_text("objective"):
        return Section({"kind": document.text("objective")}, file=document.file, path=document.key_path("objective"))
    return document.section("objective", optional=True)


def read_objective(section: Section, base: Path) -> tuple[ObjectiveSettings, tuple[InputHash, ...]]:
    """The objective with what belongs to it, and the run that it refers to (found from `base`).

    InputError where something is missing, or belongs to another objective.
    """
    section.allow_only(*record_keys(ObjectiveSettings))
    kind = section.choice("kind", ObjectiveKind, default=ObjectiveKind.RATE)
    for key in (*_FIGURES, *_OF_SEVERAL, *_OF_REPLAYED, *_OF_ROBUST):
        if key in section and key not in (*kind.row.needs, *kind.row.may):
            raise section.fault(key, f"left out where objective.kind is {kind.value}", hint="Choose one objective.")
    if kind.row.several:
        return _several(section, base)
    return read_record(ObjectiveSettings, section, needed=kind.row.needs), ()


def _several(section: Section, base: Path) -> tuple[ObjectiveSettings, tuple[InputHash, ...]]:
    settings = read_record(ObjectiveSettings, section, goals=_goals, current=lambda _: ())
    goals = settings.goals
    _only_with(section, "within", allowed=settings.pick is Pick.WITHIN, condition="objective.pick is within")
    _only_with(section, "demand_rps", allowed=Goal.HEADROOM in goals, condition="headroom is among objective.goals")
    measured = next((goal for goal in reversed(goals) if goal.of_changes), None)
    _only_with(
        section, "current", allowed=measured is not None, condition="changes or change_cost is among objective.goals"
    )
    current, inputs = ((), ()) if measured is None else _current(section, base, goals)
    return replace(settings, current=current), inputs


def _goals(section: Section) -> tuple[Goal, ...]:
    """At least two, each once; the rate is one of them: without it, serving next to nothing would be best."""
    names = tuple(goal.value for goal in Goal)
    words = section.texts("goals")
    for word in words:
        if word not in names:
            text = f"must be of {', '.join(names)}, got {word!r}"
            raise section.refusal("goals", text, hint=nearest_hint(word, names, noun="goals"))
    if len(words) < _FEWEST_GOALS or len(set(words)) < len(words):
        raise section.fault("goals", "at least two different goals", hint="For a single goal choose another kind.")
    if Goal.RATE.value not in words:
        raise section.fault(
            "goals", "two goals or more, rate among them", hint="Add rate: the others alone favour to serve nothing."
        )
    return tuple(Goal(word) for word in words)


def _only_with(section: Section, key: str, *, allowed: bool, condition: str) -> None:
    if key in section and not allowed:
        raise section.fault(key, f"left out unless {condition}", hint="Leave it out.")


def _current(
    section: Section, base: Path, goals: tuple[Goal, ...]
) -> tuple[tuple[CurrentIsland, ...], tuple[InputHash, ...]]:
    """The islands that run now: those of a run, or told in full."""
    costed = Goal.CHANGE_COST in goals
    if section.holds_list("current"):
        rows = [_told_island(row, costed=costed) for row in section.sections("current")]
        return tuple(replace(row, gpu=canonical(row.gpu, gpu_spec_files())) for row in rows), ()
    if "current" not in section:
        word = next(goal.value for goal in goals if goal.of_changes)
        raise section.fault(
            "current", f"given where {word} is among objective.goals", hint="Give the run folder of what runs now."
        )
    path = _run_path(section, base)
    with referred_from(section, "current"):
        return _running(path, costed=costed), (input_hash(path),)


def _run_path(section: Section, base: Path) -> Path:
    path = resolve(section.text("current"), base)
    return path / PLAN_FILE if is_folder(path) else path


def _told_island(row: Section, *, costed: bool) -> CurrentIsland:
    """Islands of a list. InputError where a cost needs their degrees, or their servers do not fill them."""
    island = read_record(CurrentIsland, row, needed=("tp",) if costed else ())
    if island.tp and island.size % island.server.devices:
        raise row.fault("size", f"a multiple of tp * dp * pp, {island.server.devices}", hint="Servers fill an island.")
    return island


def _running(path: Path, *, costed: bool) -> tuple[CurrentIsland, ...]:
    """The islands of a plan.json that serve something, alike ones together; with degrees where a cost needs them."""
    counts: dict[tuple[str, int, Phase, int, int, int], int] = {}
    for row in read_saved_plan(path).sections("islands"):
        degrees = _degrees(row) if costed else (0, 1, 1)
        kind = (row.text("gpu"), row.integer("size", low=1), row.choice("phase", Phase), *degrees)
        counts[kind] = counts.get(kind, 0) + 1
    return tuple(
        CurrentIsland(gpu=gpu, size=size, phase=phase, count=count, tp=tp, dp=dp, pp=pp)
        for (gpu, size, phase, tp, dp, pp), count in sorted(counts.items())
    )


def _degrees(row: Section) -> tuple[int, int, int]:
    return row.integer("tp", low=1), row.integer("dp", low=1), row.integer("pp", low=1, default=1)


def require_costed(file: str, scenario: Scenario, section: Section, base: Path) -> None:
    """InputError where the cost of a change cannot be told: of another model or engine than those that run, or of GPU
    types without a price."""
    if Goal.CHANGE_COST not in scenario.objective.goals:
        return
    require_prices(file, scenario.inventory, where="where change_cost is among objective.goals")
    offered = {item.gpu.name for item in scenario.inventory.items}
    strangers = sorted({island.gpu for island in scenario.objective.current} - offered)
    if strangers:
        raise section.fault(
            "current",
            f"of GPU types of the inventory where change_cost is among objective.goals, got {strangers[0]} among them",
            hint="Put it into the inventory, or measure `changes`, which need no price.",
        )
    if not section.holds_list("current"):
        with referred_from(section, "current"):
            _require_engines(scenario, read_saved_plan(_run_path(section, base)).section("scenario"))


def _require_engines(scenario: Scenario, saved: Section) -> None:
    """InputError where no server of a run would run on."""
    model = saved.text("model") if saved.holds_text("model") else saved.section("model").text("name")
    if model != scenario.model.name:
        raise saved.fault("model", f"that of the scenario, {scenario.model.name}", hint="Name a run of this model.")
    if "engine" in saved and not saved.is_empty("engine") and scenario.engine.name:
        engine = saved.section("engine")
        for key, planned in (("name", scenario.engine.name), ("version", scenario.engine.version)):
            if engine.text(key) != planned:
                raise engine.fault(key, f"that of the scenario, {planned}", hint="Another engine runs no server on.")


def _require_sure(file: str, scenario: Scenario) -> None:
    kinds = [kind.value for kind, row in OBJECTIVES.items() if row.surely]
    if scenario.objective.kind.value not in kinds:
        raise InputError(
            f"{file}: promise.sure goes with objective.kind {' or '.join(kinds)}: of {scenario.objective.kind.value} "
            f"nobody can say yet which plan is best and so sure, got {scenario.promise.sure:g}.",
            hint="Leave out promise.sure, and ask `planner doubt RUN` how sure the plan is.",
        )
    if not scenario.doubt.speeds:
        raise InputError(
            f"{file}: doubt.speeds must be true where promise.sure is given, which is of speeds, got false.",
            hint="Leave out doubt.speeds, or promise.sure.",
        )
    purpose = "where promise.sure is given, since pools are judged in draws of how fast servers are"
    require_buckets(scenario, purpose, origin=file, instead="leave out promise.sure")
    method = scenario.search.method
    if not (method.row.solves or method.row.may_solve):
        raise InputError(
            f"{file}: search.method must be auto or exact where promise.sure is given, whose pools are solved for and "
            f"judged in draws, got {method.value}.",
            hint="Leave out search.method, or promise.sure.",
        )


PLACED_ROUNDS, PLACED_LAYOUTS = 4, 8
"""Of a search that nobody asked for: those of `planner study placed`, whose gain made the objective the default."""


def with_default(scenario: Scenario, objective: Section, search: Section) -> Scenario:
    """A plan of pools on a cluster is judged where it lies unless its objective, or a key that only another takes, says
    otherwise; the search is as long as its section says, else short."""
    other = (
        "kind" in objective
        or scenario.cluster is None
        or not scenario.bucketed
        or not scenario.search.method.row.may_solve
        or scenario.chosen_in_draws
        or bool(scenario.placement.exchange)
    )
    if other:
        return scenario
    return replace(
        scenario,
        objective=replace(scenario.objective, kind=ObjectiveKind.PLACED),
        search=replace(
            scenario.search,
            iterations=scenario.search.iterations if "iterations" in search else PLACED_ROUNDS,
            batch_size=scenario.search.batch_size if "batch_size" in search else PLACED_LAYOUTS,
        ),
    )


def objective_document(settings: ObjectiveSettings) -> dict[str, object]:
    """The section that `read_objective` reads back as the same settings."""
    left_out = dict.fromkeys(_OF_REPLAYED, not settings.kind.row.replayed) | {
        "measure": not settings.kind.row.robust,
        "goals": not settings.kind.row.several,
        "pick": not settings.kind.row.several,
        "within": settings.pick is not Pick.WITHIN,
        "current": not any(goal.of_changes for goal in settings.goals),
    }
    return {key: value for key, value in record_document(settings).items() if not left_out.get(key)}


def require_method(file: str, objective: ObjectiveSettings, search: SearchSettings) -> None:
    """InputError where the number of GPUs is to be chosen by a search that uses all of them, or several goals or placed
    layouts are to be solved for."""
    exact = search.method.row.solves
    if exact and objective.kind.row.placed:
        raise InputError(
            f"{file}: search.method must be a search where objective.kind is placed: exact sees no nodes, "
            f"got {search.method.value}.",
            hint="Set search.method to direct or divider, or objective.kind to rate.",
        )
    if objective.kind.row.several:
        if exact:
            raise InputError(
                f"{file}: search.method must be a search where objective.kind is pareto: exact solves for one goal, "
                f"got {search.method.value}.",
                hint="Set search.method to direct or divider, or choose one objective.",
            )
    elif objective.kind.row.robust and not exact and not search.method.row.may_solve:
        raise InputError(
            f"{file}: search.method must be auto or exact where objective.kind is {objective.kind.value}, whose pools "
            f"are solved for and judged in draws, got {search.method.value}.",
            hint="Leave out search.method, or set objective.kind to rate.",
        )
    elif objective.kind.row.replayed and not search.method.row.may_solve:
        raise InputError(
            f"{file}: search.method must be auto where objective.kind is {objective.kind.value}: a search of its own "
            f"begins with the pools that are solved for, got {search.method.value}.",
            hint="Leave out search.method, or set objective.kind to rate.",
        )
    elif objective.rents and not exact and not search.method.row.may_solve:
        raise InputError(
            f"{file}: search.method must be exact where objective.kind is {objective.kind.value}, as the other methods "
            f"use every GPU of the inventory, got {search.method.value}.",
            hint="Leave out search.method, or set it to exact or auto.",
        )


def require_measurable(file: str, scenario: Scenario) -> None:
    """InputError where a goal has nothing to be measured by: service levels, a demanded rate, prices."""
    goals, items = scenario.objective.goals, scenario.inventory.items
    if scenario.objective.kind.row.robust:
        purpose = "where objective.kind is robust, which judges pools in draws of how fast servers are"
        require_buckets(scenario, purpose, origin=file, instead="set objective.kind to rate")
    if scenario.promise.sure is not None:
        _require_sure(file, scenario)
    if Goal.HEADROOM in goals and not scenario.slo.bounds_anything:
        raise InputError(
            f"{file}: slo must hold a bound where headroom is among objective.goals; it has none.",
            hint="Add slo.ttft_ms or slo.tpot_ms.",
        )
    if Goal.HEADROOM in goals and not (scenario.objective.demand_rps or scenario.workload.arrival_rps):
        raise InputError(
            f"{file}: objective.demand_rps must be given where headroom is among objective.goals: the workload "
            f"{scenario.workload.name} has no arrival rate.",
            hint="Add the rate that is to be served (requests/s).",
        )
    if scenario.objective.kind.row.priced:
        require_prices(file, scenario.inventory, where=f"where objective.kind is {scenario.objective.kind.value}")
    if Goal.PRICE in goals:
        require_prices(file, scenario.inventory, where="where price is among objective.goals")
    if Goal.PRICE in goals and not any(item.price_usd_per_gpu_hour > 0 for item in items):
        raise InputError(
            f"{file}: prices_usd_per_gpu_hour must be above 0 for some GPU type where price is among objective.goals; "
            "all cost nothing.",
            hint="Give prices, or leave price out of objective.goals.",
        )


def with_requests(file: str, scenario: Scenario, section: Section, trace: RequestTrace | None) -> Scenario:
    """The scenario with the requests that its objective replays: its `trace`, or its lengths where it has none.
    InputError where those do not go together, or a replay is asked for what it cannot judge."""
    objective = scenario.objective
    if not objective.kind.row.replayed:
        return scenario
    _require_replayable(file, scenario)
    if "drawn_from" not in section:
        objective = replace(objective, drawn_from=DrawnFrom.TRACE if trace else DrawnFrom.LENGTHS)
    if objective.arrivals is ArrivalProcess.DIURNAL:
        raise section.fault("arrivals", "poisson, gamma or trace", hint="Choose one of them.")
    if objective.arrivals is ArrivalProcess.TRACE and objective.drawn_from is not DrawnFrom.TRACE:
        raise InputError(
            f"{file}: objective.arrivals must be poisson or gamma where requests are drawn from lengths, which say "
            "nothing of when they came, got trace.",
            hint="Name the trace's file as the workload, or set objective.arrivals to poisson or gamma.",
        )
    return replace(scenario, objective=objective, trace=trace)


def _require_replayable(file: str, scenario: Scenario) -> None:
    kind = scenario.objective.kind.value
    purpose = f"where objective.kind is {kind}, whose replays are of pools"
    require_buckets(scenario, purpose, origin=file, instead="set objective.kind to rate")
    if not scenario.slo.bounds_anything:
        raise InputError(
            f"{file}: slo must hold a bound where objective.kind is {kind}: the rate is the highest that holds it; it "
            "has none.",
            hint="Add slo.ttft_ms or slo.tpot_ms, or set objective.kind to rate.",
        )
    if scenario.survive.share:
        raise InputError(
            f"{file}: survive.share must be 0 where objective.kind is {kind}: replays lose no nodes, got "
            f"{scenario.survive.share:g}.",
            hint="Leave out survive, or set objective.kind to rate.",
        )
