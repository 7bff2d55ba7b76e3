"""Plots of a serving study: completion times, deadlines missed by minute, time spent loading."""

from collections.abc import Sequence

import numpy as np

from planner.report.kit.html.plots import MOST_POINTS, Kind, Plot, Series, series_of
from planner.studies.serving.measures import by_minute
from planner.studies.serving.orderings import by_policies
from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.study import ServingSeedRun

SHORTEST_S = 1e-3
"""Completions are drawn from here on, on a logarithmic axis."""


def serving_plots(runs: Sequence[ServingSeedRun]) -> tuple[Plot, ...]:
    """Of the first seed of each policy; nothing where nothing ran."""
    firsts = [group[0] for group in by_policies(runs).values()]
    return (_completion(firsts), _misses(firsts), _loading(firsts)) if firsts else ()


def _completion(runs: Sequence[ServingSeedRun]) -> Plot:
    return Plot(
        name="completion",
        title="Completion times",
        says="The share of the requests answered within so many seconds; further left is better.",
        kind=Kind.LINES,
        x="seconds from arrival to answer",
        y="requests (%)",
        series=tuple(_distribution(run) for run in runs),
        logarithmic="x",
        rest="serving.csv as quantiles",
    )


def _distribution(run: ServingSeedRun) -> Series:
    columns = run.run.requests
    seconds = np.sort(np.maximum(columns.finish_s - columns.arrival_s, SHORTEST_S))
    places = np.unique(np.linspace(0, len(seconds) - 1, min(MOST_POINTS, len(seconds))).astype(int))
    shares = (100 * (places + 1) / max(1, len(seconds))).tolist()
    return _series(run, list(zip(seconds[places].tolist(), shares, strict=True)))


def _misses(runs: Sequence[ServingSeedRun]) -> Plot:
    arrivals = [(float(row.minute), float(row.requests)) for row in by_minute(runs[0].run.requests)]
    missed = [
        _series(run, [(float(row.minute), float(row.missed)) for row in by_minute(run.run.requests)]) for run in runs
    ]
    return Plot(
        name="misses",
        title="Deadlines missed by minute of arrival",
        says="Requests that missed their deadlines under each policy, and all that arrived.",
        kind=Kind.LINES,
        x="minute of arrival",
        y="requests",
        series=(*missed, series_of("arrivals", arrivals, tone="faint")),
        rest="minutes.csv",
    )


def _loading(runs: Sequence[ServingSeedRun]) -> Plot:
    return Plot(
        name="loading",
        title="Time that all machines spend on loading models",
        says="Loading is time in which a machine answers nothing.",
        kind=Kind.BARS,
        x="policy",
        y="loading (s)",
        series=(series_of("loading", [(POLICIES[run.policy].title, run.figures.load_s) for run in runs]),),
        rest="serving.csv",
    )


def _series(run: ServingSeedRun, points: list[tuple[float, float]]) -> Series:
    """A policy looks the same in every plot."""
    return Series(
        name=POLICIES[run.policy].title,
        x=tuple(x for x, _ in points),
        y=tuple(y for _, y in points),
        place=list(POLICIES).index(run.policy),
    )
