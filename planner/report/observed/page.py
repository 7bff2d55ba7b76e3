"""Page, table and JSON of an observation."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from planner.domain import CalibrationFit
from planner.domain.serving.observed import ComparedFigure, Observation, ObservedIsland
from planner.report.kit.csv_tables import csv_table
from planner.report.kit.frames import Frame, tabled
from planner.report.kit.markdown import bullets, escaped, table
from planner.report.observed.rows import FIGURE_COLUMNS, ISLAND_COLUMNS, figure_rows, island_rows, observed_verdict

_CSV = ("of", "phase", "figure", "unit", "promised", "low", "high", "measured", "ratio", "verdict", "basis")


def observation_page(observation: Observation, fit: CalibrationFit | None = None) -> str:
    """Markdown: the verdict, what to do, the figures, the islands, the factors."""
    parts = [
        f"# Plan {escaped(observation.plan)} and what runs",
        escaped(observed_verdict(observation)),
        f"From {_time(observation.start_s)} to {_time(observation.end_s)}, {observation.samples} samples a series at "
        "most.",
        "## What to do",
        bullets([escaped(line) for line in observation.advice] or ["Nothing: the plan holds."]),
        "## Promised and measured",
        _table(FIGURE_COLUMNS, figure_rows(observation), "llrrrrl"),
        bullets(_bases(observation)),
        "## Islands",
        _table(ISLAND_COLUMNS, island_rows(observation), "lllrrrrr"),
        "Busy: share of the time with running requests, where the engine tells it (of prefill servers it does not). "
        "Pace: speed of the steps over the planned one.",
        *(["## Notes", bullets([escaped(note) for note in observation.notes])] if observation.notes else []),
        "## Calibration",
        _calibration(fit),
    ]
    return "\n\n".join(parts) + "\n"


def _bases(observation: Observation) -> list[str]:
    return [
        f"{escaped(figure.subject)}, {escaped(figure.name)}: {escaped(figure.basis)}."
        for figure in observation.figures
        if figure.basis
    ]


def _calibration(fit: CalibrationFit | None) -> str:
    if fit is None:
        return "No step time could be taken (see the notes), so there is no calibration file."
    rows = [
        (escaped(p.measurement.label), f"{p.measurement.ms:.4g} ms", f"{p.before_error:+.1%}", f"{p.after_error:+.1%}")
        for p in fit.points
    ]
    factors = [f"{f.name} ({f.family}): {f.value:.4g}; {escaped(f.provenance)}" for f in fit.calibration.factors]
    head = ("step", "measured", "predicted throughput before", "after")
    lead = "`calibration.yaml` is for `cost.calibration` of the scenario, to plan again with."
    return "\n\n".join((lead, table(head, rows, "lrrr"), bullets(factors)))


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]], align: str) -> str:
    return table(columns, [[escaped(cell) for cell in row] for row in rows], align)


def _time(seconds: float) -> str:
    """UTC; the number itself where it is no date."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"


def observation_document(observation: Observation, fit: CalibrationFit | None = None) -> dict[str, Any]:
    """All of it as JSON; None where nothing is told or promised."""
    return {
        "summary": observed_verdict(observation),
        "plan": observation.plan,
        "rate_rps": observation.rate_rps,
        "promise_rps": observation.promise_rps,
        "capacity_rps": observation.capacity_rps,
        "start_s": observation.start_s,
        "end_s": observation.end_s,
        "samples": observation.samples,
        "figures": [_figure(figure) for figure in observation.figures],
        "islands": [_island(island) for island in observation.islands],
        "advice": list(observation.advice),
        "notes": list(observation.notes),
        "factors": None
        if fit is None
        else {f"{factor.name}.{factor.family}": factor.value for factor in fit.calibration.factors},
    }


def _figure(figure: ComparedFigure) -> dict[str, Any]:
    phase = None if figure.phase is None else figure.phase.value
    return asdict(figure) | {"phase": phase, "verdict": figure.verdict.value, "ratio": figure.ratio}


def _island(island: ObservedIsland) -> dict[str, Any]:
    step = None
    if island.measurement is not None:
        m = island.measurement
        step = {"ms": m.ms, "predicted_ms": island.predicted_ms, "length": m.length, "batch": m.batch}
    row = asdict(island) | {"phase": island.phase.value, "pace": island.pace, "step": step}
    return {key: value for key, value in row.items() if key not in ("measurement", "predicted_ms")}


def observation_frame(observation: Observation) -> Frame:
    """One row a figure, as in observe.csv."""
    return tabled(_rows(observation), list(_CSV))


def _rows(observation: Observation) -> list[tuple[object, ...]]:
    return [
        (f.subject, f.phase, f.name, f.unit, f.promised, f.low, f.high, f.measured, f.ratio, f.verdict.value, f.basis)
        for f in observation.figures
    ]


def observation_files(observation: Observation, fit: CalibrationFit | None = None) -> dict[str, bytes]:
    """observe.md, observe.csv (one row a figure) and observe.json."""
    document = json.dumps(observation_document(observation, fit), indent=2, ensure_ascii=False, allow_nan=False)
    return {
        "observe.md": observation_page(observation, fit).encode(),
        "observe.csv": csv_table(_CSV, _rows(observation)),
        "observe.json": f"{document}\n".encode(),
    }


def observation_file_names() -> tuple[str, ...]:
    """Of all of these."""
    return ("observe.md", "observe.csv", "observe.json")
