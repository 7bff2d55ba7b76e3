"""`planner models`: the models at hand."""

from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen

if TYPE_CHECKING:
    from planner.domain import ModelSpec

_COLUMNS = (
    "model",
    "parameters (10^9)",
    "active (10^9)",
    "weights GB",
    "precision",
    "layers",
    "attention",
    "experts",
    "KV bytes/token",
    "context",
)
_IMPORTANT = ("parameters (10^9)", "active (10^9)", "weights GB", "precision", "context")
_FORMATS = {0.53125: "MXFP4", 0.5625: "NVFP4", 1.0: "FP8", 2.0: "BF16"}


def command(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the shipped models; a scenario may also name any supported config.json."""
    from planner import files

    models = [files.load_model(name) for name in files.shipped_models()]
    if json:
        screen.show_json([files.model_document(model) | _sizes(model) for model in models])
    else:
        screen.show_table("Models", _COLUMNS, [_row(model) for model in models], important=_IMPORTANT)


def _sizes(model: "ModelSpec") -> dict[str, object]:
    return {
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "weights_gb": model.weights_gb,
        "kv_bytes_per_token": model.kv_bytes_per_token,
    }


def _row(model: "ModelSpec") -> tuple[object, ...]:
    return (
        model.name,
        round(model.parameters / 1e9, 1),
        round(model.active_parameters / 1e9, 1),
        round(model.weights_gb, 1),
        _precision(model),
        model.layers,
        _attention(model),
        _experts(model),
        round(model.kv_bytes_per_token),
        model.max_context,
    )


def _precision(model: "ModelSpec") -> str:
    weights = _format(model.weight_bytes)
    if model.experts is None or model.expert_bytes == model.weight_bytes:
        return weights
    return f"{weights}, experts {_format(model.expert_bytes)}"


def _format(size: float) -> str:
    return _FORMATS.get(size, f"{size:g} bytes")


def _attention(model: "ModelSpec") -> str:
    from planner.domain import MlaAttention

    attention = model.attention
    if isinstance(attention, MlaAttention):
        return f"MLA, {attention.heads} heads"
    window = f", {attention.windowed_layers} layers see {attention.window}" if attention.windowed_layers else ""
    return f"grouped, {attention.heads}/{attention.kv_heads} heads{window}"


def _experts(model: "ModelSpec") -> str:
    experts = model.experts
    if experts is None:
        return "none (dense)"
    shared = f" + {experts.shared} shared" if experts.shared else ""
    return f"{experts.active} of {experts.routed}{shared}"
