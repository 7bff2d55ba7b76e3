"""A replay as one JSON document: figures by name, intervals beside them under the same name with `_ci`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from planner.domain.replay import ReplayGroup, ReplayResult, ReplaySweep, Times
from planner.domain.serving.levels import LevelCheck, Spread
from planner.report.kit.tables import fields, record
from planner.report.replay.frames import GROUP_FACTS, GROUP_SPREADS, ISLAND_FACTS, ISLAND_SPREADS, RATE_FACTS
from planner.report.replay.verdict import sweep_verdict, verdict
from planner.report.replay.words import STATISTICS, finite, spread_of

_SETTING = (
    *("plan", "trace", "policy", "arrivals", "rate_rps", "promise_rps", "capacity_rps", "holds", "standing"),
    *("requests_to_tell", "bottleneck"),
)


def replay_document(result: ReplayResult, sweep: ReplaySweep | None = None) -> dict[str, Any]:
    """All of a replay; the figures of all requests stand at the top, those of a bucket in `buckets`.

    Times in ms: `{p50, p90, p95, p99, mean}`, null in it where some wait has no end, or null where no request has one;
    `_ci`: 95 % interval over the seeds, `[low, high]`, or null with one seed; of a level's `share` the 99 % interval by
    its requests. `holds` is null where these are too few to tell; `requests_to_tell` a seed would (0: these do).
    `held_rps` is null without a sweep, too.
    """
    return {
        "summary": verdict(result).replace("**", ""),
        **_of(result, _SETTING, ()),
        **_group(result.total),
        "levels": [_level(level) for level in result.levels],
        "buckets": [{"start": group.start, "end": group.end, **_group(group)} for group in result.buckets],
        "islands": [_of(use, ISLAND_FACTS, ISLAND_SPREADS) for use in result.islands],
        "held_rps": None if sweep is None else sweep.held_rps,
        "sweep": None if sweep is None else _sweep(sweep),
        "seeds": list(result.seeds),
        "warm_up_s": result.warm_up_s,
        "seconds": result.seconds,
        "unfinished": result.unfinished,
        "misrouted": result.misrouted,
        "refused": result.refused,
        "left_out": [{"reason": reason, "requests": count} for reason, count in result.left_out],
        "events": [{"at_s": at_s, "what": text} for at_s, text in result.events],
        "moments": [asdict(moment) for moment in result.moments],
        "notes": list(result.notes),
    }


def _group(group: ReplayGroup) -> dict[str, Any]:
    return _of(group, GROUP_FACTS, GROUP_SPREADS)


def _of(row: object, facts: Sequence[str], spreads: Sequence[str]) -> dict[str, Any]:
    """What is told of the row, and the interval beside each figure over the seeds."""
    document = record(fields(*facts), row)
    for name in spreads:
        figure: Spread | Times | None = getattr(row, name)
        document |= _times(name, figure) if isinstance(figure, Times) else _spread(name, figure)
    return document


def _times(key: str, times: Times) -> dict[str, Any]:
    spreads = {statistic: spread_of(times, statistic) for statistic in STATISTICS}
    intervals = {statistic: _interval(spread) for statistic, spread in spreads.items()}
    return {
        key: {statistic: finite(spread.mean) for statistic, spread in spreads.items()},
        f"{key}_ci": None if None in intervals.values() else intervals,
    }


def _spread(name: str, spread: Spread | None) -> dict[str, Any]:
    return {
        name: None if spread is None else finite(spread.mean),
        f"{name}_ci": None if spread is None else _interval(spread),
    }


def _interval(spread: Spread) -> list[float] | None:
    return None if spread.low is None or spread.high is None else [spread.low, spread.high]


def _level(level: LevelCheck) -> dict[str, Any]:
    return _of(level, ("name", "bound_ms", "needed"), ("share", "value_ms")) | _of(
        level, ("requests", "part", "standing"), ()
    )


def _sweep(sweep: ReplaySweep) -> dict[str, Any]:
    return {
        "summary": sweep_verdict(sweep).replace("**", ""),
        "held_rps": sweep.held_rps,
        "step_rps": sweep.step_rps,
        "rates": [
            _of(result, (*RATE_FACTS, "misrouted", "refused"), ())
            | _group(result.total)
            | {"levels": [_level(level) for level in result.levels]}
            for result in sweep.results
        ],
    }
