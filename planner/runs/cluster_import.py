"""A cluster from what its nodes, its scheduler and the user say: whatever sources there are, joined and checked.

A node that cannot be read, that is over-committed or holds pods that nobody can count is left out with its pods, and a
note says why; nothing of it is repaired. `strict` refuses instead.
"""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from planner.domain import SWITCH_LEVELS, Cluster, ClusterNode, Pod, require_sound
from planner.domain.node_report import GpuNumaMap, GpuTypeNames, NodeReport
from planner.domain.soundness import require_sound_node
from planner.errors import InputError
from planner.files.cluster.flextopo_files import KIND as FLEXTOPO
from planner.files.cluster.flextopo_files import flextopo_of, read_flextopos
from planner.files.cluster.host_probes import read_host
from planner.files.cluster.import_maps import read_devices, read_gpu_numa, usual_boards
from planner.files.kubernetes.kubectl_lists import KINDS, KubectlLists, read_kubectl
from planner.files.kubernetes.kubernetes_objects import objects_of
from planner.files.kubernetes.node_resource_topologies import KIND as NRT
from planner.files.kubernetes.node_resource_topologies import read_node_resource_topologies, report_of
from planner.files.models.gpu_specs import load_gpu_specs
from planner.placement import flextopo
from planner.placement.clusters.imported_levels import levels_of, split_switches
from planner.placement.clusters.imported_nodes import NO_TYPE_SPEC, JoinRules, join_node
from planner.placement.clusters.imported_pods import (
    Claims,
    Notes,
    claims_of,
    pods_of_claims,
    with_claims,
    with_deduced,
    with_devices,
)
from planner.report.kit.quantities import first_names
from planner.runs.cluster_sources import ClusterSources, require_usable, taken_at_of
from planner.runs.live.api_resources import IMPORT, ServerLists, resources_of

__all__ = ["ClusterSources", "import_cluster"]

_SHOWN = 3
GONE = "passed over: the server has no such node any more"
LEFT_OUT = "left out with its pods"
UNRESOLVED = (
    f"{LEFT_OUT}: one of them claims devices, perhaps GPUs, and nobody says which (add resourceclaims to "
    "the list, or give --devices FILE with a line for the pod, empty where it holds no GPU)"
)


@dataclass(slots=True)
class _LeftOut:
    """Nodes that are left out, and the notes; where `strict`, the first of them refuses the import."""

    strict: bool
    notes: Notes
    nodes: set[str] = field(default_factory=set)

    def add(self, node: str, fault: InputError, origin: str = "") -> None:
        """Leave a node out, as `fault` says; `origin`: the source, whose name the note need not repeat."""
        if self.strict:
            raise fault
        if node not in self.nodes:
            reason = fault.message.removeprefix(f"{origin}: ").removeprefix(f"node {node}: ").rstrip(".")
            self.notes.append((f"node {node}", f"{LEFT_OUT}: {reason} ({fault.hint.rstrip('.')})"))
        self.nodes.add(node)


def import_cluster(sources: ClusterSources) -> Cluster:
    """The cluster that the sources describe together. InputError names the object and the field that is wrong."""
    require_usable(sources)
    taken_at = taken_at_of(sources)
    answer = ServerLists(lists={})
    if sources.kubernetes is not None:
        answer = sources.kubernetes.read(resources_of(IMPORT), strict=sources.strict)
    lists = read_kubectl(
        sources.kubectl,
        taken_at,
        answers=answer.of_kinds(*KINDS),
        answered_at=answer.answered_at,
        preempt_unclassed=sources.preempt_unclassed,
    )
    notes: Notes = [*answer.notes, *lists.notes]
    left_out = _LeftOut(sources.strict, notes)
    for name, fault in lists.unreadable:
        left_out.add(name, fault)
    by_node = _by_node(_topologies(sources, answer, lists, notes), lists, sources, left_out)
    specs = load_gpu_specs()
    levels = _levels(sources, by_node, notes)
    rules = _rules(levels, sources, tuple((name, spec.node_selector) for name, spec in specs.items()))
    _refuse_strange_map(rules.gpu_numa, by_node, left_out.nodes)
    nodes = _joined(by_node, rules, left_out, notes)
    notes.extend((f"GPU type {gpu}", NO_TYPE_SPEC) for gpu in sorted({n.gpu for n in nodes.values()} - {"", *specs}))
    pods = _pods(lists, by_node, nodes, sources, left_out)
    nodes, pods = _within(nodes, pods, left_out)
    notes.extend((f"switch {asw}", "is named under several aggregation switches: taken as one switch")
                 for asw in split_switches([(n.asw, n.aggregation) for n in nodes.values()]))  # fmt: skip
    if not nodes:
        why = _note_texts([(subject, text) for subject, text in notes if text.startswith(LEFT_OUT)])
        raise InputError(
            f"import: must have at least one node that can be read; it has none. {' '.join(why[:_SHOWN])}",
            hint="Mend what it says of them, or give other sources.",
        )
    cluster = Cluster(
        name=sources.name,
        nodes=tuple(nodes.values()),
        pods=tuple(sorted(pods, key=lambda pod: pod.key)),
        core_group_size=sources.core_group_size,
        notes=_note_texts(notes),
        disruption_budgets=lists.disruption_budgets,
        levels=levels,
    )
    require_sound(cluster, f"cluster {sources.name}")
    return cluster


def _joined(
    by_node: Mapping[str, Sequence[NodeReport]], rules: JoinRules, left_out: _LeftOut, notes: Notes
) -> dict[str, ClusterNode]:
    """Each node of its reports. A fault of the user's own file refuses the import, whatever it is about."""
    nodes: dict[str, ClusterNode] = {}
    for name, reports in by_node.items():
        try:
            node, assumed = join_node(reports, rules)
            require_sound_node(node, reports[0].origin)
        except InputError as fault:
            if rules.gpu_numa and fault.message.startswith(rules.gpu_numa.file):
                raise
            left_out.add(name, fault, reports[0].origin)
            continue
        nodes[name] = node
        notes.extend((f"node {name}", note) for note in assumed)
    return nodes


def _levels(
    sources: ClusterSources, by_node: Mapping[str, Sequence[NodeReport]], notes: Notes
) -> tuple[tuple[str, str], ...]:
    """The label of each switch level: what the user says, else what labels say by themselves."""
    for level, label in sources.levels:
        if level not in SWITCH_LEVELS:
            notes.append((f"--level {level}={label}", f"passed over: levels are {' and '.join(SWITCH_LEVELS)}"))
    stated = tuple((level, label) for level, label in sources.levels if level in SWITCH_LEVELS)
    if stated:
        return stated
    hosts = [
        dict(report.labels)
        for reports in by_node.values()
        for report in reports
        if report.labels and any(other.gpu_count or other.whole_gpus for other in reports)
    ]
    levels, note = levels_of(hosts) if sources.labelled else ((), "access switches are not known")
    notes.extend([("switches", note)] if note else [])
    return levels


def _within(
    nodes: dict[str, ClusterNode], pods: Sequence[Pod], left_out: _LeftOut
) -> tuple[dict[str, ClusterNode], list[Pod]]:
    """Nodes with pods that they can have, and these pods."""
    by_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        by_node[pod.node].append(pod)
    for name, node_pods in by_node.items():
        if name in nodes:
            try:
                require_sound_node(nodes[name], "pods", node_pods)
            except InputError as fault:
                left_out.add(name, fault, "pods")
        elif name not in left_out.nodes:
            place = f"pod {node_pods[0].key}: node must be in the list of nodes"
            left_out.add(name, InputError(f"{place}, got {name!r}.", hint="Take both lists at the same time."))
    readable = {name: node for name, node in nodes.items() if name not in left_out.nodes}
    return readable, [pod for pod in pods if pod.node in readable]


def _topologies(
    sources: ClusterSources, answer: ServerLists, lists: KubectlLists, notes: Notes
) -> list[list[NodeReport]]:
    """Reports of each kind of source, the surest first: the node's own probes, FlexTopo, then counts by zone. Objects
    that a server still has of nodes that are gone are passed over."""
    listed = {report.node for report in lists.nodes} | {name for name, _ in lists.unreadable}
    objects = objects_of(answer.of_kinds(FLEXTOPO, NRT), (FLEXTOPO, NRT))
    notes += [(f"{item.kind} {item.name}", GONE) for item in objects if item.name not in listed]
    stored = {kind: [item for item in objects if item.kind == kind and item.name in listed] for kind in (FLEXTOPO, NRT)}
    topos = [
        *(pair for path in sources.flextopo for pair in read_flextopos(path)),
        *((item.body.file, flextopo_of(item)) for item in stored[FLEXTOPO]),
    ]
    kinds = [
        [read_host(node, folder) for node, folder in sources.hosts],
        [flextopo.report(topo, origin) for origin, topo in topos],
        [
            *(report for path in sources.nrt for report in read_node_resource_topologies(path)),
            *map(report_of, stored[NRT]),
        ],
    ]
    for reports in kinds:
        reported: dict[str, NodeReport] = {}
        for report in reports:
            other = reported.setdefault(report.node, report)
            if other is not report:
                raise InputError(
                    f"{report.origin}: node {report.node} must be described once; {other.origin} does, too.",
                    hint="Leave one of the two out.",
                )
    return kinds


def _by_node(
    topologies: list[list[NodeReport]], lists: KubectlLists, sources: ClusterSources, left_out: _LeftOut
) -> dict[str, list[NodeReport]]:
    """Reports of each node, in order of name; where there is a list of nodes, it is the whole cluster."""
    by_node: dict[str, list[NodeReport]] = {}
    for report in (report for reports in topologies for report in reports):
        by_node.setdefault(report.node, []).append(report)
    listed = {report.node: report for report in lists.nodes}
    by_node = {node: reports for node, reports in by_node.items() if node not in left_out.nodes}
    for node, reports in by_node.items():
        if sources.labelled and node not in listed:
            raise InputError(
                f"{reports[0].origin}: node {node} must be in the list of nodes of {sources.labelled}; it is missing "
                "there.",
                hint="Take both sources at the same time, or add the node.",
            )
    for node, report in listed.items():
        if node in left_out.nodes:
            continue
        by_node.setdefault(node, []).append(report)
    return {node: by_node[node] for node in sorted(by_node)}


def _rules(
    levels: tuple[tuple[str, str], ...],
    sources: ClusterSources,
    selectors: tuple[tuple[str, tuple[tuple[str, str], ...]], ...],
) -> JoinRules:
    labels = dict(levels)
    return JoinRules(
        types=GpuTypeNames(selectors=selectors, products=sources.gpu_types),
        gpu_numa=read_gpu_numa(sources.gpu_numa) if sources.gpu_numa else None,
        asw_label=labels.get("asw", ""),
        aggregation_label=labels.get("aggregation", ""),
        boards=usual_boards(),
        strict=sources.strict,
    )


def _refuse_strange_map(numa_map: GpuNumaMap | None, nodes: Container[str], left_out: Container[str]) -> None:
    for name, _ in numa_map.gpus if numa_map else ():
        if numa_map and name not in nodes and name not in left_out and name != numa_map.default:
            raise InputError(
                f"{numa_map.file}: {name} must be a node of the cluster, or {numa_map.default}; it is neither.",
                hint="Correct the name, or remove the line.",
            )


def _pods(
    lists: KubectlLists,
    by_node: dict[str, list[NodeReport]],
    nodes: dict[str, ClusterNode],
    sources: ClusterSources,
    left_out: _LeftOut,
) -> list[Pod]:
    """Pods and what they hold; those of nodes that are left out are gone."""
    notes = left_out.notes
    claims = {
        report.node: (report.origin, claims_of(report, nodes[report.node], notes))
        for name, reports in by_node.items()
        for report in reports
        if name in nodes and (report.core_users or any(gpu.used_by for gpu in report.gpus))
    }
    if sources.labelled:
        pods = _listed_pods(lists, claims, left_out)
    else:
        pods = [pod for node, (_, claimed) in claims.items() for pod in pods_of_claims(node, claimed)]
    gone = {pod.key for pod in pods if pod.node in left_out.nodes}
    pods = [pod for pod in pods if pod.key not in gone]
    devices = read_devices(sources.devices) if sources.devices else {}
    devices = {key: gpus for key, gpus in devices.items() if key not in gone}
    pods = _without_unresolved(lists.claims, devices, pods, left_out)
    pods = with_devices(pods, devices, nodes, str(sources.devices))
    return with_deduced(pods, nodes, notes)


def _listed_pods(
    lists: KubectlLists, claims: dict[str, tuple[str, dict[str, Claims]]], left_out: _LeftOut
) -> list[Pod]:
    by_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in lists.pods:
        by_node[pod.node].append(pod)
    for node, (origin, claimed) in claims.items():
        try:
            by_node[node] = with_claims(by_node.get(node, []), claimed, lists.ended, origin, left_out.notes)
        except InputError as fault:
            left_out.add(node, fault, origin)
    return [pod for pods in by_node.values() for pod in pods]


def _without_unresolved(
    claiming: Sequence[str], devices: dict[str, tuple[int | str, ...]], pods: list[Pod], left_out: _LeftOut
) -> list[Pod]:
    """Pods without those of nodes where one claims devices that may be GPUs: its requests do not show them."""
    unresolved = {key for key in claiming if key not in devices}
    for pod in pods:
        if pod.key in unresolved and not pod.gpus:
            if left_out.strict:
                raise InputError(
                    f"pod {pod.key}: spec.resourceClaims: must be resolved, as the claims may be for GPUs; nobody says "
                    "which.",
                    hint="Give --devices FILE with a line for the pod (an empty list where it holds no GPU).",
                )
            left_out.notes.append((f"node {pod.node}", UNRESOLVED))
            left_out.nodes.add(pod.node)
    return [pod for pod in pods if pod.node not in left_out.nodes]


def _note_texts(notes: Notes) -> tuple[str, ...]:
    """Notes in words, those of one text together."""
    subjects: dict[str, dict[str, None]] = {}
    for subject, text in notes:
        subjects.setdefault(text, {})[subject] = None
    return tuple(f"{first_names(list(names), _SHOWN)}: {text}." for text, names in subjects.items())
