"""What `planner simulate serving` answers: files, JSON, tables of runs, minutes and events."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from planner.cli import screen
from planner.report.kit.tables import csv_table
from planner.studies.commands import FIGURES_FOLDER, REPORT_FILE, SUMMARY_FILE, study_files
from planner.studies.serving.measures import FIGURE_NAMES, by_minute
from planner.studies.serving.records import ServingPool
from planner.studies.serving.simulation.log import ACTIONS
from planner.studies.serving.study import ServingSeedRun

if TYPE_CHECKING:
    from planner.studies.serving.study import ServingSeedRun, ServingStudy


SERVING_FILE, MINUTES_FILE, RECORDS_FOLDER = "serving.csv", "minutes.csv", "records"
_RUN = ("policy", "seed")


def file_names() -> list[str]:
    """What `rendered` may write, figures and records as their folders."""
    folders = [f"{FIGURES_FOLDER}/5.2_arrivals.png", f"{RECORDS_FOLDER}/x.csv"]
    return [SERVING_FILE, MINUTES_FILE, SUMMARY_FILE, REPORT_FILE, *folders]


def rendered(
    study: "ServingStudy", runs: "Sequence[ServingSeedRun]", *, name: str, machine: int, records: bool, figures: bool
) -> dict[str, bytes]:
    """Every file of the study by its path. `machine`: whose places are drawn; `records`: every request and action;
    `figures`: pictures too."""
    from planner.studies.serving.page import serving_page
    from planner.studies.serving.plots import serving_figures, serving_plots

    drawn = serving_figures(runs, study.pool, machine=machine) if figures else {}
    tables = {SERVING_FILE: serving_csv(runs), MINUTES_FILE: minutes_csv(runs)}
    for run in runs if records else ():
        tables |= record_files(run, study.pool)
    return study_files(
        tables,
        lambda titles: serving_page(runs, study.pool, study.settings, name=name, figures=titles),
        drawn,
        serving_plots(runs),
    )


def document(study: "ServingStudy", runs: "Sequence[ServingSeedRun]") -> dict[str, object]:
    """Figures of every run, means, the thesis' findings and the constants, as JSON holds them."""
    from planner.studies.serving.page import comparisons, means_of

    means = means_of(runs)
    return {
        "machines": {kind.name: kind.machines for kind in study.pool.types},
        "models": [model.name for model in study.pool.models],
        "seeds": list(study.seeds),
        "settings": asdict(study.settings),
        "scaling": asdict(study.pool.scaling),
        "runs": [{"policy": run.policy, "seed": run.seed, **asdict(run.figures)} for run in runs],
        "means": [{"policy": policy, **row} for policy, row in means.items()],
        "findings": [
            {
                "finding": row.finding.words,
                "published": row.finding.published,
                "figure": row.finding.figure,
                row.finding.less: row.less,
                row.finding.more: row.more,
                "holds": row.holds,
            }
            for row in comparisons(means)
        ],
    }


def show(runs: "Sequence[ServingSeedRun]") -> None:
    """A table of means, a column a policy; then what the thesis found and whether it is so here."""
    from planner.report.kit.quantities import counted
    from planner.studies.serving.page import (
        COMPARISON_HEADER,
        comparison_row,
        comparisons,
        figure_rows,
        means_of,
        policy_titles,
    )

    title = f"Many models on one pool; mean of {counted(len({run.seed for run in runs}), 'seed')}"
    screen.show_table(title, ("", *policy_titles(runs)), figure_rows(runs))
    rows = [comparison_row(row) for row in comparisons(means_of(runs))]
    if rows:
        screen.show_table("The thesis' findings", COMPARISON_HEADER, rows)


def serving_csv(runs: Iterable[ServingSeedRun]) -> bytes:
    """A row a run; the same bytes for the same seeds."""
    rows = ([run.policy, run.seed, *(getattr(run.figures, name) for name in FIGURE_NAMES)] for run in runs)
    return csv_table((*_RUN, *FIGURE_NAMES), rows)


def minutes_csv(runs: Iterable[ServingSeedRun]) -> bytes:
    """A row a minute of a run."""
    rows = (
        [run.policy, run.seed, row.minute, row.requests, row.missed]
        for run in runs
        for row in by_minute(run.run.requests)
    )
    return csv_table((*_RUN, "minute", "requests", "missed"), rows)


def record_files(run: ServingSeedRun, pool: ServingPool) -> dict[str, bytes]:
    """Every request and every action of a run, by path."""
    stem = f"{RECORDS_FOLDER}/{run.policy}-{run.seed}"
    return {f"{stem}-requests.csv": _requests_csv(run, pool), f"{stem}-actions.csv": _actions_csv(run, pool)}


def _requests_csv(run: ServingSeedRun, pool: ServingPool) -> bytes:
    columns = run.run.requests
    names = [model.name for model in pool.models]
    rows = zip(
        [names[model] for model in columns.model.tolist()],
        columns.arrival_s.tolist(),
        columns.deadline_s.tolist(),
        columns.start_s.tolist(),
        columns.finish_s.tolist(),
        columns.machine.tolist(),
        strict=True,
    )
    return csv_table(("model", "arrival_s", "deadline_s", "start_s", "finish_s", "machine"), list(rows))


def _actions_csv(run: ServingSeedRun, pool: ServingPool) -> bytes:
    columns = run.run.actions
    names = [*(model.name for model in pool.models), ""]  # -1: of no model
    rows = zip(
        columns.machine.tolist(),
        [ACTIONS[action].value for action in columns.action.tolist()],
        [names[model] for model in columns.model.tolist()],
        columns.requests.tolist(),
        columns.start_s.tolist(),
        columns.end_s.tolist(),
        columns.done.tolist(),
        strict=True,
    )
    return csv_table(("machine", "action", "model", "requests", "start_s", "end_s", "done"), list(rows))
