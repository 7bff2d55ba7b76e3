"""What routers give up of a plan: its promise replayed as its own policy routes, and as each router does.

What a router is taken for (its policy, and how it tells a prompt's length) is its module's claim; the replay prices
that claim, and no network, no retries, no time of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from planner import export, pipeline
from planner.domain import LengthMeasure, Phase, Plan, RouterBehaviour, RouterGrid
from planner.domain.arrivals import ReplaySettings
from planner.domain.replay import ReplayResult
from planner.errors import ExportError, InfeasibleError, InputError
from planner.plans.router_grid import CELLS, grid_of, on_grid
from planner.runs.replays.replay_settings import replay_settings, router_behaviour
from planner.runs.replays.replays import rate_of


def routed_plan(plan: Plan, *, target: str, cells: int = CELLS) -> tuple[Plan, RouterGrid | None]:
    """The plan as `target` can route it, and the grid that it was brought onto (None: none).

    Finished manifests of such a target are held against this plan.
    """
    chosen = export.TARGETS.get(target)
    if chosen is None or not chosen.by_grid or any(island.phase is Phase.MIXED for island in plan.islands):
        return plan, None  # where islands do both phases, no router's grid chooses between them
    grid = grid_of(plan, cells)
    return on_grid(plan, grid), grid


_REQUESTS = 10_000
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterLoss:
    """What one router makes of a plan.

    `chooses`: its behaviour in words; `refusal`: why it cannot execute the plan's routing; then nothing is replayed.
    `routed`: the promise under its behaviour. `held_rps`: the highest rate that holds the levels; `planned_rps`: what a
    plan for this router would promise; where they were looked for.
    """

    router: str
    targets: tuple[str, ...]
    behaviour: RouterBehaviour
    chooses: str = ""
    refusal: str = ""
    routed: ReplayResult | None = None
    held_rps: float | None = None
    planned_rps: float | None = None


def router_losses(
    plan: Plan,
    *,
    engine: str = "",
    sweep: bool = False,
    replan: bool = False,
    progress: Progress = lambda _: None,
) -> tuple[RouterLoss, ...]:
    """The plan's own router or policy first, then every router that knows the plan's engine. `sweep`: with the rates
    they hold; `replan`: with what plans for them would promise.

    Raises InputError where the plan cannot be replayed.
    """
    chosen_engine = export.priced_engine(plan, engine).name
    promised = plan.scenario.router
    replays = _Replays(plan, sweep=sweep)
    whose = RouterLoss(router="the plan's", targets=(), behaviour=promised, planned_rps=plan.outlook.promise_rps)
    losses = [_replayed(whose, replays)]
    for router in export.ROUTERS.values():
        progress(router.name)
        if chosen_engine in router.engines:
            target, refusal = _usable_target(plan, chosen_engine, router.name, router.targets)
            loss = RouterLoss(router=router.name, targets=router.targets, behaviour=promised, refusal=refusal)
            if not refusal:
                behaviour = export.router_behaviour(plan, router.name, target=target, engine=chosen_engine)
                promise_rps = _promise_rps(plan, router.name, target) if replan else None
                loss = _replayed(replace(loss, behaviour=behaviour, planned_rps=promise_rps), replays)
            losses.append(loss)
    return tuple(losses)


def _promise_rps(plan: Plan, router: str, target: str) -> float | None:
    """What a plan of the same scenario promises that is made for the router; None where none serves."""
    deploy = replace(plan.scenario.deploy, router=router, target=target)
    if not export.ROUTERS[router].counts_bytes:
        deploy = replace(deploy, router_counts=export.ExportOptions().router_counts)
    scenario = replace(plan.scenario, deploy=deploy, routing=replace(plan.scenario.routing, policy=None))
    try:
        return pipeline.plan(scenario).outlook.promise_rps
    except InfeasibleError:
        return None


def router_loss(plan: Plan, router: str) -> str:
    """One sentence on what `router` does to the plan's promise; empty where it does what the plan counts on, or the
    plan tells no times that count on a policy."""
    behaviour = router_behaviour(plan, router)
    if not plan.outlook.latencies or _as_planned(plan, behaviour):
        return ""
    replays = _Replays(plan, sweep=False)
    routed, planned = (replays.at(b)[0] for b in (behaviour, plan.scenario.router))
    return (
        f"router {router} chooses {replays.chooses(behaviour)} where the plan counts on {planned.router}: at "
        f"{planned.rate_rps:.1f} requests/s {_times(routed)} instead of {_times(planned)}, by a replay of {_REQUESTS} "
        f"requests{_misrouted(routed)}"
    )


class _Replays:
    """Replays of one plan; routers that behave alike share theirs."""

    def __init__(self, plan: Plan, *, sweep: bool) -> None:
        self._plan = plan
        self._sweep = sweep
        self.at = cache(self._at)

    def _at(self, behaviour: RouterBehaviour) -> tuple[ReplayResult, float | None]:
        """(the promise, the highest rate that holds the levels)."""
        plan, settings = self._plan, self._settings(behaviour)
        result = pipeline.replay(plan, plan.scenario.workload, settings, rate_of(plan, None))
        rates = pipeline.sweep_rates(plan, plan.scenario.workload, settings) if self._sweep else None
        return result, rates.held_rps if rates else None

    def chooses(self, behaviour: RouterBehaviour) -> str:
        """Whom a router chooses of the plan's servers, in words."""
        return behaviour.words([island.phase for island in self._plan.islands])

    def _settings(self, behaviour: RouterBehaviour) -> ReplaySettings:
        return replay_settings(self._plan, router=behaviour, requests=_REQUESTS, seeds=1)


def _replayed(loss: RouterLoss, replays: _Replays) -> RouterLoss:
    routed, held_rps = replays.at(loss.behaviour)
    return replace(loss, chooses=replays.chooses(loss.behaviour), routed=routed, held_rps=held_rps)


def _usable_target(plan: Plan, engine: str, router: str, targets: tuple[str, ...]) -> tuple[str, str]:
    """The first target whose export can have the router, and why none can; one of them is empty."""
    reasons = []
    for target in targets:
        try:
            routed, grid = routed_plan(plan, target=target)
            export.render(routed, target=target, engine=engine, router=router, grid=grid)
        except (ExportError, InputError) as error:
            reasons.append(error.message)
        else:
            return target, ""
    return "", reasons[-1] if reasons else "no target has servers that it reaches"


def _as_planned(plan: Plan, behaviour: RouterBehaviour) -> bool:
    spans = {(route.phase, route.range_start) for route in plan.routing}
    by_length = len(spans) > len({phase for phase, _ in spans})
    exact = behaviour.measure is LengthMeasure.TOKENS or not by_length
    return exact and behaviour.acts_like(plan.scenario.router)


def _times(result: ReplayResult) -> str:
    ttft = result.total.ttft_ms
    p99 = f"P99 TTFT {ttft.p99.mean / 1000:.2f} s, " if ttft else ""
    return f"{p99}{result.total.within_levels.mean:.1%} within the levels"


def _misrouted(result: ReplayResult) -> str:
    if not result.misrouted:
        return ""
    refused = f", and {result.refused:.1%} to servers too short for them, which refuse" if result.refused else ""
    return f"; {result.misrouted:.1%} of the requests come to another bucket than their length's{refused}"
