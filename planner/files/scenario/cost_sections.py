"""The `cost:` section of a scenario: read strictly, and written back with every key."""

from pathlib import Path

from planner.domain import CostMode, CostSettings, InputHash, ModelSpec
from planner.errors import InputError
from planner.files.records import read_record, record_document, record_keys
from planner.files.scenario.cost_sources import read_sources, sources_document
from planner.files.sections import Section


def read_cost(section: Section, base: Path, model: ModelSpec) -> tuple[CostSettings, tuple[InputHash, ...]]:
    """The settings, and the files they drew on (found from `base`). Raises InputError on what `model` cannot have."""
    section.allow_only(*record_keys(CostSettings))
    sources = read_sources(section, base, section.choice("mode", CostMode, default=CostSettings().mode))
    settings = read_record(
        CostSettings,
        section,
        source=lambda _: sources.source,
        calibration=lambda _: sources.calibration,
        profile=lambda _: sources.profile,
    )
    _require_suitable(section, settings, model)
    return settings, sources.inputs


def cost_document(settings: CostSettings) -> dict[str, object]:
    """The section that `read_cost` reads back as the same settings."""
    return record_document(settings) | sources_document(settings)


def _require_suitable(section: Section, settings: CostSettings, model: ModelSpec) -> None:
    if settings.mtp_tokens and not model.mtp_layers:
        raise InputError(
            f"{section.file}: {section.key_path('mtp_tokens')} must be 0 where model.mtp_layers is 0, as in "
            f"{model.name}, got {settings.mtp_tokens}.",
            hint="Choose a model with layers for multi-token prediction, or leave the key out.",
        )
    if settings.redundant_experts and model.experts is None:
        raise InputError(
            f"{section.file}: {section.key_path('redundant_experts')} must be 0 where the model has no experts, as in "
            f"{model.name}, got {settings.redundant_experts}.",
            hint="Choose a model with experts, or leave the key out.",
        )
