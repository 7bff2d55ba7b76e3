"""What becomes of servers between two plans, by hand and against every way to take one for the other."""

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from replanned_scenarios import small_plan

from planner.cost import CostContext
from planner.cost.serving.loading import node_weights_gb
from planner.domain import BucketPool, ParallelConfig, Phase, Plan, ServerConfig
from planner.domain.changes import ChangeKind, ChangeSettings, PlanChange
from planner.domain.placement import ClusterState, PlacedPart, Placement
from planner.errors import InputError
from planner.replanning.changes import changes_between
from planner.report.replanning.words import change_verdict

SETTINGS = ChangeSettings(storage_gb_s=4.0, start_s=100.0, drain_s=50.0)
EIGHT, WIDE, SIXTEEN = ParallelConfig(tp=8, dp=1), ParallelConfig(tp=4, dp=2), ParallelConfig(tp=8, dp=2)


def pool(count: int, shape: ParallelConfig = EIGHT, phase: Phase = Phase.PREFILL, **changes: Any) -> BucketPool:
    """`count` H200 servers on prompts of 0 to 1024 tokens."""
    server = ServerConfig(
        parallel=shape,
        tokens_per_step=0 if phase is Phase.DECODE else changes.pop("budget", 8192),
        batch_size=changes.pop("batch", 64),
    )
    span = {"start": 0, "end": 1024, "island": "h200-8g-1"} | changes
    return BucketPool(gpu="H200", phase=phase, server=server, count=count, capacity_rps=1.0, full_rps=1.0, **span)


@cache
def _plan() -> Plan:
    return small_plan()


def plan_of(*pools: BucketPool) -> Plan:
    """A plan with these pools; what else it says does not count here."""
    plan = _plan()
    assert plan.buckets is not None
    return replace(plan, buckets=replace(plan.buckets, pools=pools))


def change(before: tuple[BucketPool, ...], after: tuple[BucketPool, ...]) -> PlanChange:
    return changes_between(plan_of(*before), plan_of(*after), SETTINGS)


def kinds(between: PlanChange) -> dict[ChangeKind, int]:
    counts = Counter[ChangeKind]()
    for row in between.changes:
        counts[row.kind] += row.count
    return dict(counts)


K = ChangeKind
BY_HAND = [
    ((pool(3),), (pool(3),), {K.KEEP: 3}, 0),
    ((pool(3),), (pool(3, end=512),), {K.REROUTE: 3}, 0),
    ((pool(3),), (pool(3, end=2048),), {K.RESTART: 3}, 24),  # engines do not take such prompts
    ((pool(3, context=10**6),), (pool(3, end=2048),), {K.REROUTE: 3}, 0),
    ((pool(3),), (pool(3, budget=4096),), {K.RESTART: 3}, 24),
    ((pool(3),), (pool(3, phase=Phase.DECODE),), {K.TURN: 3}, 24),
    ((pool(3),), (pool(5),), {K.KEEP: 3, K.START: 2}, 16),
    ((pool(3),), (pool(1),), {K.KEEP: 1, K.STOP: 2}, 16),
    ((pool(4),), (pool(2, SIXTEEN),), {K.RESIZE: 6}, 32),
    ((pool(4),), (pool(4, WIDE),), {K.RESIZE: 8}, 32),
    ((pool(4),), (pool(1, SIXTEEN),), {K.RESIZE: 3, K.STOP: 2}, 32),
    ((pool(1),), (pool(1, SIXTEEN),), {K.RESIZE: 2}, 16),
    ((pool(2),), (pool(2, phase=Phase.DECODE), pool(1, end=512)), {K.REROUTE: 1, K.TURN: 1, K.START: 1}, 16),
    # the long bucket takes the servers whose engines can do it, the short one the others
    (
        (pool(1, end=512), pool(1, end=1024)),
        (pool(1, end=900), pool(1, end=256)),
        {K.REROUTE: 2},
        0,
    ),
]


@pytest.mark.parametrize(("before", "after", "expected", "gpus"), BY_HAND)
def test_changes_by_hand(
    before: tuple[BucketPool, ...], after: tuple[BucketPool, ...], expected: dict[ChangeKind, int], gpus: int
) -> None:
    between = change(before, after)
    assert kinds(between) == expected
    assert between.gpus_touched == gpus
    assert between.servers_before == sum(p.count for p in before)


def test_other_flags_of_all_engines_let_none_run_on() -> None:
    before, after = plan_of(pool(2)), plan_of(pool(2))
    drafting = replace(after.scenario, cost=replace(after.scenario.cost, mtp_tokens=1))
    assert kinds(changes_between(before, replace(after, scenario=drafting), SETTINGS)) == {K.RESTART: 2}


def _touched(before: list[BucketPool], after: list[BucketPool]) -> int:
    """The fewest GPUs that any pairing of single servers touches: those of the pairs that run on are not."""
    longest, shortest = sorted([before, after], key=len, reverse=True)
    padded = [*shortest, *[None] * (len(longest) - len(shortest))]
    sums = [sum(p.server.parallel.devices for p in side) for side in (before, after)]
    most = 0
    for order in permutations(longest):
        run_on = 0
        for one_side, other in zip(order, padded, strict=True):
            if other is not None:
                old, new = (one_side, other) if longest is before else (other, one_side)
                same = (old.phase, old.server) == (new.phase, new.server) and new.end <= old.end
                run_on += same * old.server.parallel.devices
        most = max(most, run_on)
    return max(sums) - most


@pytest.mark.parametrize("seed", range(14))
def test_no_pairing_touches_fewer_gpus(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def drawn() -> list[BucketPool]:
        return [
            pool(
                1,
                (EIGHT, SIXTEEN)[rng.integers(2)],
                end=(512, 1024, 2048)[rng.integers(3)],
                budget=(4096, 8192)[rng.integers(2)],
            )
            for _ in range(rng.integers(1, 6))
        ]

    before, after = drawn(), drawn()
    assert change(tuple(before), tuple(after)).gpus_touched == _touched(before, after)


def lying(rng: np.random.Generator, places: int, *, placed: bool) -> Plan:
    """Up to a server of eight H200 a place; two places to a node where nobody knows which GPUs those are."""
    pools: dict[tuple[Any, ...], list[int]] = {}
    for place in range(places):
        if rng.random() < 0.8:
            role = (
                (Phase.PREFILL, Phase.DECODE)[rng.integers(2)],
                (1024, 2048)[rng.integers(2)],
                (64, 32)[rng.integers(2)],
            )
            pools.setdefault(role, []).append(place)
    rows = [
        pool(len(there), phase=phase, end=end, batch=batch, island=f"i{n}")
        for n, ((phase, end, batch), there) in enumerate(sorted(pools.items()))
    ]
    parts = [
        PlacedPart(
            island=f"i{n}",
            replica=k,
            node=f"n{place if placed else place // 2}",
            gpu_indices=tuple(range(8)),
            numa_nodes=(0,),
            asw="a",
            tp=8,
            gpus_assumed=not placed,
        )
        for n, (_, there) in enumerate(sorted(pools.items()))
        for k, place in enumerate(there)
    ]
    nothing = ClusterState(gpus=0, allocated=0, idle=0, headroom_gpus=0, watts=0.0, empty_nodes=0, fragments=())
    placement = Placement(
        parts=tuple(parts), cluster="c", score=0.0, terms=(), sites=(), shortfalls=(), before=nothing, after=nothing
    )
    return replace(plan_of(*rows), placement=placement)


def _one_by_one(plan: Plan) -> list[tuple[Any, ...]]:
    """Node, phase, end of the bucket and batch of each server."""
    assert plan.placement is not None
    pools = {p.island: p for p in plan.buckets.pools}
    return [
        (part.node, pools[part.island].phase, pools[part.island].end, pools[part.island].server.batch_size)
        for part in plan.placement.parts
    ]


@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_placed_servers_against_every_pairing(seed: int, placed: bool) -> None:
    """As many run on, of those as many with their prompts, then those in place or moved, then turned, as can be."""
    rng = np.random.default_rng(seed)
    before, after = lying(rng, 5, placed=placed), lying(rng, 5, placed=placed)
    old, new = _one_by_one(before), _one_by_one(after)

    def worth(a: tuple[Any, ...] | None, b: tuple[Any, ...] | None) -> tuple[int, ...]:
        if a is None or b is None or (a[0] != b[0] and a[1] != b[1]):
            return (0, 0, 0, 0)
        if a[0] != b[0]:
            return (0, 0, 1, 0)
        if a[1] != b[1]:
            return (0, 0, 0, 1)
        # engines are started for a bucket's prompts and the longest answer: a longer bucket needs them anew
        runs_on = a[3] == b[3] and b[2] <= a[2]
        return (int(runs_on), int(runs_on and a[2] == b[2]), int(not runs_on), 0)

    padded = [*new, *[None] * len(old)]
    best = max(
        tuple(map(sum, zip((0, 0, 0, 0), *map(worth, old, order), strict=True)))
        for order in set(permutations(padded, len(old)))
    )
    between = changes_between(before, after, SETTINGS)
    counts = Counter(kinds(between))
    again = counts[K.RESTART] + counts[K.MOVE]
    assert (between.servers_running_on, counts[K.KEEP], again, counts[K.TURN]) == best


def test_times_are_those_of_weights_and_answers() -> None:
    plan = _plan()
    assert plan.buckets is not None
    scenario = plan.scenario
    context = CostContext(gpu=scenario.inventory.item("H200").gpu, model=scenario.model, settings=scenario.cost)
    load_s = node_weights_gb(context, EIGHT) / 4.0 + 100.0
    (row,) = change((), (pool(2),)).changes
    assert (row.load_s, row.drain_s) == (pytest.approx(load_s), 0.0)
    thin = replace(SETTINGS, network_gb_s=2.0)  # what the network carries is less than what storage gives
    (row,) = changes_between(plan_of(), plan_of(pool(2)), thin).changes
    assert row.load_s == pytest.approx(node_weights_gb(context, EIGHT) / 2.0 + 100.0)
    between = change((pool(2, phase=Phase.DECODE),), ())  # a bucket that no latency is known of: the longest wait
    assert [(r.kind, r.drain_s) for r in between.changes] == [(K.STOP, 50.0)]
    assert between.gpu_seconds == pytest.approx(2 * 8 * 50.0)
    assert between.usd == pytest.approx(2 * 8 * 50.0 / 3600 * scenario.inventory.item("H200").price_usd_per_gpu_hour)


def test_weights_of_a_server_are_read_at_the_speed_of_storage() -> None:
    """DeepSeek-V3's 671 GB in FP8: a node of eight reads all experts once and eight shards of the rest, 640-760 GB."""
    context = CostContext(
        gpu=_plan().scenario.inventory.item("H200").gpu,
        model=_plan().scenario.model,
        settings=_plan().scenario.cost,
    )
    assert 600 < node_weights_gb(context, EIGHT) < 800


def test_requests_in_flight_take_the_longest_answer() -> None:
    plan = _plan()
    assert plan.buckets is not None
    decode = next(p for p in plan.buckets.pools if p.phase is Phase.DECODE)
    row = next(r for r in plan.buckets.latencies if r.phase is Phase.DECODE and r.load == "promise")
    assert row.late_ms is not None
    patient = replace(SETTINGS, drain_s=86_400.0)
    between = changes_between(plan, plan_of(), patient)
    drains = [r.drain_s for r in between.changes if r.before is not None and r.before.island == decode.island]
    assert drains == [pytest.approx(row.late_ms / 1000 * plan.scenario.workload.max_output_tokens)]


def test_plans_without_buckets_and_of_other_models_are_refused() -> None:
    plan = _plan()
    with pytest.raises(InputError, match=r"routing\.form must be buckets to be changed .* got table") as caught:
        changes_between(replace(plan, buckets=None), plan, SETTINGS)
    assert "plan again" in caught.value.hint
    other = replace(plan, scenario=replace(plan.scenario, model=replace(plan.scenario.model, name="other", uri="")))
    with pytest.raises(InputError, match=r"must be that of the plan that runs, deepseek-v3, or answer .*, got other"):
        changes_between(plan, other, SETTINGS)


def test_gpus_without_a_price_are_not_told_as_free() -> None:
    plan = plan_of(pool(2))
    inventory = plan.scenario.inventory
    unpriced = tuple(replace(item, price_usd_per_gpu_hour=0.0, price_known=False) for item in inventory.items)
    scenario = replace(plan.scenario, inventory=replace(inventory, items=unpriced))
    between = changes_between(replace(plan, scenario=scenario), replace(plan_of(), scenario=scenario), SETTINGS)
    assert between.usd is None
    assert "GPU-hours that serve nothing meanwhile, of GPUs without a price." in change_verdict(between)
    assert changes_between(plan, plan, SETTINGS).usd == 0.0
