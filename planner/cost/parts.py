"""Parts of a step: what each costs in arithmetic, memory, network and latency, and what bounds it.

A part's time = (compute^4 + memory^4)^(1/4) + network + latency (ms, summed over the layers of one step): a smooth
maximum, as kernels that are as much bound by one as by the other reach neither limit (x 1.19 where both are equal).
Where kernels were measured (`planner.cost.kernels`), their time stands for that of the formula.

The public functions on single configurations return a `PrefillTime` or a `DecodeTime`, which has the parts by name.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.cost.arrays import Array, as_array
from planner.cost.kernels import KernelTime

Quantity = Array | float
PART_FIGURES = ("compute_ms", "memory_ms", "network_ms", "latency_ms", "flops", "bytes")
BOUNDS = ("compute", "memory", "network", "latency")


def smooth_maximum(first: Quantity, other: Quantity) -> Array:
    """(a^4 + b^4)^(1/4), element by element: at least the larger, at most 19 % above it."""
    fourth = np.asarray(np.square(np.square(first)) + np.square(np.square(other)), dtype=np.float64)
    return np.sqrt(np.sqrt(fourth, out=fourth), out=fourth)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One kind of work in a step, all layers together (ms, arrays that broadcast), with its operations and bytes.

    `kernel`: the time by measured kernels, NaN where there is none (None: no tables were asked).
    """

    name: str
    compute_ms: Quantity = 0.0
    memory_ms: Quantity = 0.0
    network_ms: Quantity = 0.0
    latency_ms: Quantity = 0.0
    flops: Quantity = 0.0
    bytes: Quantity = 0.0
    kernel: KernelTime | None = None

    @property
    def ms(self) -> Array:
        """The part's time."""
        return self.measured_or(self.formula_ms)

    def measured_or(self, formula_ms: Array) -> Array:
        """The time of its kernel, and of its formula where there is none."""
        if self.kernel is None:
            return formula_ms
        missing = np.isnan(self.kernel.ms)
        return np.where(missing, formula_ms, self.kernel.ms) if missing.any() else self.kernel.ms

    @property
    def formula_ms(self) -> Array:
        """What the formulas say of it."""
        return as_array(smooth_maximum(self.compute_ms, self.memory_ms) + self.network_ms + self.latency_ms)

    @property
    def bound(self) -> str:
        """What takes the largest share (of scalar parts): compute, memory, network or latency."""
        values = [float(v) for v in (self.compute_ms, self.memory_ms, self.network_ms, self.latency_ms)]
        return BOUNDS[int(np.argmax(values))]


def scaled(part: Part, by: float | Array) -> Part:
    """A part with all its figures times `by`."""
    return Part(
        name=part.name,
        compute_ms=part.compute_ms * by,
        memory_ms=part.memory_ms * by,
        network_ms=part.network_ms * by,
        latency_ms=part.latency_ms * by,
        flops=part.flops * by,
        bytes=part.bytes * by,
        kernel=None if part.kernel is None else part.kernel.becoming(part.kernel.ms * by),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """One step's parts, the communication that computation hides, and the whole (ms).

    `overlapped`: whether in two micro-batches. `waiting`: by how much attention ranks that wait for the fullest are
    slowed (>= 1). `pace`: by how much all of it is faster than the parts say, by formulas and by measured runs
    (`planner.cost.summing`, `planner.cost.residuals.pace`).
    `scale` makes a pass over the model the step that was asked for: pipelined, the slowest stage counts for every
    stage; with drafts, a pass yields several tokens. A new pipelined step may begin every `total_ms / pp`.
    """

    parts: tuple[Part, ...]
    hidden_ms: Array
    scale: Array
    waiting: Array
    pace: Array
    total_ms: Array
    overlapped: NDArray[np.bool_]

    def part(self, name: str) -> Part:
        """One part by name."""
        return next(part for part in self.parts if part.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillTime:
    """One prefill step (ms). All but the totals are per layer; `attention_ms` is that of a MoE layer.

    `compute_ms` + `comm_ms` sum all layers without overlap; `total_ms` hides communication behind computation.
    """

    attention_ms: Array
    dense_attention_ms: Array
    dense_ms: Array
    shared_ms: Array
    routed_ms: Array
    dispatch_ms: Array
    combine_ms: Array
    compute_ms: Array
    comm_ms: Array
    total_ms: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeTime:
    """One decode step (ms). All but the last two are per layer; `attention_ms` is that of a MoE layer, with KV read.

    `total_ms` is the time per output token; `overlapped_ms` is it with all communication hidden.
    """

    attention_ms: Array
    dense_attention_ms: Array
    dense_ms: Array
    shared_ms: Array
    routed_ms: Array
    dispatch_ms: Array
    combine_ms: Array
    overlapped_ms: Array
    total_ms: Array
