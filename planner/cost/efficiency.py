"""The factors of one GPU, resolved: what its family's calibration says, as plain numbers."""

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.factors import BUILT_IN
from planner.domain import Calibration, GpuSpec, Phase
from planner.domain.efficiency import ANY_FAMILY

_NO_ROWS = 1e-9  # a product over none takes no time, and must not divide by it


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Factors by the names of `cost.factors`; shares in (0, 1], times in the unit of their name."""

    gemm: float
    gemm_half: float
    expert: float
    expert_half: float
    expert_power: float
    expert_reads: float
    expert_fp4: float
    attention_prefill: float
    attention_decode: float
    memory: float
    cache: float
    weight_only: float
    nvlink: float
    nic_prefill: float
    nic_decode: float
    all_to_all_us: float
    all_to_all_node_us: float
    all_reduce_us: float
    all_reduce_node_us: float
    transfer_us: float
    layer_us: float
    indexer_us: float
    step_prefill_ms: float
    step_decode_ms: float
    passes: float
    overlap: float
    imbalance: float
    rank_imbalance: float
    prefill_pool: float
    kernels_prefill: float
    kernels_decode: float

    def kernels(self, phase: Phase) -> float:
        """What the whole engine reaches of its kernels' speed."""
        return self.kernels_prefill if phase is Phase.PREFILL else self.kernels_decode

    def nic(self, phase: Phase) -> float:
        """Share of the NIC's rate."""
        return self.nic_prefill if phase is Phase.PREFILL else self.nic_decode


FACTOR_NAMES = tuple(field.name for field in fields(Efficiency))


def efficiency_of(gpu: GpuSpec, calibration: Calibration | None) -> Efficiency:
    """The factors that hold for `gpu`: the calibration's, and the built-in ones where it has none."""
    return _resolved(gpu.family, vendor_family(gpu), calibration)


def vendor_family(gpu: GpuSpec) -> str:
    """Whose factors a family without its own takes: those of all families of its vendor."""
    return gpu.vendor.lower()


# Asked for by every step that is priced: to hash the built-in factors takes a tenth of a small step's time.
@lru_cache(maxsize=1024)
def _resolved(family: str, vendor: str, calibration: Calibration | None) -> Efficiency:
    factors = merged(calibration)
    return Efficiency(**{name: factors.factor(name, family, vendor).value for name in FACTOR_NAMES})


@lru_cache(maxsize=256)
def merged(calibration: Calibration | None) -> Calibration:
    """The built-in factors with those of `calibration` over them; one that is complete stands alone."""
    if calibration is None:
        return BUILT_IN
    if {f.name for f in calibration.factors if f.family == ANY_FAMILY} >= set(FACTOR_NAMES):
        return calibration
    return Calibration(name=calibration.name, factors=BUILT_IN.factors + calibration.factors)


def saturation(tokens: Numbers, half: float) -> Array:
    """Share of its best rate that a GEMM over `tokens` rows reaches: m / (m + half), smooth and rising."""
    m = np.maximum(as_array(tokens), _NO_ROWS)
    return np.asarray(m / (m + half))
