"""A fleet whose copies follow an autoscaler over days of rates, step by step.

The controller does what a HorizontalPodAutoscaler does with external metrics of AverageValue, and KEDA with hours:

| step | what happens | source |
|---|---|---|
| every 15 s | metrics are read, copies wanted | --horizontal-pod-autoscaler-sync-period, default |
| metric | mean of the last minute, its end a step ago | PromQL of the trigger, scrape of 15 s |
| tolerance | nothing changes where metric / (threshold x copies) is within 1 +- 0.1, by each metric | default |
| several metrics | the most copies of all: load, hours | autoscaling/v2 |
| up | as many as wanted at once; usual: no more than 4 copies, or as many as there are, in 15 s | behavior |
| down | to the most that was wanted in the window before | stabilizationWindowSeconds |
| start | a copy is paid for at once, and takes requests a cold start later; where the inventory has GPUs | |
| stop | copies that still load go first; others take no more requests, and are paid for while they drain | |

State of the fleet, for each group of pools (fluid: rates, not single requests):

| symbol | meaning | unit |
|---|---|---|
| n_i | copies of pool i that take requests | 1 |
| C, F | sum n_i c_i, what they serve within the levels; sum n_i f_i, what they serve at all | requests/s |
| a | requests that arrive: the mix's rate times the group's part; of decode, what prefill passes on | requests/s |
| q | requests that wait since more came than F; grows by a - F | 1 |
| W(u) | wait of a prompt at u = a / C: median TTFT less that of an idle server, on lines between the plan's loads | s |

A request counts as outside its levels where it comes to a chain with a group of a > C or q > 0: the plan's levels hold
up to C, and beyond it all are given up, though some would still be in time. Waiting requests, as engines count them:
q + a W(u). Rates are those of their window from its first second on, so a rise comes at once; gaps between requests
are a matter of the plan's promise.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planner.domain import LoadPoint, Phase, Plan, require_pools
from planner.domain.changes import ChangeSettings, ServerRole
from planner.domain.scaling import (
    TOLERANCE,
    ScaledPool,
    ScalingRule,
    chain_part,
    copies_for,
    lead_s,
    scaled_pools,
    settle_s,
)
from planner.domain.schedules import DAY_S, LoopResult, RateSeries
from planner.replanning.changes import ChangeClock
from planner.units import MS_PER_S, SECONDS_PER_HOUR

SYNC_S = 15.0
METRIC_STEPS = 4
USUAL_WINDOW_S = 300.0
"""stabilizationWindowSeconds of scaling down, where nobody says."""
USUAL_STEP = 4
"""Pods that may be added in 15 s, where nobody says; or as many as there are."""
USUAL_QUEUE = 5.0
"""Requests waiting for each copy, to begin with: Google's guide for GKE has 3 to 5."""
_FUZZ = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What metrics tell: requests/s that come to each chain, and how many wait in it; waiting ones by pool."""

    loads: Sequence[float]
    waiting: Sequence[float]
    waiting_by_pool: Sequence[float]


Wants = Callable[[int, int, Signals, float], int]
"""Copies that a pool should have: of its place, the copies that it has, the signals, and the time (s from midnight)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """An autoscaler: what each pool wants, between floors and ceilings. `window_s`: of each pool's going down;
    `usual_steps`: adds no more than four copies, or as many as there are, in a step."""

    wants: Wants
    floors: tuple[int, ...]
    ceilings: tuple[int, ...]
    window_s: tuple[float, ...]
    usual_steps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A group as the loop sees it: (pool, c, f) of each variant; `passed_part`: of what its chain passes on;
    `waits_s`: (utilisation, W), ascending."""

    pools: tuple[tuple[int, float, float], ...]
    decodes: bool
    part: float
    passed_part: float
    chain: int
    waits_s: tuple[tuple[float, float], ...]

    def wait_s(self, used: float) -> float:
        """W at a utilisation; beyond what the plan tells, that at the end."""
        low, before = 0.0, 0.0
        for high, after in self.waits_s:
            if used <= high:
                return before + (after - before) * (used - low) / (high - low) if high > low else after
            low, before = high, after
        return before


class Fleet:
    """The plan's pools, their groups, and what waits before each group."""

    def __init__(self, plan: Plan) -> None:
        self.pools = scaled_pools(plan)
        chains = list(dict.fromkeys(pool.chain for pool in self.pools))
        groups = [_group(plan, self.pools, chains, names) for names in dict.fromkeys(p.group for p in self.pools)]
        self.groups = sorted(groups, key=lambda group: group.decodes)  # which take what prefill passes on
        self.queues = [0.0] * len(groups)
        self.chain_of = [chains.index(pool.chain) for pool in self.pools]
        self.parts = [chain_part(self.pools, chain) for chain in chains]

    def serve(self, rate_rps: float, ready: Sequence[int]) -> tuple[float, Signals]:
        """A step at a rate of the mix: (requests/s that came outside their levels, what metrics tell at its end)."""
        late, passed, waiting = ([0.0] * len(self.parts) for _ in range(3))
        by_pool = [0.0] * len(self.pools)
        for number, group in enumerate(self.groups):
            comes = passed[group.chain] * group.passed_part if group.decodes else rate_rps * group.part
            within = full = 0.0
            for i, capacity, highest in group.pools:
                within += ready[i] * capacity
                full += ready[i] * highest
            stood = self.queues[number]
            served = min(comes + stood / SYNC_S, full)
            self.queues[number] = queue = max(0.0, stood + (comes - served) * SYNC_S)
            if max(queue, stood) > _FUZZ or comes > within * (1 + _FUZZ):
                late[group.chain] = rate_rps * self.parts[group.chain]
            queue += served * group.wait_s(served / within) if within else 0.0
            passed[group.chain] += 0.0 if group.decodes else served
            waiting[group.chain] += queue
            for i, _, highest in group.pools:
                by_pool[i] = queue * (ready[i] * highest / full if full else 1 / len(group.pools))
        loads = [rate_rps * part for part in self.parts]
        return sum(late), Signals(loads=loads, waiting=waiting, waiting_by_pool=by_pool)


def _group(
    plan: Plan, pools: Sequence[ScaledPool], chains: Sequence[tuple[str, ...]], names: tuple[str, ...]
) -> _Group:
    members = [(i, pool) for i, pool in enumerate(pools) if pool.group == names]
    first = members[0][1]
    alike = {pool.group: pool.part for pool in pools if pool.chain == first.chain and pool.phase is first.phase}
    return _Group(
        pools=tuple((i, pool.capacity_rps, pool.full_rps) for i, pool in members),
        decodes=first.phase is Phase.DECODE,
        part=first.part,
        passed_part=first.part / sum(alike.values()),
        chain=chains.index(first.chain),
        waits_s=() if first.phase is Phase.DECODE else tuple(_waits_s(plan, first)),
    )


def _waits_s(plan: Plan, pool: ScaledPool) -> list[tuple[float, float]]:
    bucket = next((row for row in plan.outlook.pools if row.island == pool.island), None)
    span = (bucket.start, bucket.end) if bucket else None
    rows = {
        row.load: row
        for row in plan.outlook.latencies
        if row.phase is Phase.PREFILL and (row.start, row.end) == span and row.p50_ms is not None
    }
    if LoadPoint.DEMAND not in rows:
        return []
    idle_ms = rows[LoadPoint.DEMAND].p50_ms or 0.0
    return sorted(
        (row.rate_rps / plan.throughput_rps, max(0.0, (row.p50_ms or 0.0) - idle_ms) / MS_PER_S)
        for row in rows.values()
    )


def cold_starts_s(plan: Plan, settings: ChangeSettings) -> tuple[float, ...]:
    """Of a copy of each pool, from its start to its first request. InputError where the plan has no pools."""
    clock = ChangeClock.of(plan, plan.scenario, settings)
    return tuple(clock.load_s(role.gpu, role.server.parallel) for role in _roles(plan))


def _drains_s(plan: Plan, settings: ChangeSettings) -> list[float]:
    clock = ChangeClock.of(plan, plan.scenario, settings)
    return [clock.drain_s(role) for role in _roles(plan)]


def _roles(plan: Plan) -> list[ServerRole]:
    """Of a copy of each pool, in the order of `scaled_pools`."""
    require_pools(plan, "to be scaled")
    rows = {row.island: row for row in plan.outlook.pools}
    return [
        ServerRole(gpu=row.gpu, phase=row.phase, server=row.server, start=row.start, end=row.end)
        for pool in scaled_pools(plan)
        if (row := rows[pool.island])
    ]


def derived_loop(rules: Sequence[ScalingRule], fleet: Fleet, starts_s: Sequence[float]) -> Loop:
    """The autoscaler of the rules. Hours begin a cold start early."""
    slowest_s = max(starts_s)

    def wants(place: int, copies: int, signals: Signals, at_s: float) -> int:
        rule, chain = rules[place], fleet.chain_of[place]
        load = signals.loads[chain] + signals.waiting[chain] / slowest_s + rule.spare - rule.before
        goal = copies_by(load, rule.per_copy, copies)
        if rule.hours:
            for seen_s in (at_s, at_s + lead_s(starts_s[place])):
                hour = rule.hours[int(seen_s % DAY_S // SECONDS_PER_HOUR)]
                goal = max(goal, copies_by(hour, 1.0, copies))
        return goal

    return Loop(
        wants=wants,
        floors=tuple(rule.floor for rule in rules),
        ceilings=tuple(rule.ceiling for rule in rules),
        window_s=tuple(settle_s(start_s) for start_s in starts_s),
    )


def usual_loop(fleet: Fleet) -> Loop:
    """What guides begin with: each pool by its own queue, with the defaults of a HorizontalPodAutoscaler, at most as
    many copies as the plan has."""

    def wants(place: int, copies: int, signals: Signals, _: float) -> int:
        return copies_by(signals.waiting_by_pool[place], USUAL_QUEUE, copies)

    return Loop(
        wants=wants,
        floors=tuple(1 for _ in fleet.pools),
        ceilings=tuple(pool.planned for pool in fleet.pools),
        window_s=tuple(USUAL_WINDOW_S for _ in fleet.pools),
        usual_steps=True,
    )


def copies_by(value: float, target: float, copies: int) -> int:
    """Copies that one metric of AverageValue asks for; none at all is KEDA's, where the metric is not above 0."""
    if value <= 0:
        return 0
    if copies and abs(value / (target * copies) - 1) <= TOLERANCE:
        return copies
    return math.ceil(value / target - _FUZZ)


@dataclass(slots=True)
class _Copies:
    """Copies of a pool: those that take requests, that load and that drain until a time; what was wanted, and when."""

    pool: ScaledPool
    start_s: float
    drain_s: float
    ready: int
    loading: deque[float] = field(default_factory=deque)
    draining: deque[float] = field(default_factory=deque)
    goals: deque[tuple[float, int]] = field(default_factory=deque)

    def pass_time(self, now_s: float) -> int:
        """Copies that are paid for from now on."""
        while self.loading and self.loading[0] <= now_s:
            self.loading.popleft()
            self.ready += 1
        while self.draining and self.draining[0] <= now_s:
            self.draining.popleft()
        return self.ready + len(self.loading) + len(self.draining)

    def settled(self, now_s: float, copies: int, window_s: float) -> int:
        """The most that was wanted within the window, now included."""
        while self.goals and self.goals[-1][1] <= copies:
            self.goals.pop()
        self.goals.append((now_s, copies))
        while self.goals[0][0] < now_s - window_s:
            self.goals.popleft()
        return self.goals[0][1]

    def go_to(self, copies: int, now_s: float, room: int) -> int:
        """Start or stop, as far as there are GPUs; copies that were started."""
        counted = self.ready + len(self.loading)
        started = max(0, min(copies - counted, room // self.pool.gpus))
        self.loading.extend([now_s + self.start_s] * started)
        for _ in range(counted - copies):
            if self.loading:
                self.loading.pop()
            else:
                self.ready -= 1
                self.draining.append(now_s + self.drain_s)
        return started


def run_loop(plan: Plan, series: RateSeries, loop: Loop, settings: ChangeSettings, name: str) -> LoopResult:
    """The days of `series` with copies that the loop sets; it begins with as many as the first rate needs."""
    fleet = Fleet(plan)
    copies = _first_copies(plan, fleet, loop, series.rates_rps[0], settings)
    seen: deque[Signals] = deque(maxlen=METRIC_STEPS)
    usd = requests = outside = 0.0
    started = 0
    for step in range(len(series.windows) * max(1, round(series.window_s / SYNC_S))):
        now_s = step * SYNC_S
        rate = series.windows[min(int(now_s // series.window_s), len(series.windows) - 1)].rate_rps
        paid = [pool.pass_time(series.begins_s + now_s) for pool in copies]
        usd += sum(n * c.pool.usd_per_hour for n, c in zip(paid, copies, strict=True)) * SYNC_S / SECONDS_PER_HOUR
        if seen:
            started += _control(plan, copies, paid, loop, _mean(seen), series.begins_s + now_s)
        late, signals = fleet.serve(rate, [pool.ready for pool in copies])
        requests, outside = requests + rate * SYNC_S, outside + late * SYNC_S
        seen.append(signals)
    return LoopResult(name=name, usd=usd, within=1 - outside / requests if requests else 1.0, started=started)


def _first_copies(plan: Plan, fleet: Fleet, loop: Loop, rate_rps: float, settings: ChangeSettings) -> list[_Copies]:
    begun = copies_for(fleet.pools, rate_rps)
    times = zip(cold_starts_s(plan, settings), _drains_s(plan, settings), strict=True)
    rows = zip(fleet.pools, times, loop.floors, loop.ceilings, strict=True)
    free = _inventory(plan)
    copies = []
    for pool, (start_s, drain_s), floor, ceiling in rows:
        ready = min(ceiling, max(floor, begun[pool.island]), free[pool.gpu] // pool.gpus)
        free[pool.gpu] -= ready * pool.gpus
        copies.append(_Copies(pool=pool, start_s=start_s, drain_s=drain_s, ready=ready))
    return copies


def _inventory(plan: Plan) -> dict[str, int]:
    return {item.gpu.name: item.count for item in plan.scenario.inventory.items}


def _control(
    plan: Plan,
    copies: Sequence[_Copies],
    paid: Sequence[int],
    loop: Loop,
    signals: Signals,
    at_s: float,
) -> int:
    """One period of the controller; `at_s` from midnight of the first day. Copies that were started."""
    free = _inventory(plan)
    for count, pool in zip(paid, copies, strict=True):
        free[pool.pool.gpu] -= count * pool.pool.gpus
    total = 0
    for place, pool in enumerate(copies):
        counted = pool.ready + len(pool.loading)
        goal = loop.wants(place, counted, signals, at_s)
        if loop.usual_steps:
            goal = min(goal, counted + max(USUAL_STEP, counted))
        goal = min(loop.ceilings[place], max(loop.floors[place], goal))
        settled = pool.settled(at_s, goal, loop.window_s[place])
        target = goal if goal > counted else min(counted, settled)

        started = pool.go_to(target, at_s, free[pool.pool.gpu])
        free[pool.pool.gpu] -= started * pool.pool.gpus
        total += started
    return total


def _mean(seen: Sequence[Signals]) -> Signals:
    def mean(rows: Sequence[Sequence[float]]) -> list[float]:
        return [sum(values) / len(rows) for values in zip(*rows, strict=True)]

    return Signals(
        loads=mean([row.loads for row in seen]),
        waiting=mean([row.waiting for row in seen]),
        waiting_by_pool=mean([row.waiting_by_pool for row in seen]),
    )
