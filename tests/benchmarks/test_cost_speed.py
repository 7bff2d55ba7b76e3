"""The performance table of four GPU types against a data frame evaluated row by row. `make bench` prints the ratios."""

import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import pandas as pd
import pytest
from peak_memory import peak_mb

from planner.cost import CostContext, decode_time, max_batch_size, prefill_time, tabulate_sizes
from planner.cost.parallelism import configurations
from planner.cost.step import Steps, step_ms
from planner.domain import PHASES, CostSettings, GpuSpec, LengthRange, ModelSpec, Phase, Workload
from planner.errors import InfeasibleError
from planner.files import load_gpu_spec, load_model

pytestmark = pytest.mark.bench

GPUS = ("H200", "H800", "H20", "DGX-B200")
SIZES = range(2, 129)
RANGES = 32
ANSWER = 211
ROWS = 300  # of the data frame, drawn at random
PROGRAM = """
from planner.cost import tabulate_sizes
from planner.domain import CostSettings
from test_cost_speed import GPUS, SIZES, workload
from planner.files import load_gpu_spec, load_model
model = load_model("deepseek-v3")
for name in GPUS:
    tabulate_sizes(load_gpu_spec(name), SIZES, model=model, workload=workload(), settings=CostSettings())
"""


def workload() -> Workload:
    """32 ranges of 256 tokens."""
    ranges = tuple(
        LengthRange(
            start=256 * k,
            end=256 * (k + 1),
            midpoint=256 * k + 128,
            probability=1 / RANGES,
            mean_input_tokens=256.0 * k + 128,
            longest_input_tokens=256 * (k + 1) - 1,
        )
        for k in range(RANGES)
    )
    return Workload(
        name="bench",
        ranges=ranges,
        mean_input_tokens=128.0 * RANGES,
        mean_output_tokens=ANSWER,
        max_output_tokens=1000,
    )


def show(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")


def cpu_seconds(call: Callable[[], object], repeats: int) -> float:
    """Least CPU time of some calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def cells(gpus: list[GpuSpec], model: ModelSpec) -> pd.DataFrame:
    """One row a GPU type, phase, size, configuration and range."""
    rows = [
        (gpu.name, phase, c.tp, c.dp, c.replicas, span.midpoint)
        for gpu in gpus
        for phase in PHASES
        for size in SIZES
        for c in configurations(CostContext(gpu=gpu, model=model, settings=CostSettings()), size)
        for span in workload().ranges
    ]
    return pd.DataFrame(rows, columns=["gpu", "phase", "tp", "dp", "replicas", "length"])


def one_row(row: pd.Series, specs: dict[str, GpuSpec], model: ModelSpec) -> float:
    """One cell of the table, by itself; 0 where it does not fit."""
    try:
        return _rate(row, specs[row["gpu"]], model)
    except InfeasibleError:
        return 0.0


def _rate(row: pd.Series, gpu: GpuSpec, model: ModelSpec) -> float:
    if row["phase"] is Phase.PREFILL:
        return 1000 / float(prefill_time(gpu, row["length"], tp=row["tp"], dp=row["dp"], model=model).total_ms)
    held = -(-256 // (row["tp"] * row["dp"])) + 1
    most = float(max_batch_size(gpu, row["length"], 1000, tp=row["tp"], experts_on_device=held, model=model))
    cached = row["length"] + (np.arange(4) + 0.5) * ANSWER / 4
    step = decode_time(gpu, cached, tp=row["tp"], batch_size=max(1.0, most), devices=row["tp"] * row["dp"], model=model)
    return 1000 * max(0.0, most) / float(step.total_ms.mean())


def test_table_against_a_data_frame_row_by_row() -> None:
    model, gpus = load_model("deepseek-v3"), [load_gpu_spec(name) for name in GPUS]

    def table() -> None:
        for gpu in gpus:
            tabulate_sizes(gpu, SIZES, model=model, workload=workload(), settings=CostSettings())

    frame = cells(gpus, model)
    sample, specs = frame.sample(ROWS, random_state=0), {gpu.name: gpu for gpu in gpus}
    whole = cpu_seconds(table, repeats=5)
    rows = cpu_seconds(lambda: sample.apply(one_row, axis=1, specs=specs, model=model), repeats=1)
    ratio = (rows / ROWS) / (whole / len(frame))
    show(
        f"performance table of {len(frame):,} cells ({len(GPUS)} GPU types, sizes 2-128, {RANGES} ranges, 2 phases): "
        f"row by row / table = {ratio:,.0f} per cell; the whole table took {whole:.3f} CPU-seconds"
    )
    assert ratio >= 1000


def test_all_sizes_at_once_against_one_by_one() -> None:
    model, gpu = load_model("deepseek-v3"), load_gpu_spec("H800")
    settings = CostSettings()

    def at_once() -> None:
        tabulate_sizes(gpu, SIZES, model=model, workload=workload(), settings=settings)

    def one_by_one() -> None:
        for size in SIZES:
            tabulate_sizes(gpu, [size], model=model, workload=workload(), settings=settings)

    ratio = median(cpu_seconds(one_by_one, 1) / cpu_seconds(at_once, 1) for _ in range(5))
    show(f"127 sizes one by one / at once = {ratio:.1f}")
    assert ratio > 1


MOST_KERNELS_COST = 7.5  # 1.5 CPU-seconds of 280,000 steps, where formulas are allowed 0.2
STEP_MODELS = ("deepseek-v3", "gpt-oss-120b", "llama-3.1-70b")
Axes = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def many_steps(model: ModelSpec) -> Axes:
    """Degrees (tp, dp, pp), lengths and batches as axes that broadcast."""
    tp, dp = np.meshgrid([1.0, 2.0, 4.0, 8.0], 2.0 ** np.arange(10) if model.experts else np.ones(10))
    return (
        tp.reshape(-1, 1, 1),
        dp.reshape(-1, 1, 1),
        np.ones((1, 1, 1)),
        np.geomspace(128, 65536, 100).reshape(1, -1, 1),
        np.geomspace(1, 256, 35).reshape(1, 1, -1),
    )


def priced(context: CostContext, axes: Axes) -> None:
    tp, dp, pp, length, batch = axes
    for phase in PHASES:
        step_ms(context, Steps(phase=phase, tp=tp, dp=dp, pp=pp, length=length, batch=batch))


@pytest.mark.parametrize("name", STEP_MODELS)
def test_steps_of_a_grid_against_as_many_unlike_ones(name: str) -> None:
    """280,000 steps of both phases: degrees, lengths and batches as axes that broadcast, and a row a step."""
    model, gpu = load_model(name), load_gpu_spec("H200")
    context = CostContext(gpu=gpu, model=model, settings=CostSettings())
    axes = many_steps(model)
    columns = np.broadcast_arrays(*axes)
    rows = (*(np.ravel(column) for column in columns),)
    grid, unlike = cpu_seconds(lambda: priced(context, axes), 5), cpu_seconds(lambda: priced(context, rows), 5)
    show(
        f"{2 * len(rows[0]):,} steps of {name}: a row each / a grid = {unlike / grid:.1f}; "
        f"the grid took {grid:.3f} CPU-seconds, rows {unlike:.3f}"
    )
    assert unlike > grid


@pytest.mark.parametrize("name", STEP_MODELS)
def test_steps_by_measured_kernels_against_formulas(name: str) -> None:
    """As many steps of both phases with the kernels that were measured under an engine, formulas among them."""
    model, gpu = load_model(name), load_gpu_spec("H200")
    formulas, kernels = (
        CostContext(gpu=gpu, model=model, settings=CostSettings(engine=engine)) for engine in ("", "sglang")
    )
    axes = many_steps(model)
    rows = (*(np.ravel(column) for column in np.broadcast_arrays(*axes)),)
    priced(kernels, axes)  # the tables are read once
    for way, columns in (("a grid", axes), ("rows", rows)):
        alone, measured = (
            cpu_seconds(lambda context=context, columns=columns: priced(context, columns), 5)
            for context in (formulas, kernels)
        )
        show(
            f"{2 * len(rows[0]):,} steps of {name} as {way}: kernels / formulas = {measured / alone:.1f}; "
            f"by kernels {measured:.3f} CPU-seconds, by formulas {alone:.3f}"
        )
        assert measured < MOST_KERNELS_COST * alone


def test_table_stays_small() -> None:
    megabytes = peak_mb(PROGRAM)
    show(f"peak memory of a process that makes the table: {megabytes:.0f} MB")
    assert megabytes <= 300
