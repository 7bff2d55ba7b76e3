"""The tables of a replay, as its report and a terminal show them."""

from collections.abc import Sequence

from planner.domain import Phase
from planner.domain.replay import IslandUse, ReplayGroup, ReplayResult, ReplaySweep, Times, TurnReplay
from planner.domain.serving.levels import LevelCheck, Spread, Standing
from planner.report.kit.quantities import NONE, percent, rate, significant, whole
from planner.report.kit.tables import Column, Table, fields, of_part, table_of
from planner.report.kit.tree import DataTable
from planner.report.replay.verdict import bound_words, is_narrow
from planner.report.replay.words import (
    FELT,
    PLACES,
    QUANTILES,
    STATIONS,
    STATISTICS,
    TIMES,
    group_name,
    groups_of,
    needed_share,
    number_with,
    share_with,
    spread_of,
    time_with,
    time_words,
    times_of,
)

_STANDING = {None: NONE, Standing.HOLDS: "yes", Standing.BREAKS: "**no**", Standing.UNTOLD: "too few to tell"}
LEVELS_STATE = {Standing.HOLDS: "hold", Standing.BREAKS: "break", Standing.UNTOLD: "too short to tell"}
"""What levels do at a rate."""


def levels_table(result: ReplayResult) -> DataTable:
    """One row a bound: who must keep it, who does, and the time at that share."""
    return table_of(_LEVEL, result.levels).block()


def _holds(level: LevelCheck) -> str:
    narrow = level.standing is Standing.HOLDS and level.needed and is_narrow(level)
    return _STANDING[level.standing] + ", narrowly" * bool(narrow)


_LEVEL: tuple[Column[LevelCheck], ...] = (
    *fields("Level=name"),
    Column("Bound", bound_words, str),
    Column("Must keep it", needed_share, str),
    Column("Keep it", lambda level: share_with(level.share), str),
    Column("Time at that share", lambda level: time_with(level.value_ms), right=True),
    Column("Holds", _holds, str, right=False),
)


def goodput_table(result: ReplayResult) -> DataTable:
    """One row a group: requests, goodput, shares."""
    return table_of(_GOODPUT, groups_of(result)).block()


_GOODPUT: tuple[Column[ReplayGroup], ...] = (
    Column("Prompts (tokens)", group_name),
    Column("Requests", lambda group: group.requests, whole),
    Column("Requests/s", lambda group: group.rate_rps, rate),
    Column("Within levels", lambda group: group.within_levels, share_with),
    Column("Goodput (requests/s)", lambda group: group.goodput_rps, number_with),
    Column("Tokens/s of 95 %", lambda group: group.tokens_per_s_p05, number_with),
    Column("From the cache", lambda group: group.hit_share.mean, percent),
)


def turns_table(result: ReplayResult) -> Table[TurnReplay]:
    """First turns of sessions and later ones: what they meet, and whether the levels hold for them."""
    return table_of(_TURNS, result.turns)


def _time_of(key: str, statistic: str) -> Column[ReplayGroup]:
    def words(group: ReplayGroup) -> Spread | None:
        times = times_of(group, key)
        return None if times is None else spread_of(times, statistic)

    return Column(f"{TIMES[key]} {statistic.upper()}", words, time_with)


_TURNS: tuple[Column[TurnReplay], ...] = (
    *fields("Turns=turn"),
    *of_part(
        lambda turn: turn.group,
        (
            Column("Requests", lambda group: group.requests, whole),
            Column("Within levels", lambda group: group.within_levels, share_with),
            *(_time_of(key, statistic) for key in ("ttft_ms", "tpot_ms") for statistic in ("p50", "p99")),
            Column("From a cache", lambda group: group.hit_share.mean, percent),
        ),
    ),
    Column("Levels", lambda turn: LEVELS_STATE[turn.standing] if turn.standing else NONE, str, right=False),
)


def found_table(result: ReplayResult) -> Table[tuple[str, ReplayGroup]]:
    """Of the tokens of groups of prompts, where they were found, or that they were computed; no rows without tiers."""
    groups = [(group_name(group), group) for group in groups_of(result)]
    groups += [(f"{turn.turn} turns", turn.group) for turn in result.turns]
    columns: tuple[Column[tuple[str, ReplayGroup]], ...] = (
        Column("Prompts (tokens)", lambda row: row[0]),
        *(_found_at(number, share.place) for number, share in enumerate(result.total.found_at)),
    )
    return table_of(columns, groups if result.total.found_at else ())


def _found_at(number: int, place: str) -> Column[tuple[str, ReplayGroup]]:
    return Column(PLACES.get(place, place), lambda row: row[1].found_at[number].share, share_with)


def latency_table(result: ReplayResult) -> Table[tuple[str, ReplayGroup]]:
    """One row a time and group: quantiles and mean, each with its interval."""
    return _times("", FELT, result)


def stations_table(result: ReplayResult) -> DataTable:
    """One row a station and group that waits there: how long."""
    table = _times("Waiting", STATIONS, result)
    return table_of(table.columns, (row for row in table.rows if times_of(row[1], row[0]) is not None)).block()


def _times(head: str, keys: Sequence[str], result: ReplayResult) -> Table[tuple[str, ReplayGroup]]:
    columns: tuple[Column[tuple[str, ReplayGroup]], ...] = (
        Column(head, lambda row: TIMES[row[0]]),
        Column("Prompts (tokens)", lambda row: group_name(row[1])),
        *of_part(lambda row: times_of(row[1], row[0]), map(_statistic, STATISTICS)),
    )
    return table_of(columns, ((key, group) for key in keys for group in groups_of(result)))


def _statistic(name: str) -> Column[Times]:
    heading = name.upper() if name in QUANTILES else name.capitalize()
    return Column(heading, lambda times: spread_of(times, name), time_with)


def islands_table(result: ReplayResult) -> Table[IslandUse]:
    """One row an island and phase: how busy, how full, how long requests wait there."""
    return table_of(_ISLAND, result.islands)


def kv_words(use: IslandUse, spread: Spread) -> str:
    """A share of the room for caches; prefill servers hand theirs over."""
    return NONE if use.phase is Phase.PREFILL else percent(spread.mean)


_ISLAND: tuple[Column[IslandUse], ...] = (
    *fields("Island=island", "Phase=phase", "GPU type=gpu"),
    Column("Servers", lambda use: use.servers, whole),
    Column("Requests/s", lambda use: use.rate_rps, rate),
    Column("Utilisation", lambda use: use.utilisation, share_with),
    Column("Batch", lambda use: use.batch.mean or None, significant),
    Column("Tokens a step", lambda use: use.step_tokens.mean or None, whole),
    Column("KV mean", lambda use: kv_words(use, use.kv_share), str),
    Column("KV most", lambda use: kv_words(use, use.most_kv_share), str),
    Column("Wait P50", lambda use: use.wait_ms and use.wait_ms.p50, time_words),
    Column("Wait P99", lambda use: use.wait_ms and use.wait_ms.p99, time_words),
    Column("Preempted per 1,000", lambda use: significant(use.preempted.mean, 2), right=True),
    Column("From the cache", lambda use: use.hit_share.mean, percent),
)


def sweep_table(sweep: ReplaySweep) -> Table[ReplayResult]:
    """One row a rate: times, share within the levels, goodput."""
    return table_of(_RATE, sweep.results)


def _late(name: str, statistic: str) -> Column[ReplayResult]:
    def spread(result: ReplayResult) -> Spread | None:
        times = times_of(result.total, f"{name.lower()}_ms")
        return None if times is None else spread_of(times, statistic)

    return Column(f"{name} {statistic.upper()}", spread, time_with)


_RATE: tuple[Column[ReplayResult], ...] = (
    Column("Requests/s", lambda result: result.rate_rps, rate),
    Column("Levels", lambda result: "falls behind" if result.unfinished else LEVELS_STATE[result.standing]),
    Column("Within levels", lambda result: result.total.within_levels, share_with),
    *(_late(name, statistic) for statistic in ("p99", "p50") for name in ("TTFT", "TPOT")),
    Column("Goodput", lambda result: result.total.goodput_rps, number_with),
)
