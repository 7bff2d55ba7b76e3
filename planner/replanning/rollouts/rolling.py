"""A change of plan as steps in order, none of which leaves less than a stated share of the rate."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.domain import BucketPool, Plan
from planner.domain.changes import LEAST_SHARE, PlanChange, ServerChange, ServerRole
from planner.domain.rollouts import RollOut, RollOutStep, ServerCounts
from planner.errors import InconsistentPlanError, InfeasibleError, InputError
from planner.replanning.rollouts.interim import InterimFleet
from planner.replanning.rollouts.orders import Group, Order, Stage, best_rate_rps, fewest_steps, spare_gpus

_SEARCHES, _ROUNDING = 4, 1e-9

Pending = dict[str, list[ServerChange]]
"""What becomes of the servers of an island, in order."""


def roll_out(
    before: Plan,
    after: Plan,
    change: PlanChange,
    *,
    least_share: float = LEAST_SHARE,
    inventory: Mapping[str, int],
) -> RollOut:
    """The steps from one plan to the other: as few as will do.

    `inventory`: GPUs that there are, by type; `change`: what becomes of whom, and what drains and loads take. What
    serves while a step lasts carries `least_share` of the lower of both plans' rates. Raises InputError where a plan
    has no buckets; InfeasibleError where no order leaves so much, with the share that can be left and the GPUs that
    would do; InconsistentPlanError where the change is not that of these plans.
    """
    if not 0 <= least_share <= 1:
        raise InputError(f"least_share: must be a share of the rate from 0 to 1, got {least_share:g}.", hint="Try 0.9.")
    way = Way.of(InterimFleet(before, after), change)
    ends = (way.counts({}, {}), False), (way.counts(way.going, way.coming), True)
    current, new = (way.fleet.exact_rps(counts, new_table=table) for counts, table in ends)
    lower = min(way.fleet.rate_rps(counts, new_table=table) for counts, table in ends)
    order = way.order(inventory, least_share * lower)
    steps = _in_fewest_steps(way, order, least_share * min(current, new))
    if steps is None:
        raise _infeasible(way, order, least_share, lower)
    return RollOut(
        steps=steps,
        current_rps=current,
        least_share=least_share,
        seconds=sum(step.seconds for step in steps),
        new_rps=new,
        old_load=way.fleet.old_load,
    )


def _in_fewest_steps(way: "Way", order: Order, floor_rps: float) -> tuple[RollOutStep, ...] | None:
    """The fewest steps whose exact rates are at least `floor_rps`. They are looked for by curves, which lie a little
    below these: where one is below all the same, the next search is stricter by so much."""
    if not way.going and not way.coming:
        return tuple(steps_of(way, order.first, [order.last] * (not way.fleet.same_buckets)))
    for _ in range(_SEARCHES):
        stages = fewest_steps(order)
        if stages is None:
            return None
        steps = tuple(steps_of(way, order.first, stages))
        worst = min(step.during_rps for step in steps)
        if worst >= floor_rps * (1 - _ROUNDING):
            return steps
        order = replace(order, floor_rps=order.floor_rps * floor_rps / worst * (1 + _ROUNDING))
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Two plans' servers, and how many of each island stop and start, in the order of the islands' names."""

    fleet: InterimFleet
    change: PlanChange
    going: Mapping[str, int]
    coming: Mapping[str, int]

    @classmethod
    def of(cls, fleet: InterimFleet, change: PlanChange) -> "Way":
        """Of two plans' servers. Raises InconsistentPlanError where the change leads from these servers to others."""
        going = _sums(change, lambda item: item.before)
        way = cls(fleet=fleet, change=change, going=going, coming=_sums(change, lambda item: item.after))
        _require_alike(fleet)
        if way.counts(way.going, way.coming) != {name: pool.count for name, pool in sorted(fleet.after.items())}:
            raise _inconsistent("the change", "must lead from the servers of the one plan to those of the other")
        return way

    def counts(self, stopped: Mapping[str, int], started: Mapping[str, int]) -> dict[str, int]:
        """Servers of each island that run, once so many have stopped and started."""
        was = {name: pool.count for name, pool in self.fleet.before.items()}
        names = sorted({*was, *started})
        counts = {name: was.get(name, 0) - stopped.get(name, 0) + started.get(name, 0) for name in names}
        return {name: count for name, count in counts.items() if count}

    def gpus(self, counts: Mapping[str, int]) -> dict[str, int]:
        """GPUs of so many servers, by type."""
        pools, used = self.fleet.before | self.fleet.after, dict[str, int]()
        for name, count in counts.items():
            used[pools[name].gpu] = used.get(pools[name].gpu, 0) + count * pools[name].server.parallel.devices
        return used

    def order(self, inventory: Mapping[str, int], floor_rps: float) -> Order:
        """What goes and what comes, for the search of steps."""
        used = self.gpus(self.counts({}, {}))

        def rate_rps(stopped: Sequence[int], started: Sequence[int], new_table: bool) -> float:
            less, more = _by_island(self.going, stopped), _by_island(self.coming, started)
            return self.fleet.rate_rps(self.counts(less, more), new_table=new_table or self.fleet.same_buckets)

        return Order(
            stops=tuple(_group(self.fleet.before[name], count) for name, count in self.going.items()),
            starts=tuple(_group(self.fleet.after[name], count) for name, count in self.coming.items()),
            free={gpu: inventory.get(gpu, 0) - used.get(gpu, 0) for gpu in {*inventory, *used}},
            rate_rps=rate_rps,
            floor_rps=floor_rps,
        )


def _sums(change: PlanChange, side: Callable[[ServerChange], ServerRole | None]) -> dict[str, int]:
    """Servers of each island that a change takes from it, or adds to it; those that run on under its name are none."""
    return {name: sum(item.count for item in items) for name, items in sorted(_pending(change, side).items())}


def _stays(item: ServerChange) -> bool:
    """Whether the servers run on, and as copies of the same island: a copy belongs to the object that started it."""
    same = item.before is not None and item.after is not None and item.before.island == item.after.island
    return item.kind.runs_on and same


def _by_island(counts: Mapping[str, int], numbers: Sequence[int]) -> dict[str, int]:
    return dict(zip(counts, numbers, strict=True))


def _group(pool: BucketPool, count: int) -> Group:
    return Group(gpu=pool.gpu, gpus=pool.server.parallel.devices, count=count)


def _require_alike(fleet: InterimFleet) -> None:
    """Servers with the name of an island of the old plan are started as that one's are."""
    for name in sorted(fleet.before.keys() & fleet.after.keys()):
        old, new = fleet.before[name], fleet.after[name]
        if (old.gpu, old.phase, old.server) != (new.gpu, new.phase, new.server):
            raise _inconsistent(f"island {name}", "must be the same servers in both plans, or have another name")


def _inconsistent(subject: str, rule: str) -> InconsistentPlanError:
    return InconsistentPlanError(f"{subject}: {rule}.", hint="This is a defect of the planner; please report it.")


def steps_of(way: Way, first: Stage, stages: Sequence[Stage]) -> Iterator[RollOutStep]:
    """The steps from stage to stage, `first` before them."""
    stopping, starting = _pending(way.change, lambda c: c.before), _pending(way.change, lambda c: c.after)
    previous = first
    for number, stage in enumerate(stages, start=1):
        less, more = _by_island(way.going, previous.stopped), _by_island(way.coming, previous.started)
        stopped, started = _by_island(way.going, stage.stopped), _by_island(way.coming, stage.started)
        stops = tuple(_next_servers(stopping, {name: count - less[name] for name, count in stopped.items()}))
        starts = tuple(_next_servers(starting, {name: count - more[name] for name, count in started.items()}))
        during, after = way.counts(stopped, more), way.counts(stopped, started)
        new_table = stage.new_table or way.fleet.same_buckets
        yield RollOutStep(
            number=number,
            stops=stops,
            starts=starts,
            during_rps=way.fleet.exact_rps(during, new_table=new_table),
            after_rps=way.fleet.exact_rps(after, new_table=new_table or number == len(stages)),
            gpus=_peak(way.gpus(way.counts(less, more)), way.gpus(after)),
            seconds=max((c.drain_s for c in stops), default=0.0) + max((c.load_s for c in starts), default=0.0),
            new_table=new_table,
            during=_rows(during),
            after=_rows(after),
        )
        previous = stage


def _pending(change: PlanChange, side: Callable[[ServerChange], ServerRole | None]) -> Pending:
    pending: Pending = {}
    for item in change.changes:
        role = side(item)
        if role is not None and not _stays(item):
            pending.setdefault(role.island, []).append(item)
    return pending


def _next_servers(pending: Pending, counts: Mapping[str, int]) -> Iterator[ServerChange]:
    """The next `counts` servers of each island, which are pending no more."""
    for name, servers in counts.items():
        remaining = servers
        while remaining:
            item = pending[name].pop(0)
            count = min(remaining, item.count)
            remaining -= count
            yield replace(item, count=count)
            if item.count > count:
                pending[name].insert(0, replace(item, count=item.count - count))


def _peak(*uses: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The larger of both, by type."""
    return tuple((gpu, max(use.get(gpu, 0) for use in uses)) for gpu in sorted({gpu for use in uses for gpu in use}))


def _rows(counts: Mapping[str, int]) -> ServerCounts:
    return tuple(sorted(counts.items()))


def _infeasible(way: Way, order: Order, least_share: float, lower_rps: float) -> InfeasibleError:
    """What can be left at best, and what would do. Shares are rounded down, so that what is told will do."""
    best = replace(order, floor_rps=best_rate_rps(order))
    worst = min((step.during_rps for step in steps_of(way, order.first, fewest_steps(best) or [])), default=0.0)
    share = int(min(best.floor_rps, worst) / lower_rps * 1000) / 1000
    of_load = "the deployed plan's workload and levels, as it serves nothing of the new ones as a whole"
    rates = f"{lower_rps:,.6g} requests/s" + f" (of {of_load})" * way.fleet.old_load
    stopped = " (nothing is served meanwhile)" * (not share)
    ways = [f"Give --least-share {share:g}{stopped}"]
    if spare := spare_gpus(order):
        used = way.gpus(way.counts({}, {}))
        counts = ",".join(f"{gpu}={order.free.get(gpu, 0) + used.get(gpu, 0) + more}" for gpu, more in spare.items())
        lent = " and ".join(f"{more} more {gpu}" for gpu, more in spare.items())
        ways.append(f"lend it {lent} meanwhile (--meanwhile {counts})")
    if len(way.fleet.lanes) == 1:  # an upgrade starts every server anew, however few there are
        ways.append(f"plan a smaller change (--most-gpus below {way.change.gpus_touched})")
    *others, last = ways
    return InfeasibleError(
        f"plan {way.fleet.question.scenario.name}: no order of steps leaves {least_share:.1%} of {rates}; at best "
        f"{share:.1%} can be left.",
        hint=f"{', '.join(others)}{', or ' if others else ''}{last}.",
    )
