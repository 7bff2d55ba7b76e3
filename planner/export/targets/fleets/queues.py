"""What a fleet's deployments share in a cluster: priorities, and Kueue's quotas, a ClusterQueue each in one cohort.

The nominal quotas are the GPUs that the plan gives, and what nobody has is a queue of its own, so that they sum to the
inventory. Work that waits may borrow what is unused, of any type; services with a demand borrow nothing and take back
what is theirs, whatever runs there.

symbol   meaning                                                     source
value    of a PriorityClass: 1000 x (101 - place), place 1 first;    FleetService.priority, 1 to 100
         0 for work that waits, as pods without a class have
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.domain import GpuSpec
from planner.domain.fleets import FleetPart, FleetPlan
from planner.export.manifests import deployment_of
from planner.export.objects.documents import yaml_text
from planner.export.objects.names import plan_labels, slug, workload_name
from planner.export.options import ExportOptions
from planner.export.seams import Deployment
from planner.export.targets.kueue import Cohort, check_types, flavor, flavor_names, queue_objects
from planner.export.templating import object_of

_PLACES, _STEP = 101, 1000
_BATCH = 0


def place_of(fleet_plan: FleetPlan, part: FleetPart) -> int:
    """The place in the order of the first of its services, from 1 on; 0: its work waits."""
    services = [fleet_plan.fleet.service(name) for name, _ in part.deployment.parts]
    return _BATCH if any(s.batch is not None for s in services) else min(s.priority for s in services)


def class_name(fleet: str, place: int) -> str:
    """The PriorityClass of a place."""
    return workload_name(fleet, f"priority-{place}" if place else "batch")


def queue_name(fleet: str, part: FleetPart) -> str:
    """The ClusterQueue and the LocalQueue of a deployment."""
    return workload_name(fleet, slug(part.name))


def priority_files(fleet_plan: FleetPlan, fleet: str) -> dict[str, str]:
    """`priority-classes.yaml`, a class for each place in the order; none where all have the same."""
    places = sorted({place_of(fleet_plan, part) for part in fleet_plan.plans})
    if len(places) < 2:
        return {}
    classes = [
        object_of(
            "priority-class",
            name=class_name(fleet, place),
            labels=plan_labels(fleet),
            value=_STEP * (_PLACES - place) if place else 0,
            policy="PreemptLowerPriority" if place else "Never",
        )
        for place in places
    ]
    return {"priority-classes.yaml": yaml_text((f"Who goes first in fleet {fleet_plan.fleet.name}.",), classes)}


def queue_files(fleet_plan: FleetPlan, fleet: str, options: Mapping[str, ExportOptions]) -> dict[str, str]:
    """`flavors.yaml` and `queues.yaml`; `options`: of every deployment, by its name.

    Raises:
        ExportError: as target kueue does.
    """
    items = [item for item in fleet_plan.fleet.inventory.items if item.count]
    gpus = [item.gpu for item in items]
    names = flavor_names(gpus, fleet)
    deployments = {part.name: _quota_terms(part, options[part.name], fleet) for part in fleet_plan.plans}
    first = next(iter(deployments.values()))
    check_types(gpus, first)
    head = (
        f"Quotas of fleet {fleet_plan.fleet.name}: together they are its inventory.",
        "A workload joins by the label kueue.x-k8s.io/queue-name, which exports with queues have.",
    )
    queues = [
        document
        for queue in _quotas(fleet_plan, fleet, gpus)
        for document in queue_objects(
            queue.counts,
            names,
            deployments.get(queue.deployment, first),
            name=queue.name,
            queue=queue.name if queue.deployment else "",
            cohort=Cohort(name=fleet, borrows=queue.borrows),
            labels=plan_labels(fleet),
        )
    ]
    flavors = [flavor(gpu, names[gpu.name], first) for gpu in gpus]
    return {
        "flavors.yaml": yaml_text((f"GPU types of fleet {fleet_plan.fleet.name}, one flavor each.",), flavors),
        "queues.yaml": yaml_text(head, queues),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quota:
    """GPUs of each type under one ClusterQueue; `deployment` empty: what nobody has, to be lent."""

    name: str
    counts: tuple[tuple[GpuSpec, int], ...]
    deployment: str = ""
    borrows: bool = False


def _quotas(fleet_plan: FleetPlan, fleet: str, gpus: Sequence[GpuSpec]) -> Iterator[_Quota]:
    for part in fleet_plan.plans:
        counts, waits = dict(part.gpus), place_of(fleet_plan, part) == _BATCH
        yield _Quota(
            name=queue_name(fleet, part),
            # a queue borrows of types alone that it lists
            counts=tuple((gpu, counts.get(gpu.name, 0)) for gpu in gpus if waits or counts.get(gpu.name)),
            deployment=part.name,
            borrows=waits,
        )
    idle = dict(fleet_plan.idle)
    if idle:
        spare = tuple((gpu, idle[gpu.name]) for gpu in gpus if idle.get(gpu.name))
        yield _Quota(name=workload_name(fleet, "nobodys"), counts=spare)


def _quota_terms(part: FleetPart, options: ExportOptions, fleet: str) -> Deployment:
    """What GPUs take along there."""
    taken_along = {
        key: getattr(options, key) for key in ("cpus_per_gpu", "memory_gib_per_gpu", "pod_resources", "rdma")
    }
    terms = replace(ExportOptions(), **taken_along, hugepages=options.hugepages, topology_labels=(), name=fleet)
    return deployment_of(part.plan, target="kueue", options=terms, router="none")
