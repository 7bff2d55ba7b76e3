"""What to change of a service, the simplest first, each on top of those before it and by the promise of all plans.

| change | servers | what may differ from what runs |
|---|---|---|
| copies | as they are | how many |
| flags | the same GPUs and degrees | batch, token budget; then how many |
| router | as they are | who chooses: a router that knows how busy they are; then how many |
| servers | any that the engine accepts | shapes, GPU types at hand, phases, buckets: the cheapest near plan |

A change that saves, or adds, less than `GAIN` over a simpler one is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from planner import pipeline
from planner.domain import PHASES, Plan, Scenario
from planner.domain.advice import AdviceKind, AdvisedChange
from planner.domain.rollouts import Replan
from planner.errors import InfeasibleError, InputError, SolverError
from planner.runs.live.advice.commands import copies_steps, flags_steps, router_steps, servers_steps
from planner.runs.live.advice.rebuilding import RebuiltService, Terms, replanned_pools, scenario_of
from planner.runs.live.advice.states import GAIN, Pooled, better_routed, other_flags, resized


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where a change leads: servers with their rent and promise; `replan`: of other servers, how they are come to."""

    kind: AdviceKind
    rent_usd_per_hour: float
    promise_rps: float
    state: Pooled | None = None
    replan: Replan | None = None


def fewer_copies(rebuilt: RebuiltService, terms: Terms) -> Pooled | None:
    """The copies that the service's rate needs; None where the rate is not known, or GPUs do not suffice."""
    rate = rebuilt.measured.rate_rps
    if not rate:
        return None
    return resized(Pooled.of(rebuilt), terms.needed_rps(rate), terms.free, terms.least_servers)


def changes_of(rebuilt: RebuiltService, terms: Terms) -> tuple[AdvisedChange, ...]:
    """Each that pays, in order."""
    state = Pooled.of(rebuilt)
    today = Stage(
        kind=AdviceKind.COPIES,
        rent_usd_per_hour=state.rent_usd_per_hour,
        promise_rps=state.promise_rps,
        state=state,
    )
    needed_rps = terms.needed_rps(rebuilt.measured.rate_rps)
    stages = list(_stages(rebuilt, terms, needed_rps))
    if not needed_rps:
        chosen = _gaining(today, stages)
    elif today.promise_rps < needed_rps:
        chosen = _restoring(stages, needed_rps, today.rent_usd_per_hour)
    else:
        chosen = _saving(today, stages)
    if len(chosen) > 1 and chosen[-1].replan is not None:  # from the servers that the change before it leaves
        before = chosen[-2]
        servers = _other_servers(rebuilt, _plan_of(before), terms, needed_rps)
        chosen = [*chosen[:-1], *_saving(before, [servers] if servers else [])]
    return tuple(_advised(rebuilt, today, chosen, needed_rps))


def _stages(rebuilt: RebuiltService, terms: Terms, needed_rps: float) -> Iterator[Stage]:
    """Every change there is, the simplest first."""
    state = Pooled.of(rebuilt)
    flagged = other_flags(state)
    of_flags = flagged if flagged is not state else None
    routed = better_routed(flagged)
    for kind, servers in ((AdviceKind.COPIES, state), (AdviceKind.FLAGS, of_flags), (AdviceKind.ROUTER, routed)):
        if servers is None:
            continue
        fitting = resized(servers, needed_rps, terms.free, terms.least_servers) if needed_rps else servers
        if fitting is not None:
            yield Stage(
                kind=kind,
                rent_usd_per_hour=fitting.rent_usd_per_hour,
                promise_rps=fitting.promise_rps,
                state=fitting,
            )
    if needed_rps and (replanned := _other_servers(rebuilt, rebuilt.plan, terms, needed_rps)) is not None:
        yield replanned


def _other_servers(rebuilt: RebuiltService, running: Plan, terms: Terms, needed_rps: float) -> Stage | None:
    """The cheapest near a plan that runs; None where nothing near it serves so much, or it has servers that no other
    plan takes over."""
    try:
        replan = pipeline.replan(running, _target(rebuilt, needed_rps), frontier=False)
    except (InfeasibleError, InputError, SolverError):
        return None
    if not _spares(replan.plan, Pooled.of(rebuilt), terms.least_servers):
        return None
    return Stage(
        kind=AdviceKind.SERVERS,
        rent_usd_per_hour=replan.plan.price_usd_per_hour,
        promise_rps=replan.plan.outlook.promise_rps,
        replan=replan,
    )


def _spares(plan: Plan, before: Pooled, least_servers: int) -> bool:
    """Whether as many servers of each half of a request are left as are to be: any may fail at any time."""
    for half in PHASES:
        fewest = min(least_servers, sum(pool.count for pool in before.pools if pool.serves(half)))
        if sum(pool.count for pool in plan.outlook.pools if pool.serves(half)) < fewest:
            return False
    return True


def _target(rebuilt: RebuiltService, needed_rps: float) -> Scenario:
    """The cheapest fleet that promises so much, of the GPUs at hand."""
    document = dict(rebuilt.document)
    margin = rebuilt.plan.scenario.routing.margin
    rate = rebuilt.measured.rate_rps
    objective = {"kind": "target", "target_rps": round(needed_rps / margin, 6), "demand_rps": rate}
    document |= {"objective": objective, "serving": "auto", "routing": {"most": 2}}
    return scenario_of(document, rebuilt.measured)


def _saving(today: Stage, stages: Sequence[Stage]) -> list[Stage]:
    """Those that save over the ones before them; then one that promises more for no more rent."""
    chosen, rent = list[Stage](), today.rent_usd_per_hour
    for stage in stages:
        if rent - stage.rent_usd_per_hour > GAIN * today.rent_usd_per_hour:
            chosen.append(stage)
            rent = stage.rent_usd_per_hour
    return chosen


def _restoring(stages: Sequence[Stage], needed_rps: float, rent_usd_per_hour: float) -> list[Stage]:
    """The simplest of the cheapest that promise what is needed, then what saves over it."""
    enough = [stage for stage in stages if stage.promise_rps >= needed_rps * (1 - GAIN / 100)]
    if not enough:
        return []
    lowest = min(stage.rent_usd_per_hour for stage in enough)
    first = next(s for s in enough if s.rent_usd_per_hour <= lowest + GAIN * max(lowest, rent_usd_per_hour))
    return [first, *_saving(first, stages[stages.index(first) + 1 :])]


def _gaining(today: Stage, stages: Sequence[Stage]) -> list[Stage]:
    """Those that promise more of the same GPUs, where no rate is known."""
    chosen, promise = list[Stage](), today.promise_rps
    for stage in stages:
        if stage.promise_rps > promise * (1 + GAIN) and stage.rent_usd_per_hour <= today.rent_usd_per_hour:
            chosen.append(stage)
            promise = stage.promise_rps
    return chosen


def _advised(
    rebuilt: RebuiltService, today: Stage, chosen: Sequence[Stage], needed_rps: float
) -> Iterator[AdvisedChange]:
    before = today
    for stage in chosen:
        plan = _plan_of(stage)
        summary, steps, touched = _words(rebuilt, before, stage)
        yield AdvisedChange(
            service=rebuilt.service.name,
            kind=stage.kind,
            summary=summary,
            saved_usd_per_hour=before.rent_usd_per_hour - stage.rent_usd_per_hour,
            rent_usd_per_hour=stage.rent_usd_per_hour,
            promise_before_rps=before.promise_rps,
            promise_rps=stage.promise_rps,
            servers_touched=touched,
            restores=before.promise_rps < needed_rps <= stage.promise_rps * (1 + GAIN),
            steps=steps,
            plan=plan,
        )
        before = stage


def _plan_of(stage: Stage) -> Plan:
    if stage.replan is not None:
        return stage.replan.plan
    assert stage.state is not None
    return replanned_pools(stage.state.scenario, stage.state.pools)


def _words(rebuilt: RebuiltService, before: Stage, stage: Stage) -> tuple[str, tuple[str, ...], int]:
    """The change in a line, its steps, and the servers that it touches."""
    if stage.replan is not None:
        return servers_steps(rebuilt, stage.replan)
    assert before.state is not None
    assert stage.state is not None
    resize = copies_steps(rebuilt, before.state, stage.state)
    if stage.kind is AdviceKind.FLAGS:
        return flags_steps(rebuilt, stage.state, resize)
    return router_steps(rebuilt, stage.state, resize) if stage.kind is AdviceKind.ROUTER else resize


def cumulative(changes: Sequence[Sequence[AdvisedChange]], count: int) -> list[AdvisedChange]:
    """The first so many of all services: those that restore a promise, then what saves most for each server that it
    touches; of one service in its own order."""
    pending = [list(of_service) for of_service in changes if of_service]
    chosen: list[AdvisedChange] = []
    while pending and len(chosen) < count:
        first = max(pending, key=lambda rows: (rows[0].restores, rows[0].saved_per_server, rows[0].promise_rps))
        chosen.append(first.pop(0))
        pending = [rows for rows in pending if rows]
    return [replace(change, folder=f"changes/{number}") for number, change in enumerate(chosen, start=1)]
