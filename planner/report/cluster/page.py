"""A cluster on one page: GPUs, pods, switches, and what fits into what is idle."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from planner.domain import Cluster, Fragmentation, PlacedPart
from planner.report.cluster.cluster_fragments import causes_document, causes_lead, causes_table
from planner.report.cluster.cluster_state import ClusterSummary, TypeState, summarize_cluster
from planner.report.kit.markdown import bullets, escaped, table
from planner.report.kit.quantities import NONE, counted, percent, span, whole

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
    header = ["GPU type", "Nodes", "GPUs", "Held", "Idle", "Held share", "Empty nodes", "Switches", "Nodes a switch"]
    rows = [_type_row(state) for state in summary.types]
    return table(header, rows, "l" + "r" * 8) if rows else "None."


def _type_row(state: TypeState) -> list[str]:
    return [
        escaped(state.gpu),
        *(whole(value) for value in (state.nodes, state.gpus, state.held, state.idle)),
        percent(state.held / state.gpus),
        whole(state.empty_nodes),
        whole(len(state.switches)),
        span(state.switches),
    ]


def offers_table(summary: ClusterSummary) -> str:
    """A row a GPU type and a name under which parts of it are offered."""
    header = ["GPU type", "Resource", "Nodes", "Pieces", "GPUs held"]
    rows = [
        [escaped(row.gpu), escaped(row.resource), whole(row.nodes), whole(row.pieces), f"{row.held_gpus:g}"]
        for row in summary.offers
    ]
    return table(header, rows, "llrrr")


def classes_table(summary: ClusterSummary) -> str:
    """A row a class of pods that hold GPUs."""
    rows = [
        [row.kind, *map(whole, (row.pods, row.gpus, row.cpus, row.preemptible_gpus, row.locked_gpus))]
        for row in summary.classes
        if row.pods
    ]
    header = ["Class", "Pods", "GPUs", "CPUs", "GPUs preemptible", "GPUs locked"]
    return table(header, rows, "lrrrrr") if rows else "No pod holds a GPU."


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
    rows = [
        [
            whole(row.gpus),
            whole(row.fit),
            whole(row.stranded),
            percent(row.stranded / summary.idle) if summary.idle else NONE,
        ]
        for row in summary.fragments
    ]
    return table(["GPUs a request", "Requests that fit", "GPUs stranded", "Of all idle"], rows, "rrrr")


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
