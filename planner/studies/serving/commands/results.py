"""What `planner simulate serving` answers: files, JSON, tables."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from planner.cli import screen
from planner.studies.commands import FIGURES_FOLDER, REPORT_FILE, SUMMARY_FILE, study_files

if TYPE_CHECKING:
    from planner.studies.serving.study import ServingSeedRun, ServingStudy


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingResults:
    """A study that has run. `machine`: whose places are drawn; `records`: every request and action is written."""

    study: "ServingStudy"
    runs: "Sequence[ServingSeedRun]"
    machine: int
    records: bool


def file_names() -> list[str]:
    """What `rendered` may write, figures and records as their folders."""
    from planner.studies.serving.tables import MINUTES_FILE, RECORDS_FOLDER, SERVING_FILE

    return [
        SERVING_FILE,
        MINUTES_FILE,
        SUMMARY_FILE,
        REPORT_FILE,
        f"{FIGURES_FOLDER}/5.2_arrivals.png",
        f"{RECORDS_FOLDER}/x.csv",
    ]


def rendered(done: ServingResults, *, name: str, figures: bool) -> dict[str, bytes]:
    """Every file of the study by its path; `figures`: pictures too."""
    from planner.studies.serving.report.figures import serving_figures
    from planner.studies.serving.report.page import ServingPage, serving_page
    from planner.studies.serving.report.plots import serving_plots
    from planner.studies.serving.tables import MINUTES_FILE, SERVING_FILE, minutes_csv, record_files, serving_csv

    pool = done.study.pool
    drawn = serving_figures(done.runs, pool, machine=done.machine) if figures else {}
    page = ServingPage(runs=done.runs, pool=pool, settings=done.study.settings, name=name)
    tables = {SERVING_FILE: serving_csv(done.runs), MINUTES_FILE: minutes_csv(done.runs)}
    for run in done.runs if done.records else ():
        tables |= record_files(run, pool)
    plots = serving_plots(done.runs)
    return study_files(tables, lambda titles: serving_page(replace(page, figures=titles)), drawn, plots)


def document(done: ServingResults) -> dict[str, object]:
    """Figures of every run, means, the thesis' findings and the constants, as JSON holds them."""
    from planner.studies.serving.orderings import comparisons, means_of

    means = means_of(done.runs)
    return {
        "machines": {kind.name: kind.machines for kind in done.study.pool.types},
        "models": [model.name for model in done.study.pool.models],
        "seeds": list(done.study.seeds),
        "settings": asdict(done.study.settings),
        "scaling": asdict(done.study.pool.scaling),
        "runs": [{"policy": run.policy, "seed": run.seed, **asdict(run.figures)} for run in done.runs],
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


def show(done: ServingResults) -> None:
    """A table of means, a column a policy; then what the thesis found and whether it is so here."""
    from planner.report.kit.quantities import counted
    from planner.studies.serving.orderings import comparisons, means_of
    from planner.studies.serving.report.page import COMPARISON_HEADER, comparison_row, figure_rows, policy_titles

    title = f"Many models on one pool; mean of {counted(len(done.study.seeds), 'seed')}"
    screen.show_table(title, ("", *policy_titles(done.runs)), figure_rows(done.runs))
    rows = [comparison_row(row) for row in comparisons(means_of(done.runs))]
    if rows:
        screen.show_table("The thesis' findings", COMPARISON_HEADER, rows)
