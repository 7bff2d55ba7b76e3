"""A defragmentation study as a Markdown page and as charts: rhythms side by side, IPC beside the optimum."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.domain.turnover import ChurnRun
from planner.report.cluster.rhythms import rhythm_name
from planner.report.kit.markdown import pictures, table
from planner.report.kit.plots import Kind, Plot, Series, series_of
from planner.report.kit.quantities import NONE, counted, measured, significant, whole
from planner.studies.defragmentation.study import by_rhythm, mean_of
from planner.studies.defragmentation.workload import DefragmentationStudy, ExactComparison
from planner.studies.front import Draw, sheet

ROWS = (
    ("held_percent", "GPUs held, %"),
    ("not_full", "Nodes with an idle GPU"),
    ("empty", "Empty nodes"),
    ("placeable", "Requests of 8 GPUs that could be placed"),
    ("waiting_gpus", "GPUs of waiting tasks"),
    ("host_wait_h", "Wait of tasks of 8 GPUs, h"),
    ("other_wait_h", "Wait of the others, h"),
    ("runs", "Defragmentations"),
    ("reduction_percent", "Nodes with an idle GPU, fewer by one run, %"),
    ("vacated", "Nodes vacated"),
    ("moves", "Moves"),
    ("moved_gpus", "GPUs of all moves"),
    ("moves_per_node", "Moves a vacated node"),
)


def churn_page(
    study: DefragmentationStudy,
    runs: Sequence[ChurnRun],
    exact: Sequence[ExactComparison] = (),
    figures: Mapping[str, str] | None = None,
) -> str:
    """The study as Markdown, ending in a newline."""
    workload = study.workload
    setting = (
        f"{counted(workload.nodes, 'node')} of 8 GPUs, tasks that ask for {100 * workload.load:g} % of them and live "
        f"{workload.life_hours:g} h on average; {measured(workload.days, 'day')}, the first {workload.warm_up_days:g} "
        f"not counted; means over {counted(len(study.seeds), 'seed')}."
    )
    parts = [
        "# Defragmentation of a churned cluster",
        setting,
        f"## Rhythms\n\n{rhythms_table(runs)}",
        *([f"## Beside the exact optimum\n\n{exact_words(exact)}\n\n{exact_table(exact)}"] if exact else []),
        *pictures(figures or {}),
    ]
    return "\n\n".join(parts) + "\n"


def rhythms_table(runs: Sequence[ChurnRun]) -> str:
    """A column a rhythm."""
    groups = by_rhythm(runs)
    rows = [[words, *(_cell(mean_of(group, name)) for group in groups.values())] for name, words in ROWS]
    return table(["", *map(rhythm_name, groups)], rows, "l" + "r" * len(groups))


def _cell(value: float | None) -> str:
    if value is None:
        return NONE
    return whole(value) if value >= 1000 or value == round(value) else significant(value)


def exact_words(rows: Sequence[ExactComparison]) -> str:
    """How often IPC reaches the optimum, and by how much it misses it at most."""
    equal, worst = sum(row.excess == 0 for row in rows), max(row.excess for row in rows)
    unproven = sum(not row.proven for row in rows)
    open_words = f" {counted(unproven, 'optimum')} not proven in time." if unproven else ""
    return (
        f"Of {counted(len(rows), 'churned cluster')} of {counted(rows[0].nodes, 'node')} IPC leaves as few nodes in "
        f"use as the optimum on {equal}; at most {worst} more.{open_words}"
    )


def exact_table(rows: Sequence[ExactComparison]) -> str:
    """A row a cluster."""
    header = ["Seed", "Nodes in use", "after IPC", "optimum", "Moves of IPC", "Fewest moves"]
    cells = [
        [
            str(row.seed),
            *(whole(value) for value in (row.in_use, row.ipc_in_use, row.exact_in_use, row.ipc_moves)),
            NONE if row.exact_moves is None else whole(row.exact_moves),
        ]
        for row in rows
    ]
    return table(header, cells, "r" * 6)


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
    names = tuple(rhythm_name(hours) for hours in groups)
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
            series_of(
                rhythm_name(hours), [(sample.hour / HOURS_A_DAY, float(sample.moves)) for sample in group[0].series]
            )
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
                rhythm_name(run.every_hours),
                [(sample.hour / HOURS_A_DAY, float(sample.placeable)) for sample in run.series],
            )
            for run in firsts
        ),
        rest="series.csv",
    )
