"""What SGLang refuses when it loads a model: layers that it cannot split, experts that it cannot spread, exchanges that
a model's own code does not have.

symbol     meaning                                                    source
world      GPUs of a stage, `--tp-size`                               -
group      GPUs of an attention group, `--tp-size` / `--dp-size`      -

Split over the world: the shared expert, unless tokens are exchanged by an all-to-all backend or experts are not spread
(then it is one of them); dense layers, unless `--moe-dense-tp-size` is 1. Split over the group: heads, embedding,
output head. On AMD the shared expert may stay one of the experts, by image and model: nothing is said of it there.
The variable SGLANG_SHARED_EXPERT_TP1 would keep it whole, but each GPU then takes the tokens of all through it, which
no plan counts on.

Sources, version 0.5.18 (python/sglang/srt): models/deepseek_v2.py and glm4_moe.py (shared_experts,
shared_experts_fusion_disable_reason; GLM's layers have config.n_routed_experts, others add redundant ones),
models/gpt_oss.py and mixtral.py (none redundant), layers/moe/fused_moe_triton/layer.py (experts
over ranks), layers/moe/ep_moe/layer.py (which weights DeepEP's path takes), layers/quantization/mxfp4.py.
"""

from collections.abc import Iterator, Mapping, Sequence

from planner.domain import ModelSpec
from planner.export.engines.arguments import read_count, read_flags
from planner.export.engines.layer_splits import (
    Breach,
    LayerSplit,
    attention_splits,
    dense_split,
    shared_split,
    split_faults,
    vocabulary_split,
)
from planner.export.islands import ServingIsland

REMEDY = "Export for vllm, or plan with sizes that it can split (search: {method: exact, sizes: powers_of_two})."
_WHOLE_SHARED = frozenset({"deepep", "mooncake", "nixl", "mori", "ascend_fuseep", "flashinfer"})
_MIXTRAL, _GPT_OSS, _GLM = "MixtralForCausalLM", "GptOssForCausalLM", "Glm4MoeForCausalLM"
_WITHOUT_REDUNDANT = frozenset({_MIXTRAL, _GLM})
_DEEPEP_WEIGHTS = frozenset({"", "fp8"})
_HALF_BYTES = 2.0
_BLACKWELL = 10


def check_model(arguments: Sequence[str], island: ServingIsland, /) -> Iterator[Breach]:
    """What SGLang, started with `arguments`, could not load of the island's model."""
    values, model = read_flags(arguments), island.model
    yield from split_faults(_splits(values, island), model)
    if model.experts:
        yield from _expert_faults(values, model)
    if model.architecture == _MIXTRAL and "enable-dp-attention" in values:
        yield "--enable-dp-attention must be left out: SGLang's Mixtral has no attention groups", "there"


def _splits(values: Mapping[str, str], island: ServingIsland) -> Iterator[LayerSplit]:
    model, world = island.model, read_count(values, "tp-size", 1)
    groups = read_count(values, "dp-size", 1) if "enable-dp-attention" in values else 1
    group = world // groups if groups > 0 else 0
    yield from attention_splits(model, group, "tp-size", alone=group == world)
    yield vocabulary_split(model, group, "tp-size")
    if values.get("moe-dense-tp-size") != "1" or not model.experts:
        yield from dense_split(model, world, "tp-size")
    spread = read_count(values, "ep-size", 1) > 1
    if spread and values.get("moe-a2a-backend") not in _WHOLE_SHARED and island.gpu.vendor.upper() == "NVIDIA":
        yield from shared_split(model, world, "tp-size")


def _expert_faults(values: Mapping[str, str], model: ModelSpec) -> Iterator[Breach]:
    world, ranks = read_count(values, "tp-size", 1), read_count(values, "ep-size", 1)
    told = read_count(values, "ep-num-redundant-experts", 0)
    redundant = 0 if model.architecture in _WITHOUT_REDUNDANT else told
    if world > model.routed_experts and model.architecture != _MIXTRAL:
        yield f"--tp-size must be at most the {model.routed_experts} experts of a layer", str(world)
    experts = LayerSplit(
        parts=f"experts ({redundant} of them redundant)",
        width=model.routed_experts + redundant,
        degree=ranks,
        flag="ep-size",
        blocks=False,
    )
    yield from split_faults([experts], model)
    if told > redundant:
        yield f"--ep-num-redundant-experts must be left out: SGLang's {model.architecture} builds none", str(told)


def deepep_obstacle(island: ServingIsland) -> str:
    """Why SGLang cannot exchange this model's tokens by DeepEP; empty where it can."""
    model = island.model
    if model.architecture in (_MIXTRAL, _GPT_OSS):
        return f"SGLang has no DeepEP path for {model.architecture}"
    if model.quantization not in _DEEPEP_WEIGHTS:
        return f"SGLang's DeepEP path takes FP8 or BF16 weights, not {model.quantization}"
    return ""


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
