"""`planner cost kernels`: measured times of kernels shown, and made anew of the package they are from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.cost import options as cost_options

if TYPE_CHECKING:
    from planner.files.kernels import KernelFile

group = typer.Typer(help="Measured times of kernels: what is shipped, and making it anew.", no_args_is_help=True)

Folder = Annotated[Path | None, typer.Option("--from", help="A folder that `import` wrote. [default: the shipped]")]


@group.command("show")
def show(
    gpu: Annotated[str | None, typer.Argument(help="One GPU type, operation by operation.")] = None,
    folder: Folder = None,
    json: cost_options.Json = False,
) -> None:
    """GPU types and engines whose kernels were measured: operations, shapes, versions, source, licence, size."""
    from planner import files
    from planner.cost import measured_relative
    from planner.files.kernels import kernels_there, read_kernels

    spec = files.load_gpu_spec(gpu) if gpu else None
    gpu_name = spec.name if spec else None
    paths = {key: path for key, path in kernels_there(folder).items() if gpu_name in (None, key[0])}
    tables = [(read_kernels(path), path.stat().st_size) for path in paths.values()]
    if json:
        screen.show_json([_document(kernels, size) for kernels, size in tables])
    elif not tables:
        where, relative = f"of {gpu_name}" if gpu_name else f"in {folder}", spec and measured_relative(spec)
        rates = f"those of {relative}, by what formulas say of both" if relative else "the formulas'"
        screen.show_prose(
            f"No kernels {where} were measured: rates are {rates}. `planner cost measure` says which of your own "
            "runs would tell most, and `planner cost calibrate` takes them."
        )
    elif gpu_name is None:
        _show_all(tables)
    else:
        for kernels, size in tables:
            _show_one(kernels, size)


def _document(kernels: "KernelFile", size: int) -> dict[str, object]:
    operations = {
        name: {
            "shapes": len(grid.shapes),
            "sizes": {axis: [values[0], values[-1], len(values)] for axis, values in grid.axes.items()},
            "versions": list(grid.versions),
        }
        for name, grid in kernels.grids.items()
    }
    origin = {"source": kernels.source, "licence": kernels.licence, "date": kernels.date, "bytes": size}
    return {
        **{"gpu": kernels.gpu, "engine": kernels.engine, **origin},
        **{"left_out": list(kernels.left_out), "operations": operations},
    }


def _show_all(tables: "list[tuple[KernelFile, int]]") -> None:
    rows = [
        (k.gpu, k.engine, len(k.grids), sum(len(grid.shapes) for grid in k.grids.values()), _newest(k), size // 1024)
        for k, size in tables
    ]
    screen.show_table("Measured kernels", ("GPU", "engine", "operations", "shapes", "GEMMs of", "KiB"), rows)
    for text in sorted({f"{k.source} ({k.date}), {k.licence}" for k, _ in tables}):
        screen.show_prose(text)


def _newest(kernels: "KernelFile") -> str:
    return ", ".join(kernels.grids["gemm"].versions) if "gemm" in kernels.grids else ""


def _show_one(kernels: "KernelFile", size: int) -> None:
    rows = [
        (
            *(name, len(grid.shapes), ", ".join(grid.columns)),
            ", ".join(f"{axis} {values[0]:,.0f} to {values[-1]:,.0f}" for axis, values in grid.axes.items()),
            ", ".join(grid.versions),
        )
        for name, grid in kernels.grids.items()
    ]
    columns = ("operation", "shapes", "a shape is", "sizes", "versions")
    screen.show_table(f"{kernels.gpu}, {kernels.engine}: {size // 1024} KiB", columns, rows)
    for table in kernels.left_out:
        screen.show_prose(f"Left out, since its times are too few, or noise for the most part: {table}")
    screen.show_prose(f"{kernels.source} ({kernels.date}), {kernels.licence}")


@group.command("import")
def import_command(
    source: Annotated[Path, typer.Argument(help="Wheel of aiconfigurator-core, or its folder.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The folder to write a file a GPU type and engine to.", show_default=False)],
    force: cost_options.Force = False,
) -> None:
    """Make compact tables of the measured ones in NVIDIA's package aiconfigurator-core (Apache-2.0)."""
    from planner import files
    from planner.files.kernels import file_name, kernels_there, packed
    from planner.files.kernels.importing import imported_kernels

    files.claim_folder(
        out, names := [path.name for path in kernels_there().values()], force=force
    )  # fails before the work, not after it
    contents = {file_name(kernels): (packed(kernels), kernels) for kernels in imported_kernels(source)}
    files.write_folder(out, {name: content for name, (content, _) in contents.items()}, force=force, kinds=names)
    _show_all([(kernels, len(content)) for content, kernels in contents.values()])
    for table in sorted({f"{k.gpu}, {k.engine}: {table}" for _, k in contents.values() for table in k.left_out}):
        screen.show_text(f"Left out, since its times are too few, or noise for the most part: {table}")
