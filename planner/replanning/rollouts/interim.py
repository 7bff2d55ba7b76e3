"""What the servers of two plans serve together on the way from one to the other, behind the old or the new buckets.

A server that runs takes prompts of the bucket that its plan gives it under that plan's table. Under the other table it
takes the bucket that has most of its prompts in common, of those that are no longer than its engine was started for,
with the longest answer that comes; it idles where there is none. Rates count the prompts that both plans take, with
answers no longer than either plan's, in the new workload's proportions and within its levels; nodes that may fail are
not counted on meanwhile.

What serves meanwhile is a plan itself (`InterimPlans`): to be exported, and replayed.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from planner.domain import (
    PHASES,
    BucketPool,
    LengthProfile,
    Phase,
    Plan,
    PlannedIsland,
    Question,
    Scenario,
    SurvivalSettings,
    Workload,
    context_tokens,
    halves_of,
    require_pools,
)
from planner.domain.arrivals import ReplaySettings
from planner.domain.rollouts import RollOut, ServerCounts
from planner.errors import InputError
from planner.evaluation.buckets.curves import CapacityCurve, capacity_curve
from planner.evaluation.buckets.priced import served_together
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.pool_assembly import pool_islands, pool_routes
from planner.evaluation.replay.replaying import PlanReplay
from planner.replanning.changes import context_of
from planner.workload import question_of

_ROUNDING = 1e-9
Span = tuple[int, int]
Counts = Mapping[str, int]
Servers = tuple[tuple[BucketPool, int], ...]
"""Pools of a bucket, and how many servers of each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A router's buckets: the spans of each phase, and the pool that each island's servers are under it."""

    spans: Mapping[Phase, tuple[Span, ...]]
    pools: Mapping[str, BucketPool]


class InterimFleet:
    """Prices any counts of the servers of two plans. `old_load`: on workload and levels of the deployed one, as it
    serves nothing of the new one's. InputError where a plan has no buckets."""

    def __init__(self, before: Plan, after: Plan) -> None:
        self.before, self.after = pools_of(before), pools_of(after)
        self._curves: dict[tuple[str, Span], CapacityCurve] = {}
        self._capacities: dict[Servers, float] = {}
        self._ends = {
            False: {name: pool.end for name, pool in self.after.items()},
            True: {name: _end_of(pool, before, after) for name, pool in self.before.items()},
        }
        self.old_load = False
        self._price(common_question(before, after, after))
        if not self.exact_rps({name: pool.count for name, pool in self.before.items()}, new_table=False):
            self.old_load = True
            self._price(common_question(before, after, before))

    def _price(self, question: Question) -> None:
        """Rates are those of this question from now on."""
        self.question, self._service = question, BucketService(question)
        self.tables = {
            False: _table(self.before, self.after, self._ends[False], question.workload),
            True: _table(self.after, self.before, self._ends[True], question.workload),
        }

    @property
    def same_buckets(self) -> bool:
        """Whether the tables differ in shares alone."""
        return self.tables[False] == self.tables[True]

    def rate_rps(self, counts: Counts, *, new_table: bool) -> float:
        """Requests/s of the mix that so many servers of each island serve; by curves, which lie below it by up to some
        thousandths."""
        return self._slowest_rps(counts, self.tables[new_table], self._drawn_rps)

    def exact_rps(self, counts: Counts, *, new_table: bool) -> float:
        """The same, priced as any plan is: all pools together, as a first token waits for decode, too."""
        capacity_rps = {pool.island: pool.count * pool.capacity_rps for pool in self.pools(counts, new_table=new_table)}
        return self._slowest_rps(
            counts, self.tables[new_table], lambda servers: sum(capacity_rps[pool.island] for pool, _ in servers)
        )

    def _slowest_rps(self, counts: Counts, table: Table, capacity_rps: Callable[[Servers], float]) -> float:
        """Of the bucket and phase that is the first to be full; 0 where servers were lost so that prompts have none."""
        rates = list[float]()
        for phase in PHASES:
            chances = {span: chance_of(self.question.workload, span) for span in table.spans[phase]}
            if math.fsum(chances.values()) < 1 - _ROUNDING:
                return 0.0
            rates += [
                sum(capacity_rps(servers) for servers in _of_bucket(table, phase, span, counts)) / chance
                for span, chance in chances.items()
            ]
        return min(rates, default=0.0)

    def _drawn_rps(self, servers: Servers) -> float:
        """Of the requests of a bucket, off the curves of its pools."""
        if servers not in self._capacities:
            curves, counts = [self._curve(pool) for pool, _ in servers], [count for _, count in servers]
            full = [curve.full_rps for curve in curves]
            capped = served_together(counts, full, lambda number, together: curves[number].at(together))
            self._capacities[servers] = sum(count * rate for count, rate in zip(counts, capped, strict=True))
        return self._capacities[servers]

    def _curve(self, pool: BucketPool) -> CapacityCurve:
        key = (pool.island, (pool.start, pool.end))
        if key not in self._curves:
            self._curves[key] = capacity_curve(self.question, pool)
        return self._curves[key]

    def pools(self, counts: Counts, *, new_table: bool) -> tuple[BucketPool, ...]:
        """The pools that serve, with their shares of their buckets."""
        table = self.tables[new_table]
        pools = [replace(pool, count=counts[name]) for name, pool in table.pools.items() if counts.get(name, 0)]
        return self._service.priced(pools).pools


def _of_bucket(table: Table, phase: Phase, span: Span, counts: Counts) -> Iterator[Servers]:
    """Servers of one phase in a bucket, and those of both: each group has a queue of its own."""
    for kind in (phase, Phase.MIXED):
        yield tuple(
            (pool, counts[name])
            for name, pool in table.pools.items()
            if (pool.phase, pool.start, pool.end) == (kind, *span) and counts.get(name, 0)
        )


def pools_of(plan: Plan) -> dict[str, BucketPool]:
    """The pools of a plan by island. InputError where it has none."""
    require_pools(plan, "to be changed in steps")
    return {pool.island: pool for pool in plan.outlook.pools}


def chance_of(workload: Workload, span: Span) -> float:
    """Of a request to be of the bucket."""
    return math.fsum(r.probability for r in workload.ranges if span[0] <= r.start and r.end <= span[1])


def full_question(plan: Plan) -> Question:
    """A plan's own, but for nodes that may fail, and where servers lie."""
    return question_of(replace(plan.scenario, survive=SurvivalSettings(), cluster=None))


def common_question(before: Plan, after: Plan, loaded: Plan) -> Question:
    """The prompts that both plans take, in the proportions and within the levels of the plan `loaded`, in ranges that
    no bucket of either cuts."""
    end = min(max(pool.end for pool in pools_of(plan).values()) for plan in (before, after))
    pools = (*pools_of(before).values(), *pools_of(after).values())
    width = math.gcd(after.scenario.ranges.width, *(pool.start for pool in pools), *(pool.end for pool in pools))
    posed = with_types_of(after.scenario, before.scenario)
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


def _table(
    pools_of_plan: Mapping[str, BucketPool],
    others: Mapping[str, BucketPool],
    ends: Mapping[str, int],
    workload: Workload,
) -> Table:
    """The buckets of one plan; `others`: servers of the other plan, which take part up to `ends`."""
    spans = {phase: _spans(pools_of_plan.values(), phase, workload) for phase in PHASES}
    guests = {
        name: _guest(pool, ends[name], pools_of_plan, spans)
        for name, pool in others.items()
        if name not in pools_of_plan
    }
    pools = {**pools_of_plan, **{name: pool for name, pool in guests.items() if pool is not None}}
    return Table(
        spans=spans,
        pools={
            name: pool
            for name, pool in sorted(pools.items())
            if any((pool.start, pool.end) in spans[half] for half in halves_of(pool.phase))
        },
    )


def _spans(pools: Iterable[BucketPool], phase: Phase, workload: Workload) -> tuple[Span, ...]:
    spans = {(pool.start, pool.end) for pool in pools if pool.serves(phase)}
    return tuple(sorted(span for span in spans if chance_of(workload, span) > 0))


def _guest(
    pool: BucketPool, longest: int, hosts: Mapping[str, BucketPool], spans: Mapping[Phase, tuple[Span, ...]]
) -> BucketPool | None:
    """A server of the other plan in the bucket that suits it best, of those that end at `longest` or before."""
    suited = [
        span
        for span in spans[halves_of(pool.phase)[0]]
        if span[1] <= longest and all(span in spans[half] for half in halves_of(pool.phase))
    ]
    if not suited:
        return None
    start, end = max(suited, key=lambda span: (min(span[1], pool.end) - max(span[0], pool.start), span))
    host = next(p for p in hosts.values() if (p.start, p.end) == (start, end) and p.serves(halves_of(pool.phase)[0]))
    return replace(pool, start=start, end=end, late_share=host.late_share)


QUICK = ReplaySettings(seeds=(0,), requests=20_000)
"""A look at each step; of a few thousand requests, queues at the end would be taken for a fleet that cannot keep up."""


class InterimPlans:
    """Plans of any counts of the servers of two plans, behind the buckets of the one or the other."""

    def __init__(self, before: Plan, after: Plan) -> None:
        self._before, self._after = before, after
        self._fleet = InterimFleet(before, after)
        self._full = full_question(replace(after, scenario=with_types_of(after.scenario, before.scenario)))

    @property
    def common(self) -> Question:
        """Of the prompts that both plans take."""
        return self._fleet.question

    def plan(self, counts: ServerCounts, *, new_table: bool, common: bool = False) -> Plan:
        """What so many servers of each island are together: of the prompts that its buckets take, or those that both
        plans take (`common`)."""
        question = self.common if common or not new_table else self._full
        priced = BucketService(question).priced(self._fleet.pools(dict(counts), new_table=new_table))
        routes = pool_routes(question, priced.pools, priced.rate_rps)
        return replace(
            self._after,
            scenario=question.scenario,
            throughput_rps=priced.rate_rps,
            prefill_rps=priced.prefill_rps,
            decode_rps=priced.decode_rps,
            islands=tuple(self._islands(question, priced, counts)),
            routing=routes,
            buckets=replace(
                self._after.outlook,
                promise_rps=priced.rate_rps * question.scenario.routing.margin,
                pools=priced.pools,
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

    def _islands(self, question: Question, priced: PricedPools, counts: ServerCounts) -> Iterator[PlannedIsland]:
        """Each as its engines were started, whatever they serve meanwhile; those that idle, too."""
        routes = pool_routes(question, priced.pools, priced.rate_rps)
        pools = {pool.island: pool for pool in priced.pools if pool.share > 0}
        started = {
            island.id: replace(island, context=context_tokens(plan.scenario, island))
            for plan in (self._after, self._before)
            for island in plan.islands
        }
        for island in pool_islands(question.scenario, tuple(pools.values()), routes, {}, {}, {}):
            yield replace(island, context=started[island.id].context)
        for name, count in counts:
            if name not in pools:
                yield _idle(started[name], count)


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
    question = plans.common
    rate_rps = roll_out.floor_rps * question.scenario.routing.margin
    steps = []
    for step in roll_out.steps:
        plan = plans.plan(step.during, new_table=step.new_table, common=True)
        replay = PlanReplay(plan, question.workload, question.scenario.workload, settings)
        steps.append(replace(step, replayed=replay.at(rate_rps).holds))
    return replace(roll_out, steps=tuple(steps), replayed_rps=rate_rps)
