"""LLMs whose times come from the cost model, on machines of GPUs: the thesis' future work.

| symbol | meaning | unit | source |
|---|---|---|---|
| g | GPUs of a machine, one attention group of tensor parallelism g | 1 | `MachineType.gpus` |
| p(n) | prefill of one prompt of n tokens | s | `cost.prefill_time` |
| s(b) | step of b sequences, each with the mean prompt and half the mean answer in its cache | s | `cost.decode_time` |
| W, C(b) | weights on the machine, cache of b sequences of mean length | MB | `cost.memory` |

A load moves W; on a machine the model takes W + C(b) at its largest batch b, so that two models share a machine only
where both have room for their caches. Bands of the cost model (its P10 to P90) hold for these times, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.cost import decode_time, max_batch_size, memory, prefill_time
from planner.domain import CostSettings, ModelSpec
from planner.errors import InfeasibleError, InputError
from planner.files import catalog
from planner.studies.serving.records import Curve, InferenceKind, InferenceTimes, MachineType, ServedModel

PROMPTS = (128, 512, 2048, 8192)
MB_PER_GB, MS_PER_S = 1000.0, 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmLengths:
    """Mean tokens of prompts and answers, and the largest batch that is tried."""

    prompt_tokens: float = 1000.0
    output_tokens: float = 200.0
    most_batch: int = 64


def machine_memory_mb(kind: MachineType) -> float | None:
    """What models may take of a machine of GPUs: what engines use of them; else what is given."""
    if kind.memory_mb is not None or not kind.gpu:
        return kind.memory_mb
    return kind.gpus * memory.usable_gb(catalog.gpu(kind.gpu)) * MB_PER_GB


def priced_llm(
    name: str,
    llm: str,
    machines: Sequence[MachineType],
    *,
    kind: InferenceKind = InferenceKind.CONTINUOUS_BATCH,
    lengths: LlmLengths = LlmLengths(),
    sla_s: float | None = None,
) -> ServedModel:
    """The shipped model `llm` on every machine type of GPUs that can hold it.

    InputError: unknown names, an inference kind that does not answer token by token, no machine that can hold it.
    """
    if not kind.by_token:
        raise InputError(
            f"model {name}: must answer token by token to be priced as an LLM, got kind {kind.value}.",
            hint="Choose autoregressive, static-batch or continuous-batch.",
        )
    spec = catalog.model(llm)
    times = {row.name: priced for row in machines if row.gpu and (priced := _times(spec, row, kind, lengths))}
    if not times:
        names = ", ".join(f"{row.gpus} {row.gpu}" for row in machines if row.gpu) or "none with GPUs"
        raise InputError(
            f"model {name}: must fit on some machine type with its cache; {llm} fits on none ({names}).",
            hint="Give a machine type more gpus.",
        )
    gpus = {row.name: row.gpus for row in machines}
    size_mb = max(_weights_mb(spec, gpus[machine]) for machine in times)
    return ServedModel(name=name, size_mb=size_mb, kind=kind, times=times, sla_s=sla_s)


def _experts(spec: ModelSpec, gpus: int) -> float:
    return float(memory.experts_on_device(spec, CostSettings(), gpus))


def _weights_mb(spec: ModelSpec, gpus: int) -> float:
    weights_gb = memory.weights_gb(spec, tp=gpus, experts_on_device=_experts(spec, gpus))
    return gpus * float(weights_gb) * MB_PER_GB


def _times(spec: ModelSpec, machine: MachineType, kind: InferenceKind, lengths: LlmLengths) -> InferenceTimes | None:
    """None where the machine cannot hold the weights, a full prompt and one sequence."""
    gpu, gpus = catalog.gpu(machine.gpu), machine.gpus
    prompt, output = lengths.prompt_tokens, lengths.output_tokens
    try:
        room = max_batch_size(gpu, prompt, output, tp=gpus, experts_on_device=_experts(spec, gpus), model=spec)
        batch = min(lengths.most_batch if kind.in_batches else 1, int(room))
        if batch < 1:
            return None
        tokens = np.array([count for count in PROMPTS if count <= spec.max_context])
        sizes = np.array(sorted({batch, *(2**power for power in range(12) if 2**power < batch)}))
        prompt_ms = prefill_time(gpu, tokens, tp=gpus, dp=1, model=spec).total_ms
        step_ms = decode_time(gpu, prompt + output / 2, tp=gpus, batch_size=sizes, devices=gpus, model=spec).total_ms
    except InfeasibleError:
        return None
    cache_gb = memory.cache_gb(spec, length=prompt + output, batch=batch, tp=gpus)
    return InferenceTimes(
        step=_curve(sizes, step_ms),
        prompt=_curve(tokens, prompt_ms),
        most_batch=batch,
        memory_mb=_weights_mb(spec, gpus) + gpus * float(cache_gb) * MB_PER_GB,
    )


def _curve(counts: np.ndarray, milliseconds: np.ndarray) -> Curve:
    return Curve(
        points=tuple(
            (float(count), float(ms) / MS_PER_S) for count, ms in zip(counts, np.ravel(milliseconds), strict=True)
        )
    )
