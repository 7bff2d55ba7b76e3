"""The rules for serving workloads, apart from their counts: each alone, and all together."""

from collections.abc import Iterator, Sequence

from planner.export.checking.autoscaling import autoscaling_faults
from planner.export.checking.commands.devices import device_faults, init_faults
from planner.export.checking.commands.flags import flag_faults
from planner.export.checking.commands.models import head_faults, image_faults, model_faults
from planner.export.checking.commands.transfer import address_variable_faults, transfer_faults
from planner.export.checking.expectation import Expectation, Owned
from planner.export.checking.monitoring import monitoring_faults
from planner.export.checking.pods.admission import admission_faults
from planner.export.checking.pods.namespaces import namespace_faults
from planner.export.checking.pods.operating.disruption import budget_faults
from planner.export.checking.pods.operating.domains import claim_reference_faults
from planner.export.checking.pods.operating.endings import ending_faults
from planner.export.checking.pods.operating.network import lock_faults
from planner.export.checking.pods.operating.weights import claim_faults, waiting_faults
from planner.export.checking.pods.priorities import unused_faults
from planner.export.checking.pods.rollouts import spread_faults, surge_faults
from planner.export.checking.pods.service_class import class_faults
from planner.export.checking.pods.shared_memory import shared_memory_faults
from planner.export.checking.references import mount_faults
from planner.export.checking.routing.routes import route_faults
from planner.export.found import Fault, Manifest


def serving_faults(owned: Owned, expected: Expectation) -> Iterator[Fault]:
    """What is wrong with one workload as its island's."""
    workload = owned.workload
    yield from flag_faults(owned, expected)
    yield from device_faults(owned, expected)
    for pod in workload.pods:
        yield from init_faults(workload.manifest, pod)
        yield from mount_faults(workload.manifest, pod)
        yield from shared_memory_faults(workload.manifest, pod)
    yield from address_variable_faults(workload)
    yield from class_faults(owned, expected)
    yield from admission_faults(workload)
    yield from spread_faults(workload)
    yield from ending_faults(owned)
    yield from waiting_faults(workload)
    yield from lock_faults(workload)


def together_faults(manifests: Sequence[Manifest], owned: Sequence[Owned], expected: Expectation) -> Iterator[Fault]:
    """What is wrong with workloads that are sound each for itself."""
    yield from head_faults(manifests, owned, expected)
    yield from model_faults(manifests, owned, expected)
    yield from image_faults(owned)
    yield from transfer_faults(manifests, owned, expected)
    yield from namespace_faults(manifests, [item.workload for item in owned])
    yield from unused_faults(manifests, owned, expected)
    yield from surge_faults(manifests, owned, expected)
    yield from claim_reference_faults(manifests, [item.workload for item in owned])
    yield from budget_faults(manifests, owned, expected)
    yield from claim_faults(manifests, [item.workload for item in owned])
    yield from route_faults(manifests, owned, expected)
    yield from autoscaling_faults(manifests, owned, expected)
    yield from monitoring_faults(manifests, [item.workload for item in owned], expected)
