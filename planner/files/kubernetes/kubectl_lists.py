"""Nodes, pods and disruption budgets as `kubectl get nodes,pods,pdb -A -o json` prints them."""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from planner.domain import DisruptionBudget, Pod, Taint
from planner.domain.node_report import NodeReport
from planner.errors import InputError
from planner.files.kubernetes.kubectl_budgets import KIND, with_budgets
from planner.files.kubernetes.kubectl_pods import holds_nothing, read_pod
from planner.files.kubernetes.kubectl_times import age_s, latest_time
from planner.files.kubernetes.kubernetes_objects import (
    KubernetesObject,
    below,
    count,
    items_below,
    quantity,
    read_objects,
    string_map,
)
from planner.files.kubernetes.node_resource_topologies import GPU_RESOURCES
from planner.units import GB

UNHEALTHY_TAINT = "planner/unhealthy-gpus"
CORDON_TAINT = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubectlLists:
    """Nodes and running pods. `ended`: keys of pods that are over. `claims`: of pods that claim devices by DRA.

    `notes`: about what, and the note. `left_out`: keys of pods that are not among `pods`, as their nodes are left out.
    """

    nodes: tuple[NodeReport, ...]
    pods: tuple[Pod, ...]
    ended: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    disruption_budgets: tuple[DisruptionBudget, ...] = ()
    left_out: tuple[str, ...] = ()


def read_kubectl(
    paths: tuple[Path, ...], taken_at: datetime | None = None, *, preempt_unclassed: bool = False
) -> KubectlLists:
    """Nodes and pods of all files together; InputError where an object is in two of them.

    `taken_at`: when the lists were taken, from which pods' ages follow (None: at the latest time that is told in them).
    `preempt_unclassed`: pods without a priority class may be evicted, too.
    """
    objects = [item for path in paths for item in read_objects(path, ("Node", "Pod", KIND))]
    _refuse_twins(objects)
    moment = taken_at or latest_time(objects)
    pods = [item for item in objects if item.kind == "Pod"]
    running = [item for item in pods if not holds_nothing(item)]
    over = [item for item in pods if holds_nothing(item)]
    reads = [read_pod(item, preempt_unclassed=preempt_unclassed) for item in running]
    waiting = sum(1 for item in pods if below(item.body, "spec").is_empty("nodeName"))
    aged = [(replace(pod, age_s=age_s(item, moment)), item) for (pod, _), item in zip(reads, running, strict=True)]
    budgeted, budgets, budget_notes = with_budgets(aged, [item for item in objects if item.kind == KIND])
    notes = [*((f"pod {pod.key}", note) for pod, pod_notes in reads for note in pod_notes), *budget_notes]
    if waiting:
        notes.append((f"{waiting} pods", "left out, as they wait for a node"))
    return KubectlLists(
        nodes=tuple(_node(item) for item in objects if item.kind == "Node"),
        pods=tuple(budgeted),
        ended=tuple(f"{item.namespace or 'default'}/{item.name}" for item in over),
        claims=tuple(pod.key for (pod, _), item in zip(reads, running, strict=True) if _claims(item)),
        notes=tuple(notes),
        disruption_budgets=budgets,
    )


def _claims(item: KubernetesObject) -> bool:
    return bool(items_below(below(item.body, "spec"), "resourceClaims"))


def _refuse_twins(objects: list[KubernetesObject]) -> None:
    by_key: dict[tuple[str, str, str], KubernetesObject] = {}
    for item in objects:
        other = by_key.setdefault((item.kind, item.namespace, item.name), item)
        if other is not item:
            raise InputError(
                f"{item.body.file}: must be given once; {other.body.file} has it, too.",
                hint="Remove one of the two.",
            )


def _node(item: KubernetesObject) -> NodeReport:
    """Labels, taints, and what pods may have; GPUs are counted by capacity."""
    status, _spec = item.body.section("status"), below(item.body, "spec")
    capacity, allocatable = below(status, "capacity"), status.section("allocatable")
    gpus = sum(count(capacity if resource in capacity else allocatable, resource) for resource in GPU_RESOURCES)
    healthy = sum(count(allocatable, resource) for resource in GPU_RESOURCES)
    if healthy > gpus:
        raise InputError(
            f"{item.body.file}: status.allocatable: GPUs must be at most the capacity, {gpus}, got {healthy}.",
            hint="Take the list anew.",
        )
    lost = f"{gpus - healthy} GPUs are not allocatable and nobody says which: tainted with {UNHEALTHY_TAINT}"
    return NodeReport(
        node=item.name,
        origin=item.body.file,
        gpu_count=gpus,
        labels=string_map(below(item.body, "metadata", "labels")),
        taints=_taints(item, unhealthy=healthy < gpus),
        cpus=quantity(allocatable, "cpu"),
        memory_gb=quantity(allocatable, "memory") / GB,
        notes=(lost,) if healthy < gpus else (),
    )


def _taints(item: KubernetesObject, *, unhealthy: bool) -> tuple[Taint, ...]:
    spec = below(item.body, "spec")
    taints = [
        Taint(
            key=entry.text("key"),
            value="" if entry.is_empty("value") else entry.text("value"),
            effect=entry.one_of("effect", ("NoSchedule", "PreferNoSchedule", "NoExecute")),
        )
        for entry in items_below(spec, "taints")
    ]
    keys = {taint.key for taint in taints}
    cordoned = not spec.is_empty("unschedulable") and spec.flag("unschedulable")
    if cordoned and CORDON_TAINT not in keys:
        taints.append(Taint(key=CORDON_TAINT))
    if unhealthy:
        taints.append(Taint(key=UNHEALTHY_TAINT))
    return tuple(taints)
