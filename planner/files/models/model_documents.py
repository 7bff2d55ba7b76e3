"""The planner's own description of a model: every field of ModelSpec by its name, for models that are not shipped.

Hugging Face writes `"head_dim": null` where the architecture's own rule is to decide.

A mapping with `model_spec: 1` is such a document; any other is taken for a Hugging Face config.json.
"""

import re
from dataclasses import asdict
from typing import TypedDict

from planner.domain import Attention, Experts, GroupedAttention, MlaAttention, ModelSpec
from planner.files.sections import MOST_TOKENS, Section

_LARGEST = 10**7
"""Of a size, a head count, experts, a vocabulary: a hundred times the largest there is."""

_MOST_LAYERS = 10_000
_MOST = {
    "num_hidden_layers": _MOST_LAYERS,
    "layers": _MOST_LAYERS,
    "num_nextn_predict_layers": _MOST_LAYERS,
    "mtp_layers": _MOST_LAYERS,
    "max_position_embeddings": MOST_TOKENS,
    "max_context": MOST_TOKENS,
}
_URI = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"'\\$`{}]+")


class ModelSection(Section):
    """A section with the lists, flags and nullable numbers of model descriptions."""

    @classmethod
    def of(cls, section: Section) -> "ModelSection":
        """The same mapping at the same place."""
        return cls(section._values, file=section.file, path=section.path)

    def integer(self, key: str, *, default: int | None = None, low: int | None = None, high: int | None = None) -> int:
        """A whole number in low..high; sizes of models stay below what products of several of them overflow at."""
        return super().integer(key, default=default, low=low, high=_MOST.get(key, _LARGEST) if high is None else high)

    def inner(self, key: str) -> "ModelSection":
        """The mapping under `key`; an empty one where it is missing or null."""
        if self.is_empty(key):
            return ModelSection({}, file=self.file, path=self.key_path(key))
        return ModelSection.of(self.section(key))

    def whole(self, key: str, default: int, *, low: int = 0, high: int | None = None) -> int:
        """A whole number in low..high; `default` where the key is missing or null."""
        return default if self.is_empty(key) else self.integer(key, low=low, high=high)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false; `default` (None: must be there) where the key is missing or null."""
        value = self._values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, bool):
            raise self.fault(key, "true or false")
        return value

    def integers(self, key: str, *, low: int, high: int) -> tuple[int, ...]:
        """A list of whole numbers in low..high."""
        value = self._values.get(key)
        rule = f"a list of whole numbers of at least {low} and at most {high}"
        if not isinstance(value, list | tuple):
            raise self.fault(key, rule)
        if not all(type(item) is int and low <= item <= high for item in value):
            raise self.fault(key, rule)
        return tuple(value)

    def mappings(self, key: str) -> tuple["ModelSection", ...]:
        """The mappings that a mapping of mappings holds."""
        outer = self.section(key)
        return tuple(ModelSection.of(outer.section(name)) for name in outer)

    def uri(self, key: str) -> str:
        """Where an engine loads the weights from; it ends up in commands, so no blanks or quotes."""
        uri = self.text(key)
        if not _URI.fullmatch(uri):
            raise self.fault(key, "a URI without blanks or quotes", hint="Such as hf://ORG/NAME or pvc://CLAIM/PATH.")
        return uri


MODEL_SPEC_KEY = "model_spec"
_VERSION = 1
_KEYS = (MODEL_SPEC_KEY, *ModelSpec.__dataclass_fields__)
_KINDS: dict[str, type[MlaAttention] | type[GroupedAttention]] = {"mla": MlaAttention, "grouped": GroupedAttention}


def model_document(model: ModelSpec) -> dict[str, object]:
    """The mapping that `model_from_document` reads back as `model`; plain data, every field spelt out."""
    kind = next(kind for kind, record in _KINDS.items() if isinstance(model.attention, record))
    return {
        MODEL_SPEC_KEY: _VERSION,
        **asdict(model),
        "moe_layer_indices": list(model.moe_layer_indices),
        "attention": {"kind": kind, **asdict(model.attention)},
    }


def model_from_document(document: Section) -> ModelSpec:
    """The model that `model_document` wrote; InputError for a missing, unknown or impossible field."""
    section = ModelSection.of(document)
    section.allow_only(*_KEYS)
    section.integer(MODEL_SPEC_KEY, low=_VERSION, high=_VERSION)
    layers = section.integer("layers", low=1)
    indices = section.integers("moe_layer_indices", low=0, high=layers - 1)
    if list(indices) != sorted(set(indices)):
        raise section.fault("moe_layer_indices", "rising")
    return ModelSpec(
        name=section.name("name"),
        uri=section.uri("uri"),
        hidden_size=section.integer("hidden_size", low=1),
        layers=layers,
        moe_layer_indices=indices,
        dense_ffn_size=section.integer("dense_ffn_size", low=0 if len(indices) == layers else 1),
        attention=_attention(section, layers),
        experts=_experts(section, any_layer=bool(indices)),
        vocab_size=section.integer("vocab_size", low=1),
        max_context=section.integer("max_context", low=1),
        weight_bytes=section.number("weight_bytes", above=0, high=8),
        expert_bytes=section.number("expert_bytes", above=0, high=8),
        kv_bytes=section.number("kv_bytes", above=0, high=8),
        mtp_layers=section.integer("mtp_layers", low=0),
        tied_embeddings=section.flag("tied_embeddings"),
        **_of_engines(section),
        source=section.text("source"),
    )


class _OfEngines(TypedDict):
    own_code: bool
    architecture: str
    quantization: str
    weight_block: int


def _of_engines(section: ModelSection) -> _OfEngines:
    """What plans of before it was known do not say."""
    return {
        "own_code": section.flag("own_code", False),
        "architecture": section.text("architecture", default=""),
        "quantization": section.text("quantization", default=""),
        "weight_block": section.whole("weight_block", 0),
    }


def _attention(document: ModelSection, layers: int) -> Attention:
    section = ModelSection.of(document.section("attention"))
    kind = section.one_of("kind", tuple(_KINDS))
    section.allow_only("kind", *_KINDS[kind].__dataclass_fields__)
    return _mla(section) if kind == "mla" else _grouped(section, layers)


def _mla(section: ModelSection) -> MlaAttention:
    return MlaAttention(
        heads=section.integer("heads", low=1),
        query_rank=section.integer("query_rank", low=0),
        kv_rank=section.integer("kv_rank", low=1),
        nope_dim=section.integer("nope_dim", low=1),
        rope_dim=section.integer("rope_dim", low=1),
        value_dim=section.integer("value_dim", low=1),
    )


def _grouped(section: ModelSection, layers: int) -> GroupedAttention:
    heads = section.integer("heads", low=1)
    kv_heads = section.integer("kv_heads", low=1)
    if heads % kv_heads:
        raise section.fault("kv_heads", f"a divisor of heads, {heads}")
    windowed = section.integer("windowed_layers", low=0, high=layers)
    return GroupedAttention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=section.integer("head_dim", low=1),
        window=section.integer("window", low=1 if windowed else 0),
        windowed_layers=windowed,
    )


def _experts(document: ModelSection, *, any_layer: bool) -> Experts | None:
    if not any_layer:
        if "experts" not in document or not document.is_empty("experts"):
            raise document.fault("experts", "null, as moe_layer_indices is empty")
        return None
    section = document.section("experts")
    section.allow_only(*Experts.__dataclass_fields__)
    routed = section.integer("routed", low=1)
    return Experts(
        routed=routed,
        active=section.integer("active", low=1, high=routed),
        shared=section.integer("shared", low=0),
        ffn_size=section.integer("ffn_size", low=1),
        node_limit=section.integer("node_limit", low=0, high=routed),
    )
