"""Fleets whose divisions replays or nodes judge: the best of all divisions, and never worse than the programme's."""

from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from test_placing import cluster_of

from planner import pipeline
from planner.domain import Cluster, Plan, Pod, Scenario
from planner.domain.arrivals import ReplaySettings
from planner.domain.fleets import (
    BatchFill,
    FleetAim,
    FleetJudge,
    FleetObjective,
    FleetPart,
    FleetPlan,
    FleetScenario,
    on_gpus,
)
from planner.errors import InfeasibleError, InputError
from planner.files import cluster_document
from planner.files.plan.fleet_document import fleet_text, load_fleet_run
from planner.files.scenario.fleets import fleet_from_document
from planner.proposing.fleets import judging, planning, searching
from planner.proposing.fleets.deployments import batch_deployments, deployments_of
from planner.proposing.fleets.placing import placed_parts
from planner.proposing.fleets.planning import planned_fleet
from planner.report.fleets.page import fleet_summary
from planner.runs.fleets import publish_fleet, write_fleet
from planner.workload import summarize

SLO = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 95}
MODEL = "qwen3-235b-a22b-fp8"
DEMANDS = (10, 5)
CHAT = {"name": "chat", "model": MODEL, "workload": "azure-conv-2023", "demand": DEMANDS[0], "slo": SLO}
CODE = {"name": "code", "model": MODEL, "workload": "azure-code-2023", "demand": DEMANDS[1], "slo": SLO}
NIGHT = {"name": "night", "model": "gpt-oss-20b", "workload": "azure-code-2023", "batch": {}}
NODES = {"H20": 8, "H200": 8}
TWO = cluster_of({"a": ("H200", 1), "b": ("H20", 1)})


def fleet_of(judged: str, *more: dict[str, Any], cluster: Cluster | None = None, **objective: object) -> FleetScenario:
    document: dict[str, Any] = {
        "name": "tiny",
        "inventory": NODES,
        "engine": {"name": "vllm", "version": "0.33.0"},
        "prices_usd_per_gpu_hour": {"H20": 1, "H200": 4},
        "objective": {"judged": judged, **objective},
        "services": [CHAT, CODE, *more],
    }
    if cluster is not None:
        document["cluster"] = cluster_document(cluster)
    return fleet_from_document(document, origin="tiny.yaml", base=Path(), summarize=summarize)


@cache
def _plan(name: str, gpus: tuple[tuple[str, int], ...], batch: bool) -> Plan:
    fleet = fleet_of("replayed", *([NIGHT] if batch else []))
    return pipeline.plan(on_gpus(fleet.service(name).scenarios[0], dict(gpus)))


def plan_one(scenario: Scenario) -> Plan:
    """As `pipeline.plan`, each once a process."""
    items = scenario.inventory.items
    return _plan(scenario.name, tuple((item.gpu.name, item.count) for item in items), scenario.name == "night")


REPLAY = judging.replayed_rps
_REPLAYED: dict[object, float] = {}
_REQUESTS: dict[tuple[str, tuple[int, ...]], int] = {}


@pytest.fixture(autouse=True)
def _replayed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployment on the same GPUs with the same requests, once a process; all divisions meet the same requests."""

    def once(fleet: FleetScenario, part: FleetPart, seeds: tuple[int, ...], requests: int) -> float:
        key = (part.name, part.gpus, seeds)
        if key not in _REPLAYED:
            _REPLAYED[key] = REPLAY(fleet, part, seeds, requests)
        assert _REQUESTS.setdefault((part.name, seeds), requests) == requests
        return _REPLAYED[key]

    monkeypatch.setattr(judging, "replayed_rps", once)
    monkeypatch.setattr(searching, "fresh_seeds", lambda _seed: (50,))  # one of three: a third of the time


@cache
def replayed() -> FleetPlan:
    """All nine divisions of two nodes are judged."""
    fleet = fleet_of("replayed", requests=1000, rounds=2, divisions=8)
    return planned_fleet(fleet, plan_one, pipeline.place)


def divisions() -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """(H20, H200) of chat and of code."""
    shares = list(product((0, 8), (0, 8)))
    return [(a, b) for a, b in product(shares, repeat=2) if a[0] + b[0] <= 8 and a[1] + b[1] <= 8]


def value_of(gpus: tuple[tuple[int, int], ...], seeds: tuple[int, ...]) -> float:
    """What a division is worth, service by service, with the requests that the search has."""
    fleet = fleet_of("replayed")
    parts = judging.PlannedDeployments(fleet, deployments_of(fleet), plan_one).parts(gpus)
    rates = [
        0.0 if part is None else judging.replayed_rps(fleet, part, seeds, _REQUESTS[part.name, seeds]) for part in parts
    ]
    return min(0.9 * rps / demand for rps, demand in zip(rates, DEMANDS, strict=True))


def test_replays_choose_the_best_of_all_divisions() -> None:
    """Which is not the one of the formulas."""
    plan = replayed()
    searched = plan.searched
    assert searched is not None
    assert searched.divisions == len(divisions()) == 9
    values = {gpus: value_of(gpus, searched.search_seeds) for gpus in divisions()}
    parts = {part.name: dict(part.gpus) for part in plan.parts}
    chat, code = ((parts[name].get("H20", 0), parts[name].get("H200", 0)) for name in ("chat", "code"))
    assert values[chat, code] == max(values.values()) > 0
    assert (chat, code) == ((0, 8), (8, 0))
    assert plan.value == searched.value == pytest.approx(value_of((chat, code), searched.fresh_seeds))
    assert searched.exact == pytest.approx(value_of((code, chat), searched.fresh_seeds))
    assert searched.gain > 0.1
    shares = [rps / demand for (_, rps), demand in zip(searched.rates_rps, DEMANDS, strict=True)]
    assert plan.value == pytest.approx(min(shares))


def test_what_is_replayed_holds_and_a_rung_more_does_not() -> None:
    plan = replayed()
    assert plan.searched is not None
    for part in plan.parts:
        seeds = plan.searched.fresh_seeds
        requests = _REQUESTS[part.name, seeds]
        assert requests >= 2 * 30 * part.plan.throughput_rps * 0.5
        settings = ReplaySettings(router=part.plan.scenario.router, seeds=seeds, requests=requests)
        held_rps = dict(plan.searched.rates_rps)[part.name] / part.deployment.promised
        at, above = (
            pipeline.replay(part.plan, part.plan.scenario.workload, settings, rate)
            for rate in (held_rps, 1.01 * held_rps)
        )
        assert at.seems_to_hold
        assert not above.seems_to_hold


def test_replays_claim_no_bound_and_their_report_says_so() -> None:
    plan = replayed()
    assert (plan.bound, plan.gap) == (None, None)
    assert "no bound" in plan.note
    summary = fleet_summary(plan)
    assert "Replays hold the levels of 2 services at" in summary
    assert "Nothing proves how far" in summary
    assert "9 divisions judged by replays" in summary


def test_equal_seeds_give_equal_bytes() -> None:
    fleet = fleet_of("replayed", requests=1000, rounds=2, divisions=8)
    again = planned_fleet(fleet, plan_one, pipeline.place)
    assert fleet_text(again) == fleet_text(replayed())


def test_another_division_has_to_be_better_on_fresh_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that overrates what is not the programme's division is not believed."""
    first: list[judging.Division] = []

    def judge(self: judging.ReplayedDivisions, division: judging.Division) -> judging.JudgedDivision:
        first.append(division)
        parts = self._planned.parts(division)
        rates = tuple(100.0 if division == first[0] else 1000.0 for _ in division)
        return self._planned.judged(division, parts, rates)

    def fresh(self: judging.ReplayedDivisions, division: judging.Division) -> judging.JudgedDivision:
        rates = tuple(100.0 if division == first[0] else 99.0 for _ in division)
        return self._planned.judged(division, self._planned.parts(division), rates)

    monkeypatch.setattr(judging.ReplayedDivisions, "judge", judge)
    monkeypatch.setattr(judging.ReplayedDivisions, "judge_again", fresh)
    plan = planned_fleet(fleet_of("replayed", rounds=1, divisions=4), plan_one, pipeline.place)
    assert plan.searched is not None
    assert plan.searched.gain == 0
    assert plan.value == plan.searched.exact
    used = tuple(tuple(dict(part.gpus).get(gpu, 0) for gpu in NODES) for part in plan.parts)
    assert used == first[0]


def test_a_fleet_comes_out_placed_and_its_bound_is_of_formulas() -> None:
    fleet = fleet_of("placed", NIGHT, cluster=TWO, rounds=1, divisions=2)
    plan = planned_fleet(fleet, plan_one, pipeline.place)
    places = [{piece.node for piece in part.plan.placement.parts} for part in plan.plans if part.plan.placement]
    assert len(places) == len(plan.plans) == 2
    assert not places[0] & places[1]
    formula = replace(fleet, objective=FleetObjective(), cluster=None)
    by_formula = planned_fleet(formula, plan_one, pipeline.place)
    placed = pipeline.place_fleet(by_formula, TWO, fleet.placement)
    assert plan.searched is not None
    assert plan.searched.exact == pytest.approx(
        min(part.promise_rps / demand for part, demand in zip(placed.parts, DEMANDS, strict=True))
    )
    assert plan.value == pytest.approx(min(share.share for share in plan.shares))
    assert plan.value >= plan.searched.exact
    assert plan.bound is not None
    assert by_formula.bound == plan.bound >= plan.value
    assert "nodes only take from what formulas allow" in plan.note
    assert {part.name for part in plan.plans} == {"chat", "code"}
    assert [fill.part for fill in plan.batches] == [None]


def _lying_at(nodes: dict[str, float]) -> Any:
    """Placing that takes the first nodes of each type, and leaves a plan a share of its rate by the node."""
    template = pipeline.place(_chat_plan(), _on(TWO))

    def place(plan: Plan, scenario: Scenario) -> Plan:
        assert scenario.cluster is not None
        assert template.placement is not None
        lying = []
        for item in plan.scenario.inventory.items:
            free = [node.name for node in scenario.cluster.nodes if node.gpu == item.gpu.name]
            if len(free) < item.count // 8:
                raise InfeasibleError("no room", hint="None.")
            lying += free[: item.count // 8]
        pieces = tuple(replace(template.placement.parts[0], node=name) for name in lying)
        rate = plan.throughput_rps * min(nodes[name] for name in lying)
        return replace(plan, throughput_rps=rate, placement=replace(template.placement, parts=pieces))

    return place


def _scenario(name: str, gpus: dict[str, int]) -> Scenario:
    return on_gpus(fleet_of("replayed").service(name).scenarios[0], gpus)


def _on(cluster: Cluster) -> Scenario:
    return replace(_scenario("chat", {"H200": 8}), cluster=cluster)


@pytest.mark.parametrize("kind", ["multiple", "weighted"])
def test_nodes_choose_the_best_of_all_divisions(kind: str) -> None:
    """On slow nodes of one type."""
    fleet = fleet_of("placed", cluster=TWO, rounds=2, divisions=8, kind=kind)
    plan = planned_fleet(fleet, plan_one, _lying_at({"a-0": 0.2, "b-0": 1.0}))
    values = []
    for gpus in divisions():
        rates = []
        for name, demand, (h20, h200) in zip(("chat", "code"), DEMANDS, gpus, strict=True):
            counts = {gpu: n for gpu, n in (("H20", h20), ("H200", h200)) if n}
            rate = plan_one(_scenario(name, counts)).throughput_rps if counts else 0.0
            promised = 0.9 * rate * (0.2 if h200 else 1.0)
            rates.append(promised / demand if kind == "multiple" else min(promised, demand))
        values.append(min(rates) if kind == "multiple" else sum(rates))
    assert plan.searched is not None
    assert plan.searched.divisions == 9
    assert plan.value == pytest.approx(max(values))
    assert plan.value >= plan.searched.exact


def test_batches_lie_on_nodes_that_no_service_has_or_do_nothing() -> None:
    fleet = fleet_of("placed", NIGHT, cluster=TWO)
    place, (night,) = _lying_at({"a-0": 1.0, "b-0": 0.5}), batch_deployments(fleet.batches[0])
    chat = FleetPart(deployment=deployments_of(fleet)[0], gpus=(("H200", 8),), plan=place(_chat_plan(), _on(TWO)))
    for gpu, gets in (("H20", 0.5), ("H200", 0.0)):
        part = FleetPart(deployment=night, gpus=((gpu, 8),), plan=plan_one(on_gpus(night.scenario, {gpu: 8})))
        fill = BatchFill(service="night", part=part, tokens_a_day=1.0)
        (placed,) = planning._placed_fills(fleet, [chat], [fill], place)
        tokens = night.scenario.workload.mean_input_tokens + night.scenario.workload.mean_output_tokens
        assert placed.tokens_a_day == pytest.approx(gets * part.promise_rps * tokens * 86_400)
        if placed.part is not None and placed.part.plan.placement is not None:
            assert {piece.node for piece in placed.part.plan.placement.parts} == {"b-0"}
        assert (placed.part is None) is (gets == 0)


def test_work_that_waits_lies_beside_the_services() -> None:
    """Three plans, the last of which has one node more than services need."""
    three = cluster_of({"a": ("H200", 1), "b": ("H20", 2)})
    fleet = fleet_of("placed", NIGHT, cluster=three, kind="weighted", rounds=1, divisions=2)
    items = tuple(replace(item, count=16) if item.gpu.name == "H20" else item for item in fleet.inventory.items)
    inventory = replace(fleet.inventory, items=items)
    services = tuple(
        replace(s, demand_rps=1.0, scenarios=tuple(replace(c, inventory=inventory) for c in s.scenarios))
        for s in fleet.services
    )
    fleet = replace(fleet, inventory=inventory, services=services)
    plan = planned_fleet(fleet, plan_one, _lying_at({"a-0": 1.0, "b-0": 1.0, "b-1": 1.0}))
    nodes = [piece.node for part in plan.plans if part.plan.placement for piece in part.plan.placement.parts]
    assert [part.name for part in plan.plans] == ["chat", "code", "night"]
    assert sorted(nodes) == ["a-0", "b-0", "b-1"]


def test_each_plan_of_three_has_a_node_of_its_own() -> None:
    fleet = replace(fleet_of("placed", NIGHT, cluster=TWO), cluster=cluster_of({"b": ("H20", 3)}))
    deployments = (*batch_deployments(fleet.batches[0]), *deployments_of(fleet))
    parts = [
        FleetPart(deployment=d, gpus=(("H20", 8),), plan=plan_one(on_gpus(d.scenario, {"H20": 8}))) for d in deployments
    ]
    outcome = placed_parts(fleet, parts, _lying_at({"b-0": 1.0, "b-1": 1.0, "b-2": 1.0}))
    nodes = [plan.placement.parts[0].node for plan in outcome.plans if isinstance(plan, Plan) and plan.placement]
    assert nodes == ["b-2", "b-0", "b-1"]  # batches last
    assert outcome.busy == {"b-0", "b-1", "b-2"}


def _chat_plan() -> Plan:
    return plan_one(_scenario("chat", {"H200": 8}))


def test_nodes_without_room_for_a_service_are_told() -> None:
    pods = tuple(Pod(name=f"p{k}", node=node.name, gpus=tuple(range(8)), cpus=8.0) for k, node in enumerate(TWO.nodes))
    fleet = fleet_of("placed", cluster=replace(TWO, pods=pods), rounds=1, divisions=2)

    def full(_plan: Plan, _scenario: Scenario) -> Plan:
        raise InfeasibleError("no room", hint="None.")

    with pytest.raises(InfeasibleError, match=r"fleet tiny: services: .* judged placed: the best of \d+ leaves .* 0 %"):
        planned_fleet(fleet, plan_one, full)


def test_one_deployment_leaves_nothing_to_divide() -> None:
    fleet = fleet_of("replayed")
    alone = replace(fleet, services=fleet.services[:1])
    with pytest.raises(InputError, match=r"objective\.judged: must be formula where there is one deployment") as bad:
        planned_fleet(alone, plan_one, pipeline.place)
    assert bad.value.hint == "Plan it as a scenario of one service, with objective.kind replayed."


def test_gains_are_shares_of_the_programmes_division() -> None:
    plan = replayed()
    assert plan.searched is not None
    searched = replace(plan.searched, exact=2.0, value=2.5)
    assert searched.gain == pytest.approx(0.25)
    assert searched.judged is FleetJudge.REPLAYED
    assert plan.fleet.objective.kind is FleetAim.MULTIPLE
    words = fleet_summary(replace(plan, searched=searched, value=2.5))
    assert "the best of 9 divisions judged by replays, 25.0 % better than" in words


def test_what_was_searched_is_read_back(tmp_path: Path) -> None:
    plan = replayed()
    write_fleet(tmp_path / "fleet", publish_fleet(plan, figures=False))
    read = load_fleet_run(tmp_path / "fleet")
    assert (read.searched, read.bound, read.fleet.objective) == (plan.searched, None, plan.fleet.objective)
