"""A cluster on one page: GPUs, pods, switches, what fits into what is idle; as frames and as JSON, too."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.domain import WHOLE_GPU, Cluster, ClusterNode, Fragmentation, FragmentCause, PlacedPart, TypicalPod
from planner.domain.diagnosis import ClusterDiagnosis, RequestDiagnosis, StrandingCause
from planner.report.cluster.cluster_state import ClusterSummary, TypeState, summarize_cluster
from planner.report.cluster.diagnosis_words import CAUSES, REQUEST_CAUSES, change_words
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.quantities import NONE, counted, percent, span, whole
from planner.report.kit.tables import Column, Frame, counts, fields, frame_of, matrix, table_of
from planner.report.kit.tree import Block, DataTable, Page, Prose, paragraphs, section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CLASSES = 12
"""Classes that the page lists, the most frequent ones."""

NOISE = 1e-6
LEAST_GPUS = 0.1
"""GPUs: what is told as whole, and the least that is told."""

_CAUSES = ("short_of_gpu", "short_of_cpu", "short_of_both", "not_allowed", "too_small")
_HEADER = ("Share", "Usable", "Too few GPUs", "Too few CPUs", "Too few of both")
_RARE = {"not_allowed": "Other model", "too_small": "Too full"}


def causes_table(fragmentation: Fragmentation) -> DataTable:
    """A row a class of pods, GPUs by what becomes of them; the last row weighs the classes by their share."""
    rare = [name for name in _RARE if any(getattr(cause, name) for _, cause in fragmentation.classes)]
    total = sum(pod.weight for pod, _ in fragmentation.classes)
    ordered = sorted(fragmentation.classes, key=lambda item: -item[0].weight)
    rows = [(_words(pod), (percent(pod.weight / total), *_cells(cause, rare))) for pod, cause in ordered[:MOST_CLASSES]]
    if len(ordered) > MOST_CLASSES:
        unlisted = percent(sum(pod.weight for pod, _ in ordered[MOST_CLASSES:]) / total)
        rows.append((f"{len(ordered) - MOST_CLASSES:,} further kinds", (unlisted, *[NONE] * (4 + len(rare)))))
    rows.append(("expected", ("", *_cells(fragmentation.causes, rare))))
    return matrix((*_HEADER, *(_RARE[name] for name in rare)), rows, "Pods like").block()


def causes_lead(fragmentation: Fragmentation) -> str:
    """What the table shows, in a sentence or two."""
    kinds = "Kinds are those of the pods with GPUs that run here, where there are none requests of 1, 2, 4 and 8 GPUs."
    if not fragmentation.idle_gpu_milli:
        return kinds
    return (
        f"Of the {_gpus(fragmentation.idle_gpu_milli)} GPUs that are idle, where it is known which, the next pod "
        f"cannot use **{percent(fragmentation.ratio)}** on average. {kinds} Idle GPUs by what keeps each "
        "kind from them:"
    )


def _cells(cause: FragmentCause, rare: list[str]) -> list[str]:
    names = ("usable", *(name for name in _CAUSES if name not in _RARE), *rare)
    return [_gpus(getattr(cause, name)) for name in names]


def _gpus(milli: float) -> str:
    """GPUs, to a tenth where they are not whole."""
    gpus = milli / WHOLE_GPU
    if abs(gpus - round(gpus)) < NOISE:
        return whole(gpus)
    return f"{gpus:,.1f}" if gpus >= LEAST_GPUS else f"<{LEAST_GPUS:g}"


def _words(pod: TypicalPod) -> str:
    cpus = f", {pod.cpu_milli / 1000:g} CPUs" if pod.cpu_milli else ""
    part = (
        f"{pod.gpu_milli / WHOLE_GPU:g} GPU" if pod.gpu_milli < WHOLE_GPU else f"{pod.gpus} GPU{'s' * (pod.gpus > 1)}"
    )
    spec = f", {pod.gpu_spec}" if pod.gpu_spec else ""
    return (part if pod.gpus else "no GPU") + cpus + spec


def causes_document(fragmentation: Fragmentation) -> dict[str, object]:
    """The same as JSON has it, milli-GPU; every class."""
    return {
        "idle_gpu_milli": fragmentation.idle_gpu_milli,
        "ratio": fragmentation.ratio,
        "causes": asdict(fragmentation.causes),
        "classes": [asdict(pod) | {"causes": asdict(cause)} for pod, cause in fragmentation.classes],
    }


NAMED_NODES = 10
"""Nodes that a sentence names; the rest are counted."""


def cluster_page(cluster: Cluster, fragmentation: Fragmentation | None = None) -> Page:
    """The cluster. `fragmentation`: of it, against pods like its own; None leaves that table out."""
    summary = summarize_cluster(cluster)
    offers = (*paragraphs("GPUs in parts, which islands cannot use:"), offers_table(summary)) if summary.offers else ()
    causes: tuple[Block, ...] = ()
    if fragmentation:
        idle = fragmentation.idle_gpu_milli
        causes = (
            *paragraphs(causes_lead(fragmentation)),
            causes_table(fragmentation) if idle else Prose(markdown=_NONE_IDLE),
        )
    shut = listed([escaped(row.text) for row in summary.shut])
    fragments = (*paragraphs(_FRAGMENTS), fragments_table(summary), *causes, *paragraphs(_SHUT if shut else ""), *shut)
    held_by = (*_or_words(classes_table(summary), "No pod holds a GPU."), *paragraphs(_crossing(summary)))
    return Page(
        title=f"Cluster: {summary.name}",
        verdict=_headline(summary),
        sections=(
            section("gpus", "GPUs", *_or_words(types_table(summary), "None."), *offers),
            section("pods", "Pods", *held_by),
            section("fragmentation", "Fragmentation", *fragments, *_unknown(summary)),
            section("notes", "Notes", *(listed([escaped(note) for note in summary.notes]) or paragraphs("None."))),
        ),
    )


_NONE_IDLE = "No GPU is idle."
_FRAGMENTS = "Requests of so many GPUs of one node, whatever the type; stranded GPUs are idle on nodes with fewer."
_SHUT = "No pod holds these GPUs, and none may have them; they count as neither held nor idle:"


def _or_words(table: DataTable, words: str) -> tuple[Block, ...]:
    return (table,) if table.rows else paragraphs(words)


def _headline(summary: ClusterSummary) -> str:
    if not summary.gpus and summary.offers:
        return f"**No whole GPU on {counted(summary.nodes, 'node')}: GPUs are offered in parts alone.**"
    if not summary.gpus:
        return f"**{counted(summary.nodes, 'node')} without a GPU.**"
    plain = f" and {counted(summary.plain_nodes, 'node')} without" if summary.plain_nodes else ""
    alone = f"; {whole(summary.nodes_without_switch)} under no known switch" if summary.nodes_without_switch else ""
    above = f", {counted(summary.aggregations, 'aggregation switch')}".replace("switchs", "switches")
    busy = sum(state.held for state in summary.types)
    return (
        f"**{whole(busy)} of {whole(summary.gpus)} GPUs are held ({percent(busy / summary.gpus)})**, "
        f"{whole(summary.idle)} are idle. {counted(summary.nodes - summary.plain_nodes, 'node')} with GPUs{plain}, "
        f"{whole(summary.switches)} access {'switch' if summary.switches == 1 else 'switches'}"
        f"{above if summary.aggregations else ''}{alone}."
    )


def types_table(summary: ClusterSummary) -> DataTable:
    """A row a GPU type."""
    return table_of(_TYPE, summary.types).block()


_TYPE: tuple[Column[TypeState], ...] = (
    *fields("GPU type=gpu"),
    *counts("Nodes=nodes", "GPUs=gpus", "Held=held", "Idle=idle"),
    Column("Held share", lambda state: state.held / state.gpus, percent),
    *counts("Empty nodes=empty_nodes"),
    Column("Switches", lambda state: len(state.switches), whole),
    Column("Nodes a switch", lambda state: state.switches, span),
)


def offers_table(summary: ClusterSummary) -> DataTable:
    """A row a GPU type and a name under which parts of it are offered."""
    columns: tuple[Column[Any], ...] = (
        *fields("GPU type=gpu", "Resource=resource"),
        *counts("Nodes=nodes", "Pieces=pieces"),
        Column("GPUs held", lambda row: row.held_gpus, "{:g}".format),
    )
    return table_of(columns, summary.offers).block()


def classes_table(summary: ClusterSummary) -> DataTable:
    """A row a class of pods that hold GPUs."""
    columns = ("Pods=pods", "GPUs=gpus", "CPUs=cpus", "GPUs preemptible=preemptible_gpus", "GPUs locked=locked_gpus")
    rows = [row for row in summary.classes if row.pods]
    return table_of((*fields("Class=kind"), *counts(*columns)), rows).block()


def _crossing(summary: ClusterSummary) -> str:
    if not summary.alignable:
        return ""
    return (
        f"{whole(summary.crossing)} of {counted(summary.alignable, 'pod')} of several GPUs "
        f"{'lies' if summary.crossing == 1 else 'lie'} across sockets though one socket has GPUs enough."
    )


def fragments_table(summary: ClusterSummary) -> DataTable:
    """A row a request size."""
    share: Column[Any] = Column(
        "Of all idle", lambda row: row.stranded / summary.idle if summary.idle else None, percent
    )
    columns = (*counts("GPUs a request=gpus", "Requests that fit=fit", "GPUs stranded=stranded"), share)
    return table_of(columns, summary.fragments).block()


def _unknown(summary: ClusterSummary) -> tuple[Block, ...]:
    if not summary.unknown_nodes:
        return ()
    names = [escaped(name) for name in summary.unknown_nodes[:NAMED_NODES]]
    if len(summary.unknown_nodes) > NAMED_NODES:
        names.append(f"{len(summary.unknown_nodes) - NAMED_NODES:,} more")
    return paragraphs(
        f"On {counted(len(summary.unknown_nodes), 'node')} some pod holds GPUs and nobody said which; their idle GPUs "
        f"count by number, for islands of TP 1 or of placement.qos best_effort or none: {', '.join(names)}."
    )


def cluster_document(cluster: Cluster, fragmentation: Fragmentation | None = None) -> dict[str, object]:
    """The page's figures as JSON has them; `fragmentation` in milli-GPU."""
    summary = summarize_cluster(cluster)
    document = asdict(summary)
    document["types"] = [asdict(state) | {"idle": state.idle} for state in summary.types]
    if fragmentation is not None:
        document["fragmentation"] = causes_document(fragmentation)
    return document | {"gpus": summary.gpus, "idle": summary.idle}


def cluster_figure(cluster: Cluster, parts: Iterable[PlacedPart] = ()) -> "Figure":
    """Who holds which GPU, node by node, or the shares under each switch of a large cluster; `parts` are a plan's."""
    from planner.report.cluster import cluster_panels  # noqa: PLC0415  # matplotlib takes a second to load
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    with style.look():
        return cluster_panels.draw(cluster, parts)


def _cause(cause: StrandingCause) -> Column[RequestDiagnosis]:
    return Column(CAUSES[cause], lambda row: row.of(cause))


def _change(row: RequestDiagnosis, place: int) -> str:
    return change_words(row.changes[place]) if len(row.changes) > place else ""


_REQUEST: tuple[Column[RequestDiagnosis], ...] = (
    *fields("gpu", "request=request.name", "idle_gpus", "fit"),
    Column("best_change", lambda row: _change(row, 0)),
    Column("next_change", lambda row: _change(row, 1)),
    *(_cause(cause) for cause in REQUEST_CAUSES),
)


def cluster_frame(cluster: Cluster) -> Frame:
    """One row a node; `held`: GPUs that pods have, or asked for where nobody says which."""
    held_gpus: Counter[str] = Counter()
    pods = Counter(pod.node for pod in cluster.pods)
    for pod in cluster.pods:
        held_gpus[pod.node] += len(pod.gpus) or pod.gpu_request
    columns: tuple[Column[ClusterNode], ...] = (
        *fields("node=name", "gpu"),
        Column("gpus", lambda node: len(node.gpus)),
        Column("held", lambda node: held_gpus[node.name]),
        Column("idle", lambda node: max(0, len(node.gpus) - held_gpus[node.name])),
        *fields("asw", "aggregation", "nvlink_domain"),
        Column("pods", lambda node: pods[node.name]),
    )
    return table_of(columns, cluster.nodes).frame()


def diagnosis_frame(diagnosis: ClusterDiagnosis) -> Frame:
    """One row a GPU type ("": all) and request: how often it fits, what would open most, idle GPUs by cause."""
    return table_of(_REQUEST, diagnosis.requests).frame()


def fragments_frame(fragmentation: Fragmentation) -> Frame:
    """One row a kind of pod that the cluster runs: how frequent it is, idle GPUs that it could use, and those that it
    could not for want of GPUs, CPUs or both on their node."""
    return frame_of(
        {
            "gpus": pod.gpus,
            "cpus": pod.cpu_milli / 1000,
            "share": pod.popularity,
            "usable": cause.usable / 1000,
            "too few GPUs": cause.short_of_gpu / 1000,
            "too few CPUs": cause.short_of_cpu / 1000,
            "too few of both": cause.short_of_both / 1000,
        }
        for pod, cause in fragmentation.classes
    )
