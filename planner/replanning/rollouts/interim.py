"""What the servers of two plans serve together on the way from one to the other, behind the old or the new buckets, in
one lane or in two (`lanes`).

Rates count the prompts that both plans take, with answers no longer than either plan's, in the new workload's
proportions and within its levels; nodes that may fail are not counted on meanwhile.

What serves meanwhile is a plan itself (`InterimPlans`): to be exported, and replayed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from planner.domain import (
    BucketPool,
    LengthProfile,
    Plan,
    PlannedIsland,
    Question,
    Route,
    Scenario,
    SurvivalSettings,
    context_tokens,
    require_pools,
)
from planner.domain.arrivals import ReplaySettings
from planner.domain.rollouts import RollOut, ServerCounts
from planner.errors import InputError
from planner.evaluation.buckets.service import PricedPools
from planner.evaluation.pool_assembly import pool_islands, pool_routes
from planner.evaluation.replay.replaying import PlanReplay
from planner.replanning.changes import context_of
from planner.replanning.rollouts.lanes import Counts, Lane, Table, apart, chance_of, lane_name, table_of
from planner.workload import question_of


class InterimFleet:
    """Prices any counts of the servers of two plans. `old_load`: on workload and levels of the deployed one, as it
    serves nothing of the new one's. InputError where a plan has no buckets."""

    def __init__(self, before: Plan, after: Plan) -> None:
        self.before, self.after = pools_of(before), pools_of(after)
        self.apart = apart(before.scenario, after.scenario)
        self._plans = (before, after)
        self.lanes = self._lanes(after)
        self.old_load = not self.exact_rps({name: pool.count for name, pool in self.before.items()}, new_table=False)
        if self.old_load:
            self.lanes = self._lanes(before)

    def _lanes(self, loaded: Plan) -> tuple[Lane, ...]:
        """On workload and levels of the plan `loaded`: one lane, or the deployed plan's and the new one's."""
        before, after = self._plans
        if self.apart:
            return tuple(_lane_alone(before, after, loaded, plan) for plan in self._plans)
        question = common_question(before, after, loaded, after)
        ends = {name: pool.end for name, pool in self.after.items()}
        old_ends = {name: _end_of(pool, before, after) for name, pool in self.before.items()}
        old = table_of(self.before, self.after, ends, question.workload)
        return (Lane(question, old, table_of(self.after, self.before, old_ends, question.workload)),)

    @property
    def question(self) -> Question:
        """Of the prompts that both plans take, as the new plan's engines serve them."""
        return self.lanes[-1].question

    @property
    def same_buckets(self) -> bool:
        """Whether the tables differ in shares alone."""
        return all(lane.same_buckets for lane in self.lanes)

    def rate_rps(self, counts: Counts, *, new_table: bool) -> float:
        """Requests/s of the mix that so many servers of each island serve; by curves, which lie below it by up to some
        thousandths."""
        return sum(lane.rate_rps(counts, new_table=new_table) for lane in self.lanes)

    def exact_rps(self, counts: Counts, *, new_table: bool) -> float:
        """The same, priced as any plan is: all pools together, as a first token waits for decode, too."""
        return sum(lane.exact_rps(counts, new_table=new_table) for lane in self.lanes)


def _lane_alone(before: Plan, after: Plan, loaded: Plan, served: Plan) -> Lane:
    """The servers of one of two plans, which none of the other's joins."""
    question = common_question(before, after, loaded, served)
    table: Table = table_of(pools_of(served), {}, {}, question.workload)
    return Lane(question, table, table)


def pools_of(plan: Plan) -> dict[str, BucketPool]:
    """The pools of a plan by island. InputError where it has none."""
    require_pools(plan, "to be changed in steps")
    return {pool.island: pool for pool in plan.outlook.pools}


def full_question(plan: Plan) -> Question:
    """A plan's own, but for nodes that may fail, and where servers lie."""
    return question_of(replace(plan.scenario, survive=SurvivalSettings(), cluster=None))


def common_question(before: Plan, after: Plan, loaded: Plan, served: Plan) -> Question:
    """The prompts that both plans take, in the proportions and within the levels of the plan `loaded`, as the engines
    of the plan `served` serve them, in ranges that no bucket of either cuts."""
    end = min(max(pool.end for pool in pools_of(plan).values()) for plan in (before, after))
    pools = (*pools_of(before).values(), *pools_of(after).values())
    width = math.gcd(served.scenario.ranges.width, *(pool.start for pool in pools), *(pool.end for pool in pools))
    posed = with_types_of(served.scenario, (before if served is after else after).scenario)
    scenario = replace(posed, slo=loaded.scenario.slo, survive=SurvivalSettings(), cluster=None)
    ranges = replace(scenario.ranges, width=width)
    answers = min(plan.scenario.workload.max_output_tokens for plan in (before, after))
    workload = _answered(_below(loaded.scenario.workload, end), answers)
    return question_of(replace(scenario, workload=workload, ranges=ranges))


def with_types_of(scenario: Scenario, other: Scenario) -> Scenario:
    """The scenario with the GPU types of another, 0 GPUs of those that it has not: servers that stop may be of them."""
    present = {item.gpu.name for item in scenario.inventory.items}
    gone = tuple(replace(item, count=0) for item in other.inventory.items if item.gpu.name not in present)
    inventory = scenario.inventory
    return replace(scenario, inventory=replace(inventory, items=(*inventory.items, *gone))) if gone else scenario


def _answered(profile: LengthProfile, longest: int) -> LengthProfile:
    """With no answers longer than `most` tokens, as engines end them that were started for these."""
    return replace(
        profile,
        output_tokens=tuple(min(tokens, longest) for tokens in profile.output_tokens),
        mean_output_tokens=min(profile.mean_output_tokens, longest),
        max_output_tokens=min(profile.max_output_tokens, longest),
    )


def _below(profile: LengthProfile, end: int) -> LengthProfile:
    rows = [row for row, tokens in enumerate(profile.input_tokens) if tokens < end]
    if len(rows) == len(profile.input_tokens):
        return profile
    mass = math.fsum(profile.probabilities[row] for row in rows)
    if not mass > 0:
        raise InputError(
            f"workload {profile.name}: must have prompts below {end} tokens, the longest that the deployed plan takes.",
            hint="Plan it from scratch: nothing of what is deployed serves it.",
        )
    return replace(
        profile,
        input_tokens=tuple(profile.input_tokens[row] for row in rows),
        probabilities=tuple(profile.probabilities[row] / mass for row in rows),
        output_tokens=tuple(profile.output_tokens[row] for row in rows) if profile.output_tokens else (),
    )


def _end_of(pool: BucketPool, before: Plan, after: Plan) -> int:
    """Tokens that prompts of a deployed pool's engines must be below, with the new workload's longest answer."""
    context = context_of(before.scenario, pool)
    # An engine with all of the model's context takes whatever its bucket has.
    if context >= after.scenario.model.max_context:
        return pool.end
    return min(pool.end, context - after.scenario.workload.max_output_tokens + 1)


QUICK = ReplaySettings(seeds=(0,), requests=20_000)
"""A look at each step; of a few thousand requests, queues at the end would be taken for a fleet that cannot keep up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneServing:
    """What serves in a lane: its question, its pools with their prices, and its `share` of all requests. `name`: of a
    lane of engines that the new plan has no more."""

    question: Question
    priced: PricedPools
    share: float
    name: str = ""


class InterimPlans:
    """Plans of any counts of the servers of two plans, behind the buckets of the one or the other."""

    def __init__(self, before: Plan, after: Plan) -> None:
        self._before, self._after = before, after
        self._fleet = InterimFleet(before, after)
        self._full = full_question(replace(after, scenario=with_types_of(after.scenario, before.scenario)))

    @property
    def margin(self) -> float:
        """Share of a capacity that is promised."""
        return self._fleet.question.scenario.routing.margin

    def serving(self, counts: ServerCounts, *, new_table: bool, common: bool = False) -> tuple[LaneServing, ...]:
        """What so many servers of each island are in each lane that serves: of the prompts that its buckets take, or
        those that both plans take (`common`)."""
        fleet, full = self._fleet, not common and (new_table or self._fleet.apart)
        questions = [*(lane.question for lane in fleet.lanes[:-1]), self._full if full else fleet.question]
        names = [lane_name(self._before.scenario, self._after.scenario)] * (len(fleet.lanes) - 1) + [""]
        rows = [
            LaneServing(
                question=question,
                priced=lane.priced(question, dict(counts), new_table=new_table),
                share=lane.exact_rps(dict(counts), new_table=new_table),
                name=name,
            )
            for lane, question, name in zip(fleet.lanes, questions, names, strict=True)
        ]
        rows = [row for row in rows if row.share] or rows[-1:]
        total = sum(row.share for row in rows)
        return tuple(replace(row, share=row.share / total if total else 1.0) for row in rows)

    def plan(self, counts: ServerCounts, *, new_table: bool) -> Plan:
        """What so many servers of each island are together."""
        rows = self.serving(counts, new_table=new_table)
        # whoever writes manifests has the new plan's engine, whatever serves
        scenario = self._full.scenario if self._fleet.apart else rows[-1].question.scenario
        return self._merged(rows, counts, scenario)

    def lane_plan(self, row: LaneServing) -> Plan:
        """A lane as a plan by itself, to be replayed."""
        counts = tuple((pool.island, pool.count) for pool in row.priced.pools)
        return self._merged((replace(row, share=1.0, name=""),), counts, row.question.scenario)

    def _merged(self, rows: Sequence[LaneServing], counts: ServerCounts, scenario: Scenario) -> Plan:
        """Lanes together: each has its share of every bucket."""
        pools = tuple(replace(pool, share=pool.share * row.share) for row in rows for pool in row.priced.pools)
        rate_rps = sum(row.priced.rate_rps for row in rows)
        return replace(
            self._after,
            scenario=scenario,
            throughput_rps=rate_rps,
            prefill_rps=sum(row.priced.prefill_rps for row in rows),
            decode_rps=sum(row.priced.decode_rps for row in rows),
            islands=tuple(self._islands(rows, counts)),
            routing=tuple(_routes(rows)),
            buckets=replace(
                self._after.outlook,
                promise_rps=rate_rps * scenario.routing.margin,
                pools=pools,
                # the slowest of both: pods are given as long as requests of either plan may take
                latencies=(*self._before.outlook.latencies, *self._after.outlook.latencies),
                losses=(),
                burst_rps=None,
                unrestricted_rps=None,
                survival_cost_rps=None,
                replayed=None,
            ),
            certificate=None,
            service=None,
            exact_rps=None,
            sensitivity=None,
            placement=None,
            rate_band=None,
        )

    def _islands(self, rows: Sequence[LaneServing], counts: ServerCounts) -> Iterator[PlannedIsland]:
        """Each as its engines were started, whatever they serve meanwhile; those that idle, too."""
        serving = set[str]()
        started = {
            island.id: replace(island, context=context_tokens(plan.scenario, island))
            for plan in (self._after, self._before)
            for island in plan.islands
        }
        for row in rows:
            routes = pool_routes(row.question, row.priced.pools, row.priced.rate_rps)
            pools = [pool for pool in row.priced.pools if pool.share > 0]
            for island in pool_islands(row.question.scenario, pools, routes, {}, {}, {}):
                serving.add(island.id)
                yield replace(island, context=started[island.id].context, lane=row.name)
        for name, count in counts:
            if name not in serving:
                yield replace(_idle(started[name], count), lane=self._lane_of(name))

    def _lane_of(self, island: str) -> str:
        """Of a server that idles."""
        of_old = self._fleet.apart and island in self._fleet.before
        return lane_name(self._before.scenario, self._after.scenario) if of_old else ""


def _routes(rows: Sequence[LaneServing]) -> Iterator[Route]:
    """Routes of all lanes. Where they have different buckets, a router's rows are cut at the ends of all of them."""
    cuts = sorted({end for row in rows for pool in row.priced.pools for end in (pool.start, pool.end)})
    for row in rows:
        for route in pool_routes(row.question, row.priced.pools, row.priced.rate_rps):
            inner = [end for end in cuts if route.range_start < end < route.range_end]
            yield from (replace(part, share=part.share * row.share) for part in _cut(route, inner, row.question))


def _cut(route: Route, ends: Sequence[int], question: Question) -> Iterator[Route]:
    """A route in parts."""
    if not ends:
        yield route
        return
    for start, end in pairwise((route.range_start, *ends, route.range_end)):
        chance = chance_of(question.workload, (start, end))
        rate_rps = route.rate_rps * chance / route.probability if route.probability else 0.0
        yield replace(route, range_start=start, range_end=end, probability=chance, rate_rps=rate_rps)


def _idle(island: PlannedIsland, count: int) -> PlannedIsland:
    """So many of its servers, without a bucket."""
    assert island.parallel is not None, "an island that was started runs the model"
    size = count * island.size // island.parallel.replicas
    return replace(
        island,
        size=size,
        parallel=replace(island.parallel, replicas=count),
        rate_rps=0.0,
        utilisation=0.0,
        price_usd_per_hour=island.price_usd_per_hour * size / island.size,
        reach=None,
    )


def replayed(roll_out: RollOut, plans: InterimPlans, settings: ReplaySettings = QUICK) -> RollOut:
    """The steps with what replays say of what serves meanwhile, at the share of the promise that is never undercut.

    Requests are drawn from the lengths that rates were counted on. Drains are not replayed: a server that drains takes
    no requests from the step's begin on.
    """
    if not roll_out.steps or not roll_out.floor_rps:
        return roll_out
    rate_rps = roll_out.floor_rps * plans.margin
    steps = []
    for step in roll_out.steps:
        lanes = plans.serving(step.during, new_table=step.new_table, common=True)
        verdicts = [_holds(plans.lane_plan(lane), lane, rate_rps, settings) for lane in lanes]
        # one lane that breaks is enough; one that is too short to tell leaves it open
        steps.append(replace(step, replayed=min(verdicts, key=(False, None, True).index)))
    return replace(roll_out, steps=tuple(steps), replayed_rps=rate_rps)


def _holds(plan: Plan, lane: LaneServing, rate_rps: float, settings: ReplaySettings) -> bool | None:
    """Whether a lane holds the levels of its share of the requests: drawn by chance, they come as independently."""
    replay = PlanReplay(plan, lane.question.workload, lane.question.scenario.workload, settings)
    return replay.at(rate_rps * lane.share).holds
