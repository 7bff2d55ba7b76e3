"""`planner cluster flextopo`: a cluster's nodes as FlexTopo objects."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli import screen
from planner.domain import Pod


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
