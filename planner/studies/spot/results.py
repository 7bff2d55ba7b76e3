"""What `planner simulate spot` answers: files, JSON, tables."""

from collections.abc import Iterable
from dataclasses import fields as fields_of
from typing import Any

from planner.cli import screen
from planner.report.kit.quantities import counted
from planner.report.kit.tables import Column, fields, of_part, record, table_of
from planner.studies.commands import FIGURES_FOLDER, REPORT_FILE, SUMMARY_FILE, pngs_of, study_files
from planner.studies.intervals import Interval
from planner.studies.spot.capacity import CURVE_FIGURES, FIGURE_NAMES, CurvePoint, change_of, mean_of
from planner.studies.spot.page import answer_words, comparison, spot_page
from planner.studies.spot.plots import spot_pictures, spot_plots
from planner.studies.spot.records import SpotRun, SpotSample
from planner.studies.spot.study import SpotResults

SPOT_FILE, SERIES_FILE, CURVE_FILE = "spot.csv", "series.csv", "curve.csv"
FILES = (SPOT_FILE, SERIES_FILE, SUMMARY_FILE, REPORT_FILE, CURVE_FILE, f"{FIGURES_FOLDER}/allocation.png")
"""What `rendered` may write, figures as their folder."""

_RUN = fields("policy", "seed", "spot_load")
_FIGURES = fields(*FIGURE_NAMES)
_SAMPLE = fields(*(field.name for field in fields_of(SpotSample)))


def rendered(done: SpotResults, *, name: str, figures: bool) -> dict[str, bytes]:
    """Every file of the study by its path; `figures`: pictures too."""
    tables = {SPOT_FILE: spot_csv(done.runs), SERIES_FILE: series_csv(done.compared)}
    if done.points:
        tables[CURVE_FILE] = curve_csv(done.points)
    pngs = pngs_of(spot_pictures(done)) if figures else {}
    return study_files(tables, lambda titles: spot_page(done, name=name, figures=titles), pngs, spot_plots(done))


def spot_csv(runs: Iterable[SpotRun]) -> bytes:
    """A row a run; a figure that there is none of is empty, and so is the load where jobs were given."""
    return table_of((*_RUN, *of_part(lambda run: run.figures, _FIGURES)), runs).csv()


def series_csv(runs: Iterable[SpotRun]) -> bytes:
    """A row a stretch of time of a run, GPUs as means over it."""
    rows = ((run, sample) for run in runs for sample in run.series)
    return table_of((*of_part(_first, _RUN), *of_part(_second, _SAMPLE)), rows).csv()


def _first(row: tuple[Any, Any]) -> Any:
    return row[0]


def _second(row: tuple[Any, Any]) -> Any:
    return row[1]


def curve_csv(points: Iterable[CurvePoint]) -> bytes:
    """A row a policy and load: means over the seeds, and half of their 95 % intervals (empty for one seed)."""
    columns = [*_POINT, Column("seeds", _seeds)]
    for name in ("useful_gpus", *CURVE_FIGURES):
        columns += of_part(_interval_of(name), (Column(name, _mean), Column(f"{name}_half", _half)))
    return table_of(columns, points).csv()


_POINT = fields("policy", "spot_load", "asked_gpus")


def _intervals(point: CurvePoint) -> dict[str, Interval | None]:
    return {"useful_gpus": point.useful_gpus, **point.figures}


def _interval_of(name: str) -> Any:
    return lambda point: _intervals(point)[name]


def _seeds(point: CurvePoint) -> int:
    return max(interval.count if interval else 0 for interval in _intervals(point).values())


def _mean(interval: Interval) -> float:
    return interval.mean


def _half(interval: Interval) -> float | None:
    return interval.half


def document(done: SpotResults) -> dict[str, object]:
    """Means with their intervals, changes against the baseline, and the curve, as JSON holds them."""
    study, groups = done.study, done.by_policy
    base = groups[done.baseline]
    return {
        "nodes": len(study.nodes),
        "gpus": sum(node.gpus for node in study.nodes),
        "days": study.days,
        "warm_up_days": study.warm_up_days,
        "seeds": list(study.seeds),
        "spot_load": done.compared[0].spot_load,
        "baseline": done.baseline,
        "policies": [
            {
                "policy": policy,
                "means": {name: _interval(mean_of(runs, name)) for name in FIGURE_NAMES},
                "change_percent": {name: _interval(change_of(runs, base, name)) for name in FIGURE_NAMES},
            }
            for policy, runs in groups.items()
        ],
        "limits": {**done.limits.upper_limits(), "least_done_percent": done.limits.least_done_percent},
        "curve": [
            record(_POINT, point) | {name: _interval(value) for name, value in _intervals(point).items()}
            for point in done.points
        ],
        "answers": [answer_words(answer, done.limits) for answer in done.answers],
    }


def _interval(interval: Interval | None) -> dict[str, object] | None:
    return None if interval is None else {"mean": interval.mean, "half": interval.half, "seeds": interval.count}


def show(done: SpotResults) -> None:
    """A table of means, a column a policy; changes against the baseline; what is carried."""
    title = f"Spot capacity; mean of {counted(len(done.study.seeds), 'seed')}"
    screen.show_table(title, *comparison(done, digits=4).words())
    for answer in done.answers:
        screen.show_prose(answer_words(answer, done.limits))
