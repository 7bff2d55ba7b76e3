"""Whether a router chooses among attention ranks or among servers, island by island.

Servers of a mixed fleet differ in speed and in how many ranks they have; their ranks are nearly alike. So a router that
counts requests or tokens, and knows no speed, does better among ranks (`deploy.ranks`). Three have to agree: the engine
gives each rank a port, the target's objects name it, and the router can be told of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.domain.serving.deploy import BY_RANK, BY_SERVER
from planner.errors import ExportError
from planner.export.islands import ServingIsland
from planner.export.seams import Deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPods:
    """Pods that run on as they were started: how many a copy has, GPUs of each, and whether their ranks answer."""

    pods: int
    gpus: int
    by_rank: bool

    def of(self, island: ServingIsland) -> ServingIsland:
        """The island in these pods."""
        grouping = replace(island.grouping, pods=self.pods, gpus_per_pod=self.gpus)
        why = "" if self.by_rank else "its pods run on as they were started"
        return replace(island, grouping=grouping, by_rank=self.by_rank, by_server=why)


def with_ranks(deployment: Deployment, running: Mapping[str, RunningPods]) -> Deployment:
    """The deployment with the islands marked whose ranks are endpoints. `running`: by island, pods that cannot be asked
    any more.

    Raises:
        ExportError: ranks are asked for, or answer already, and one of the three cannot have them; the message says
            which, and why.
    """
    started = {island.id: running[island.id].of(island) for island in deployment.islands if island.id in running}
    marked = _marked(deployment, started)
    for island in marked.islands if deployment.router else ():
        if island.id in started and island.by_rank and (why := _obstacle(island, marked)):
            raise ExportError(
                f"Island {island.id}: its ranks must go on as endpoints, as its pods run on, but {why}.",
                hint="Let the island start anew: planner export, as a plan of its own.",
            )
    return marked


def _marked(deployment: Deployment, started: Mapping[str, ServingIsland]) -> Deployment:
    chosen = deployment.options.ranks
    obstacles = {name: why for name, why in rank_obstacles(deployment).items() if name not in started}
    reasons = {name: why for name, why in obstacles.items() if why}
    if chosen == BY_RANK and reasons:
        name, why = next(iter(reasons.items()))
        raise ExportError(
            f"Island {name}, deploy.ranks: must not be {BY_RANK}, as {why}.",
            hint="Leave deploy.ranks out: then ranks are endpoints where they can be, and servers elsewhere.",
        )
    if chosen == BY_SERVER:
        obstacles = reasons = {}
    return replace(
        deployment,
        islands=tuple(
            started.get(island.id)
            or replace(island, by_rank=obstacles.get(island.id) == "", by_server=reasons.get(island.id, ""))
            for island in deployment.islands
        ),
    )


def rank_obstacles(deployment: Deployment) -> Mapping[str, str]:
    """Island of several ranks -> why these cannot be endpoints; empty where they can."""
    return {island.id: _obstacle(island, deployment) for island in deployment.islands if island.parallel.dp > 1}


def _obstacle(island: ServingIsland, deployment: Deployment) -> str:
    router, target = deployment.router, deployment.target
    if why := deployment.engine.rank_obstacle(island):
        return why
    if target.rank_obstacle and (why := target.rank_obstacle(island, deployment)):
        return why
    if router is None:  # a router of one's own finds ranks in the routing table, where they are asked for
        return "" if deployment.options.ranks == BY_RANK else "no router is exported that would choose among them"
    if router.rank_obstacle is None:
        return f"router {router.name} chooses servers, and leaves ranks to their engines"
    return router.rank_obstacle(island, deployment)


def rank_notes(island: ServingIsland) -> tuple[str, ...]:
    """What a router chooses among, for the reader of an island's file."""
    if island.by_rank:
        pods = f" ({island.local_ranks} a pod)" if island.grouping.pods > 1 else ""
        return (
            f"Endpoints: each of the {island.parallel.dp} attention ranks of a copy{pods} has a port of its own; they "
            "share experts, and stand or fall together.",
        )
    if island.parallel.dp > 1 and island.by_server:
        return (f"Endpoints: a copy is one, as {island.by_server}.",)
    return ()
