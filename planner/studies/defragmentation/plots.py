"""Plots and pictures of a defragmentation study: what could be placed over the days, and the means of each rhythm."""

from collections.abc import Sequence
from dataclasses import replace

from planner.report.kit.plots import Kind, Plot, Series, series_of
from planner.studies.defragmentation.study import by_rhythm, mean_of, rhythm
from planner.studies.defragmentation.workload import ChurnRun
from planner.studies.front import Draw, sheet

HOURS_A_DAY = 24.0
_MEANS = (
    ("placeable", "Requests of 8 GPUs placeable", "requests of 8 GPUs"),
    ("not_full", "Nodes with an idle GPU", "nodes"),
    ("host_wait_h", "Wait of tasks of 8 GPUs", "wait (h)"),
    ("moves", "Moves", "moves"),
)


def churn_plots(runs: Sequence[ChurnRun]) -> tuple[Plot, ...]:
    """Over time of the first seed, then means over the seeds."""
    groups = by_rhythm(runs)
    firsts = [group[0] for group in groups.values()]
    names = tuple(rhythm(hours) for hours in groups)
    means = (
        Plot(
            name=f"mean-{name.replace('_', '-')}",
            title=title,
            says="Means over the seeds and the days that count, a bar a rhythm.",
            kind=Kind.BARS,
            x="rhythm",
            y=unit,
            series=(Series(name=title, x=names, y=tuple(mean_of(group, name) for group in groups.values())),),
            rest="runs.csv",
        )
        for name, title, unit in _MEANS
    )
    return (_placeable(firsts), *means)


def churn_pictures(runs: Sequence[ChurnRun]) -> dict[str, Draw]:
    """`placeable` over the days of the first seed, with its moves below; `rhythms`: means over the seeds."""
    placeable, *means = churn_plots(runs)
    moves = replace(
        placeable,
        title="Moves",
        y="moves",
        series=tuple(
            series_of(rhythm(hours), [(sample.hour / HOURS_A_DAY, float(sample.moves)) for sample in group[0].series])
            for hours, group in by_rhythm(runs).items()
        ),
    )
    return {
        "placeable": sheet("Defragmentation", f"over time, seed {runs[0].seed}", (placeable, moves)),
        "rhythms": sheet("Defragmentation", "rhythms", means),
    }


def _placeable(firsts: Sequence[ChurnRun]) -> Plot:
    return Plot(
        name="placeable",
        title="Requests of 8 GPUs that could be placed",
        says=f"Hour by hour, seed {firsts[0].seed}, a line a rhythm.",
        kind=Kind.STEPS,
        x="days",
        y="requests of 8 GPUs",
        series=tuple(
            series_of(
                rhythm(run.every_hours),
                [(sample.hour / HOURS_A_DAY, float(sample.placeable)) for sample in run.series],
            )
            for run in firsts
        ),
        rest="series.csv",
    )
