"""The plan of what serves while a change is under way: to be exported, and replayed."""

from collections.abc import Iterator
from dataclasses import replace

from planner.domain import Plan, PlannedIsland, Question, context_tokens
from planner.domain.arrivals import ReplaySettings
from planner.domain.rollouts import RollOut, ServerCounts
from planner.evaluation.buckets.service import BucketService, PricedPools
from planner.evaluation.pool_assembly import pool_islands, pool_routes
from planner.evaluation.replay.replaying import PlanReplay
from planner.replanning.rollouts.interim import InterimFleet, full_question

QUICK = ReplaySettings(seeds=(0,), requests=20_000)
"""A look at each step; of a few thousand requests, queues at the end would be taken for a fleet that cannot keep up."""


class InterimPlans:
    """Plans of any counts of the servers of two plans, behind the buckets of the one or the other."""

    def __init__(self, before: Plan, after: Plan) -> None:
        self._before, self._after = before, after
        self._fleet = InterimFleet(before, after)
        self._full = full_question(after)

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
