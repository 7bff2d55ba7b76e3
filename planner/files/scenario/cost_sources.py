"""Where a scenario's step times come from: `source`, `calibration` and `profile` of its `cost:` section.

`calibration` and `profile` are paths relative to the scenario, or (in a plan's record) the documents themselves.
"""

from pathlib import Path

from planner.domain import Calibration, CostMode, CostSettings, CostSource, InputHash, Measurement
from planner.files.disk.documents import input_hash
from planner.files.disk.references import resolve
from planner.files.sections import Section, referred_from
from planner.files.tables.calibrations import calibration_document, calibration_from_document, load_calibration
from planner.files.tables.measurements import load_measurements, measurements_text, parse_measurements


def read_sources(section: Section, base: Path, mode: CostMode) -> tuple[CostSettings, tuple[InputHash, ...]]:
    """Settings that hold the sources of a `cost:` section alone, and the files that were read. InputError where they
    contradict each other or a file is faulty."""
    source = section.choice("source", CostSource, default=CostSource.ANALYTIC)
    calibration, calibration_inputs = _calibration(section, base)
    profile, profile_inputs = _profile(section, base)
    tabulated = source is CostSource.TABULATED
    if tabulated and not profile:
        raise section.fault("profile", "given where cost.source is tabulated", hint="Name a CSV of measurements.")
    for key in ("mtp_tokens", "redundant_experts"):
        if tabulated and not section.is_empty(key) and section.integer(key, low=0):
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
