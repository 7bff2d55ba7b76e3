"""The audit lets a sound plan pass and names each kind of damage by itself."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from planner.domain import Inventory, ParallelConfig, Phase, Plan, PlannedIsland, Route, Workload
from planner.errors import InconsistentPlanError
from planner.plans.audit import audit


def with_route(plan: Plan, damage: Callable[[Route], Route]) -> Plan:
    """The plan with its first route damaged."""
    return replace(plan, routing=(damage(plan.routing[0]), *plan.routing[1:]))


def with_island(plan: Plan, damage: Callable[[PlannedIsland], PlannedIsland]) -> Plan:
    """The plan with its first island, one that serves, damaged."""
    assert plan.islands[0].phase is not None
    return replace(plan, islands=(damage(plan.islands[0]), *plan.islands[1:]))


def less_share(plan: Plan) -> Plan:
    return with_route(plan, lambda route: replace(route, share=0.9 * route.share))


def more_share(plan: Plan) -> Plan:
    return with_route(plan, lambda route: replace(route, share=route.share + 1e-4))


def less_rate(plan: Plan) -> Plan:
    return with_route(plan, lambda route: replace(route, rate_rps=0.9 * route.rate_rps))


def bolder_throughput(plan: Plan) -> Plan:
    return replace(plan, throughput_rps=1.01 * plan.throughput_rps)


def lost_route(plan: Plan) -> Plan:
    return replace(plan, routing=plan.routing[1:])


def lost_phase(plan: Plan) -> Plan:
    return replace(plan, routing=tuple(route for route in plan.routing if route.phase is Phase.PREFILL))


def strange_range(plan: Plan) -> Plan:
    extra = replace(plan.routing[0], range_start=10**6, range_end=10**6 + 256)
    return replace(plan, routing=(*plan.routing, extra))


def smaller_inventory(plan: Plan) -> Plan:
    items = tuple(replace(item, count=item.count // 2) for item in plan.scenario.inventory.items)
    return replace(plan, scenario=replace(plan.scenario, inventory=Inventory(items=items)))


def unknown_gpu(plan: Plan) -> Plan:
    return with_island(plan, lambda island: replace(island, gpu="H900"))


def same_name(plan: Plan) -> Plan:
    return with_island(plan, lambda island: replace(island, id=plan.islands[1].id))


def other_phase(plan: Plan) -> Plan:
    other = {Phase.PREFILL: Phase.DECODE, Phase.DECODE: Phase.PREFILL}

    def damage(island: PlannedIsland) -> PlannedIsland:
        assert island.phase is not None
        return replace(island, phase=other[island.phase])

    return with_island(plan, damage)


def unknown_island(plan: Plan) -> Plan:
    return with_route(plan, lambda route: replace(route, island="nobody"))


def wrong_degrees(plan: Plan) -> Plan:
    return with_island(plan, lambda island: replace(island, parallel=ParallelConfig(tp=island.size, dp=2)))


def no_degrees(plan: Plan) -> Plan:
    return with_island(plan, lambda island: replace(island, parallel=None))


def over_busy(plan: Plan) -> Plan:
    return with_route(plan, lambda route: replace(route, capacity_rps=0.5 * route.rate_rps))


def nan_share(plan: Plan) -> Plan:
    return with_route(plan, lambda route: replace(route, share=math.nan))


def nan_rate(plan: Plan) -> Plan:
    return with_route(plan, lambda route: replace(route, rate_rps=math.nan))


def nan_capacity(plan: Plan) -> Plan:
    return with_route(plan, lambda route: replace(route, capacity_rps=math.nan))


def humbler_throughput(plan: Plan) -> Plan:
    return replace(plan, throughput_rps=0.99 * plan.throughput_rps)


def bolder_decode(plan: Plan) -> Plan:
    return replace(plan, prefill_rps=1.5 * plan.throughput_rps, decode_rps=1.5 * plan.throughput_rps)


def another_trial(plan: Plan) -> Plan:
    worse = next(t for t in plan.search.trials if t.throughput_rps < 0.99 * plan.throughput_rps)
    return replace(plan, search=replace(plan.search, best_trial=worse.index))


def island_rate(plan: Plan) -> Plan:
    return with_island(plan, lambda island: replace(island, rate_rps=1.1 * island.rate_rps))


def island_utilisation(plan: Plan) -> Plan:
    return with_island(plan, lambda island: replace(island, utilisation=0.5 * island.utilisation))


def island_batch(plan: Plan) -> Plan:
    return with_island(plan, lambda island: replace(island, batch_size=island.batch_size + 1))


def island_prompt(plan: Plan) -> Plan:
    return with_island(plan, lambda island: replace(island, longest_prompt=island.longest_prompt - 1))


def negative_share(plan: Plan) -> Plan:
    first = plan.routing[0]
    minus, plus = replace(first, share=-1.0, rate_rps=0.0), replace(first, share=1.0 + first.share)
    return replace(plan, routing=(minus, plus, *plan.routing[1:]))


DAMAGES: list[tuple[Callable[[Plan], Plan], str]] = [
    (less_share, "shares of .* tokens sum to .*, not 1"),
    (more_share, "shares of .* tokens sum to 1.0001, not 1"),
    (less_rate, "prefill of .* tokens serves less than .* requests/s"),
    (bolder_throughput, "prefill of .* tokens serves less than .* requests/s"),
    (lost_route, "prefill shares of .* tokens sum to"),
    (lost_phase, "decode shares of .* tokens sum to 0, not 1"),
    (strange_range, "prefill routes prompts of lengths that the workload does not have"),
    (smaller_inventory, r"islands hold (64|128) H\w+, the inventory (32|64)"),
    (unknown_gpu, r"islands\.0\.gpu: must be a type of scenario\.inventory, got 'H900'"),
    (same_name, r"islands\.1\.id: must be unique, got .* again"),
    (other_phase, "a (prefill|decode) route goes to .*, which does not"),
    (unknown_island, r"routing\.0\.island: must be an island that serves, got 'nobody'"),
    (wrong_degrees, r"islands\.0: tp, dp, pp and replicas must multiply to size"),
    (no_degrees, "has a phase without degrees"),
    (over_busy, "is busy .* of its time"),
    (nan_share, "prefill shares of .* tokens sum to nan, not 1"),
    (nan_rate, "prefill of .* tokens serves less than"),
    (nan_capacity, "is busy nan of its time"),
    (humbler_throughput, "throughput is not the lower of prefill and decode"),
    (bolder_decode, "throughput is not the lower of prefill and decode"),
    (another_trial, "trial .* is not the plan's"),
    (island_rate, "rate is not the sum of its routes"),
    (island_utilisation, "utilisation is not that of its routes"),
    (island_batch, "batch size is not the largest of its routes"),
    (island_prompt, "longest prompt is not the longest of its routes"),
    (negative_share, r"share of .* tokens lies outside \(0, 1\]"),
]


def test_a_sound_plan_passes(example: Plan, workload: Workload) -> None:
    audit(example, workload)


@pytest.mark.parametrize(("damage", "message"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_each_damage_has_its_own_words(
    example: Plan, workload: Workload, damage: Callable[[Plan], Plan], message: str
) -> None:
    with pytest.raises(InconsistentPlanError, match=message) as caught:
        audit(damage(example), workload)
    assert example.scenario.name in caught.value.message
    assert caught.value.hint
