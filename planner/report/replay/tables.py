"""The tables of a replay's page."""

from planner.domain import Phase
from planner.domain.replay.results import IslandUse, ReplayGroup, ReplayResult, ReplaySweep, Times
from planner.domain.serving.levels import LevelCheck, Spread, Standing
from planner.report.kit.markdown import escaped, table
from planner.report.kit.quantities import NONE, percent, rate, significant, whole
from planner.report.replay.verdict import bound_words, is_narrow
from planner.report.replay.words import (
    FELT,
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


def levels_table(result: ReplayResult) -> str:
    """One row a bound: who must keep it, who does, and the time at that share."""
    header = ["Level", "Bound", "Must keep it", "Keep it", "Time at that share", "Holds"]
    return table(header, [_level_row(level) for level in result.levels], "lrrrrl")


def _level_row(level: LevelCheck) -> list[str]:
    holds = _STANDING[level.standing]
    return [
        escaped(level.name),
        bound_words(level),
        needed_share(level),
        share_with(level.share),
        time_with(level.value_ms),
        f"{holds}, narrowly" if level.standing is Standing.HOLDS and level.needed and is_narrow(level) else holds,
    ]


def goodput_table(result: ReplayResult) -> str:
    """One row a group: requests, goodput, shares."""
    header = ["Prompts (tokens)", "Requests", "Requests/s", "Within levels", "Goodput (requests/s)"]
    header += ["Tokens/s of 95 %", "From the cache"]
    rows = [
        [
            group_name(group),
            whole(group.requests),
            rate(group.rate_rps),
            share_with(group.within_levels),
            number_with(group.goodput_rps),
            NONE if group.tokens_per_s_p05 is None else number_with(group.tokens_per_s_p05),
            percent(group.hit_share.mean),
        ]
        for group in groups_of(result)
    ]
    return table(header, rows, "lrrrrrr")


def latency_table(result: ReplayResult) -> str:
    """One row a time and group: quantiles and mean, each with its interval."""
    header = ["", "Prompts (tokens)", *(_heading(statistic) for statistic in STATISTICS)]
    rows = [
        [TIMES[key], group_name(group), *_time_cells(times_of(group, key), STATISTICS)]
        for key in FELT
        for group in groups_of(result)
    ]
    return table(header, rows, "ll" + "r" * len(STATISTICS))


def stations_table(result: ReplayResult) -> str:
    """One row a station and group: how long requests wait there."""
    header = ["Waiting", "Prompts (tokens)", *(_heading(statistic) for statistic in STATISTICS)]
    rows = [
        [TIMES[key], group_name(group), *_time_cells(times_of(group, key), STATISTICS)]
        for key in STATIONS
        for group in groups_of(result)
        if times_of(group, key) is not None
    ]
    return table(header, rows, "ll" + "r" * len(STATISTICS))


def _heading(statistic: str) -> str:
    return statistic.upper() if statistic in QUANTILES else statistic.capitalize()


def _time_cells(times: Times | None, statistics: tuple[str, ...]) -> list[str]:
    if times is None:
        return [NONE] * len(statistics)
    return [time_with(spread_of(times, statistic)) for statistic in statistics]


def islands_table(result: ReplayResult) -> str:
    """One row an island and phase: how busy, how full, how long requests wait there."""
    header = ["Island", "Phase", "GPU type", "Servers", "Requests/s", "Utilisation", "Batch", "Tokens a step"]
    header += ["KV mean", "KV most", "Wait P50", "Wait P99", "Preempted per 1,000", "From the cache"]
    return table(header, [_island_row(use) for use in result.islands], "lll" + "r" * (len(header) - 3))


def kv_words(use: IslandUse, spread: Spread) -> str:
    """A share of the room for caches; prefill servers hand theirs over."""
    return NONE if use.phase is Phase.PREFILL else percent(spread.mean)


def _island_row(use: IslandUse) -> list[str]:
    waits = [NONE, NONE] if use.wait_ms is None else [time_words(use.wait_ms.p50), time_words(use.wait_ms.p99)]
    return [
        escaped(use.island),
        use.phase.value,
        escaped(use.gpu),
        whole(use.servers),
        rate(use.rate_rps),
        share_with(use.utilisation),
        significant(use.batch.mean) if use.batch.mean else NONE,
        whole(use.step_tokens.mean) if use.step_tokens.mean else NONE,
        *(kv_words(use, spread) for spread in (use.kv_share, use.most_kv_share)),
        *waits,
        significant(use.preempted.mean, 2),
        percent(use.hit_share.mean),
    ]


def sweep_table(sweep: ReplaySweep) -> str:
    """One row a rate: times, share within the levels, goodput."""
    header = ["Requests/s", "Levels", "Within levels", "TTFT P99", "TPOT P99", "TTFT P50", "TPOT P50", "Goodput"]
    return table(header, [_sweep_row(result) for result in sweep.results], "rl" + "r" * 6)


def _sweep_row(result: ReplayResult) -> list[str]:
    total: ReplayGroup = result.total
    state = "falls behind" if result.unfinished else LEVELS_STATE[result.standing]
    return [
        rate(result.rate_rps),
        state,
        share_with(total.within_levels),
        *(cell for times in (total.ttft_ms, total.tpot_ms) for cell in _time_cells(times, ("p99",))),
        *(cell for times in (total.ttft_ms, total.tpot_ms) for cell in _time_cells(times, ("p50",))),
        number_with(total.goodput_rps),
    ]
