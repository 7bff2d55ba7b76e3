"""What a model is made of, weighs and caches, and which GPUs hold it: a page by itself, and a section of its plan's."""

from collections.abc import Iterable, Iterator, Sequence

from planner.domain import ModelSpec
from planner.domain.model import WeightFormat
from planner.domain.model.fits import ModelFit
from planner.domain.model.spec import EMBEDDING_BYTES
from planner.report.kit.markdown import escaped, listed
from planner.report.kit.quantities import whole
from planner.report.kit.tree import Cell, DataTable, Page, Section, section

CONTEXTS = {"1K": 1024, "32K": 32_768, "1M": 1_048_576}
_WHOLE = (0.53125, 0.5625, 1.0)
"""Bytes of an element of one format, its scales included."""


def model_page(model: ModelSpec, fits: Sequence[ModelFit] = (), loaded_by: Iterable[str] = ()) -> Page:
    """The page of a model. `fits`: GPU types that were looked at; `loaded_by`: engine versions that load it."""
    source = [f"Read from: {escaped(model.source)}."] if model.source else []
    versions = ", ".join(map(escaped, loaded_by))
    loads = [f"Loaded by {versions}."] if versions else ["No engine version at hand loads it."] if fits else []
    where = [f"Weights are loaded from {escaped(model.uri)}." if model.uri else "Where its weights lie: not told."]
    return Page(
        title=f"Model {model.name}",
        verdict=model_verdict(model),
        sections=(
            section("layers", "Layers", layers_table(model)),
            section("weights", "Weights", weights_table(model)),
            section("cache", "Cache of a sequence, all GPUs together", cache_table(model)),
            *([section("fits", "GPUs that hold it", fits_table(fits))] if fits else ()),
            section("sources", "What was read and assumed", *listed([*source, *where, *loads, *assumptions(model)])),
        ),
    )


def model_section(model: ModelSpec) -> Section:
    """The same of a plan's model, but for GPUs: those are what the plan is about."""
    return Section(
        name="model",
        title="The model",
        blocks=(*listed([model_verdict(model), *assumptions(model)]),),
        folded=(layers_table(model), weights_table(model), cache_table(model)),
        fold="Layers, weights and cache",
    )


def model_verdict(model: ModelSpec) -> str:
    """Its size, its precision, what a token meets and caches, in two sentences."""
    grows = f"{whole(model.kv_bytes_per_token)} bytes a token"
    state = f", and {_megabytes(model.state_bytes)} MB of state that does not grow" if model.state_bytes else ""
    return (
        f"{escaped(model.name)} has {model.parameters / 1e9:,.1f} billion parameters, of which a token meets "
        f"{model.active_parameters / 1e9:,.1f}: {model.weights_gb:,.1f} GB in {precision(model)}. "
        f"A sequence caches {grows} while no window is full{state}; up to {whole(model.max_context)} tokens."
    )


def assumptions(model: ModelSpec) -> list[str]:
    """What somebody told, or what was not understood; escaped Markdown."""
    return [f"Assumed: {escaped(sentence)}" for sentence in model.assumed]


def precision(model: ModelSpec) -> str:
    """`FP8, experts MXFP4`."""
    weights = _format(model, model.weight_bytes)
    if model.experts is None or model.expert_bytes == model.weight_bytes:
        return weights
    return f"{weights}, experts {_format(model, model.expert_bytes)}"


def _format(model: ModelSpec, size: float) -> str:
    """Its format; of several that the checkpoint has, that of so many bytes."""
    if size == EMBEDDING_BYTES:
        return "BF16"
    alike = [word for word in model.weight_formats if word in WeightFormat.of((size,))] or [*model.weight_formats]
    mean = "" if size in _WHOLE else f" (mean {size:.3g} bytes)"
    return f"{' or '.join(word.upper() for word in alike) or 'mixed'}{mean}"


def layers_table(model: ModelSpec) -> DataTable:
    """A row a kind of layer."""
    rows = [
        (
            group.count,
            "none" if group.attention is None else group.attention.words,
            "none" if group.ffn is None else group.ffn.words,
        )
        for group in model.groups
    ]
    return DataTable(columns=("Layers", "Attention", "Feed-forward"), rows=tuple(rows))


def weights_table(model: ModelSpec) -> DataTable:
    """A row a part that the model has, their sum, and what one token meets."""
    parts = [(part, count, size) for part, count, size in _parts(model) if count]
    rows: list[tuple[Cell, ...]] = [
        (part, round(count / 1e9, 3), round(size, 3), round(count * size / 1e9, 1)) for part, count, size in parts
    ]
    rows.append(("all", round(model.parameters / 1e9, 3), None, round(model.weights_gb, 1)))
    rows.append(("met by a token", round(model.active_parameters / 1e9, 3), None, None))
    return DataTable(columns=("Part", "10^9", "Bytes each", "GB"), rows=tuple(rows))


def _parts(model: ModelSpec) -> Iterator[tuple[str, int, float]]:
    shared = model.expert_bytes if model.shared_bytes is None else model.shared_bytes
    yield "attention", model.attention_parameters, model.weight_bytes
    yield "dense feed-forward", model.dense_ffn_parameters, model.weight_bytes
    yield "routed experts", model.moe_layers * model.routed_experts * model.expert_parameters, model.expert_bytes
    yield "shared experts", model.moe_layers * model.shared_parameters, shared
    yield "routers", model.moe_layers * model.router_parameters, EMBEDDING_BYTES
    yield "embeddings and head", model.embedding_parameters, model.table_bytes / model.embedding_parameters
    yield "tower", model.tower_parameters, EMBEDDING_BYTES
    yield "hyper-connections", model.connection_parameters, EMBEDDING_BYTES


def cache_table(model: ModelSpec) -> DataTable:
    """Of sequences of 1K, 32K and 1M tokens, as far as its context reaches; of them the state that does not grow."""
    lengths = [(words, tokens) for words, tokens in CONTEXTS.items() if tokens <= max(model.max_context, 1024)]
    rows = tuple(
        (
            words,
            _megabytes(model.cached_bytes(tokens)),
            _megabytes(model.state_bytes),
            round(model.cached_bytes(tokens) / tokens),
        )
        for words, tokens in lengths
    )
    return DataTable(columns=("Tokens", "MB", "of it state, MB", "Bytes a token"), rows=rows)


def _megabytes(size: float) -> float:
    return round(size / 1e6, 1)


def fits_table(fits: Sequence[ModelFit]) -> DataTable:
    """A row a GPU type: the fewest GPUs, at which degrees, and how many sequences."""
    tokens = fits[0].tokens
    rows = tuple(
        (
            fit.gpu,
            fit.gpus or None,
            ", ".join(f"TP{p.tp} DP{p.dp}" + (f" PP{p.pp}" if p.pp > 1 else "") for p, _ in fit.degrees) or fit.refusal,
            max((sequences for _, sequences in fit.degrees), default=None),
        )
        for fit in fits
    )
    return DataTable(
        columns=("GPU type", "Fewest GPUs", "Degrees", f"Sequences of {whole(tokens)} tokens"),
        rows=rows,
        caption="The fewest GPUs of one copy whose memory holds the weights and one sequence, at degrees that the "
        "engine takes in decode; sequences: of the degrees that hold most.",
    )
