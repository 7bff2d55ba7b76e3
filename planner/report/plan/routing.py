"""Which prompts there are and who serves them: groups instead of islands, stretches instead of ranges."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from planner.domain import Phase, Plan, PlannedIsland, Route
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import percent, rate, span
from planner.report.kit.tables import Column, counts, table_of
from planner.report.kit.tree import DataTable

PHASE_ORDER = (*Phase, None)
"""The order in which phases are told; None is an idle island."""

READABLE_GROUPS = 12
"""Groups of one phase that a legend or a routing table can name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandGroup:
    """Islands of one GPU type in one phase (None: idle), of one size; of several where groups were merged."""

    gpu: str
    phase: Phase | None
    islands: tuple[PlannedIsland, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """GPUs of each island, descending."""
        return tuple(sorted((i.size for i in self.islands), reverse=True))

    @property
    def gpus(self) -> int:
        """GPUs of all the islands."""
        return sum(self.sizes)

    @property
    def rate_rps(self) -> float:
        """Requests/s that the islands serve together."""
        return sum(i.rate_rps for i in self.islands)

    @property
    def price_usd_per_hour(self) -> float:
        """Rent of all the islands."""
        return sum(i.price_usd_per_hour for i in self.islands)

    @property
    def label(self) -> str:
        """`H200/16 ×4`: type, GPUs of one island, number of islands."""
        return f"{self.gpu}/{span(self.sizes)} ×{len(self.islands)}"


def groups(plan: Plan) -> tuple[IslandGroup, ...]:
    """Equal islands (type, phase, size, parallel configuration) together; each pool of a plan of buckets by itself.

    In the order of the inventory's types, then of PHASE_ORDER, then large before small.
    """
    types = [item.gpu.name for item in plan.scenario.inventory.items]

    def order(island: PlannedIsland) -> tuple[int, int, int, str, str]:
        return (
            types.index(island.gpu),
            PHASE_ORDER.index(island.phase),
            -island.size,
            repr(island.parallel),
            island.id if plan.form.row.pooled else "",  # a pool is told from every other
        )

    equal = [tuple(members) for _, members in groupby(sorted(plan.islands, key=order), key=order)]
    return tuple(IslandGroup(gpu=members[0].gpu, phase=members[0].phase, islands=members) for members in equal)


def of_phase(members: Iterable[IslandGroup], phase: Phase | None) -> tuple[IslandGroup, ...]:
    """The groups in one phase."""
    return tuple(g for g in members if g.phase is phase)


def merged(ordered: Sequence[IslandGroup], limit: int) -> tuple[IslandGroup, ...]:
    """At most `limit` groups where possible: neighbours of one type and phase join, closest sizes first.

    `ordered` is as `groups` gives it. Groups of different types or phases never join.
    """
    rows = list(ordered)
    while len(rows) > limit:
        gaps = [(_gap(a, b), at) for at, (a, b) in enumerate(pairwise(rows)) if _akin(a, b)]
        if not gaps:
            break
        _, at = min(gaps)
        rows[at : at + 2] = [_joined(rows[at], rows[at + 1])]
    return tuple(rows)


def _akin(a: IslandGroup, b: IslandGroup) -> bool:
    return (a.gpu, a.phase) == (b.gpu, b.phase)


def _gap(a: IslandGroup, b: IslandGroup) -> float:
    """Ratio of the extreme sizes that the joined group would hold (log)."""
    return math.log(a.sizes[0] / b.sizes[-1])


def _joined(a: IslandGroup, b: IslandGroup) -> IslandGroup:
    return IslandGroup(gpu=a.gpu, phase=a.phase, islands=a.islands + b.islands)


MINOR_SHARE = 0.02
"""A group that takes less of a range does not make the range different from its neighbour."""

SIMILAR_SHARE = 0.1
"""Shares that differ by no more are told as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Prompts of `start` <= tokens < `end`, and how likely they are."""

    start: int
    end: int
    probability: float

    @property
    def label(self) -> str:
        """First and last token."""
        return f"{self.start}–{self.end - 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Consecutive ranges that the same groups serve alike.

    `shares` are means over the requests, largest first; those below MINOR_SHARE are included.
    """

    start: int
    end: int
    ranges: int
    probability: float
    rate_rps: float
    shares: tuple[tuple[str, float], ...]

    @property
    def label(self) -> str:
        """First and last token."""
        return f"{self.start}–{self.end - 1}"


def intervals(plan: Plan) -> tuple[Interval, ...]:
    """Every range of the routing table once, ascending."""
    by_start = {route.range_start: route for route in plan.routing}
    return tuple(
        Interval(start=start, end=route.range_end, probability=route.probability)
        for start, route in sorted(by_start.items(), key=lambda item: item[0])
    )


def shares(plan: Plan, phase: Phase, listed: Sequence[IslandGroup]) -> list[list[float]]:
    """Share of a range's requests per group, `[group][range]`; a range's shares sum to 1 over all groups."""
    return _matrix(plan, listed, [(r, r.share) for r in plan.routing if r.phase is phase])


def rates(plan: Plan, phase: Phase, listed: Sequence[IslandGroup]) -> list[list[float]]:
    """Requests/s per group, `[group][range]`."""
    return _matrix(plan, listed, [(r, r.rate_rps) for r in plan.routing if r.phase is phase])


def achieved_mix(plan: Plan, phase: Phase) -> list[float]:
    """Share of each range in what a phase's islands are given time for; 0 throughout where it serves none."""
    everyone = IslandGroup(gpu="", phase=phase, islands=plan.islands)
    cells = [(route, route.assigned_rps) for route in plan.routing if route.phase is phase]
    served = _matrix(plan, [everyone], cells)[0]
    return [r / sum(served) if sum(served) else 0.0 for r in served]


def _matrix(plan: Plan, listed: Sequence[IslandGroup], cells: Sequence[tuple[Route, float]]) -> list[list[float]]:
    row_of = {island.id: row for row, group in enumerate(listed) for island in group.islands}
    column_of = {interval.start: column for column, interval in enumerate(intervals(plan))}
    matrix = [[0.0] * len(column_of) for _ in listed]
    for route, value in cells:
        matrix[row_of[route.island]][column_of[route.range_start]] += value
    return matrix


def stretches(plan: Plan, phase: Phase) -> tuple[Stretch, ...]:
    """The routing of one phase in few rows, ascending by length."""
    cuts: list[list[Stretch]] = []
    for row in _ranges(plan, phase):
        if cuts and _alike([*cuts[-1], row]):
            cuts[-1].append(row)
        else:
            cuts.append([row])
    return tuple(map(_stretch, cuts))


def _ranges(plan: Plan, phase: Phase) -> list[Stretch]:
    """Every range as a stretch of its own."""
    listed = merged(of_phase(groups(plan), phase), READABLE_GROUPS)
    by_share, by_rate = shares(plan, phase, listed), rates(plan, phase, listed)
    return [
        Stretch(
            start=interval.start,
            end=interval.end,
            ranges=1,
            probability=interval.probability,
            rate_rps=sum(row[at] for row in by_rate),
            shares=tuple((g.label, row[at]) for g, row in zip(listed, by_share, strict=True) if row[at] > 0),
        )
        for at, interval in enumerate(intervals(plan))
    ]


def _served_by(row: Stretch) -> dict[str, float]:
    return {label: share for label, share in row.shares if share >= MINOR_SHARE}


def _alike(rows: Sequence[Stretch]) -> bool:
    served = [_served_by(row) for row in rows]
    if any(row.keys() != served[0].keys() for row in served):
        return False
    spread = [[row[name] for row in served] for name in served[0]]
    return all(max(values) - min(values) <= SIMILAR_SHARE for values in spread)


def _stretch(rows: Sequence[Stretch]) -> Stretch:
    names = {name for row in rows for name, _ in row.shares}
    weight = sum(row.probability for row in rows)
    means = {
        name: sum(row.probability * dict(row.shares).get(name, 0.0) for row in rows) / (weight or 1.0) for name in names
    }
    return Stretch(
        start=rows[0].start,
        end=rows[-1].end,
        ranges=len(rows),
        probability=weight,
        rate_rps=sum(row.rate_rps for row in rows),
        shares=tuple(sorted(means.items(), key=lambda pair: (-pair[1], pair[0]))),
    )


LISTED_GROUPS = 4
"""A row of the routing table names so many groups; the rest are counted."""


def stretch_table(plan: Plan, phase: Phase) -> DataTable:
    """Neighbouring ranges that are served alike in one row."""
    return table_of(_STRETCH, stretches(plan, phase)).block(phase.capitalize())


def _servers(stretch: Stretch) -> str:
    major = [pair for pair in stretch.shares if pair[1] >= MINOR_SHARE][:LISTED_GROUPS]
    servers = [f"{escaped(label)} {percent(share)}" for label, share in major]
    minor = stretch.shares[len(major) :]
    if minor:
        servers.append(f"{len(minor)} more {percent(sum(share for _, share in minor))}")
    return ", ".join(servers) or "**nobody**"


_STRETCH: tuple[Column[Stretch], ...] = (
    Column("Input tokens", lambda stretch: stretch.label, right=True),
    *counts("Ranges=ranges"),
    Column("Of all requests", lambda stretch: stretch.probability, percent),
    Column("Requests/s", lambda stretch: stretch.rate_rps, rate),
    Column("Served by", _servers, str, right=False),
)
