"""One pass over a trace: every figure that its columns allow, and why the others are missing."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from planner.errors import InputError
from planner.files.disk.csv_rows import CsvRow
from planner.studies.asi.figures.demand import Adoption, Demand, JobSizes
from planner.studies.asi.figures.distributions import CpuRatio, Fractions, RunTimes, Traffic, Utilisation
from planner.studies.asi.figures.idle import Allocation, IdleGpus, JobSlots, StandbyHours
from planner.studies.asi.figures.job_list import (
    ListedCpuRatio,
    ListedDemand,
    ListedFractions,
    ListedNodes,
    ListedPriorities,
    ListedRunTimes,
    ListedSizes,
)
from planner.studies.asi.figures.shares import GpuPriorities, GpuTypes, JobTypes, ModelTypes
from planner.studies.asi.inputs import HOURLY, AsiTrace, hours_of, open_trace, rows_of
from planner.studies.asi.records import MARK, AsiStudy, Hour, MissingFigure, Table, Tally, TraceFigure

Days = tuple[int, int]

HOURLY_FIGURES: tuple[type[Tally], ...] = (
    JobTypes,
    ModelTypes,
    GpuTypes,
    GpuPriorities,
    Demand,
    Adoption,
    RunTimes,
    JobSizes,
    Allocation,
    Fractions,
    CpuRatio,
    Utilisation,
    Traffic,
    IdleGpus,
    JobSlots,
    StandbyHours,
)
LISTED_FIGURES: tuple[type[Tally], ...] = (
    ListedNodes,
    ListedPriorities,
    ListedDemand,
    ListedRunTimes,
    ListedSizes,
    ListedFractions,
    ListedCpuRatio,
)
NO_ROWS = "no row of the trace counts for it"


def study_trace(folder: Path, days: Days | None = None) -> AsiStudy:
    """Figures 2 to 14 and 16 of a trace. `days`: first and last that count, both included (hourly tables alone).

    InputError: no table of a trace, hours that do not ascend, cells that are wrong, days without a row.
    """
    trace = open_trace(folder)
    listed = not set(trace.parts) & {Table.PODS, Table.SERVERS, Table.NETWORK, Table.RUNS}
    kinds = LISTED_FIGURES if listed else HOURLY_FIGURES
    missing = [gap for kind in kinds if (gap := _gap(kind, trace)) is not None]
    tallies = [kind() for kind in kinds if _gap(kind, trace) is None]
    if listed:
        missing += _never_listed()
    rows: Counter[Table] = Counter()
    days_seen = _pass_hours(trace, tallies, days, rows)
    for table in (Table.RUNS, Table.JOBS, Table.NODES):
        for at, row in rows_of(trace, table):
            rows[table] += 1
            _feed(tallies, table, row, at)
    if days is not None and not days_seen:
        raise InputError(f"days: must hold rows of {folder}, got {days[0]}..{days[1]}.", hint="Leave --days out.")
    figures = [tally.figure() for tally in tallies]
    missing += [
        MissingFigure(number=figure.number, title=figure.title, why=NO_ROWS) for figure in figures if not figure.points
    ]
    return AsiStudy(
        trace=folder.name,
        made_up=any(MARK in columns for columns in trace.columns.values()),
        rows=dict(rows),
        days=(min(days_seen), max(days_seen)) if days_seen else None,
        figures=tuple(figure for figure in figures if figure.points),
        missing=tuple(sorted(missing, key=lambda gap: int(gap.number))),
    )


def _gap(kind: type[Tally], trace: AsiTrace) -> MissingFigure | None:
    """Why a figure cannot be made of these columns; None: it can."""
    lacking = []
    for table, needed in kind.needs.items():
        if table not in trace.parts:
            lacking.append(f"table {table.value}")
        elif columns := [column for column in needed if column not in trace.columns[table]]:
            lacking.append(f"{table.value}: {', '.join(columns)}")
    if not lacking:
        return None
    return MissingFigure(number=kind.number, title=kind.title, why=f"the trace lacks {'; '.join(lacking)}")


def _never_listed() -> list[MissingFigure]:
    """What a list of jobs cannot show."""
    return [
        MissingFigure(number=kind.number, title=kind.title, why="a list of jobs tells nothing of it")
        for kind in (JobTypes, ModelTypes, Allocation, Utilisation, Traffic, IdleGpus, JobSlots, StandbyHours)
    ]


def _pass_hours(trace: AsiTrace, tallies: Sequence[Tally], days: Days | None, rows: Counter[Table]) -> set[int]:
    """All rows of the hourly tables, hour by hour; the days that had any."""
    feeds = {table: hours_of(trace, table) for table in HOURLY if table in trace.parts}
    heads = {table: head for table, feed in feeds.items() if (head := next(feed, None)) is not None}
    days_seen: set[int] = set()
    while heads:
        at = min((head[0] for head in heads.values()), key=lambda hour: (hour.day, hour.hour))
        inside = days is None or days[0] <= at.day <= days[1]
        for table in [table for table, head in heads.items() if head[0] == at]:
            _pass_hour(tallies, table, heads[table], rows, inside=inside)
            following = next(feeds[table], None)
            if following is None:
                del heads[table]
            else:
                heads[table] = following
        if inside:
            days_seen.add(at.day)
            for tally in tallies:
                tally.end_hour(at)
    return days_seen


def _pass_hour(
    tallies: Sequence[Tally],
    table: Table,
    head: tuple[Hour, Iterator[CsvRow]],
    rows: Counter[Table],
    *,
    inside: bool,
) -> None:
    for row in head[1]:
        if inside:
            rows[table] += 1
            _feed(tallies, table, row, head[0])


def _feed(tallies: Sequence[Tally], table: Table, row: CsvRow, at: Hour) -> None:
    for tally in tallies:
        if table in tally.needs:
            tally.add(table, row, at)


FILE_STEMS = (
    "figure_02_job_types",
    "figure_03_model_types",
    "figure_04_gpu_types",
    "figure_04_gpu_priorities",
    "figure_05_demand",
    "figure_06_adoption",
    "figure_07_run_times",
    "figure_08_job_sizes",
    "figure_09_allocation",
    "figure_10_fractions",
    "figure_10_cpu_ratio",
    "figure_11_utilisation",
    "figure_12_traffic",
    "figure_13_idle",
    "figure_14_job_slots",
    "figure_16_standby",
)
"""Every figure that any trace may give."""


def tables_of(study: AsiStudy) -> Mapping[str, TraceFigure]:
    """Every figure by the stem of its files; a figure of two halves has two."""
    return {figure.file_stem: figure for figure in study.figures}
