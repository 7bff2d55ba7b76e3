"""GPUs that a running cluster has lost: a feed of a watch.

| the scenario has | what is told |
|---|---|
| a cluster | each of its nodes: lost where it is gone, cordoned or not ready; GPUs of the others that are not healthy |
| none | by GPU type: how many of the scenario's there are, and how many of them are out of service |

Without a cluster nobody knows which nodes are the scenario's: of more GPUs than it has, the healthy ones count first.
A node that is not ready may come back: it is lost once it has been so for a while, by the server's clock.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from planner.domain import Cluster, Scenario
from planner.domain.node_report import GpuTypeNames, NodeReport
from planner.domain.usable import FAULTS
from planner.domain.watching import Feed, FeedKind, FeedValue
from planner.errors import InputError
from planner.files.kubernetes.kubectl_lists import time_of
from planner.files.kubernetes.kubectl_nodes import is_cordoned, read_node, readiness
from planner.files.kubernetes.kubectl_pods import SLICE, listed_gpus, tainted_gpus
from planner.files.kubernetes.kubernetes_objects import KubernetesObject, objects_of
from planner.files.models.gpu_specs import load_gpu_specs
from planner.files.sections import Section
from planner.placement.clusters.imported_nodes import JoinRules, join_node
from planner.report.kit.quantities import first_names
from planner.runs.live.api_resources import WATCH, resources_of
from planner.runs.live.kubernetes import Kubernetes
from planner.runs.live.loads import clock_notes

GRACE_S = 60.0
"""A kubelet that restarts is back within some seconds; pods are evicted from a node only after 300 s."""

_NODE = "Node"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node: its report, GPUs that are not healthy, and why all of it is lost ("": it is not)."""

    report: NodeReport
    unhealthy: int = 0
    lost: str = ""

    @property
    def gpus(self) -> int:
        """Whole GPUs that it has."""
        return self.report.gpu_count or self.report.whole_gpus or 0

    @property
    def serving(self) -> int:
        """Those of them that can be used."""
        return 0 if self.lost else max(0, self.gpus - self.unhealthy)


@dataclass(slots=True)
class NodeStates:
    """Nodes by name, and why others cannot be read."""

    nodes: dict[str, NodeState] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFeed:
    """The nodes of a running cluster. `grace_s`: so long may a node be not ready."""

    kubernetes: Kubernetes
    grace_s: float = GRACE_S

    @property
    def name(self) -> str:
        """By the context, wherever its server is."""
        return self.kubernetes.label.removeprefix("--")

    def read(self, scenario: Scenario, now_s: float) -> Feed:
        """What is lost now. Raises InputError as `Kubernetes.read`, and where the cluster has none of the scenario's
        nodes, or of its GPU types: it would be another cluster."""
        answer = self.kubernetes.read(resources_of(WATCH))
        at = answer.answered_at or datetime.fromtimestamp(now_s, UTC)
        states = read_states(answer.of_kinds(_NODE, SLICE), at, self.grace_s)
        label = self.kubernetes.label
        if scenario.cluster is not None:
            values, notes = _by_node(scenario, scenario.cluster, states, label)
        else:
            values, notes = _by_type(scenario, states, label)
        clock = () if answer.answered_at is None else clock_notes(label, answer.answered_at.timestamp(), now_s)
        server_notes = [f"{label}: {subject}: {text}." for subject, text in answer.notes]
        return Feed(file=self.name, values=values, notes=(*server_notes, *clock, *notes))


def read_states(documents: Iterable[Section], at: datetime, grace_s: float) -> NodeStates:
    """Of documents of nodes and of what their drivers list, as they were `at` a time."""
    objects = objects_of(documents, (_NODE, SLICE))
    slices = [item for item in objects if item.kind == SLICE]
    listed, tainted = listed_gpus(slices), tainted_gpus(slices)
    states = NodeStates()
    for item in (item for item in objects if item.kind == _NODE):
        try:
            node = read_node(item, listed.get(item.name, ()))
            states.nodes[item.name] = NodeState(
                report=node.report,
                unhealthy=node.gpus.lost + tainted[item.name],
                lost=_why_lost(item, at, grace_s),
            )
        except InputError as error:
            states.unreadable[item.name] = error.message
    return states


def _why_lost(item: KubernetesObject, at: datetime, grace_s: float) -> str:
    if is_cordoned(item):
        return "cordoned"
    condition = readiness(item)
    if condition is None or condition.text("status") == "True":
        return ""
    since = time_of(condition, "lastTransitionTime")
    return "" if since is not None and (at - since).total_seconds() < grace_s else "not ready"


def _by_node(
    scenario: Scenario, cluster: Cluster, states: NodeStates, label: str
) -> tuple[tuple[FeedValue, ...], list[str]]:
    """Nodes of the scenario's cluster that could be used when it was read, and unhealthy GPUs of those that serve."""
    nodes = {
        node.name: (node.gpu, len(node.gpus))
        for node in cluster.nodes
        if node.gpus and not any(taint.key in FAULTS for taint in node.taints)
    }
    if nodes and not nodes.keys() & (states.nodes.keys() | states.unreadable.keys()):
        raise InputError(
            f"{label}: must have nodes of cluster {cluster.name}, has none of its {len(nodes)}: is it another cluster?",
            hint="Name the context of the scenario's cluster, or read it anew: `planner cluster import`.",
        )
    readable = [name for name in nodes if name not in states.unreadable]
    lost = {name: _why_gone(states.nodes.get(name)) for name in readable}
    unhealthy = {item.gpu.name: 0 for item in scenario.inventory.items}
    for name in readable:
        gpu, count = nodes[name]
        if gpu in unhealthy and not lost[name]:
            unhealthy[gpu] += max(0, count - states.nodes[name].serving)
    values = (
        *(_value(FeedKind.LOST_NODE, name, float(bool(lost[name])), label) for name in readable),
        *(_value(FeedKind.LOST, gpu, float(count), label) for gpu, count in unhealthy.items()),
    )
    names = {node.name for node in cluster.nodes}
    new = [name for name, state in states.nodes.items() if name not in names and state.serving]
    notes = [
        *(
            _note(label, [name for name in readable if lost[name] == why], f"{why}: lost")
            for why in sorted({*lost.values()} - {""})
        ),
        _note(label, [name for name in nodes if name in states.unreadable], "cannot be read: taken as it was before"),
        _note(label, new, "not in the scenario's cluster: not counted"),
    ]
    return values, [note for note in notes if note]


def _why_gone(state: NodeState | None) -> str:
    """Why none of a node's GPUs can be used; "": some can."""
    if state is None:
        return "gone"
    return state.lost or ("" if state.serving else "without a healthy GPU")


def _by_type(scenario: Scenario, states: NodeStates, label: str) -> tuple[tuple[FeedValue, ...], list[str]]:
    """GPUs of each type that there are, up to the scenario's count, and those of them that are out of service."""
    counts = {item.gpu.name: item.count for item in scenario.inventory.items}
    types, unknown = types_of(states)
    present, out = Counter[str](), Counter[str]()
    for name, (gpu, gpus) in types.items():
        present[gpu] += gpus
        out[gpu] += gpus - min(gpus, states.nodes[name].serving)
    if not any(present[gpu] for gpu in counts):
        raise InputError(
            f"{label}: must have nodes with {' or '.join(counts)}, has none whose labels say so.",
            hint="Name another context, or give the scenario its cluster: `planner cluster import`.",
        )
    values: list[FeedValue] = []
    notes = []
    for gpu, count in counts.items():
        available, serving = min(count, present[gpu]), min(count, present[gpu] - out[gpu])
        if serving < count and unknown:
            notes.append(
                f"{label}: {gpu}: fewer than the scenario's are known to serve, and {len(unknown)} nodes with GPUs "
                f"cannot be told ({first_names(unknown)}): taken as before."
            )
            continue
        values.append(_value(FeedKind.INVENTORY, gpu, float(available), label))
        values.append(_value(FeedKind.LOST, gpu, float(available - serving), label))
        if present[gpu] > count:
            notes.append(
                f"{label}: {gpu}: it has more than the scenario's {count}: a loss counts once fewer than these serve "
                "(give the scenario its cluster to watch node by node)."
            )
    return tuple(values), notes


def types_of(states: NodeStates) -> tuple[dict[str, tuple[str, int]], list[str]]:
    """GPU type and whole GPUs of each node with some, and nodes of which nobody can say."""
    selectors = tuple((name, spec.node_selector) for name, spec in load_gpu_specs().items())
    rules = JoinRules(types=GpuTypeNames(selectors=selectors))
    types: dict[str, tuple[str, int]] = {}
    unknown = list(states.unreadable)
    for name, state in states.nodes.items():
        if not state.gpus:
            continue
        try:
            node, _ = join_node((state.report,), rules)
        except InputError:
            unknown.append(name)
            continue
        types[name] = (node.gpu, len(node.gpus))
    return types, unknown


def _value(kind: FeedKind, name: str, value: float, label: str) -> FeedValue:
    return FeedValue(kind=kind, name=name, value=value, where=f"{label}: {name}")


def _note(label: str, names: Sequence[str], text: str) -> str:
    noun = "node" if len(names) == 1 else f"{len(names)} nodes"
    return f"{label}: {noun} {first_names(names)}: {text}." if names else ""
