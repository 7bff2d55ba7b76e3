"""Two micro-batches that hide the experts' communication: whether an engine can run them where the plan's rates
assume them.

Sources: vLLM's docs/design/dbo.md and vllm/config/{parallel,vllm}.py (`--enable-dbo`: data-parallel ranks with
expert parallelism over DeepEP; steps below 32 tokens in decode and 512 in prefill stay whole); SGLang's
python/sglang/srt/server_args.py (`--enable-two-batch-overlap`: no all-gather).
"""

from dataclasses import dataclass

from planner.domain import EngineProfile
from planner.domain.engine import overlap_obstacle
from planner.export.engines.expert_exchange import ExpertExchange
from planner.export.islands import ServingIsland


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Whether to switch it on; `obstacle` says why not although the plan assumes it."""

    wanted: bool
    obstacle: str = ""

    @property
    def enabled(self) -> bool:
        """Whether the engine is to split its steps."""
        return self.wanted and not self.obstacle

    @property
    def notes(self) -> tuple[str, ...]:
        """The difference between plan and engine, in words."""
        if not self.obstacle:
            return ()
        return (f"WARNING: the plan's rates hide the experts' communication, the engine does not: {self.obstacle}.",)


def overlap(island: ServingIsland, exchange: ExpertExchange | None, profile: EngineProfile) -> Overlap:
    """The overlap of `island`."""
    if not island.overlapped or exchange is None:
        return Overlap(wanted=False)
    return Overlap(wanted=True, obstacle=overlap_obstacle(island.exchange_site, profile, exchange.obstacle))
