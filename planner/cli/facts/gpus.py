"""`planner gpus`: the GPU types at hand, and where their figures come from."""

from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen

if TYPE_CHECKING:
    from planner.domain import GpuSpec

_IMPORTANT = ("FP8", "GB", "GB/s", "USD/h", "NVLink GB/s", "domain", "FP16", "NIC GB/s")


def command(
    name: Annotated[str | None, typer.Argument(help="One type, with the source of every figure.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List GPU types, or show one."""
    from dataclasses import asdict

    from planner import files

    chosen = [files.load_gpu_spec(name)] if name else list(files.load_gpu_specs().values())
    if json:
        screen.show_json([asdict(gpu) for gpu in chosen])
    elif name:
        _show_one(chosen[0])
    else:
        columns = (
            "GPU",
            "FP16",
            "FP8",
            "FP4",
            "GB",
            "MiB",
            "GB/s",
            "NVLink GB/s",
            "NIC GB/s",
            "domain",
            "W",
            "USD/h",
        )
        screen.show_table(
            "GPU types (TFLOP/s dense, per GPU)", columns, [_row(gpu) for gpu in chosen], important=_IMPORTANT
        )


def _row(gpu: "GpuSpec") -> tuple[object, ...]:
    return (
        gpu.name,
        gpu.fp16_tflops,
        gpu.fp8_tflops,
        gpu.fp4_tflops,
        gpu.memory_gb,
        gpu.memory_mib or None,
        gpu.memory_gb_s,
        gpu.nvlink_gb_s,
        gpu.nic_gb_s,
        gpu.gpus_per_nvlink_domain,
        gpu.max_w,
        gpu.price.usd_per_hour if gpu.price else None,
    )


def _show_one(gpu: "GpuSpec") -> None:
    rows = [(s.figure, str(getattr(gpu, s.figure, "")), s.unit, s.source) for s in gpu.sources]
    if gpu.price:
        rows.append(("price", str(gpu.price.usd_per_hour), "USD/hour", f"{gpu.price.source}, {gpu.price.date}"))
    rows.append(("family", gpu.family, "", "whose efficiency factors the device follows"))
    screen.show_table(gpu.name, ("figure", "value", "unit", "source"), rows)
