"""Plots of a serving study, and the thesis' figures 5.2-5.7 and 6.1-6.15 for any run, by number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.errors import InputError
from planner.report.kit.plots import MOST_POINTS, Kind, Plot, Series, series_of
from planner.studies.serving.measures import by_minute
from planner.studies.serving.page import by_policies
from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.records import ServingPool
from planner.studies.serving.study import ServingSeedRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """A figure by its number. `policies`: those it compares, all that ran where none is named."""

    number: str
    kind: str
    policies: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its file, without the ending."""
        return f"{self.number}_{self.kind}"


def _pair(first: str, second: str, policies: tuple[str, ...]) -> tuple[FigureRow, FigureRow]:
    return (
        FigureRow(number=first, kind="completion", policies=policies),
        FigureRow(number=second, kind="misses", policies=policies),
    )


SERVING_FIGURES = (
    FigureRow(number="5.2", kind="arrivals"),
    FigureRow(number="5.3", kind="models"),
    FigureRow(number="5.4", kind="completion"),
    FigureRow(number="5.5", kind="misses"),
    FigureRow(number="5.6", kind="loading"),
    FigureRow(number="5.7", kind="machine"),
    *_pair("6.1", "6.2", ("baseline", "clockwork", "rr")),
    FigureRow(number="6.3", kind="machine", policies=("rr",)),
    *_pair("6.4", "6.5", ("baseline", "rr", "rr-quantum")),
    *_pair("6.6", "6.7", ("baseline", "rr-quantum", "rr-starvation")),
    *_pair("6.8", "6.9", ("baseline", "rr-starvation", "rr-model-quantum")),
    *_pair("6.10", "6.11", ("baseline", "rr-model-quantum", "rr-deadline")),
    FigureRow(number="6.12", kind="machine", policies=("rr-deadline",)),
    FigureRow(number="6.13", kind="completion", policies=("baseline", "clockwork", "rr-deadline")),
    FigureRow(number="6.14", kind="misses"),
    FigureRow(number="6.15", kind="loading"),
)
"""Kinds: arrivals by minute, requests by model, completion (a distribution), misses by minute, loading time, and what
one machine holds and does."""


def serving_figure(number: str, runs: Sequence[ServingSeedRun], pool: ServingPool, *, machine: int = 0) -> "Figure":
    """The figure of that number, of the first seed. `machine`: whose places 5.7, 6.3 and 6.12 show.

    InputError: another number, one whose policies did not run, another machine.
    """
    from planner.report.kit import style  # matplotlib takes a second to load
    from planner.studies.serving import panels  # as above

    rows = {row.number: row for row in numbers_of(runs)}
    row = rows.get(number)
    if row is None:
        raise InputError(
            f"figure: must be one of {', '.join(rows)} for these runs, got {number!r:.40}.",
            hint="Choose one of these numbers, or run more policies.",
        )
    machines = sum(kind.machines + kind.reserve for kind in pool.types)
    if not 0 <= machine < machines:
        raise InputError(
            f"machine: must be a number from 0 to {machines - 1}, got {machine}.", hint="Choose one of these machines."
        )
    chosen = _firsts(runs, row.policies)
    with style.look():
        return panels.DRAWN[row.kind](panels.Scene(number=number, runs=chosen, pool=pool, machine=machine))


def numbers_of(runs: Sequence[ServingSeedRun]) -> tuple[FigureRow, ...]:
    """The figures whose policies all ran."""
    ran = by_policies(runs)
    return tuple(row for row in SERVING_FIGURES if ran and all(policy in ran for policy in row.policies))


def _firsts(runs: Sequence[ServingSeedRun], policies: Sequence[str]) -> list[ServingSeedRun]:
    """Each policy's first run."""
    grouped = by_policies(runs)
    return [grouped[policy][0] for policy in policies or grouped]


def serving_figures(runs: Sequence[ServingSeedRun], pool: ServingPool, *, machine: int = 0) -> dict[str, bytes]:
    """Every figure that the runs allow as a PNG, by its name."""
    from planner.report.kit import style  # matplotlib takes a second to load

    return {
        row.name: style.encoded(serving_figure(row.number, runs, pool, machine=machine)) for row in numbers_of(runs)
    }
