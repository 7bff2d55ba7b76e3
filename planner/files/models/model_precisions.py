"""Bytes per weight that a checkpoint states, matrix by matrix; what it leaves open is refused.

Format      bytes    source
FP8         1        scales one per 128x128 block or channel, below 0.1 %
NVFP4       0.5625   4 bits and an 8-bit scale per 16 elements
MXFP4       0.53125  4 bits and an 8-bit scale per 32 elements (OCP Microscaling Formats 1.0)

A checkpoint has one format, and names the modules that it leaves at 16 bits: by their names or the beginnings of them,
with * for any words, or as regular expressions (`re:`). Each matrix of each layer is looked up; a part of the model
counts as the mean of its matrices.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import lcm

from planner.domain.model import DenseFfn, Experts, LinearAttention
from planner.files.models.model_architectures import ModuleNames, text_section
from planner.files.models.model_documents import ModelSection
from planner.files.models.model_parts import Layer

_FP8, _NVFP4, _MXFP4, _HALF = 1.0, 0.5625, 0.53125, 2.0
_BYTES_BY_DTYPE = {"bfloat16": _HALF, "float16": _HALF}
_LONGEST_BLOCK = 1 << 20
_METHODS = ("fp8", "mxfp4", "compressed-tensors", "modelopt")
_GIVE_BYTES = "Give the bytes per element as _planner.weight_bytes and _planner.expert_bytes."
_LEFT = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")
"""Keys under which modules are named that stay at 16 bits."""
_PREFIXES = ("model.", "", "model.language_model.", "language_model.model.", "backbone.")
"""What stands before the layers in the names of modules, by repository."""
_UNCOUNTED = re.compile(
    r"(.*[.*])?(lm_head|head|embed\w*|gate|router|shared_expert_gate|\w*norm|\w*bias|conv1d|vision\w*|visual|\w*projector"
    r"|mtp|mtp\..*|k_norm\.bias|indexers_proj|weights_proj)"
)
_LAYER = re.compile(r"(?:.*\.)?layers\.(\d+)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightBytes:
    """Bytes per weight: of attention and dense FFNs, of routed experts, of shared ones (None: as the routed)."""

    weights: float
    experts: float
    shared: float | None = None


def read_precision(
    config: ModelSection, section: ModelSection, layers: Sequence[Layer], names: ModuleNames, hidden_size: int
) -> WeightBytes:
    """What the checkpoint states of its `layers`; `section` (`_planner`) goes first."""
    if "weight_bytes" in section:
        weights = section.number("weight_bytes", above=0, high=8)
        default = _MXFP4 if quantization_method(config) == "mxfp4" else weights
        return WeightBytes(weights=weights, experts=section.number("expert_bytes", default=default, above=0, high=8))
    quantization = _quantization(config)
    if len(quantization):
        size = _format_of(quantization, quantization_method(config))
        stated = _means(_sizes(layers, names, hidden_size, size, quantization))
    else:
        size = _unquantised(config)
        stated = WeightBytes(weights=size, experts=size)
    usual, shared = stated.experts, stated.shared
    if text_section(config).text("expert_dtype", default="") == "fp4":  # DeepSeek-V4: of routed experts alone
        usual, shared = _MXFP4, usual if shared is None else shared
    experts = section.number("expert_bytes", default=usual, above=0, high=8)
    return WeightBytes(weights=stated.weights, experts=experts, shared=shared)


def read_kv_bytes(config: ModelSection, section: ModelSection, weight_bytes: float) -> float:
    """Bytes per cached element: what `_planner.kv_bytes` or the checkpoint says, else FP8 for weights of no more, and
    16 bits for others."""
    default = _FP8 if weight_bytes <= _FP8 or _cache_is_fp8(config) else max(weight_bytes, _HALF)
    return section.number("kv_bytes", default=default, above=0, high=8)


def _cache_is_fp8(config: ModelSection) -> bool:
    quantization = _quantization(config)
    if not quantization.is_empty("kv_cache_quant_algo"):
        return quantization.text("kv_cache_quant_algo") == "FP8"
    scheme = quantization.values.get("kv_cache_scheme")
    return scheme == "FP8" or (isinstance(scheme, dict) and scheme.get("num_bits") == 8)


def quantization_method(config: ModelSection) -> str:
    """The quant_method that the config names; empty for unquantised weights."""
    quantization = _quantization(config)
    usual = "modelopt" if "quant_algo" in quantization else ""
    return quantization.text("quant_method", default=usual)


def _quantization(config: ModelSection) -> ModelSection:
    """What says how weights are quantised: of the config, or of its text model; empty where none are."""
    section = text_section(config) if config.is_empty("quantization_config") else config
    return section.inner("quantization_config")


def read_weight_block(config: ModelSection) -> int:
    """The side of the blocks of FP8 weights that share a scale, of two different ones what both divide; 0 for none."""
    quantization = _quantization(config)
    if quantization_method(config) != "fp8" or quantization.is_empty("weight_block_size"):
        return 0
    return lcm(*quantization.integers("weight_block_size", low=1, high=_LONGEST_BLOCK))


def _unquantised(config: ModelSection) -> float:
    for section in (config, text_section(config)):
        for key in ("torch_dtype", "dtype"):
            if key in section:
                return _BYTES_BY_DTYPE[section.one_of(key, tuple(_BYTES_BY_DTYPE))]
    return _BYTES_BY_DTYPE[config.one_of("torch_dtype", tuple(_BYTES_BY_DTYPE))]


def _format_of(quantization: ModelSection, method: str) -> float:
    """Bytes of a weight that is quantised."""
    if method not in _METHODS:
        raise quantization.fault("quant_method", f"one of {', '.join(_METHODS)}", hint=_GIVE_BYTES)
    if method == "mxfp4":
        if not any(not quantization.is_empty(key) for key in _LEFT):  # gpt-oss keeps attention, and says so
            raise quantization.fault("modules_to_not_convert", "given: what is left at 16 bits", hint=_GIVE_BYTES)
        return _MXFP4
    if method == "fp8":
        if quantization.text("quant_algo", default="FP8") != "FP8":
            raise quantization.fault("quant_algo", "FP8, as quant_method says", hint=_GIVE_BYTES)
        return _FP8
    return _modelopt(quantization) if method == "modelopt" else _grouped(quantization)


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


def _left_out(quantization: ModelSection, modules: Collection[str], layers: int) -> Callable[[str], bool]:
    """Which of the `modules` stay at 16 bits, by their names from `layers.` on. InputError for what is named and is
    neither one of them nor counted at 16 bits anyway."""
    named = [(key, name) for key in _LEFT if not quantization.is_empty(key) for name in quantization.texts(key)]
    left: set[str] = set()
    for key, name in named:
        pattern = re.compile(_expression(name))
        matched = {module for module in modules if any(pattern.match(prefix + module) for prefix in _PREFIXES)}
        if not matched and not _is_uncounted(name, layers):
            raise quantization.fault(key, f"of modules that are known; {name!r:.80} is not", hint=_GIVE_BYTES)
        left |= matched
    return left.__contains__


def _is_uncounted(name: str, layers: int) -> bool:
    """Whether a module counts at 16 bits anyway, holds next to no weights, or drafts."""
    plain = name.removeprefix("re:").replace("\\", "").strip("^$*").rstrip(".")
    layer = _LAYER.match(plain)
    return bool(_UNCOUNTED.fullmatch(plain)) or (layer is not None and int(layer.group(1)) >= layers)


def _expression(pattern: str) -> str:
    """A regular expression for a module and all within it."""
    if pattern.startswith("re:"):
        return pattern.removeprefix("re:")
    anywhere = "" if set(".*") & set(pattern) else r"(?:.*\.)?"  # a single word is the last one of a name
    return anywhere + re.escape(pattern).replace(r"\*", ".*") + r"(?:\..*)?\Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matrix:
    """One matrix, or equal ones: of which part of the model, how many weights, bytes of each."""

    part: str
    weights: int
    size: float


def _sizes(
    layers: Sequence[Layer], names: ModuleNames, hidden_size: int, size: float, quantization: ModelSection
) -> Iterator[_Matrix]:
    listed = [
        (part, f"layers.{number}.{module}", weights)
        for number, layer in enumerate(layers)
        for part, module, weights in _matrices(layer, names, hidden_size)
    ]
    left = _left_out(quantization, [module for _, module, _ in listed], len(layers))
    return (_Matrix(part=part, weights=n, size=_HALF if left(module) else size) for part, module, n in listed)


def _matrices(layer: Layer, names: ModuleNames, hidden_size: int) -> Iterator[tuple[str, str, int]]:
    """Part of the model, name of the module, and weights of each matrix of a layer."""
    attention, ffn = layer
    if attention is not None:
        block = names.linear if isinstance(attention, LinearAttention) else names.attention
        for name, weights in attention.matrices(hidden_size).items():
            yield "weights", f"{block}.{name}", weights
    if ffn is None:
        return
    blocks = {("weights", names.dense): ffn.parameters(hidden_size)} if isinstance(ffn, DenseFfn) else {}
    if isinstance(ffn, Experts):
        blocks["experts", names.experts] = ffn.routed * ffn.expert_parameters(hidden_size)
        blocks["shared", names.shared] = ffn.shared_parameters(hidden_size)
    matrices = names.matrices[0 if ffn.gated else 1 :]
    for (part, block), weights in blocks.items():
        if weights:
            yield from ((part, f"{block}.{matrix}", weights // len(matrices)) for matrix in matrices)


def _means(matrices: Iterable[_Matrix]) -> WeightBytes:
    listed = list(matrices)

    def mean(part: str, default: float | None) -> float | None:
        rows = [row for row in listed if row.part == part]
        total = sum(row.weights for row in rows)
        return sum(row.weights * row.size for row in rows) / total if total else default

    weights = mean("weights", _HALF)
    assert weights is not None
    experts = mean("experts", weights)
    assert experts is not None
    shared = mean("shared", experts)
    return WeightBytes(weights=weights, experts=experts, shared=None if shared == experts else shared)
