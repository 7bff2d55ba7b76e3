"""GPU types: data-sheet figures, kept apart from efficiency factors (`cost`) and from prices; and what nodes draw."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key
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

    usd_per_hour: Annotated[float, Bounds(low=0)]
    date: str
    source: str

    @property
    def is_estimate(self) -> bool:
        """Whether nobody publishes it: its source then begins with the word."""
        return self.source.startswith("estimate")


_ANY, _SOME, _MORE = Bounds(low=0), Bounds(low=1), Bounds(above=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """One GPU type. Rates are dense (no sparsity); bandwidths are per GPU and one direction.

    `reference_memory_gb_s` differs for the H800 (facts). Kernels are built for some `compute_capability` only.
    `family` names the efficiency factors that the device follows; one without factors of its own takes those of all.
    """

    name: str
    vendor: str
    sms: Annotated[int, _SOME, Key("streaming multiprocessors", unit="count")]
    sms_for_communication: Annotated[int, _ANY, Key("that prefill sets aside for all-to-all kernels", unit="count")]
    fp16_tflops: Annotated[float, _MORE, Key("dense", unit="TFLOP/s")]
    fp8_tflops: Annotated[float, _ANY, Key("dense; 0: not supported", unit="TFLOP/s")]
    fp4_tflops: Annotated[float, _ANY, Key("dense; 0: not supported", unit="TFLOP/s")]
    memory_gb: Annotated[float, _MORE, Key("name-plate figure, which reference mode takes", unit="GB")]
    memory_gb_s: Annotated[float, _MORE, Key("memory bandwidth", unit="GB/s")]
    reference_memory_gb_s: Annotated[float, _MORE, Key("memory bandwidth that Shallowsim lists", unit="GB/s")]
    nvlink_gb_s: Annotated[float, _MORE, Key("of a GPU, one direction; PCIe's where there is no NVLink", unit="GB/s")]
    nic_gb_s: Annotated[float, _MORE, Key("of a GPU, one direction", unit="GB/s")]
    gpus_per_nvlink_domain: Annotated[int, _SOME, Key("that reach each other at that rate", unit="count")]
    gpus_per_host: Annotated[int, _SOME, Key("that share one operating system", unit="count")]
    idle_w: Annotated[float, _ANY, Key("drawn at rest", unit="W")]
    max_w: Annotated[float, _MORE, Key("drawn at most", unit="W")]
    memory_mib: Annotated[float, _MORE, Key("what the driver shows; else not known", unit="MiB")] = 0.0
    family: str = "any"
    host_link_gb_s: Annotated[float, _ANY, Key("to other NVLink domains of the host; 0: the NIC's", unit="GB/s")] = 0.0
    host_memory_gb_s: Annotated[
        float, _ANY, Key("to the memory of its host, one direction; 0: not known", unit="GB/s")
    ] = 0.0
    compute_capability: Annotated[float, _ANY, Key("CUDA's; 0: not NVIDIA's, or not known", unit="major.minor")] = 0.0
    node_selector: tuple[tuple[str, str], ...] = ()
    price: Price | None = None
    sources: tuple[Source, ...] = ()

    @property
    def linked_gpus(self) -> int:
        """GPUs that reach each other without a NIC: of an NVLink domain, or of a host that links several."""
        return max(self.gpus_per_nvlink_domain, self.gpus_per_host if self.host_link_gb_s else 1)

    @property
    def device_gb(self) -> float:
        """Device memory in GB of 10^9 bytes: the driver's figure, or `memory_gb`, which no known driver goes below."""
        return self.memory_mib * MIB / GB if self.memory_mib else self.memory_gb


class PowerFormula(StrEnum):
    """How the watts of a node's CPUs follow from its virtual CPUs (two of them a core).

    `paper`: PWR, equation 1: packages at work rounded up, idle ones counted by the free CPUs, rounded down.
    `simulators`: as the public simulator: a node's packages rounded up, those at work rounded up, the rest is idle.
    """

    PAPER = "paper"
    SIMULATORS = "simulators"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipPower:
    """A CPU package of so many physical `cores`: watts idle and at full load; or a GPU (no cores): as soon as a part of
    it is taken."""

    name: str
    idle_w: float
    full_w: float
    cores: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerTable:
    """CPU packages and GPUs by name. A node whose CPU is not named has `default_cpu`."""

    cpus: tuple[ChipPower, ...]
    gpus: tuple[ChipPower, ...]
    default_cpu: str
