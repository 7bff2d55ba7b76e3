"""A replay's tables as data frames: times in ms (empty: no end), rates in requests/s.

`_low` and `_high` beside a figure are its 95 % interval over the seeds.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from planner.domain.replay import Moment, ReplayGroup, ReplayResult, ReplaySweep
from planner.domain.serving.levels import LevelCheck
from planner.report.kit.frames import Frame, tabled
from planner.report.kit.tables import Column, fields, of_part, table_of
from planner.report.replay.words import STATISTICS, TIMES, finite

GROUP_FACTS = ("requests", "arrived_rps=rate_rps")
GROUP_SPREADS = ("within_levels", "goodput_rps", *TIMES, "tokens_per_s_p05", "hit_share")
ISLAND_FACTS = ("island", "gpu", "phase", "servers", "requests", "rate_rps")
ISLAND_SPREADS = (
    *("utilisation", "batch", "step_tokens", "kv_share", "most_kv_share", "preempted", "wait_ms", "hit_share"),
)
RATE_FACTS = ("rate_rps", "holds", "standing", "unfinished")
"""What is told of a group of requests, of an island, of a rate of a sweep: facts, and figures over the seeds."""


def replay_frame(result: ReplayResult) -> Frame:
    """One row a group of requests: `all` first, then each bucket (`start`, `end` in tokens)."""
    kind: Column[ReplayGroup] = Column("group", lambda group: "bucket" if group.end else "all")
    columns = (kind, *fields("start", "end", *GROUP_FACTS), *_spreads(GROUP_SPREADS))
    return table_of(columns, (result.total, *result.buckets)).frame()


def replay_islands_frame(result: ReplayResult) -> Frame:
    """One row an island."""
    return table_of((*fields(*ISLAND_FACTS), *_spreads(ISLAND_SPREADS)), result.islands).frame()


def replay_moments_frame(result: ReplayResult) -> Frame:
    """One row a stretch of time of the first seed; `events`: what happened in it."""
    return tabled([_moment_row(moment, result) for moment in result.moments])


def _moment_row(moment: Moment, result: ReplayResult) -> dict[str, object]:
    end_s = moment.start_s + moment.seconds
    events = [text for at_s, text in result.events if moment.start_s <= at_s < end_s]
    return asdict(moment) | {"events": "; ".join(events)}


def replay_sweep_frame(sweep: ReplaySweep) -> Frame:
    """One row a rate, ascending: whether it holds, the figures of all requests, and the share that keeps each level."""
    level = (*fields("bound_ms", "needed"), *_spreads(("share",)))
    names = dict.fromkeys(level.name for result in sweep.results for level in result.levels)
    columns = (
        *fields(*RATE_FACTS),
        *of_part(lambda result: result.total, _spreads(GROUP_SPREADS)),
        *(column for name in names for column in of_part(_level(name), level, f"{name}: ")),
    )
    return table_of(columns, sweep.results).frame()


def _level(name: str) -> Callable[[ReplayResult], LevelCheck | None]:
    return lambda result: next((level for level in result.levels if level.name == name), None)


_ENDS = {"": "mean", "_low": "low", "_high": "high"}


def _spreads(names: tuple[str, ...]) -> tuple[Column[Any], ...]:
    """Three columns a figure, and those for each statistic of a time."""
    keys = [
        (f"{name}_{statistic}", f"{name}.{statistic}") if statistic else (name, name)
        for name in names
        for statistic in (STATISTICS if name.endswith("_ms") else ("",))
    ]
    return tuple(_figure(key + end, f"{path}.{part}") for key, path in keys for end, part in _ENDS.items())


def _figure(key: str, path: str) -> Column[Any]:
    return Column(key, lambda row: _at(row, path))


def _at(row: object, path: str) -> Any:
    """What stands at `a.b.c`; None where part of it is not there, or a mean has no end."""
    value: Any = row
    for name in path.split("."):
        value = getattr(value, name, None)
    return finite(value) if path.endswith("mean") and value is not None else value
