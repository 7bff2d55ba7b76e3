"""The tables of a replay as a terminal shows them: fewer figures than on its page."""

from planner.domain.replay import ReplayResult, ReplaySweep, Times
from planner.report.kit.quantities import NONE, rate
from planner.report.replay.tables import LEVELS_STATE, kv_words
from planner.report.replay.words import (
    FELT,
    TIMES,
    group_name,
    groups_of,
    share,
    share_with,
    time_with,
    time_words,
    times_of,
)

TIME_COLUMNS = ("", "prompts (tokens)", "P50", "P90", "P99")
ISLAND_COLUMNS = ("island", "phase", "servers", "requests/s", "utilisation", "KV most", "wait P99")
RATE_COLUMNS = ("requests/s", "TTFT P99", "TPOT P99", "within levels", "levels")


def time_rows(result: ReplayResult) -> list[tuple[str, ...]]:
    """TTFT, TPOT and the whole request, of all and by bucket."""
    return [
        (TIMES[key], group_name(group), *_cells(times_of(group, key))) for key in FELT for group in groups_of(result)
    ]


def _cells(times: Times | None) -> tuple[str, str, str]:
    return (NONE, NONE, NONE) if times is None else (time_with(times.p50), time_with(times.p90), time_with(times.p99))


def island_rows(result: ReplayResult) -> list[tuple[str, ...]]:
    """How busy each island is, how full, how long requests wait there."""
    return [
        (
            use.island,
            use.phase.value,
            f"{use.servers} × {use.gpu}",
            rate(use.rate_rps),
            share_with(use.utilisation),
            kv_words(use, use.most_kv_share),
            NONE if use.wait_ms is None else time_words(use.wait_ms.p99),
        )
        for use in result.islands
    ]


def rate_rows(sweep: ReplaySweep) -> list[tuple[str, ...]]:
    """What each rate does."""
    return [
        (
            rate(result.rate_rps),
            NONE if result.total.ttft_ms is None else time_words(result.total.ttft_ms.p99),
            NONE if result.total.tpot_ms is None else time_words(result.total.tpot_ms.p99),
            share(result.total.within_levels.mean),
            LEVELS_STATE[result.standing],
        )
        for result in sweep.results
    ]
