"""What comes with the planner: GPU types, models, workloads, scenarios."""

from dataclasses import fields
from typing import TYPE_CHECKING

from planner import files
from planner.report.kit.tables import frame_of

if TYPE_CHECKING:
    import pandas as pd


def gpus() -> "pd.DataFrame":
    """The GPU types at hand, a row each: compute (TFLOP/s dense), memory (GB, GB/s), links (GB/s), watts, USD/h.

    >>> planner.gpus().set_index("gpu").loc["H200", "memory_gb"]
    """
    return frame_of(
        {
            "gpu": gpu.name,
            "fp16_tflops": gpu.fp16_tflops,
            "fp8_tflops": gpu.fp8_tflops,
            "fp4_tflops": gpu.fp4_tflops,
            "memory_gb": gpu.memory_gb,
            "memory_gb_s": gpu.memory_gb_s,
            "nvlink_gb_s": gpu.nvlink_gb_s,
            "nic_gb_s": gpu.nic_gb_s,
            "max_w": gpu.max_w,
            "price_usd_per_hour": gpu.price.usd_per_hour if gpu.price else None,
        }
        for gpu in files.load_gpu_specs().values()
    )


def models() -> "pd.DataFrame":
    """The models at hand, a row each: every figure of their shape that is a number or a text.

    >>> planner.models()["model"].tolist()
    """
    specs = [files.load_model(name) for name in files.shipped_models()]
    values = {f.name: getattr(specs[0], f.name) for f in fields(specs[0]) if f.name != "name"}
    names = [name for name, value in values.items() if isinstance(value, int | float | str)]
    return frame_of({"model": spec.name, **{name: getattr(spec, name) for name in names}} for spec in specs)


def workloads() -> tuple[str, ...]:
    """Names of the workloads at hand, for `planner.plan(workload=...)`."""
    return tuple(files.shipped_workloads())


def scenarios() -> dict[str, str]:
    """The scenario files at hand: name -> path, for `planner.plan_scenario`."""
    return {name: str(path) for name, path in files.shipped_scenarios().items()}
