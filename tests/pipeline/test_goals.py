"""Plans of several goals: values recomputed from layouts and islands, the frontier by brute force, and the pick."""

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pipeline_scenarios import small
from planned import plan

import planner
from planner.domain import (
    Assignment,
    Goal,
    GpuSpec,
    IslandClass,
    Layout,
    ObjectiveKind,
    Phase,
    Plan,
    Question,
    Scenario,
    SearchRecord,
    SloSettings,
    Trial,
    Workload,
)
from planner.errors import InconsistentPlanError
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.goals import Standing, headroom, reference_values
from planner.evaluation.goodput import goodput_of, service_at
from planner.files import encode_plan
from planner.plans.audit import audit
from planner.proposing import choice
from planner.proposing.search import SearchResult
from planner.workload import divide, question_of

COUNTS = {"H200": 40, "H20": 40}
FEW = {"H200": 32, "H20": 32}
PRICES = {"H200": 4.0, "H20": 1.5}
SEARCH = {"method": "random", "iterations": 2, "batch_size": 8, "min_island_size": 4}
LEVELS = {"ttft_ms": 4000, "percentile": 90}
DEMAND = 20.0
RUNNING = [{"gpu": "H200", "size": 16, "phase": "prefill", "count": 1}, {"gpu": "H20", "size": 8, "phase": "decode"}]
OBJECTIVE = {
    "kind": "pareto",
    "goals": ["rate", "price", "watts", "headroom", "changes"],
    "demand_rps": DEMAND,
    "current": RUNNING,
}


def asked(objective: dict[str, Any], **changes: Any) -> Scenario:
    search = {**SEARCH, **changes.pop("search", {})}
    return small(FEW, prices_usd_per_gpu_hour=PRICES, search=search, objective=objective, **changes)


def in_a_notebook(
    objective: dict[str, Any], inventory: dict[str, int] = FEW, **changes: Any
) -> "planner.PlannedDeployment":
    return planner.plan(
        inventory=inventory,
        workload="normal-500-2000",
        prices_usd_per_gpu_hour=PRICES,
        ranges={"width": 2048},
        routing={"form": "table"},
        search={**SEARCH, **changes.pop("search", {})},
        objective=objective,
        **changes,
    )


@pytest.fixture(scope="module")
def found() -> Plan:
    return in_a_notebook(
        OBJECTIVE, COUNTS, slo=LEVELS, search={"iterations": 2, "batch_size": 8, "min_island_size": 8}
    ).record


@pytest.fixture(scope="module")
def load(found: Plan) -> Workload:
    return divide(found.scenario.workload, found.scenario.ranges.width)


def gpu(scenario: Scenario, name: str) -> GpuSpec:
    return scenario.inventory.item(name).gpu


def beats(one: Trial, other: Trial) -> bool:
    """Less is better for price, watts and changes; of equal ones the earlier is kept."""
    pairs = [
        (-a, -b) if name in ("price", "watts", "changes") else (a, b)
        for (name, a), (_, b) in zip(one.goals, other.goals, strict=True)
    ]
    return all(a >= b for a, b in pairs) and (any(a > b for a, b in pairs) or one.index < other.index)


def test_the_frontier_is_what_brute_force_leaves(found: Plan) -> None:
    served = [trial for trial in found.search.trials if trial.goals]
    assert {t.index for t in served} == {t.index for t in found.search.trials if t.throughput_rps > 0}
    assert len(served) < len(found.search.trials)
    due = [t.index for t in served if not any(beats(other, t) for other in served)]
    assert list(found.search.frontier) == due
    assert 1 < len(due) < len(served)
    assert found.search.best_trial in due


def test_goals_are_those_of_the_layout(found: Plan) -> None:
    for trial in found.search.trials:
        if trial.goals:
            told = dict(trial.goals)
            assert list(told) == OBJECTIVE["goals"]
            held = [(island.gpu, island.size * count) for island, count in trial.layout.counts]
            assert told["rate"] == trial.throughput_rps
            assert told["price"] == pytest.approx(sum(PRICES[name] * count for name, count in held))
            assert told["watts"] == pytest.approx(sum(gpu(found.scenario, n).max_w * count for n, count in held))
            assert -1 < told["headroom"] < 1
            assert (told["headroom"] < 0) == (trial.throughput_rps < DEMAND)


def test_the_plan_is_paid_for_as_its_goals_say(found: Plan) -> None:
    told = dict(found.search.trials[found.search.best_trial].goals)
    assert found.scenario.objective.rents
    assert found.price_usd_per_hour == pytest.approx(told["price"])
    assert sum(gpu(found.scenario, name).max_w * n for name, n in found.fleet.items()) == pytest.approx(told["watts"])
    assert found.throughput_rps == told["rate"]
    serving = Counter((island.gpu, island.size, island.phase) for island in found.islands if island.phase)
    running = Counter({("H200", 16, Phase.PREFILL): 1, ("H20", 8, Phase.DECODE): 1})
    kept = (serving & running).total()
    assert told["changes"] == max(serving.total(), running.total()) - kept


def test_the_certificate_bounds_the_rate_of_the_fleet_alone(found: Plan) -> None:
    certificate = found.certificate
    assert certificate.bound_rps is not None
    assert certificate.objective_value == found.throughput_rps <= certificate.bound_rps
    assert (certificate.objective_bound, certificate.objective_gap) == (None, None)
    assert "no bound" in certificate.note
    whole = plan(asked({"kind": "pareto", "goals": ["rate", "changes"], "current": []}))
    alone = plan(asked({"kind": "rate"}))
    assert whole.certificate.bound_rps == pytest.approx(alone.certificate.bound_rps)
    assert whole.fleet == FEW
    assert sum(found.fleet.values()) < sum(COUNTS.values())
    everything = plan(replace(found.scenario, objective=alone.scenario.objective, search=alone.scenario.search))
    assert everything.certificate.bound_rps is not None
    assert certificate.bound_rps < everything.certificate.bound_rps


def test_hypervolume_grows_round_by_round(found: Plan) -> None:
    volumes = [one.hypervolume for one in found.search.rounds]
    assert len(volumes) == found.scenario.search.iterations
    assert None not in volumes
    assert volumes == sorted(volumes)  # type: ignore[type-var]
    assert 0 < volumes[-1] < max(t.throughput_rps for t in found.search.trials)  # type: ignore[operator]


def test_a_plan_of_one_goal_has_no_frontier() -> None:
    alone = plan(asked({"kind": "rate"}))
    assert alone.search.frontier == ()
    assert all(trial.goals == () for trial in alone.search.trials)
    assert {one.hypervolume for one in alone.search.rounds} == {None}


def test_a_plan_changes_nothing_of_itself(tmp_path: Path) -> None:
    objective = {"kind": "pareto", "goals": ["rate", "changes"], "pick": "within", "within": 0.0}
    first = in_a_notebook({**objective, "current": []})
    told = dict(first.record.search.trials[first.record.search.best_trial].goals)
    serving = [island for island in first.record.islands if island.phase]
    assert told["changes"] == len(serving) > 0
    run = tmp_path / "plan.json"
    run.write_bytes(encode_plan(first.record))
    again = in_a_notebook({**objective, "current": str(run)}).record
    assert again.islands == first.record.islands
    assert dict(again.search.trials[again.search.best_trial].goals)["changes"] == 0


def test_rent_is_saved_by_the_direct_encoding() -> None:
    search = {"encoding": "direct", "slots": 3}
    objective = {"kind": "pareto", "goals": ["price", "rate"], "pick": "within", "within": 0.0}
    found = in_a_notebook(objective, search=search).record
    whole = found.scenario.inventory.price_usd_per_hour
    front = [dict(found.search.trials[index].goals) for index in found.search.frontier]
    cheapest = min(dict(t.goals)["price"] for t in found.search.trials if t.goals)
    assert len(front) > 1
    assert min(one["price"] for one in front) == cheapest < whole
    assert found.price_usd_per_hour == pytest.approx(cheapest)
    by_price = sorted(front, key=lambda one: one["price"])
    assert [one["rate"] for one in by_price] == sorted(one["rate"] for one in front)


LAYOUT = Layout.of([IslandClass(gpu=name, size=16) for name in ("H200", "H200", "H20", "H20")])


def judged(slo: SloSettings) -> tuple[Evaluator, Assignment, float]:
    scenario = replace(small({"H200": 32, "H20": 32}), slo=slo)
    load = divide(scenario.workload, scenario.ranges.width)
    evaluator = Evaluator(Question(scenario=scenario, workload=load))
    assignment = evaluator.evaluate(LAYOUT).assignment
    assert assignment is not None
    return evaluator, assignment, load.mean_output_tokens


def test_headroom_falls_from_the_idle_fleet_to_nothing_and_below() -> None:
    loose = SloSettings(ttft_ms=1500, percentile=99)
    evaluator, assignment, tokens = judged(loose)
    table, goodput = evaluator.table(LAYOUT), assignment.throughput_rps
    service = goodput_of(assignment, table, loose, tokens)
    standing = Standing.of_table(evaluator.question, assignment, table)
    assert 0 < service.factor < 1
    shares = [1e-5, 0.5, 0.9, 1.0, 1.25, 2.0, 1000.0]
    rooms = [headroom(share * goodput, standing) for share in shares]
    assert rooms == sorted(rooms, reverse=True)
    assert rooms[3] == pytest.approx(0, abs=1e-3)  # the queue that binds leaves nothing
    assert rooms[4:] == pytest.approx([1 / 1.25 - 1, -0.5, 1e-3 - 1])
    # an idle fleet waits for nothing but the prompt itself and the first step
    first = [
        max(table.row(d.island).decode.step_ms[j] for d in assignment.duties if d.phase is Phase.DECODE and share)
        for j, share in enumerate(table.ranges)
    ]
    alone = max(
        (table.row(d.island).prefill.service_ms[j] + first[j]) / 1500
        for d in assignment.duties
        for j, share in enumerate(d.time_shares)
        if d.phase is Phase.PREFILL and share > 1e-6
    )
    assert 0 < rooms[0] <= 1 - alone + 1e-9
    assert rooms[0] == pytest.approx(1 - alone, abs=0.05)


def test_headroom_of_tpot_is_that_of_full_batches() -> None:
    slo = SloSettings(tpot_ms=60)
    evaluator, assignment, _ = judged(slo)
    table = evaluator.table(LAYOUT)
    slowest = max(
        table.row(d.island).decode.step_ms[j]
        for d in assignment.duties
        for j, share in enumerate(d.time_shares)
        if d.phase is Phase.DECODE and share > 1e-6
    )
    for demand in (0.1 * assignment.throughput_rps, assignment.throughput_rps):
        standing = Standing.of_table(evaluator.question, assignment, table)
        assert headroom(demand, standing) == pytest.approx(1 - slowest / 60)


def test_service_at_goodput_is_the_services_own() -> None:
    slo = SloSettings(ttft_ms=1500, percentile=99)
    evaluator, assignment, tokens = judged(slo)
    table = evaluator.table(LAYOUT)
    due = goodput_of(assignment, table, slo, tokens)
    same = service_at(assignment, table, slo, tokens, due.goodput_rps)
    assert [r.percentile_ms for r in same] == pytest.approx([r.percentile_ms for r in due.ranges])
    assert [(r.phase, r.start, r.bound_ms) for r in same] == [(r.phase, r.start, r.bound_ms) for r in due.ranges]
    half = service_at(assignment, table, slo, tokens, due.goodput_rps / 2)
    for fast, slow in zip(half, due.ranges, strict=True):
        assert (fast.phase, fast.start) == (slow.phase, slow.start)
        if fast.phase is Phase.PREFILL:
            assert fast.percentile_ms is not None  # a row is of the island whose percentile is largest
            assert slow.percentile_ms is not None
            assert fast.percentile_ms < slow.percentile_ms


def test_reference_values_are_beyond_every_layout(found: Plan) -> None:
    reference = dict(zip(found.scenario.objective.goals, reference_values(found.scenario), strict=True))
    assert (reference[Goal.RATE], reference[Goal.HEADROOM]) == (0.0, -1.0)
    assert reference[Goal.CHANGES] == 1 + 40 // 8 + 40 // 8
    for trial, (name, value) in product(found.search.trials, [(g.value, r) for g, r in reference.items()]):
        if trial.goals:
            own = dict(trial.goals)[name]
            assert own > value if Goal(name).maximised else own < value
    many = replace(found.scenario.objective, current=(replace(found.scenario.objective.current[0], count=99),))
    crowded = dict(zip(many.goals, reference_values(replace(found.scenario, objective=many)), strict=True))
    assert crowded[Goal.CHANGES] == 1 + 99


def changed_trial(found: Plan, index: int, **goals: float) -> Plan:
    trials = tuple(
        replace(t, goals=tuple((name, goals.get(name, value)) for name, value in t.goals)) if t.index == index else t
        for t in found.search.trials
    )
    return replace(found, search=replace(found.search, trials=trials))


def damaged(found: Plan) -> dict[str, Plan]:
    front, best = found.search.frontier, found.search.best_trial
    off = next(t.index for t in found.search.trials if t.goals and t.index not in front)
    other = next(index for index in front if index != best)
    one = replace(found.scenario, objective=replace(found.scenario.objective, kind=ObjectiveKind.RATE))
    best_ever = {"rate": 1e6, "price": 0.0, "watts": 0.0, "headroom": 1.0, "changes": 0.0}
    return {
        "is not on it": replace(found, search=replace(found.search, frontier=tuple(i for i in front if i != best))),
        f"trial {other} is not beaten and not on": replace(
            found, search=replace(found.search, frontier=tuple(i for i in front if i != other))
        ),
        f"trial {off} of the frontier is beaten": replace(
            found, search=replace(found.search, frontier=tuple(sorted((*front, off))))
        ),
        f"trial {off} is not beaten": changed_trial(found, off, **best_ever),
        "its price is": changed_trial(found, best, price=1.0),
        "its watts is": changed_trial(found, best, watts=1.0),
        "its changes is": changed_trial(found, best, changes=0.0),
        "scenario a single goal": replace(found, scenario=one),
    }


@pytest.mark.parametrize("place", range(8))
def test_the_audit_names_what_does_not_fit(found: Plan, load: Workload, place: int) -> None:
    audit(found, load)
    words, broken = list(damaged(found).items())[place]
    with pytest.raises(InconsistentPlanError) as caught:
        audit(broken, load)
    assert words in caught.value.message


def test_islands_that_serve_nothing_are_not_rented(found: Plan, load: Workload) -> None:
    """The same islands with and without two that cannot hold the model: the same trial, price included."""
    evaluator = Evaluator(Question(scenario=found.scenario, workload=load))
    best = found.search.trials[found.search.best_trial].layout
    padded = Layout.of(
        [*(island for island, count in best.counts for _ in range(count)), *[IslandClass(gpu="H20", size=2)] * 2]
    )
    assert replace(evaluator.evaluate(padded), cpu_s=0.0) == replace(evaluator.evaluate(best), cpu_s=0.0)
    assert all(island.phase is not None for island in found.islands)


def test_a_layout_that_was_solved_for_instead_is_told_with_its_volume() -> None:
    """A search that can only try islands too small to serve."""
    tiny = {"method": "direct", "iterations": 1, "batch_size": 2, "slots": 8, "seed": 3, "min_island_size": 2}
    scenario = asked({"kind": "pareto", "goals": ["rate", "price"]}, search=tiny)
    evaluator = Evaluator(question_of(scenario))
    nothing = SearchResult(record=SearchRecord(trials=(), best_trial=0), best=None)
    answer, result = choice._solved_instead(scenario, evaluator, nothing)
    (last,) = result.record.rounds
    assert answer is None
    assert last.hypervolume is not None
    assert last.hypervolume > 0
    assert last.note
    assert last.generation_cpu_s is not None
    assert result.record.frontier == (0,)
