"""Plots of chapter 5, of the same numbers as its figures."""

from collections.abc import Callable, Iterator
from itertools import groupby

from planner.domain import PHASES
from planner.report.kit.html.plots import Kind, Plot, Series, series_of
from planner.studies.chapter5.records import IslandOutcome, Study
from planner.studies.chapter5.report.frames import TABLE
from planner.studies.chapter5.report.pages import TITLES, file_stem

TOKENS_AXIS = "input length (tokens)"


def chapter5_plots(study: Study) -> tuple[Plot, ...]:
    """One or several plots a figure that the study has; table 5.1 stands as a table."""
    return tuple(plot for name in study.figures if name != TABLE for plot in _drawing(name)(study, name))


def _drawing(name: str) -> Callable[[Study, str], Iterator[Plot]]:
    return {
        "4.8": _divisions,
        "5.1": _islands,
        "5.2": _islands,
        "5.3": _islands,
        "5.4": _lengths,
        "5.6": _times,
        "5.11": _times,
        "5.13": _tokens,
    }.get(name, _searches)


def _plot(name: str, part: str, kind: Kind, x: str, y: str, series: list[Series], says: str = "") -> Plot:
    stem = file_stem(name)
    return Plot(
        name=stem.replace("_", "-") + (f"-{_anchor(part)}" if part else ""),
        title=f"{TITLES[name]}{f', {part}' if part else ''}",
        says=says or "As in the paper, on this model.",
        kind=kind,
        x=x,
        y=y,
        series=tuple(series),
        rest=f"{stem}.csv",
    )


def _anchor(part: str) -> str:
    """Small letters, digits and hyphens."""
    words = "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in part.lower()).split()
    return "-".join(words)


def _divisions(study: Study, name: str) -> Iterator[Plot]:
    series = [
        series_of(f"skew {row.skew:g}", [(float(k), float(size)) for k, size in enumerate(row.sizes, start=1)])
        for row in study.divisions
    ]
    yield _plot(name, "", Kind.LINES, "island", "size (GPUs)", series)


def _islands(study: Study, name: str) -> Iterator[Plot]:
    """A plot a case and phase: rates of one island, its time, or the rates of all, over ranges."""
    for outcome in study.islands:
        middles = [(start + end) / 2 for start, end, _ in outcome.ranges]
        for phase in PHASES:
            rows = _island_rows(outcome, name)
            series = [
                series_of(label, list(zip(middles, values, strict=True)))
                for label, of_phase, values in rows
                if of_phase == phase.value
            ]
            kind = Kind.LINES if name == "5.1" else Kind.STACKED
            unit = "time (% of one island)" if name == "5.2" else "rate (requests/s)"
            if series:
                yield _plot(name, f"{outcome.case.label} {phase.value}", kind, TOKENS_AXIS, unit, series)


def _island_rows(outcome: IslandOutcome, name: str) -> list[tuple[str, str, list[float | None]]]:
    """Class, phase and values by range."""
    if name == "5.1":
        return [
            (f"{row.island.gpu}/{row.island.size}", row.phase.value, [rate or None for rate in row.rates_rps])
            for row in outcome.benchmarks
            if any(row.rates_rps)
        ]
    return [
        (
            f"{row.island.gpu}/{row.island.size}",
            row.phase.value,
            [100 * row.count * share for share in row.time_shares] if name == "5.2" else list(row.rates_rps),
        )
        for row in outcome.shares
    ]


def _lengths(study: Study, name: str) -> Iterator[Plot]:
    for outcome in study.islands:
        lengths = [float(length) for length in outcome.lengths]
        trace = [q * outcome.rate_rps for q in outcome.probabilities]
        series = [series_of("trace, scaled", list(zip(lengths, trace, strict=True)), tone="faint")]
        for curve in outcome.curves:
            for words, rates in (("evaluated", curve.evaluated_rps), ("model", curve.model_rps)):
                series.append(series_of(f"{curve.phase.value} {words}", list(zip(lengths, rates, strict=True))))
        yield _plot(name, outcome.case.label, Kind.LINES, TOKENS_AXIS, "rate per length (requests/s per token)", series)


def _times(study: Study, name: str) -> Iterator[Plot]:
    """CPU-seconds of a trial by batch size, from the least to the greatest of the trials."""
    series = [
        Series(
            name=outcome.experiment.name,
            x=tuple(f"{case.case.value:g}" for case in outcome.cases),
            y=tuple(case.cpu_s.mean for case in outcome.cases),
            low=tuple(case.cpu_s.low for case in outcome.cases),
            high=tuple(case.cpu_s.high for case in outcome.cases),
        )
        for outcome in study.all_of(name)
    ]
    yield _plot(name, "", Kind.BARS, "batch size (layouts per iteration)", "time of a trial (CPU-seconds)", series)


def _tokens(study: Study, name: str) -> Iterator[Plot]:
    for (trace, side), rows in groupby(study.tokens, key=lambda row: (row.trace, row.side)):
        for row in rows:
            shares = [(float(start), 100 * share) for start, share in zip(row.starts, row.shares, strict=True)]
            series = [series_of(f"{row.width} tokens a bar", shares)]
            yield _plot(name, f"{trace} {side}", Kind.BARS, f"{side} tokens", "requests (%)", series)


def _searches(study: Study, name: str) -> Iterator[Plot]:
    """The mean of the trials' best rates so far by round, from the least to the greatest, a line a value."""
    for outcome in study.all_of(name):
        series = []
        for case in outcome.cases:
            rounds = list(zip(*(trial.best_rps for trial in case.trials), strict=True))
            series.append(
                Series(
                    name=f"{case.case.value:g}",
                    x=tuple(float(at) for at in range(1, len(rounds) + 1)),
                    y=tuple(sum(best) / len(best) for best in rounds),
                    low=tuple(min(best) for best in rounds),
                    high=tuple(max(best) for best in rounds),
                )
            )
        part = outcome.experiment.name if len(study.all_of(name)) > 1 else ""
        yield _plot(name, part, Kind.LINES, "iteration", "best rate so far (requests/s)", series)
