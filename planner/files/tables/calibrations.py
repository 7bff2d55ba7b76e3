"""Calibration files: fitted factors, each with origin and source, and the errors before and after the fit (YAML)."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from planner.domain import Calibration, CalibrationFit, Factor, JudgedFigure, MeasuredBand
from planner.domain.efficiency import BOUNDS
from planner.errors import InputError
from planner.files.disk.documents import read_yaml
from planner.files.disk.mistakes import read_all
from planner.files.disk.single_files import write_file
from planner.files.records import read_record, record_document
from planner.files.sections import Section

_HEAD = "# Efficiency factors fitted to measurements; a scenario names this file under cost.calibration.\n"


def load_calibration(path: Path) -> Calibration:
    """The calibration of a file. InputError names file, factor and key."""
    if path.suffix == ".csv":
        raise InputError(
            f"{path}: must be a calibration file (YAML), is a CSV.",
            hint="Make one of it: planner cost calibrate FILE.csv.",
        )
    return read_all(read_yaml(path), calibration_from_document)


def calibration_from_document(document: Section) -> Calibration:
    """The calibration of a document; its `measurements` are for readers, not for the planner."""
    document.allow_only("name", "factors", "bands", "measurements")
    factors = document.section("factors")
    read = tuple(_factor(factors.section(key)) for key in factors)
    if not read:
        raise document.fault("factors", "at least one factor")
    return Calibration(name=document.name("name"), factors=read, bands=_bands(document))


def _bands(document: Section) -> tuple[MeasuredBand, ...]:
    """How far measurements were off a fit without them; files of before tell nothing of it."""
    if "bands" not in document:
        return ()
    rows = document.section("bands")
    return tuple(_band(rows.section(key)) for key in rows)


def _band(section: Section) -> MeasuredBand:
    band = read_record(MeasuredBand, section)
    if band.low > band.high:
        raise section.fault("low", f"at most high, {band.high:g}")
    return band


def _factor(section: Section) -> Factor:
    return read_record(
        Factor, section, family=lambda section: section.printable("family"), value=_value, measured=_measured
    )


def _value(section: Section) -> float:
    low, high = BOUNDS[section.text("name")]
    return section.number("value", low=low, high=high)


def _measured(section: Section) -> tuple[tuple[str, str], ...]:
    """Rows of GPU type and model; files of before have none."""
    if "measured" not in section:
        return ()
    rows = section.entries("measured")
    if not all(isinstance(row, list) and len(row) == 2 and all(map(_is_word, row)) for row in rows):
        raise section.fault("measured", "a list of rows [GPU, model]")
    return tuple((row[0], row[1]) for row in rows if isinstance(row, list))


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def calibration_document(calibration: Calibration) -> dict[str, object]:
    """The mapping that reads back as `calibration`."""
    bands = {f"{band.gpu} {band.model} {band.phase}": record_document(band) for band in calibration.bands}
    return {
        "name": calibration.name,
        "factors": {f"{factor.name}.{factor.family}": record_document(factor) for factor in calibration.factors},
        **({"bands": bands} if bands else {}),
    }


def write_runs_calibration(
    calibration: Calibration,
    before: Sequence[JudgedFigure],
    after: Sequence[JudgedFigure],
    left_out: Sequence[JudgedFigure],
    path: Path,
    *,
    force: bool = False,
) -> None:
    """Write a fit to benchmark runs with every figure's errors of rates; refuses to replace a file unless `force`."""
    unseen = {(f.run.file, f.run.row, f.metric): f.rate_error for f in left_out}
    document = calibration_document(calibration)
    document["measurements"] = {
        f"{Path(new.run.file).name} row {new.run.row} {new.metric}": {
            "measurement": new.slice,
            "measured": new.measured,
            "before_error": round(old.rate_error, 4),
            "after_error": round(new.rate_error, 4),
            "left_out_error": None if key not in unseen else round(unseen[key], 4),
        }
        for old, new in zip(before, after, strict=True)
        for key in ((new.run.file, new.run.row, new.metric),)
    }
    text = _HEAD + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    write_file(path, text.encode(), force=force)


def write_calibration(fit: CalibrationFit, path: Path, *, force: bool = False) -> None:
    """Write a fit with every measurement's errors; refuses to replace a file unless `force`."""
    write_file(path, calibration_text(fit).encode(), force=force)


def calibration_text(fit: CalibrationFit) -> str:
    """The file of a fit, with every measurement's errors."""
    document = calibration_document(fit.calibration)
    document["measurements"] = {
        f"row {point.measurement.row}": {
            "measurement": point.measurement.label,
            "measured_ms": point.measurement.ms,
            "before_error": round(point.before_error, 4),
            "after_error": round(point.after_error, 4),
            "left_out_error": round(point.left_out_error, 4) if point.measurement.fitted else None,
        }
        for point in fit.points
    }
    return _HEAD + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
