"""What `planner simulate spot` answers: files, JSON, tables."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from planner.cli import screen
from planner.studies.study_folder import FIGURES_FOLDER, REPORT_FILE, SUMMARY_FILE, study_files

if TYPE_CHECKING:
    from planner.studies.spot.capacity import CurvePoint, SpotCapacity, SpotLimits
    from planner.studies.spot.means import Interval, SpotSeedRun
    from planner.studies.spot.study import SpotStudy


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotResults:
    """A study that has run. `compared`: runs at the load that policies are compared at; `points` of the curve."""

    study: "SpotStudy"
    runs: "Sequence[SpotSeedRun]"
    compared: "Sequence[SpotSeedRun]"
    baseline: str
    points: "Sequence[CurvePoint]"
    answers: "Sequence[SpotCapacity]"
    limits: "SpotLimits"

    @classmethod
    def of(
        cls,
        study: "SpotStudy",
        runs: "Sequence[SpotSeedRun]",
        baseline: str,
        load: float,
        loads: Sequence[float],
        limits: "SpotLimits",
    ) -> Self:
        """Runs sorted by use: those at `load` are compared, those at `loads` make the curve."""
        from planner.studies.spot.capacity import capacity_of, curve_of

        points = curve_of([run for run in runs if run.spot_load in loads], study.measured_h)
        return cls(
            study=study,
            runs=runs,
            compared=[run for run in runs if run.spot_load in (None, load)],
            baseline=baseline,
            points=points,
            answers=[capacity_of(points, policy.name, limits) for policy in study.policies] if points else [],
            limits=limits,
        )


def file_names() -> list[str]:
    """What `rendered` may write, figures as their folder."""
    from planner.studies.spot.tables import CURVE_FILE, SERIES_FILE, SPOT_FILE

    return [SPOT_FILE, SERIES_FILE, SUMMARY_FILE, REPORT_FILE, CURVE_FILE, f"{FIGURES_FOLDER}/allocation.png"]


def rendered(done: SpotResults, *, name: str, figures: bool) -> dict[str, bytes]:
    """Every file of the study by its path; `figures`: pictures too."""
    from planner.studies.spot.report.figures import spot_figures
    from planner.studies.spot.report.page import SpotPage, spot_page
    from planner.studies.spot.report.plots import spot_plots
    from planner.studies.spot.tables import CURVE_FILE, SERIES_FILE, SPOT_FILE, curve_csv, series_csv, spot_csv

    drawn = spot_figures(done.compared, done.baseline, points=done.points, limits=done.limits) if figures else {}
    page = SpotPage(
        runs=done.compared,
        baseline=done.baseline,
        nodes=len(done.study.nodes),
        days=done.study.days,
        warm_up_days=done.study.warm_up_days,
        name=name,
        points=done.points,
        answers=done.answers,
        limits=done.limits,
    )
    curve = {CURVE_FILE: curve_csv(done.points)} if done.points else {}
    tables = {SPOT_FILE: spot_csv(done.runs), SERIES_FILE: series_csv(done.compared), **curve}
    plots = spot_plots(done.compared, done.baseline, done.points, done.limits)
    return study_files(tables, lambda titles: spot_page(replace(page, figures=titles)), drawn, plots)


def document(done: SpotResults) -> dict[str, object]:
    """Means with their intervals, changes against the baseline, and the curve, as JSON holds them."""
    from planner.studies.spot.means import FIGURE_NAMES, change_of, mean_of
    from planner.studies.spot.report.page import answer_words, by_policies

    groups = by_policies(done.compared)
    return {
        "nodes": len(done.study.nodes),
        "gpus": sum(node.gpus for node in done.study.nodes),
        "days": done.study.days,
        "warm_up_days": done.study.warm_up_days,
        "seeds": list(done.study.seeds),
        "spot_load": done.compared[0].spot_load,
        "baseline": done.baseline,
        "policies": [
            {
                "policy": policy,
                "means": {name: _interval(mean_of(runs, name)) for name in FIGURE_NAMES},
                "change_percent": {
                    name: _interval(change_of(runs, groups[done.baseline], name)) for name in FIGURE_NAMES
                },
            }
            for policy, runs in groups.items()
        ],
        "limits": {**done.limits.upper_limits(), "least_done_percent": done.limits.least_done_percent},
        "curve": [_point(point) for point in done.points],
        "answers": [answer_words(answer, done.limits) for answer in done.answers],
    }


def _interval(interval: "Interval | None") -> dict[str, object] | None:
    return None if interval is None else {"mean": interval.mean, "half": interval.half, "seeds": interval.count}


def _point(point: "CurvePoint") -> dict[str, object]:
    return {
        "policy": point.policy,
        "spot_load": point.spot_load,
        "asked_gpus": point.asked_gpus,
        "useful_gpus": _interval(point.useful_gpus),
        **{name: _interval(value) for name, value in point.figures.items()},
    }


def show(done: SpotResults) -> None:
    """A table of means, a column a policy; changes against the baseline; what is carried."""
    from planner.report.kit.quantities import counted
    from planner.studies.spot.means import mean_of
    from planner.studies.spot.report.page import ROWS, answer_words, by_policies, change_words, figure_words

    groups = by_policies(done.compared)
    others = [policy for policy in groups if policy != done.baseline]
    rows = []
    for name, words in ROWS:
        cells = [figure_words(mean_of(runs, name), name, digits=4) for runs in groups.values()]
        rows.append((words, *cells, *(change_words(groups[policy], groups[done.baseline], name) for policy in others)))
    columns = ("", *groups, *(f"{policy} against {done.baseline}" for policy in others))
    screen.show_table(f"Spot capacity; mean of {counted(len(done.study.seeds), 'seed')}", columns, rows)
    for answer in done.answers:
        screen.show_prose(answer_words(answer, done.limits))
