"""The `cost:` section of a scenario: read strictly, and written back with every key."""

from pathlib import Path

from planner.domain import CostMode, CostSettings, InputHash, ModelSpec
from planner.errors import InputError
from planner.files.scenario.cost_sources import KEYS as SOURCE_KEYS
from planner.files.scenario.cost_sources import read_sources, sources_document
from planner.files.sections import Section

_KEYS = (
    "mode",
    "kv_cache_rate",
    "max_tokens_per_step",
    "two_micro_batches",
    "balanced_experts",
    "redundant_experts",
    "mtp_tokens",
    "mtp_acceptance",
    "max_pipeline_stages",
    "gpus_per_switch",
    "cross_switch_bandwidth",
    *SOURCE_KEYS,
)


def read_cost(section: Section, base: Path, model: ModelSpec) -> tuple[CostSettings, tuple[InputHash, ...]]:
    """The settings, and the files they drew on (found from `base`). Raises InputError on what `model` cannot have."""
    section.allow_only(*_KEYS)
    default = CostSettings()
    mode = section.choice("mode", CostMode, default=default.mode)
    sources = read_sources(section, base, mode)
    settings = CostSettings(
        mode=mode,
        kv_cache_rate=section.number("kv_cache_rate", default=default.kv_cache_rate, low=0, below=1),
        max_tokens_per_step=section.integer(
            "max_tokens_per_step", default=default.max_tokens_per_step, low=1, high=10_000_000
        ),
        two_micro_batches=section.flag("two_micro_batches", default.two_micro_batches),
        balanced_experts=section.flag("balanced_experts", default.balanced_experts),
        redundant_experts=section.integer("redundant_experts", default=default.redundant_experts, low=0, high=4096),
        mtp_tokens=section.integer("mtp_tokens", default=default.mtp_tokens, low=0, high=8),
        mtp_acceptance=section.number("mtp_acceptance", default=default.mtp_acceptance, above=0, high=1),
        max_pipeline_stages=_stages(section),
        gpus_per_switch=section.integer("gpus_per_switch", default=default.gpus_per_switch, low=1, high=1_000_000),
        cross_switch_bandwidth=section.number(
            "cross_switch_bandwidth", default=default.cross_switch_bandwidth, above=0, high=1
        ),
        source=sources.source,
        calibration=sources.calibration,
        profile=sources.profile,
    )
    _require_suitable(section, settings, model)
    return settings, sources.inputs


def cost_document(settings: CostSettings) -> dict[str, object]:
    """The section that `read_cost` reads back as the same settings."""
    return {
        "mode": settings.mode.value,
        "kv_cache_rate": settings.kv_cache_rate,
        "max_tokens_per_step": settings.max_tokens_per_step,
        "two_micro_batches": settings.two_micro_batches,
        "balanced_experts": settings.balanced_experts,
        "redundant_experts": settings.redundant_experts,
        "mtp_tokens": settings.mtp_tokens,
        "mtp_acceptance": settings.mtp_acceptance,
        "max_pipeline_stages": settings.max_pipeline_stages,
        "gpus_per_switch": settings.gpus_per_switch,
        "cross_switch_bandwidth": settings.cross_switch_bandwidth,
        **sources_document(settings),
    }


def _stages(section: Section) -> int | None:
    """Null, the default, leaves the number to the model's kind."""
    key = "max_pipeline_stages"
    return None if section.is_empty(key) else section.integer(key, low=1, high=64)


def _require_suitable(section: Section, settings: CostSettings, model: ModelSpec) -> None:
    if settings.mtp_tokens and not model.mtp_layers:
        raise InputError(
            f"{section.file}: {section.key_path('mtp_tokens')} must be 0 where model.mtp_layers is 0, as in "
            f"{model.name}; came {settings.mtp_tokens}.",
            hint="Choose a model with layers for multi-token prediction, or leave the key out.",
        )
    if settings.redundant_experts and model.experts is None:
        raise InputError(
            f"{section.file}: {section.key_path('redundant_experts')} must be 0 where the model has no experts, as in "
            f"{model.name}; came {settings.redundant_experts}.",
            hint="Choose a model with experts, or leave the key out.",
        )
