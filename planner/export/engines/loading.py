"""What cannot be loaded, in the words of an engine's flags (`domain.engine.layers` has the rules), and what it does not
draft.

What vLLM refuses when it loads a model: layers that its tensor-parallel groups cannot split, experts of which ranks
would hold unlike numbers.

The shared expert and dense layers are split over a group; DeepSeek's models keep the shared expert whole where several
groups spread their experts. A group's experts are split only where `--enable-expert-parallel` is missing.

Sources, versions 0.18.0 to 0.33.0 (vllm): config/model.py (verify_with_parallel_config), model_executor/models/
deepseek_v2.py and glm4_moe.py (shared_experts), config/parallel.py (use_sequence_parallel_moe),
model_executor/layers/fused_moe/deepep_ll_prepare_finalize.py (SUPPORTED_HIDDEN_SIZES).

What SGLang refuses when it loads a model: layers that it cannot split, experts that it cannot spread, exchanges that
a model's own code does not have.

symbol     meaning                                                    source
world      GPUs of a stage, `--tp-size`                               -
group      GPUs of an attention group, `--tp-size` / `--dp-size`      -

Split over the world: the shared expert, unless tokens are exchanged by an all-to-all backend or experts are not spread
(then it is one of them); dense layers, unless `--moe-dense-tp-size` is 1. Split over the group: heads, embedding,
output head. On AMD the shared expert may stay one of the experts, by image and model: nothing is said of it there.
The variable SGLANG_SHARED_EXPERT_TP1 would keep it whole, but each GPU then takes the tokens of all through it, which
no plan counts on.

Sources, versions 0.5.18 to 0.5.23 (python/sglang/srt): models/deepseek_v2.py and glm4_moe.py (shared_experts,
shared_experts_fusion_disable_reason), models/gpt_oss.py and mixtral.py, layers/moe/fused_moe_triton/layer.py (experts
over ranks), layers/moe/ep_moe/layer.py (which weights DeepEP's path takes), layers/quantization/mxfp4.py.

Multi-token prediction: both phases need the draft layers, prefill to hand over their cache, decode to draft.

Sources: vLLM's docs/features/speculative_decoding/mtp.md and issue 49355 (broken with pipeline stages); SGLang's
docs/advanced_features/speculative_decoding and python/sglang/srt/server_args.py, check_server_args.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from planner.domain import EngineProfile, ModelSpec
from planner.domain.engine import Loading, Over, layer_faults
from planner.errors import ExportError
from planner.export.engines.arguments import read_count, read_flags
from planner.export.islands import ServingIsland

Breach = tuple[str, str]
"""What must hold, the flag first, and what came."""


def loading_faults(
    model: ModelSpec, loading: Loading, profile: EngineProfile, flag_of: Mapping[Over, str]
) -> Iterator[Breach]:
    """What of the model cannot be loaded so; `flag_of` names the flag of each degree."""
    for fault in layer_faults(model, loading, profile.layers):
        received = f"{fault.degree}, {fault.came}" if fault.came else str(fault.degree)
        yield f"--{flag_of[fault.over]} must {fault.rule}", received


def check_code(island: ServingIsland, profile: EngineProfile) -> None:
    """Raises ExportError where the version has no code for the model's architecture."""
    if not profile.loads(island.model.architecture):
        raise ExportError(
            f"Island {island.id}: {profile} has no code for {island.model.architecture}, got {island.model.name}.",
            hint="Plan for a version that has (`planner engines`), and export with its own image.",
        )


def require_loadable(island: ServingIsland, engine: str, faults: Iterable[Breach], remedy: str) -> None:
    """Raises ExportError for the first of `faults`, as an engine that cannot load the model is no deployment."""
    breach = next(iter(faults), None)
    if breach is not None:
        expected, received = breach
        raise ExportError(
            f"Island {island.id}: {engine} cannot load {island.model.name} on its {island.parallel.devices} GPUs: "
            f"{expected}, got {received}.",
            hint=remedy,
        )


VLLM_NAME = "vllm"
VLLM_REMEDY = "Plan with sizes that it can split (search: {method: exact, sizes: powers_of_two})."
_TENSOR, _DATA, _EXPERTS = "tensor-parallel-size", "data-parallel-size", "enable-expert-parallel"
_EXCHANGES = frozenset({"deepep_high_throughput", "deepep_low_latency"})
_VLLM_FLAGS = MappingProxyType({Over.GROUP: _TENSOR, Over.STAGE: _TENSOR, Over.RANKS: _DATA})


def vllm_faults(arguments: Sequence[str], island: ServingIsland, /) -> Iterator[Breach]:
    """What vLLM, started with `arguments`, could not load of the island's model."""
    loading = _vllm_loading(read_flags(arguments), island)
    yield from loading_faults(island.model, loading, island.profile(VLLM_NAME), _VLLM_FLAGS)


def _vllm_loading(values: Mapping[str, str], island: ServingIsland) -> Loading:
    group, groups = read_count(values, _TENSOR, 1), read_count(values, _DATA, 1)
    return Loading(
        group=group,
        groups=groups,
        stage=group * groups,
        spread=_EXPERTS in values,
        ranks=group * groups,
        exchanged=values.get("all2all-backend") in _EXCHANGES,
        balanced="enable-eplb" in values,
        redundant=_redundant(values),
        vendor=island.gpu.vendor,
    )


def _redundant(values: Mapping[str, str]) -> int:
    try:
        config = json.loads(values.get("eplb-config", "{}"))
    except (ValueError, RecursionError):
        return 0
    count = config.get("num_redundant_experts", 0) if isinstance(config, dict) else 0
    return count if type(count) is int else 0


SGLANG_NAME = "sglang"
SGLANG_REMEDY = "Export for vllm, or plan with sizes that it can split (search: {method: exact, sizes: powers_of_two})."
_WHOLE_SHARED = frozenset({"deepep", "mooncake", "nixl", "mori", "ascend_fuseep", "flashinfer"})
_GROUPS = "enable-dp-attention"
_SGLANG_FLAGS = MappingProxyType({Over.GROUP: "tp-size", Over.STAGE: "tp-size", Over.RANKS: "ep-size"})
_HALF_BYTES = 2.0
_BLACKWELL = 10


def sglang_faults(arguments: Sequence[str], island: ServingIsland, /) -> Iterator[Breach]:
    """What SGLang, started with `arguments`, could not load of the island's model."""
    values, model, profile = read_flags(arguments), island.model, island.profile(SGLANG_NAME)
    yield from loading_faults(model, _sglang_loading(values, island), profile, _SGLANG_FLAGS)
    redundant = read_count(values, "ep-num-redundant-experts", 0)
    if redundant and model.architecture in profile.layers.without_redundant:
        yield f"--ep-num-redundant-experts must be left out: SGLang's {model.architecture} builds none", str(redundant)
    if model.architecture in profile.layers.single_group and _GROUPS in values:
        name = model.architecture.removesuffix("ForCausalLM")
        yield f"--{_GROUPS} must be left out: SGLang's {name} has no attention groups", "there"


def _sglang_loading(values: Mapping[str, str], island: ServingIsland) -> Loading:
    stage, ranks = read_count(values, "tp-size", 1), read_count(values, "ep-size", 1)
    groups = read_count(values, "dp-size", 1) if _GROUPS in values else 1
    return Loading(
        group=stage // groups if groups > 0 else 0,
        groups=groups,
        stage=stage,
        spread=ranks > 1,
        ranks=ranks,
        exchanged=values.get("moe-a2a-backend") in _WHOLE_SHARED,
        balanced="enable-eplb" in values,
        redundant=read_count(values, "ep-num-redundant-experts", 0),
        dense_whole=values.get("moe-dense-tp-size") == "1",
        vendor=island.gpu.vendor,
    )


TRTLLM_NAME = "trtllm"
TRTLLM_REMEDY = "Plan for trtllm (`engine: {name: trtllm}`), which then has sizes that it can split."
_STAGE_FLAG, _EXPERTS_FLAG = "tensor_parallel_size", "moe_expert_parallel_size"
_TRTLLM_FLAGS = MappingProxyType({Over.GROUP: _STAGE_FLAG, Over.STAGE: _STAGE_FLAG, Over.RANKS: _EXPERTS_FLAG})


def trtllm_faults(arguments: Sequence[str], options: Mapping[str, Any], island: ServingIsland, /) -> Iterator[Breach]:
    """What TensorRT-LLM, started with `arguments` and `options`, could not load of the island's model."""
    values, profile = read_flags(arguments), island.profile(TRTLLM_NAME)
    stage, ranks = read_count(values, _STAGE_FLAG, 1), read_count(values, _EXPERTS_FLAG, 1)
    groups = island.parallel.dp if options.get("enable_attention_dp") else 1
    slots = options.get("moe_config", {}).get("load_balancer", {}).get("num_slots", island.model.routed_experts)
    loading = Loading(
        group=stage // groups,
        groups=groups,
        stage=stage,
        spread=ranks > 1,
        ranks=ranks,
        balanced=slots > island.model.routed_experts,
        redundant=slots - island.model.routed_experts,
        dense_whole=groups > 1,
        vendor=island.gpu.vendor,
    )
    yield from loading_faults(island.model, loading, profile, _TRTLLM_FLAGS)
    if ranks > 1 and island.redundant_experts and island.model.architecture in profile.layers.without_redundant:
        yield "redundant experts must be none (cost.redundant_experts)", str(island.redundant_experts)


def is_unquantised(model: ModelSpec) -> bool:
    """Whether experts lie in BF16: DeepEP's path takes those by one runner, which SGLang does not choose itself."""
    return not model.quantization and model.expert_bytes >= _HALF_BYTES


def upcast_notes(island: ServingIsland) -> tuple[str, ...]:
    """MXFP4 experts that SGLang spreads come to two bytes each where no kernel takes them."""
    spread = island.model.experts is not None and island.parallel.stage_devices > 1
    if not spread or island.model.quantization != "mxfp4" or island.gpu.compute_capability >= _BLACKWELL:
        return ()
    return (
        "WARNING: SGLang turns MXFP4 experts that are spread over GPUs into BF16 on GPUs before compute capability 10: "
        "four times the memory that the plan counts on. Export for vllm, or name a runner (--moe-runner-backend).",
    )


def draft_tokens(island: ServingIsland, profile: EngineProfile) -> int:
    """Tokens to draft a step, 0: none.

    Raises:
        ExportError: pipeline stages, where the engine does not draft with them, or more tokens than it drafts.
    """
    if island.draft_tokens and island.parallel.pp > 1 and not profile.drafts.with_stages:
        raise ExportError(
            f"Island {island.id}, parallel.pp: must be 1 where tokens are drafted ({island.draft_tokens} a step), got "
            f"{island.parallel.pp}.",
            hint="Plan with cost.speculation none and cost.mtp_tokens 0, or cost.max_pipeline_stages 1.",
        )
    if island.draft_tokens > profile.drafts.most:
        raise ExportError(
            f"Island {island.id}, drafted tokens: must be at most {profile.drafts.most} for {profile}, got "
            f"{island.draft_tokens}.",
            hint="Plan with fewer (cost.speculation, cost.mtp_tokens), or for another engine.",
        )
    return island.draft_tokens
