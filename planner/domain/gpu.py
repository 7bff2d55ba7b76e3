"""GPU types: data-sheet figures, kept apart from efficiency factors (`cost`) and from prices."""

from dataclasses import dataclass

from planner.units import GB, MIB

ENGINE_MEMORY_SHARE = 0.9
"""Share of device memory that an engine is given: manifests set it, the cost model counts on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where one figure comes from. `figure` is the field's name, `unit` as in the file, `source` free text."""

    figure: str
    unit: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one GPU costs to rent, with the day and the source of the figure."""

    usd_per_hour: float
    date: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """One GPU type. Rates are dense (no sparsity); bandwidths are per GPU and one direction.

    `fp8_tflops` and `fp4_tflops` are 0 where the device does not support the format.
    `sms_for_communication` are the streaming multiprocessors that prefill sets aside for all-to-all kernels.
    `gpus_per_nvlink_domain` GPUs reach each other at `nvlink_gb_s`; `gpus_per_host` share one operating system.
    `memory_mib` is what the driver shows (0: not known), `memory_gb` the name-plate figure, which reference mode takes.
    `reference_memory_gb_s` is the memory bandwidth that Shallowsim lists (facts: it differs for the H800).
    `compute_capability` is CUDA's (major.minor; 0.0: not NVIDIA's, or not known); kernels are built for some of them.
    `family` names the efficiency factors that the device follows (hopper, h20, blackwell, ampere, cdna3, rubin).
    """

    name: str
    vendor: str
    sms: int
    sms_for_communication: int
    fp16_tflops: float
    fp8_tflops: float
    fp4_tflops: float
    memory_gb: float
    memory_gb_s: float
    reference_memory_gb_s: float
    nvlink_gb_s: float
    nic_gb_s: float
    gpus_per_nvlink_domain: int
    gpus_per_host: int
    idle_w: float
    max_w: float
    memory_mib: float = 0.0
    family: str = "any"
    compute_capability: float = 0.0
    node_selector: tuple[tuple[str, str], ...] = ()
    price: Price | None = None
    sources: tuple[Source, ...] = ()

    @property
    def device_gb(self) -> float:
        """Device memory in GB of 10^9 bytes: the driver's figure, or `memory_gb`, which no known driver goes below."""
        return self.memory_mib * MIB / GB if self.memory_mib else self.memory_gb
