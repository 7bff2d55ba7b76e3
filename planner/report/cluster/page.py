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
    found = summarize_cluster(cluster)
    parts = [
        f"# Cluster: {escaped(found.name)}",
        _headline(found),
        f"## GPUs\n\n{types_table(found)}",
        f"## Pods\n\n{classes_table(found)}",
        *_crossing(found),
        f"## Fragmentation\n\n{_fragment_lead()}\n\n{fragments_table(found)}",
        *([f"{causes_lead(fragmentation)}\n\n{causes_table(fragmentation)}"] if fragmentation else []),
        *_unknown(found),
        f"## Notes\n\n{bullets([escaped(note) for note in found.notes]) or 'None.'}",
    ]
    return "\n\n".join(parts) + "\n"


def _headline(found: ClusterSummary) -> str:
    if not found.gpus:
        return f"**{counted(found.nodes, 'node')} without a GPU.**"
    plain = f" and {counted(found.plain_nodes, 'node')} without" if found.plain_nodes else ""
    alone = f"; {whole(found.nodes_without_switch)} under no known switch" if found.nodes_without_switch else ""
    above = f", {counted(found.aggregations, 'aggregation switch')}".replace("switchs", "switches")
    held = found.gpus - found.idle
    return (
        f"**{whole(held)} of {whole(found.gpus)} GPUs are held ({percent(held / found.gpus)})**, "
        f"{whole(found.idle)} are idle. {counted(found.nodes - found.plain_nodes, 'node')} with GPUs{plain}, "
        f"{whole(found.switches)} access {'switch' if found.switches == 1 else 'switches'}"
        f"{above if found.aggregations else ''}{alone}."
    )


def types_table(found: ClusterSummary) -> str:
    """A row a GPU type."""
    header = ["GPU type", "Nodes", "GPUs", "Held", "Idle", "Held share", "Empty nodes", "Switches", "Nodes a switch"]
    rows = [_type_row(one) for one in found.types]
    return table(header, rows, "l" + "r" * 8) if rows else "None."


def _type_row(one: TypeState) -> list[str]:
    return [
        escaped(one.gpu),
        *(whole(value) for value in (one.nodes, one.gpus, one.held, one.idle)),
        percent(one.held / one.gpus),
        whole(one.empty_nodes),
        whole(len(one.switches)),
        span(one.switches),
    ]


def classes_table(found: ClusterSummary) -> str:
    """A row a class of pods that hold GPUs."""
    rows = [
        [one.kind, *map(whole, (one.pods, one.gpus, one.cpus, one.preemptible_gpus, one.locked_gpus))]
        for one in found.classes
        if one.pods
    ]
    header = ["Class", "Pods", "GPUs", "CPUs", "GPUs preemptible", "GPUs locked"]
    return table(header, rows, "lrrrrr") if rows else "No pod holds a GPU."


def _crossing(found: ClusterSummary) -> list[str]:
    if not found.alignable:
        return []
    return [
        f"{whole(found.crossing)} of {counted(found.alignable, 'pod')} of several GPUs "
        f"{'lies' if found.crossing == 1 else 'lie'} across sockets though one socket has GPUs enough."
    ]


def _fragment_lead() -> str:
    return "Requests of so many GPUs of one node, whatever the type; stranded GPUs are idle on nodes with fewer."


def fragments_table(found: ClusterSummary) -> str:
    """A row a request size."""
    rows = [
        [
            whole(one.gpus),
            whole(one.fit),
            whole(one.stranded),
            percent(one.stranded / found.idle) if found.idle else NONE,
        ]
        for one in found.fragments
    ]
    return table(["GPUs a request", "Requests that fit", "GPUs stranded", "Of all idle"], rows, "rrrr")


def _unknown(found: ClusterSummary) -> list[str]:
    if not found.unknown_nodes:
        return []
    named = [escaped(name) for name in found.unknown_nodes[:NAMED_NODES]]
    if len(found.unknown_nodes) > NAMED_NODES:
        named.append(f"{len(found.unknown_nodes) - NAMED_NODES:,} more")
    return [
        f"On {counted(len(found.unknown_nodes), 'node')} some pod holds GPUs and nobody said which; they take no "
        f"further GPU work, and their idle GPUs count as stranded: {', '.join(named)}."
    ]


def cluster_document(cluster: Cluster, fragmentation: Fragmentation | None = None) -> dict[str, object]:
    """The page's figures as JSON has them; `fragmentation` in milli-GPU."""
    found = summarize_cluster(cluster)
    document = asdict(found)
    document["types"] = [asdict(one) | {"idle": one.idle} for one in found.types]
    if fragmentation is not None:
        document["fragmentation"] = causes_document(fragmentation)
    return document | {"gpus": found.gpus, "idle": found.idle}


def cluster_figure(cluster: Cluster, parts: Iterable[PlacedPart] = ()) -> "Figure":
    """Who holds which GPU, node by node, or the shares under each switch of a large cluster; `parts` are a plan's."""
    from planner.report.cluster import cluster_panels  # noqa: PLC0415  # matplotlib takes a second to load
    from planner.report.kit import style  # noqa: PLC0415  # matplotlib takes a second to load

    with style.look():
        return cluster_panels.draw(cluster, parts)
