"""The deployments of a fleet on the way from one plan to another: what each stops and starts, and what it promises.

A deployment near its plan goes server by server, as any plan that is changed. One that comes or goes, or is planned
from scratch, starts or stops as a whole: it serves nothing before the last of its servers runs, and nothing after the
first has stopped. The old one stops first, as its objects have the same names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from planner.domain.changes import ChangeKind, ServerChange
from planner.domain.fleets import FleetPart
from planner.domain.rollouts import RollOut, RollOutStep
from planner.domain.serving.fleets.changes import DeploymentChange
from planner.replanning.changes import ChangeClock, role_of
from planner.replanning.rollouts.interim import InterimFleet
from planner.replanning.rollouts.orders import Counts, Group, Stage
from planner.replanning.rollouts.rolling import Way, steps_of

Promises = Mapping[str, float]
"""Requests/s by service."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A deployment on its way, server by server or as a whole (`way`: None). Counts are of its groups: how many of each
    have stopped or started."""

    change: DeploymentChange
    way: Way | None = None

    @classmethod
    def of(cls, change: DeploymentChange) -> "Member":
        """A deployment by how it changes."""
        if change.replan is None or change.change is None:
            return cls(change=change)
        return cls(change=change, way=Way.of(InterimFleet(change.replan.before, change.replan.plan), change.change))

    @cached_property
    def stops(self) -> tuple[Group, ...]:
        """Servers that go; as a whole, its GPUs of each type."""
        if self.way is not None:
            return self.way.order({}, 0.0).stops
        return () if self.change.stays else _groups(self.change.before, dict(self.change.lost.gpus))

    @cached_property
    def starts(self) -> tuple[Group, ...]:
        """Servers that come."""
        if self.way is not None:
            return self.way.order({}, 0.0).starts
        return () if self.change.stays else _groups(self.change.after, {})

    @property
    def first(self) -> Stage:
        """Nothing has happened."""
        return Stage(stopped=(0,) * len(self.stops), started=(0,) * len(self.starts), new_table=False)

    @property
    def last(self) -> Stage:
        """All has."""
        stopped, started = (tuple(group.count for group in groups) for groups in (self.stops, self.starts))
        return Stage(stopped=stopped, started=started, new_table=True)

    def may(self, stopped: Counts, started: Counts) -> bool:
        """Whether it can stand so."""
        return self.way is not None or not any(started) or stopped == self.last.stopped

    def gpus(self, stopped: Counts, started: Counts) -> dict[str, int]:
        """GPUs by type that it holds: those of its servers; all of its own where it stays, or goes as a whole."""
        if self.way is not None:
            return self.way.gpus(self._counts(stopped, started))
        used = dict(self.change.before.gpus) if self.change.stays and self.change.before is not None else {}
        for group, count in zip((*self.stops, *self.starts), (*(1 - n for n in stopped), *started), strict=True):
            used[group.gpu] = used.get(group.gpu, 0) + group.gpus * count
        return used

    def promised(self, stopped: Counts, started: Counts) -> Promises:
        """By curves, behind the better of both tables."""
        if self.way is not None:
            counts, fleet = self._counts(stopped, started), self.way.fleet
            return self._of_rate(max(fleet.rate_rps(counts, new_table=table) for table in (False, True)))
        before, after = self.change.before, self.change.after
        if before is not None and not any(stopped) and not self.change.lost.gpus:
            return _promises(before)
        return _promises(after) if after is not None and started == self.last.started else {}

    def rolled_out(self, stages: Sequence[Stage], least_share: float) -> RollOut | None:
        """Its own steps through these stages, priced as any plan is; None where nothing of it changes."""
        if self.way is None:
            return None if self.change.stays else self._as_whole(stages, least_share)
        fleet, last = self.way.fleet, replace(self.last, new_table=True)
        stages = list(stages) or [last] * (not fleet.same_buckets)
        turns = range(1 if fleet.same_buckets else len(stages) + 1)
        tried = [
            tuple(steps_of(self.way, self.first, [replace(s, new_table=k >= turn) for k, s in enumerate(stages)]))
            for turn in turns
        ]
        steps = max(tried, key=lambda rows: min((row.during_rps for row in rows), default=0.0))
        ends = (self.first, False), (last, True)
        current, new = (fleet.exact_rps(self._counts(s.stopped, s.started), new_table=table) for s, table in ends)
        roll_out = RollOut(
            steps=steps,
            current_rps=current,
            new_rps=new,
            least_share=least_share,
            seconds=sum(step.seconds for step in steps),
            old_load=fleet.old_load,
        )
        # others serve its requests meanwhile where it leaves less itself
        return replace(roll_out, least_share=min(least_share, roll_out.reached_share))

    def promises(self, roll_out: RollOut | None, step: int, *, during: bool = False) -> Promises:
        """Exactly, after so many of its own steps; `during`: while the last of them lasts."""
        if self.way is None or roll_out is None:
            before, after = self.change.before, self.change.after
            steps = 0 if roll_out is None else len(roll_out.steps)
            if not step:
                return {} if before is None or self.change.lost.gpus else _promises(before)
            return _promises(after) if after is not None and step == steps and not during else {}
        if not step:
            return self._of_rate(roll_out.current_rps)
        row = roll_out.steps[step - 1]
        return self._of_rate(row.during_rps if during else row.after_rps)

    def _of_rate(self, rate_rps: float) -> Promises:
        """By the parts of its new plan: rates of a way are of the new workload."""
        after = self.change.after
        assert after is not None, "what goes server by server goes to a new plan"
        return {service: rate_rps * after.deployment.promised * part for service, part in after.deployment.parts}

    def _counts(self, stopped: Counts, started: Counts) -> dict[str, int]:
        assert self.way is not None, "counts are of servers"
        less, more = (
            dict(zip(names, numbers, strict=True))
            for names, numbers in ((self.way.going, stopped), (self.way.coming, started))
        )
        return self.way.counts(less, more)

    def _as_whole(self, stages: Sequence[Stage], least_share: float) -> RollOut:
        """What goes stops with the first of its GPUs, what comes starts with the last."""
        steps = list[RollOutStep]()
        before, after = self.change.before, self.change.after
        for previous, stage in zip((self.first, *stages), stages, strict=False):
            goes = any(stage.stopped) and not any(previous.stopped)
            comes = bool(stage.started) and stage.started == self.last.started != previous.started
            stops = _servers(before, ChangeKind.STOP) if goes else ()
            starts = _servers(after, ChangeKind.START) if comes else ()
            seconds = max((c.drain_s for c in stops), default=0.0) + max((c.load_s for c in starts), default=0.0)
            rate_rps = after.plan.throughput_rps if comes and after is not None else 0.0
            steps.append(
                RollOutStep(
                    number=len(steps) + 1,
                    stops=stops,
                    starts=starts,
                    during_rps=0.0,
                    after_rps=rate_rps,
                    gpus=tuple(self.gpus(stage.stopped, stage.started).items()),
                    seconds=seconds,
                )
            )
        rates = [0.0 if part is None else part.plan.throughput_rps for part in (before, after)]
        return RollOut(
            steps=tuple(steps),
            current_rps=rates[0],
            new_rps=rates[1],
            least_share=least_share,
            seconds=sum(step.seconds for step in steps),
        )


def _groups(part: FleetPart | None, lost: Mapping[str, int]) -> tuple[Group, ...]:
    gpus = () if part is None else part.gpus
    rows = ((gpu, count - lost.get(gpu, 0)) for gpu, count in gpus)
    return tuple(Group(gpu=gpu, gpus=count, count=1) for gpu, count in rows if count > 0)


def _promises(part: FleetPart) -> Promises:
    return {service: part.promised_to(service) for service, _ in part.deployment.parts}


def _servers(part: FleetPart | None, kind: ChangeKind) -> tuple[ServerChange, ...]:
    """All servers of a plan, that stop or start."""
    if part is None:
        return ()
    clock = ChangeClock.of(part.plan, part.plan.scenario, part.plan.scenario.changes.times)
    stops = kind is ChangeKind.STOP
    rows = []
    for pool in part.plan.outlook.pools:
        role = role_of(pool)
        before, after = (role, None) if stops else (None, role)
        rows.append(ServerChange(kind=kind, before=before, after=after, count=pool.count))
    return clock.timed(tuple(rows)).changes
