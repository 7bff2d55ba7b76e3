"""In which steps servers stop and start, so that enough of them serve meanwhile: as few steps as will do.

| symbol | meaning | unit |
|---|---|---|
| x_i of X_i | servers of group i stopped so far, of those that go | servers |
| y_j of Y_j | servers of group j started so far, of those that come | servers |
| t | whether the new table routes | |
| R(x, y, t) | what the servers that run serve together, both phases, the slowest bucket | requests/s |
| F | rate that is never undercut | requests/s |
| f_g, a_i, b_j | free GPUs of type g at first, GPUs of a server | GPUs |

A step goes from (x, y, t) to (x', y', t'), none of them smaller, where

    R(x', y, t') >= F                                                   while it lasts: the new ones load
    sum_{j of g} b_j y'_j - sum_{i of g} a_i x'_i <= f_g                for every type g of which it starts servers

R grows with every server that runs, so a step is a row of single stops, then of single starts, and what can be reached
at all can be reached by them. Small problems are searched through, all steps of each state; others by a beam of steps
that stop as much as F allows, and start as much as finds room.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

Counts = tuple[int, ...]
Rate = Callable[[Counts, Counts, bool], float]

MOST_SEARCHED = 600
"""States up to which all steps of all of them are looked at: 600 x 600 / 4 of them take about a second."""
MOST_WALKED = 20_000
"""States up to which the best share is exact: one walk through all of them."""
_BEAM, _ORDERS = 16, 12
_QUICK_BEAM, _QUICK_ORDERS = 3, 4
"""Stages of each beam, and orders of the groups in each of its steps; quick: whether there are steps at all."""
_ROUNDING = 1e-9
_HALVINGS = 12  # of the share, where it is not exact: to 1 / 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """`count` equal servers of `gpus` GPUs of type `gpu` each."""

    gpu: str
    gpus: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Stage:
    """Servers stopped and started so far, by group, and whether the new table routes."""

    stopped: Counts
    started: Counts
    new_table: bool


@dataclass(frozen=True, kw_only=True)
class Order:
    """What goes and comes. `free`: GPUs by type at first; `rate_rps(stopped, started, new_table)`: of what runs;
    `floor_rps`: never undercut while a step lasts."""

    stops: tuple[Group, ...]
    starts: tuple[Group, ...]
    free: dict[str, int]
    rate_rps: Rate
    floor_rps: float

    @cached_property
    def first(self) -> Stage:
        """Nothing has happened."""
        return Stage(stopped=(0,) * len(self.stops), started=(0,) * len(self.starts), new_table=False)

    @cached_property
    def last(self) -> Stage:
        """All has."""
        return Stage(
            stopped=tuple(group.count for group in self.stops),
            started=tuple(group.count for group in self.starts),
            new_table=True,
        )

    def ends(self, stage: Stage) -> bool:
        """Whether nothing is left to stop or to start; the router's table may follow."""
        return (stage.stopped, stage.started) == (self.last.stopped, self.last.started)

    @property
    def states(self) -> int:
        """How many there are."""
        return 2 * math.prod(group.count + 1 for group in (*self.stops, *self.starts))

    def meanwhile_rps(self, before: Stage, after: Stage) -> float:
        """What serves while the step lasts."""
        return self.rate_rps(after.stopped, before.started, after.new_table)

    def holds(self, stopped: Counts, started: Counts, *, new_table: bool) -> bool:
        """Whether what runs serves enough."""
        return self.rate_rps(stopped, started, new_table) >= self.floor_rps * (1 - _ROUNDING)

    def fits(self, before: Counts, stopped: Counts, started: Counts) -> bool:
        """Whether the GPUs suffice, of types of which servers start after `before`."""
        types = {group.gpu for group, was, now in zip(self.starts, before, started, strict=True) if now > was}
        return all(self.gpus_added(gpu, stopped, started) <= self.free.get(gpu, 0) for gpu in types)

    def gpus_added(self, gpu: str, stopped: Counts, started: Counts) -> int:
        """GPUs of a type in use beyond those at first."""
        more = sum(group.gpus * count for group, count in zip(self.starts, started, strict=True) if group.gpu == gpu)
        less = sum(group.gpus * count for group, count in zip(self.stops, stopped, strict=True) if group.gpu == gpu)
        return more - less


def fewest_steps(order: Order) -> list[Stage] | None:
    """The stage after each step; of equally few steps those whose worst serves most. None where there are none (above
    `MOST_WALKED` states: where none were met with)."""
    if order.states <= MOST_SEARCHED:
        return _layers(order, _all_steps)
    return _beamed(order, _BEAM, _ORDERS) or (_walked(order) if order.states <= MOST_WALKED else None)


def _walked(order: Order) -> list[Stage] | None:
    """The single stops and starts that leave most, those together that may be: few steps where the beam met none."""
    worst, way = _widest(order)
    if worst < order.floor_rps * (1 - _ROUNDING):
        return None
    stages, before = list[Stage](), order.first
    while way:
        reach = max(
            number
            for number, after in enumerate(way)
            if not number
            or (
                order.holds(after.stopped, before.started, new_table=after.new_table)
                and order.fits(before.started, after.stopped, after.started)
            )
        )
        before, way = way[reach], way[reach + 1 :]
        stages.append(before)
    return stages


def _some_steps(order: Order) -> bool:
    """Whether there are any, which is quicker to tell."""
    if order.states <= MOST_WALKED:
        return _widest(order)[0] >= order.floor_rps * (1 - _ROUNDING)
    return _beamed(order, _QUICK_BEAM, _QUICK_ORDERS) is not None


def _beamed(order: Order, width: int, orders: int) -> list[Stage] | None:
    return _layers(order, lambda problem, stage: _likely_steps(problem, stage, orders), width)


def best_rate_rps(order: Order) -> float:
    """The highest floor that some row of steps never undercuts; exact up to `MOST_WALKED` states."""
    if order.states <= MOST_WALKED:
        return _widest(order)[0]
    low, high = 0.0, order.floor_rps
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _some_steps(replace(order, floor_rps=middle)) else (low, middle)
    return low


def spare_gpus(order: Order) -> dict[str, int]:
    """GPUs by type that would do, lent for the time of the change: of one type where those of one suffice, else of all
    types of which servers start."""
    types = sorted({group.gpu for group in order.starts})
    answers = [{gpu: count} for gpu in types if (count := _fewest_of(order, (gpu,))) is not None]
    if answers:
        return min(answers, key=lambda answer: (sum(answer.values()), sorted(answer)))
    count = _fewest_of(order, tuple(types))
    return {} if count is None else dict.fromkeys(types, count)


def _fewest_of(order: Order, types: tuple[str, ...]) -> int | None:
    """The fewest GPUs of each of these types, in steps of a server."""
    groups = [group for group in order.starts if group.gpu in types]
    if not groups:
        return None
    unit = math.gcd(*(group.gpus for group in groups))
    low, high = 0, max(sum(g.gpus * g.count for g in groups if g.gpu == gpu) for gpu in types) // unit
    if not _some_steps(_lent(order, types, high * unit)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _some_steps(_lent(order, types, middle * unit)) else (middle, high)
    return high * unit


def _lent(order: Order, types: tuple[str, ...], gpus: int) -> Order:
    """With so many more of each of these types."""
    return replace(order, free={**order.free, **{gpu: order.free.get(gpu, 0) + gpus for gpu in types}})


def _layers(
    order: Order, ways: Callable[[Order, Stage], Iterator[Stage]], width: int | None = None
) -> list[Stage] | None:
    """Stages step by step, each reached in as few as can be, until the last is among them."""
    reached: dict[Stage, float] = {order.first: math.inf}
    origins: dict[Stage, Stage] = {}
    layer = [order.first]
    while layer and not order.ends(layer[0]):
        fresh: dict[Stage, float] = {}
        for before in layer:
            for after in ways(order, before):
                worst = min(reached[before], order.meanwhile_rps(before, after))
                if after not in reached and worst > fresh.get(after, -1.0):
                    fresh[after], origins[after] = worst, before
        reached |= fresh
        layer = sorted(fresh, key=lambda stage: (_gpus_to_go(order, stage), -fresh[stage], stage))[:width]
    return _path(order, layer[0], origins) if layer else None


def _path(order: Order, end: Stage, origins: dict[Stage, Stage]) -> list[Stage]:
    path = [end]
    while path[-1] != order.first:
        path.append(origins[path[-1]])
    return path[-2::-1]


def _gpus_to_go(order: Order, stage: Stage) -> int:
    """GPUs of servers that have yet to stop or to start."""
    pairs = zip((*order.stops, *order.starts), (*stage.stopped, *stage.started), strict=True)
    return sum(group.gpus * (group.count - count) for group, count in pairs)


def _tables(stage: Stage) -> tuple[bool, ...]:
    """The new one stays."""
    return (True,) if stage.new_table else (True, False)


def _all_steps(order: Order, before: Stage) -> Iterator[Stage]:
    for new_table in _tables(before):
        for stopped in _counts_from(before.stopped, order.stops):
            if not order.holds(stopped, before.started, new_table=new_table):
                continue
            for started in _counts_from(before.started, order.starts):
                if order.fits(before.started, stopped, started):
                    yield Stage(stopped=stopped, started=started, new_table=new_table)


def _counts_from(counts: Counts, groups: tuple[Group, ...]) -> Iterator[Counts]:
    ranges = (range(count, group.count + 1) for count, group in zip(counts, groups, strict=True))
    return itertools.product(*ranges)


def _likely_steps(order: Order, before: Stage, orders: int) -> Iterator[Stage]:
    for new_table in _tables(before):
        if not order.holds(before.stopped, before.started, new_table=new_table):
            continue
        for stopped in _fullest_stops(order, before, orders, new_table=new_table):
            for started in _fullest_starts(order, before, stopped, orders):
                yield Stage(stopped=stopped, started=started, new_table=new_table)


def _fullest_stops(order: Order, before: Stage, orders: int, *, new_table: bool) -> set[Counts]:
    """None; and as many as can be, the groups in some orders."""
    choices = {before.stopped}
    for turn in _turns(len(order.stops), orders):
        counts = before.stopped
        for number in turn:
            counts = _with_most(
                counts, number, order.stops[number], lambda c: order.holds(c, before.started, new_table=new_table)
            )
            choices.add(counts)
    return choices


def _fullest_starts(order: Order, before: Stage, stopped: Counts, orders: int) -> set[Counts]:
    """As many as find room, the groups in some orders."""
    choices = set()
    for turn in _turns(len(order.starts), orders):
        counts = before.started
        for number in turn:
            counts = _with_most(counts, number, order.starts[number], lambda c: order.fits(before.started, stopped, c))
        choices.add(counts)
    return choices


def _turns(groups: int, limit: int) -> list[tuple[int, ...]]:
    """Orders of the groups in which each comes first once, and once again backwards."""
    forward = tuple(range(groups))
    turns = [(*row[k:], *row[:k]) for k in forward for row in (forward, forward[::-1])]
    return list(dict.fromkeys(turns))[:limit] or [()]


def _with_most(counts: Counts, number: int, group: Group, allowed: Callable[[Counts], bool]) -> Counts:
    """The counts with as many of one group as are allowed, by halving; fewer are allowed where more are."""
    low, high = counts[number], group.count
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if allowed(_with(counts, number, middle)) else (low, middle - 1)
    return _with(counts, number, low)


def _with(counts: Counts, number: int, count: int) -> Counts:
    return (*counts[:number], count, *counts[number + 1 :])


def _widest(order: Order) -> tuple[float, list[Stage]]:
    """The worst rate on the way that is best in this, by single stops and starts, and that way."""
    origins: dict[Stage, Stage] = {}
    queue = [(-math.inf, order.first, order.first)]
    while queue:
        worst, stage, before = heapq.heappop(queue)
        if stage in origins:
            continue
        origins[stage] = before
        if order.ends(stage):
            return -worst, _path(order, stage, origins)
        for after in _single_steps(order, stage):
            if after not in origins:
                heapq.heappush(queue, (max(worst, -order.meanwhile_rps(stage, after)), after, stage))
    return 0.0, []


def _single_steps(order: Order, stage: Stage) -> Iterator[Stage]:
    if not stage.new_table:
        yield replace(stage, new_table=True)
    for number, group in enumerate(order.stops):
        if stage.stopped[number] < group.count:
            yield replace(stage, stopped=_with(stage.stopped, number, stage.stopped[number] + 1))
    for number, group in enumerate(order.starts):
        if stage.started[number] < group.count:
            started = _with(stage.started, number, stage.started[number] + 1)
            if order.fits(stage.started, stage.stopped, started):
                yield replace(stage, started=started)
