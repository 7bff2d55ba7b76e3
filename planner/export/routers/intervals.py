"""A plan's routing as routers with intervals see it: who takes which contiguous lengths, in each phase.

symbol    meaning                                                                     unit
bucket    lengths start <= tokens < end that a phase sends to the same islands        tokens
interval  lengths of which both phases have one bucket: a request of such a length    tokens
          has one pair of pools, whatever router pairs them

The plan's routing table without holes: a plan has ranges where its trace has prompts, a router meets others too.

symbol   meaning                                                            unit    source
gap      lengths between two ranges, or below the first                     tokens
context  prompt and answer that an engine takes, of the islands that serve  tokens  `domain.context_tokens`
         the longest range in either phase, the least

A gap goes with the range above it: who serves longer prompts has the context for these. What is longer than the longest
range goes with it, up to the context.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from planner.domain import PHASES, DeployedRoute, Phase, Plan, Route, context_tokens
from planner.errors import ExportError


def covering_routes(plan: Plan) -> tuple[Route, ...]:
    """The plan's routes, in its order, their ranges widened to cover 0 <= tokens < context in each phase."""
    wider = {phase: dict(_covers(plan, _routed_together(plan, phase))) for phase in PHASES}
    return tuple(
        replace(route, range_start=start, range_end=end)
        for route in plan.routing
        for start, end in (wider[route.phase][route.range_start, route.range_end],)
    )


def _routed_together(plan: Plan, phase: Phase) -> Sequence[Route]:
    """Routes that share their ranges: of both phases, or of one where the other cuts the lengths otherwise."""
    spans = sorted({(route.range_start, route.range_end) for route in plan.routing})
    if all(end <= start for (_, end), (start, _) in pairwise(spans)):
        return plan.routing
    return [route for route in plan.routing if route.phase is phase]


def _covers(plan: Plan, routes: Sequence[Route]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Each range, and what it covers: one that a phase leaves out, or that overlaps, is left for the checks to
    report."""
    spans = sorted({(r.range_start, r.range_end) for r in routes})
    for (_, below), (start, end) in pairwise([(0, 0), *spans]):
        last = (start, end) == spans[-1]
        yield (start, end), (min(start, below), max(end, _context(plan)) if last else end)


def _context(plan: Plan) -> int:
    """Tokens that the islands of the longest range take, in both phases."""
    islands = {island.id: island for island in plan.islands}
    longest = {phase: max((r.range_start for r in plan.routing if r.phase is phase), default=0) for phase in PHASES}
    serving = {r.island for r in plan.routing if r.range_start == longest[r.phase] and r.share > 0}
    return min((context_tokens(plan.scenario, islands[name]) for name in sorted(serving)), default=0)


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
