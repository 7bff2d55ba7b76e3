"""Several goals over pools behind buckets: values recomputed from the plan's own rows, the frontier by brute force."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pipeline_scenarios import bucketed

from planner.domain import Goal, LoadPoint, Plan, RoutingForm, Scenario, Trial
from planner.export import render
from planner.files import encode_plan, load_run
from planner.pipeline import plan, recheck
from planner.report import summary
from planner.runs.pages import plan_html

FEW = {"H200": 16, "H20": 32}
PRICES = {"H200": 4.0, "H20": 1.5}
LEVELS = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}
DEMAND = 5.0
RUNNING = [{"gpu": "H20", "size": 16, "phase": "decode", "tp": 8, "dp": 1}]
OBJECTIVE = {
    "kind": "pareto",
    "goals": ["rate", "price", "watts", "headroom", "changes", "change_cost"],
    "demand_rps": DEMAND,
    "current": RUNNING,
}
SEARCH = {"method": "random", "iterations": 2, "batch_size": 4, "min_island_size": 8, "timings": False}


def asked(**changes: Any) -> Scenario:
    sections = {"slo": LEVELS, "prices_usd_per_gpu_hour": PRICES, "objective": OBJECTIVE, "search": SEARCH}
    sections["routing"] = {"most": 1}
    return bucketed(FEW, **{**sections, **changes})


@pytest.fixture(scope="module")
def made() -> Plan:
    return plan(asked())


def goals_of(made: Plan) -> dict[str, float]:
    return dict(made.search.trials[made.search.best_trial].goals)


def test_several_goals_alone_choose_no_other_form() -> None:
    assert bucketed(FEW, objective=OBJECTIVE, slo=LEVELS).routing_form is RoutingForm.BUCKETS


def test_its_goals_are_those_of_its_pools(made: Plan) -> None:
    goals, gpus = goals_of(made), Counter[str]()
    for pool in made.outlook.pools:
        gpus[pool.gpu] += pool.count * pool.server.parallel.devices
    watts = {item.gpu.name: item.gpu.max_w for item in made.scenario.inventory.items}
    assert goals["rate"] == made.throughput_rps
    assert goals["price"] == pytest.approx(sum(PRICES[gpu] * count for gpu, count in gpus.items()))
    assert goals["watts"] == pytest.approx(sum(watts[gpu] * count for gpu, count in gpus.items()))
    assert made.price_usd_per_hour == pytest.approx(goals["price"])


def test_its_changes_are_pools_that_do_not_run_yet_or_no_more(made: Plan) -> None:
    old = Counter((row["gpu"], row["size"], row["phase"]) for row in RUNNING)
    new = Counter((island.gpu, island.size, island.phase) for island in made.islands)
    assert goals_of(made)["changes"] == max((new - old).total(), (old - new).total())


def test_its_headroom_is_that_of_the_slowest_bucket_at_the_demand(made: Plan) -> None:
    rows = [row for row in made.outlook.latencies if row.load is LoadPoint.DEMAND]
    assert {row.rate_rps for row in rows} == {DEMAND}
    if made.throughput_rps < DEMAND:
        pytest.fail("the plan is to serve the demand")
    assert goals_of(made)["headroom"] == pytest.approx(1 - max(row.late_ms / row.bound_ms for row in rows))


def test_no_trial_beats_the_frontier() -> None:
    """Of two goals, so that some trials are beaten."""
    two = plan(asked(objective={"kind": "pareto", "goals": ["rate", "price"]}))
    served = [trial for trial in two.search.trials if trial.throughput_rps > 0]
    front = {trial.index for trial in served if not any(beats(other, trial) for other in served)}
    assert len(served) > len(front) > 1
    assert set(two.search.frontier) == front
    assert two.search.best_trial in front


def beats(trial: Trial, other: Trial) -> bool:
    signs = {goal.value: 1 if goal.maximised else -1 for goal in Goal}
    gains = [signs[name] * (a - b) for (name, a), (_, b) in zip(trial.goals, other.goals, strict=True)]
    return min(gains) >= 0 and max(gains) > 0


def test_what_no_pool_has_is_not_rented(made: Plan) -> None:
    assert made.fleet == used(made)
    assert sum(used(made).values()) < sum(FEW.values())
    best = made.search.trials[made.search.best_trial]
    assert sum(island.size * count for island, count in best.layout.counts) == sum(used(made).values())


def used(made: Plan) -> dict[str, int]:
    gpus = dict.fromkeys(FEW, 0)
    for island in made.islands:
        gpus[island.gpu] += island.size
    return gpus


def test_it_is_told_read_back_and_exported_like_any_other(made: Plan, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(encode_plan(made))
    again = load_run(tmp_path)
    assert recheck(again, "run") is again
    assert again == made
    assert (made.certificate.objective_bound, made.certificate.objective_gap) == (None, None)
    assert "promise" in summary(made)
    assert "Being deployable costs" not in summary(made)
    assert b"frontier-change-cost" in plan_html(made)
    assert render(made, engine="vllm")


def test_auto_begins_with_the_best_pools_of_every_rent() -> None:
    """The programme of buckets, asked for one rent after the other, is not ahead of its frontier anywhere."""
    two = {"kind": "pareto", "goals": ["rate", "price"]}
    begun = plan(asked(objective=two, search={"method": "auto", "iterations": 1, "batch_size": 12, "timings": False}))
    solved = [dict(trial.goals) for trial in begun.search.trials if trial.generator == "exact"]
    assert len(solved) >= 6
    dearest = begun.scenario.inventory.price_usd_per_hour
    for part in (2 / 3, 1 / 3):
        budget = {"kind": "budget", "budget_usd_per_hour": part * dearest}
        best = plan(asked(objective=budget, search={"timings": False}))
        rates = [goals["rate"] for goals in solved if goals["price"] <= part * dearest + 1e-9]
        assert max(rates) >= 0.98 * best.throughput_rps
