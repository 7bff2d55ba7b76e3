"""The roll-outs of a fleet's deployments as one: nodes are free before somebody takes them, and every service keeps a
share of its promise.

The steps are those of a search for the roll-out of one plan (`rollouts.orders`), over the servers of all deployments
together. In place of its rate stands the least share that is left to a service, of the smaller of its old and its new
promise; in place of free GPUs, nodes that nobody's servers lie on. Where nodes go round in a circle each gives some
first, as many as its share allows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.domain.fleets import FleetPlan
from planner.domain.rollouts import RollOut, RollOutStep
from planner.domain.serving.fleets.changes import DeploymentChange, FleetStep, GpuCounts
from planner.errors import InfeasibleError, InputError
from planner.replanning.fleets.members import Member, Promises
from planner.replanning.fleets.standing import StandingNodes
from planner.replanning.rollouts.orders import Counts, Order, Stage, best_rate_rps, fewest_steps, spare_gpus

_SEARCHES, _ROUNDING = 4, 1e-9

MemberCounts = tuple[int, Counts, Counts]
"""A deployment's place, what has stopped and what has started of its groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedChange:
    """The deployments with their own steps, all steps in order, and what shares are of, by service (requests/s)."""

    deployments: tuple[DeploymentChange, ...]
    steps: tuple[FleetStep, ...]
    lower_rps: tuple[tuple[str, float], ...]

    @property
    def reached_share(self) -> float:
        """The least that a step leaves a service."""
        lower = dict(self.lower_rps)
        shares = (rps / lower[name] for step in self.steps for name, rps in step.promised_rps if lower.get(name))
        return min(shares, default=1.0)


@dataclass(frozen=True, kw_only=True)
class FleetOrder(Order):
    """The order of all: GPUs are free by whole nodes. `nodes_of(stopped, started)`: GPUs of nodes in use, by type;
    `may(stopped, started)`: whether all deployments can stand so."""

    nodes_of: Callable[[Counts, Counts], Mapping[str, float]]
    may: Callable[[Counts, Counts], bool]

    def fits(self, before: Counts, stopped: Counts, started: Counts) -> bool:
        """Whether the nodes suffice, of types of which servers start after `before`."""
        if not self.may(stopped, started):
            return False
        types = {group.gpu for group, was, now in zip(self.starts, before, started, strict=True) if now > was}
        nodes, first = self.nodes_of(stopped, started), self.nodes_of(self.first.stopped, self.first.started)
        return all(nodes.get(gpu, 0) - first.get(gpu, 0) <= self.free.get(gpu, 0) for gpu in types)


def ordered(
    saved: FleetPlan,
    plan: FleetPlan,
    deployments: Sequence[DeploymentChange],
    standing: StandingNodes,
    least_share: float,
) -> OrderedChange:
    """The steps from one plan of a fleet to the other: as few as will do. Raises InputError for no share,
    InfeasibleError where no order leaves `least_share` to every service, with the share that can be left and the nodes
    that would do."""
    if not 0 <= least_share <= 1:
        raise InputError(f"least_share: must be a share of promises from 0 to 1, got {least_share:g}.", hint="Try 0.9.")
    way = _FleetWay(saved, plan, [Member.of(change) for change in deployments], standing)
    order = way.order(least_share)
    for _ in range(_SEARCHES):
        stages = fewest_steps(order)
        if stages is None:
            break
        answer = way.rolled_out(stages, least_share)
        if answer.reached_share >= least_share * (1 - _ROUNDING):
            return answer
        if not answer.reached_share:
            break
        order = replace(order, floor_rps=order.floor_rps * least_share / answer.reached_share * (1 + _ROUNDING))
    raise way.infeasible(least_share)


class _FleetWay:
    """All deployments on their way."""

    def __init__(self, saved: FleetPlan, plan: FleetPlan, members: Sequence[Member], standing: StandingNodes) -> None:
        self._saved, self._plan, self._members, self._together = saved, plan, members, standing.together
        running = {service.name for service in saved.fleet.interactive}
        self._services = [service.name for service in plan.fleet.interactive if service.name in running]
        self._promises: dict[MemberCounts, Promises] = {}
        self._held: dict[MemberCounts, Mapping[str, int]] = {}
        first, last = [member.first for member in members], [member.last for member in members]
        by_curves = [
            [self._promised((j, stage.stopped, stage.started)) for j, stage in enumerate(stages)]
            for stages in (first, last)
        ]
        self._lower_curves = self._lower(*by_curves)

    def _lower(self, old: Iterable[Promises], new: Iterable[Promises]) -> dict[str, float]:
        """Of every service that runs on, the smaller of its promises before and after."""
        before, after = _total(old), _total(new)
        return {name: min(before.get(name, 0.0), after.get(name, 0.0)) for name in self._services}

    def _promised(self, key: MemberCounts) -> Promises:
        if key not in self._promises:
            self._promises[key] = self._members[key[0]].promised(*key[1:])
        return self._promises[key]

    def _nodes(self, key: MemberCounts) -> Mapping[str, int]:
        """GPUs of the nodes that a deployment's servers lie on."""
        if key not in self._held:
            used = self._members[key[0]].gpus(*key[1:])
            self._held[key] = {gpu: -(-n // self.host(gpu)) * self.host(gpu) for gpu, n in used.items() if n}
        return self._held[key]

    def host(self, gpu: str) -> int:
        """GPUs of a node."""
        fleets = (plan.fleet for plan in (self._plan, self._saved))
        return next(fleet for fleet in fleets if gpu in dict(fleet.inventory.counts)).host(gpu)

    def _split(self, stopped: Counts, started: Counts) -> Iterator[MemberCounts]:
        """Counts of all groups, by deployment."""
        s = t = 0
        for j, member in enumerate(self._members):
            stops, starts = len(member.stops), len(member.starts)
            yield j, stopped[s : s + stops], started[t : t + starts]
            s, t = s + stops, t + starts

    def order(self, least_share: float) -> FleetOrder:
        """What goes and comes, for the search of steps."""
        first = [(j, member.first.stopped, member.first.started) for j, member in enumerate(self._members)]
        used = _total(map(self._nodes, first))
        return FleetOrder(
            stops=tuple(group for member in self._members for group in member.stops),
            starts=tuple(group for member in self._members for group in member.starts),
            free={gpu: int(self._together.get(gpu, 0) - used.get(gpu, 0)) for gpu in {*self._together, *used}},
            rate_rps=self._least_share,
            floor_rps=least_share,
            nodes_of=lambda stopped, started: _total(map(self._nodes, self._split(stopped, started))),
            may=lambda stopped, started: all(
                self._members[j].may(*counts) for j, *counts in self._split(stopped, started)
            ),
        )

    def _least_share(self, stopped: Counts, started: Counts, _new_table: bool) -> float:
        totals = _total(map(self._promised, self._split(stopped, started)))
        shares = (totals.get(name, 0.0) / lower for name, lower in self._lower_curves.items() if lower)
        return min(shares, default=1.0)

    def rolled_out(self, stages: Sequence[Stage], least_share: float) -> OrderedChange:
        """Each deployment's own steps, and when they come."""
        standing = [list(self._split(stage.stopped, stage.started)) for stage in stages]
        turns, roll_outs = list[list[int]](), list[RollOut | None]()
        for j, member in enumerate(self._members):
            rows = [Stage(stopped=row[j][1], started=row[j][2], new_table=False) for row in standing]
            changed = [k for k, (was, now) in enumerate(zip([member.first, *rows], rows, strict=False)) if was != now]
            roll_out = member.rolled_out([rows[k] for k in changed], least_share)
            # a router that gets another table alone comes last
            turns.append(changed or [len(stages)] * len(() if roll_out is None else roll_out.steps))
            roll_outs.append(roll_out)
        lower = self._lower(
            [member.promises(row, 0) for member, row in zip(self._members, roll_outs, strict=True)],
            [member.promises(row, _length(row)) for member, row in zip(self._members, roll_outs, strict=True)],
        )
        changes = (member.change for member in self._members)
        return OrderedChange(
            deployments=tuple(replace(row, roll_out=own) for row, own in zip(changes, roll_outs, strict=True)),
            steps=tuple(self._steps(turns, roll_outs, standing)),
            lower_rps=tuple(lower.items()),
        )

    def _steps(
        self,
        turns: Sequence[Sequence[int]],
        roll_outs: Sequence[RollOut | None],
        standing: Sequence[Sequence[MemberCounts]],
    ) -> Iterator[FleetStep]:
        done = [0] * len(self._members)
        nodes = [self._nodes((j, m.first.stopped, m.first.started)) for j, m in enumerate(self._members)]
        for number, k in enumerate(sorted({k for row in turns for k in row}), start=1):
            moving = [j for j, row in enumerate(turns) if k in row]
            done = [n + (j in moving) for j, n in enumerate(done)]
            after = [self._nodes(key) for key in standing[min(k, len(standing) - 1)]] if standing else nodes
            moves = [(j, roll_outs[j]) for j in moving]
            steps = tuple((self._members[j].change.name, row.steps[done[j] - 1]) for j, row in moves if row is not None)
            promised = _total(
                member.promises(roll_outs[j], done[j], during=j in moving) for j, member in enumerate(self._members)
            )
            yield FleetStep(
                number=number,
                moves=steps,
                nodes=tuple(self._differences(nodes, after)),
                nodes_after=tuple(
                    (m.change.name, tuple(row.items())) for m, row in zip(self._members, after, strict=True)
                ),
                promised_rps=tuple((name, promised.get(name, 0.0)) for name in self._services),
                seconds=_seconds([step for _, step in steps]),
            )
            nodes = after

    def _differences(
        self, nodes: Sequence[Mapping[str, int]], after: Sequence[Mapping[str, int]]
    ) -> Iterator[tuple[str, GpuCounts]]:
        for member, was, now in zip(self._members, nodes, after, strict=True):
            more = {gpu: now.get(gpu, 0) - was.get(gpu, 0) for gpu in sorted({*was, *now})}
            if any(more.values()):
                yield member.change.name, tuple((gpu, count) for gpu, count in more.items() if count)

    def infeasible(self, least_share: float) -> InfeasibleError:
        """What can be left at best, and what would do. Shares are rounded down, so that what is told will do."""
        order = self.order(least_share)
        best = replace(order, floor_rps=best_rate_rps(order))
        answer = self.rolled_out(fewest_steps(best) or [], least_share)
        share = int(min(best.floor_rps, answer.reached_share if answer.steps else 0.0) * 1000) / 1000
        lower = dict(answer.lower_rps)
        shares = [(rps / lower[name], name) for step in answer.steps for name, rps in step.promised_rps if lower[name]]
        who = f", which {min(shares)[1]} has" if shares else ""
        ways = [f"Give --least-share {share:g}{' (nothing is served meanwhile)' * (not share)}"]
        if spare := {gpu: -(-n // self.host(gpu)) * self.host(gpu) for gpu, n in spare_gpus(order).items()}:
            counts = ",".join(f"{gpu}={self._together.get(gpu, 0) + more}" for gpu, more in spare.items())
            lent = " and ".join(f"{more} more {gpu}" for gpu, more in spare.items())
            ways.append(f"lend it {lent} meanwhile (--meanwhile {counts})")
        return InfeasibleError(
            f"fleet {self._plan.fleet.name}: no order of steps leaves every service {least_share:.1%} of the smaller "
            f"of its old and its new promise; at best {share:.1%} can be left{who}.",
            hint=", or ".join(ways) + ".",
        )


def _total(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for row in rows:
        for key, count in row.items():
            total[key] = total.get(key, 0) + count
    return total


def _length(roll_out: RollOut | None) -> int:
    return 0 if roll_out is None else len(roll_out.steps)


def _seconds(steps: Sequence[RollOutStep]) -> float:
    """Stops side by side, then starts."""
    drains = (item.drain_s for step in steps for item in step.stops)
    loads = (item.load_s for step in steps for item in step.starts)
    return max(drains, default=0.0) + max(loads, default=0.0)
