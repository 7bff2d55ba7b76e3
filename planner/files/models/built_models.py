"""Any model that transformers knows: built by its class on the meta device, which holds shapes and no weights.

What the class has is read off it; what its configuration says of windows and experts is taken from there. No code of a
repository is run. The class lacks layers that draft: they count as the model's last kind of layer.
"""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from planner.domain import ModelSpec
from planner.errors import InputError
from planner.files.disk.documents import read_json
from planner.files.disk.names import resolve
from planner.files.disk.opening import is_folder, is_there
from planner.files.models.built_layers import TOLERANCE, BuiltLayer, understood_layers
from planner.files.models.model_architectures import ModuleNames, grouped_layers
from planner.files.models.model_documents import ModelSection
from planner.files.models.model_precisions import quantization_method, read_kv_bytes, read_precision, read_weight_block
from planner.files.models.models import HUB_ID
from planner.files.sections import NAME_PATTERN, Section

_LEFT_OUT = ("auto_map", "quantization_config", "_planner", "_name_or_path")
"""Keys of a config.json that say nothing of the class, or name code that is not to be run."""


def config_of(id_or_path: str, *, download: bool = False) -> tuple[Section, str, str]:
    """The config.json that is meant, its id on the hub where it is one, and what it may be called. Only with `download`
    it is fetched, and nothing else is. InputError where it is not there."""
    path = resolve(id_or_path, None)
    if is_there(path):
        file = path / "config.json" if is_folder(path) else path
        return read_json(file), "", file.absolute().parent.name if file.stem == "config" else file.stem
    if not download or not HUB_ID.fullmatch(id_or_path):
        raise InputError(
            f"{id_or_path}: must be a config.json or its folder; there is none.",
            hint="With --download the config.json of an id on Hugging Face, ORG/NAME, is fetched.",
        )
    try:
        from huggingface_hub import hf_hub_download  # noqa: PLC0415  (an extra, and only where asked for)
    except ImportError:
        raise _no_transformers() from None
    try:
        fetched = hf_hub_download(id_or_path, "config.json")
    except (OSError, ValueError) as error:  # what the hub refuses derives from the one, a faulty id from the other
        raise InputError(
            f"{id_or_path}: config.json cannot be fetched: {_first_line(error)}",
            hint="Fetch it by hand, and give its path.",
        ) from None
    return read_json(Path(fetched)), id_or_path, id_or_path.partition("/")[2]


def _first_line(error: Exception) -> str:
    return f"{' '.join(str(error).split()) or type(error).__name__:.300}"


def built_model(config: Section, *, name: str, uri: str = "") -> ModelSpec:
    """The model of a config.json of any architecture that transformers has. InputError names what it cannot be told."""
    if not NAME_PATTERN.fullmatch(name):
        raise InputError(f"--name: must be one that files may have, got {name!r:.60}.", hint="Give the model a name.")
    model, settings, version = _built(config)
    text = settings.get_text_config()
    matrices = {key: value for key, value in model.named_parameters() if value.dim() > 1 and not key.endswith("bias")}
    shapes = {key: tuple(value.shape) for key, value in matrices.items()}
    layers = _layers(model, shapes, text)
    understood = understood_layers(layers, text)
    around = _around(model, shapes, layers)
    section = ModelSection.of(config)
    planner_keys = section.inner("_planner")
    precision = read_precision(section, planner_keys, understood, ModuleNames(), int(text.hidden_size))
    remarks = [f"Built by transformers {version} as {type(model).__name__}, from shapes and its configuration."]
    if len(understood) > len(layers):
        remarks.append("What attends side by side in a layer counts as layers of their own, one after the other.")
    spec = ModelSpec(
        name=name,
        uri=uri,
        hidden_size=int(text.hidden_size),
        groups=grouped_layers(understood),
        vocab_size=around["vocabulary"],
        max_context=_needed(text, "max_position_embeddings", config),
        **precision.of_model,
        kv_bytes=read_kv_bytes(section, planner_keys, precision),
        mtp_layers=int(getattr(text, "num_nextn_predict_layers", None) or 0),
        tied_embeddings=around["head"] == 0,
        tower_parameters=around["tower"],
        architecture=type(model).__name__,
        quantization=quantization_method(section),
        weight_block=read_weight_block(section),
        own_code=not section.is_empty("auto_map"),
        source=f"{type(model).__name__} of transformers {version}",
        assumed=tuple(remarks),
    )
    total = sum(map(prod, shapes.values()))
    if abs(spec.parameters - total) > TOLERANCE * total:
        raise InputError(
            f"{config.file}: must come out with the {total:,} weights of {type(model).__name__}, got "
            f"{spec.parameters:,}.",
            hint="The planner has no formulas for what is missing.",
        )
    return spec


def _needed(text: Any, key: str, config: Section) -> int:
    value = getattr(text, key, None)
    if not isinstance(value, int) or value < 1:
        raise InputError(f"{config.file}: {key} must be a whole number, got {value!r:.40}.", hint="Add it.")
    return value


def _no_transformers() -> InputError:
    return InputError(
        "transformers must be installed to build a model; it is not.",
        hint="pip install 'llm-fleet-planner[models]', or describe the model by `like:` a known architecture.",
    )


def _built(config: Section) -> tuple[Any, Any, str]:
    """The model without weights, its configuration, and the version of transformers that built it."""
    try:
        import torch  # noqa: PLC0415  (seconds to load, and only where a model is built)
        import transformers  # noqa: PLC0415  (an extra)
    except ImportError:
        raise _no_transformers() from None
    transformers.logging.set_verbosity_error()  # of what our own messages say
    values = {key: value for key, value in ModelSection.of(config).values.items() if key not in _LEFT_OUT}
    kind = values.pop("model_type", None)
    if not isinstance(kind, str) or kind not in transformers.CONFIG_MAPPING:
        raise InputError(
            f"{config.file}: model_type must be one of transformers {transformers.__version__}, got {kind!r:.60}.",
            hint="A newer transformers may have it; code of a repository is not run.",
        )
    try:
        settings = transformers.AutoConfig.for_model(kind, **_without_quantization(values))
        autos = (transformers.AutoModelForCausalLM, transformers.AutoModelForImageTextToText)
        auto = next((auto for auto in reversed(autos) if type(settings) in auto._model_mapping), autos[0])
        _require_taken(config, settings.get_text_config())
        with torch.device("meta"):
            model = auto.from_config(settings, dtype=torch.bfloat16, trust_remote_code=False)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  (each of its hundreds of classes raises what it likes)
        raise InputError(
            f"{config.file}: {kind} must be what transformers {transformers.__version__} can build: "
            f"{_first_line(error)}",
            hint="Correct the configuration.",
        ) from None
    return model, settings, str(transformers.__version__)


_SIZES = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size"),
    *("intermediate_size", "moe_intermediate_size", "num_experts_per_tok", "q_lora_rank", "kv_lora_rank"),
)


_MOST_BUILT = 1000  # layers: several times what there is; each is built


def _require_taken(config: Section, text: Any) -> None:
    """InputError where the class passes over what the file says, and would take sizes of its own instead."""
    stated = ModelSection.of(config)
    stated = stated if stated.is_empty("text_config") else stated.inner("text_config")
    ModelSection({"num_hidden_layers": getattr(text, "num_hidden_layers", None)}, file=stated.file).integer(
        "num_hidden_layers", low=1, high=_MOST_BUILT
    )
    for key in (*_SIZES, "layer_types"):
        value, class_value = stated.values.get(key), getattr(text, key, None)
        if value is not None and (not class_value if key == "layer_types" else class_value != value):
            raise stated.fault(
                key,
                f"what {type(text).__name__} of transformers takes, {class_value!r:.60}",
                hint="It is of another shape.",
            )


def _without_quantization(values: Mapping[str, Any]) -> dict[str, Any]:
    """Weights are built as they were before they were quantised."""
    return {
        key: _without_quantization(value) if key == "text_config" and isinstance(value, dict) else value
        for key, value in values.items()
        if key != "quantization_config"
    }


def _layers(model: Any, shapes: Mapping[str, tuple[int, ...]], text: Any) -> list[BuiltLayer]:
    """The language model's layers: the list of so many modules that stands beside the input embedding."""
    from transformers.cache_utils import get_layer_types_and_kwargs  # noqa: PLC0415  (an extra)

    count = int(text.num_hidden_layers)
    caches, settings = get_layer_types_and_kwargs(text)
    beside = _name_of(model, model.get_input_embeddings()).rpartition(".")[0]
    prefix, modules = next(
        (
            (name, list(module))
            for name, module in model.named_modules()
            if name.rpartition(".")[0] == beside and type(module).__name__ == "ModuleList" and len(module) == count
        ),
        ("", []),
    )
    if not modules:
        raise InputError(
            f"{type(model).__name__} must have its {count} layers beside its input embedding; it has not.",
            hint="The planner does not know how such a model is built.",
        )
    return [
        BuiltLayer(
            name=f"{prefix}.{number}",
            cache=caches[number],
            window=int(settings[number].get("sliding_window") or 0),
            module=module,
            shapes={
                key.removeprefix(f"{prefix}.{number}."): shape
                for key, shape in shapes.items()
                if key.startswith(f"{prefix}.{number}.")
            },
        )
        for number, module in enumerate(modules)
    ]


def _name_of(model: Any, sought_module: Any) -> str:
    return next(str(name) for name, module in model.named_modules() if module is sought_module)


def _around(model: Any, shapes: Mapping[str, tuple[int, ...]], layers: list[BuiltLayer]) -> dict[str, int]:
    """Vocabulary, weights of a head of its own (0: tied), and of what reads images or sound. InputError names other
    matrices outside of layers."""
    embedding = f"{_name_of(model, model.get_input_embeddings())}.weight"
    language = layers[0].name.rpartition(".")[0]
    beside = language.rpartition(".")[0]
    outside = {key: shape for key, shape in shapes.items() if not key.startswith(f"{language}.") and key != embedding}
    head = {key: shape for key, shape in outside.items() if key.endswith("lm_head.weight")}
    other = {key: shape for key, shape in outside.items() if key not in head}
    towers = {key: shape for key, shape in other.items() if beside.count(".") and not key.startswith(f"{beside}.")}
    strange = {key: shape for key, shape in other.items() if key not in towers}
    if sum(map(prod, strange.values())) > TOLERANCE * sum(map(prod, shapes.values())):
        listed = ", ".join(f"{key} {list(shape)}" for key, shape in strange.items())
        raise InputError(
            f"{type(model).__name__} must have nothing but an embedding, a head and a tower beside its layers, got "
            f"{listed:.400}.",
            hint="The planner has no formulas for it.",
        )
    return {
        "vocabulary": shapes[embedding][0],
        "head": sum(map(prod, head.values())),
        "tower": sum(map(prod, towers.values())),
    }
