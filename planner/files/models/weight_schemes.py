"""What a checkpoint says of how its weights are stored: a format for most, and rules for the modules that it names.

Format  bytes              source
FP8     1                  scales one per 128x128 block, channel or tensor, below 0.1 %
INT8    1 + 2/g            a scale of 16 bits per group of g elements; none where one is for a whole channel
MXFP8   1.03125            8 bits and an 8-bit scale per 32 elements (OCP Microscaling Formats 1.0)
NVFP4   0.5625             4 bits and an 8-bit scale per 16 elements
MXFP4   0.53125            4 bits and an 8-bit scale per 32 elements (OCP Microscaling Formats 1.0)
INT4    0.5 + 2/g + 0.5/g  as INT8, and a zero point per group (not where compressed-tensors says symmetric)
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from planner.domain.model import WeightFormat
from planner.files.models.model_documents import ModelSection

HALF_BYTES = 2.0
GIVE_BYTES = "Give the bytes per element as _planner.weight_bytes and _planner.expert_bytes."
_SCALE_BYTES, _LONGEST_GROUP = 2, 1 << 20
_FOUR, _EIGHT = 4, 8  # bits
_ALL, _MIXED = "Linear", "MIXED_PRECISION"
_EXCEPT = "-:"  # before the names that GPTQ leaves out


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Bytes of a weight with its scales, and its format (None: 16 bits). `weight_only`: it is unpacked to 16 bits
    before it is multiplied."""

    size: float = HALF_BYTES
    format: WeightFormat | None = None
    weight_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How modules of a name are stored, and what is in them; a name may be a pattern. `key`: where it was said."""

    key: str
    name: str
    stored: Stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """A module is stored as the first rule of its name says, or else as is `usual`."""

    usual: Stored
    rules: tuple[Rule, ...] = ()


_SIXTEEN_BITS = Stored()
_FP8 = Stored(size=1.0, format=WeightFormat.FP8)
_MXFP8 = Stored(size=1.03125, format=WeightFormat.MXFP8)
_NVFP4 = Stored(size=0.5625, format=WeightFormat.NVFP4)
_MXFP4 = Stored(size=0.53125, format=WeightFormat.MXFP4)
_ALGORITHMS: Mapping[str, Stored] = MappingProxyType(
    {"FP8": _FP8, "MXFP8": _MXFP8, "NVFP4": _NVFP4, "W4A16_NVFP4": replace(_NVFP4, weight_only=True)}
)
"""By the words of modelopt."""
_FLOATS: Mapping[tuple[int, int], Stored] = MappingProxyType({(8, 32): _MXFP8, (4, 16): _NVFP4, (4, 32): _MXFP4})
"""By bits and elements that share a scale."""


def read_scheme(quantization: ModelSection, method: str) -> Scheme:
    """What a `quantization_config` says; InputError for what is not known."""
    if method not in _METHODS:
        raise quantization.fault("quant_method", f"one of {', '.join(_METHODS)}", hint=GIVE_BYTES)
    return _METHODS[method](quantization)


def expert_rules(config: ModelSection, experts: str) -> tuple[Rule, ...]:
    """What DeepSeek-V4's text model says of its routed `experts` beside `quantization_config`."""
    if config.text("expert_dtype", default="") != "fp4":
        return ()
    return (Rule(key="expert_dtype", name=experts, stored=_MXFP4),)


def _left_rules(quantization: ModelSection, *keys: str) -> tuple[Rule, ...]:
    """Modules that stay at 16 bits."""
    present = [key for key in keys if not quantization.is_empty(key)]
    return tuple(Rule(key=key, name=name, stored=_SIXTEEN_BITS) for key in present for name in quantization.texts(key))


def _fp8(quantization: ModelSection) -> Scheme:
    at_16_bits = _left_rules(quantization, "modules_to_not_convert", "ignored_layers")
    algorithm = quantization.text("quant_algo", default="FP8")
    if algorithm == "FP8":
        return Scheme(usual=_FP8, rules=at_16_bits + _left_rules(quantization, "ignore"))
    if algorithm != _MIXED:
        raise quantization.fault("quant_algo", f"FP8, as quant_method says, or {_MIXED}", hint=GIVE_BYTES)
    # its `ignore` is what was left alone when an FP8 checkpoint was made a mixed one: FP8 still
    return Scheme(usual=_FP8, rules=at_16_bits + tuple(_layer_rules(quantization)))


def _mxfp4(quantization: ModelSection) -> Scheme:
    at_16_bits = _left_rules(quantization, "modules_to_not_convert")
    if not at_16_bits:  # gpt-oss keeps attention, and says so
        raise quantization.fault("modules_to_not_convert", "given: what is left at 16 bits", hint=GIVE_BYTES)
    return Scheme(usual=_MXFP4, rules=at_16_bits)


def _modelopt(quantization: ModelSection) -> Scheme:
    at_16_bits = _left_rules(quantization, "ignore", "exclude_modules")
    if quantization.text("quant_algo") == _MIXED:
        return Scheme(usual=_SIXTEEN_BITS, rules=at_16_bits + tuple(_layer_rules(quantization)))
    usual = _algorithm(quantization)
    if "config_groups" in quantization and _groups(quantization).usual.format is not usual.format:
        raise quantization.fault("config_groups", f"of the format {quantization.text('quant_algo')}", hint=GIVE_BYTES)
    return Scheme(usual=usual, rules=at_16_bits)


def _layer_rules(quantization: ModelSection) -> Iterator[Rule]:
    """Of `quantized_layers`, which may be ten thousands."""
    layers = ModelSection.of(quantization.section("quantized_layers"))
    for name, entry in layers.values.items():
        word = entry.get("quant_algo") if isinstance(entry, dict) else None
        stored = _ALGORITHMS.get(word) if isinstance(word, str) else None
        yield Rule(
            key="quantized_layers", name=name, stored=stored or _algorithm(ModelSection.of(layers.section(name)))
        )


def _algorithm(section: ModelSection) -> Stored:
    if section.text("quant_algo") not in _ALGORITHMS:
        raise section.fault("quant_algo", f"one of {', '.join(_ALGORITHMS)}, {_MIXED}", hint=GIVE_BYTES)
    return _ALGORITHMS[section.text("quant_algo")]


def _compressed(quantization: ModelSection) -> Scheme:
    scheme = _groups(quantization)
    return Scheme(usual=scheme.usual, rules=_left_rules(quantization, "ignore") + scheme.rules)


def _groups(quantization: ModelSection) -> Scheme:
    """Formats by `targets`: all matrices, or modules by name."""
    stored = [(target, _group(group)) for group in quantization.mappings("config_groups") for target in _targets(group)]
    usual = {kind for target, kind in stored if target == _ALL}
    if len(usual) > 1 or not stored:
        raise quantization.fault("config_groups", "one format for all weights, or by modules", hint=GIVE_BYTES)
    rules = (Rule(key="config_groups", name=target, stored=kind) for target, kind in stored if target != _ALL)
    return Scheme(usual=usual.pop() if usual else _SIXTEEN_BITS, rules=tuple(rules))


def _targets(group: ModelSection) -> tuple[str, ...]:
    return (_ALL,) if group.is_empty("targets") else group.texts("targets")


def _group(group: ModelSection) -> Stored:
    weights = ModelSection.of(group.section("weights"))
    bits = weights.integer("num_bits", low=1, high=16)
    length = 0 if weights.is_empty("group_size") else weights.integer("group_size", low=-1, high=_LONGEST_GROUP)
    alone = group.is_empty("input_activations")
    if weights.one_of("type", ("float", "int")) == "int" and bits in _INTEGERS:
        zero_points = not weights.flag("symmetric", True)
        return _integers(bits, length, zero_points=zero_points, weight_only=alone or bits == _FOUR)
    stored = _FP8 if bits == _EIGHT and length <= 0 else _FLOATS.get((bits, length))
    if stored is None or weights.text("type") != "float":
        rule = "8, or 4 with a group_size of 16 (NVFP4), 32 (MXFP4) or type int"
        raise weights.fault("num_bits", rule, hint=GIVE_BYTES)
    return replace(stored, weight_only=alone and bits == _FOUR)


_INTEGERS: Mapping[int, WeightFormat] = MappingProxyType({_FOUR: WeightFormat.INT4, _EIGHT: WeightFormat.INT8})


def _integers(bits: int, length: int, *, zero_points: bool, weight_only: bool) -> Stored:
    """`length`: elements that share a scale (0 or less: those of a channel)."""
    scales = (_SCALE_BYTES + zero_points * bits / 8) / length if length > 0 else 0.0
    return Stored(size=bits / 8 + scales, format=_INTEGERS[bits], weight_only=weight_only)


def _packed(quantization: ModelSection) -> Scheme:
    """AWQ and GPTQ: integers that are unpacked before they are multiplied."""
    bits = quantization.integer("bits", low=1, high=16)
    if bits not in _INTEGERS:
        raise quantization.fault("bits", "4 or 8", hint=GIVE_BYTES)
    for key in ("modules_in_block_to_quantize", "lm_head"):
        if quantization.values.get(key):
            raise quantization.fault(key, "empty: all matrices of the layers, and those alone", hint=GIVE_BYTES)
    length = quantization.integer("group_size", low=-1, high=_LONGEST_GROUP)
    usual = _integers(bits, length, zero_points=True, weight_only=True)
    at_16_bits = _left_rules(quantization, "modules_to_not_convert")
    return Scheme(usual=usual, rules=at_16_bits + tuple(_dynamic_rules(quantization)))


def _dynamic_rules(quantization: ModelSection) -> Iterator[Rule]:
    """GPTQ names modules by expressions, each to be left out (`-:`) or to be stored otherwise."""
    for name in quantization.inner("dynamic"):
        if not name.startswith(_EXCEPT):
            raise quantization.fault("dynamic", f"names to leave out, with {_EXCEPT} before them", hint=GIVE_BYTES)
        yield Rule(key="dynamic", name=f"re:{name.removeprefix(_EXCEPT)}", stored=_SIXTEEN_BITS)


_METHODS: Mapping[str, Callable[[ModelSection], Scheme]] = MappingProxyType(
    {
        "fp8": _fp8,
        "fbgemm_fp8": _fp8,
        "mxfp4": _mxfp4,
        "compressed-tensors": _compressed,
        "modelopt": _modelopt,
        "awq": _packed,
        "gptq": _packed,
    }
)
