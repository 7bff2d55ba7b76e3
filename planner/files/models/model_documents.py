"""The planner's own description of a model: every field of ModelSpec by its name, for models that are not shipped.

Hugging Face writes `"head_dim": null` where the architecture's own rule is to decide.

A mapping with `model_spec: 1` is such a document; any other is taken for a Hugging Face config.json.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import TypeVar

from planner.domain import Attention, DenseFfn, Experts, GroupedAttention, LayerGroup, MlaAttention, ModelSpec
from planner.domain.model import (
    LARGEST_SIZE,
    MOST_LAYERS,
    CompressedAttention,
    Ffn,
    LinearAttention,
    Mamba2,
    WeightFormat,
)
from planner.domain.model.spec import MOST_CONTEXT
from planner.files.records import read_record, record_keys
from planner.files.sections import Section

_CEILINGS = {
    "num_hidden_layers": MOST_LAYERS,
    "layers": MOST_LAYERS,
    "num_nextn_predict_layers": MOST_LAYERS,
    "max_position_embeddings": MOST_CONTEXT,
    "tower_parameters": 10**12,
}
Part = TypeVar("Part", Attention, Ffn)
_URI = re.compile(r"(?:[a-z][a-z0-9+.-]*://|/)[^\s\"'\\$`{}]+")


class ModelSection(Section):
    """A section with the lists, flags and nullable numbers of model descriptions."""

    @classmethod
    def of(cls, section: Section, leave_out: Collection[str] = ()) -> "ModelSection":
        """The same mapping at the same place, without the keys to `leave_out`."""
        values = {key: value for key, value in section._values.items() if key not in leave_out}
        return cls(values, file=section.file, path=section.path)

    @property
    def values(self) -> dict[str, object]:
        """The mapping as it is."""
        return dict(self._values)

    def with_quantization(self, beside: Section) -> "ModelSection":
        """The config with what the file `beside` it says of quantisation."""
        stated = ModelSection.of(ModelSection.of(beside).section("quantization")).values
        return self.changed(quantization_config={"quant_method": "modelopt", **stated})

    def changed(self, **values: object) -> "ModelSection":
        """The same mapping with other `values`."""
        return ModelSection({**self._values, **values}, file=self.file, path=self.path)

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
            raise self.fault(key, "a URI without blanks or quotes", hint="Such as hf://ORG/NAME or an absolute path.")
        return uri


MODEL_SPEC_KEY = "model_spec"
_VERSION = 2
_ATTENTIONS: dict[str, type[Attention]] = {
    "mla": MlaAttention,
    "grouped": GroupedAttention,
    "compressed": CompressedAttention,
    "linear": LinearAttention,
    "mamba2": Mamba2,
}
_FFNS: dict[str, type[Ffn]] = {"dense": DenseFfn, "experts": Experts}
_ADDED = frozenset(
    {
        *("own_code", "architecture", "quantization", "weight_block", "residual_streams", "assumed"),
        *(
            "shared_bytes",
            "head_bytes",
            "formats",
            "weight_only",
            "kept_states",
            "tower_parameters",
            "tower_width",
            "tower_patches",
        ),
    }
)
"""What documents of before it was known do not say."""
_NEEDED = frozenset(record_keys(ModelSpec)) - _ADDED


def model_document(model: ModelSpec) -> dict[str, object]:
    """The mapping that `model_from_document` reads back as `model`; plain data, every field spelt out."""
    groups = [_group_document(group) for group in model.groups]
    return {MODEL_SPEC_KEY: _VERSION, **_plain(model), "formats": [*map(str, model.formats)], "groups": groups}


def _plain(record: ModelSpec | Attention | Ffn) -> dict[str, object]:
    """Its fields; words as texts, which YAML asks for."""
    return asdict(record, dict_factory=lambda pairs: {k: str(v) if isinstance(v, StrEnum) else v for k, v in pairs})


def _group_document(group: LayerGroup) -> dict[str, object]:
    return {
        "count": group.count,
        "attention": _tagged(group.attention, _ATTENTIONS),
        "ffn": _tagged(group.ffn, _FFNS),
    }


def _tagged(part: Attention | Ffn | None, kinds: Mapping[str, type]) -> dict[str, object] | None:
    if part is None:
        return None
    return {"kind": next(kind for kind, record in kinds.items() if isinstance(part, record)), **_plain(part)}


def model_from_document(document: Section) -> ModelSpec:
    """The model that `model_document` wrote; InputError for a missing, unknown or impossible field."""
    version = document.integer(MODEL_SPEC_KEY, low=1, high=_VERSION)
    if version == 1:
        document = Section(_of_version_1(document), file=document.file, path=document.path)
    document.allow_only(MODEL_SPEC_KEY, *record_keys(ModelSpec))
    unsaid = {key for key in ("own_code", "weight_block") if document.is_empty(key)}  # null says as little as no key
    section = ModelSection.of(document, leave_out={MODEL_SPEC_KEY, *unsaid})
    return read_record(
        ModelSpec,
        section,
        needed=_NEEDED,
        name=lambda _: section.name("name"),
        uri=lambda _: section.uri("uri") if section.text("uri") else "",
        formats=lambda _: _formats(section),
        groups=lambda _: _groups(section),
    )


def _formats(document: ModelSection) -> tuple[WeightFormat, ...]:
    words = document.texts("formats") if "formats" in document else ()
    if not set(words) <= set(WeightFormat):
        raise document.fault("formats", f"of {', '.join(WeightFormat)}")
    return tuple(map(WeightFormat, words))


def _groups(document: ModelSection) -> tuple[LayerGroup, ...]:
    groups = tuple(_group(ModelSection.of(group)) for group in document.sections("groups"))
    kinds = {group.ffn for group in groups if isinstance(group.ffn, Experts)}
    if not any(group.attention for group in groups):
        raise document.fault("groups", "of layers that have attention somewhere")
    if len(kinds) > 1:
        raise document.fault("groups", "of one kind of experts: layers with different ones are not known")
    return groups


def _group(section: ModelSection) -> LayerGroup:
    section.allow_only(*record_keys(LayerGroup))
    count = section.integer("count", low=1, high=MOST_LAYERS)
    attention, ffn = _part(section, "attention", _ATTENTIONS), _part(section, "ffn", _FFNS)
    if attention is None and ffn is None:
        raise section.fault("ffn", "given where there is no attention")
    return LayerGroup(count=count, attention=attention, ffn=ffn)


def _part(group: ModelSection, key: str, kinds: Mapping[str, type[Part]]) -> Part | None:
    if group.is_empty(key):
        return None
    tagged = group.section(key)
    kind = tagged.one_of("kind", tuple(kinds))
    part = read_record(kinds[kind], ModelSection.of(tagged, leave_out={"kind"}))
    if isinstance(part, GroupedAttention) and part.heads % part.kv_heads:
        raise tagged.fault("kv_heads", f"a divisor of heads, {part.heads}")
    if isinstance(part, Experts) and not 1 <= part.active <= part.routed:
        raise tagged.fault("active", f"at least 1 and at most routed, {part.routed}")
    if isinstance(part, Experts) and not 0 <= part.node_limit <= part.routed:
        raise tagged.fault("node_limit", f"at least 0 and at most routed, {part.routed}")
    return part


def _of_version_1(document: Section) -> dict[str, object]:
    """A document of before layers could differ, as one of today: `layers` alike but for which have experts, and how
    many see a window. Which layers those are, no figure depends on."""
    section = ModelSection.of(document)
    layers = section.integer("layers", low=1)
    with_experts = set(section.integers("moe_layer_indices", low=0, high=layers - 1))
    attention = section.inner("attention").values
    windowed = section.inner("attention").whole("windowed_layers", 0, high=layers)
    attention.pop("windowed_layers", None)
    window = attention.pop("window", 0)
    dense = {"kind": "dense", "size": section.integer("dense_ffn_size", low=0)}
    if with_experts:
        section.section("experts")  # must be there
    experts = {"kind": "experts", **section.inner("experts").values}
    groups: list[dict[str, object]] = [
        {
            "attention": {**attention, "window": window} if layer < windowed else attention,
            "ffn": experts if layer in with_experts else dense,
        }
        for layer in range(layers)
    ]
    unchanged = {key: value for key, value in section.values.items() if key not in _VERSION_1_KEYS}
    return {**unchanged, MODEL_SPEC_KEY: _VERSION, "groups": _joined(groups)}


_VERSION_1_KEYS = ("layers", "moe_layer_indices", "dense_ffn_size", "attention", "experts")


def _joined(groups: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """Equal layers together."""
    counts = Counter(json.dumps(group, sort_keys=True) for group in groups)
    return [{**json.loads(text), "count": count} for text, count in counts.items()]
