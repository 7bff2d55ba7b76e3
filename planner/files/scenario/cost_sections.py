"""The `cost:` section of a scenario: read strictly, and written back with every key."""

from pathlib import Path

from planner.domain import (
    CacheRate,
    CostMode,
    CostSettings,
    CostSource,
    InputHash,
    KvCacheRate,
    LengthProfile,
    ModelSpec,
    RangeHits,
)
from planner.files.records import read_record, record_document, record_keys
from planner.files.scenario.cost_sources import read_sources, sources_document
from planner.files.scenario.slo_sections import range_end
from planner.files.sections import Section

_RULE = "auto, a number of at least 0 and less than 1, or a list of rows {from, to, share}"


def read_cost(section: Section, base: Path, model: ModelSpec) -> tuple[CostSettings, tuple[InputHash, ...]]:
    """The settings, and the files they drew on (found from `base`). Raises InputError on what `model` cannot have."""
    section.allow_only(*record_keys(CostSettings))
    sources, inputs = read_sources(section, base, section.choice("mode", CostMode, default=CostSettings().mode))
    settings = read_record(
        CostSettings,
        section,
        kv_cache_rate=_kv_cache_rate,
        source=lambda _: sources.source,
        calibration=lambda _: sources.calibration,
        profile=lambda _: sources.profile,
    )
    _require_suitable(section, settings, model)
    return settings, inputs


def cost_document(settings: CostSettings) -> dict[str, object]:
    """The section that `read_cost` reads back as the same settings."""
    rate = settings.kv_cache_rate
    plain = [record_document(row) for row in rate] if isinstance(rate, tuple) else rate
    shown = rate.value if isinstance(rate, CacheRate) else plain
    return record_document(settings, kv_cache_rate=shown) | sources_document(settings)


def _kv_cache_rate(section: Section) -> KvCacheRate:
    """A share, shares by prompt length, or the word."""
    key = "kv_cache_rate"
    if section.holds_list(key):
        rows = tuple(read_record(RangeHits, row, end=range_end) for row in section.sections(key))
        if not rows:
            raise section.fault(key, _RULE, hint="Add a row, or write 0.")
        return rows
    if not section.holds_text(key):
        return section.number(key, default=0.0, low=0, below=1)
    if section.text(key) != CacheRate.AUTO:
        raise section.fault(key, _RULE, hint="Numbers stand without quotes.")
    return section.choice(key, CacheRate)


def require_prefix(section: Section, settings: CostSettings, workload: LengthProfile) -> None:
    """InputError where hit shares are to follow from a workload that knows nothing of them; `section` is `cost`."""
    if settings.kv_cache_rate == CacheRate.AUTO and workload.prefix is None:
        raise section.fault(
            "kv_cache_rate",
            "a number or rows by prompt length where the workload does not know how its prompts begin alike, as "
            f"{workload.name} does not",
            hint="Give a trace with hash_ids (JSON lines) or a workload file of one, or a share such as 0.3.",
        )


def _require_suitable(section: Section, settings: CostSettings, model: ModelSpec) -> None:
    by_hand = (("mode", settings.mode, CostMode.REFERENCE), ("source", settings.source, CostSource.TABULATED))
    for key, came, refused in by_hand:
        if came is refused and isinstance(settings.kv_cache_rate, tuple | CacheRate):
            raise section.fault(
                "kv_cache_rate",
                f"a number where {section.key_path(key)} is {came.value}, which knows one share for all prompts",
                hint="Give the mean share of a prompt that is cached.",
            )
    if settings.mtp_tokens and not model.mtp_layers:
        raise section.refusal(
            "mtp_tokens",
            f"must be 0 where model.mtp_layers is 0, as in {model.name}, got {settings.mtp_tokens}",
            hint="Choose a model with layers for multi-token prediction, or leave the key out.",
            by_itself=False,
        )
    if settings.redundant_experts and model.experts is None:
        raise section.refusal(
            "redundant_experts",
            f"must be 0 where the model has no experts, as in {model.name}, got {settings.redundant_experts}",
            hint="Choose a model with experts, or leave the key out.",
            by_itself=False,
        )
