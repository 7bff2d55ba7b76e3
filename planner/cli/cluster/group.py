"""`planner cluster`: real clusters read in, made-up ones, and a look at either."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.cluster.diagnose import command as diagnose_command
from planner.cli.cluster.import_cluster import command as import_command
from planner.cli.cluster.import_cluster import flextopo_command, rbac_command
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain import Cluster, Fragmentation
    from planner.placement.clusters.synthetic import NodeType

DEFAULT_SHARES = ("H200=0.4", "H800=0.3", "H20=0.3")

group = typer.Typer(help="Clusters: import, make up, show, diagnose.", no_args_is_help=True)
group.command("import")(import_command)
group.command("rbac")(rbac_command)
group.command("flextopo")(flextopo_command)
group.command("diagnose")(diagnose_command)


@group.command("synth")
def synth_command(
    nodes: Annotated[int, typer.Option(help="Nodes of the cluster.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The cluster file to write.", show_default=False)],
    seed: Annotated[int, typer.Option(help="One seed, one cluster.")] = 0,
    load: Annotated[float, typer.Option(help="Share of the GPUs that pods hold.")] = 0.7,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            help=f"GPU=SHARE of the nodes, once a type. [default: {', '.join(DEFAULT_SHARES)}]",
            metavar="GPU=SHARE",
        ),
    ] = None,
    fit: Annotated[str, typer.Option(help="best: packed and churned; random: fragmented.")] = "best",
    filled: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Share of the GPUs held before tasks leave; 1: as in long use. [default: load]"
        ),
    ] = None,
    numa_per_socket: Annotated[int, typer.Option(help="NUMA nodes of each of the two sockets.")] = 1,
    nodes_per_asw: Annotated[
        tuple[int, int], typer.Option(help="Fewest and most nodes under an access switch.", metavar="FEWEST MOST")
    ] = (32, 64),
    asws_per_aggregation: Annotated[int, typer.Option(help="Access switches under an aggregation switch.")] = 8,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Make up a cluster like Alibaba's ASI: homogeneous switches, a mix of tasks, filled and churned.

    Nodes of types whose NVLink domain is larger than a host (GB200-NVL72) form domains, whole ones under a switch.
    """
    from planner import files
    from planner.placement.clusters.synthetic import Fit, synthesize
    from planner.placement.clusters.synthetic_pods import TaskMix

    if fit not in list(Fit):
        raise InputError(f"--fit: must be best or random, got {fit!r}.", hint="Choose one of the two.")
    files.refuse_existing(out, force=force)  # fails before the work, not after it
    cluster = synthesize(
        nodes,
        seed,
        load,
        types=_types(types or DEFAULT_SHARES, numa_per_socket),
        nodes_per_asw=nodes_per_asw,
        asws_per_aggregation=asws_per_aggregation,
        fit=Fit(fit),
        mix=TaskMix(filled=filled),
    )
    files.write_cluster(cluster, out, force)
    _show_summary(cluster, json=json)
    if not json:
        screen.show_text(f"Written to {out}")


def _types(texts: "list[str] | tuple[str, ...]", numa_per_socket: int) -> "list[NodeType]":
    from planner import files
    from planner.placement.clusters.synthetic import NodeType

    types = []
    for text in texts:
        name, _, share = text.partition("=")
        try:
            weight = float(share)
        except ValueError:
            weight = 0.0
        if not 0 < weight < float("inf"):
            raise InputError(f"--type: must be GPU=SHARE with a share above 0, got {text!r}.", hint="As H200=0.5.")
        spec = files.load_gpu_spec(name)
        types.append(
            NodeType(
                gpu=spec.name,
                share=weight,
                labels=spec.node_selector,
                gpus=spec.gpus_per_host,
                numa_per_socket=numa_per_socket,
                nodes_per_domain=max(1, spec.gpus_per_nvlink_domain // spec.gpus_per_host),
            )
        )
    return types


@group.command("show")
def show_command(
    cluster: Annotated[Path, typer.Argument(help="A cluster file.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="Draw it as FILE.png or FILE.svg; or write FILE.md.")] = None,
    nodes: Annotated[
        str | None,
        typer.Option(help="Only these nodes, in the file's order; either end may be left out.", metavar="FIRST..LAST"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """GPUs by type, pods by class, what fits into what is idle and what keeps pods out; --out: who holds which GPU."""
    from planner import files

    kind = _kind(out)
    if out is not None:
        files.refuse_existing(out, force=force)
    loaded = files.load_cluster(cluster)
    if nodes is not None:
        loaded = _between(loaded, nodes)
    if out is not None:
        files.write_file(out, _drawn(loaded, kind), force=force)
    _show_summary(loaded, json=json)


def _kind(out: Path | None) -> str:
    kind = out.suffix.lower() if out is not None else ""
    if out is not None and kind not in (".png", ".svg", ".md"):
        raise InputError(f"--out: must end in .png, .svg or .md, got {str(out)!r}.", hint="As cluster.png.")
    return kind


def _drawn(cluster: "Cluster", kind: str) -> bytes:
    from planner import report

    if kind == ".md":
        return report.page_text(report.cluster_page(cluster, _fragments(cluster))).encode()
    return report.encode_figure(report.cluster_figure(cluster), "svg" if kind == ".svg" else "png")


def _between(cluster: "Cluster", text: str) -> "Cluster":
    """The part of a cluster between two nodes, both included, and the pods there."""
    from dataclasses import replace

    first, dots, last = text.partition("..")
    names = [node.name for node in cluster.nodes]
    for name in (first, last):
        if name and name not in names:
            raise InputError(
                f"--nodes: must be FIRST..LAST, two nodes of cluster {cluster.name}, got {name!r}.",
                hint="Name nodes as the cluster file does.",
            )
    start = names.index(first) if first else 0
    end = names.index(last if dots else first) + 1 if (last if dots else first) else len(names)
    if start >= end:
        raise InputError(f"--nodes: FIRST must not come after LAST, got {text!r}.", hint="Swap them.")
    part = set(names[start:end])
    return replace(cluster, nodes=cluster.nodes[start:end], pods=tuple(pod for pod in cluster.pods if pod.node in part))


def _show_summary(cluster: "Cluster", *, json: bool) -> None:
    from planner import report

    if json:
        screen.show_json(report.cluster_document(cluster, _fragments(cluster)))
    else:
        screen.show_markdown(report.page_text(report.cluster_page(cluster, _fragments(cluster))))


def _fragments(cluster: "Cluster") -> "Fragmentation":
    from planner.placement.fragmentation import fragments_now

    return fragments_now(cluster)
