"""What vLLM refuses when it loads a model: layers that its tensor-parallel groups cannot split, experts of which ranks
would hold unlike numbers.

The shared expert and dense layers are split over a group; DeepSeek's models keep the shared expert whole where several
groups spread their experts. A group's experts are split only where `--enable-expert-parallel` is missing.

Sources, version 0.18.0 (vllm): config/model.py (verify_with_parallel_config), model_executor/models/deepseek_v2.py and
glm4_moe.py (shared_experts), config/parallel.py (use_sequence_parallel_moe), model_executor/layers/fused_moe/
deepep_ll_prepare_finalize.py (SUPPORTED_HIDDEN_SIZES).
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from planner.domain import ModelSpec, Phase
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

REMEDY = "Plan with sizes that it can split (search: {method: exact, sizes: powers_of_two})."
_TENSOR, _DATA, _EXPERTS = "tensor-parallel-size", "data-parallel-size", "enable-expert-parallel"
_GLM = "Glm4MoeForCausalLM"
_WIDEST_LOW_LATENCY = 8192


def check_model(arguments: Sequence[str], island: ServingIsland, /) -> Iterator[Breach]:
    """What vLLM, started with `arguments`, could not load of the island's model."""
    values = read_flags(arguments)
    yield from split_faults(_splits(values, island.model), island.model)


def _splits(values: Mapping[str, str], model: ModelSpec) -> Iterator[LayerSplit]:
    group, groups = read_count(values, _TENSOR, 1), read_count(values, _DATA, 1)
    yield from attention_splits(model, group, _TENSOR, alone=True)
    yield vocabulary_split(model, group, _TENSOR)
    yield from dense_split(model, group, _TENSOR)
    spread = _EXPERTS in values
    if not (spread and groups > 1) or model.architecture == _GLM:
        yield from shared_split(model, group, _TENSOR)
    if model.experts and not spread:
        yield LayerSplit(parts="columns of an expert", width=model.experts.ffn_size, degree=group, flag=_TENSOR)
    if model.experts and "enable-eplb" in values:
        redundant = _redundant(values)
        items = f"experts ({redundant} of them redundant)"
        width = model.routed_experts + redundant
        yield LayerSplit(parts=items, width=width, degree=group * groups, flag=_DATA, blocks=False)


def _redundant(values: Mapping[str, str]) -> int:
    try:
        config = json.loads(values.get("eplb-config", "{}"))
    except (ValueError, RecursionError):
        return 0
    count = config.get("num_redundant_experts", 0) if isinstance(config, dict) else 0
    return count if type(count) is int else 0


def deepep_obstacle(island: ServingIsland) -> str:
    """Why vLLM cannot exchange this model's tokens by DeepEP; empty where it can. Narrower layers are padded."""
    width = island.model.hidden_size
    if island.phase is Phase.DECODE and width > _WIDEST_LOW_LATENCY:
        return f"DeepEP's low-latency kernels take layers of {_WIDEST_LOW_LATENCY} at most, not {width}"
    return ""
