"""A cluster from what its nodes, its scheduler and the user say: whatever sources there are, joined and checked."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from planner.domain import CORE_GROUP_SIZE, SWITCH_LEVELS, Cluster, ClusterNode, Pod, require_sound
from planner.domain.node_report import GpuNumaMap, GpuTypeNames, NodeReport
from planner.errors import InputError
from planner.files.cluster.flextopo_files import read_flextopos
from planner.files.cluster.host_probes import read_host
from planner.files.cluster.import_maps import read_devices, read_gpu_numa
from planner.files.kubernetes.kubectl_lists import KubectlLists, read_kubectl
from planner.files.kubernetes.kubectl_times import RULE as TIME_RULE
from planner.files.kubernetes.kubectl_times import parse_time
from planner.files.kubernetes.node_resource_topologies import read_node_resource_topologies
from planner.files.models.gpu_specs import load_gpu_specs
from planner.files.sections import NAME_PATTERN
from planner.placement import flextopo
from planner.placement.clusters.imported_nodes import NO_TYPE_SPEC, JoinRules, join_node, strange_product
from planner.placement.clusters.imported_pods import (
    Claims,
    Notes,
    claims_of,
    pods_of_claims,
    with_claims,
    with_deduced,
    with_devices,
)

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSources:
    """Where a cluster is described. `hosts`: node and folder of its probes; `levels`: level and label of its switches.

    `gpu_types`: product and the planner's type. `gpu_numa`, `devices`: the user's files (see `files.import_maps`).
    `taken_at`: when the kubectl lists were taken ("": at the latest time in them). `preempt_unclassed`: pods without a
    priority class, which Kubernetes runs at priority 0, may be evicted, too.
    """

    name: str = "imported"
    flextopo: tuple[Path, ...] = ()
    nrt: tuple[Path, ...] = ()
    kubectl: tuple[Path, ...] = ()
    hosts: tuple[tuple[str, Path], ...] = ()
    levels: tuple[tuple[str, str], ...] = ()
    gpu_types: tuple[tuple[str, str], ...] = ()
    gpu_numa: Path | None = None
    devices: Path | None = None
    taken_at: str = ""
    core_group_size: int = CORE_GROUP_SIZE
    preempt_unclassed: bool = False


def import_cluster(sources: ClusterSources) -> Cluster:
    """The cluster that the sources describe together. InputError names the object and the field that is wrong."""
    _require_usable(sources)
    lists = read_kubectl(sources.kubectl, _taken_at(sources), preempt_unclassed=sources.preempt_unclassed)
    topologies = _topologies(sources)
    by_node = _by_node(topologies, lists, sources)
    specs = load_gpu_specs()
    rules = _rules(sources, tuple((name, spec.node_selector) for name, spec in specs.items()))
    notes: Notes = list(lists.notes)
    _refuse_strange_map(rules.gpu_numa, by_node)
    by_node, lists = _of_known_types(by_node, lists, rules, notes)
    nodes: dict[str, ClusterNode] = {}
    for name, reports in by_node.items():
        nodes[name], assumed = join_node(reports, rules)
        notes.extend((f"node {name}", note) for note in assumed)
    notes.extend((f"GPU type {gpu}", NO_TYPE_SPEC) for gpu in sorted({n.gpu for n in nodes.values()} - {"", *specs}))
    pods = _pods(lists, by_node, nodes, sources, notes)
    cluster = Cluster(
        name=sources.name,
        nodes=tuple(nodes.values()),
        pods=tuple(sorted(pods, key=lambda pod: pod.key)),
        core_group_size=sources.core_group_size,
        notes=_note_texts(notes),
        disruption_budgets=lists.disruption_budgets,
        levels=sources.levels,
    )
    require_sound(cluster, f"cluster {sources.name}")
    return cluster


def _of_known_types(
    by_node: dict[str, list[NodeReport]], lists: KubectlLists, rules: JoinRules, notes: Notes
) -> tuple[dict[str, list[NodeReport]], KubectlLists]:
    """Nodes whose GPU product is known, as no plan can use the others; all nodes where no known one has GPUs."""
    strange = {node: product for node, reports in by_node.items() if (product := strange_product(reports, rules.types))}
    others = (reports for node, reports in by_node.items() if node not in strange)
    if not strange or not any(report.gpu_count for reports in others for report in reports):
        return by_node, lists
    notes.extend((f"node {node}", f"left out with its pods, as {_why(product)}") for node, product in strange.items())
    gone = {pod.key for pod in lists.pods if pod.node in strange}
    usable = replace(
        lists,
        pods=tuple(pod for pod in lists.pods if pod.key not in gone),
        claims=tuple(key for key in lists.claims if key not in gone),
        left_out=tuple(sorted(gone)),
    )
    return {node: reports for node, reports in by_node.items() if node not in strange}, usable


def _why(product: str) -> str:
    if "-MIG-" in product:
        return f"islands take whole GPUs, and {product} is a slice of one"
    return f"no GPU spec describes {product} (--gpu-type {product}=TYPE)"


def _require_usable(sources: ClusterSources) -> None:
    if not (sources.flextopo or sources.nrt or sources.kubectl or sources.hosts):
        raise InputError(
            "import: must have a source; there is none.", hint="Give --kubectl, --flextopo, --nrt or --host."
        )
    if not NAME_PATTERN.fullmatch(sources.name):
        raise InputError(f"--name: must be a plain name of at most 63 letters, digits, '.', '_' or '-', got "
                         f"{sources.name!r}.", hint="Rename it.")  # fmt: skip
    if sources.core_group_size < 1:
        raise InputError(f"--core-group-size: must be at least 1, got {sources.core_group_size}.", hint="Give 8.")
    _require_once([level for level, _ in sources.levels], "--level")
    _require_once([product for product, _ in sources.gpu_types], "--gpu-type")
    _require_once([node for node, _ in sources.hosts], "--host")
    for level, label in sources.levels:
        if level not in SWITCH_LEVELS or not label:
            raise InputError(
                f"--level: must be {' or '.join(SWITCH_LEVELS)}, with a label, got {level}={label}.",
                hint="For example --level asw=topology.kubernetes.io/rack.",
            )
    for product, gpu in sources.gpu_types:
        if not product or not NAME_PATTERN.fullmatch(gpu):
            raise InputError(
                f"--gpu-type: must be PRODUCT=TYPE, the type a plain name, got {product}={gpu}.",
                hint="For example --gpu-type NVIDIA-H200-NVL=H200.",
            )
    _require_levels(sources)


def _taken_at(sources: ClusterSources) -> datetime | None:
    if not sources.taken_at:
        return None
    try:
        return parse_time(sources.taken_at)
    except ValueError:
        raise InputError(
            f"--taken-at: must be {TIME_RULE}, got {sources.taken_at!r}.",
            hint="Leave it out for the latest time told.",
        ) from None


def _require_once(names: list[str], option: str) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"{option}: {twice[0]} must be given once; it is given twice.", hint="Remove one.")


def _require_levels(sources: ClusterSources) -> None:
    """Switches are read from labels, and only kubectl gives labels."""
    labels = dict(sources.levels)
    if sources.kubectl and "asw" not in labels:
        raise InputError(
            "--level: must say which label names a node's access switch, the level asw; it is missing.",
            hint="Give --level asw=LABEL; `kubectl get nodes --show-labels` shows the labels.",
        )
    if labels and not sources.kubectl:
        raise InputError("--level: needs the labels of nodes, got no --kubectl.", hint="Add --kubectl FILE.")


def _topologies(sources: ClusterSources) -> list[list[NodeReport]]:
    """Reports of each kind of source, the surest first: the node's own probes, FlexTopo, then counts by zone."""
    kinds = [
        [read_host(node, folder) for node, folder in sources.hosts],
        [flextopo.report(topo, origin) for path in sources.flextopo for origin, topo in read_flextopos(path)],
        [report for path in sources.nrt for report in read_node_resource_topologies(path)],
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
    topologies: list[list[NodeReport]], lists: KubectlLists, sources: ClusterSources
) -> dict[str, list[NodeReport]]:
    """Reports of each node, in order of name; where there is a list of nodes, it is the whole cluster."""
    by_node: dict[str, list[NodeReport]] = {}
    for report in (report for reports in topologies for report in reports):
        by_node.setdefault(report.node, []).append(report)
    listed = {report.node: report for report in lists.nodes}
    for node, reports in by_node.items():
        if sources.kubectl and node not in listed:
            raise InputError(
                f"{reports[0].origin}: node {node} must be in the list of nodes of "
                f"{', '.join(map(str, sources.kubectl))}; it is missing there.",
                hint="Take both sources at the same time, or add the node.",
            )
    for node, report in listed.items():
        by_node.setdefault(node, []).append(report)
    return {node: by_node[node] for node in sorted(by_node)}


def _rules(sources: ClusterSources, selectors: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]) -> JoinRules:
    levels = dict(sources.levels)
    return JoinRules(
        types=GpuTypeNames(selectors=selectors, products=sources.gpu_types),
        gpu_numa=read_gpu_numa(sources.gpu_numa) if sources.gpu_numa else None,
        asw_label=levels.get("asw", ""),
        aggregation_label=levels.get("aggregation", ""),
    )


def _refuse_strange_map(numa_map: GpuNumaMap | None, nodes: Container[str]) -> None:
    for name, _ in numa_map.gpus if numa_map else ():
        if numa_map and name not in nodes and name != numa_map.default:
            raise InputError(
                f"{numa_map.file}: {name} must be a node of the cluster, or {numa_map.default}; it is neither.",
                hint="Correct the name, or remove the line.",
            )


def _pods(
    lists: KubectlLists,
    by_node: dict[str, list[NodeReport]],
    nodes: dict[str, ClusterNode],
    sources: ClusterSources,
    notes: Notes,
) -> list[Pod]:
    """Pods and what they hold."""
    claims = {
        report.node: (report.origin, claims_of(report, nodes[report.node], notes))
        for reports in by_node.values()
        for report in reports
        if report.core_users or any(gpu.used_by for gpu in report.gpus)
    }
    if sources.kubectl:
        pods = _listed_pods(lists, claims, notes)
    else:
        pods = [pod for node, (_, claimed) in claims.items() for pod in pods_of_claims(node, claimed)]
    devices = read_devices(sources.devices) if sources.devices else {}
    devices = {key: gpus for key, gpus in devices.items() if key not in lists.left_out}
    _refuse_untold_claims(lists.claims, devices, pods)
    pods = with_devices(pods, devices, nodes, str(sources.devices))
    return with_deduced(pods, nodes, notes)


def _listed_pods(lists: KubectlLists, claims: dict[str, tuple[str, dict[str, Claims]]], notes: Notes) -> list[Pod]:
    by_node: dict[str, list[Pod]] = {}
    for pod in lists.pods:
        by_node.setdefault(pod.node, []).append(pod)
    for node, (origin, claimed) in claims.items():
        by_node[node] = with_claims(by_node.get(node, []), claimed, lists.ended, origin, notes)
    return [pod for pods in by_node.values() for pod in pods]


def _refuse_untold_claims(
    claiming: Sequence[str], devices: dict[str, tuple[int | str, ...]], pods: Sequence[Pod]
) -> None:
    """A resource claim may be for GPUs, which the pod's requests do not show."""
    resolved = {pod.key for pod in pods if pod.gpus}
    for key in claiming:
        if key not in devices and key not in resolved:
            raise InputError(
                f"pod {key}: spec.resourceClaims: must be resolved, as the claims may be for GPUs; nobody says which.",
                hint="Give --devices FILE with a line for the pod (an empty list where it holds no GPU).",
            )


def _note_texts(notes: Notes) -> tuple[str, ...]:
    """Notes in words, those of one text together."""
    subjects: dict[str, list[str]] = {}
    for subject, text in notes:
        if subject not in subjects.setdefault(text, []):
            subjects[text].append(subject)
    return tuple(f"{_listed(names)}: {text}." for text, names in subjects.items())


def _listed(subjects: list[str]) -> str:
    shown = ", ".join(subjects[:_SHOWN])
    return shown if len(subjects) <= _SHOWN else f"{shown} and {len(subjects) - _SHOWN} more"
