"""What reading cached prompts from the tiers below device memory takes of servers.

| symbol | meaning | unit |
|---|---|---|
| h_i | share of a prompt of s tokens that is read from tier i (`prefix_hits`) | 1 |
| m, w_i | what a GPU keeps of the prompt; what it reads of tier i | GB, GB/s |
| R | reading it all: 1000 sum_i h_i m / w_i | ms |
| l, n | until the reads begin; layers | ms, 1 |
| c | computing what is not cached, alone | ms |
| V | what goes the other way: new tokens to the first tier, and a prefill rank's caches to those that decode | ms |

Layers are read one after the other while those before are computed, so a prompt waits for the first one and for what is
left of a slow link: l + R / n + (1 - 1 / n) max(0, R - c). A link carries both ways at once, and no more prompts than
it has time for: one in max(R, V), a GPU's link for every rank. The way to a NIC is taken to be the same link, as PCIe
switches have it.
Source: SGLang docs/advanced_features/hicache.md (layers overlapped with computation, write-through), vLLM
docs/features/kv_offloading_usage.md.
"""

from dataclasses import dataclass

import numpy as np

from planner.cost.arrays import Array, as_array
from planner.cost.device import CostContext
from planner.cost.grid import Degrees
from planner.cost.prefix_hits import kept_gb, tier_load_ms, tiers_of
from planner.domain import Phase
from planner.units import MS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheReads:
    """R, l and max(R, V) (ms), all of shape (servers, ranges); `layers`: n."""

    read_ms: Array
    begins_ms: Array
    link_ms: Array
    layers: int

    @classmethod
    def of(
        cls, context: CostContext, prompts: Array, degrees: Degrees, hits: Array, phase: Phase
    ) -> "CacheReads | None":
        """`prompts`: tokens, shape (1, ranges); `degrees` of servers, in a column; `hits`: h. None without tiers."""
        tiers = tiers_of(context)
        if not tiers:
            return None
        read_ms, begins_ms = tier_load_ms(context, prompts, degrees, phase)
        leaves = (1 - hits) + (1.0 if phase is Phase.PREFILL else 0.0)
        other_way = leaves * kept_gb(context, prompts, degrees) / tiers[0].gb_per_s_per_gpu * MS_PER_S
        shape = np.broadcast_shapes(read_ms.shape, other_way.shape, degrees.tp.shape)
        return cls(
            read_ms=np.broadcast_to(read_ms, shape),
            begins_ms=np.broadcast_to(begins_ms, shape),
            link_ms=np.broadcast_to(np.maximum(read_ms, other_way), shape),
            layers=context.model.layers,
        )

    def exposed_ms(self, computing_ms: Array) -> Array:
        """What of the reads no computation of `computing_ms` hides."""
        first = 1 / self.layers
        unhidden = np.maximum(self.read_ms - as_array(computing_ms), 0.0)
        return np.asarray(self.begins_ms + first * self.read_ms + (1 - first) * unhidden)
