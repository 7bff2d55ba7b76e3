"""A plan's routing as routers with intervals see it: who takes which contiguous lengths, in each phase.

symbol    meaning                                                                     unit
bucket    lengths start <= tokens < end that a phase sends to the same islands        tokens
interval  lengths of which both phases have one bucket: a request of such a length    tokens
          has one pair of pools, whatever router pairs them
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from planner.domain import PHASES, DeployedRoute, Phase, Plan, Route
from planner.errors import ExportError
from planner.export.routers.coverage import covering_routes


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedBucket:
    """Prompts of `start` <= tokens < `end` go to `islands` in `phase`: (id, share) pairs, sorted, shares above 0."""

    phase: Phase
    start: int
    end: int
    islands: tuple[tuple[str, float], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Ids of its islands."""
        return tuple(name for name, _ in self.islands)

    @property
    def last(self) -> int:
        """The longest prompt (tokens), for routers whose ends are inclusive."""
        return self.end - 1


def routed_buckets(routes: Iterable[Route | DeployedRoute]) -> tuple[RoutedBucket, ...]:
    """The routes' buckets, by phase and length: neighbouring ranges with the same islands and shares are one."""
    by_range: dict[tuple[Phase, int, int], dict[str, float]] = defaultdict(dict)
    for route in routes:
        if route.share > 0:
            shares = by_range[route.phase, route.range_start, route.range_end]
            shares[route.island] = shares.get(route.island, 0.0) + route.share
    buckets: list[RoutedBucket] = []
    for (phase, start, end), shares in sorted(by_range.items(), key=lambda item: (PHASES.index(item[0][0]), item[0])):
        islands = tuple(sorted(shares.items()))
        last = buckets[-1] if buckets else None
        if last and last.phase is phase and last.end == start and last.islands == islands:
            buckets[-1] = RoutedBucket(phase=phase, start=last.start, end=end, islands=islands)
        else:
            buckets.append(RoutedBucket(phase=phase, start=start, end=end, islands=islands))
    return tuple(buckets)


def contiguous(buckets: Sequence[RoutedBucket], phase: Phase) -> dict[str, tuple[int, int]]:
    """Island -> the lengths (start, end) that it serves in `phase`, of those whose lengths have no gap."""
    spans: dict[str, list[RoutedBucket]] = defaultdict(list)
    for bucket in buckets:
        if bucket.phase is phase:
            for name in bucket.names:
                spans[name].append(bucket)
    return {
        name: (parts[0].start, parts[-1].end)
        for name, parts in spans.items()
        if sum(part.end - part.start for part in parts) == parts[-1].end - parts[0].start
    }


def island_intervals(plan: Plan) -> dict[str, tuple[int, int]]:
    """Island -> the lengths (start, end) that it serves, of those that serve one interval in each of their phases."""
    buckets = routed_buckets(covering_routes(plan))
    by_phase = [contiguous(buckets, phase) for phase in PHASES]
    torn = {name for bucket in buckets for name in bucket.names if name not in by_phase[PHASES.index(bucket.phase)]}
    return {name: span for spans in by_phase for name, span in spans.items() if name not in torn}


def require_intervals(plan: Plan, intervals: Mapping[str, tuple[int, int]], router: str) -> None:
    """For routers that know no more of an island than one interval of lengths.

    Raises:
        ExportError: an island serves several.
    """
    torn = sorted({route.island for route in plan.routing if route.share > 0} - intervals.keys())
    if torn:
        raise ExportError(
            f"Router {router}, plan {plan.scenario.name}: an island must serve one interval of prompt lengths, got "
            f"several for {torn[0]}.",
            hint="Plan with routing: {form: buckets}, or take --router none and route by the table.",
        )
