"""Plots of chapter 5, of the same numbers as its figures, and the study as files."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from planner.domain import PHASES
from planner.errors import InputError
from planner.report.kit.plots import Kind, Plot, Series, series_of
from planner.report.kit.tables import Frame, frame_csv
from planner.studies.chapter5.records import IslandOutcome, Study
from planner.studies.chapter5.report.frames import TABLE, findings_frame, rounds_frame, study_frame
from planner.studies.chapter5.report.page import study_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINDINGS_FILE, ROUNDS_FILE = "findings.csv", "rounds.csv"

TITLES = {
    "4.8": "Figure 4.8: island sizes by skew",
    "5.1": "Figure 5.1: what an island of each class can do",
    "5.2": "Figure 5.2: islands' time on each range",
    "5.3": "Figure 5.3: throughput per range",
    "5.4": "Figure 5.4: throughput per sequence length",
    "5.5": "Figure 5.5: batch size, divider",
    "5.6": "Figure 5.6: execution time by batch size, divider",
    "5.7": "Figure 5.7: skew range, divider",
    "5.8": "Figure 5.8: least island size, divider",
    "5.9": "Figure 5.9: batch size, direct, SAASBO",
    "5.10": "Figure 5.10: batch size, direct, BO",
    "5.11": "Figure 5.11: execution time by batch size, direct",
    "5.12": "Figure 5.12: slots per GPU type, direct, SAASBO",
    "5.13": "Figure 5.13: tokens of the requests",
}


def render_study(study: Study) -> dict[str, bytes]:
    """`study.md`, a CSV a figure and for table 5.1, each figure as PNG and SVG; all rounds, all findings as CSV."""
    from planner.report.kit.style import encoded  # matplotlib takes a second to load

    pages = {"study.md": study_page(study).encode()}
    if study.findings:
        pages[FINDINGS_FILE] = _csv(findings_frame(study))
    if study.experiments:
        pages[ROUNDS_FILE] = _csv(rounds_frame(study))
    for name in study.figures:
        stem = file_stem(name)
        pages[f"{stem}.csv"] = _csv(study_frame(study, name))
        if name != TABLE:
            drawn = study_figure(study, name)
            pages |= {f"{stem}.png": encoded(drawn), f"{stem}.svg": encoded(drawn, "svg")}
    return pages


def _csv(frame: Frame) -> bytes:
    """Nine digits: the rest is the solver's."""
    return frame_csv(frame, float_format="%.9g")


def file_names(figures: Iterable[str]) -> list[str]:
    """The names of the files that `render_study` gives for these figures."""
    names = ["study.md", FINDINGS_FILE, ROUNDS_FILE]
    for name in figures:
        kinds = ("csv",) if name == TABLE else ("csv", "png", "svg")
        names += [f"{file_stem(name)}.{kind}" for kind in kinds]
    return names


def file_stem(name: str) -> str:
    """`table_5_1`, `figure_5_5`."""
    return (
        f"table_{name.removeprefix('table')}".replace(".", "_") if name == TABLE else f"figure_{name}".replace(".", "_")
    )


def study_figure(study: Study, name: str) -> "Figure":
    """One of the study's figures. Raises InputError where the study was not asked for it."""
    if name not in study.figures or name not in TITLES:
        drawn = ", ".join(figure for figure in study.figures if figure in TITLES)
        raise InputError(f"figure: must be one of {drawn}, got {name!r}.", hint="Choose one, or run the study for it.")
    from planner.report.kit.style import look  # matplotlib takes a second to load

    with look():
        return _figure_drawing(name)(study, name, TITLES[name])


def _figure_drawing(name: str) -> "Callable[[Study, str, str], Figure]":
    from planner.studies.chapter5.report import islands, panels  # matplotlib, as above

    drawings = {
        "4.8": panels.draw_divisions,
        "5.1": islands.draw_benchmarks,
        "5.2": islands.draw_shares,
        "5.3": islands.draw_rates,
        "5.4": islands.draw_lengths,
        "5.6": panels.draw_times,
        "5.11": panels.draw_times,
        "5.13": panels.draw_tokens,
    }
    return drawings.get(name, panels.draw_searches)


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
