"""Whether SGLang can split the shared expert: the block of a layer with experts is built by the model's own code, on
torch's `meta` device, which has shapes and no memory.

Without an all-to-all backend the shared expert is split over the whole tensor-parallel group, and its width must
divide (layers/linear.py, ColumnParallelLinear, in whole blocks of FP8 weights: layers/quantization/fp8.py,
validate_block_quant_shapes); `--ep-size` above 1 turns its fusion with the routed experts off (models/glm4_moe.py and
deepseek_v2.py, shared_experts_fusion_disable_reason). Read in version 0.5.18; both are run here, not repeated.
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
    model = server.get_model_config()
    architecture = model.hf_config.architectures[0]
    if architecture not in _BLOCKS:
        return
    file, block = _BLOCKS[architecture]
    module = import_module(f"sglang.srt.models.{file}")
    quantisation = _quantisation(model)
    utils, context = import_module("sglang.srt.layers.moe.utils"), import_module("sglang.srt.runtime_context")
    context.get_context().set_server_args(server)
    utils.initialize_moe_config(server)
    ranks, state = _ranks(server), import_module("sglang.srt.distributed.parallel_state")
    state._TP = ranks["tp_group"]  # the exchange of tokens by DeepEP looks for it here
    with context.get_parallel().override(**ranks), import_module("torch").device("meta"):
        utils.install_shared_experts_fusion_decision(getattr(module, architecture), model.hf_config, quantisation)
        getattr(module, block)(
            config=model.hf_config, layer_id=_LAYER, quant_config=quantisation, prefix=f"model.layers.{_LAYER}.mlp"
        )


def _quantisation(model: Any) -> Any:
    told = getattr(model.hf_config, "quantization_config", None)
    if not told:
        return None
    return import_module("sglang.srt.layers.quantization").get_quantization_config(model.quantization).from_config(told)


def _ranks(server: Any) -> dict[str, object]:
    """The first rank of the server, as distributed/parallel_state.py (initialize_model_parallel) makes its groups,
    which are mocks."""
    world, experts = server.tp_size, server.ep_size
    groups = server.dp_size if server.enable_dp_attention else 1
    sizes = {
        "world": world * server.pp_size,
        "tp": world,
        "pp": server.pp_size,
        "moe_ep": experts,
        "moe_tp": world // experts,
        "moe_dp": 1,
        "attn_tp": world // groups,
        "attn_dp": groups,
        "attn_cp": 1,
    }
    rows: dict[str, object] = {f"{name}_size": size for name, size in sizes.items()}
    rows |= {f"{name}_rank": 0 for name in sizes}
    groups_of = sizes.keys() - {"attn_dp"}
    return rows | {f"{name}_group": MagicMock(world_size=sizes[name], rank_in_group=0) for name in groups_of}
