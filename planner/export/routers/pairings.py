"""Which programs a plan has beside HAProxy, and what each of them pairs or balances.

A program that draws between servers evenly is never set over pools of different speed, unless it looks for prefixes in
all of them: behind HAProxy, which weighs, there is one for each pool of equal speed in each phase.

form        programs of a split interval                              whose servers a program chooses from
by speed    one, between HAProxy and HAProxy                          none: HAProxy chooses both
by pool     one for each prefill island                               that island's, and all of decode
by group    one for each pair of a prefill and a decode group         servers of equal speed
all         one                                                       all
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from planner.domain import PHASES, Phase, Plan, RouterPolicy
from planner.domain.serving.programs import ENGINE_ROWS
from planner.export.routers.gateways import Gateway
from planner.export.routers.intervals_served import MIXED, SPLIT, ServedInterval
from planner.export.routers.speeds import equal_groups, island_loads
from planner.export.summary import balanced

MOST_BY_SPEED = 16
"""Intervals, as of two phases with eight buckets each: every one names all its servers and checks them, and a table of
hundreds of ranges would make a configuration that no ConfigMap holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Islands whose servers are equally fast in a phase, and their `part` of its load. `number` among the phase's
    groups; None: there is no other."""

    names: tuple[str, ...]
    part: float
    number: int | None

    def label(self, role: str) -> str:
        """What its pods are called where programs find them by label."""
        return role if self.number is None else f"{role}-{self.number}"


def by_prefix(plan: Plan) -> bool:
    """Whether the plan counts on requests that find the server with their prefix."""
    return plan.scenario.routing.policy is RouterPolicy.PREFIX_AWARE


def by_speed(plan: Plan, engine: str, intervals: Sequence[ServedInterval]) -> bool:
    """Whether HAProxy chooses the servers of both phases itself; not where a program looks for prefixes in them, nor
    where a pair has to agree on an address before both are sent their halves. A decode copy that is told by the prefill
    copy's answer where its cache lies may be any."""
    return not ENGINE_ROWS[engine].paired_by_address and not by_prefix(plan) and len(intervals) <= MOST_BY_SPEED


def weighs_pools(plan: Plan) -> bool:
    """Whether pools have programs of their own: not where a program looks for prefixes in all of them, nor where a
    table's ranges would make hundreds."""
    return balanced(plan) and not by_prefix(plan)


def plan_gateways(
    plan: Plan, intervals: Sequence[ServedInterval], engine: str, counts: Mapping[str, int], *, direct: bool
) -> tuple[Gateway, ...]:
    """The engine's routers, numbered. `counts`: island -> servers, or ranks, that they choose among. `direct`: HAProxy
    reaches islands of both phases itself."""
    rows: list[Gateway] = []
    for interval in intervals:
        if not direct and weighs_pools(plan):
            rows += _by_group(plan, interval, counts)
        elif direct and weighs_pools(plan) and not by_speed(plan, engine, intervals):
            rows += _by_pool(interval)
        else:
            rows += _all(interval, mixed=not direct)
    return tuple(replace(gateway, number=number) for number, gateway in enumerate(rows))


def _all(interval: ServedInterval, *, mixed: bool) -> Iterator[Gateway]:
    if interval.prefill:
        yield Gateway(interval=interval, way=SPLIT, share=interval.split)
    if interval.mixed and mixed:
        yield Gateway(interval=interval, way=MIXED, share=sum(share for _, share in interval.mixed))


def _by_pool(interval: ServedInterval) -> Iterator[Gateway]:
    parts = interval.by_pool()
    for pool, part in enumerate(parts):
        yield Gateway(interval=part, way=SPLIT, share=part.split, pool=pool if len(parts) > 1 else None)


def _by_group(plan: Plan, interval: ServedInterval, counts: Mapping[str, int]) -> Iterator[Gateway]:
    """A prefill group's part of the requests, and of these a decode group's."""
    prefill, decode = (
        _groups(plan, interval, phase, names, counts)
        for phase, names in zip(PHASES, (interval.prefill, interval.decode), strict=True)
    )
    for number, (first, second) in enumerate(product(prefill, decode)):
        yield Gateway(
            interval=replace(interval, prefill=first.names, decode=second.names),
            way=SPLIT,
            share=interval.split * first.part * second.part,
            pool=number if len(prefill) * len(decode) > 1 else None,
            labels={"prefill": first.label("prefill"), "decode": second.label("decode")},
        )
    groups = _groups(plan, interval, Phase.PREFILL, [name for name, _ in interval.mixed], counts)
    for number, group in enumerate(groups):
        mixed = tuple((name, share) for name, share in interval.mixed if name in group.names)
        yield Gateway(
            interval=replace(interval, mixed=mixed),
            way=MIXED,
            share=sum(share for _, share in mixed),
            pool=number if len(groups) > 1 else None,
            labels={"mixed": group.label("mixed")},
        )


def _groups(
    plan: Plan, interval: ServedInterval, phase: Phase, names: Sequence[str], counts: Mapping[str, int]
) -> list[_Group]:
    all_loads = island_loads(plan, interval, phase)
    loads = {name: all_loads.get(name, 0.0) for name in names}
    total = sum(loads.values()) or 1.0
    groups = equal_groups(loads, counts)
    return [
        _Group(
            names=group,
            part=sum(loads[name] for name in group) / total,
            number=number if len(groups) > 1 else None,
        )
        for number, group in enumerate(groups)
    ]
