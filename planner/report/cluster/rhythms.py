"""Rhythms of defragmentation side by side: a page, JSON and a table, and which one is worth its moves."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from planner.domain.serving.levels import Spread
from planner.domain.turnover import Rhythm, RhythmChoice
from planner.report.kit.markdown import escaped, stacked
from planner.report.kit.plots import Kind, Plot, Series, chart_of
from planner.report.kit.quantities import counted, measured, significant
from planner.report.kit.tables import Column, Table, table_of
from planner.report.kit.tree import Page, paragraphs, section


def rhythm_name(every_hours: float | None) -> str:
    """As `never` or `every 24 h`."""
    return "never" if every_hours is None else f"every {every_hours:g} h"


def _with_interval(spread: Spread) -> str:
    """As people read it; three columns of numbers are in the CSV."""
    if spread.low is None or spread.high is None:
        return significant(spread.mean)
    return f"{significant(spread.mean)} ± {significant((spread.high - spread.low) / 2, 2)}"


_SHOWN: tuple[Column[Rhythm], ...] = (
    Column("every_hours", lambda row: rhythm_name(row.every_hours), title="Rhythm"),
    Column("empty", lambda row: row.empty, _with_interval, "Whole nodes free"),
    Column("freed", lambda row: row.freed, _with_interval, "Node-hours freed a day"),
    Column("moves", lambda row: row.moves, _with_interval, "Moves a day"),
    Column("moves_per_node_hour", lambda row: row.moves_per_node_hour, significant, "Moves a node-hour"),
    Column("step", lambda row: row.step, significant, "Moves a node-hour of the step"),
)


def _ends(name: str) -> tuple[Column[Rhythm], ...]:
    def end(part: str) -> Column[Rhythm]:
        suffix = "" if part == "mean" else f"_{part}"
        return Column(f"{name}{suffix}", lambda row: getattr(getattr(row, name), part))

    return tuple(map(end, ("mean", "low", "high")))


_TABLE: tuple[Column[Rhythm], ...] = (
    Column("every_hours", lambda row: row.every_hours),
    *_ends("empty"),
    *_ends("not_full"),
    *_ends("freed"),
    Column("freed_gpu_hours", lambda row: row.freed_gpu_hours),
    *_ends("moves"),
    Column("twice_gpu_hours", lambda row: row.twice_gpu_hours),
    Column("moves_per_node_hour", lambda row: row.moves_per_node_hour),
    Column("step", lambda row: row.step),
    Column("worth", lambda row: row.worth),
)


def rhythms_csv(choice: RhythmChoice) -> bytes:
    """A row a rhythm: means over the seeds, ends of their intervals; node-hours, GPU-hours and moves are a day's."""
    return table_of(_TABLE, choice.rhythms).csv()


def rhythms_document(choice: RhythmChoice) -> dict[str, Any]:
    """All of it as JSON has it."""
    rows = [asdict(row) | {"moves_per_node_hour": row.moves_per_node_hour} for row in choice.rhythms]
    return asdict(choice) | {"rhythms": rows}


def rhythms_summary(choice: RhythmChoice) -> str:
    """The recommendation, the table and what was simulated, as Markdown."""
    return stacked([" ".join(_answer(choice)), _table(choice).markdown(), *_setting(choice)])


def _table(choice: RhythmChoice) -> Table[Rhythm]:
    return table_of(_SHOWN, choice.rhythms)


def _answer(choice: RhythmChoice) -> Iterator[str]:
    best = next(row for row in choice.rhythms if row.every_hours == choice.recommended)
    if best.every_hours is None:
        yield (
            "Recommended: never. No rhythm frees whole nodes beyond doubt and for few enough moves; more --seeds or "
            "--days may tell."
        )
        return
    yield (
        f"Recommended: {rhythm_name(best.every_hours)}. It frees {_with_interval(best.freed)} node-hours a day "
        f"({significant(best.freed_gpu_hours)} GPU-hours) for {_with_interval(best.moves)} moves, "
        f"{significant(best.moves_per_node_hour or 0.0)} a node-hour."
    )


def _setting(choice: RhythmChoice) -> Iterator[str]:
    settings = choice.settings
    if choice.tasks:
        coming = (
            f"the {choice.tasks:,} tasks given, the same with every seed; pods that lie there have what is left of "
            "lives like theirs, and that alone is what ± is about"
        )
    else:
        coming = (
            f"copies of its own pods, as many as keep it as full, which live {settings.life_hours:g} h on average: "
            "an assumption, unless you know it"
        )
    over = f"{measured(settings.days, 'day')}, {counted(len(settings.seeds), 'seed')} (± half of a 95 % interval)"
    yield (
        f"Simulated: {counted(choice.nodes, 'node')} with {choice.gpus:,} GPUs, {choice.held_percent:.0f} % held on "
        f"average under never; {over}. What comes: {coming}. The first run is after an hour; all are the heuristic's, "
        "and moves take no time."
    )
    limit = settings.most_moves_per_node_hour
    rule = (
        f"its copies of {60 * choice.overlap_hours:g} minutes hold no more GPU-hours twice than it frees"
        if limit is None
        else f"it takes {significant(limit)} moves a node-hour at most, as you set it"
    )
    yield (
        "A step counts from the last rhythm that was worth it, and is worth it where it frees more beyond doubt and "
        f"{rule}."
    )


def rhythms_page(choice: RhythmChoice) -> Page:
    """The same as a page, with what is freed over what it takes."""
    lead, *setting = [" ".join(_answer(choice)), *_setting(choice)]
    return Page(
        title=f"How often to defragment cluster {choice.cluster}",
        lead=paragraphs(escaped(lead)),
        sections=(
            section("rhythms", "Rhythms", _table(choice).block(rest_file="rhythms.csv"), chart_of(_plot(choice))),
            section("how", "How it was simulated", *paragraphs(*map(escaped, setting))),
        ),
    )


def _plot(choice: RhythmChoice) -> Plot:
    rows = choice.rhythms
    names = tuple(rhythm_name(row.every_hours) for row in rows)
    return Plot(
        name="freed",
        title="Node-hours freed a day",
        says="Means over the seeds against never, a bar a rhythm.",
        kind=Kind.BARS,
        x="rhythm",
        y="node-hours a day",
        series=(Series(name="freed", x=names, y=tuple(row.freed.mean for row in rows)),),
        rest="rhythms.csv",
    )
