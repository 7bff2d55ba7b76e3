"""Ray Serve's own choice: who takes requests in draws two replicas of a deployment and asks them how many they have; so
does a decode replica among those of prefill. It is part of what target `ray` writes, and knows no lengths."""

from collections.abc import Sequence

from planner.domain import Plan, RouterBehaviour
from planner.domain.serving.programs import PROGRAMS, Surroundings
from planner.domain.serving.targets import Reach
from planner.errors import ExportError
from planner.export.routers.intervals_served import served_intervals
from planner.export.seams import Deployment, Endpoint, Router, RouterFiles

NAME = "ray"


def _render(deployment: Deployment, _: Sequence[Endpoint], /) -> RouterFiles:
    """No files of its own.

    Raises:
        ExportError: more than one application, which a client would have to choose among.
    """
    plan = deployment.plan
    pools = [
        *{(prefill, decode) for i in served_intervals(plan) for prefill in i.prefill for decode in i.decode},
        *{name for i in served_intervals(plan) for name, _ in i.mixed},
    ]
    if len(pools) > 1:
        raise ExportError(
            f"Router {NAME}, plan {plan.scenario.name}: a plan is one pool of servers that do both phases, or one pair "
            f"of pools, got {len(pools)}, and Ray chooses none by length.",
            hint="Plan for one pool, or take --router none and route by the table to each application's prefix.",
        )
    return RouterFiles()


def _behaviour(_plan: Plan, around: Surroundings, /) -> RouterBehaviour:
    return PROGRAMS[NAME](around)


RAY = Router(name=NAME, needs=(Reach.SERVE,), engines=("vllm",), render=_render, behaviour=_behaviour)
