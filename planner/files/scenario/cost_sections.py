"""The `cost:` and `slo:` sections of a scenario, and its `network:`: read strictly, and written back with every key.

`calibration` and `profile` are paths relative to the scenario, or (in a plan's record) the documents themselves.
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from planner.domain import (
    AssignmentSettings,
    CacheRate,
    Calibration,
    CostMode,
    CostSettings,
    CostSource,
    Formulation,
    InputHash,
    KvCacheRate,
    LengthProfile,
    Measurement,
    ModelSpec,
    NetworkSettings,
    RangeHits,
    RangeSlo,
    SloSettings,
)
from planner.domain.slo import LONGEST_PROMPT
from planner.errors import InputError
from planner.files.disk.documents import input_hash
from planner.files.disk.names import canonical_keys, resolve
from planner.files.records import read_record, record_document, record_keys
from planner.files.scenario.speculation import read_speculation, require_drafted, speculation_document
from planner.files.sections import Section, referred_from
from planner.files.tables.calibrations import calibration_document, calibration_from_document, load_calibration
from planner.files.tables.measurements import load_measurements, measurements_text, parse_measurements


def read_slo(section: Section) -> SloSettings:
    """Bounds on TTFT and TPOT. InputError where a bound is no positive number or ranges are empty."""
    settings = read_record(SloSettings, section, ranges=_ranges)
    percentile = settings.percentile
    if percentile is not None and percentile < 1:  # nobody bounds the fastest hundredth
        raise section.fault(
            "percentile",
            "in percent, at least 1",
            hint=f"Did you mean {100 * percentile:g}? Write that for P{100 * percentile:g}.",
        )
    if percentile is not None and not settings.bounds_anything:
        raise section.fault("percentile", "given with a bound, ttft_ms or tpot_ms", hint="Add a bound.")
    bounds_ttft = settings.ttft_ms is not None or any(limits.ttft_ms is not None for limits in settings.ranges)
    if settings.ttft_ms_per_1k_tokens and not bounds_ttft:
        raise section.fault(
            "ttft_ms_per_1k_tokens", "given with a bound on TTFT that it adds to", hint="Add ttft_ms, or leave it out."
        )
    return settings


def _ranges(section: Section) -> tuple[RangeSlo, ...]:
    return tuple(map(_range, section.sections("ranges"))) if "ranges" in section else ()


def _range(section: Section) -> RangeSlo:
    bounds = read_record(RangeSlo, section, end=range_end)
    if bounds.ttft_ms is None and bounds.tpot_ms is None:
        raise section.fault("ttft_ms", "given, or tpot_ms, in a range of slo.ranges", hint="Add a bound.")
    return bounds


def range_end(section: Section) -> int:
    """Where a row of a list by prompt length ends: beyond its `from`, or beyond any prompt."""
    low = section.integer("from", default=0) + 1
    return section.integer("to", default=LONGEST_PROMPT, low=low, high=LONGEST_PROMPT)


def read_sources(section: Section, base: Path, mode: CostMode) -> tuple[CostSettings, tuple[InputHash, ...]]:
    """Settings that hold the sources of a `cost:` section alone, and the files that were read. InputError where they
    contradict each other or a file is faulty."""
    source = section.choice("source", CostSource, default=CostSource.ANALYTIC)
    calibration, calibration_inputs = _calibration(section, base)
    profile, profile_inputs = _profile(section, base)
    tabulated = source is CostSource.TABULATED
    if tabulated and not profile:
        raise section.fault("profile", "given where cost.source is tabulated", hint="Name a CSV of measurements.")
    if tabulated and not section.is_empty("speculation"):
        raise section.fault(
            "speculation", "left out where cost.source is tabulated: a profile does not tell its effect"
        )
    for key in ("mtp_tokens", "redundant_experts", "images_per_request"):
        if tabulated and not section.is_empty(key) and section.number(key, low=0):
            raise section.fault(key, "0 where cost.source is tabulated: a profile does not tell its effect")
    if profile and not tabulated:
        raise section.fault("source", "tabulated where cost.profile is given", hint="Add source: tabulated.")
    if mode is CostMode.REFERENCE and (tabulated or calibration):
        raise section.fault("mode", "default where cost.calibration or cost.profile is given")
    settings = CostSettings(mode=mode, source=source, calibration=calibration, profile=profile)
    return settings, calibration_inputs + profile_inputs


def sources_document(settings: CostSettings) -> dict[str, object]:
    """The keys of files that `read_sources` reads back; those that say nothing are left out."""
    document: dict[str, object] = {}
    if settings.calibration is not None:
        document["calibration"] = calibration_document(settings.calibration)
    if settings.profile:
        document["profile"] = {"csv": measurements_text(settings.profile)}
    return document


def _calibration(section: Section, base: Path) -> tuple[Calibration | None, tuple[InputHash, ...]]:
    if section.is_empty("calibration"):
        return None, ()
    if section.holds_section("calibration"):
        return calibration_from_document(section.section("calibration")), ()
    path = resolve(section.text("calibration"), base)
    with referred_from(section, "calibration"):
        return load_calibration(path), (input_hash(path),)


def _profile(section: Section, base: Path) -> tuple[tuple[Measurement, ...], tuple[InputHash, ...]]:
    if section.is_empty("profile"):
        return (), ()
    if section.holds_section("profile"):
        inner = section.section("profile")
        inner.allow_only("csv")
        return parse_measurements(inner.text("csv"), f"{section.file}: {section.key_path('profile')}"), ()
    path = resolve(section.text("profile"), base)
    with referred_from(section, "profile"):
        return load_measurements(path), (input_hash(path),)


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
        speculation=read_speculation,
    )
    _require_suitable(section, settings, model)
    return settings, inputs


def cost_document(settings: CostSettings) -> dict[str, object]:
    """The section that `read_cost` reads back as the same settings."""
    rate = settings.kv_cache_rate
    plain = [record_document(row) for row in rate] if isinstance(rate, tuple) else rate
    shown = rate.value if isinstance(rate, CacheRate) else plain
    return record_document(settings, kv_cache_rate=shown, **speculation_document(settings)) | sources_document(settings)


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
    for key, setting, refused in by_hand:
        if setting is refused and isinstance(settings.kv_cache_rate, tuple | CacheRate):
            raise section.fault(
                "kv_cache_rate",
                f"a number where {section.key_path(key)} is {setting.value}, which knows one share for all prompts",
                hint="Give the mean share of a prompt that is cached.",
            )
    require_drafted(section, settings, model)
    if settings.images_per_request and not model.tower_patches:
        raise section.refusal(
            "images_per_request",
            f"must be 0 where nothing is known of a tower that reads images, as in {model.name}, got "
            f"{settings.images_per_request:g}",
            hint="Choose a model with a vision_config in its config.json, or leave the key out.",
            by_itself=False,
        )
    if settings.redundant_experts and model.experts is None:
        raise section.refusal(
            "redundant_experts",
            f"must be 0 where the model has no experts, as in {model.name}, got {settings.redundant_experts}",
            hint="Choose a model with experts, or leave the key out.",
            by_itself=False,
        )


def read_network(document: Section, types: Collection[str]) -> NetworkSettings | None:
    """What KV transfer may take of the network; None where the section is missing or null.

    InputError where a figure is no positive number, or an uplink belongs to no GPU type of the inventory.
    """
    if document.is_empty("network"):
        return None
    section = document.section("network")
    settings = read_record(NetworkSettings, section)
    if not settings.switch_gb_s:
        return settings
    rule = "must be a GPU type of the inventory; {key} is not"
    meant = canonical_keys(section.section("uplinks_gb_s"), types, rule=rule, noun="inventory's types")
    return replace(settings, switch_gb_s=tuple(sorted((meant[gpu], rate) for gpu, rate in settings.switch_gb_s)))


def require_flows(file: str, network: NetworkSettings | None, assignment: AssignmentSettings) -> None:
    """InputError where the formulation has no KV flows to hold against the network."""
    if network is not None and assignment.formulation is not Formulation.MAX_RATE:
        raise InputError(
            f"{file}: assignment.formulation must be max_rate where network is given, "
            f"got {assignment.formulation.value}.",
            hint="Leave out network, or set assignment.formulation to max_rate.",
        )
