"""Model shapes from Hugging Face config.json files, and back.

Fields of ours stand under `_planner`: `uri` (where an engine loads the weights from), and optionally `name`,
`source`, `weight_bytes` and `kv_bytes` (bytes per element).
"""

import re
from pathlib import Path

from planner.domain import Experts, MlaAttention, ModelSpec
from planner.errors import InputError
from planner.files.documents import read_json
from planner.files.references import is_path, resolve
from planner.files.sections import NAME_PATTERN, Section, nearest_hint
from planner.files.shipped import shipped_models

_ARCHITECTURES = ("DeepseekV3ForCausalLM",)
_BYTES_BY_DTYPE = {"bfloat16": 2.0, "float16": 2.0}


def load_model(name_or_path: str, base: Path | None = None) -> ModelSpec:
    """The shape of a shipped model, or of a config.json (or the folder that holds it), relative to `base`."""
    return read_model(model_file(name_or_path, base))


def model_file(name_or_path: str, base: Path | None = None) -> Path:
    """The file behind a shipped name or a path."""
    if is_path(name_or_path, ".json"):
        path = resolve(name_or_path, base)
        return path / "config.json" if path.is_dir() else path
    shipped = shipped_models()
    if name_or_path not in shipped:
        raise InputError(
            f"There is no model {name_or_path!r}.",
            hint=nearest_hint(name_or_path, shipped, what="shipped models")
            + " For another model give the path of its config.json.",
        )
    return shipped[name_or_path]


def read_model(path: Path) -> ModelSpec:
    """The shape in a config.json; without a name of its own it takes the folder's, or else the file's."""
    stem = path.parent.name if path.stem == "config" else path.stem
    return model_from_config(read_json(path), name=stem)


def model_from_config(config: Section, *, name: str = "") -> ModelSpec:
    """The shape that a config.json describes; what the planner does not know is refused, never guessed."""
    _refuse_unsupported(config)
    own = config.section("_planner", optional=True)
    own.allow_only("name", "uri", "source", "weight_bytes", "kv_bytes")
    weight_bytes = _weight_bytes(config, own)
    layers = config.integer("num_hidden_layers", low=1)
    return ModelSpec(
        name=_name(own, name),
        uri=_uri(config, own),
        hidden_size=config.integer("hidden_size", low=1),
        layers=layers,
        dense_layers=config.integer("first_k_dense_replace", low=0, high=layers),
        dense_ffn_size=config.integer("intermediate_size", low=1),
        attention=_attention(config),
        experts=_experts(config),
        vocab_size=config.integer("vocab_size", low=1),
        max_context=config.integer("max_position_embeddings", low=1),
        weight_bytes=weight_bytes,
        kv_bytes=own.number("kv_bytes", default=weight_bytes, above=0, high=8),
        source=own.text("source", default=""),
    )


def _refuse_unsupported(config: Section) -> None:
    architectures = config.texts("architectures")
    if len(architectures) != 1 or architectures[0] not in _ARCHITECTURES:
        raise InputError(
            f"{config.file}: architectures must be one that the cost model knows, "
            f"{' or '.join(_ARCHITECTURES)}; came {', '.join(architectures) or 'none'}.",
            hint="Other architectures have other formulas; the planner does not guess them.",
        )
    if config.integer("moe_layer_freq", default=1) != 1:
        raise config.fault("moe_layer_freq", "1: every layer after the dense ones carries experts")
    if "tie_word_embeddings" in config and not config.is_false("tie_word_embeddings"):
        raise config.fault("tie_word_embeddings", "false: the size formula counts embedding and output head")


def _attention(config: Section) -> MlaAttention:
    return MlaAttention(
        heads=config.integer("num_attention_heads", low=1),
        query_rank=config.integer("q_lora_rank", low=1),
        kv_rank=config.integer("kv_lora_rank", low=1),
        nope_dim=config.integer("qk_nope_head_dim", low=1),
        rope_dim=config.integer("qk_rope_head_dim", low=1),
        value_dim=config.integer("v_head_dim", low=1),
    )


def _experts(config: Section) -> Experts:
    routed = config.integer("n_routed_experts", low=1)
    return Experts(
        routed=routed,
        active=config.integer("num_experts_per_tok", low=1, high=routed),
        shared=config.integer("n_shared_experts", low=0),
        ffn_size=config.integer("moe_intermediate_size", low=1),
    )


def _weight_bytes(config: Section, own: Section) -> float:
    if "weight_bytes" in own:
        return own.number("weight_bytes", above=0, high=8)
    if not config.is_empty("quantization_config"):
        return {"fp8": 1.0}[config.section("quantization_config").one_of("quant_method", ("fp8",))]
    return _BYTES_BY_DTYPE[config.one_of("torch_dtype", tuple(_BYTES_BY_DTYPE))]


def _name(own: Section, fallback: str) -> str:
    if "name" not in own and not NAME_PATTERN.fullmatch(fallback):
        raise own.fault("name", "given, as the file's name cannot serve", hint='Add "_planner": {"name": "..."}.')
    return own.name("name", default=fallback)


def _uri(config: Section, own: Section) -> str:
    if "uri" in own:
        uri = own.text("uri")
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s\"'\\$`{}]+", uri):
            raise own.fault("uri", "a URI without blanks or quotes", hint="Such as hf://ORG/NAME or pvc://CLAIM/PATH.")
        return uri
    origin = config.text("_name_or_path", default="")
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", origin, flags=re.ASCII):
        return f"hf://{origin}"
    raise own.fault(
        "uri",
        "given: where an engine loads the weights from",
        hint='Add "_planner": {"uri": "hf://ORG/NAME"}.',
    )


def model_config(model: ModelSpec) -> dict[str, object]:
    """The config.json that reads back as `model`."""
    attention, experts = model.attention, model.experts
    return {
        "architectures": [_ARCHITECTURES[0]],
        "hidden_size": model.hidden_size,
        "num_hidden_layers": model.layers,
        "first_k_dense_replace": model.dense_layers,
        "intermediate_size": model.dense_ffn_size,
        "num_attention_heads": attention.heads,
        "q_lora_rank": attention.query_rank,
        "kv_lora_rank": attention.kv_rank,
        "qk_nope_head_dim": attention.nope_dim,
        "qk_rope_head_dim": attention.rope_dim,
        "v_head_dim": attention.value_dim,
        "n_routed_experts": experts.routed,
        "num_experts_per_tok": experts.active,
        "n_shared_experts": experts.shared,
        "moe_intermediate_size": experts.ffn_size,
        "vocab_size": model.vocab_size,
        "max_position_embeddings": model.max_context,
        "_planner": {
            "name": model.name,
            "uri": model.uri,
            "source": model.source,
            "weight_bytes": model.weight_bytes,
            "kv_bytes": model.kv_bytes,
        },
    }
