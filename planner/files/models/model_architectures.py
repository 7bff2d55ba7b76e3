"""Shapes of the architectures that the cost formulas cover, from Hugging Face's config.json.

Each reader follows the rules of its architecture's `configuration_*.py` and `modeling_*.py` in transformers: which
layers carry experts, which see a window only, what a missing key means there. Where classes differ in the default of
a key, the key must be given. Every one has gated FFNs (gate, up and down projection).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from planner.domain import Attention, Experts, GroupedAttention, LayerGroup
from planner.errors import InputError
from planner.files.models.hybrid_architectures import (
    read_deci,
    read_deepseek_sparse,
    read_deepseek_v4,
    read_gemma3,
    read_gemma4,
    read_llama4,
    read_longcat,
    read_mimo_v2,
    read_minimax_m3,
    read_step3,
)
from planner.files.models.model_documents import ModelSection
from planner.files.models.model_parts import (
    UNKNOWN,
    Layer,
    deepseek_experts,
    dense_layers,
    expert_layers,
    grouped_attentions,
    layer_count,
    mixed_layers,
    mla_attention,
    qwen2_experts,
    qwen3_experts,
    qwen_windows,
    refuse_windows,
    typed_windows,
    windows_of_all,
)
from planner.files.models.recurrent_architectures import (
    read_bailing_hybrid,
    read_kimi_linear,
    read_nemotron_h,
    read_qwen35,
    read_qwen35_moe,
)

# keys that turn a known architecture into another one: sparse or linear attention, other modalities
_FOREIGN_KEYS = ("linear_attn_config", "audio_config", "index_topk")
_NESTED_KEYS = ("text_config", "vision_config")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleNames:
    """What the parts of a layer are called in its repository's checkpoints, one expert for all; `matrices` of a
    feed-forward block, the gate's first (`expert_matrices` of a routed expert where they have other names)."""

    attention: str = "self_attn"
    linear: str = "linear_attn"
    dense: str = "mlp"
    experts: str = "mlp.experts.0"
    shared: str = "mlp.shared_experts"
    matrices: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    expert_matrices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Architecture:
    """How the layers of an architecture are read. `nested`: they stand under `text_config`, beside a tower that reads
    images; `activation`: of its feed-forward blocks; `own_key`: what others do not have; `served`: the class that its
    repository and engines have, where it is a text model's alone."""

    layers: Callable[[ModelSection], list[Layer]]
    nested: bool = False
    activation: str = "silu"
    own_key: str = ""
    served: str = ""
    names: ModuleNames = ModuleNames()


def text_section(config: ModelSection) -> ModelSection:
    """Where a config describes the language model: itself, or under `text_config`."""
    return config.inner("text_config") if not config.is_empty("text_config") else config


def served_class(config: ModelSection) -> str:
    """The class that engines look for."""
    return _architecture(config).served or config.texts("architectures")[0]


def module_names(config: ModelSection) -> ModuleNames:
    """What the parts of its layers are called in checkpoints."""
    return _architecture(config).names


def read_layers(config: ModelSection) -> list[Layer]:
    """The layers that the config describes; InputError for whatever the formulas do not cover."""
    architecture, text = _architecture(config), text_section(config)
    for section in (config, text):
        for key in (*_FOREIGN_KEYS, *(() if architecture.nested else _NESTED_KEYS)):
            if key != architecture.own_key and not section.is_empty(key):
                raise section.fault(key, "absent: it belongs to an architecture without formulas here", hint=UNKNOWN)
    for key in ("hidden_act", "hidden_activation"):
        text.one_of(key, (architecture.activation,), default=architecture.activation)
    return architecture.layers(text)


def grouped_layers(layers: Iterable[Layer]) -> tuple[LayerGroup, ...]:
    """Equal layers together, in the order in which each kind first stands."""
    return tuple(LayerGroup(count=n, attention=kind[0], ffn=kind[1]) for kind, n in Counter(layers).items())


def _architecture(config: ModelSection) -> _Architecture:
    architectures = config.texts("architectures")
    if len(architectures) != 1 or architectures[0] not in _ARCHITECTURES:
        raise InputError(
            f"{config.file}: {config.key_path('architectures')} must be one that the cost model knows, "
            f"{', '.join(_ARCHITECTURES)}, got {', '.join(architectures) or 'none'}.",
            hint=UNKNOWN,
        )
    return _ARCHITECTURES[architectures[0]]


def _deepseek(config: ModelSection) -> list[Layer]:
    refuse_windows(config)
    layers = layer_count(config)
    first = config.integer("first_k_dense_replace", low=0, high=layers)
    step = config.whole("moe_layer_freq", 1, low=1)
    indices = tuple(layer for layer in range(first, layers) if layer % step == 0)
    return mixed_layers(config, [mla_attention(config)] * layers, indices, deepseek_experts)


def _glm4_moe(config: ModelSection) -> list[Layer]:
    refuse_windows(config)
    layers = layer_count(config)
    indices = tuple(range(config.integer("first_k_dense_replace", low=0, high=layers), layers))
    return mixed_layers(config, grouped_attentions(config), indices, deepseek_experts)


def _qwen2_moe(config: ModelSection) -> list[Layer]:
    return _sparse_qwen(config, _qwen_attention(config, by_width=True), qwen2_experts)


def _qwen3_moe(config: ModelSection) -> list[Layer]:
    return _sparse_qwen(config, _qwen_attention(config), qwen3_experts)


def _sparse_qwen(
    config: ModelSection, attentions: Sequence[Attention], experts: Callable[[ModelSection], Experts]
) -> list[Layer]:
    layers = layer_count(config)
    step = config.whole("decoder_sparse_step", 1, low=1)
    dense = () if config.is_empty("mlp_only_layers") else config.integers("mlp_only_layers", low=0, high=layers - 1)
    indices = tuple(layer for layer in range(layers) if (layer + 1) % step == 0 and layer not in dense)
    return mixed_layers(config, attentions, indices, experts)


def _mixtral(config: ModelSection) -> list[Layer]:
    return expert_layers(config, grouped_attentions(config, windows=windows_of_all(config), by_width=True))


def _gpt_oss(config: ModelSection) -> list[Layer]:
    return expert_layers(config, grouped_attentions(config, windows=typed_windows(config)))


def _llama(config: ModelSection) -> list[Layer]:
    refuse_windows(config)
    return dense_layers(config, grouped_attentions(config, by_width=True, kv_heads_default=True))


def _mistral(config: ModelSection) -> list[Layer]:
    return dense_layers(config, grouped_attentions(config, windows=windows_of_all(config), by_width=True))


def _qwen2(config: ModelSection) -> list[Layer]:
    return dense_layers(config, _qwen_attention(config, by_width=True))


def _qwen3(config: ModelSection) -> list[Layer]:
    return dense_layers(config, _qwen_attention(config))


def _qwen_attention(config: ModelSection, *, by_width: bool = False) -> list[GroupedAttention]:
    # of the Qwens only Qwen3 states a head_dim of its own, 128, where the key is missing
    return grouped_attentions(config, windows=qwen_windows(config), by_width=by_width)


def _minimax_m2(config: ModelSection) -> list[Layer]:
    if config.whole("shared_intermediate_size", 0):
        raise config.fault("shared_intermediate_size", "0: no MiniMax-M2 with shared experts is known", hint=UNKNOWN)
    return expert_layers(config, grouped_attentions(config))


_MINIMAX = ModuleNames(
    experts="block_sparse_moe.experts.0",
    shared="block_sparse_moe.shared_experts",
    expert_matrices=("w1", "w3", "w2"),
)

_KIMI_LINEAR = replace(_MINIMAX, linear="self_attn")

_ARCHITECTURES: Mapping[str, _Architecture] = MappingProxyType(
    {
        **dict.fromkeys(
            ("BailingHybridForCausalLM", "BailingMoeV3ForCausalLM"),
            _Architecture(layers=read_bailing_hybrid, names=ModuleNames(attention="attention", linear="attention")),
        ),
        "DeciLMForCausalLM": _Architecture(layers=read_deci),
        "DeepseekV2ForCausalLM": _Architecture(layers=_deepseek),
        "DeepseekV3ForCausalLM": _Architecture(layers=_deepseek),
        "Gemma3ForConditionalGeneration": _Architecture(
            layers=read_gemma3, nested=True, activation="gelu_pytorch_tanh"
        ),
        "Gemma4ForConditionalGeneration": _Architecture(
            layers=read_gemma4,
            nested=True,
            activation="gelu_pytorch_tanh",
            names=ModuleNames(experts="experts.0", shared="mlp"),
        ),
        "DeepseekV4ForCausalLM": _Architecture(
            layers=read_deepseek_v4,
            own_key="index_topk",
            names=ModuleNames(
                attention="attn", experts="ffn.experts.0", shared="ffn.shared_experts", matrices=("w1", "w3", "w2")
            ),
        ),
        "DeepseekV32ForCausalLM": _Architecture(layers=read_deepseek_sparse, own_key="index_topk"),
        "GlmMoeDsaForCausalLM": _Architecture(layers=read_deepseek_sparse, own_key="index_topk"),
        "NemotronHForCausalLM": _Architecture(
            layers=read_nemotron_h,
            names=ModuleNames(
                attention="mixer", dense="mixer", experts="mixer.experts.0", shared="mixer.shared_experts"
            ),
        ),
        "Qwen3_5ForConditionalGeneration": _Architecture(layers=read_qwen35, nested=True),
        "Qwen3_5MoeForConditionalGeneration": _Architecture(
            layers=read_qwen35_moe, nested=True, names=ModuleNames(shared="mlp.shared_expert")
        ),
        "Glm4MoeForCausalLM": _Architecture(layers=_glm4_moe),
        "GptOssForCausalLM": _Architecture(layers=_gpt_oss),
        "KimiK25ForConditionalGeneration": _Architecture(layers=_deepseek, nested=True),
        "KimiK3ForConditionalGeneration": _Architecture(
            layers=read_kimi_linear, nested=True, activation="situ", own_key="linear_attn_config", names=_KIMI_LINEAR
        ),
        "KimiLinearForCausalLM": _Architecture(
            layers=read_kimi_linear, own_key="linear_attn_config", names=_KIMI_LINEAR
        ),
        "Llama4ForConditionalGeneration": _Architecture(layers=read_llama4, nested=True),
        "LlamaForCausalLM": _Architecture(layers=_llama),
        "LongcatFlashForCausalLM": _Architecture(
            layers=read_longcat, names=ModuleNames(attention="self_attn.0", dense="mlps.0")
        ),
        "MiMoForCausalLM": _Architecture(layers=_qwen3),
        "MiMoV2FlashForCausalLM": _Architecture(layers=read_mimo_v2),
        "MiniMaxM2ForCausalLM": _Architecture(layers=_minimax_m2, names=_MINIMAX),
        "MiniMaxM3ForCausalLM": _Architecture(
            served="MiniMaxM3SparseForConditionalGeneration",
            layers=read_minimax_m3,
            activation="swigluoai",
            names=_MINIMAX,
        ),
        "MiniMaxM3SparseForCausalLM": _Architecture(layers=read_minimax_m3, activation="swigluoai"),
        "MiniMaxM3SparseForConditionalGeneration": _Architecture(
            layers=read_minimax_m3, nested=True, activation="swigluoai", names=_MINIMAX
        ),
        "MistralForCausalLM": _Architecture(layers=_mistral),
        "MixtralForCausalLM": _Architecture(layers=_mixtral),
        "Qwen2ForCausalLM": _Architecture(layers=_qwen2),
        "Qwen2MoeForCausalLM": _Architecture(layers=_qwen2_moe, names=ModuleNames(shared="mlp.shared_expert")),
        "Qwen3ForCausalLM": _Architecture(layers=_qwen3),
        "Qwen3MoeForCausalLM": _Architecture(layers=_qwen3_moe),
        "Qwen3NextForCausalLM": _Architecture(layers=read_qwen35_moe, names=ModuleNames(shared="mlp.shared_expert")),
        "Qwen3VLForConditionalGeneration": _Architecture(layers=_qwen3, nested=True),
        "Qwen3VLMoeForConditionalGeneration": _Architecture(layers=_qwen3_moe, nested=True),
        "Step3p7FlashForCausalLM": _Architecture(layers=read_step3, served="Step3p7ForConditionalGeneration"),
        "Step3p7ForConditionalGeneration": _Architecture(layers=read_step3, nested=True),
    }
)

ARCHITECTURES = tuple(_ARCHITECTURES)
"""Those whose layers are read, by the class that config.json names."""
