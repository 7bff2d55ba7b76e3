"""The plan's routing table without holes: a plan has ranges where its trace has prompts, a router meets others too.

symbol   meaning                                                            unit    source
gap      lengths between two ranges, or below the first                     tokens
context  prompt and answer that an engine takes, of the islands that serve  tokens  `domain.context_tokens`
         the longest range in either phase, the least

A gap goes with the range above it: who serves longer prompts has the context for these. What is longer than the longest
range goes with it, up to the context.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from planner.domain import PHASES, Phase, Plan, Route, context_tokens


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
