"""What a pod tells the scheduler beyond its GPUs: tolerations, nodes, priority, queue, packing; the same for every
target of Kubernetes objects.

Sources: Kueue's annotations for topology-aware scheduling and its queue label (kueue.x-k8s.io, docs of v1beta2);
PriorityClass of scheduling.k8s.io/v1; the kubelet's topology and CPU manager policies; spread constraints of pods with
minDomains, on by default since Kubernetes 1.27 (kubernetes.io, Pod Topology Spread Constraints).

Copies of the model close together: which switch level each copy of an island has to stay under.

A plan's placement says under which switches its copies lie; the user says which node label a cluster has for a level
(`deploy.topology`), as no label for racks or switches is standard.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from planner.domain import SWITCH_LEVELS, ClusterNode, PlacedPart, PlacementSettings, Taint
from planner.errors import InputError
from planner.export.islands import ServingIsland
from planner.export.objects.names import is_label_value
from planner.export.seams import Deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """All pods of a copy under one switch of `level`, as the node label `label` names it.

    `required`: the placement has them so; else it is only better that they are. `exclusive`: in the placement no two
    copies lie under the same such switch, so that a rule of one copy a switch (and one switch a copy) can be met.
    """

    level: str
    label: str
    required: bool
    exclusive: bool

    @property
    def note(self) -> str:
        """What is asked for, in words."""
        how = "must lie" if self.required else "should lie"
        return f"All pods of a group {how} under one {self.level} switch (node label {self.label})."


def packing(island: ServingIsland, deployment: Deployment) -> Packing | None:
    """The constraint on the pods of each copy; None where a copy is one pod, or no level has a label."""
    labels = dict(deployment.options.topology_labels)
    levels = [level for level in SWITCH_LEVELS if level in labels]
    if not levels or island.grouping.pods == 1:
        return None
    for level in levels:
        domains = switch_domains(deployment, level)
        island_domains = [switches for (name, _), switches in domains.items() if name == island.id]
        if island_domains and all(len(switches) == 1 and "" not in switches for switches in island_domains):
            users = Counter(domain for switches in domains.values() for domain in switches)
            alone = all(users[domain] == 1 for switches in island_domains for domain in switches)
            return Packing(level=level, label=labels[level], required=True, exclusive=alone)
    return Packing(level=levels[0], label=labels[levels[0]], required=False, exclusive=False)


def switch_domains(deployment: Deployment, level: str) -> dict[tuple[str, int], set[str]]:
    """(island, copy) -> switches of the level that it lies under."""
    placement, cluster = deployment.plan.placement, deployment.plan.scenario.cluster
    above = {node.name: node.aggregation for node in cluster.nodes} if cluster else {}
    switches: dict[tuple[str, int], set[str]] = {}
    for part in placement.parts if placement else ():
        switches.setdefault((part.island, part.replica), set()).add(_domain(part, level, above))
    return switches


def _domain(part: PlacedPart, level: str, above: dict[str, str]) -> str:
    return part.asw if level == "asw" else above.get(part.node, "")


HOSTNAME = "kubernetes.io/hostname"
SPREAD = "topologySpreadConstraints"
MORE_THAN_NODES = 1_000_000
"""Domains that no cluster has (Kubernetes is made for 5,000 nodes)."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
POLICY_ANNOTATION = "planner/topology-manager-policy"
_KUEUE = "kueue.x-k8s.io/podset"


def tolerations(resource: str, settings: PlacementSettings) -> list[dict[str, str]]:
    """The taint that device plugins put on GPU nodes, and those that the plan's placement tolerates."""
    device = {"key": resource, "operator": "Exists", "effect": "NoSchedule"}
    return [device, *(row for taint in settings.tolerations if (row := _toleration(taint)) != device)]


def _toleration(taint: Taint) -> dict[str, str]:
    rule = {"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}
    return {"key": taint.key, **rule, "effect": taint.effect}


def pod_scheduling(island: ServingIsland, deployment: Deployment) -> dict[str, Any]:
    """Fields of the PodSpec: node affinity where nodes are pinned, the priority class where one is named.

    Raises:
        InputError: nodes are to be pinned and the plan has no placement, or a node's name is no label value.
    """
    fields: dict[str, Any] = {}
    if deployment.options.pin_nodes:
        rule = {"key": HOSTNAME, "operator": "In", "values": list(pinned_nodes(island, deployment))}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
        fields["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    if deployment.options.priority_class:
        fields["priorityClassName"] = deployment.options.priority_class
    return fields


def spread(island: ServingIsland, pods: Mapping[str, str]) -> dict[str, Any]:
    """The PodSpec's field that keeps copies apart, where the plan counts on it; `pods`: labels of the island's pods.

    maxSkew alone bounds a node's pods over those of the emptiest node; with fewer nodes than `minDomains` asks for, the
    scheduler takes 0 for the latter, so that maxSkew bounds the pods of every node. A copy of several pods is not its
    pods' number, so nothing is asked for it.
    """
    if not island.per_node or island.grouping.pods > 1:
        return {}
    rule = {
        "maxSkew": island.per_node,
        "minDomains": MORE_THAN_NODES,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(pods)},
    }
    return {SPREAD: [rule]}


def _spread_notes(island: ServingIsland, deployment: Deployment) -> Iterator[str]:
    if not island.per_node:
        return
    losses = f"at most {island.per_node} of the copies may share a node: losses of nodes were counted like that"
    if island.grouping.pods > 1:
        yield f"WARNING: {losses}, and nothing below asks for it, as a copy is {island.grouping.pods} pods: pin them."
        return
    yield f"{losses[0].upper()}{losses[1:]}; minDomains is beyond all nodes, so that maxSkew is their number."
    if deployment.options.queue and deployment.options.topology_labels:
        yield "WARNING: Kueue's topologies choose nodes and do not look at that; pods that they put together wait."


def pinned_nodes(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    """Host names (label values) of the nodes that the placement gives to the island, sorted.

    Raises:
        InputError: the plan has no placement of it, or a name is no label value.
    """
    plan = deployment.plan
    names = sorted({part.node for part in plan.placement.parts if part.island == island.id} if plan.placement else ())
    if not names:
        raise InputError(
            f"Plan {plan.scenario.name}, placement: must have nodes for island {island.id} to pin it to, has none.",
            hint="Place the plan first (`planner place`), or leave --pin-nodes out.",
        )
    nodes = {node.name: node for node in plan.scenario.cluster.nodes} if plan.scenario.cluster else {}
    values = tuple(host_name(name, nodes) for name in names)
    for value in values:
        if not value or not is_label_value(value):
            raise InputError(
                f"Node {value!r}: must be a Kubernetes label value to pin pods to it.",
                hint="Leave out --pin-nodes, or mend the name in the cluster file.",
            )
    return values


def preemption_policy(settings: PlacementSettings) -> str:
    """What a PriorityClass says of eviction: what the placement was allowed."""
    return "PreemptLowerPriority" if settings.preempt else "Never"


def host_name(node: str, nodes: Mapping[str, ClusterNode]) -> str:
    """The host name from a node's label; the node's name where the cluster file has no such label."""
    return dict(nodes[node].labels).get(HOSTNAME, node) if node in nodes else node


def pod_annotations(island: ServingIsland, deployment: Deployment) -> dict[str, str]:
    """Kueue's topology request, on every pod template of the island; empty without a queue or labels of levels."""
    constraint = packing(island, deployment)
    if constraint is None or not deployment.options.queue:
        return {}
    kind = "required" if constraint.required else "preferred"
    # the group's name makes leader and workers count as one set of pods
    return {f"{_KUEUE}-{kind}-topology": constraint.label, f"{_KUEUE}-group-name": island.slug}


def queue_labels(deployment: Deployment) -> dict[str, str]:
    """Labels of a workload object (not of its pods): the queue that admits it, where there is one."""
    return {QUEUE_LABEL: deployment.options.queue} if deployment.options.queue else {}


def node_annotations(island: ServingIsland, deployment: Deployment) -> dict[str, str]:
    """The kubelet's policy that the placement's alignment needs, on every workload of a placed plan."""
    if deployment.plan.placement is None:
        return {}
    qos = deployment.plan.scenario.placement.qos(island.phase)
    return {POLICY_ANNOTATION: qos.kubelet_policy}


def scheduling_notes(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    """What the reader must know of the nodes: the kubelet's policies, packing, pins."""
    notes: list[str] = []
    if policy := node_annotations(island, deployment).get(POLICY_ANNOTATION):
        notes.append(
            f"Placed for nodes whose kubelet has topologyManagerPolicy {policy}"
            + ("." if policy == "none" else " and cpuManagerPolicy static: whole CPUs, requests equal to limits.")
        )
    if constraint := packing(island, deployment):
        notes.append(constraint.note)
    notes += _spread_notes(island, deployment)
    if deployment.options.pin_nodes:
        notes.append(f"Pinned to {', '.join(pinned_nodes(island, deployment))}.")
    return tuple(notes)
