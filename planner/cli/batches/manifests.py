"""`planner batch-manifests`: a batch as Kubernetes objects."""

from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from planner.cli import screen
from planner.errors import InputError

INDEXED, DASK = "indexed", "dask"


def command(
    jobs: Annotated[
        str, typer.Argument(metavar="JOBS", help="Jobs file or folder, as the pods see it.", show_default=False)
    ],
    batch: Annotated[str, typer.Option(help="Folder of the batch, as the pods see it.", show_default=False)],
    image: Annotated[str, typer.Option(help="Image with the planner, with Dask for dask.", show_default=False)],
    claim: Annotated[str, typer.Option(help="PersistentVolumeClaim that all pods mount.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for the manifests.", show_default=False)],
    kind: Annotated[
        str,
        typer.Option(help="indexed: a Job whose pods share the jobs; dask: a Dask cluster.", metavar="indexed|dask"),
    ] = INDEXED,
    name: Annotated[str, typer.Option(help="What the objects are called.")] = "planner-batch",
    mount: Annotated[str, typer.Option(help="Where the volume lies in the pods.")] = "/files",
    workers: Annotated[int, typer.Option(min=1, max=10_000, help="Pods side by side.")] = 4,
    cpus: Annotated[int, typer.Option(min=1, max=1024, help="Cores of a pod: jobs at once.")] = 1,
    memory_gb: Annotated[float, typer.Option(help="Memory of a pod, GB.")] = 4.0,
    force: Annotated[bool, typer.Option("--force", help="Replace manifests that exist.")] = False,
) -> None:
    """Write Kubernetes manifests of a batch: an indexed Job, or a Dask cluster with its client; plain objects."""
    from planner import files
    from planner.export.batch_objects import BatchObjects, dask_files, indexed_job_files

    rendered = {INDEXED: indexed_job_files, DASK: dask_files}
    if kind not in rendered:
        raise InputError(f"--kind: must be one of {', '.join(rendered)}, got {kind!r}.", hint="Leave it out.")
    objects = BatchObjects(
        name=name,
        image=image,
        claim=claim,
        mount=PurePosixPath(mount),
        jobs=PurePosixPath(jobs),
        folder=PurePosixPath(batch),
        workers=workers,
        cpus=cpus,
        memory_gb=memory_gb,
    )
    texts = {path: text.encode() for path, text in rendered[kind](objects).items()}
    kinds = ("20-shards.yaml", "30-tables.yaml", "20-scheduler.yaml", "30-workers.yaml", "40-client.yaml")
    files.write_folder(out, texts, force=force, kinds=(*kinds, "50-tables.yaml"))
    screen.show_text(f"Written to {out}: {', '.join(texts)}")
