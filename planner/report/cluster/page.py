"""A cluster on one page: GPUs, pods, switches, and what fits into what is idle."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.domain import Cluster, Fragmentation, PlacedPart
from planner.report.cluster.cluster_fragments import causes_document, causes_lead, causes_table
from planner.report.cluster.cluster_state import ClusterSummary, TypeState, summarize_cluster
from planner.report.kit.markdown import bullets, escaped
from planner.report.kit.quantities import counted, percent, span, whole
from planner.report.kit.tables import Column, counts, fields, table_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED_NODES = 10
"""Nodes that a sentence names; the rest are counted."""


def cluster_page(cluster: Cluster, fragmentation: Fragmentation | None = None) -> str:
    """The cluster as Markdown, ending in a newline. Names from the user are escaped.

    `fragmentation`: of the cluster, against pods like its own; None leaves that table out.
    """
    summary = summarize_cluster(cluster)
    parts = [
        f"# Cluster: {escaped(summary.name)}",
        _headline(summary),
        f"## GPUs\n\n{types_table(summary)}",
        *([f"GPUs in parts, which islands cannot use:\n\n{offers_table(summary)}"] if summary.offers else []),
        f"## Pods\n\n{classes_table(summary)}",
        *_crossing(summary),
        f"## Fragmentation\n\n{_fragment_lead()}\n\n{fragments_table(summary)}",
        *([f"{causes_lead(fragmentation)}\n\n{causes_table(fragmentation)}"] if fragmentation else []),
        *_shut(summary),
        *_unknown(summary),
        f"## Notes\n\n{bullets([escaped(note) for note in summary.notes]) or 'None.'}",
    ]
    return "\n\n".join(parts) + "\n"


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


def types_table(summary: ClusterSummary) -> str:
    """A row a GPU type."""
    return table_of(_TYPE, summary.types).markdown() if summary.types else "None."


_TYPE: tuple[Column[TypeState], ...] = (
    *fields("GPU type=gpu"),
    *counts("Nodes=nodes", "GPUs=gpus", "Held=held", "Idle=idle"),
    Column("Held share", lambda state: state.held / state.gpus, percent),
    *counts("Empty nodes=empty_nodes"),
    Column("Switches", lambda state: len(state.switches), whole),
    Column("Nodes a switch", lambda state: state.switches, span),
)


def offers_table(summary: ClusterSummary) -> str:
    """A row a GPU type and a name under which parts of it are offered."""
    columns: tuple[Column[Any], ...] = (
        *fields("GPU type=gpu", "Resource=resource"),
        *counts("Nodes=nodes", "Pieces=pieces"),
        Column("GPUs held", lambda row: row.held_gpus, "{:g}".format),
    )
    return table_of(columns, summary.offers).markdown()


def classes_table(summary: ClusterSummary) -> str:
    """A row a class of pods that hold GPUs."""
    held = ("Pods=pods", "GPUs=gpus", "CPUs=cpus", "GPUs preemptible=preemptible_gpus", "GPUs locked=locked_gpus")
    rows = [row for row in summary.classes if row.pods]
    return table_of((*fields("Class=kind"), *counts(*held)), rows).markdown() if rows else "No pod holds a GPU."


def _crossing(summary: ClusterSummary) -> list[str]:
    if not summary.alignable:
        return []
    return [
        f"{whole(summary.crossing)} of {counted(summary.alignable, 'pod')} of several GPUs "
        f"{'lies' if summary.crossing == 1 else 'lie'} across sockets though one socket has GPUs enough."
    ]


def _fragment_lead() -> str:
    return "Requests of so many GPUs of one node, whatever the type; stranded GPUs are idle on nodes with fewer."


def fragments_table(summary: ClusterSummary) -> str:
    """A row a request size."""
    share: Column[Any] = Column(
        "Of all idle", lambda row: row.stranded / summary.idle if summary.idle else None, percent
    )
    columns = (*counts("GPUs a request=gpus", "Requests that fit=fit", "GPUs stranded=stranded"), share)
    return table_of(columns, summary.fragments).markdown()


def _shut(summary: ClusterSummary) -> list[str]:
    """Said of GPUs that are neither held nor idle."""
    if not summary.shut:
        return []
    rows = bullets([escaped(row.text) for row in summary.shut])
    return [f"No pod holds these GPUs, and none may have them; they count as neither held nor idle:\n\n{rows}"]


def _unknown(summary: ClusterSummary) -> list[str]:
    if not summary.unknown_nodes:
        return []
    names = [escaped(name) for name in summary.unknown_nodes[:NAMED_NODES]]
    if len(summary.unknown_nodes) > NAMED_NODES:
        names.append(f"{len(summary.unknown_nodes) - NAMED_NODES:,} more")
    return [
        f"On {counted(len(summary.unknown_nodes), 'node')} some pod holds GPUs and nobody said which; their idle GPUs "
        f"count by number, for islands of TP 1 or of placement.qos best_effort or none: {', '.join(names)}."
    ]


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
