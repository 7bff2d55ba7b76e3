"""Router `dynamo`: the frontends and routers that are in the graphs of target dynamo; nothing more is written for them.

The GlobalRouter finds a pool by the cell of a uniform grid that a prompt's tokens fall into; the pool's local router
takes the worker, data-parallel ranks told apart, with the fewest prompt tokens and cache blocks to come. Who takes what
is read back from the GlobalRouter's configuration, and from the islands of each pool's workers.

Plans whose islands do both phases have one frontend over all of them: the GlobalRouter's mode for such pools (`agg`)
looks at the times that a request asks for and never at its length (pool_selection.py of ai-dynamo 1.3.1, what
`load_config` takes), so several buckets of them are refused by the target.
"""

from collections.abc import Sequence

from planner.domain import PHASES, LengthMeasure, Plan, RouterBehaviour, RouterPolicy
from planner.export.seams import Deployment, Endpoint, Router, RouterFiles

NAME = "dynamo"


def _render(_deployment: Deployment, _endpoints: Sequence[Endpoint], /) -> RouterFiles:
    return RouterFiles()


def _behaviour(plan: Plan) -> RouterBehaviour:
    """By tokens to come, on a grid; the plan's cut points are the grid's already where it was brought onto one."""
    spans = {(route.phase, route.range_start) for route in plan.routing}
    gridded = ("Cut points of lengths fall on cells of one width.",) if len(spans) > len(PHASES) else ()
    return RouterBehaviour(
        policy=RouterPolicy.LEAST_WORK,
        measure=LengthMeasure.TOKENS,
        blind_to_speed=True,
        notes=(
            *gridded,
            "It knows no shares: a pool's workers get what keeps their tokens to come alike, not by their speed.",
        ),
    )


DYNAMO = Router(
    name=NAME,
    targets=("dynamo",),
    engines=("vllm", "sglang"),
    render=_render,
    behaviour=_behaviour,
)
