"""Several reports of one node joined into one: each gives what it knows, and where two speak, they must agree."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TypeVar

from planner.domain import ClusterNode, NodeGpu, NumaNode
from planner.domain.node_report import GpuName, GpuNumaMap, GpuTypeNames, NodeReport, UsualBoard
from planner.errors import InputError

_STRANGE = re.compile(r"[^A-Za-z0-9._-]+")
_SEPARATORS = re.compile(r"[\W_]+")
Listed = TypeVar("Listed")

NO_CORES = "cores are not known: only the number of CPUs is checked there, not that cores lie near their GPUs"
ASSUMED_SOCKETS = "sockets are not told: each NUMA node is taken for a socket"
COUNTED_NUMA = "which GPU lies in which NUMA node is not told: taken in rising order from the counts"
USUAL_BOARD = "which GPU lies in which NUMA node is not told: taken as on the usual board of {gpu} ({numa}; --gpu-numa)"
TWO_SOCKETS = (
    "which GPU lies in which NUMA node is not told: taken as half near each of two sockets ({numa}; --gpu-numa)"
)
NO_LABEL = "lacks the label {label}, so that its {level} switch is not known"
NO_TYPE_SPEC = (
    "no GPU spec describes this type: plans cannot use it (add one to gpu_specs, or give --gpu-type PRODUCT=TYPE where "
    "it is a known type under another name)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRules:
    """What the user says about all nodes: names of GPU types, NUMA nodes of GPUs, the label of each switch level;
    `boards`: what is usual where nobody says it; `strict`: a node with GPUs must have these labels.
    """

    types: GpuTypeNames
    gpu_numa: GpuNumaMap | None = None
    asw_label: str = ""
    aggregation_label: str = ""
    boards: tuple[UsualBoard, ...] = ()
    strict: bool = False


def join_node(reports: Sequence[NodeReport], rules: JoinRules) -> tuple[ClusterNode, tuple[str, ...]]:
    """The node that the reports describe, the surest source first, and notes on what was assumed.

    InputError names the two sources that disagree, or what no source tells.
    """
    node = reports[0].node
    whole_count = next((report.whole_gpus for report in reports if report.whole_gpus is not None), None)
    count = _agreed_gpus(reports) or whole_count or 0
    offers = _first(reports, lambda report: report.offers)
    notes: list[str] = []
    gpu = _type(reports, rules.types, notes, needed=bool(count)) if count or offers else ""
    all_indices = _indices(reports, count)
    numa_nodes, near = (
        _places(reports, all_indices, rules, gpu, notes)
        if count
        else (_first(reports, lambda report: report.numa_nodes), {})
    )
    # Which GPUs are cut up is not told: the first ones stand for those that are whole.
    indices = all_indices if whole_count is None else all_indices[:whole_count]
    uuids = _merged(reports, lambda report: {gpu.index: gpu.uuid for gpu in report.gpus if gpu.uuid}, "uuid of GPU")
    labels = _first(reports, lambda report: report.labels)
    if indices and not any(numa.cores for numa in numa_nodes):
        notes.append(NO_CORES)
    if rules.strict and indices:
        _require_labels(reports[-1].origin, node, labels, (rules.asw_label, rules.aggregation_label))
    joined = ClusterNode(
        name=node,
        gpu=gpu,
        gpus=tuple(NodeGpu(index=i, uuid=uuids.get(i, f"GPU-{node}-{i}"), numa=near[i]) for i in indices),
        numa_nodes=numa_nodes,
        cpus=_last_figure(reports, lambda report: report.cpus),
        memory_gb=_last_figure(reports, lambda report: report.memory_gb),
        # A node without GPUs needs no switch, and gets no note about one.
        asw=_switch(labels, "access", rules.asw_label, notes if indices else []),
        aggregation=_switch(labels, "aggregation", rules.aggregation_label, notes if indices else []),
        nvlink_domain=next((report.nvlink_domain for report in reports if report.nvlink_domain), ""),
        nics=_first(reports, lambda report: report.nics),
        labels=labels,
        taints=_first(reports, lambda report: report.taints),
        offers=offers,
    )
    return joined, (*notes, *(note for report in reports for note in report.notes))


def _first(reports: Sequence[NodeReport], values: Callable[[NodeReport], tuple[Listed, ...]]) -> tuple[Listed, ...]:
    return next((listed for report in reports if (listed := values(report))), ())


def _last_figure(reports: Sequence[NodeReport], value: Callable[[NodeReport], float | None]) -> float:
    """What the last source says, as that is the cluster itself where it was asked; 0 where none does."""
    return next((figure for report in reversed(reports) if (figure := value(report)) is not None), 0.0)


def _differ(
    subject: str, first: NodeReport | str, here_value: object, other: NodeReport | str, there_value: object
) -> InputError:
    here, elsewhere = (source if isinstance(source, str) else source.origin for source in (first, other))
    return InputError(
        f"{here}: {subject} must agree with {elsewhere}, got {here_value} and {there_value}.",
        hint="Take both at the same time, or leave one source out.",
    )


def _agreed_gpus(reports: Sequence[NodeReport]) -> int | None:
    counts = [(report, report.gpu_count) for report in reports if report.gpu_count is not None]
    for report, count in counts[1:]:
        if count != counts[0][1]:
            raise _differ(f"node {report.node}: GPUs", *counts[0], report, count)
    return counts[0][1] if counts else None


def _merged(
    reports: Sequence[NodeReport], values: Callable[[NodeReport], Mapping[int, str]], subject: str
) -> dict[int, str]:
    merged: dict[int, tuple[NodeReport, str]] = {}
    for report in reports:
        for key, value in values(report).items():
            other, known_value = merged.setdefault(key, (report, value))
            if known_value != value:
                raise _differ(f"node {report.node}: {subject} {key}", other, known_value, report, value)
    return {key: value for key, (_, value) in merged.items()}


def _indices(reports: Sequence[NodeReport], count: int) -> tuple[int, ...]:
    """GPU indices; they are counted from 0 where no source lists them."""
    lists = [(report, tuple(sorted(gpu.index for gpu in report.gpus))) for report in reports if report.gpus]
    for report, indices in lists[1:]:
        if indices != lists[0][1]:
            raise _differ(f"node {report.node}: GPU indices", lists[0][0], list(lists[0][1]), report, list(indices))
    return lists[0][1] if lists else tuple(range(count))


def _places(
    reports: Sequence[NodeReport], indices: tuple[int, ...], rules: JoinRules, gpu: str, notes: list[str]
) -> tuple[tuple[NumaNode, ...], dict[int, int]]:
    """NUMA nodes, and the one of each GPU: as sources say, else as the user's map does, else as on the usual board."""
    numa_map = _fitting(rules.gpu_numa, reports[0].node, len(indices))
    board = _board_of(reports, gpu, len(indices), rules.boards)
    if not any(report.numa_nodes for report in reports):
        if numa_map is None or numa_map.of(reports[0].node) is None:
            notes.append(_usual(gpu, board, board.numa))
            numa_nodes = tuple(NumaNode(id=numa, socket=board.sockets[numa]) for numa in sorted(set(board.numa)))
            return numa_nodes, dict(zip(indices, board.numa, strict=True))
        numa_nodes, assumptions = _made_up(reports[0], numa_map)
    else:
        numa_nodes, assumptions = _numa_nodes(reports, numa_map)
    notes += assumptions
    near = _near(reports, indices, numa_map, notes)
    if missing := [index for index in indices if index not in near]:
        spread = _spread([numa.id for numa in numa_nodes], board, len(indices))
        notes.append(_usual(gpu, board, spread))
        near = near | {index: spread[indices.index(index)] for index in missing}
    return numa_nodes, near


def _usual(gpu: str, board: UsualBoard, numa: Sequence[int]) -> str:
    text = USUAL_BOARD if board.types or board.machine else TWO_SOCKETS
    return text.format(gpu=gpu, numa=", ".join(map(str, numa)))


def _fitting(numa_map: GpuNumaMap | None, node: str, count: int) -> GpuNumaMap | None:
    """The user's map where it speaks of this node; its default is for nodes of as many GPUs."""
    if numa_map is None or numa_map.names(node):
        return numa_map
    listed = numa_map.of(node)
    return numa_map if listed is not None and len(listed) == count else None


def _board_of(reports: Sequence[NodeReport], gpu: str, count: int, boards: Sequence[UsualBoard]) -> UsualBoard:
    """The first board that fits; else two sockets with half of the GPUs each, one with a single GPU."""
    machines = {report.machine.lower() for report in reports if report.machine}
    for board in boards:
        if len(board.numa) == count and (
            gpu in board.types or (board.machine and any(fnmatchcase(name, board.machine) for name in machines))
        ):
            return board
    first = (count + 1) // 2
    return UsualBoard(numa=(0,) * first + (1,) * (count - first), sockets=(0, 1))


def _spread(ids: Sequence[int], board: UsualBoard, count: int) -> tuple[int, ...]:
    """The board's NUMA nodes; where the node has others, its own in rising order, as many GPUs near each."""
    if set(board.numa) <= set(ids):
        return board.numa
    return tuple(sorted(ids)[at * len(ids) // count] for at in range(count))


def _numa_nodes(reports: Sequence[NodeReport], numa_map: GpuNumaMap | None) -> tuple[tuple[NumaNode, ...], list[str]]:
    """NUMA nodes with cores of the surest source, and sockets and memory of whoever tells them."""
    numa_reports = [report for report in reports if report.numa_nodes]
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
    return joined, [] if sure else [ASSUMED_SOCKETS]


def _sockets(numa_reports: Sequence[NodeReport], numa_map: GpuNumaMap | None) -> tuple[dict[int, int], bool]:
    """The socket of each NUMA node, and whether somebody told it."""
    sure = [report for report in numa_reports if report.sockets_known]
    maps = [(report, {numa.id: numa.socket for numa in report.numa_nodes}) for report in sure]
    for report, sockets in maps[1:]:
        if sockets != maps[0][1]:
            raise _differ(f"node {report.node}: sockets of NUMA nodes", maps[0][0], maps[0][1], report, sockets)
    # What a source tells stands above the user's list, which is for nodes of whom nobody tells it.
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


def _made_up(report: NodeReport, numa_map: GpuNumaMap) -> tuple[tuple[NumaNode, ...], list[str]]:
    """NUMA nodes that the user's map names."""
    ids = sorted(set(numa_map.of(report.node) or ()))
    sockets = numa_map.sockets_of(report.node)
    if sockets is None:
        return tuple(NumaNode(id=numa, socket=numa) for numa in ids), [ASSUMED_SOCKETS]
    socket_of = _listed_sockets(report.node, ids, sockets, numa_map.file)
    return tuple(NumaNode(id=numa, socket=socket_of[numa]) for numa in ids), []


def _near(
    reports: Sequence[NodeReport], indices: tuple[int, ...], numa_map: GpuNumaMap | None, notes: list[str]
) -> dict[int, int]:
    """The NUMA node of each GPU."""
    sources = [
        (report.origin, {gpu.index: gpu.numa for gpu in report.gpus if gpu.numa is not None}) for report in reports
    ]
    node = reports[0].node
    complete = any(len(near) == len(indices) for _, near in sources)
    # The map's default must not argue with what a source says of a node; a line for this node must.
    if numa_map is not None and (numa_map.names(node) or not complete) and (listed := numa_map.of(node)) is not None:
        if len(listed) != len(indices):
            raise _differ(f"node {node}: GPUs", numa_map.file, len(listed), reports[0], len(indices))
        sources.append((numa_map.file, dict(zip(indices, listed, strict=True))))
    near: dict[int, tuple[str, int]] = {}
    for origin, numas in sources:
        for index, numa in numas.items():
            other, near_numa = near.setdefault(index, (origin, numa))
            if near_numa != numa:
                raise _differ(f"node {node}: NUMA node of GPU {index}", other, near_numa, origin, numa)
    numa_of = {index: numa for index, (_, numa) in near.items()}
    return _with_counts(reports, indices, numa_of, notes)


def _with_counts(
    reports: Sequence[NodeReport], indices: tuple[int, ...], near: dict[int, int], notes: list[str]
) -> dict[int, int]:
    """What is known so far, compared with the counts of each NUMA node, or taken from them where nothing is known."""
    counted = next((report for report in reports if any(count for _, count in report.gpus_per_numa)), None)
    if counted is not None and not near:
        notes.append(COUNTED_NUMA)
        order = [numa for numa, count in counted.gpus_per_numa for _ in range(count)]
        return dict(zip(indices, order, strict=True))
    if counted is not None and all(index in near for index in indices):
        counts = {numa: count for numa, count in counted.gpus_per_numa if count}
        if counts != dict(Counter(near.values())):
            other_counts = dict(sorted(Counter(near.values()).items()))
            raise _differ(
                f"node {counted.node}: GPUs of each NUMA node", counted, counts, "the other sources", other_counts
            )
    return near


def _type(reports: Sequence[NodeReport], types: GpuTypeNames, notes: list[str], *, needed: bool) -> str:
    """The type of a node's GPUs, by labels and by product names. What nobody knows is a type of its own name; "" where
    none is named and none `needed`.
    """
    gpu_types: list[tuple[NodeReport, str]] = []
    for report in reports:
        if label_type := type_of_labels(dict(report.labels), report.gpu_names, types, notes):
            gpu_types.append((report, label_type))
        for product in sorted({gpu.product for gpu in report.gpus if gpu.product}):
            gpu_types.append((report, _type_of_product(product, types)))
    for report, gpu in gpu_types[1:]:
        if gpu != gpu_types[0][1]:
            raise _differ(f"node {report.node}: GPU type", gpu_types[0][0], gpu_types[0][1], report, gpu)
    if not gpu_types and not needed:
        return ""
    if not gpu_types:
        raise InputError(
            f"{reports[0].origin}: node {reports[0].node}: the type of its GPUs must be known; no label names it, and "
            "no source its product.",
            hint="Run GPU feature discovery, or give --host or --flextopo.",
        )
    return gpu_types[0][1]


def type_of_labels(labels: Mapping[str, str], names: Sequence[GpuName], types: GpuTypeNames, notes: list[str]) -> str:
    """The type that a node's labels name, `names` among them: what the user says of a value, what a GPU spec's selector
    fits, what a known value of the surest label says, else the surest value itself; "" where no label names any.
    """
    by_user = dict(types.products)
    chosen_by_user = [by_user[name.value] for name in names if name.value in by_user]
    # Of several selectors that fit, the one with most labels is the most particular.
    fitting = [(len(s), gpu) for gpu, s in types.selectors if s and all(labels.get(k) == v for k, v in s)]
    by_label = [(name, _known_type(name.value, types) or name.gpu) for name in names]
    chosen = next(iter(chosen_by_user), "") or max(fitting, default=(0, ""))[1] or _by_trust(by_label, types)
    strange = [name.label for name, gpu in by_label if gpu and gpu != chosen and not chosen_by_user]
    if strange:
        notes.append(f"GPUs are {chosen} by its label {by_label[0][0].label}, whatever its label {strange[0]} says")
    return chosen


def _by_trust(by_label: Sequence[tuple[GpuName, str]], types: GpuTypeNames) -> str:
    """The first known type; what the driver says stands above all else, known or not."""
    sure = [(name, gpu) for name, gpu in by_label if name.of_driver] or by_label
    known_types = [gpu for _, gpu in sure if gpu]
    return known_types[0] if known_types else _unlike(_plain(sure[0][0].value), types) if sure else ""


def _known_type(value: str, types: GpuTypeNames) -> str:
    """The type of a product by GPU specs' labels, the types' names and the user; a label has dashes for blanks."""
    gpu_of = {value: gpu for gpu, selector in types.selectors for _, value in selector}
    # Later entries win, so that the user's word stands above all others.
    gpu_of |= {gpu: gpu for gpu, _ in types.selectors} | {name.replace(" ", "-"): gpu for name, gpu in types.products}
    return (gpu_of | {gpu: gpu for _, gpu in types.products}).get(value.replace(" ", "-"), "")


def _type_of_product(product: str, types: GpuTypeNames) -> str:
    return _known_type(product, types) or _unlike(_plain(product), types)


def _unlike(name: str, types: GpuTypeNames) -> str:
    """The name of a type that is not known, told apart from those that are: case and separators do not count there."""
    known_names = {_SEPARATORS.sub("", gpu).casefold() for gpu, _ in types.selectors}
    return f"{name}-other" if _SEPARATORS.sub("", name).casefold() in known_names else name


def _plain(product: str) -> str:
    """A product's name as a type's: letters, digits, dots, dashes."""
    # The most that Kubernetes takes for a label's value.
    return _STRANGE.sub("-", product).strip("-._")[:63]


def _require_labels(origin: str, node: str, labels: tuple[tuple[str, str], ...], keys: Iterable[str]) -> None:
    for key in keys:
        if key and not dict(labels).get(key):
            raise InputError(
                f"{origin}: node {node}: must have the label {key}, which names its switch; it is missing.",
                hint="Label the node, name another label with --level, or leave --strict out.",
            )


def _switch(labels: tuple[tuple[str, str], ...], level: str, key: str, notes: list[str]) -> str:
    """The switch that a label names; "" where the node lacks it."""
    name = dict(labels).get(key, "") if key else ""
    if key and not name:
        notes.append(NO_LABEL.format(label=key, level=level))
    return name
