"""`planner models` and `planner model`: those at hand, what one is made of, and how others become known."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen

if TYPE_CHECKING:
    from planner.domain import ModelSpec

Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
_COLUMNS = (
    *("model", "parameters (10^9)", "active (10^9)", "weights GB", "precision"),
    *("layers", "attention", "experts", "KV bytes/token", "context"),
)
_HEADS = ("parameters (10^9)", "active (10^9)", "weights GB", "precision", "context")


def models(json: Json = False) -> None:
    """List the shipped models; a scenario may name one by its id on Hugging Face, too, or any config.json."""
    from planner import files

    shipped = [files.load_model(name) for name in files.shipped_models()]
    if json:
        screen.show_json([files.model_document(model) | _sizes(model) for model in shipped])
    else:
        screen.show_table("Models", _COLUMNS, [_row(model) for model in shipped], important=_HEADS)


group = typer.Typer(help="One model: what it is made of, what it needs.", no_args_is_help=True)


@group.callback()
def _group() -> None:
    """One model: what it is made of, what it needs."""


@group.command("show")
def show(
    model: Annotated[
        str, typer.Argument(help="A shipped name, an id on Hugging Face of one, or a config.json or its folder.")
    ],
    json: Json = False,
) -> None:
    """Show a model: layers by kind, weights by part, cache by length, and the GPUs and degrees that hold it."""
    from dataclasses import asdict

    from planner import files
    from planner.cost import model_fits
    from planner.report.kit.markdown import page_text
    from planner.report.models import CONTEXTS, model_page

    spec, engine = files.load_model(model), files.load_engine("vllm")
    fits = model_fits(spec, files.load_gpu_specs().values(), engine)
    loaded_by = [str(profile) for profile in files.engine_profiles() if profile.loads(spec.architecture)]
    if json:
        cached = {words: spec.cached_bytes(tokens) for words, tokens in CONTEXTS.items() if tokens <= spec.max_context}
        further = {"cached_bytes": cached, "state_bytes": spec.state_bytes, "fits": [asdict(fit) for fit in fits]}
        further["loaded_by"] = loaded_by
        screen.show_json(files.model_document(spec) | _sizes(spec) | further)
    else:
        screen.show_markdown(page_text(model_page(spec, fits, loaded_by)))


@group.command("add")
def add(
    source: Annotated[
        str, typer.Argument(metavar="ID_OR_PATH", help="A config.json or its folder; with --download an id, ORG/NAME.")
    ],
    out: Annotated[Path | None, typer.Option(help="The model file. [default: NAME.json here]")] = None,
    name: Annotated[str, typer.Option(help="Of the model. [default: that of the id or the folder]")] = "",
    download: Annotated[
        bool, typer.Option("--download", help="Fetch config.json of an id from Hugging Face, and nothing else.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    json: Json = False,
) -> None:
    """Make a model file of any architecture that transformers has: built without weights, for you to review."""
    from json import dumps

    from planner import files
    from planner.files.models.built_models import built_model, config_of
    from planner.report.kit.markdown import page_text
    from planner.report.models import model_page

    config, hub_id, usual = config_of(source, download=download)
    model = built_model(config, name=name or usual, uri=f"hf://{hub_id}" if hub_id else "")
    path = out or Path(f"{model.name}.json")
    text = dumps(files.model_document(model), indent=1, ensure_ascii=False)
    files.write_file(path, f"{text}\n".encode(), force=force)
    if json:
        screen.show_json({"file": str(path), **files.model_document(model), **_sizes(model)})
        return
    screen.show_markdown(page_text(model_page(model)))
    screen.show_note(f"Model {model.name}: {path}; review it, then in a scenario: `model: {path}`.")


def _sizes(model: "ModelSpec") -> dict[str, object]:
    return {
        "layers": model.layers,
        "moe_layers": model.moe_layers,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "weights_gb": model.weights_gb,
        "kv_bytes_per_token": model.kv_bytes_per_token,
    }


def _row(model: "ModelSpec") -> tuple[object, ...]:
    from planner.report.models import precision

    return (
        model.name,
        round(model.parameters / 1e9, 1),
        round(model.active_parameters / 1e9, 1),
        round(model.weights_gb, 1),
        precision(model),
        model.layers,
        ", ".join(dict.fromkeys(attention.words for attention, _ in model.attentions)),
        "none (dense)" if model.experts is None else model.experts.words,
        round(model.kv_bytes_per_token),
        model.max_context,
    )
