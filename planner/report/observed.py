"""A running deployment beside its plan: verdict, tables, page and JSON of an observation."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from planner.domain import CalibrationFit, JudgedMeasurement
from planner.domain.serving.observed import ComparedFigure, Observation, ObservedIsland, Verdict
from planner.report.kit.markdown import escaped, listed, page_text
from planner.report.kit.quantities import NONE
from planner.report.kit.tables import Column, Frame, Table, fields, record, table_of
from planner.report.kit.tree import Block, Page, paragraphs, section

_EXACT = fields(
    *("of=subject", "phase", "figure=name", "unit", "promised", "low", "high", "measured", "ratio", "verdict", "basis"),
)
_FIGURE: tuple[Column[ComparedFigure], ...] = (
    *fields("of=subject", "figure=name"),
    Column("promised", lambda f: None if f.promised is None else f"{f.promised:.4g} {f.unit}", right=True),
    Column("may lie", lambda f: None if None in (f.low, f.high) else f"{f.low:.4g} to {f.high:.4g}", right=True),
    Column("measured", lambda f: f"{f.measured:.4g} {f.unit}", right=True),
    Column("ratio", lambda f: f.ratio, "{:.2f}".format),
    Column("", lambda f: f.verdict.value),
)


def _waiting(island: ObservedIsland) -> str:
    waiting = NONE if island.waiting is None else f"{island.waiting:.3g}"
    return waiting if island.backlog is None else f"{waiting} ({island.backlog:.0%} of the time)"


_ISLAND: tuple[Column[ObservedIsland], ...] = (
    *fields("island", "phase", "GPU=gpu"),
    Column("requests/s", lambda island: island.requests_rps, "{:.4g}".format),
    Column("share planned", lambda island: island.planned_rps, "{:.4g}".format),
    Column("busy", lambda island: island.busy, "{:.0%}".format),
    Column("waiting", _waiting, right=True),
    Column("pace", lambda island: island.pace, "{:.0%}".format),
)


def exact_figures(compared: Sequence[ComparedFigure]) -> Table[ComparedFigure]:
    """Every figure, as in observe.csv."""
    return table_of(_EXACT, compared)


def figures(compared: Sequence[ComparedFigure]) -> Table[ComparedFigure]:
    """Every figure, promised and measured, in words."""
    return table_of(_FIGURE, compared)


def islands(observation: Observation) -> Table[ObservedIsland]:
    """How each island was loaded."""
    return table_of(_ISLAND, observation.islands)


def observed_verdict(observation: Observation) -> str:
    """The observation in a sentence."""
    off = [figure for figure in observation.figures if figure.verdict is Verdict.WORSE]
    load = (
        f"{observation.rate_rps:.4g} requests/s came, {observation.rate_rps / observation.promise_rps:.0%} of the "
        f"{observation.promise_rps:.4g} that the plan promises"
        if observation.promise_rps
        else f"{observation.rate_rps:.4g} requests/s came"
    )
    if not off:
        return f"As planned: {load}; every figure with a promise keeps it or is better."
    return f"Not as planned: {load}; {len(off)} of {len(observation.figures)} figures are worse than promised."


def observation_page(observation: Observation, fit: CalibrationFit | None = None) -> Page:
    """The verdict, what to do, the figures, the islands, the factors."""
    when = f"From {_time(observation.start_s)} to {_time(observation.end_s)}, "
    busy = (
        "Busy: share of the time with running requests, where the engine tells it (of prefill servers it does not). "
        "Pace: speed of the steps over the planned one."
    )
    advice = [escaped(line) for line in observation.advice] or ["Nothing: the plan holds."]
    return Page(
        title=f"Plan {observation.plan} and what runs",
        verdict=escaped(observed_verdict(observation)),
        lead=paragraphs(f"{when}{observation.samples} samples a series at most."),
        sections=(
            section("advice", "What to do", *listed(advice)),
            section(
                "figures", "Promised and measured", figures(observation.figures).block(), *listed(_bases(observation))
            ),
            section("islands", "Islands", islands(observation).block(), *paragraphs(busy)),
            section("notes", "Notes", *listed([escaped(note) for note in observation.notes])),
            section("calibration", "Calibration", *_calibration(fit)),
        ),
    )


def _bases(observation: Observation) -> list[str]:
    return [
        f"{escaped(figure.subject)}, {escaped(figure.name)}: {escaped(figure.basis)}."
        for figure in observation.figures
        if figure.basis
    ]


_STEP: tuple[Column[JudgedMeasurement], ...] = (
    *fields("step=measurement.label"),
    Column("measured", lambda point: point.measurement.ms, "{:.4g} ms".format),
    Column("predicted throughput before", lambda point: point.before_error, "{:+.1%}".format),
    Column("after", lambda point: point.after_error, "{:+.1%}".format),
)


def _calibration(fit: CalibrationFit | None) -> tuple[Block, ...]:
    if fit is None:
        return paragraphs("No step time could be taken (see the notes), so there is no calibration file.")
    factors = [f"{f.name} ({f.family}): {f.value:.4g}; {escaped(f.provenance)}" for f in fit.calibration.factors]
    lead = "`calibration.yaml` is for `cost.calibration` of the scenario, to plan again with."
    return (*paragraphs(lead), table_of(_STEP, fit.points).block(), *listed(factors))


def _time(seconds: float) -> str:
    """UTC; the number itself where it is no date."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"


_SETTING = fields("plan", "rate_rps", "promise_rps", "capacity_rps", "start_s", "end_s", "samples")


def observation_document(observation: Observation, fit: CalibrationFit | None = None) -> dict[str, Any]:
    """All of it as JSON; None where nothing is told or promised."""
    return {
        "summary": observed_verdict(observation),
        **record(_SETTING, observation),
        "figures": [figure_document(figure) for figure in observation.figures],
        "islands": [_island(island) for island in observation.islands],
        "advice": list(observation.advice),
        "notes": list(observation.notes),
        "factors": None
        if fit is None
        else {f"{factor.name}.{factor.family}": factor.value for factor in fit.calibration.factors},
    }


def figure_document(figure: ComparedFigure) -> dict[str, Any]:
    """One figure as JSON."""
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
    return exact_figures(observation.figures).frame()


def observation_files(observation: Observation, fit: CalibrationFit | None = None) -> dict[str, bytes]:
    """observe.md, observe.csv (one row a figure) and observe.json."""
    document = json.dumps(observation_document(observation, fit), indent=2, ensure_ascii=False, allow_nan=False)
    return {
        "observe.md": page_text(observation_page(observation, fit)).encode(),
        "observe.csv": exact_figures(observation.figures).csv(),
        "observe.json": f"{document}\n".encode(),
    }


def observation_file_names() -> tuple[str, ...]:
    """Of all of these."""
    return ("observe.md", "observe.csv", "observe.json")
