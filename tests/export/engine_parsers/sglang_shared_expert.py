"""Whether SGLang can split the shared expert: the block of a layer with experts is built by the model's own code, on
torch's `meta` device, which has shapes and no memory.

Without an all-to-all backend the shared expert is split over the whole tensor-parallel group, and its width must
divide (layers/linear.py, ColumnParallelLinear, in whole blocks of FP8 weights: layers/quantization/fp8.py,
validate_block_quant_shapes); `--ep-size` above 1 turns its fusion with the routed experts off (models/glm4_moe.py and
deepseek_v2.py, shared_experts_fusion_disable_reason). Read in version 0.5.23; both are run here, not repeated.
"""

from importlib import import_module
from typing import Any
from unittest.mock import MagicMock

_LAYER = 5  # one with experts in all these models
_BLOCKS = {
    "DeepseekV2ForCausalLM": ("deepseek_v2", "DeepseekV2MoE"),
    "DeepseekV3ForCausalLM": ("deepseek_v2", "DeepseekV2MoE"),
    "Glm4MoeForCausalLM": ("glm4_moe", "Glm4MoeSparseMoeBlock"),
}


def build(server: Any) -> None:
    """Raises what SGLang would raise when it builds a layer with a shared expert for `server`, a ServerArgs."""
    model = import_module("sglang.srt.arg_groups.model_override_base").model_config_of(server)
    architecture = model.hf_config.architectures[0]
    if architecture not in _BLOCKS:
        return
    file, block = _BLOCKS[architecture]
    module = import_module(f"sglang.srt.models.{file}")
    quantisation = _quantisation(model)
    utils, context = import_module("sglang.srt.layers.moe.utils"), import_module("sglang.srt.runtime_context")
    context.reset_context()
    context.publish(server, role="scheduler", ranks=context.SpawnRanks(world_rank=0, dp_rank=0, gpu_id=0))
    utils.initialize_moe_config()
    shared = utils.resolve_shared_experts_config(getattr(module, architecture), model.hf_config, quantisation)
    groups, state = _groups(context.get_parallel()), import_module("sglang.srt.distributed.parallel_state")
    state._TP = groups["tp_group"]  # the exchange of tokens by DeepEP looks for it here
    with (
        context.get_parallel().override(**groups),
        context.get_model().override(shared_experts=shared),
        import_module("torch").device("meta"),
    ):
        getattr(module, block)(
            config=model.hf_config, layer_id=_LAYER, quant_config=quantisation, prefix=f"model.layers.{_LAYER}.mlp"
        )


def _quantisation(model: Any) -> Any:
    told = getattr(model.hf_config, "quantization_config", None)
    if not told:
        return None
    return import_module("sglang.srt.layers.quantization").get_quantization_config(model.quantization).from_config(told)


def _groups(parallel: Any) -> dict[str, MagicMock]:
    """The first rank's groups, which are mocks of the sizes that the engine has worked out."""
    names = ("tp", "pp", "moe_ep", "moe_tp", "moe_dp", "attn_tp", "attn_cp")
    return {f"{name}_group": MagicMock(world_size=getattr(parallel, f"{name}_size"), rank_in_group=0) for name in names}
