"""How an island's GPUs exchange tokens between experts: whether DeepEP's kernels can do it (`domain.engine.exchange`),
and with how many experts.

symbol     meaning                              value   source
DEPTH      NVSHMEM's default queue depth        1024    DeepEP asserts depth >= 2 (tokens + 1)

Experts are spread over the GPUs of one pipeline stage.

Two micro-batches that hide the experts' communication: whether an engine can run them where the plan's rates
assume them.

Sources: vLLM's docs/design/dbo.md and vllm/config/{parallel,vllm}.py (`--enable-dbo`: data-parallel ranks with
expert parallelism over DeepEP; steps below 32 tokens in decode and 512 in prefill stay whole); SGLang's
python/sglang/srt/server_args.py (`--enable-two-batch-overlap`: no all-gather).
"""

from dataclasses import dataclass

from planner.domain import EngineProfile
from planner.domain.engine import deepep_obstacle, overlap_obstacle
from planner.export.islands import ServingIsland

_DEFAULT_QUEUE_DEPTH = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertExchange:
    """`redundant_experts`: those asked for, filled up to a multiple of the GPUs; `balanced`: some were asked for, so
    that the engine is to place them by load. `obstacle` says why DeepEP cannot serve."""

    obstacle: str
    redundant_experts: int
    balanced: bool

    @property
    def deepep(self) -> bool:
        """Whether DeepEP's kernels fit the island; otherwise the engine's own all-gather has to do."""
        return not self.obstacle

    @property
    def gathering_notes(self) -> tuple[str, ...]:
        """Why the engine's own all-gather serves, where it does."""
        return (f"Experts exchange tokens by all-gather: {self.obstacle}.",) if self.obstacle else ()

    @property
    def redundancy_notes(self) -> tuple[str, ...]:
        """How many experts are there twice."""
        count = self.redundant_experts
        return (f"{count} redundant experts give every GPU the same number.",) if count else ()


def expert_exchange(island: ServingIsland, profile: EngineProfile) -> ExpertExchange | None:
    """The exchange that `island` can run; None where one GPU holds a stage, or the model has no experts.

    Every GPU must hold the same number of experts.
    """
    experts, devices = island.model.experts, island.parallel.stage_devices
    if experts is None or devices == 1:
        return None
    redundant = island.redundant_experts
    return ExpertExchange(
        obstacle=deepep_obstacle(island.exchange_site, profile),
        redundant_experts=redundant + -(experts.routed + redundant) % devices,
        balanced=redundant > 0,
    )


def queue_depth(tokens_per_gpu: int) -> int | None:
    """NVSHMEM_QP_DEPTH for low-latency kernels of `tokens_per_gpu`; None where the default is deep enough."""
    needed = 2 * (tokens_per_gpu + 1)
    return None if needed <= _DEFAULT_QUEUE_DEPTH else 1 << (needed - 1).bit_length()


def overlap_notes(island: ServingIsland, exchange: ExpertExchange | None, profile: EngineProfile) -> tuple[str, ...]:
    """The difference between plan and engine in words, where the plan assumes two micro-batches and there are none."""
    obstacle = _obstacle(island, exchange, profile)
    if not obstacle:
        return ()
    return (f"WARNING: the plan's rates hide the experts' communication, the engine does not: {obstacle}.",)


def overlaps(island: ServingIsland, exchange: ExpertExchange | None, profile: EngineProfile) -> bool:
    """Whether the engine is to split its steps into two micro-batches."""
    return _obstacle(island, exchange, profile) == ""


def _obstacle(island: ServingIsland, exchange: ExpertExchange | None, profile: EngineProfile) -> str | None:
    """Why not, although the plan assumes it; empty: nothing stands against it; None: the plan does not."""
    if not island.overlapped or exchange is None:
        return None
    return overlap_obstacle(island.exchange_site, profile, exchange.obstacle)
