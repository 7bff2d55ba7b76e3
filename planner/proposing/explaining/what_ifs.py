"""What would change a pool: levels, inventory and prices, each planned again where there is time for it."""

import math
from collections.abc import Iterator
from dataclasses import replace

from planner.domain import BucketPool, LoadPoint, Phase, Scenario, halves_of
from planner.domain.explanations import RivalServer, WhatIf
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.rivals import PoolPlace, alike, rival_servers, scaled_levels
from planner.proposing.buckets.sensitivity import Neighbours
from planner.proposing.explaining.replanning import (
    FAR,
    NEAR,
    Change,
    Replanner,
    as_it_is,
    first_change,
    once,
    replanned,
    rounded,
    started_words,
    what_if,
)

HALVINGS = 7
_TIGHTEST = 0.25


def what_ifs(
    replanner: Replanner, prices: BucketPrices, pool: BucketPool, place: PoolPlace, neighbours: Neighbours
) -> tuple[WhatIf, ...]:
    """Levels first, then inventory, then prices, where the objective counts them."""
    rows = [*_levels(replanner, prices, pool, place), *_inventory(replanner, pool, neighbours)]
    return (*rows, *_prices(replanner, pool))


_TTFT, _TPOT = "slo.ttft_ms", "slo.tpot_ms"


def _with_ttft(scenario: Scenario, value: float) -> Scenario:
    return replace(scenario, slo=replace(scenario.slo, ttft_ms=value))


def _with_tpot(scenario: Scenario, value: float) -> Scenario:
    return replace(scenario, slo=replace(scenario.slo, tpot_ms=value))


def _levels(replanner: Replanner, prices: BucketPrices, pool: BucketPool, place: PoolPlace) -> Iterator[WhatIf]:
    """Bounds that bear on the pool's phase, tighter and looser."""
    slo = replanner.plan.scenario.slo
    # bounds by range are several keys: none of them alone is the pool's
    if slo.ranges:
        return
    rows: list[tuple[Phase, str, float | None, Change]] = [
        (Phase.PREFILL, _TTFT, slo.ttft_ms, _with_ttft),
        (Phase.DECODE, _TPOT, slo.tpot_ms, _with_tpot),
    ]
    for half, key, bound, change in rows:
        if half not in halves_of(pool.phase):
            continue
        if bound is None:
            yield from _first_bound(replanner, pool.phase, key, change, _slowest_ms(replanner, half))
            continue
        for factor in (1 / NEAR, NEAR):
            row = first_change(replanner, pool.phase, key, change, bound, bound * factor)
            # no time to plan again: single servers give a guess, which is told as one
            row = row or _estimated(prices, place, key, bound, factor)
            if row is not None:
                yield row


def _first_bound(
    replanner: Replanner, phase: Phase, key: str, change: Change, slowest_ms: float | None
) -> Iterator[WhatIf]:
    """Where there is no bound: a loose one, and from there tighter ones."""
    if slowest_ms is None:
        return
    loose = rounded(slowest_ms * FAR)
    row = once(replanner, phase, key, change(replanner.plan.scenario, loose), loose)
    if row is not None and not row.changes:
        row = first_change(replanner, phase, key, change, loose, slowest_ms / NEAR)
    if row is not None:
        yield row


def _slowest_ms(replanner: Replanner, half: Phase) -> float | None:
    """P99 at the promise, where no bound is set: a tighter one would be felt."""
    rows = [r for r in replanner.plan.outlook.latencies if r.load is LoadPoint.PROMISE and r.phase is half]
    times = [row.late_ms for row in rows]
    return None if not times or None in times else max(time for time in times if time is not None)


def _estimated(prices: BucketPrices, place: PoolPlace, key: str, near: float, factor: float) -> WhatIf | None:
    """Where another configuration serves most on the pool's GPUs, by the rates of single servers; None where none does,
    or where the best of them is not the pool's even now."""

    def best(scale: float) -> RivalServer | None:
        scales = {"ttft": scale} if key == _TTFT else {"tpot": scale}
        rivals = rival_servers(prices, place, scaled_levels(prices, place.phase, **scales))
        return next((rival for rival in rivals if rival.left_rps >= place.kept_rps), None)

    here, scaled = best(1.0), best(factor)
    # single servers do not show why the pool is what it is even now: where that changes, they cannot tell either
    if here is None or not alike(here.server, place.server) or (scaled and alike(scaled.server, here.server)):
        return None
    same, other = 1.0, factor
    for _ in range(HALVINGS):
        # bounds matter by their ratio, so the middle is the geometric one
        middle = math.sqrt(same * other)
        between = best(middle)
        if between is not None and alike(between.server, here.server):
            same = middle
        else:
            other, scaled = middle, between
    return WhatIf(
        key=key,
        value=float(f"{near * other:.3g}"),
        same_at=None,
        changes=True,
        becomes=_words(scaled, place.gpu),
        rate_rps=None,
        planned=False,
    )


def _words(rival: RivalServer | None, gpu: str) -> str:
    if rival is None:
        return "no server keeps the bound"
    parallel, server = rival.server.parallel, rival.server
    words = f"{rival.servers} × {parallel.devices} {gpu} TP{parallel.tp} DP{parallel.dp}"
    return f"{words}, {started_words(server)}"


def _inventory(replanner: Replanner, pool: BucketPool, neighbours: Neighbours) -> Iterator[WhatIf]:
    """A node more and a node less of the pool's type, planned as the plan's own figures are."""
    plan = replanner.plan
    node = plan.scenario.inventory.item(pool.gpu).gpu.gpus_per_host
    for count in (plan.fleet[pool.gpu] + node, plan.fleet[pool.gpu] - node):
        if count > 0 and replanner.affords:
            neighbour = neighbours.planned({**neighbours.counts, pool.gpu: count})
            outcome = replanned(neighbour.pools, pool.phase, neighbour.rate_rps if neighbour.pools else None)
            changes = outcome.kinds != as_it_is(plan, pool.phase).kinds
            yield what_if(f"inventory.{pool.gpu}", count, None, outcome, changes=changes)


def _prices(replanner: Replanner, pool: BucketPool) -> Iterator[WhatIf]:
    """The pool's type dearer, every other type cheaper, where the objective rents."""
    scenario = replanner.plan.scenario
    if not scenario.objective.kind.row.priced:
        return
    for item in sorted(scenario.inventory.items, key=lambda item: item.gpu.name != pool.gpu):
        if item.price_usd_per_gpu_hour > 0:
            factor = FAR if item.gpu.name == pool.gpu else 1 / FAR
            near = item.price_usd_per_gpu_hour
            key = f"prices_usd_per_gpu_hour.{item.gpu.name}"
            row = first_change(replanner, pool.phase, key, priced_at(item.gpu.name), near, near * factor)
            if row is not None:
                yield row


def priced_at(gpu: str) -> Change:
    """A GPU type at another price."""

    def change(scenario: Scenario, value: float) -> Scenario:
        items = tuple(
            replace(item, price_usd_per_gpu_hour=value) if item.gpu.name == gpu else item
            for item in scenario.inventory.items
        )
        return replace(scenario, inventory=replace(scenario.inventory, items=items))

    return change
