"""A replay's tables as data frames: times in ms (empty: no end), rates in requests/s.

`_low` and `_high` beside a figure are its 95 % interval over the seeds.
"""

from dataclasses import asdict

from planner.domain.replay.results import (
    IslandUse,
    Moment,
    ReplayGroup,
    ReplayResult,
    ReplaySweep,
    Times,
)
from planner.domain.serving.levels import LevelCheck, Spread
from planner.report.kit.frames import Frame, tabled
from planner.report.replay.words import STATISTICS, TIMES, finite, spread_of, times_of

ALL = "all"


def replay_frame(result: ReplayResult) -> Frame:
    """One row a group of requests: `all` first, then each bucket (`start`, `end` in tokens)."""
    return _frame([group_row(result.total, ALL), *(group_row(group, "bucket") for group in result.buckets)])


def replay_islands_frame(result: ReplayResult) -> Frame:
    """One row an island."""
    return _frame([_island_row(use) for use in result.islands])


def replay_moments_frame(result: ReplayResult) -> Frame:
    """One row a stretch of time of the first seed; `events`: what happened in it."""
    return _frame([_moment_row(moment, result) for moment in result.moments])


def _moment_row(moment: Moment, result: ReplayResult) -> dict[str, object]:
    end_s = moment.start_s + moment.seconds
    events = [text for at_s, text in result.events if moment.start_s <= at_s < end_s]
    return asdict(moment) | {"events": "; ".join(events)}


def replay_sweep_frame(sweep: ReplaySweep) -> Frame:
    """One row a rate, ascending: whether it holds, the figures of all requests, and the share that keeps each level."""
    return _frame(
        [
            {
                "rate_rps": result.rate_rps,
                "holds": result.holds,
                "standing": result.standing.value,
                "unfinished": result.unfinished,
                **_figures(result.total),
                **_levels(result.levels),
            }
            for result in sweep.results
        ]
    )


def _frame(rows: list[dict[str, object]]) -> Frame:
    return tabled(rows)


def group_row(group: ReplayGroup, kind: str) -> dict[str, object]:
    """A group's figures by column."""
    return {
        "group": kind,
        "start": group.start,
        "end": group.end,
        "requests": group.requests,
        "arrived_rps": group.rate_rps,
        **_figures(group),
    }


def _figures(group: ReplayGroup) -> dict[str, object]:
    row = _spread("within_levels", group.within_levels) | _spread("goodput_rps", group.goodput_rps)
    for key in TIMES:
        row |= _times(key, times_of(group, key))
    return row | _spread("tokens_per_s_p05", group.tokens_per_s_p05) | _spread("hit_share", group.hit_share)


def _spread(name: str, spread: Spread | None) -> dict[str, object]:
    if spread is None:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"))
    return {name: finite(spread.mean), f"{name}_low": spread.low, f"{name}_high": spread.high}


def _times(key: str, times: Times | None) -> dict[str, object]:
    row: dict[str, object] = {}
    for statistic in STATISTICS:
        row |= _spread(f"{key}_{statistic}", None if times is None else spread_of(times, statistic))
    return row


def _levels(levels: tuple[LevelCheck, ...]) -> dict[str, object]:
    row: dict[str, object] = {}
    for level in levels:
        row |= {f"{level.name}: bound_ms": level.bound_ms, f"{level.name}: needed": level.needed}
        row |= _spread(f"{level.name}: share", level.share)
    return row


def _island_row(use: IslandUse) -> dict[str, object]:
    return {
        "island": use.island,
        "gpu": use.gpu,
        "phase": use.phase.value,
        "servers": use.servers,
        "requests": use.requests,
        "rate_rps": use.rate_rps,
        **_spread("utilisation", use.utilisation),
        **_spread("batch", use.batch),
        **_spread("step_tokens", use.step_tokens),
        **_spread("kv_share", use.kv_share),
        **_spread("most_kv_share", use.most_kv_share),
        **_spread("preempted", use.preempted),
        **_times("wait_ms", use.wait_ms),
        **_spread("hit_share", use.hit_share),
    }
