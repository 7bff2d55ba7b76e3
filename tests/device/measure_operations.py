"""Operations of a step, measured on the GPU at hand with torch alone, beside formula, data sheet and measured kernels.

    python tests/device/measure_operations.py --gpu H200 --engine vllm > operations.json

The table goes to standard error, the figures to standard output; it takes less than two minutes. Nothing depends on it.
Each operation is captured in a CUDA graph over so many copies of what it reads that no cache holds them, and replayed;
the median counts. Grouped GEMMs are batched products over the experts that are visited, all with as many rows: the best
that a kernel could make of them. Attention reads each sequence's part of a pool of slots, as long as the longest.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from planner.cost import CostContext
from planner.cost.arrays import as_array
from planner.cost.attention import decode_work
from planner.cost.device import Device, device
from planner.cost.ffn import gemm_part, routed_part
from planner.cost.kernels import Basis, KernelTables, kernel_tables
from planner.cost.limits import limit_ms, lossless
from planner.cost.parts import Part
from planner.cost.walk import score_part
from planner.domain import CostSettings, GpuSpec, ModelSpec, Phase
from planner.files import load_gpu_spec, load_model

CACHED_BYTES = 512e6  # what is read in turn lies in no cache
REPLAYS = 20
MANY_ROWS = 1024  # from here on a product is one of prompts
BYTES = {"bfloat16": 2.0, "fp8": 1.0}
POOL = 2  # slots of a pool over those that are read


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call of a layer. `model`: whose, where its shape counts. Sizes, as far as the kind has them: `rows`,
    `columns` and `depth` of a product, `rows` tokens of experts; `rows` sequences of `depth` tokens; `rows` bytes."""

    kind: str
    rows: int
    columns: int = 0
    depth: int = 0
    format: str = "bfloat16"
    model: str = "llama-3.1-8b"

    @property
    def label(self) -> str:
        """The operation in words."""
        words = {
            "gemm": f"{self.format} ({self.rows}, {self.depth}) x ({self.depth}, {self.columns})",
            "experts": f"of {self.model}, {self.rows} tokens",
            "attention": f"of {self.model}, {self.rows} sequences, {self.depth} tokens cached",
            "copy": f"{self.rows / 1e6:,.0f} MB",
        }
        return f"{self.kind} {words[self.kind]}"

    @property
    def layer(self) -> ModelSpec:
        """One layer of the model, in the operation's format."""
        size, whole = BYTES[self.format], load_model(self.model)
        one = (replace(whole.groups[-1], count=1),)
        return replace(whole, groups=one, weight_bytes=size, expert_bytes=size, kv_bytes=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One operation's times (ms): as measured here, by formula, the least by data sheet, and by tables (None: none)."""

    operation: Operation
    measured_ms: float
    formula_ms: float
    limit_ms: float
    table_ms: float | None
    basis: str


def operations(*, fp8: bool) -> list[Operation]:
    """What is measured; products in FP8 where the device has it."""
    formats = ("bfloat16", "fp8") if fp8 else ("bfloat16",)
    products = [
        Operation(kind="gemm", rows=rows, columns=columns, depth=8192, format=kind)
        for kind in formats
        for columns in (8192, 28672)
        for rows in (1, 16, 128, 1024, 8192)
    ]
    experts = [
        Operation(kind="experts", rows=rows, model=name)
        for name, counts in (("gpt-oss-120b", (1, 16, 64, 256, 2048)), ("qwen3-30b-a3b", (16, 256)))
        for rows in counts
    ]
    attention = [
        Operation(kind="attention", rows=rows, depth=depth)
        for rows, depth in ((1, 4096), (16, 4096), (64, 4096), (16, 32_768))
    ]
    return [*products, *experts, *attention, *(Operation(kind="copy", rows=size) for size in (64 << 20, 1 << 30))]


def visited(operation: Operation) -> tuple[int, int]:
    """(experts that some token visits, rows of each) by the formulas' expectation."""
    experts: Any = operation.layer.experts
    share = 1 - (1 - experts.active / experts.routed) ** operation.rows
    count = max(1, round(experts.routed * share))
    return count, math.ceil(operation.rows * experts.active / count)


def part_of(operation: Operation, context: CostContext) -> Part:
    """The operation as the formulas price it, in one layer."""
    phase = Phase.PREFILL if operation.rows >= MANY_ROWS and operation.kind != "attention" else Phase.DECODE
    dev = device(context.gpu, context.model, phase, context.settings, overlapped=np.array(False))
    return _FORMULAS[operation.kind](operation, dev, context.model)


def _gemm_part(operation: Operation, dev: Device, model: ModelSpec) -> Part:
    weights = float(operation.columns * operation.depth)
    return gemm_part(
        "gemm",
        dev,
        flops=as_array(2 * operation.rows * weights),
        rate=dev.weights,
        rows=as_array(operation.rows),
        weight_bytes=as_array(weights * model.weight_bytes),
        micro_batches=as_array(1.0),
    )


def _experts_part(operation: Operation, dev: Device, model: ModelSpec) -> Part:
    experts: Any = model.experts
    return routed_part(
        dev,
        model,
        experts,
        tokens=as_array(operation.rows),
        devices=as_array(1.0),
        on_device=as_array(experts.routed),
        dp=as_array(1.0),
        ep=as_array(1.0),
        micro_batches=as_array(1.0),
        imbalance=1.0,
    )


def _attention_part(operation: Operation, dev: Device, model: ModelSpec) -> Part:
    sequences, cached, once = as_array(operation.rows), as_array(operation.depth), as_array(1.0)
    work = decode_work(model, sequences=sequences, tokens=once, cached=cached, tp=once)
    return score_part("attention", dev, work)


def _copy_part(operation: Operation, dev: Device, _model: ModelSpec) -> Part:
    return Part(name="copy", memory_ms=as_array(2 * operation.rows / dev.memory))


_FORMULAS: dict[str, Callable[[Operation, Device, ModelSpec], Part]] = {
    "gemm": _gemm_part,
    "experts": _experts_part,
    "attention": _attention_part,
    "copy": _copy_part,
}


def compared(operation: Operation, gpu: GpuSpec, tables: KernelTables | None, measured_ms: float) -> Compared:
    """The operation's measured time beside the others; `tables`: of the GPU type and an engine, None without."""
    context = CostContext(gpu=gpu, model=operation.layer, settings=CostSettings())
    table_ms, basis = (None, "") if tables is None else _looked_up(operation, tables)
    return Compared(
        operation=operation,
        measured_ms=measured_ms,
        formula_ms=float(part_of(operation, context).ms),
        limit_ms=float(limit_ms(part_of(operation, lossless(context)))),
        table_ms=table_ms,
        basis=basis,
    )


def _looked_up(operation: Operation, tables: KernelTables) -> tuple[float | None, str]:
    o, layer = operation, operation.layer
    experts, attention = layer.experts, layer.groups[0].attention
    lookups = {
        "gemm": lambda: tables.gemm(o.format, o.rows, o.columns, o.depth),
        "experts": lambda: tables.moe(
            o.format, o.rows, layer.hidden_size, experts.ffn_size, experts.active, experts.routed
        ),
        "attention": lambda: tables.generation_attention(
            o.rows, o.depth + 1, attention.heads, attention.kv_heads, attention.head_dim
        ),
    }
    if o.kind not in lookups:
        return None, ""
    time = lookups[o.kind]()
    ms, basis = np.asarray(time.ms).item(), np.asarray(time.basis).item()
    return (ms, Basis(basis).name.lower()) if math.isfinite(ms) else (None, "")


def table(rows: Sequence[Compared]) -> str:
    """All operations, a line each, with the others' times over the measured one."""
    lines = [f"{'operation':60} {'measured':>10} {'formula':>8} {'table':>8} {'limit':>8}"]
    for row in rows:
        others = [row.formula_ms, row.table_ms, row.limit_ms]
        ratios = " ".join(f"{'-' if ms is None else f'{ms / row.measured_ms:.2f}':>8}" for ms in others)
        beaten = "  beats the data sheet" if row.measured_ms < row.limit_ms else ""
        lines.append(f"{row.operation.label:60} {row.measured_ms:7.4f} ms {ratios}{beaten}")
    return "\n".join(lines)


def built(operation: Operation, where: str) -> list[Callable[[], Any]]:
    """Calls of the operation on a device, each on memory of its own, so many that they pass through more than caches
    hold."""
    import torch

    first, read = _BUILDERS[operation.kind](operation, torch, where)
    copies = 1 if where == "cpu" else int(np.clip(math.ceil(CACHED_BYTES / read), 1, 64))
    return [first, *(_BUILDERS[operation.kind](operation, torch, where)[0] for _ in range(copies - 1))]


def _build_gemm(o: Operation, torch: Any, where: str) -> tuple[Callable[[], Any], float]:
    left = torch.randn(o.rows, o.depth, device=where, dtype=torch.bfloat16)
    right = torch.randn(o.columns, o.depth, device=where, dtype=torch.bfloat16)
    read = o.columns * o.depth * BYTES[o.format]
    if o.format == "bfloat16":
        return lambda: left @ right.t(), read
    scale = torch.ones((), device=where)
    a, b = (matrix.to(torch.float8_e4m3fn) for matrix in (left, right))
    return lambda: torch._scaled_mm(a, b.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16), read


def _build_experts(o: Operation, torch: Any, where: str) -> tuple[Callable[[], Any], float]:
    experts: Any = o.layer.experts
    (count, rows), width, hidden = visited(o), experts.ffn_size, o.layer.hidden_size
    tokens = torch.randn(count, rows, hidden, device=where, dtype=torch.bfloat16)
    up = torch.randn(count, hidden, 2 * width, device=where, dtype=torch.bfloat16)
    down = torch.randn(count, width, hidden, device=where, dtype=torch.bfloat16)

    def call() -> Any:
        gate, inner = torch.bmm(tokens, up).split(width, dim=-1)
        return torch.bmm(torch.nn.functional.silu(gate) * inner, down)

    return call, 2.0 * (up.numel() + down.numel())


def _build_attention(o: Operation, torch: Any, where: str) -> tuple[Callable[[], Any], float]:
    kind: Any = o.layer.groups[0].attention
    query = torch.randn(o.rows, kind.heads, 1, kind.head_dim, device=where, dtype=torch.bfloat16)
    slots = torch.randn(2, o.rows, POOL * o.depth, kind.kv_heads, kind.head_dim, device=where, dtype=torch.bfloat16)
    keys, values = (side[:, : o.depth].transpose(1, 2) for side in slots)

    def call() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(query, keys, values, enable_gqa=True)

    return call, 2.0 * 2 * keys.numel()


def _build_copy(o: Operation, torch: Any, where: str) -> tuple[Callable[[], Any], float]:
    source = torch.zeros(o.rows, device=where, dtype=torch.uint8)
    target = torch.empty_like(source)
    return lambda: target.copy_(source), 2.0 * o.rows


_BUILDERS: dict[str, Callable[[Operation, Any, str], tuple[Callable[[], Any], float]]] = {
    "gemm": _build_gemm,
    "experts": _build_experts,
    "attention": _build_attention,
    "copy": _build_copy,
}


def median_ms(calls: Sequence[Callable[[], Any]]) -> float:
    """Of one call, all of them replayed from a graph."""
    import torch

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):  # libraries set themselves up before anything is captured
        for call in calls:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    times = []
    for _ in range(REPLAYS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / len(calls))
    return statistics.median(times[2:])


def main(arguments: Sequence[str] | None = None) -> list[Compared]:
    """Measures, tells, and returns the rows. Ends with a word where there is no such GPU."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--gpu", required=True, help="the GPU type at hand, by its name in gpu_specs")
    parser.add_argument("--engine", default="vllm", help="whose measured kernels to compare with")
    options = parser.parse_args(arguments)
    gpu = load_gpu_spec(options.gpu)
    if not torch.cuda.is_available():
        raise SystemExit("measure_operations: torch sees no GPU here, and nothing was measured.")
    tables, rows = kernel_tables(gpu.name, options.engine), []
    for operation in operations(fp8=torch.cuda.get_device_capability() >= (8, 9)):
        rows.append(compared(operation, gpu, tables, median_ms(built(operation, "cuda"))))
        torch.cuda.empty_cache()
    sys.stderr.write(f"{torch.cuda.get_device_name()} as {gpu.name}\n{table(rows)}\n")
    machine = {"gpu": gpu.name, "device": torch.cuda.get_device_name(), "torch": torch.__version__}
    record = {**machine, "engine": options.engine, "operations": [asdict(row) for row in rows]}
    json.dump(record, sys.stdout, indent=1)
    return rows


if __name__ == "__main__":
    main()
