"""`planner gpus`, `workloads`, `scenarios`: what is at hand, and where its figures come from."""

from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.domain import LengthProfile, Scenario

if TYPE_CHECKING:
    from planner.domain import GpuSpec

_GPU_HEADS = ("FP8", "GB", "GB/s", "USD/h", "NVLink GB/s", "domain", "FP16", "NIC GB/s")


def gpus(
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
        _show_gpu(chosen[0])
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
            "GPU types (TFLOP/s dense, per GPU)", columns, [_gpu_row(gpu) for gpu in chosen], important=_GPU_HEADS
        )


def _gpu_row(gpu: "GpuSpec") -> tuple[object, ...]:
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


def _show_gpu(gpu: "GpuSpec") -> None:
    rows = [(s.figure, str(getattr(gpu, s.figure, "")), s.unit, s.source) for s in gpu.sources]
    if gpu.price:
        rows.append(("price", str(gpu.price.usd_per_hour), "USD/hour", f"{gpu.price.source}, {gpu.price.date}"))
    rows.append(("family", gpu.family, "", "whose efficiency factors the device follows"))
    screen.show_table(gpu.name, ("figure", "value", "unit", "source"), rows)


def workloads(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the shipped workloads; a scenario may also name a workload file or a trace CSV."""
    from planner import files
    from planner.workload import lengths_of

    rows = [_workload_row(lengths_of(files.load_workload(name))) for name in files.shipped_workloads()]
    columns = ("name", "requests", "mean_input_tokens", "longest_prompt", "mean_output_tokens", "max_output_tokens",
               "arrival_rps", "burstiness", "licence")  # fmt: skip
    if json:
        screen.show_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        screen.show_table("Workloads", columns, rows)


def _workload_row(profile: LengthProfile) -> tuple[object, ...]:
    return (
        profile.name,
        profile.requests,
        round(profile.mean_input_tokens, 1),
        profile.input_tokens[-1],
        round(profile.mean_output_tokens, 1),
        profile.max_output_tokens,
        profile.arrival_rps,
        profile.burstiness,
        profile.licence,
    )


def scenarios(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the shipped scenarios: wherever a scenario is named, such a name will do."""
    from planner import files
    from planner.workload import summarize

    rows = [_scenario_row(files.load_scenario(path, summarize)) for path in files.shipped_scenarios().values()]
    columns = ("name", "model", "workload", "inventory", "cost", "routing")
    if json:
        screen.show_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        screen.show_table("Scenarios (planner plan NAME)", columns, rows)


def _scenario_row(scenario: Scenario) -> tuple[str, ...]:
    counts = ", ".join(f"{item.count} {item.gpu.name}" for item in scenario.inventory.items)
    mode, form = scenario.cost.mode.value, scenario.routing_form.value
    return scenario.name, scenario.model.name, scenario.workload.name, counts, mode, form
