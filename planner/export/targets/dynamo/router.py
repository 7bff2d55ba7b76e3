"""The GlobalRouter's configuration, derived from the plan's routing table.

symbol            meaning                                   unit    source
isl, context      tokens of the prompt, in both phases      tokens  global_router/handler.py: len(token_ids)
cell              clamp(int((isl - min) / ((max - min) /    1       global_router/README.md, "Pool Selection"
                  resolution)), 0, resolution - 1)
ttft, itl         the second dimension: here one bucket,    ms      same; a request may ask for a time, and the plan
                  whatever a request asks for                       has one bound for all

Source: ai-dynamo/dynamo, components/src/dynamo/global_router. Newer versions call `ttft_min` `ttft_min_ms` (and so on)
and still read the shorter names.

Router `dynamo`: the frontends and routers that are in the graphs of target dynamo; nothing more is written for them.

The GlobalRouter finds a pool by the cell of a uniform grid that a prompt's tokens fall into; the pool's local router
takes the worker, data-parallel ranks told apart, with the fewest prompt tokens and cache blocks to come.

Plans whose islands do both phases have one frontend over all of them: the table that is written for such pools (mode
`agg`) goes by the times that a request asks for, so several buckets of them are refused by the target. Version 1.6.1
can look at lengths there, too (`isl_min`, `isl_max`, `isl_resolution` and a third dimension), which is not written.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.domain import PHASES, Phase, Plan, RouterBehaviour
from planner.domain.serving.programs import PROGRAMS, Surroundings
from planner.domain.serving.targets import Reach
from planner.export.objects.documents import yaml_text
from planner.export.objects.names import plan_labels
from planner.export.routers.pairings import by_prefix
from planner.export.seams import Deployment, Endpoint, Router, RouterFiles
from planner.export.targets.dynamo.components import CONFIG_KEY, dynamo_namespace, graph_name
from planner.export.targets.dynamo.pools import PhasePools, Pool

LENGTHS = {Phase.PREFILL: "isl", Phase.DECODE: "context_length"}
TIMES = {Phase.PREFILL: "ttft", Phase.DECODE: "itl"}
_ANY_TIME_MS = (0.0, 1000.0)  # one bucket: only its order matters


def pool_graph(deployment: Deployment, pool: Pool) -> str:
    """Name of the graph with a pool's local router, whose Dynamo namespace is the pool's."""
    return graph_name(deployment, f"{pool.phase.value[0]}{pool.index}")


def router_config(deployment: Deployment, pools: Mapping[Phase, PhasePools]) -> dict[str, Any]:
    """What `--config` reads."""
    config: dict[str, Any] = {"mode": "disagg", "enable_priority_retry": False}
    for phase in PHASES:
        config[f"num_{phase}_pools"] = len(pools[phase].pools)
    for phase in PHASES:
        config[f"{phase}_pool_dynamo_namespaces"] = [
            dynamo_namespace(deployment.options.namespace, pool_graph(deployment, pool)) for pool in pools[phase].pools
        ]
    for phase in PHASES:
        config[f"{phase}_pool_selection_strategy"] = _strategy(pools[phase])
    return config


def _strategy(pools: PhasePools) -> dict[str, Any]:
    length, time = LENGTHS[pools.phase], TIMES[pools.phase]
    low, high = _ANY_TIME_MS
    return {
        f"{length}_min": 0,
        f"{length}_max": pools.width * len(pools.cells),
        f"{length}_resolution": len(pools.cells),
        f"{time}_min": low,
        f"{time}_max": high,
        f"{time}_resolution": 1,
        f"{pools.phase}_pool_mapping": [[cell] for cell in pools.cells],
    }


def config_map(deployment: Deployment, name: str, pools: Mapping[Phase, PhasePools]) -> dict[str, Any]:
    """The ConfigMap that the GlobalRouter mounts."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": deployment.options.namespace,
            "labels": plan_labels(deployment.name),
        },
        "data": {CONFIG_KEY: _text(router_config(deployment, pools))},
    }


def _text(config: Mapping[str, Any]) -> str:
    """One key a line, so that two plans can be compared."""
    rows = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in config.items())
    return "{" + ",\n".join(rows) + "}\n"


def grid_comments(deployment: Deployment, pools: Mapping[Phase, PhasePools]) -> tuple[str, ...]:
    """The grid, and what it costs, for the reader of the manifests."""
    prefill = pools[Phase.PREFILL]
    lines = [
        f"Prompts go to pools by length: {len(grid.cells)} cells of {grid.width} tokens, {len(grid.pools)} {phase} "
        f"pool{'s' if len(grid.pools) > 1 else ''}."
        for phase, grid in pools.items()
    ]
    lines.append(f"Prompts of {prefill.width * len(prefill.cells)} tokens and more go with the last cell.")
    if deployment.grid is not None:
        lines.append(f"What the grid does to the rate: {deployment.grid.cost_text}.")
    return tuple(lines)


def control_file(
    deployment: Deployment,
    graph: Mapping[str, Any],
    name: str,
    pools: Mapping[Phase, PhasePools],
) -> str:
    """The text of the file with the frontend, the GlobalRouter and its configuration."""
    comments = (
        f"Plan {deployment.plan.scenario.name}: the frontend, and the GlobalRouter that picks a pool for each prompt.",
        *grid_comments(deployment, pools),
        f"Names of pools hold the Kubernetes namespace {deployment.options.namespace}: apply the files there.",
    )
    return yaml_text(comments, (config_map(deployment, name, pools), graph))


NAME = "dynamo"


def _render_nothing(_deployment: Deployment, _endpoints: Sequence[Endpoint], /) -> RouterFiles:
    return RouterFiles()


def _behaviour(plan: Plan, around: Surroundings, /) -> RouterBehaviour:
    """By tokens to come, on a grid; the plan's cut points are the grid's already where it was brought onto one."""
    spans = {(route.phase, route.range_start) for route in plan.routing}
    gridded = ("Cut points of lengths fall on cells of one width.",) if len(spans) > len(PHASES) else ()
    return replace(
        PROGRAMS[NAME](around),
        prefixes=by_prefix(plan),
        notes=(
            *gridded,
            "It knows no shares: a pool's workers get what keeps their tokens to come alike, not by their speed.",
        ),
    )


DYNAMO = Router(
    name=NAME,
    needs=(Reach.GRAPH,),
    engines=("vllm", "sglang", "trtllm"),
    render=_render_nothing,
    behaviour=_behaviour,
)
