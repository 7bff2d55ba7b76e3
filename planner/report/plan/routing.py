"""The routing table seen from afar: groups instead of islands, stretches instead of ranges."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.domain import Phase, Plan, Route
from planner.report.plan.groups import READABLE_GROUPS, IslandGroup, groups, merged, of_phase

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
    rows = _rows(plan, phase)
    cuts: list[list[_Row]] = []
    for row in rows:
        if cuts and _alike([*cuts[-1], row]):
            cuts[-1].append(row)
        else:
            cuts.append([row])
    return tuple(_stretch(cut) for cut in cuts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    interval: Interval
    rate_rps: float
    shares: dict[str, float]

    def served_by(self) -> set[str]:
        return {label for label, share in self.shares.items() if share >= MINOR_SHARE}


def _rows(plan: Plan, phase: Phase) -> list[_Row]:
    listed = merged(of_phase(groups(plan), phase), READABLE_GROUPS)
    by_share, by_rate = shares(plan, phase, listed), rates(plan, phase, listed)
    return [
        _Row(
            interval=interval,
            rate_rps=sum(row[at] for row in by_rate),
            shares={g.label: row[at] for g, row in zip(listed, by_share, strict=True) if row[at] > 0},
        )
        for at, interval in enumerate(intervals(plan))
    ]


def _alike(rows: Sequence[_Row]) -> bool:
    names = rows[0].served_by()
    if any(row.served_by() != names for row in rows):
        return False
    spread = [[row.shares[name] for row in rows] for name in names]
    return all(max(values) - min(values) <= SIMILAR_SHARE for values in spread)


def _stretch(rows: Sequence[_Row]) -> Stretch:
    names = {name for row in rows for name in row.shares}
    weight = sum(row.interval.probability for row in rows)
    means = {
        name: sum(row.interval.probability * row.shares.get(name, 0.0) for row in rows) / (weight or 1.0)
        for name in names
    }
    return Stretch(
        start=rows[0].interval.start,
        end=rows[-1].interval.end,
        ranges=len(rows),
        probability=weight,
        rate_rps=sum(row.rate_rps for row in rows),
        shares=tuple(sorted(means.items(), key=lambda pair: (-pair[1], pair[0]))),
    )
