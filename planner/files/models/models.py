"""Model shapes from Hugging Face config.json files, or from the planner's own model documents.

Fields of ours stand under `_planner` of a config.json, or beside `config` in a scenario's `model`: `uri` (where an
engine loads the weights from), `name`, `source`, `like` (a known architecture whose layers it has), `weight_bytes`,
`expert_bytes`, `kv_bytes` (bytes per element) and `own_code` (else whether there is an `auto_map`).
"""

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from planner.domain import InputHash, ModelSpec
from planner.errors import InputError
from planner.files.disk.documents import input_hash, parse_json, read_json
from planner.files.disk.names import canonical, hub_ids, is_path, resolve, shipped_models
from planner.files.disk.opening import is_folder, is_there
from planner.files.models.model_architectures import (
    ARCHITECTURES,
    grouped_layers,
    module_names,
    read_layers,
    served_class,
    text_section,
)
from planner.files.models.model_documents import MODEL_SPEC_KEY, ModelSection, model_from_document
from planner.files.models.model_precisions import quantization_method, read_kv_bytes, read_precision, read_weight_block
from planner.files.models.model_towers import tower_parameters, tower_shape
from planner.files.sections import NAME_PATTERN, Section, nearest_hint, referred_from

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_CACHED = re.compile(r"models--([\w.-]+?)--([\w.-]+)", re.ASCII)
"""A folder of the hub's own cache."""
_TOLD_BYTES = ("weight_bytes", "expert_bytes", "kv_bytes")
_OVERRIDES = ("name", "uri", "source", "like", "own_code", *_TOLD_BYTES)

MOST_KEPT = 128
"""Of shipped models, that were read before."""

ReadModel = tuple[ModelSpec, tuple[InputHash, ...]]
"""A model, and the digests of what it was read from."""


def load_model(name_or_path: str, base: Path | None = None) -> ModelSpec:
    """A shipped model by its name or its id on the hub, or that of a config.json (or its folder), relative to `base`.
    InputError for what is not there or not known."""
    return find_model(name_or_path, base)[0]


def find_model(name_or_path: str, base: Path | None = None, overrides: Section | None = None) -> ReadModel:
    """As `load_model`; `overrides`: what somebody says of it beside its config."""
    path = resolve(name_or_path, base) if is_path(name_or_path, ".json") else None
    if path is not None and (is_there(path) or not HUB_ID.fullmatch(name_or_path)):
        return _read_file(path / "config.json" if is_folder(path) else path, overrides)
    ids = hub_ids()
    name = canonical(name_or_path, shipped_models()) if path is None else ids.get(canonical(name_or_path, ids), "")
    if name not in shipped_models():
        raise InputError(
            f"There is no model {name_or_path!r}.",
            hint=nearest_hint(name_or_path, tuple(ids) if path else shipped_models(), noun="shipped models")
            + " For another model give the path of its config.json.",
        )
    text, file = shipped_models()[name], f"{name}.json"
    digest = InputHash(name=file, sha256=hashlib.sha256(text.encode()).hexdigest())
    model = (
        _shipped(text, file)
        if overrides is None
        else model_from_config(parse_json(text, file=file), overrides=overrides)
    )
    return model, (digest,)


@lru_cache(maxsize=MOST_KEPT)
def _shipped(text: str, file: str) -> ModelSpec:
    """The model of a shipped config.json: every record of a plan asks again whether its model is one of these."""
    return model_from_config(parse_json(text, file=file))


def _read_file(path: Path, overrides: Section | None) -> ReadModel:
    """The shape in a config.json; without a name of its own it takes the folder's, or else the file's. How weights are
    quantised may stand beside it, in hf_quant_config.json."""
    config, beside, digests = ModelSection.of(read_json(path)), path.parent / "hf_quant_config.json", [input_hash(path)]
    if path.stem == "config" and "quantization_config" not in text_section(config) and is_there(beside):
        config = config.with_quantization(read_json(beside))
        digests.append(input_hash(beside))
    cached = next((match for part in reversed(path.absolute().parts) if (match := _CACHED.fullmatch(part))), None)
    if cached and config.is_empty("_name_or_path"):
        config = config.changed(_name_or_path="/".join(cached.groups()))
    name = path.parent.name if path.stem == "config" else path.stem
    return model_from_config(config, name=cached[2] if cached else name, overrides=overrides), tuple(digests)


def told_model(section: Section, base: Path) -> ReadModel:
    """The model of a mapping: a `config`, named or written out, beside what somebody tells of it; or that document."""
    if "config" not in section:
        return model_from_config(section), ()
    overrides = ModelSection.of(section, leave_out={"config"})
    overrides.allow_only(*_OVERRIDES)
    if section.holds_section("config"):
        return model_from_config(section.section("config"), overrides=overrides), ()
    with referred_from(section, "config"):
        return find_model(section.text("config"), base, overrides)


def model_from_config(config: Section, *, name: str = "", overrides: Section | None = None) -> ModelSpec:
    """The model of a config.json or a model document; what the planner does not know is refused, never guessed.

    `name` serves where a config.json has no `_planner.name`; `overrides` go before what its `_planner` says.
    """
    values = {} if overrides is None else ModelSection.of(overrides).values
    if MODEL_SPEC_KEY in config:
        return model_from_document(ModelSection.of(config).changed(**values))
    planner_keys = ModelSection.of(config.section("_planner", optional=True))
    planner_keys.allow_only(*_OVERRIDES)
    section = (
        planner_keys
        if overrides is None
        else ModelSection({**planner_keys.values, **values}, file=overrides.file, path=overrides.path)
    )
    return _from_hugging_face(ModelSection.of(config), section, name)


def _from_hugging_face(config: ModelSection, section: ModelSection, name: str) -> ModelSpec:
    stated = () if config.is_empty("architectures") else config.texts("architectures")
    if "like" in section:
        config = config.changed(architectures=[section.one_of("like", ARCHITECTURES)])
    layers, text = read_layers(config), text_section(config)
    hidden_size = text.integer("hidden_size", low=1)
    tower_width, tower_patches = tower_shape(config)
    precision = read_precision(config, section, layers, module_names(config), hidden_size)
    return ModelSpec(
        name=_name(config, section, name),
        uri=_uri(config, section),
        hidden_size=hidden_size,
        groups=grouped_layers(layers),
        vocab_size=text.integer("vocab_size", low=1),
        max_context=_longest(text),
        **precision.of_model,
        kv_bytes=read_kv_bytes(config, section, precision),
        mtp_layers=text.whole("num_nextn_predict_layers", 0),
        tied_embeddings=config.flag("tie_word_embeddings", text.flag("tie_word_embeddings", False)),
        tower_parameters=tower_parameters(config),
        tower_width=tower_width,
        tower_patches=tower_patches,
        residual_streams=text.whole("hc_mult", 1, low=1),
        architecture=served_class(config),
        quantization=quantization_method(config),
        weight_block=read_weight_block(config),
        own_code=section.flag("own_code", "auto_map" in config and not config.is_empty("auto_map")),
        source=section.text("source", default=""),
        assumed=tuple(_assumed(section, stated)),
    )


def _longest(text: ModelSection) -> int:
    key = "max_position_embeddings"
    return text.integer("model_max_length" if key not in text and "model_max_length" in text else key, low=1)


def _assumed(section: ModelSection, stated: tuple[str, ...]) -> Iterator[str]:
    """What somebody said of the model in place of its config."""
    if "like" in section:
        sentence = f"the config says {', '.join(stated)}" if stated else "the config says none"
        yield f"Its layers are read as those of {section.text('like')}, as told: {sentence}."
    for key in _TOLD_BYTES:
        if key in section:
            yield f"{key} is {section.number(key):g}, as told, whatever the checkpoint says."


def _name(config: ModelSection, section: ModelSection, fallback: str) -> str:
    usual = fallback or config.text("_name_or_path", default="").rstrip("/").rpartition("/")[2]
    if "name" not in section and not NAME_PATTERN.fullmatch(usual):
        raise section.fault("name", "given, as the file's name cannot serve", hint='Add "_planner": {"name": "..."}.')
    return section.name("name", default=usual)


def _uri(config: ModelSection, section: ModelSection) -> str:
    """Where an engine loads the weights from; empty where nobody says, which only manifests need."""
    if "uri" in section:
        return section.uri("uri")
    origin = config.text("_name_or_path", default="")
    return f"hf://{origin}" if HUB_ID.fullmatch(origin) else ""
