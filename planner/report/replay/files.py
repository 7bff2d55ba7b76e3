"""A replay as data: frames, one JSON document, all files by name.

Times in ms (empty: no end), rates in requests/s; `_low` and `_high` beside a figure, `_ci` in JSON, are its 95 %
interval over the seeds.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from planner.domain.replay import Moment, ReplayGroup, ReplayResult, ReplaySweep, Times
from planner.domain.serving.levels import LevelCheck, Spread
from planner.report.kit.markdown import page_text
from planner.report.kit.tables import Column, Frame, fields, frame_csv, of_part, record, table_of, tabled
from planner.report.replay.page import replay_page
from planner.report.replay.plots import SWEEP, replay_figure, replay_figures_of
from planner.report.replay.verdict import sweep_verdict, verdict
from planner.report.replay.words import STATISTICS, TIMES, finite, spread_of

GROUP_FACTS = ("requests", "arrived_rps=rate_rps")
GROUP_SPREADS = ("within_levels", "goodput_rps", *TIMES, "tokens_per_s_p05", "hit_share")
ISLAND_FACTS = ("island", "gpu", "phase", "servers", "requests", "rate_rps")
ISLAND_SPREADS = (
    *("utilisation", "batch", "step_tokens", "kv_share", "most_kv_share", "preempted", "wait_ms", "hit_share"),
)
RATE_FACTS = ("rate_rps", "holds", "standing", "unfinished")
"""What is told of a group of requests, of an island, of a rate of a sweep: facts, and figures over the seeds."""


def replay_frame(result: ReplayResult) -> Frame:
    """One row a group of requests: `all` first, then each bucket (`start`, `end` in tokens), then first and later turns
    where sessions are known. `found_...`: where tokens of prompts were, where there are tiers."""
    rows = [("all", result.total), *(("bucket", group) for group in result.buckets)]
    rows += [(f"{turn.turn} turns", turn.group) for turn in result.turns]
    kind: Column[tuple[str, ReplayGroup]] = Column("group", lambda row: row[0])
    places = [_found_at(number, share.place) for number, share in enumerate(result.total.found_at)]
    columns = (*fields("start", "end", *GROUP_FACTS), *_spreads(GROUP_SPREADS), *places)
    return table_of((kind, *of_part(lambda row: row[1], columns)), rows).frame()


def _found_at(number: int, place: str) -> Column[ReplayGroup]:
    return Column(f"found_{place}", lambda group: group.found_at[number].share.mean)


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
        *(column for name in names for column in of_part(_level_of(name), level, f"{name}: ")),
    )
    return table_of(columns, sweep.results).frame()


def _level_of(name: str) -> Callable[[ReplayResult], LevelCheck | None]:
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


_SETTING = (
    *("plan", "trace", "router", "arrivals", "rate_rps", "promise_rps", "capacity_rps", "holds", "standing"),
    *("requests_to_tell", "bottleneck"),
)


def replay_document(result: ReplayResult, sweep: ReplaySweep | None = None) -> dict[str, Any]:
    """All of a replay; the figures of all requests stand at the top, those of a bucket in `buckets`.

    Times in ms: `{p50, p90, p95, p99, mean}`, null in it where some wait has no end, or null where no request has one;
    `_ci`: 95 % interval over the seeds, `[low, high]`, or null with one seed; of a level's `share` the 99 % interval by
    its requests. `holds` is null where these are too few to tell; `requests_to_tell` a seed would (0: these do).
    `held_rps` is null without a sweep, too. `turns`: first turns of sessions and later ones, each with its levels,
    where the trace tells sessions; `found_at` of a group: where tokens of its prompts were, where there are tiers.
    """
    turns = [{"turn": t.turn, **_group(t.group), "levels": [_level(of) for of in t.levels]} for t in result.turns]
    return {
        "summary": verdict(result).replace("**", ""),
        **_of(result, _SETTING, ()),
        **_group(result.total),
        "levels": [_level(level) for level in result.levels],
        "buckets": [{"start": group.start, "end": group.end, **_group(group)} for group in result.buckets],
        **({"turns": turns} if turns else {}),
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
    shares = {at.place: _spread("share", at.share) for at in group.found_at}
    return {**_of(group, GROUP_FACTS, GROUP_SPREADS), **({"found_at": shares} if shares else {})}


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


def replay_files(result: ReplayResult, sweep: ReplaySweep | None = None) -> dict[str, bytes]:
    """replay.json, replay.md, groups.csv, islands.csv, moments.csv, of a sweep sweep.csv; figures as PNG and SVG."""
    from planner.report.kit.style import encoded  # noqa: PLC0415  # matplotlib takes a second to load

    titles = replay_figures_of(sweep)
    document = json.dumps(replay_document(result, sweep), indent=2, ensure_ascii=False, allow_nan=False)
    files = {
        "replay.json": f"{document}\n".encode(),
        "replay.md": page_text(
            replay_page(result, sweep), {title: f"figures/{name}.png" for name, title in titles.items()}
        ).encode(),
        "groups.csv": frame_csv(replay_frame(result)),
        "islands.csv": frame_csv(replay_islands_frame(result)),
        "moments.csv": frame_csv(replay_moments_frame(result)),
    }
    if sweep is not None:
        files[f"{SWEEP}.csv"] = frame_csv(replay_sweep_frame(sweep))
    for name in titles:
        drawn = replay_figure(result, name, sweep)
        files |= {f"figures/{name}.png": encoded(drawn), f"figures/{name}.svg": encoded(drawn, "svg")}
    return files


def replay_file_names() -> tuple[str, ...]:
    """All that a replay's folder may hold."""
    names = [*replay_figures_of(None), SWEEP]
    tables = ("groups.csv", "islands.csv", "moments.csv", f"{SWEEP}.csv")
    return (
        "replay.json",
        "replay.md",
        *tables,
        *(f"figures/{name}.{kind}" for name in names for kind in ("png", "svg")),
    )
