"""One policy's run over requests: from the pool and the requests to the log."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.records import ServingPool, ServingRequest, ServingSettings
from planner.studies.serving.simulation.book import RequestBook
from planner.studies.serving.simulation.cluster import Cluster
from planner.studies.serving.simulation.log import ActionLog, ServedRequests
from planner.studies.serving.simulation.loop import Simulation
from planner.studies.serving.simulation.requirements import require_servable
from planner.studies.serving.simulation.upkeep import Upkeep


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRun:
    """What happened."""

    requests: ServedRequests
    actions: ActionLog


def simulate_serving(
    pool: ServingPool,
    requests: Sequence[ServingRequest],
    policy: str,
    *,
    seed: int,
    settings: ServingSettings = ServingSettings(),
    progress: Callable[[float], None] = lambda _: None,
) -> ServingRun:
    """`requests`, in order of arrival, under the policy of that name. The seed draws SLAs alone.

    InputError: what cannot be simulated, and requests that no machine can ever serve.
    """
    require_servable(pool, requests, settings)
    row = POLICIES[policy]
    book = RequestBook(pool, requests, seed=seed, starved_share=settings.starved_share)
    cluster = Cluster(pool, book, settings, by_deadline=row.by_deadline)
    simulation = Simulation(cluster, row.make(cluster))
    Upkeep(simulation)
    simulation.run(progress)
    return ServingRun(requests=simulation.log.served(), actions=simulation.log.actions())
