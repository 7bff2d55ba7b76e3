"""Bytes per weight that a Hugging Face config.json states; what it leaves open is refused.

Format      bytes    source
FP8         1        scales one per 128x128 block or channel, below 0.1 %
NVFP4       0.5625   4 bits and an 8-bit scale per 16 elements
MXFP4       0.53125  4 bits and an 8-bit scale per 32 elements (OCP Microscaling Formats 1.0)
"""

import re
from math import lcm

from planner.errors import InputError
from planner.files.models.model_documents import ModelSection

_FP8, _NVFP4, _MXFP4, _HALF = 1.0, 0.5625, 0.53125, 2.0
_BYTES_BY_DTYPE = {"bfloat16": _HALF, "float16": _HALF}
_LONGEST_BLOCK = 1 << 20
_METHODS = ("fp8", "mxfp4", "compressed-tensors", "modelopt")
_GIVE_BYTES = "Give the bytes per element as _planner.weight_bytes and _planner.expert_bytes."
# modules that stay at two bytes in our count too, or hold next to no weights
_UNCOUNTED = re.compile(r"(.*[.*])?(lm_head|embed_tokens|gate|router|shared_expert_gate|\w*norm)")
_LAYER = re.compile(r"(?:.*\.)?layers\.(\d+)\b")


def read_precision(config: ModelSection, section: ModelSection) -> tuple[float, float]:
    """Bytes per element of attention with dense FFNs, and of experts; `section` (`_planner`) goes first."""
    if "weight_bytes" in section:
        weights = section.number("weight_bytes", above=0, high=8)
        default = _MXFP4 if quantization_method(config) == "mxfp4" else weights
        return weights, section.number("expert_bytes", default=default, above=0, high=8)
    weights, experts = _stated(config)
    return weights, section.number("expert_bytes", default=experts, above=0, high=8)


def read_kv_bytes(section: ModelSection, weight_bytes: float) -> float:
    """Bytes per cached element: as the weights', but FP8 at the least, unless `_planner.kv_bytes` says so."""
    return section.number("kv_bytes", default=max(weight_bytes, _FP8), above=0, high=8)


def quantization_method(config: ModelSection) -> str:
    """The quant_method that the config names; empty for unquantised weights."""
    return config.inner("quantization_config").text("quant_method", default="")


def read_weight_block(config: ModelSection) -> int:
    """The side of the blocks of FP8 weights that share a scale, of two different ones what both divide; 0 for none."""
    quantization = config.inner("quantization_config")
    if quantization_method(config) != "fp8" or quantization.is_empty("weight_block_size"):
        return 0
    return lcm(*quantization.integers("weight_block_size", low=1, high=_LONGEST_BLOCK))


def _stated(config: ModelSection) -> tuple[float, float]:
    if config.is_empty("quantization_config"):
        key = "torch_dtype" if "torch_dtype" in config else "dtype" if "dtype" in config else "torch_dtype"
        size = _BYTES_BY_DTYPE[config.one_of(key, tuple(_BYTES_BY_DTYPE))]
        return size, size
    quantization = ModelSection.of(config.section("quantization_config"))
    method = quantization.one_of("quant_method", _METHODS)
    if method == "mxfp4":
        return _mxfp4(config, quantization)
    _refuse_exceptions(config, quantization)
    if method == "fp8":
        return _FP8, _FP8
    size = _modelopt(quantization) if method == "modelopt" else _grouped(quantization)
    return size, size


def _mxfp4(config: ModelSection, quantization: ModelSection) -> tuple[float, float]:
    """gpt-oss keeps attention in BF16 and says so; without that word the split is open."""
    modules = quantization.texts("modules_to_not_convert")
    if "GptOssForCausalLM" not in config.texts("architectures") or not any("self_attn" in name for name in modules):
        raise quantization.fault("modules_to_not_convert", "of gpt-oss, and name self_attn", hint=_GIVE_BYTES)
    return _HALF, _MXFP4


def _refuse_exceptions(config: ModelSection, quantization: ModelSection) -> None:
    """A module kept at two bytes is fine only where our count has it at two bytes as well."""
    layers = config.integer("num_hidden_layers", low=1)
    for key in ("modules_to_not_convert", "ignored_layers", "ignore"):
        if quantization.is_empty(key):
            continue
        for name in quantization.texts(key):
            if not _is_uncounted(name, layers):
                raise InputError(
                    f"{config.file}: {quantization.key_path(key)} must leave only head, embeddings, routers, norms "
                    f"and layers beyond num_hidden_layers unquantised; it names {name!r}.",
                    hint=_GIVE_BYTES,
                )


def _is_uncounted(name: str, layers: int) -> bool:
    plain = name.removeprefix("re:").replace("\\", "").strip("^$*").rstrip(".")
    layer = _LAYER.match(plain)
    return bool(_UNCOUNTED.fullmatch(plain)) or (layer is not None and int(layer.group(1)) >= layers)


def _modelopt(quantization: ModelSection) -> float:
    size = {"FP8": _FP8, "NVFP4": _NVFP4}[quantization.one_of("quant_algo", ("FP8", "NVFP4"))]
    if "config_groups" in quantization and _grouped(quantization) != size:
        raise quantization.fault("config_groups", f"of the format {quantization.text('quant_algo')}", hint=_GIVE_BYTES)
    return size


def _grouped(quantization: ModelSection) -> float:
    sizes = {_group(group) for group in quantization.mappings("config_groups")}
    if len(sizes) != 1:
        raise quantization.fault("config_groups", "one format for all weights", hint=_GIVE_BYTES)
    return sizes.pop()


def _group(group: ModelSection) -> float:
    if group.texts("targets") != ("Linear",):
        raise group.fault("targets", '["Linear"]: all weights alike', hint=_GIVE_BYTES)
    weights = ModelSection.of(group.section("weights"))
    weights.one_of("type", ("float",))
    bits = weights.integer("num_bits", low=4, high=8)
    if bits == 8:
        return _FP8
    if bits == 4 and weights.integer("group_size", low=1) == 16:
        return _NVFP4
    raise weights.fault("num_bits", "8 (FP8), or 4 with a group_size of 16 (NVFP4)", hint=_GIVE_BYTES)
