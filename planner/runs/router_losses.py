"""What a router gives up of a plan: the plan's promise replayed as its own policy routes, and as the router does."""

from dataclasses import dataclass

from planner import export, pipeline
from planner.domain import LengthMeasure, Plan, RouterBehaviour
from planner.domain.replay.results import ReplayResult
from planner.runs.replay_settings import replay_settings
from planner.runs.replays import rate_of

_REQUESTS = 10_000
WORTH_TELLING = 0.01
"""Relative difference of P99 TTFT below which two routers do alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterLoss:
    """The promise under the plan's policy (`planned`) and under the router's (`routed`)."""

    router: str
    behaviour: RouterBehaviour
    planned: ReplayResult
    routed: ReplayResult

    @property
    def text(self) -> str:
        """One sentence."""
        policies = f"{self.behaviour.policy.value} where the plan counts on {self.planned.policy.value}"
        rate = f"at {self.planned.rate_rps:.1f} requests/s"
        return (
            f"router {self.router} does {policies}: {rate} {_times(self.routed)} instead of {_times(self.planned)}, by "
            f"a replay of {_REQUESTS} requests{_misrouted(self.routed)}"
        )


def router_loss(plan: Plan, router: str) -> RouterLoss | None:
    """What `router` does to the plan's promise; None where it does what the plan counts on, or the plan, without
    buckets, promises nothing."""
    behaviour = export.ROUTERS[router].behaviour(plan)
    if plan.buckets is None or _as_planned(plan, behaviour):
        return None
    rate_rps = rate_of(plan, None)
    planned, routed = (
        pipeline.replay(
            plan,
            plan.scenario.workload,
            replay_settings(plan, router=name, requests=_REQUESTS, seeds=1),
            rate_rps,
        )
        for name in (None, router)
    )
    return RouterLoss(router=router, behaviour=behaviour, planned=planned, routed=routed)


def _as_planned(plan: Plan, behaviour: RouterBehaviour) -> bool:
    spans = {(route.phase, route.range_start) for route in plan.routing}
    by_length = len(spans) > len({phase for phase, _ in spans})
    exact = behaviour.measure is LengthMeasure.TOKENS or not by_length
    return exact and behaviour.policy is plan.scenario.routing.policy


def _times(result: ReplayResult) -> str:
    ttft = result.total.ttft_ms
    p99 = f"P99 TTFT {ttft.p99.mean / 1000:.2f} s, " if ttft else ""
    return f"{p99}{result.total.within_levels.mean:.1%} within the levels"


def _misrouted(result: ReplayResult) -> str:
    return f"; {result.misrouted:.1%} of the requests come to another bucket than their length's" * bool(
        result.misrouted
    )
