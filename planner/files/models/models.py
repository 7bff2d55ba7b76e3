"""Model shapes from Hugging Face config.json files, or from the planner's own model documents.

Fields of ours stand under `_planner`: `uri` (where an engine loads the weights from), and optionally `name`,
`source`, `weight_bytes`, `expert_bytes`, `kv_bytes` (bytes per element) and `own_code` (else whether there is an
`auto_map`).
"""

import re
from pathlib import Path

from planner.domain import Experts, GroupedAttention, LayerGroup, MlaAttention, ModelSpec
from planner.domain.model import Gate
from planner.errors import InputError
from planner.files.disk.documents import read_json
from planner.files.disk.names import canonical, is_path, resolve, shipped_models
from planner.files.disk.opening import is_folder, is_there
from planner.files.models.model_architectures import grouped_layers, is_planned, module_names, read_layers, text_section
from planner.files.models.model_documents import MODEL_SPEC_KEY, ModelSection, model_from_document
from planner.files.models.model_precisions import quantization_method, read_kv_bytes, read_precision, read_weight_block
from planner.files.models.model_towers import tower_parameters
from planner.files.sections import NAME_PATTERN, Section, nearest_hint


def load_model(name_or_path: str, base: Path | None = None) -> ModelSpec:
    """A shipped model, or that of a config.json (or the folder that holds it), relative to `base`. InputError where no
    plans can be made of it."""
    return require_planned(describe_model(name_or_path, base), name_or_path)


def describe_model(name_or_path: str, base: Path | None = None) -> ModelSpec:
    """As `load_model`, of models that are not planned for, too."""
    return read_model(model_file(name_or_path, base))


def model_file(name_or_path: str, base: Path | None = None) -> Path:
    """The file behind a shipped name or a path."""
    if is_path(name_or_path, ".json"):
        path = resolve(name_or_path, base)
        if not is_there(path) and (listed := _by_repository(name_or_path)) is not None:
            return listed
        return path / "config.json" if is_folder(path) else path
    shipped = shipped_models()
    name = canonical(name_or_path, shipped)
    if name not in shipped:
        raise InputError(
            f"There is no model {name_or_path!r}.",
            hint=nearest_hint(name_or_path, shipped, noun="shipped models")
            + " For another model give the path of its config.json.",
        )
    return shipped[name]


def _by_repository(text: str) -> Path | None:
    """The shipped model whose weights lie in the repository ORG/NAME; None where there is none."""
    name, shipped = canonical(text.rpartition("/")[2], shipped_models()), shipped_models()
    if name not in shipped or load_model(name).uri.casefold() != f"hf://{text.casefold()}":
        return None
    return shipped[name]


def read_model(path: Path) -> ModelSpec:
    """The shape in a config.json; without a name of its own it takes the folder's, or else the file's. How weights are
    quantised may stand beside it, in hf_quant_config.json."""
    stem = path.parent.name if path.stem == "config" else path.stem
    config, beside = read_json(path), path.parent / "hf_quant_config.json"
    if path.stem == "config" and "quantization_config" not in config and is_there(beside):
        config = ModelSection.of(config).with_quantization(read_json(beside))
    return model_from_config(config, name=stem)


def model_from_config(config: Section, *, name: str = "") -> ModelSpec:
    """The model of a config.json or a model document; what the planner does not know is refused, never guessed.

    `name` serves where a config.json has no `_planner.name`.
    """
    if MODEL_SPEC_KEY in config:
        return model_from_document(config)
    return _from_hugging_face(ModelSection.of(config), name)


def _from_hugging_face(config: ModelSection, name: str) -> ModelSpec:
    layers, text = read_layers(config), text_section(config)
    section = ModelSection.of(config.section("_planner", optional=True))
    section.allow_only("name", "uri", "source", "weight_bytes", "expert_bytes", "kv_bytes", "own_code")
    hidden_size = text.integer("hidden_size", low=1)
    precision = read_precision(config, section, layers, module_names(config), hidden_size)
    return ModelSpec(
        name=_name(section, name),
        uri=_uri(config, section),
        hidden_size=hidden_size,
        groups=grouped_layers(layers),
        vocab_size=text.integer("vocab_size", low=1),
        max_context=_longest(text),
        weight_bytes=precision.weights,
        expert_bytes=precision.experts,
        shared_bytes=precision.shared,
        head_bytes=precision.head,
        formats=precision.formats,
        weight_only=precision.weight_only,
        kv_bytes=read_kv_bytes(config, section, precision),
        mtp_layers=text.whole("num_nextn_predict_layers", 0),
        tied_embeddings=config.flag("tie_word_embeddings", text.flag("tie_word_embeddings", False)),
        tower_parameters=tower_parameters(config),
        residual_streams=text.whole("hc_mult", 1, low=1),
        architecture=config.texts("architectures")[0],
        quantization=quantization_method(config),
        weight_block=read_weight_block(config),
        own_code=section.flag("own_code", "auto_map" in config and not config.is_empty("auto_map")),
        source=section.text("source", default=""),
    )


def _longest(text: ModelSection) -> int:
    key = "max_position_embeddings"
    return text.integer("model_max_length" if key not in text and "model_max_length" in text else key, low=1)


def _name(section: ModelSection, fallback: str) -> str:
    if "name" not in section and not NAME_PATTERN.fullmatch(fallback):
        raise section.fault("name", "given, as the file's name cannot serve", hint='Add "_planner": {"name": "..."}.')
    return section.name("name", default=fallback)


def _uri(config: ModelSection, section: ModelSection) -> str:
    if "uri" in section:
        return section.uri("uri")
    origin = config.text("_name_or_path", default="")
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", origin, flags=re.ASCII):
        return f"hf://{origin}"
    return ""


def require_planned(model: ModelSpec, source: str) -> ModelSpec:
    """The model, where plans can be made of it. InputError where its rates or engines are not known, or nobody knows
    where an engine loads its weights from; `source`: where it was read."""
    strange = None if is_planned(model.architecture) else f"models of {model.architecture} are"
    if strange is None and any(not _is_plain(group) for group in model.groups):
        strange = "layers of its kinds are"
    if strange is not None:
        raise InputError(
            f"{source}: model {model.name}: must be one whose rates and engines are known; {strange} read and shown, "
            "and not planned for yet.",
            hint="`planner models FILE` shows its weights and caches.",
        )
    if not model.uri:
        raise InputError(
            f"{source}: _planner.uri must be given: where an engine loads the weights from; it is missing.",
            hint='Add "_planner": {"uri": "hf://ORG/NAME"}.',
        )
    return model


def _is_plain(group: LayerGroup) -> bool:
    """Whether the layers are of the kinds that measured models have."""
    attention, ffn = group.attention, group.ffn
    if isinstance(attention, MlaAttention):
        plain = attention.indexer is None and attention.gate is Gate.NONE
    elif isinstance(attention, GroupedAttention):
        plain = attention == GroupedAttention(
            heads=attention.heads, kv_heads=attention.kv_heads, head_dim=attention.head_dim, window=attention.window
        )
    else:
        plain = False
    return plain and ffn is not None and ffn.gated and not (isinstance(ffn, Experts) and ffn.latent)
