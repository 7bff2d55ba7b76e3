"""`planner study warsaw`: readings of the Warsaw thesis, calibrated to its published figures."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.shared_options import seeds_of
from planner.studies.commands import Force, Json, Quiet

if TYPE_CHECKING:
    from planner.studies.serving.reconciled.calibration import Attempt
    from planner.studies.serving.reconciled.tables import ReadRun

CALIBRATION_FILE, READINGS_FILE, MISSES_FILE = "calibration.csv", "readings.csv", "misses.csv"
MOST_TRIALS = 1000


def command(
    trials: Annotated[
        int, typer.Option(min=0, max=MOST_TRIALS, help="Constants that are tried; 0: both readings alone.")
    ] = 48,
    seeds: Annotated[str, typer.Option(help="Seeds of arrivals and SLAs; the first one calibrates.")] = "422-426",
    scale: Annotated[float, typer.Option(min=1e-4, max=10.0, help="So many times the thesis' requests.")] = 1.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for calibration.csv, readings.csv, misses.csv.", show_default=False),
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """What the Warsaw thesis leaves open, calibrated to its published figures; its findings under both readings."""
    from planner import files
    from planner.studies.serving.reconciled.calibration import calibrate
    from planner.studies.serving.reconciled.tables import calibration_csv, misses_csv, readings_csv, run_readings

    listed = seeds_of(seeds)
    kinds = (CALIBRATION_FILE, READINGS_FILE, MISSES_FILE)
    if out is not None:  # fails before the work, not after it
        files.claim_folder(out, kinds, force=force)
    tell = screen.show_note if not quiet else lambda _: None
    attempts = (
        list(calibrate(trials, listed[0], scale=scale, listen=lambda row: tell(_attempt_words(row)))) if trials else []
    )
    runs = list(run_readings(listed, scale=scale, listen=lambda row: tell(_run_words(row))))
    tables = {READINGS_FILE: readings_csv(runs), MISSES_FILE: misses_csv(runs)}
    if trials:
        tables[CALIBRATION_FILE] = calibration_csv(attempts)
    if out is not None:
        files.write_folder(out, tables, force=force, kinds=kinds)
    rows = {name: list(csv.DictReader(io.StringIO(data.decode()))) for name, data in tables.items()}
    if json:
        screen.show_json({name.removesuffix(".csv"): listed_rows for name, listed_rows in rows.items()})
        return
    _show(rows[READINGS_FILE], attempts)
    if out is not None:
        screen.show_text(f"Written to {out}")


def _attempt_words(attempt: "Attempt") -> str:
    return f"{attempt.stage}: distance {attempt.distance:.3f}"


def _run_words(run: "ReadRun") -> str:
    seed_run = run.seed_run
    return f"{run.reading}, {seed_run.policy}, seed {seed_run.seed}: {seed_run.figures.met_percent:.2f} % in time"


def _show(readings: list[dict[str, str]], attempts: "list[Attempt]") -> None:
    from planner.studies.serving.page import number_words
    from planner.studies.serving.reconciled.calibration import constants_at, nearest_of
    from planner.studies.serving.reconciled.readings import PUBLISHED
    from planner.studies.serving.reconciled.tables import findings_by_reading, means_by_reading

    if attempts:
        nearest = nearest_of(attempts)
        constants = [(name, f"{value:g}") for name, value in constants_at(nearest.steps).items()]
        rows = [("distance", f"{nearest.distance:.3f}"), ("absence", nearest.choices.absence.value), *constants]
        screen.show_table(f"The nearest of {len(attempts)} readings", ("", "Value"), rows)
    means = means_by_reading(readings)
    figures = [
        (row.words, number_words(row.value), *(number_words(means[of][row.policy][row.figure]) for of in means))
        for row in PUBLISHED
    ]
    screen.show_table("Published figures", ("", "Published", *(of.value for of in means)), figures)
    findings = findings_by_reading(readings)
    pairs = zip(*findings.values(), strict=True)
    verdicts = [(rows[0].finding.words, *("yes" if row.holds else "no" for row in rows)) for rows in pairs]
    screen.show_table("Findings that hold", ("", *(of.value for of in findings)), verdicts)
