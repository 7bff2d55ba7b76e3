"""Where KV caches of earlier prompts lie beside device memory: the `tiers:` section of a scenario.

| symbol | meaning | unit |
|---|---|---|
| g, n | GPUs of a node; nodes | 1 |
| G | what a tier holds of every GPU's caches: `host_gb_per_node` / g; of a remote store its size over all GPUs | GB |
| w | what a GPU reads of it: its own link to the host, a node's SSDs or its way to the store over g | GB/s |

A tier holds what those above it hold, too: engines write a block to the host when it is computed, not when it leaves
device memory (vLLM docs/features/kv_offloading_usage.md; SGLang docs/advanced_features/hicache.md, `write_through`), so
what is found is found in the largest tier, and read from the first that has it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from planner.domain.gpu import GpuSpec
from planner.domain.keys import INTERNAL, Bounds, Key, OneOf

HOST, SSD, REMOTE = TIER_NAMES = ("host", "ssd", "remote")
HOST_LINK_SHARE = 0.8
"""Of a GPU's link to the host, what copies of whole pages from pinned memory reach: 50 of 64 GB/s over PCIe 5
(github.com/vllm-project/vllm, docs on KV offloading; github.com/sgl-project/sglang, HiCache's page_first kernels)."""
_TERABYTE_GB = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStore:
    """A store that all servers share: Mooncake's, LMCache's, a file system. `gb_per_s_per_node`: what a node reads."""

    gb: Annotated[float, Bounds(above=0, high=1e12), Key("for KV caches", unit="GB")]
    gb_per_s_per_node: Annotated[float, Bounds(above=0, high=1e6), Key("that a node reads", unit="GB/s")]
    latency_ms: Annotated[float, Bounds(low=0, high=1e6), Key("until a read begins")] = 1.0
    usd_per_tb_hour: Annotated[float, Bounds(low=0, high=1e6), Key("rent of a terabyte", unit="USD/TB/hour")] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTier:
    """A tier as one GPU sees it. `shared`: whatever one server wrote, all servers find."""

    name: str
    gb_per_gpu: float
    gb_per_s_per_gpu: float
    latency_ms: float
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSettings:
    """Sizes of 0 stand for no such tier. `host_gb_per_s_per_gpu` None: `HOST_LINK_SHARE` of the GPU type's
    `host_memory_gb_s`. `host_sizes_gb`: sizes of host memory that a plan is to choose from, ascending (GB a node)."""

    host_gb_per_node: Annotated[
        float,
        Bounds(low=0, high=1e6),
        Key("of host memory for KV caches, all engines of a node together; or a list to choose from", unit="GB"),
    ] = 0.0
    host_sizes_gb: Annotated[tuple[float, ...], INTERNAL] = ()
    host_gb_per_s_per_gpu: Annotated[
        float | None, Bounds(above=0, high=1e6), Key("that a GPU reads of it; else by its type", unit="GB/s")
    ] = None
    host_usd_per_tb_hour: Annotated[
        float, Bounds(low=0, high=1e6), Key("of host memory that is bought", unit="USD/TB/hour")
    ] = 0.0
    ssd_gb_per_node: Annotated[float, Bounds(low=0, high=1e9), Key("of local SSDs for KV caches", unit="GB")] = 0.0
    ssd_gb_per_s_per_node: Annotated[float, Bounds(low=0, high=1e6), Key("that a node reads of them", unit="GB/s")] = (
        0.0
    )
    ssd_latency_ms: Annotated[float, Bounds(low=0, high=1e6), Key("until a read begins")] = 0.1
    ssd_usd_per_tb_hour: Annotated[float, Bounds(low=0, high=1e6), Key("of SSDs", unit="USD/TB/hour")] = 0.0
    remote: Annotated[RemoteStore | None, Key("a store that all servers share", sparse=True)] = None

    def of(self, gpu: GpuSpec, gpus: int) -> tuple[CacheTier, ...]:
        """The tiers below device memory as a GPU of a fleet of `gpus` sees them, the fastest first; those without room
        are left out."""
        return tuple(tier for tier in self._all(gpu, gpus) if tier.gb_per_gpu > 0)

    def _all(self, gpu: GpuSpec, gpus: int) -> Iterator[CacheTier]:
        on_node = gpu.gpus_per_host
        host = self.host_gb_per_s_per_gpu or HOST_LINK_SHARE * gpu.host_memory_gb_s
        yield CacheTier(name=HOST, gb_per_gpu=self.host_gb_per_node / on_node, gb_per_s_per_gpu=host, latency_ms=0.0)
        yield CacheTier(
            name=SSD,
            gb_per_gpu=self.ssd_gb_per_node / on_node,
            # What an SSD holds goes through the host's memory, and over the same link.
            gb_per_s_per_gpu=min(host, self.ssd_gb_per_s_per_node / on_node),
            latency_ms=self.ssd_latency_ms,
        )
        if self.remote is not None:
            yield CacheTier(
                name=REMOTE,
                gb_per_gpu=self.remote.gb / max(1, gpus),
                gb_per_s_per_gpu=min(host, self.remote.gb_per_s_per_node / on_node),
                latency_ms=self.remote.latency_ms,
                shared=True,
            )

    def usd_per_gpu_hour(self, gpu: GpuSpec) -> float:
        """Rent of a GPU's part of what its node has; a remote store's is the same whatever GPUs there are."""
        of_node = self.host_gb_per_node * self.host_usd_per_tb_hour + self.ssd_gb_per_node * self.ssd_usd_per_tb_hour
        return of_node / _TERABYTE_GB / gpu.gpus_per_host


@dataclass(frozen=True, slots=True, kw_only=True)
class TierHits:
    """What a pool reads from one tier at the plan's rate."""

    island: str
    tier: Annotated[str, OneOf(TIER_NAMES)]
    share: Annotated[float, Bounds(low=0, high=1), Key("of its prompts' tokens")]
    gb_per_s_per_gpu: Annotated[float, Bounds(low=0), Key("that each of its GPUs reads, in the mean", unit="GB/s")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSize:
    """What the best plan with so much host memory is worth, in the objective's unit."""

    host_gb_per_node: Annotated[float, Bounds(low=0)]
    value: Annotated[float | None, Key("of its plan (null: nothing serves)")]
    bound: Annotated[float | None, Key("none is better with that size (null: not known)")] = None
    why: Annotated[str, Key("why nothing serves", sparse=True)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOutlook:
    """What the tiers below device memory bring. `sizes`: those of host memory that the plan chose from."""

    hits: tuple[TierHits, ...]
    sizes: Annotated[tuple[TierSize, ...], Key("of host memory that were planned for", sparse=True)] = ()

    @property
    def worth_per_tb(self) -> tuple[tuple[float, float], ...]:
        """(size, what one more terabyte a node adds to the value from it to the next size), of sizes that serve."""
        served = [(row.host_gb_per_node, row.value) for row in self.sizes if row.value is not None]
        return tuple(
            (low, (more - value) / (high - low) * _TERABYTE_GB) for (low, value), (high, more) in pairwise(served)
        )
