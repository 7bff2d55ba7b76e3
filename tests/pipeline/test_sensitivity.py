"""What more or fewer GPUs would do: shadow prices against solving again from the start, and the plan's spare time."""

from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_scenarios import small

from planner.assignment import relax
from planner.domain import CostMode, CostSettings, Phase, Plan, Scenario
from planner.evaluation.evaluator import Evaluator
from planner.files import encode_plan, plan_document
from planner.files.plan.plan_reader import decode_plan
from planner.pipeline import plan
from planner.proposing.certificate import RATE, offer_of
from planner.proposing.sensitivity import sensitivity_of
from planner.report import summary
from planner.workload import question_of

COUNTS = {"H200": 32, "H20": 40}
PRICES = {"H200": 4.0, "H20": 1.0}


def scenario_of(**changes) -> Scenario:
    return small(COUNTS, **{"prices_usd_per_gpu_hour": PRICES, **changes})


@pytest.fixture(scope="module")
def planned() -> Plan:
    search = {"method": "random", "iterations": 1, "batch_size": 4, "min_island_size": 8}
    return plan(scenario_of(search=search))


def best_rate(scenario: Scenario, counts: dict[str, int]) -> float:
    """Best possible rate of an inventory of these counts, with nothing carried over."""
    items = tuple(replace(i, count=counts[i.gpu.name]) for i in scenario.inventory.items if counts[i.gpu.name])
    changed = replace(scenario, inventory=replace(scenario.inventory, items=items))
    evaluator = Evaluator(question_of(changed))
    return relax(offer_of(changed, evaluator), RATE, changed.assignment).rate


def test_gains_and_losses_are_those_of_another_inventory(planned):
    found = planned.sensitivity
    base = best_rate(planned.scenario, COUNTS)
    assert found.bound_rps == pytest.approx(base)
    for one in found.gpus:
        assert (one.more_node_most_rps, one.less_node_most_rps) == (one.more_node_rps, one.less_node_rps)
        for by, told in ((8, one.more_node_rps), (-8, one.less_node_rps)):
            changed = best_rate(planned.scenario, COUNTS | {one.gpu: COUNTS[one.gpu] + by})
            assert told == pytest.approx(changed - base, rel=1e-6, abs=1e-6 * base)


def test_the_shadow_price_is_the_slope(planned):
    for one in planned.sensitivity.gpus:
        assert 8 * one.dual_rps == pytest.approx(one.more_node_rps, rel=0.05)
        assert one.rps_per_usd_hour == pytest.approx(one.more_node_rps / (8 * PRICES[one.gpu]))


def test_shadow_prices_add_up_to_the_rate(planned):
    found = planned.sensitivity
    assert sum(one.dual_rps * COUNTS[one.gpu] for one in found.gpus) == pytest.approx(found.bound_rps, rel=1e-6)
    assert sum(one.worth_share for one in found.phases) == pytest.approx(1)
    for phase in found.phases:
        assert sum(one.worth_share for one in found.ranges if one.phase is phase.phase) == pytest.approx(
            phase.worth_share
        )


def test_a_faster_phase_gains_by_its_share(planned):
    for one in planned.sensitivity.phases:
        assert one.faster_rps == pytest.approx(0.1 * one.worth_share * planned.sensitivity.bound_rps, rel=0.1)


def test_the_first_to_drop_loses_least_per_usd(planned):
    found = planned.sensitivity
    losses = {one.gpu: -one.less_node_rps / (8 * PRICES[one.gpu]) for one in found.gpus}
    assert losses[found.drop_first] == min(losses.values())


def test_the_slower_phase_binds_and_the_other_is_next(planned):
    found = planned.sensitivity
    slow, fast = sorted((planned.prefill_rps, planned.decode_rps))
    assert (found.headroom, found.next_rps) == (pytest.approx(fast / slow - 1), fast)
    if found.binding:
        rates = {Phase.PREFILL: planned.prefill_rps, Phase.DECODE: planned.decode_rps}
        assert rates[found.binding] == slow


def test_headroom_is_the_spare_time_of_a_ranges_islands(planned):
    spare = {island.id: 1 - island.utilisation for island in planned.islands}
    for one in planned.sensitivity.ranges:
        mine = [r for r in planned.routing if (r.phase, r.range_start) == (one.phase, one.range_start)]
        served = sum(r.rate_rps for r in mine)
        extra = sum(spare[r.island] * r.capacity_rps for r in mine)
        assert one.headroom == pytest.approx(extra / served, abs=1e-6)


def test_a_rented_fleet_is_judged_by_what_is_rented():
    search = {"method": "exact", "work_limit": 10, "gap": 0.01}
    rented = plan(scenario_of(objective={"kind": "budget", "budget_usd_per_hour": 60}, search=search))
    found = rented.sensitivity
    assert rented.fleet != COUNTS
    assert rented.throughput_rps <= found.bound_rps * (1 + 1e-6)
    assert rented.certificate.bound_rps <= found.bound_rps * (1 + 1e-6)  # the relaxation is the looser one
    for one in found.gpus:
        assert (one.less_node_rps is None) == (rented.fleet[one.gpu] == 0)


def test_a_type_that_is_not_rented_may_still_be_worth_a_node():
    search = {"method": "exact", "work_limit": 10, "gap": 0.01}
    rented = plan(scenario_of(objective={"kind": "budget", "budget_usd_per_hour": 22}, search=search))
    assert rented.fleet["H200"] == 0
    h200 = next(one for one in rented.sensitivity.gpus if one.gpu == "H200")
    assert (h200.less_node_rps, h200.less_node_most_rps, h200.gpus_lost) == (None, None, 0)
    assert h200.more_node_rps > 0
    assert rented.sensitivity.drop_first == "H20"


def test_large_fleets_in_reference_mode_are_not_judged(planned):
    items = tuple(replace(item, count=2000) for item in planned.scenario.inventory.items)
    inventory = replace(planned.scenario.inventory, items=items)
    large = replace(planned.scenario, cost=CostSettings(mode=CostMode.REFERENCE), inventory=inventory)
    evaluator = Evaluator(question_of(large))
    assert sensitivity_of(replace(planned, scenario=large), evaluator) is None


def test_plan_json_keeps_it_and_may_lack_it(planned):
    assert decode_plan(encode_plan(planned), Path("plan.json")).sensitivity == planned.sensitivity
    bare = replace(planned, sensitivity=None)
    assert "sensitivity" not in plan_document(bare)
    assert decode_plan(encode_plan(bare), Path("plan.json")).sensitivity is None


def test_the_summary_tells_it(planned):
    text = summary(planned)
    section = text.split("## What would change it\n")[1].split("\n## ")[0]
    assert section.count("\n| H20") == 2
    assert f"**Drop {planned.sensitivity.drop_first} first**" in section
    assert "## What would change it" not in summary(replace(planned, sensitivity=None))


@pytest.mark.parametrize("binding", [None, Phase.PREFILL, Phase.DECODE])
def test_the_summary_names_what_binds(planned, binding):
    text = summary(replace(planned, sensitivity=replace(planned.sensitivity, binding=binding)))
    said = "Prefill and decode bind alike" if binding is None else f"**{binding.capitalize()} binds.**"
    assert said in text


def test_the_summary_says_that_a_network_is_not_counted(planned):
    assert "The network holds" not in summary(planned)
    assert "**The network holds the rate back** (NIC of H20)" in summary(
        replace(planned, network_bottleneck="NIC of H20")
    )
