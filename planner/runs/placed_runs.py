"""A saved plan put on a cluster: what changes in its scenario, and what its run folder then holds."""

from collections.abc import Iterable
from dataclasses import replace

from planner.domain import Cluster, InputHash, PlacementSettings, Plan, Scenario
from planner.errors import InputError


def scenario_on(
    saved: Plan, cluster: Cluster, settings: PlacementSettings, inputs: Iterable[InputHash] = ()
) -> Scenario:
    """The plan's own scenario with a cluster and its settings; `inputs`: the files that they were read from.

    Raises InputError where the plan was searched for on another cluster.
    """
    old = saved.scenario
    if old.objective.kind.row.placed and old.cluster != cluster:
        raise InputError(
            f"plan {old.name}: objective.kind placed: its layout was chosen for cluster "
            f"{old.cluster.name if old.cluster else '?'}, got {cluster.name}.",
            hint="Plan the scenario again with the other cluster.",
        )
    earlier = tuple(item for item in old.inputs if item not in set(inputs))
    return replace(old, cluster=cluster, placement=settings, inputs=(*earlier, *inputs))
