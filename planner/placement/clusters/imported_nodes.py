"""Several reports of one node joined into one: each gives what it knows, and where two speak, they must agree."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from planner.domain import ClusterNode, NodeGpu, NumaNode
from planner.domain.node_report import GpuNumaMap, GpuTypeNames, NodeReport
from planner.errors import InputError

Told = TypeVar("Told")

NO_CORES = "cores are not known: only the number of CPUs is checked there, not that cores lie near their GPUs"
ASSUMED_SOCKETS = "sockets are not told: each NUMA node is taken for a socket"
COUNTED_NUMA = "which GPU lies in which NUMA node is not told: taken in rising order from the counts"
NO_SWITCH = "access switches are not known"
NO_TYPE_SPEC = "no GPU spec describes this type: plans cannot use it"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRules:
    """What the user says about all nodes: names of GPU types, NUMA nodes of GPUs, the label of each switch level."""

    types: GpuTypeNames
    gpu_numa: GpuNumaMap | None = None
    asw_label: str = ""
    aggregation_label: str = ""


def join_node(reports: Sequence[NodeReport], rules: JoinRules) -> tuple[ClusterNode, tuple[str, ...]]:
    """The node that the reports describe, the surest source first, and notes on what was assumed.

    InputError names the two sources that disagree, or what no source tells.
    """
    node = reports[0].node
    count = _agreed(reports, lambda report: report.gpu_count, "GPUs") or 0
    indices = _indices(reports, count)
    numa_nodes, notes = _numa_nodes(reports, rules.gpu_numa, count)
    near = _near(reports, indices, rules.gpu_numa, notes) if count else {}
    uuids = _merged(reports, lambda report: {gpu.index: gpu.uuid for gpu in report.gpus if gpu.uuid}, "uuid of GPU")
    labels = _first(reports, lambda report: report.labels)
    if count and not any(numa.cores for numa in numa_nodes):
        notes.append(NO_CORES)
    if not rules.asw_label:
        notes.append(NO_SWITCH)
    joined = ClusterNode(
        name=node,
        gpu=_type(reports, rules.types) if count else "",
        gpus=tuple(NodeGpu(index=i, uuid=uuids.get(i, f"GPU-{node}-{i}"), numa=near[i]) for i in indices),
        numa_nodes=numa_nodes,
        cpus=_last_figure(reports, lambda report: report.cpus),
        memory_gb=_last_figure(reports, lambda report: report.memory_gb),
        asw=_switch(node, labels, rules.asw_label, bool(count), reports),
        aggregation=_switch(node, labels, rules.aggregation_label, bool(count), reports),
        nics=_first(reports, lambda report: report.nics),
        labels=labels,
        taints=_first(reports, lambda report: report.taints),
    )
    return joined, (*notes, *(note for report in reports for note in report.notes))


def _first(reports: Sequence[NodeReport], values: Callable[[NodeReport], tuple[Told, ...]]) -> tuple[Told, ...]:
    return next((listed for report in reports if (listed := values(report))), ())


def _last_figure(reports: Sequence[NodeReport], value: Callable[[NodeReport], float | None]) -> float:
    """What the last source says, as that is the cluster itself where it was asked; 0 where none does."""
    return next((figure for report in reversed(reports) if (figure := value(report)) is not None), 0.0)


def _differ(subject: str, first: NodeReport | str, came: object, other: NodeReport | str, there: object) -> InputError:
    here, elsewhere = (source if isinstance(source, str) else source.origin for source in (first, other))
    return InputError(
        f"{here}: {subject} must agree with {elsewhere}, got {came} and {there}.",
        hint="Take both at the same time, or leave one source out.",
    )


def _agreed(reports: Sequence[NodeReport], value: Callable[[NodeReport], int | None], subject: str) -> int | None:
    figures = [(report, figure) for report in reports if (figure := value(report)) is not None]
    for report, figure in figures[1:]:
        if figure != figures[0][1]:
            raise _differ(f"node {report.node}: {subject}", figures[0][0], figures[0][1], report, figure)
    return figures[0][1] if figures else None


def _merged(
    reports: Sequence[NodeReport], values: Callable[[NodeReport], Mapping[int, str]], subject: str
) -> dict[int, str]:
    merged: dict[int, tuple[NodeReport, str]] = {}
    for report in reports:
        for key, value in values(report).items():
            other, there = merged.setdefault(key, (report, value))
            if there != value:
                raise _differ(f"node {report.node}: {subject} {key}", other, there, report, value)
    return {key: value for key, (_, value) in merged.items()}


def _indices(reports: Sequence[NodeReport], count: int) -> tuple[int, ...]:
    """GPU indices; they are counted from 0 where no source lists them."""
    lists = [(report, tuple(sorted(gpu.index for gpu in report.gpus))) for report in reports if report.gpus]
    for report, indices in lists[1:]:
        if indices != lists[0][1]:
            raise _differ(f"node {report.node}: GPU indices", lists[0][0], list(lists[0][1]), report, list(indices))
    return lists[0][1] if lists else tuple(range(count))


def _numa_nodes(
    reports: Sequence[NodeReport], numa_map: GpuNumaMap | None, count: int
) -> tuple[tuple[NumaNode, ...], list[str]]:
    """NUMA nodes with cores of the surest source, and sockets and memory of whoever tells them."""
    numa_reports = [report for report in reports if report.numa_nodes]
    if not numa_reports:
        return _made_up(reports[0], numa_map, count)
    for report in numa_reports[1:]:
        ours, theirs = (sorted(numa.id for numa in r.numa_nodes) for r in (numa_reports[0], report))
        if ours != theirs:
            raise _differ(f"node {report.node}: NUMA ids", numa_reports[0], ours, report, theirs)
    sockets, sure = _sockets(numa_reports, numa_map)
    memory = {numa.id: numa.memory_gb for report in numa_reports for numa in report.numa_nodes if numa.memory_gb}
    joined = tuple(
        replace(numa, socket=sockets[numa.id], memory_gb=memory.get(numa.id, 0.0))
        for numa in numa_reports[0].numa_nodes
    )
    return joined, [] if sure or not count else [ASSUMED_SOCKETS]


def _sockets(numa_reports: Sequence[NodeReport], numa_map: GpuNumaMap | None) -> tuple[dict[int, int], bool]:
    """The socket of each NUMA node, and whether somebody told it."""
    sure = [report for report in numa_reports if report.sockets_known]
    maps = [(report, {numa.id: numa.socket for numa in report.numa_nodes}) for report in sure]
    for report, sockets in maps[1:]:
        if sockets != maps[0][1]:
            raise _differ(f"node {report.node}: sockets of NUMA nodes", maps[0][0], maps[0][1], report, sockets)
    if maps:
        return maps[0][1], True
    ids = [numa.id for numa in numa_reports[0].numa_nodes]
    listed = numa_map.sockets_of(numa_reports[0].node) if numa_map else None
    if numa_map and listed is not None:
        return _listed_sockets(numa_reports[0].node, ids, listed, numa_map.file), True
    return {numa.id: numa.socket for numa in numa_reports[0].numa_nodes}, False


def _listed_sockets(node: str, ids: Iterable[int], listed: tuple[int, ...], file: str) -> dict[int, int]:
    missing = [numa for numa in ids if numa >= len(listed)]
    if missing:
        raise InputError(
            f"{file}: {node}.sockets must give the socket of each NUMA id; there is none for {missing[0]}.",
            hint="List one socket a NUMA id, from id 0 on.",
        )
    return {numa: listed[numa] for numa in ids}


def _made_up(report: NodeReport, numa_map: GpuNumaMap | None, count: int) -> tuple[tuple[NumaNode, ...], list[str]]:
    """NUMA nodes that the user's map names; a node without GPUs needs none."""
    if not count:
        return (), []
    listed = numa_map.of(report.node) if numa_map else None
    if numa_map is None or listed is None:
        raise _unknown_numa(report, "its GPUs")
    ids = sorted(set(listed))
    sockets = numa_map.sockets_of(report.node)
    if sockets is None:
        return tuple(NumaNode(id=numa, socket=numa) for numa in ids), [ASSUMED_SOCKETS]
    socket_of = _listed_sockets(report.node, ids, sockets, numa_map.file)
    return tuple(NumaNode(id=numa, socket=socket_of[numa]) for numa in ids), []


def _unknown_numa(report: NodeReport, subject: str) -> InputError:
    return InputError(
        f"{report.origin}: node {report.node}: the NUMA node of {subject} must be known; no source tells it.",
        hint="Give --gpu-numa FILE (NODE or default: NUMA id of each GPU), --host, --nrt, or FlexTopo objects with "
        "edges `nearby` (the published agent writes none).",
    )


def _near(
    reports: Sequence[NodeReport], indices: tuple[int, ...], numa_map: GpuNumaMap | None, notes: list[str]
) -> dict[int, int]:
    """The NUMA node of each GPU."""
    sources = [
        (report.origin, {gpu.index: gpu.numa for gpu in report.gpus if gpu.numa is not None}) for report in reports
    ]
    node = reports[0].node
    complete = any(len(near) == len(indices) for _, near in sources)
    if numa_map is not None and (numa_map.names(node) or not complete) and (listed := numa_map.of(node)) is not None:
        if len(listed) != len(indices):
            raise _differ(f"node {node}: GPUs", numa_map.file, len(listed), reports[0], len(indices))
        sources.append((numa_map.file, dict(zip(indices, listed, strict=True))))
    near: dict[int, tuple[str, int]] = {}
    for origin, numas in sources:
        for index, numa in numas.items():
            other, there = near.setdefault(index, (origin, numa))
            if there != numa:
                raise _differ(f"node {node}: NUMA node of GPU {index}", other, there, origin, numa)
    numa_of = {index: numa for index, (_, numa) in near.items()}
    return _with_counts(reports, indices, numa_of, notes)


def _with_counts(
    reports: Sequence[NodeReport], indices: tuple[int, ...], near: dict[int, int], notes: list[str]
) -> dict[int, int]:
    """What is known so far, held against the counts of each NUMA node, or taken from them where nothing is known."""
    counted = next((report for report in reports if any(count for _, count in report.gpus_per_numa)), None)
    if counted is not None and not near:
        notes.append(COUNTED_NUMA)
        order = [numa for numa, count in counted.gpus_per_numa for _ in range(count)]
        return dict(zip(indices, order, strict=True))
    missing = [index for index in indices if index not in near]
    if missing:
        raise _unknown_numa(reports[0], f"GPU {missing[0]}")
    if counted is not None:
        counts = {numa: count for numa, count in counted.gpus_per_numa if count}
        if counts != dict(Counter(near.values())):
            other_counts = dict(sorted(Counter(near.values()).items()))
            raise _differ(
                f"node {counted.node}: GPUs of each NUMA node", counted, counts, "the other sources", other_counts
            )
    return near


def _type(reports: Sequence[NodeReport], types: GpuTypeNames) -> str:
    """The type of a node's GPUs, by labels and by product names."""
    gpu_types: list[tuple[NodeReport, str]] = []
    for report in reports:
        if report.labels and (label_type := _type_of_labels(report, types)):
            gpu_types.append((report, label_type))
        for product in sorted({gpu.product for gpu in report.gpus if gpu.product}):
            gpu_types.append((report, _type_of_product(report, product, types)))
    for report, gpu in gpu_types[1:]:
        if gpu != gpu_types[0][1]:
            raise _differ(f"node {report.node}: GPU type", gpu_types[0][0], gpu_types[0][1], report, gpu)
    if not gpu_types:
        keys = sorted({key for _, selector in types.selectors for key, _ in selector})
        raise InputError(
            f"{reports[0].origin}: node {reports[0].node}: the type of its GPUs must be known; it lacks the label "
            f"{' or '.join(keys)}, and no source names their product.",
            hint="Run GPU feature discovery, or give --host or --flextopo.",
        )
    return gpu_types[0][1]


def _type_of_labels(report: NodeReport, types: GpuTypeNames) -> str | None:
    """The type whose selector fits the labels; what the user says of a product stands above it."""
    labels = dict(report.labels)
    keys = sorted({key for _, selector in types.selectors for key, _ in selector if key in labels})
    products = [product for product in (labels[key] for key in keys) if product in dict(types.products)]
    fitting = [(len(s), gpu) for gpu, s in types.selectors if s and all(labels.get(k) == v for k, v in s)]
    if fitting and not products:
        return max(fitting)[1]
    return _type_of_product(report, (products or [labels[key] for key in keys])[0], types) if keys else None


def strange_product(reports: Sequence[NodeReport], types: GpuTypeNames) -> str:
    """The product of a node's GPUs where every source that tells one tells this, and nobody knows its type; else ""."""
    keys = {key for _, selector in types.selectors for key, _ in selector}
    labelled = (value for report in reports for key, value in report.labels if key in keys)
    gpu_products = (gpu.product for report in reports for gpu in report.gpus if gpu.product)
    products = {product.replace(" ", "-") for product in (*labelled, *gpu_products)}
    return min(products) if len(products) == 1 and not products & _types_by_product(types).keys() else ""


def _types_by_product(types: GpuTypeNames) -> dict[str, str]:
    gpu_of = {value: gpu for gpu, selector in types.selectors for _, value in selector}
    gpu_of |= {gpu: gpu for gpu, _ in types.selectors} | {name.replace(" ", "-"): gpu for name, gpu in types.products}
    return gpu_of | {gpu: gpu for _, gpu in types.products}


def _type_of_product(report: NodeReport, product: str, types: GpuTypeNames) -> str:
    """The type of a product; a label has dashes where nvidia-smi's name has blanks."""
    gpu_of = _types_by_product(types)
    gpu = gpu_of.get(product.replace(" ", "-"))
    if gpu is None:
        listed = ", ".join(f"{name} ({type_})" for name, type_ in sorted(gpu_of.items()) if name != type_)
        raise InputError(
            f"{report.origin}: node {report.node}: GPU product must be a known one, got {product!r}.",
            hint=f"Give --gpu-type {product.replace(' ', '-')}=TYPE. The known products are {listed}.",
        )
    return gpu


def _switch(
    node: str, labels: tuple[tuple[str, str], ...], key: str, needed: bool, reports: Sequence[NodeReport]
) -> str:
    """The switch that a label names; a node without GPUs may do without."""
    name = dict(labels).get(key, "") if key else ""
    if key and needed and not name:
        raise InputError(
            f"{reports[-1].origin}: node {node}: must have the label {key}, which --level names; it is missing.",
            hint="Label the node, or name another label.",
        )
    return name
