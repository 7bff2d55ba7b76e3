"""Plots and figures of a replay and of a sweep of rates: requests over time, islands, latency against the rate."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from planner.domain.replay import Moment, ReplayResult, ReplaySweep
from planner.domain.serving.levels import Spread
from planner.report.kit.plots import Kind, Plot, Series, held_series, require_figure
from planner.report.kit.quantities import significant
from planner.report.replay.words import TIMES, interval, level_key, level_quantile, share_interval, spread_of, times_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def edges_of(moments: tuple[Moment, ...]) -> list[float]:
    """Where moments begin, and where the last one ends (s)."""
    return [*(moment.start_s for moment in moments), moments[-1].start_s + moments[-1].seconds]


def late_shares(moments: tuple[Moment, ...]) -> list[float]:
    """Of those that arrived in a moment the share that broke a bound; 0 where none arrived."""
    return [moment.late / moment.arrived if moment.arrived else 0.0 for moment in moments]


def quantiles_of(sweep: ReplaySweep, key: str) -> tuple[str, ...]:
    """The median, and what a level asks for (P99 where none does)."""
    quantiles = [level_quantile(level) for level in sweep.results[0].levels if level_key(level) == key]
    return tuple(dict.fromkeys(("p50", quantiles[0] if quantiles else "p99")))


def points_of(results: Sequence[ReplayResult], key: str, quantile: str) -> list[tuple[float, Spread]]:
    """Rate and time of each result that has one, above 0 and with an end."""
    timed = [(result.rate_rps, times_of(result.total, key)) for result in results]
    spreads = [(rate, spread_of(times, quantile)) for rate, times in timed if times is not None]
    return [(rate, spread) for rate, spread in spreads if math.isfinite(spread.mean) and spread.mean > 0]


INTERVAL = "95 % interval of the seeds"


def replay_plots(result: ReplayResult, sweep: ReplaySweep | None = None) -> tuple[Plot, ...]:
    """Latency against the rate of a sweep, requests over time of the first seed, how busy islands are."""
    return (*(() if sweep is None else sweep_plots(sweep)), *moment_plots(result), *island_plots(result))


def sweep_plots(sweep: ReplaySweep) -> tuple[Plot, ...]:
    """TTFT, TPOT and the share within the levels against the rate; without what has no end at any rate."""
    plots = (_times(sweep, "ttft_ms"), _times(sweep, "tpot_ms"), _within(sweep))
    return tuple(plot for plot in plots if any(series.x for series in plot.series))


def moment_plots(result: ReplayResult) -> tuple[Plot, ...]:
    """Requests over time of the first seed: those that arrive, those in flight, those late where there are any."""
    moments = result.moments
    if not moments:
        return ()
    edges = edges_of(moments)
    rates = (
        held_series("arrived", edges, [moment.arrived / moment.seconds for moment in moments]),
        held_series("finished", edges, [moment.finished / moment.seconds for moment in moments]),
    )
    queues = (
        held_series("waiting for prefill", edges, [float(moment.waiting) for moment in moments]),
        held_series("answering", edges, [float(moment.answering) for moment in moments]),
    )
    lates = (held_series("late", edges, [100 * share for share in late_shares(moments)], tone="alarm"),)
    rows = (
        ("arrivals", "Requests that arrive and are finished", "requests/s", rates, "Finished keeps up with arrived."),
        (
            "in-flight",
            "Requests in flight",
            "requests",
            queues,
            "A queue that grows on is a fleet that cannot keep up.",
        ),
        (
            "late",
            "Late, of those that arrived",
            "late (%)",
            lates,
            "Requests that broke a bound, by when they arrived.",
        ),
    )
    return tuple(
        Plot(
            name=f"replay-{name}",
            title=title,
            says=f"First seed, after the warm-up. {says}",
            kind=Kind.STEPS,
            x="seconds from the first arrival",
            y=unit,
            series=series,
            marks=tuple((text, at_s) for at_s, text in result.events if edges[0] <= at_s <= edges[-1]),
            rest="moments.csv",
        )
        for name, title, unit, series, says in rows
        if name != "late" or any(late_shares(moments))
    )


def island_plots(result: ReplayResult) -> tuple[Plot, ...]:
    """How busy the islands are, and how full."""
    names = tuple(f"{use.island}: {use.servers} × {use.gpu}" for use in result.islands)
    plot = Plot(
        name="replay-islands",
        title="How busy islands are",
        says="Share of the time with a step under way, and of the room for KV caches that is taken.",
        kind=Kind.BARS,
        x="island",
        y="share (%)",
        series=(
            _bars("time with a step under way", names, [use.utilisation for use in result.islands]),
            _bars("room for KV caches, mean", names, [use.kv_share for use in result.islands]),
            _bars("room for KV caches, most", names, [use.most_kv_share for use in result.islands]),
        ),
        interval=INTERVAL,
        rest="islands.csv",
    )
    return (plot,) if result.islands else ()


def _bars(name: str, islands: tuple[str, ...], spreads: list[Spread]) -> Series:
    return _spread_series(name, list(zip(islands, spreads, strict=True)), 100.0, share_interval)


def _spread_series(
    name: str,
    points: list[tuple[str, Spread]] | list[tuple[float, Spread]],
    factor: float,
    ends_of: Callable[[Spread], tuple[float, float] | None],
) -> Series:
    """Means and their intervals, within what shares or times can be."""
    ends = [ends_of(spread) for _, spread in points]
    return Series(
        name=name,
        x=tuple(x for x, _ in points),
        y=tuple(factor * spread.mean for _, spread in points),
        low=tuple(None if pair is None else factor * pair[0] for pair in ends),
        high=tuple(None if pair is None else factor * pair[1] for pair in ends),
    )


def _times(sweep: ReplaySweep, key: str) -> Plot:
    bounds = {level.bound_ms for level in sweep.results[0].levels if level_key(level) == key and level.bound_ms}
    return Plot(
        name=f"sweep-{key.removesuffix('_ms')}",
        title=f"{TIMES[key]} against the rate",
        says="Where a line crosses its bound, the level is broken.",
        kind=Kind.LINES,
        x="rate of the whole mix (requests/s)",
        y=f"{TIMES[key]} (ms)",
        series=tuple(
            _spread_series(quantile.upper(), points_of(sweep.results, key, quantile), 1.0, interval)
            for quantile in quantiles_of(sweep, key)
        ),
        interval=INTERVAL,
        bounds=tuple((f"bound, {bound:g} ms", bound) for bound in sorted(bounds)),
        marks=_rates(sweep),
        logarithmic="y",
        rest="sweep.csv",
    )


def _within(sweep: ReplaySweep) -> Plot:
    points = [(result.rate_rps, result.total.within_levels) for result in sweep.results]
    needed = sorted({level.needed for level in sweep.results[0].levels if level.needed})
    return Plot(
        name="sweep-within",
        title="Requests within all levels",
        says="The share of the requests that keep every bound, against the rate.",
        kind=Kind.LINES,
        x="rate of the whole mix (requests/s)",
        y="requests within levels (%)",
        series=(_spread_series("within all levels", points, 100.0, share_interval),),
        from_zero=False,
        interval=INTERVAL,
        bounds=tuple((f"must: {100 * share:g} %", 100 * share) for share in needed),
        marks=_rates(sweep),
        rest="sweep.csv",
    )


def _rates(sweep: ReplaySweep) -> tuple[tuple[str, float], ...]:
    last = sweep.results[-1]
    marks = [("promise", last.promise_rps), ("capacity", last.capacity_rps)]
    highest = [] if sweep.held_rps is None else [("holds up to", sweep.held_rps)]
    return tuple(mark for mark in (*marks, *highest) if mark[1] > 0)


REPLAY_FIGURES = {
    "moments": "Requests over time: arrivals, those waiting and answering, those late",
    "islands": "How busy the islands are, and how full their KV caches",
}
"""Figures that every replay has, with their titles."""

SWEEP = "sweep"
SWEEP_TITLE = "Latency against the rate, with bounds, promise and capacity"


def replay_figures_of(sweep: ReplaySweep | None) -> dict[str, str]:
    """Names and titles of a replay's figures; that of the rates only where there is a sweep."""
    return REPLAY_FIGURES if sweep is None else {**REPLAY_FIGURES, SWEEP: SWEEP_TITLE}


def replay_figure(result: ReplayResult, name: str, sweep: ReplaySweep | None = None) -> "Figure":
    """The figure `name`, one of `replay_figures_of(sweep)`, on an Agg canvas. Raises InputError for another name."""
    names = replay_figures_of(sweep)
    require_figure(name, names, {SWEEP: "Sweep the rates, too."})
    from planner.report.kit.stills import still  # noqa: PLC0415  # matplotlib takes a second to load

    at = f"{significant(result.rate_rps)} requests/s"
    if sweep is not None and name == SWEEP:
        return still(result.plan, "what requests meet at each rate", sweep_plots(sweep), "no rate was served")
    if name == "islands":
        return still(result.plan, f"its islands at {at}", island_plots(result), "no islands")
    return still(result.plan, f"replayed at {at}, first seed", moment_plots(result), "no moments were recorded")
