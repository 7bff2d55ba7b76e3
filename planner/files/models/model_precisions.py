"""Bytes per weight of the parts of a model, matrix by matrix, by what its checkpoint says (`weight_schemes.py`).

Modules are named by their names or the beginnings of them, with * for any words, or by regular expressions (`re:`).
Each matrix of each layer is looked up; a part of the model counts as the mean of its matrices.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import lcm
from typing import Any

from planner.domain.model import DenseFfn, Experts, LinearAttention, WeightFormat
from planner.files.models.model_architectures import ModuleNames, text_section
from planner.files.models.model_documents import ModelSection
from planner.files.models.model_parts import Layer
from planner.files.models.weight_schemes import GIVE_BYTES, HALF_BYTES, Rule, Scheme, Stored, expert_rules, read_scheme

_BYTES_BY_DTYPE = {"bfloat16": HALF_BYTES, "float16": HALF_BYTES}
_FP8_BYTES, _MXFP4_BYTES = 1.0, 0.53125
_LONGEST_BLOCK = 1 << 20
_HEAD, _EXPRESSION = "lm_head", "re:"
_PREFIXES = ("", "model.", "model.language_model.", "language_model.model.", "backbone.")
"""What stands before the layers in the names of modules, by repository."""
_PREFIX = re.compile(r"^(?:model\.language_model\.|language_model\.model\.|language_model\.|model\.|backbone\.)")
_UNCOUNTED = re.compile(
    r"(.*[.*])?(lm_head|head|embed\w*|gate|router|shared_expert_gate|\w*norm|\w*bias|conv1d|vision\w*|visual|\w*projector"
    r"|patch_merge_mlp|mtp|mtp\..*|k_norm\.bias|indexers_proj|weights_proj)"
)
_LAYER = re.compile(r"(?:.*\.)?layers\.(\d+)\b")
_OWN_LAYER = re.compile(r"(layers\.\d+)\.")
_EXPERT = re.compile(r"\bexperts\.\d+\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightBytes:
    """Bytes per weight: of attention and dense FFNs, of routed experts, of shared ones (None: as the routed), of the
    output head; `formats` of those that are quantised, where sizes do not tell, `weight_only` where these are unpacked
    before they are multiplied."""

    weight_bytes: float
    expert_bytes: float
    shared_bytes: float | None = None
    head_bytes: float = HALF_BYTES
    formats: tuple[WeightFormat, ...] = ()
    weight_only: bool = False

    @property
    def of_model(self) -> dict[str, Any]:
        """The fields of a ModelSpec that it tells."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def read_precision(
    config: ModelSection, section: ModelSection, layers: Sequence[Layer], names: ModuleNames, hidden_size: int
) -> WeightBytes:
    """What the checkpoint states of its `layers`; `section` (`_planner`) goes first."""
    if "weight_bytes" in section:
        weights = section.number("weight_bytes", above=0, high=8)
        default = _MXFP4_BYTES if quantization_method(config) == "mxfp4" else weights
        experts = section.number("expert_bytes", default=default, above=0, high=8)
        return WeightBytes(weight_bytes=weights, expert_bytes=experts)
    quantization = _quantization(config)
    if not len(quantization):
        size = _unquantised(config)
        experts = section.number("expert_bytes", default=size, above=0, high=8)
        return WeightBytes(weight_bytes=size, expert_bytes=experts)
    scheme = read_scheme(quantization, quantization_method(config))
    scheme = Scheme(usual=scheme.usual, rules=scheme.rules + expert_rules(text_section(config), names.experts))
    matrices = [
        *(matrix for number, layer in enumerate(layers) for matrix in _matrices(number, layer, names, hidden_size)),
        _Matrix(part=_HEAD, module=_HEAD, weights=hidden_size),
    ]
    stated = _means(matrices, _stored(matrices, scheme, quantization, len(layers)))
    experts = section.number("expert_bytes", default=stated.expert_bytes, above=0, high=8)
    return replace(stated, expert_bytes=experts)


def read_kv_bytes(config: ModelSection, section: ModelSection, precision: WeightBytes) -> float:
    """Bytes per cached element: what `_planner.kv_bytes` or the checkpoint says, else FP8 for weights that are
    multiplied in no more, and 16 bits for others."""
    small = precision.weight_bytes <= _FP8_BYTES and not precision.weight_only
    default = _FP8_BYTES if small or _cache_is_fp8(config) else max(precision.weight_bytes, HALF_BYTES)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matrix:
    """One matrix, or equal ones: of which part of the model, the name of its module from `layers.` on, how many
    weights."""

    part: str
    module: str
    weights: int


def _matrices(number: int, layer: Layer, names: ModuleNames, hidden_size: int) -> Iterator[_Matrix]:
    """Those of a layer."""
    attention, ffn = layer
    blocks: dict[str, tuple[str, dict[str, int]]] = {}
    if attention is not None:
        block = names.linear if isinstance(attention, LinearAttention) else names.attention
        blocks[block] = "weights", attention.matrices(hidden_size)
    if isinstance(ffn, DenseFfn):
        blocks[names.dense] = "weights", _alike(names.matrices, ffn.parameters(hidden_size), ffn)
    if isinstance(ffn, Experts):
        routed, of_expert = ffn.routed * ffn.expert_parameters(hidden_size), names.expert_matrices or names.matrices
        blocks[names.experts] = "experts", _alike(of_expert, routed, ffn)
        blocks[names.shared] = "shared", _alike(names.matrices, ffn.shared_parameters(hidden_size), ffn)
    for block, (part, matrices) in blocks.items():
        for name, weights in matrices.items():
            yield _Matrix(part=part, module=f"layers.{number}.{block}.{name}", weights=weights)


def _alike(matrices: Sequence[str], weights: int, ffn: DenseFfn | Experts) -> dict[str, int]:
    """The matrices of a feed-forward block, which are of one size."""
    names = matrices[0 if ffn.gated else 1 :]
    return {matrix: weights // len(names) for matrix in names if weights}


def _stored(matrices: Sequence[_Matrix], scheme: Scheme, quantization: ModelSection, layers: int) -> list[Stored]:
    """How each is stored. InputError for a rule whose module is neither one of them nor counts at 16 bits anyway."""
    plain, patterns = _plain(scheme.rules, quantization), _patterns(scheme.rules)
    matched: set[int] = set()
    stored = []
    for matrix in matrices:
        places = {plain[name] for name in _names(matrix.module) if name in plain}
        places |= {i for i, pattern in patterns.get(_layer_of(matrix.module), ()) if pattern.match(matrix.module)}
        written = [prefix + matrix.module for prefix in _PREFIXES]
        places |= {i for i, pattern in patterns[""] if any(map(pattern.match, written))}
        matched |= places
        usual = Stored() if matrix.part == _HEAD else scheme.usual  # the head is quantised only where that is said
        stored.append(scheme.rules[min(places)].stored if places else usual)
    listed_places = {*plain.values(), *(i for listed in patterns.values() for i, _ in listed)}
    for rule in (scheme.rules[i] for i in sorted(listed_places - matched)):
        if not _is_uncounted(rule.name, layers):
            raise quantization.fault(rule.key, f"of modules that are known; {rule.name!r:.80} is not", hint=GIVE_BYTES)
    return stored


def _plain(rules: Sequence[Rule], quantization: ModelSection) -> dict[str, int]:
    """By name, one expert for all, the place of the first rule. InputError where experts are stored in several ways."""
    plain: dict[str, int] = {}
    for i, rule in enumerate(rules):
        if _is_pattern(rule.name):
            continue
        first = rules[plain.setdefault(_EXPERT.sub("experts.0", _PREFIX.sub("", rule.name)), i)]
        if first.key == rule.key and first.stored != rule.stored:
            rule_text = f"of one format for all experts; {first.name!r:.80} and {rule.name!r:.80} differ"
            raise quantization.fault(rule.key, rule_text, hint=GIVE_BYTES)
    return plain


def _patterns(rules: Sequence[Rule]) -> dict[str, list[tuple[int, re.Pattern[str]]]]:
    """With the places of their rules, by the layer that they are of (empty: of any): there are hundreds."""
    patterns: dict[str, list[tuple[int, re.Pattern[str]]]] = {"": []}
    for i, rule in enumerate(rules):
        if not _is_pattern(rule.name):
            continue
        name = rule.name if rule.name.startswith(_EXPRESSION) else _PREFIX.sub("", rule.name)
        patterns.setdefault(_layer_of(name), []).append((i, re.compile(_expression(name))))
    return patterns


def _is_pattern(name: str) -> bool:
    return name.startswith(_EXPRESSION) or "*" in name


def _layer_of(name: str) -> str:
    """`layers.7`; empty where it starts otherwise."""
    layer = _OWN_LAYER.match(name)
    return layer.group(1) if layer is not None else ""


def _names(module: str) -> Iterator[str]:
    """The names that mean it, or something that it is in: parts of its own that follow each other."""
    parts = module.split(".")
    for start in range(len(parts)):
        for end in range(start + 1, len(parts) + 1):
            yield ".".join(parts[start:end])


def _expression(pattern: str) -> str:
    """A regular expression for a module and all within it."""
    if pattern.startswith(_EXPRESSION):
        return pattern.removeprefix(_EXPRESSION)
    return re.escape(pattern).replace(r"\*", ".*") + r"(?:\..*)?\Z"


def _is_uncounted(name: str, layers: int) -> bool:
    """Whether a module counts at 16 bits anyway, holds next to no weights, or drafts."""
    plain = name.removeprefix(_EXPRESSION).replace("\\", "").strip("^$*").rstrip(".")
    layer = _LAYER.match(plain)
    return bool(_UNCOUNTED.fullmatch(plain)) or (layer is not None and int(layer.group(1)) >= layers)


def _means(matrices: Sequence[_Matrix], stored: Sequence[Stored]) -> WeightBytes:
    counts: dict[str, float] = defaultdict(float)
    sizes: dict[str, float] = defaultdict(float)
    for matrix, kind in zip(matrices, stored, strict=True):
        counts[matrix.part] += matrix.weights
        sizes[matrix.part] += matrix.weights * kind.size

    def mean(part: str, default: float) -> float:
        return sizes[part] / counts[part] if counts[part] else default

    weights = mean("weights", HALF_BYTES)
    experts = mean("experts", weights)
    shared = mean("shared", experts)
    formats = tuple(sorted({kind.format for kind in stored if kind.format is not None}))
    return WeightBytes(
        weight_bytes=weights,
        expert_bytes=experts,
        shared_bytes=None if shared == experts else shared,
        head_bytes=mean(_HEAD, HALF_BYTES),
        formats=() if formats == WeightFormat.of((weights, experts)) else formats,
        weight_only=any(kind.weight_only for kind in stored),
    )
