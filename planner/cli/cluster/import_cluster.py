"""`planner cluster import`, `planner cluster flextopo`: a cluster from what a cluster says, its topology objects."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.option_records import with_records
from planner.cli.program.shared_options import KubernetesFlags
from planner.domain import Pod

if TYPE_CHECKING:
    from planner.domain import Cluster

Paths = list[Path] | None
Texts = list[str] | None


@with_records
def command(
    out: Annotated[Path, typer.Option(help="Cluster file to write, .yaml or .json.")],
    source: KubernetesFlags,
    name: Annotated[str, typer.Option(help="Name of the cluster.")] = "imported",
    flextopo: Annotated[Paths, typer.Option(help="FlexTopo objects (YAML or JSON); several times.")] = None,
    nrt: Annotated[Paths, typer.Option(help="NodeResourceTopology objects; several times.")] = None,
    kubectl: Annotated[
        Paths, typer.Option(help="`kubectl get nodes,pods,pdb,resourceclaims -A -o json`; several times.")
    ] = None,
    host: Annotated[
        Texts,
        typer.Option(
            metavar="NODE=DIR", help="Folder with a node's lscpu.txt, topo.txt (nvidia-smi, rocm-smi), gpus.csv."
        ),
    ] = None,
    level: Annotated[
        Texts,
        typer.Option(
            metavar="LEVEL=LABEL",
            help="Node label that names the asw, or the aggregation switch. [default: labels of providers]",
        ),
    ] = None,
    gpu_numa: Annotated[
        Path | None,
        typer.Option(help="YAML: node or `default`, and the NUMA id of each GPU. [default: the usual board]"),
    ] = None,
    gpu_type: Annotated[
        Texts, typer.Option(metavar="PRODUCT=TYPE", help="Type of a GPU product that no GPU spec names.")
    ] = None,
    devices: Annotated[
        Path | None, typer.Option(help="YAML: namespace/pod, and its GPUs (index or UUID), as kubelet tells them.")
    ] = None,
    taken_at: Annotated[
        str, typer.Option(metavar="TIME", help="When the kubectl lists were taken. [default: the latest time in them]")
    ] = "",
    preempt_unclassed: Annotated[
        bool, typer.Option("--preempt-unclassed", help="Pods without a priority class may be evicted, at priority 0.")
    ] = False,
    core_group_size: Annotated[int, typer.Option(help="Cores of a core group.")] = 8,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse what would be left out or passed over.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Read nodes and pods of a real cluster. Sources may cover the same node, and must agree there.

    kubectl, or the cluster itself, gives labels, taints, what pods may have, and pods; FlexTopo, NodeResourceTopology
    and host files give the topology. What cannot be read is left out with a note, or refused with --strict.
    """
    from planner import files
    from planner.files.cluster.clusters import write_cluster
    from planner.runs.cluster_import import import_cluster
    from planner.runs.cluster_sources import ClusterSources

    files.refuse_existing(out, force=force)
    cluster = import_cluster(
        ClusterSources(
            name=name,
            flextopo=tuple(flextopo or ()),
            nrt=tuple(nrt or ()),
            kubectl=tuple(kubectl or ()),
            hosts=tuple((node, Path(folder)) for node, folder in _pairs("--host", host)),
            levels=_pairs("--level", level),
            gpu_types=_pairs("--gpu-type", gpu_type),
            gpu_numa=gpu_numa,
            devices=devices,
            taken_at=taken_at,
            core_group_size=core_group_size,
            preempt_unclassed=preempt_unclassed,
            strict=strict,
            kubernetes=source.cluster(),
        )
    )
    write_cluster(cluster, out, force)
    facts = {
        "cluster": cluster.name,
        "file": str(out),
        "nodes": len(cluster.nodes),
        "gpus": cluster.gpus,
        "idle_gpus": cluster.idle_gpus,
        "pods": len(cluster.pods),
        **_parts(cluster),
        "notes": list(cluster.notes),
    }
    if json:
        screen.show_json(facts)
        return
    screen.show_table("Cluster", ("what", "value"), [(k, _shown(v)) for k, v in facts.items() if k != "notes"])
    for note in cluster.notes:
        screen.show_warning(note)


def _parts(cluster: "Cluster") -> dict[str, object]:
    """Parts of GPUs that nodes offer; nothing where none does."""
    parts: Counter[str] = Counter()
    for node in cluster.nodes:
        parts.update(dict(node.offers))
    return {"offers": dict(sorted(parts.items()))} if parts else {}


def _shown(value: object) -> str:
    return ", ".join(f"{key}: {count}" for key, count in value.items()) if isinstance(value, dict) else str(value)


def _pairs(option: str, texts: Texts) -> tuple[tuple[str, str], ...]:
    """`A=B` each, split at the first equals sign."""
    from planner.errors import InputError

    for text in texts or ():
        if not all(text.partition("=")):
            raise InputError(f"{option}: must be two words joined by '=', got {text!r}.", hint="See --help.")
    return tuple((text.partition("=")[0], text.partition("=")[2]) for text in texts or ())


def flextopo_command(
    cluster: Annotated[Path, typer.Argument(help="A cluster file.")],
    out: Annotated[Path, typer.Option(help="Folder for one NODE.yaml a node.")],
    dialect: Annotated[
        str, typer.Option(help="paper, or agent (the published agent's: without the NUMA nodes of GPUs).")
    ] = "paper",
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier result.")] = False,
) -> None:
    """Write one FlexTopo object a node, with who uses its cores and GPUs."""
    from planner.errors import InputError
    from planner.files.cluster.clusters import load_cluster
    from planner.files.cluster.flextopo_files import write_flextopos
    from planner.placement.flextopo import Dialect, flextopo

    if dialect not in tuple(Dialect):
        raise InputError(f"--dialect: must be {' or '.join(Dialect)}, got {dialect!r}.", hint="Give paper.")
    loaded = load_cluster(cluster)
    pods: dict[str, list[Pod]] = {node.name: [] for node in loaded.nodes}
    for pod in loaded.pods:
        pods[pod.node].append(pod)
    topos = [flextopo(node, pods[node.name], loaded.core_group_size, Dialect(dialect)) for node in loaded.nodes]
    write_flextopos(topos, out, force=force)
    screen.show_text(f"{len(topos)} FlexTopo objects in {out}")


def rbac_command(
    commands: Annotated[
        Texts,
        typer.Option(
            "--for", metavar="COMMAND", help="`cluster import`, watch or advise; several times. [default: all of them]"
        ),
    ] = None,
    namespace: Annotated[str, typer.Option(help="Of the service account.")] = "default",
) -> None:
    """Print a service account and the role that lets it list what the planner reads, as YAML for kubectl apply."""
    from planner.runs.live.api_resources import rbac_text

    screen.show_text(rbac_text(commands or (), namespace).rstrip("\n"))
