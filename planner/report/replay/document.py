"""A replay as one JSON document: figures by name, intervals beside them under the same name with `_ci`."""

from dataclasses import asdict
from typing import Any

from planner.domain.replay.results import IslandUse, ReplayGroup, ReplayResult, ReplaySweep, Times
from planner.domain.serving.levels import LevelCheck, Spread
from planner.report.replay.verdict import sweep_verdict, verdict
from planner.report.replay.words import STATISTICS, TIMES, finite, spread_of, times_of


def replay_document(result: ReplayResult, sweep: ReplaySweep | None = None) -> dict[str, Any]:
    """All of a replay; the figures of all requests stand at the top, those of a bucket in `buckets`.

    Times in ms: `{p50, p90, p95, p99, mean}`, null in it where some wait has no end, or null where no request has one;
    `_ci`: 95 % interval over the seeds, `[low, high]`, or null with one seed; of a level's `share` the 99 % interval by
    its requests. `holds` is null where these are too few to tell; `requests_to_tell` a seed would (0: these do).
    `held_rps` is null without a sweep, too.
    """
    return {
        "summary": verdict(result).replace("**", ""),
        "plan": result.plan,
        "trace": result.trace,
        "policy": result.policy.value,
        "arrivals": result.arrivals,
        "rate_rps": result.rate_rps,
        "promise_rps": result.promise_rps,
        "capacity_rps": result.capacity_rps,
        "holds": result.holds,
        "standing": result.standing.value,
        "requests_to_tell": result.requests_to_tell,
        "bottleneck": result.bottleneck,
        **_group(result.total),
        "levels": [_level(level) for level in result.levels],
        "buckets": [{"start": group.start, "end": group.end, **_group(group)} for group in result.buckets],
        "islands": [_island(use) for use in result.islands],
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
    document: dict[str, Any] = {"requests": group.requests, "arrived_rps": group.rate_rps}
    document |= _spread("within_levels", group.within_levels) | _spread("goodput_rps", group.goodput_rps)
    for key in TIMES:
        document |= _times(key, times_of(group, key))
    return document | _spread("tokens_per_s_p05", group.tokens_per_s_p05) | _spread("hit_share", group.hit_share)


def _times(key: str, times: Times | None) -> dict[str, Any]:
    if times is None:
        return {key: None, f"{key}_ci": None}
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
    return {
        "name": level.name,
        "bound_ms": level.bound_ms,
        "needed": level.needed,
        **_spread("share", level.share),
        **_spread("value_ms", level.value_ms),
        "requests": level.requests,
        "part": level.part,
        "standing": None if level.standing is None else level.standing.value,
    }


def _island(use: IslandUse) -> dict[str, Any]:
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


def _sweep(sweep: ReplaySweep) -> dict[str, Any]:
    return {
        "summary": sweep_verdict(sweep).replace("**", ""),
        "held_rps": sweep.held_rps,
        "step_rps": sweep.step_rps,
        "rates": [
            {
                "rate_rps": result.rate_rps,
                "holds": result.holds,
                "standing": result.standing.value,
                "unfinished": result.unfinished,
                "misrouted": result.misrouted,
                "refused": result.refused,
                **_group(result.total),
                "levels": [_level(level) for level in result.levels],
            }
            for result in sweep.results
        ],
    }
