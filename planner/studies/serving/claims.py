"""The thesis' figures and findings held against raw results, under the reading that its figures calibrate."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from planner.report.kit.quantities import significant
from planner.studies.papers.records import Claim, Results, Verdict
from planner.studies.serving.page import Comparison, number_words
from planner.studies.serving.reconciled.readings import PUBLISHED, PublishedFigure
from planner.studies.serving.reconciled.tables import findings_by_reading, is_calibrated
from planner.studies.serving.records import Reading

READINGS, MISSES = "readings", "misses"
HOLDS_WITHIN, CLOSE_WITHIN, LEVEL_WITHIN = 0.1, 0.35, 0.1
"""Of a published figure, for `holds` and for `close`; of the larger of two figures, for an ordering that is `close`."""

MEDIAN_S = 0.27
"""Completion of half of the requests, where the notebook's curve of them crosses one half."""

FIRST_PERCENT = 55.0
"""Of the notebook's 1,610 misses, those in its histogram's first bar, about 885."""

BY_MODEL = {
    **{"DenseNet-169": 3.14, "Inception-ResNet-v2": 2.94, "MobileNet-V1": 3.15, "Resnet18": 2.59, "SqueezeNet": 2.67},
    **{"VGG-16": 3.67, "VGG-19": 6.14, "VGG16": 1.97, "Whisper": 4.92},
}
"""Misses per 100 requests of each model, in the notebook."""

REASONS: Mapping[str, str] = {}
"""By figure or finding, why it differs."""

_UNKNOWN = "No constant that we tried reaches it, and the thesis does not print enough to tell why."


def claims(results: Results) -> Iterator[Claim]:
    """Figures that were calibrated, figures that were held out, findings."""
    rows = results.table(READINGS)
    for row in PUBLISHED:
        yield _figure(row, rows, results)
    yield from _held_out(rows, results)
    findings = findings_by_reading(rows)
    for literal, published in zip(findings[Reading.LITERAL], findings[Reading.PUBLISHED], strict=True):
        yield _finding(literal, published, results)


def _figure(row: PublishedFigure, rows: Sequence[Mapping[str, str]], results: Results) -> Claim:
    ours = _values(rows, Reading.PUBLISHED, row.policy, row.figure)
    literal = fmean(_values(rows, Reading.LITERAL, row.policy, row.figure))
    verdict = _nearness(fmean(ours), row.value)
    off = 100 * (fmean(ours) / row.value - 1)
    return Claim(
        place=row.place,
        words=f"{row.words} (calibrated)",
        published=number_words(row.value),
        ours=f"{_spread(ours)}; literal: {number_words(literal)}",
        verdict=verdict if verdict is not Verdict.OPEN or row.name not in REASONS else Verdict.EXPLAINED,
        run=results.run(READINGS),
        reason="" if verdict is Verdict.HOLDS else REASONS.get(row.name, f"{off:+.0f} %."),
    )


def _held_out(rows: Sequence[Mapping[str, str]], results: Results) -> Iterator[Claim]:
    medians = _values(rows, Reading.PUBLISHED, "rr-deadline", "completion_p50_s")
    misses = [row for row in results.table(MISSES) if row["reading"] == Reading.PUBLISHED.value]
    seeds = list(dict.fromkeys(row["seed"] for row in misses))
    first = [100 * _sum(misses, "missed_at_first", seed) / max(1.0, _sum(misses, "missed", seed)) for seed in seeds]
    yield _figure_held_out("Half of the requests answered within, s", MEDIAN_S, medians, results, READINGS)
    yield _figure_held_out("Of the misses, those of the first 90 s, %", FIRST_PERCENT, first, results, MISSES)
    for model, value in BY_MODEL.items():
        mine = [row for row in misses if row["model"] == model]
        ours = [100 * float(row["missed"]) / float(row["requests"]) for row in mine]
        yield _figure_held_out(f"Misses per 100 requests of {model}", value, ours, results, MISSES)


def _figure_held_out(words: str, value: float, ours: Sequence[float], results: Results, name: str) -> Claim:
    verdict = _nearness(fmean(ours), value)
    return Claim(
        place="notebook plot_metrics",
        words=f"{words} (held out)",
        published=number_words(value),
        ours=_spread(ours),
        verdict=verdict if verdict is not Verdict.OPEN or words not in REASONS else Verdict.EXPLAINED,
        run=results.run(name),
        reason="" if verdict is Verdict.HOLDS else REASONS.get(words, f"{100 * (fmean(ours) / value - 1):+.0f} %."),
    )


def _finding(literal: Comparison, published: Comparison, results: Results) -> Claim:
    finding = published.finding
    place, _, said = finding.published.partition(":")
    if published.holds:
        verdict = Verdict.HOLDS
    elif published.less - published.more <= LEVEL_WITHIN * published.less:
        verdict = Verdict.CLOSE
    else:
        verdict = Verdict.EXPLAINED if finding.words in REASONS else Verdict.OPEN
    usual = "Level, within a tenth." if verdict is Verdict.CLOSE else _UNKNOWN
    return Claim(
        place=f"section {place.removesuffix(' and notebooks')}",
        words=f"{finding.words} ({'calibrated' if is_calibrated(published) else 'held out'})",
        published=said.strip(),
        ours=f"{_against(published)}; literal: {_against(literal)}{'' if literal.holds else ', which does not hold'}",
        verdict=verdict,
        run=results.run(READINGS),
        reason="" if verdict is Verdict.HOLDS else REASONS.get(finding.words, usual),
    )


def _nearness(ours: float, value: float) -> Verdict:
    off = abs(ours / value - 1)
    return Verdict.HOLDS if off <= HOLDS_WITHIN else Verdict.CLOSE if off <= CLOSE_WITHIN else Verdict.OPEN


def _values(rows: Sequence[Mapping[str, str]], reading: Reading, policy: str, figure: str) -> list[float]:
    """A figure over the seeds."""
    return [float(row[figure]) for row in rows if (row["reading"], row["policy"]) == (reading.value, policy)]


def _sum(rows: Sequence[Mapping[str, str]], column: str, seed: str) -> float:
    return sum(float(row[column]) for row in rows if row["seed"] == seed)


def _spread(values: Sequence[float]) -> str:
    return f"{number_words(fmean(values))} ({significant(min(values))} to {significant(max(values))})"


def _against(row: Comparison) -> str:
    return f"{number_words(row.less)} against {number_words(row.more)}"
