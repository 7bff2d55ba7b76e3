"""Figures of a replay in words: a mean with the interval of its seeds, shares to a tenth of a percent."""

import math
from collections.abc import Callable, Iterator

from planner.domain.replay import COMPUTED, GPU_CACHE, ReplayGroup, ReplayResult, Times
from planner.domain.serving.levels import LevelCheck, Spread
from planner.report.buckets.view import span_label, time, time_span
from planner.report.kit.quantities import NONE, significant

TIMES = {
    "ttft_ms": "TTFT",
    "tpot_ms": "TPOT",
    "end_to_end_ms": "End to end",
    "queue_ms": "Before prefill",
    "transfer_ms": "KV transfer",
    "place_ms": "For a place in a batch",
}
"""Times of a group, by key, with their names on pages."""

FELT, STATIONS = ("ttft_ms", "tpot_ms", "end_to_end_ms"), ("queue_ms", "transfer_ms", "place_ms")
"""What a user feels, and where a request waits."""

QUANTILES = ("p50", "p90", "p95", "p99")
STATISTICS = (*QUANTILES, "mean")

ARRIVALS = {
    "trace": "as in the trace",
    "compressed": "the trace's own gaps at another speed",
    "poisson": "Poisson",
    "gamma": "gamma",
    "diurnal": "by a curve over the day",
}
"""Arrival processes as pages call them."""


PLACES = {GPU_CACHE: "GPU", "host": "Host", "ssd": "SSD", "remote": "Remote", COMPUTED: "Computed"}
"""Where prompts' tokens come from, as pages call it."""

MOST_BUCKETS = 8
"""On a page; the tables have all."""


def times_of(group: ReplayGroup, key: str) -> Times | None:
    """The times of that key; None where no request has one."""
    times: Times | None = getattr(group, key)
    return times


def spread_of(times: Times, statistic: str) -> Spread:
    """A quantile or the mean: one of STATISTICS."""
    spread: Spread = getattr(times, statistic)
    return spread


def finite(value: float) -> float | None:
    """The figure; None for a wait without an end."""
    return value if math.isfinite(value) else None


def interval(spread: Spread) -> tuple[float, float] | None:
    """Ends of the interval, none below 0; None where there was one seed."""
    if spread.low is None or spread.high is None:
        return None
    return max(0.0, spread.low), max(0.0, spread.high)


def share_interval(spread: Spread | None) -> tuple[float, float] | None:
    """Ends of the interval of a share, within 0 and 1; None where it has none, or is not known itself."""
    ends = None if spread is None else interval(spread)
    return None if ends is None else (min(1.0, ends[0]), min(1.0, ends[1]))


def share(value: float) -> str:
    """A share of 1 to a tenth of a percent; what would round to 0 or 100 shows as below or above."""
    if 0 < value < 0.0005:
        return "<0.1 %"
    if 0.9995 <= value < 1:
        return ">99.9 %"
    return "100 %" if value == 1 else f"{100 * value:.1f} %"


def needed_share(level: LevelCheck) -> str:
    """What must keep a bound, as it was asked for: 99 %, 99.9 %; of a bound of the mean, the mean."""
    return f"{100 * level.needed:g} %" if level.needed else "the mean"


def share_with(spread: Spread | None) -> str:
    """A share with its interval: 99.3 % (99.1–99.5 %)."""
    if spread is None:
        return NONE
    ends = share_interval(spread)
    return _with_span(share(spread.mean), None if ends is None else _span(share, ends))


def time_with(spread: Spread | None) -> str:
    """A time with its interval: 2.36 s (2.21–2.51 s)."""
    ends = None if spread is None else interval(spread)
    return _with_span(time_words(spread), None if ends is None else time_span(ends))


def time_words(spread: Spread | None) -> str:
    """A time without its interval: 2.36 s, or no end."""
    return time(None if spread is None else finite(spread.mean))


def number_with(spread: Spread, digits: int = 3) -> str:
    """Any other figure with its interval: 412 (403–421)."""

    def figure(value: float) -> str:
        return significant(value, digits)

    ends = interval(spread)
    return _with_span(figure(spread.mean), None if ends is None else _span(figure, ends))


def _with_span(figure: str, span: str | None) -> str:
    """The figure, and the interval where it says more."""
    return figure if span is None or span == figure else f"{figure} ({span})"


def _span(figure: Callable[[float], str], ends: tuple[float, float]) -> str:
    low, high = map(figure, ends)
    return low if low == high else f"{low.removesuffix(' %') if high.endswith(' %') else low}–{high}"


def group_name(group: ReplayGroup) -> str:
    """The prompts of a group (tokens): 0–2,047, or all."""
    return span_label(group.start, group.end) if group.end else "all"


def groups_of(result: ReplayResult) -> Iterator[ReplayGroup]:
    """All requests, then those of each bucket where there are several, and few enough to be read."""
    yield result.total
    if 1 < len(result.buckets) <= MOST_BUCKETS:
        yield from result.buckets


def level_key(level: LevelCheck) -> str | None:
    """Key of the time that a level bounds, by its name; None of another time."""
    name = level.name.lower()
    return next((key for key in FELT if key.removesuffix("_ms").replace("_", " ") in name.replace("_", " ")), None)


def level_quantile(level: LevelCheck) -> str:
    """The quantile of STATISTICS that lies nearest to what a level asks for; bounds of the mean ask for no share."""
    if level.needed <= 0:
        return "mean"
    return min(QUANTILES, key=lambda quantile: abs(float(quantile[1:]) / 100 - level.needed))


def ratio(rate_rps: float, other_rps: float) -> str:
    """A rate in terms of another: 0.9 times, or none where the other is 0."""
    return significant(rate_rps / other_rps, 3) if other_rps else NONE
