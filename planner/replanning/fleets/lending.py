"""Nodes that an hour does not need are lent to work that waits.

| symbol | meaning | unit |
|---|---|---|
| r_s(t), h | highest rate of a service in window t, headroom | requests/s, 1 |
| R_s | what all of its deployments promise it | requests/s |
| x_d(t) | share of its promise that a deployment needs: max_s min(1, h r_s(t) / R_s), or its floor | 1 |
| k_d(t) | lowest level of its ladder that promises x_d(t) of its promise | 1 |
| a | windows in which batches drain and servers load, before they are needed | 1 |

In window t a deployment stands at the highest of the levels k_d(t) ... k_d(t + a), so what a window needs has loaded
before it begins. What is lower for less than `least_windows` stays. The rate of a service without a curve is always
its demand. A curve that ends begins anew. Where several services share a deployment its need is that of the most
demanding.

Nodes of a type are alike: what one deployment gives up another may take. Whole blocks of what is free are lent, to the
first batch that has not had the tokens it asks for on that day. Blocks work by themselves, so that none is disturbed
when another starts or stops. That counts as less than one plan of all lent nodes might do.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from planner.cost.serving.loading import load_s
from planner.domain.fleets import FleetPart, FleetPlan, FleetService
from planner.domain.schedules import DAY_S, RateSeries
from planner.domain.serving.fleets.lending import BatchBlock, FleetLadder, FleetSchedule, FleetWindow, LendingTerms
from planner.errors import InputError
from planner.proposing.fleets.planning import PlanOne, fill_with
from planner.replanning.fleets.ladders import LadderBook, ladder_of

MOST_WINDOWS = 20_000
_ROUNDING = 1e-9
Tell = Callable[[str], None]


def lending_schedule(
    plan: FleetPlan, terms: LendingTerms, plan_one: PlanOne, days: float | None = None, tell: Tell = lambda _: None
) -> FleetSchedule:
    """Who has which nodes when, for so many days (None: as long as the longest curve). `plan_one` plans batches on the
    fewest nodes of a type. Raises InputError where no service has a curve, or windows are too many."""
    count = _window_count(plan, terms, days)
    tell("pricing blocks of nodes for work that waits")
    drain_s = max((part.plan.scenario.changes.times.drain_s for part in plan.parts), default=0.0)
    blocks = batch_blocks(plan, plan_one, drain_s)
    shares = {part.name: _needs(plan, part, terms, count) for part in plan.parts}
    worths = _worths(plan, blocks)
    ladders = []
    for part in plan.parts:
        tell(f"levels of {part.name}")
        lowest_rps = _needed(terms, min(shares[part.name])) * part.promise_rps
        ladders.append(ladder_of(book_of(plan, part), worths, lowest_rps, terms.most_steps))
    levels = [
        _levels(ladder, shares[ladder.deployment], terms, _batch_drain_s(plan, drain_s), _least_windows(terms, blocks))
        for ladder in ladders
    ]
    return FleetSchedule(
        plan=plan,
        terms=terms,
        ladders=tuple(ladders),
        blocks=blocks,
        windows=_windows(plan, terms, ladders, levels, shares, blocks),
    )


def book_of(plan: FleetPlan, part: FleetPart) -> LadderBook:
    """Prices of some of a part's servers."""
    return LadderBook(part, {gpu: plan.fleet.host(gpu) for gpu, _ in part.gpus})


def _window_count(plan: FleetPlan, terms: LendingTerms, days: float | None) -> int:
    curves = [service.rates for service in plan.fleet.interactive if service.rates is not None]
    if not curves:
        raise InputError(
            f"fleet {plan.fleet.name}: services: must have a curve of rates for a schedule, got demands alone.",
            hint="Write `demand: {rates: servegen-m-large}`, or a CSV file of your own.",
        )
    span_s = max(curve.window_s * len(curve.windows) for curve in curves) if days is None else days * DAY_S
    count = math.floor(span_s / terms.window_s + _ROUNDING)
    if not 1 <= count <= MOST_WINDOWS:
        raise InputError(
            f"fleet {plan.fleet.name}: a schedule must have 1 to {MOST_WINDOWS:,} windows, got {count:,}.",
            hint="Choose other days, or longer windows.",
        )
    return count


def batch_blocks(plan: FleetPlan, plan_one: PlanOne, drain_s: float) -> tuple[BatchBlock, ...]:
    """Of every batch and GPU type the fewest nodes, by doubling, on which it is served."""
    blocks = (
        _block(plan, service, item.gpu.name, item.count, plan_one, drain_s)
        for service in plan.fleet.batches
        for item in plan.fleet.inventory.items
    )
    return tuple(block for block in blocks if block is not None)


def _block(
    plan: FleetPlan, service: FleetService, gpu: str, most_gpus: int, plan_one: PlanOne, drain_s: float
) -> BatchBlock | None:
    gpus = plan.fleet.host(gpu)
    while gpus <= most_gpus:
        fill = fill_with(service, {gpu: gpus}, plan_one)
        if fill.part is not None:
            scenario = fill.part.plan.scenario
            times, spec = scenario.changes.times, scenario.inventory.item(gpu).gpu
            shapes = [pool.server.parallel for pool in fill.part.plan.outlook.pools]
            lost_s = drain_s + max(load_s(scenario, times, spec, shape) for shape in shapes) + times.drain_s
            tokens_per_s = fill.tokens_a_day / DAY_S
            return BatchBlock(service=service.name, gpu=gpu, gpus=gpus, tokens_per_s=tokens_per_s, lost_s=lost_s)
        gpus *= 2
    return None


def _worths(plan: FleetPlan, blocks: Sequence[BatchBlock]) -> dict[str, float]:
    """Of a GPU by type: tokens/s of the batch that does most there; without one its price, where it has one."""
    if blocks:
        best = {item.gpu.name: _ROUNDING for item in plan.fleet.inventory.items}
        for block in blocks:
            best[block.gpu] = max(best[block.gpu], block.tokens_per_s / block.gpus)
        return best
    return {item.gpu.name: item.rent_usd_per_gpu_hour or 1.0 for item in plan.fleet.inventory.items}


def _needs(plan: FleetPlan, part: FleetPart, terms: LendingTerms, count: int) -> tuple[float, ...]:
    """Of a part's promise, the share that each window's rates are."""
    promised = {share.service: share.promised_rps for share in plan.shares}
    services = [plan.fleet.service(name) for name, _ in part.deployment.parts]
    rows = [[rate / promised[s.name] for rate in _rates(s, terms.window_s, count)] for s in services]
    return tuple(max(column) for column in zip(*rows, strict=True))


def _rates(service: FleetService, window_s: float, count: int) -> list[float]:
    """Of every window; without a curve always the demand."""
    return [service.demand_rps] * count if service.rates is None else _highest(service.rates, window_s, count)


def _highest(series: RateSeries, window_s: float, count: int) -> list[float]:
    """The highest rate of the series in each window from midnight of its first day; it begins anew where it ends."""
    rates, step = series.rates_rps, series.window_s
    highest = []
    for number in range(count):
        start_s = number * window_s - series.begins_s
        first = math.floor(start_s / step + _ROUNDING)
        after = max(first + 1, math.ceil((start_s + window_s) / step - _ROUNDING))
        highest.append(max(rates[k % len(rates)] for k in range(first, min(after, first + len(rates)))))
    return highest


def _needed(terms: LendingTerms, share: float) -> float:
    """Of a promise, what has to stand."""
    return max(terms.floor, min(1.0, terms.headroom * share))


def _batch_drain_s(plan: FleetPlan, drain_s: float) -> float:
    """What whoever has a node may take to leave it."""
    times = (service.scenarios[0].changes.times.drain_s for service in plan.fleet.batches)
    return max([drain_s, *times])


def _least_windows(terms: LendingTerms, blocks: Sequence[BatchBlock]) -> int:
    """Windows for which lending is worth it: those that loading takes twice over, at least."""
    longest_s = max((block.lost_s for block in blocks), default=0.0)
    return max(terms.least_windows, math.ceil(2 * longest_s / terms.window_s))


def _levels(
    ladder: FleetLadder, shares: Sequence[float], terms: LendingTerms, drain_s: float, least_windows: int
) -> list[int]:
    """The level that stands in each window."""
    top_rps = ladder.levels[0].promise_rps
    unloaded = [ladder.carrying(_needed(terms, share) * top_rps * (1 - _ROUNDING)) for share in shares]
    lead = math.ceil((drain_s + ladder.load_s) / terms.window_s)
    loaded = [min(unloaded[t : t + lead + 1]) for t in range(len(unloaded))]
    return without_short(loaded, least_windows)


def without_short(levels: Sequence[int], windows: int) -> list[int]:
    """Levels with fewer servers for less than so many windows are left out."""
    last = len(levels) - windows
    if last < 0:
        return [min(levels)] * len(levels)
    lowest = [min(levels[t : t + windows]) for t in range(last + 1)]
    return [max(lowest[max(0, t - windows + 1) : min(t, last) + 1]) for t in range(len(levels))]


def _windows(
    plan: FleetPlan,
    terms: LendingTerms,
    ladders: Sequence[FleetLadder],
    levels: Sequence[Sequence[int]],
    shares: Mapping[str, Sequence[float]],
    blocks: Sequence[BatchBlock],
) -> tuple[FleetWindow, ...]:
    """Who has what in every window."""
    standing = {fill.service: fill.tokens_a_day for fill in plan.batches}
    windows: list[FleetWindow] = []
    before, day, so_far = (0,) * len(blocks), 0, dict(standing)
    for number in range(len(levels[0])):
        start_s = number * terms.window_s
        if int(start_s // DAY_S) != day:
            day, so_far = int(start_s // DAY_S), dict(standing)
        free = _free(plan, ladders, [row[number] for row in levels])
        lent = _lent(plan, blocks, free, so_far)
        tokens = 0.0
        for block, count, count_before in zip(blocks, lent, before, strict=True):
            served_s = count * terms.window_s - max(0, count - count_before) * block.lost_s
            tokens += block.tokens_per_s * served_s
            so_far[block.service] += block.tokens_per_s * served_s
        rates = (shares[ladder.deployment][number] * ladder.levels[0].promise_rps for ladder in ladders)
        window = FleetWindow(
            start_s=start_s,
            rates_rps=tuple(rates),
            levels=tuple(row[number] for row in levels),
            lent=lent,
            tokens=tokens,
            idle=tuple((gpu, n) for gpu, n in free.items() if n),
        )
        windows.append(window)
        before = lent
    return tuple(windows)


def _free(plan: FleetPlan, ladders: Sequence[FleetLadder], levels: Sequence[int]) -> dict[str, int]:
    """GPUs that neither a deployment needs at its level nor a batch has in the plan."""
    free = {item.gpu.name: item.count for item in plan.fleet.inventory.items}
    for ladder, k in zip(ladders, levels, strict=True):
        for gpu, count in ladder.levels[k].gpus:
            free[gpu] -= count
    for fill in plan.batches:
        for gpu, count in () if fill.part is None else fill.part.gpus:
            free[gpu] -= count
    return free


def _lent(
    plan: FleetPlan, blocks: Sequence[BatchBlock], free: dict[str, int], so_far: Mapping[str, float]
) -> tuple[int, ...]:
    """Blocks that are lent of what is free, which loses them."""
    lent = []
    for block in blocks:
        terms = plan.fleet.service(block.service).batch
        sated = terms is not None and 0 < terms.tokens_a_day <= so_far[block.service]
        count = 0 if sated else free[block.gpu] // block.gpus
        free[block.gpu] -= count * block.gpus
        lent.append(count)
    return tuple(lent)
