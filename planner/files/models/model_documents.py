"""The planner's own description of a model: every field of ModelSpec by its name, for models that are not shipped.

Hugging Face writes `"head_dim": null` where the architecture's own rule is to decide.

A mapping with `model_spec: 1` is such a document; any other is taken for a Hugging Face config.json.
"""

import re
from collections.abc import Collection
from dataclasses import asdict

from planner.domain import Attention, Experts, GroupedAttention, MlaAttention, ModelSpec
from planner.domain.model import LARGEST_SIZE, MOST_CONTEXT, MOST_LAYERS
from planner.files.records import read_record, record_keys
from planner.files.sections import Section

_CEILINGS = {
    "num_hidden_layers": MOST_LAYERS,
    "layers": MOST_LAYERS,
    "num_nextn_predict_layers": MOST_LAYERS,
    "max_position_embeddings": MOST_CONTEXT,
}
_URI = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"'\\$`{}]+")


class ModelSection(Section):
    """A section with the lists, flags and nullable numbers of model descriptions."""

    @classmethod
    def of(cls, section: Section, leave_out: Collection[str] = ()) -> "ModelSection":
        """The same mapping at the same place, without the keys to `leave_out`."""
        values = {key: value for key, value in section._values.items() if key not in leave_out}
        return cls(values, file=section.file, path=section.path)

    def integer(self, key: str, *, default: int | None = None, low: int | None = None, high: int | None = None) -> int:
        """A whole number in low..high; sizes of models stay below what products of several of them overflow at."""
        return super().integer(
            key, default=default, low=low, high=_CEILINGS.get(key, LARGEST_SIZE) if high is None else high
        )

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
_KINDS: dict[str, type[MlaAttention] | type[GroupedAttention]] = {"mla": MlaAttention, "grouped": GroupedAttention}
_ADDED = frozenset({"own_code", "architecture", "quantization", "weight_block"})
"""What documents of before it was known do not say."""
_NEEDED = frozenset(record_keys(ModelSpec)) - _ADDED


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
    document.allow_only(MODEL_SPEC_KEY, *record_keys(ModelSpec))
    document.integer(MODEL_SPEC_KEY, low=_VERSION, high=_VERSION)
    unsaid = {key for key in ("own_code", "weight_block") if document.is_empty(key)}  # null says as little as no key
    section = ModelSection.of(document, leave_out={MODEL_SPEC_KEY, *unsaid})
    layers = section.integer("layers", low=1)
    indices = section.integers("moe_layer_indices", low=0, high=layers - 1)
    if list(indices) != sorted(set(indices)):
        raise section.fault("moe_layer_indices", "rising")
    return read_record(
        ModelSpec,
        section,
        needed=_NEEDED,
        name=lambda _: section.name("name"),
        uri=lambda _: section.uri("uri"),
        moe_layer_indices=lambda _: indices,
        dense_ffn_size=lambda _: section.integer("dense_ffn_size", low=0 if len(indices) == layers else 1),
        attention=lambda _: _attention(section, layers),
        experts=lambda _: _experts(section, any_layer=bool(indices)),
    )


def _attention(document: ModelSection, layers: int) -> Attention:
    tagged = document.section("attention")
    kind = tagged.one_of("kind", tuple(_KINDS))
    tagged.allow_only("kind", *record_keys(_KINDS[kind]))
    section = ModelSection.of(tagged, leave_out={"kind"})
    return read_record(MlaAttention, section) if kind == "mla" else _grouped(section, layers)


def _grouped(section: ModelSection, layers: int) -> GroupedAttention:
    heads, kv_heads = section.integer("heads", low=1), section.integer("kv_heads", low=1)
    if heads % kv_heads:
        raise section.fault("kv_heads", f"a divisor of heads, {heads}")
    windowed = section.integer("windowed_layers", low=0, high=layers)
    return read_record(
        GroupedAttention,
        section,
        window=lambda _: section.integer("window", low=1 if windowed else 0),
        windowed_layers=lambda _: windowed,
    )


def _experts(document: ModelSection, *, any_layer: bool) -> Experts | None:
    if not any_layer:
        if "experts" not in document or not document.is_empty("experts"):
            raise document.fault("experts", "null, as moe_layer_indices is empty")
        return None
    section = ModelSection.of(document.section("experts"))
    section.allow_only(*record_keys(Experts))
    routed = section.integer("routed", low=1)
    return read_record(
        Experts,
        section,
        active=lambda _: section.integer("active", low=1, high=routed),
        node_limit=lambda _: section.integer("node_limit", low=0, high=routed),
    )
