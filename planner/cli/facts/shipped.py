"""`planner gpus`, `models`, `workloads`, `scenarios`: what is at hand, and where its figures come from."""

from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.domain import LengthProfile, Scenario

if TYPE_CHECKING:
    from planner.domain import Attention, GpuSpec, ModelSpec
    from planner.domain.model import Ffn

_GPU_HEADS = ("FP8", "GB", "GB/s", "USD/h", "NVLink GB/s", "domain", "FP16", "NIC GB/s")


def gpus(
    name: Annotated[str | None, typer.Argument(help="One type, with the source of every figure.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List GPU types, or show one."""
    from dataclasses import asdict

    from planner import files

    chosen = [files.load_gpu_spec(name)] if name else list(files.load_gpu_specs().values())
    if json:
        screen.show_json([asdict(gpu) for gpu in chosen])
    elif name:
        _show_gpu(chosen[0])
    else:
        columns = (
            "GPU",
            "FP16",
            "FP8",
            "FP4",
            "GB",
            "MiB",
            "GB/s",
            "NVLink GB/s",
            "NIC GB/s",
            "domain",
            "W",
            "USD/h",
        )
        screen.show_table(
            "GPU types (TFLOP/s dense, per GPU)", columns, [_gpu_row(gpu) for gpu in chosen], important=_GPU_HEADS
        )


def _gpu_row(gpu: "GpuSpec") -> tuple[object, ...]:
    return (
        gpu.name,
        gpu.fp16_tflops,
        gpu.fp8_tflops,
        gpu.fp4_tflops,
        gpu.memory_gb,
        gpu.memory_mib or None,
        gpu.memory_gb_s,
        gpu.nvlink_gb_s,
        gpu.nic_gb_s,
        gpu.gpus_per_nvlink_domain,
        gpu.max_w,
        gpu.price.usd_per_hour if gpu.price else None,
    )


def _show_gpu(gpu: "GpuSpec") -> None:
    rows = [(s.figure, str(getattr(gpu, s.figure, "")), s.unit, s.source) for s in gpu.sources]
    if gpu.price:
        rows.append(("price", str(gpu.price.usd_per_hour), "USD/hour", f"{gpu.price.source}, {gpu.price.date}"))
    rows.append(("family", gpu.family, "", "whose efficiency factors the device follows"))
    screen.show_table(gpu.name, ("figure", "value", "unit", "source"), rows)


_MODEL_COLUMNS = (
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
_MODEL_HEADS = ("parameters (10^9)", "active (10^9)", "weights GB", "precision", "context")
_FORMATS = {0.53125: "MXFP4", 0.5625: "NVFP4", 1.0: "FP8", 2.0: "BF16"}


def models(
    name: Annotated[
        str,
        typer.Argument(help="A shipped model, or a config.json or its folder: shown by itself.", show_default=False),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the shipped models, or show one, or any config.json: layers, weights, cache, whether it is planned for."""
    from planner import files

    names = [name] if name else files.shipped_models()
    models = [files.describe_model(each) for each in names]
    if json:
        screen.show_json([files.model_document(model) | _sizes(model) for model in models])
    elif name:
        _show_model(models[0], name)
    else:
        screen.show_table("Models", _MODEL_COLUMNS, [_model_row(model) for model in models], important=_MODEL_HEADS)


_CONTEXTS = {"1K": 1024, "32K": 32_768, "1M": 1_048_576}


def _show_model(model: "ModelSpec", name: str) -> None:
    from planner import files
    from planner.errors import InputError

    layers = [(group.count, _attention_of(group.attention), _ffn_of(group.ffn)) for group in model.groups]
    screen.show_table(f"Layers of {model.name}", ("layers", "attention", "feed-forward"), layers)
    screen.show_table("Weights", ("part", "10^9", "bytes each", "GB"), _weight_rows(model))
    cached = [
        (words, f"{model.cached_bytes(tokens) / 1e6:,.1f}")
        for words, tokens in _CONTEXTS.items()
        if tokens <= max(model.max_context, min(_CONTEXTS.values()))
    ]
    screen.show_table("Cache of a sequence on one GPU", ("tokens", "MB"), cached)
    try:
        files.load_model(name)
    except InputError as error:
        screen.show_prose(f"Not planned for: {error.message}")


def _weight_rows(model: "ModelSpec") -> list[tuple[str, str, str, str]]:
    """A row a part that the model has, their sum, and what one token meets."""
    shared = model.expert_bytes if model.shared_bytes is None else model.shared_bytes
    parts = (
        ("attention", model.attention_parameters, model.weight_bytes),
        ("dense feed-forward", model.dense_ffn_parameters, model.weight_bytes),
        ("routed experts", model.moe_layers * model.routed_experts * model.expert_parameters, model.expert_bytes),
        ("shared experts", model.moe_layers * model.shared_parameters, shared),
        ("routers", model.moe_layers * model.router_parameters, 2.0),
        ("embeddings and head", model.embedding_parameters, model.table_bytes / model.embedding_parameters),
        ("tower", model.tower_parameters, 2.0),
        ("hyper-connections", model.connection_parameters, 2.0),
    )
    rows = [
        (part, f"{count / 1e9:,.3f}", f"{size:.3g}", f"{count * size / 1e9:,.1f}")
        for part, count, size in parts
        if count
    ]
    total = ("all", f"{model.parameters / 1e9:,.3f}", "", f"{model.weights_gb:,.1f}")
    active = ("met by a token", f"{model.active_parameters / 1e9:,.3f}", "", "")
    return [*rows, total, active]


def _attention_of(attention: "Attention | None") -> str:
    return "none" if attention is None else attention.words


def _ffn_of(ffn: "Ffn | None") -> str:
    return "none" if ffn is None else ffn.words


def _sizes(model: "ModelSpec") -> dict[str, object]:
    return {
        "layers": model.layers,
        "moe_layers": model.moe_layers,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "weights_gb": model.weights_gb,
        "kv_bytes_per_token": model.kv_bytes_per_token,
    }


def _model_row(model: "ModelSpec") -> tuple[object, ...]:
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
    return ", ".join(dict.fromkeys(f"{attention.words}" for attention, _ in model.attentions))


def _experts(model: "ModelSpec") -> str:
    experts = model.experts
    if experts is None:
        return "none (dense)"
    shared = f" + {experts.shared} shared" if experts.shared else ""
    return f"{experts.active} of {experts.routed}{shared}"


def workloads(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the shipped workloads; a scenario may also name a workload file or a trace CSV."""
    from planner import files

    profiles = [files.load_workload(name) for name in files.shipped_workloads()]
    rows = [_workload_row(profile) for profile in profiles if isinstance(profile, LengthProfile)]
    columns = ("name", "requests", "mean_input_tokens", "longest_prompt", "mean_output_tokens", "max_output_tokens",
               "arrival_rps", "burstiness", "licence")  # fmt: skip
    if json:
        screen.show_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        screen.show_table("Workloads", columns, rows)


def _workload_row(profile: LengthProfile) -> tuple[object, ...]:
    return (
        profile.name,
        profile.requests,
        round(profile.mean_input_tokens, 1),
        profile.input_tokens[-1],
        round(profile.mean_output_tokens, 1),
        profile.max_output_tokens,
        profile.arrival_rps,
        profile.burstiness,
        profile.licence,
    )


def scenarios(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the shipped scenarios: wherever a scenario is named, such a name will do."""
    from planner import files
    from planner.workload import summarize

    rows = [_scenario_row(files.load_scenario(path, summarize)) for path in files.shipped_scenarios().values()]
    columns = ("name", "model", "workload", "inventory", "cost", "routing")
    if json:
        screen.show_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        screen.show_table("Scenarios (planner plan NAME)", columns, rows)


def _scenario_row(scenario: Scenario) -> tuple[str, ...]:
    counts = ", ".join(f"{item.count} {item.gpu.name}" for item in scenario.inventory.items)
    mode, form = scenario.cost.mode.value, scenario.routing_form.value
    return scenario.name, scenario.model.name, scenario.workload.name, counts, mode, form
