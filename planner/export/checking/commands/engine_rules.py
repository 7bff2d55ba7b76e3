"""What the engines' flags must hold beside degrees and batch, as data: one row an engine.

Sources: vLLM: vllm/engine/arg_utils.py (flags, on/off pairs, `--config`), config/scheduler.py (token budget at least
the sequences), v1/worker/gpu_worker.py (start refused where less memory is free than the fraction asks for),
docs/features/nixl_connector_usage.md (side channel). SGLang: python/sglang/srt/server_args.py (flags, choices, host).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from planner.export.engines.vllm_groups import HYBRID_CACHE


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRules:
    """Names of flags without their hyphens.

    `model`: flags that name the weights; `positional`: words behind which the weights stand without a flag.
    `memory`: the share of a GPU's memory that the engine takes. `planned`: the plan's rates rest on these, so that they
    are what the planner writes, or left out where it leaves them out. `needed`: without these an engine does not start,
    or its KV cache is refused, so that they are there, with whatever value, where the planner writes them. `at_least`:
    budgets that the plan's steps need. `alike`: what both sides of a KV transfer agree on, in all of a plan;
    `exchanged`: what islands agree on that hand caches to each other. `switches`: flags without a value. `refused`:
    flags that take a limit out of sight, with the reason. `local_by_default`: without `--host` nobody but the pod
    itself reaches the engine. `addresses`: variables that hold the pod's own address while `nixl` carries the KV cache.
    """

    model: tuple[str, ...]
    positional: tuple[str, ...] = ()
    memory: str
    planned: frozenset[str]
    needed: frozenset[str]
    at_least: frozenset[str]
    alike: tuple[str, ...]
    exchanged: tuple[str, ...]
    switches: frozenset[str]
    refused: Mapping[str, str]
    local_by_default: bool = False
    addresses: tuple[str, ...] = ()
    budgets: tuple[tuple[str, str], ...] = field(default=())
    """(flag, other flag): the first must be at least the second, or the engine does not start."""

    @property
    def once(self) -> frozenset[str]:
        """Flags that are read here and must be given once."""
        checked = self.planned | self.needed | self.at_least | self.switches
        return checked | {self.memory, "host", *self.alike, *self.exchanged, *self.model}


_CONFIG = "what a file holds beside the command line cannot be looked at"
_NO_HTTP = "requests and probes come by HTTP"
_KV_LIMIT = "the plan's batch needs all KV cache that the memory share gives"

_VLLM = EngineRules(
    model=("model",),
    positional=("vllm", "serve"),
    memory="gpu-memory-utilization",
    planned=frozenset(
        {"enable-expert-parallel", "all2all-backend", "enable-eplb", "eplb-config", "enable-dbo", "speculative-config"}
        | {"kv-cache-dtype"}
    ),
    needed=frozenset({"attention-backend", HYBRID_CACHE, "trust-remote-code"}),
    at_least=frozenset({"max-num-batched-tokens"}),
    alike=("kv-transfer-config", "kv-cache-dtype", HYBRID_CACHE),
    exchanged=("attention-backend",),
    switches=frozenset({"enable-expert-parallel", "enable-eplb", "enable-dbo", "headless", "trust-remote-code"}),
    refused=MappingProxyType(
        {"config": _CONFIG, "num-gpu-blocks-override": _KV_LIMIT, "kv-cache-memory-bytes": _KV_LIMIT, "grpc": _NO_HTTP}
    ),
    addresses=("VLLM_NIXL_SIDE_CHANNEL_HOST",),
    budgets=(("max-num-batched-tokens", "max-num-seqs"),),
)

_SGLANG = EngineRules(
    model=("model-path", "model"),
    memory="mem-fraction-static",
    planned=frozenset(
        {"ep-size", "moe-a2a-backend", "deepep-mode", "moe-dense-tp-size", "enable-dp-attention", "enable-dp-lm-head"}
        | {"ep-num-redundant-experts", "enable-eplb", "enable-two-batch-overlap", "enable-mixed-chunk"}
        | {"kv-cache-dtype"}
        | {f"speculative-{name}" for name in ("algorithm", "num-steps", "eagle-topk", "num-draft-tokens")}
    ),
    needed=frozenset({"page-size", "trust-remote-code", "moe-runner-backend"}),
    at_least=frozenset({"chunked-prefill-size", "max-prefill-tokens"}),
    alike=("disaggregation-transfer-backend", "kv-cache-dtype"),
    exchanged=("page-size",),
    switches=frozenset(
        {"enable-dp-attention", "enable-dp-lm-head", "enable-eplb", "enable-two-batch-overlap", "enable-mixed-chunk"}
        | {"trust-remote-code"}
    ),
    refused=MappingProxyType(
        {"config": _CONFIG, "max-total-tokens": _KV_LIMIT, "grpc-mode": _NO_HTTP, "smg-grpc-mode": _NO_HTTP}
    ),
    local_by_default=True,
)

RULES: Mapping[str, EngineRules] = MappingProxyType({"vllm": _VLLM, "sglang": _SGLANG})
