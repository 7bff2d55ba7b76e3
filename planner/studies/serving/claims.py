"""The thesis' figures and findings held against raw results, under the reading that its figures calibrate."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from planner.report.kit.quantities import significant
from planner.studies.papers.records import Claim, Results, Verdict
from planner.studies.serving.page import Comparison, number_words
from planner.studies.serving.reconciled.readings import NEAREST_CONSTANTS, PUBLISHED, PublishedFigure
from planner.studies.serving.reconciled.tables import FULL, findings_by_reading, is_calibrated
from planner.studies.serving.records import Reading

READINGS, MISSES, CALIBRATION = "readings", "misses", "calibration"
HOLDS_WITHIN, CLOSE_WITHIN, LEVEL_WITHIN = 0.1, 0.35, 0.1
"""Of a published figure, for `holds` and for `close`; of the larger of two figures, for an ordering that is `close`."""

LONG_S = 100.0
"""Completions beyond this come near section 6.4's 200 s."""

NOTEBOOK = "notebook plot_metrics"
MEDIAN_S = 0.27
"""Completion of half of the requests, where the notebook's curve of them crosses one half."""

FIRST_PERCENT = 55.0
"""Of the notebook's 1,610 misses, those in its histogram's first bar, about 885."""

BY_MODEL = {
    **{"DenseNet-169": 3.14, "Inception-ResNet-v2": 2.94, "MobileNet-V1": 3.15, "Resnet18": 2.59, "SqueezeNet": 2.67},
    **{"VGG-16": 3.67, "VGG-19": 6.14, "VGG16": 1.97, "Whisper": 4.92},
}
"""Misses per 100 requests of each model, in the notebook."""

_LATE = (
    "The longest completion is that of requests that came before the simulator sent any: with quantum logic it is that "
    "late start, {late:.3g} s, already, and nothing can be shorter."
)
_TRACE = (
    "More than half is the late start; the rest hangs on the minutes in which each model was asked for: not published."
)
NOTES: Mapping[str, str] = {
    "Quantum logic misses fewer deadlines than Round Robin": "By far more than slightly: see plain Round Robin's "
    "longest completion.",
    "Deadlines as order miss fewer than quanta per model": "By little: quantum logic and quanta per model gain more.",
}
"""What must be said of a finding that holds."""

_UNKNOWN = "No constant that we tried reaches it with the others, and the thesis does not print enough to tell why."


def claims(results: Results) -> Iterator[Claim]:
    """Figures that were calibrated, figures that were held out, findings."""
    rows = results.table(READINGS)
    for row in PUBLISHED:
        yield _figure(row, rows, results)
    yield from _held_out(rows, results)
    yield _alike(rows, results)
    findings = findings_by_reading(rows)
    for literal, published in zip(findings[Reading.LITERAL], findings[Reading.PUBLISHED], strict=True):
        yield _finding(literal, published, results)


def _figure(row: PublishedFigure, rows: Sequence[Mapping[str, str]], results: Results) -> Claim:
    ours = _values(rows, Reading.PUBLISHED, row.policy, row.figure)
    literal = fmean(_values(rows, Reading.LITERAL, row.policy, row.figure))
    return Claim(
        place=row.place,
        words=f"{row.words} (calibrated)",
        published=number_words(row.value),
        ours=f"{_spread(ours)}; literal: {number_words(literal)}",
        verdict=_nearness(fmean(ours), row.value),
        run=results.run(READINGS),
        reason=_off(fmean(ours), row.value),
    )


def _held_out(rows: Sequence[Mapping[str, str]], results: Results) -> Iterator[Claim]:
    medians = _values(rows, Reading.PUBLISHED, FULL, "completion_p50_s")
    misses = [row for row in results.table(MISSES) if row["reading"] == Reading.PUBLISHED.value]
    seeds = dict.fromkeys(row["seed"] for row in misses)
    first = [100 * _sum(misses, "missed_at_first", seed) / max(1.0, _sum(misses, "missed", seed)) for seed in seeds]
    for words, value, ours, name in (
        ("Half of Round Robin's requests are answered within, s (held out)", MEDIAN_S, medians, READINGS),
        ("Of its misses, those of the first 90 s, % (held out)", FIRST_PERCENT, first, MISSES),
    ):
        verdict = _nearness(fmean(ours), value)
        yield Claim(
            place=NOTEBOOK,
            words=words,
            published=number_words(value),
            ours=_spread(ours),
            verdict=verdict if verdict is not Verdict.OPEN else Verdict.EXPLAINED,
            run=results.run(name),
            reason=_off(fmean(ours), value) if verdict is not Verdict.OPEN else _TRACE,
        )
    by_model = {
        model: fmean(100 * float(row["missed"]) / float(row["requests"]) for row in misses if row["model"] == model)
        for model in BY_MODEL
    }
    verdicts = {_nearness(by_model[model], value) for model, value in BY_MODEL.items()}
    yield Claim(
        place=NOTEBOOK,
        words="Its misses per 100 requests by model (held out)",
        published=_by_model(BY_MODEL),
        ours=_by_model(by_model),
        verdict=next(word for word in (Verdict.OPEN, Verdict.CLOSE, Verdict.HOLDS) if word in verdicts),
        run=results.run(MISSES),
        reason=_TRACE,
    )


def _alike(rows: Sequence[Mapping[str, str]], results: Results) -> Claim:
    """Section 6.3 beside section 6.4, which do not go together here."""
    plain, clockwork = (
        fmean(_values(rows, Reading.PUBLISHED, policy, "completion_p50_s")) for policy in ("rr", "clockwork")
    )
    long = [float(row["quantum_s"]) for row in results.table(CALIBRATION) if float(row["rr.completion_max_s"]) > LONG_S]
    holds = abs(plain / clockwork - 1) <= CLOSE_WITHIN
    return Claim(
        place="section 6.3",
        words="Plain Round Robin completes as Clockwork does, half of the requests within, s (held out)",
        published="similarly",
        ours=f"{number_words(plain)} against {number_words(clockwork)}",
        verdict=Verdict.HOLDS if holds else Verdict.EXPLAINED,
        run=results.run(READINGS),
        reason=""
        if holds
        else f"Of all that were tried, quanta of at most {max(long):g} s alone have its longest completion above "
        f"{LONG_S:g} s, as section 6.4 says, and then it loads for most of its time.",
    )


def _finding(literal: Comparison, published: Comparison, results: Results) -> Claim:
    finding = published.finding
    place, _, figure = finding.published.partition(":")
    late_s = NEAREST_CONSTANTS["late_start_s"]
    reason = NOTES.get(finding.words, "")
    if published.holds:
        verdict = Verdict.HOLDS
    elif published.less - published.more <= LEVEL_WITHIN * published.less:
        verdict, reason = Verdict.CLOSE, "Level, within a tenth."
    elif finding.figure == "completion_max_s" and published.more <= late_s * (1 + LEVEL_WITHIN):
        verdict, reason = Verdict.EXPLAINED, _LATE.format(late=late_s)
    else:
        verdict, reason = Verdict.OPEN, _UNKNOWN
    return Claim(
        place=f"section {place.removesuffix(' and notebooks')}".replace("section 6.15", "figure 6.15"),
        words=f"{finding.words} ({'calibrated' if is_calibrated(published) else 'held out'})",
        published=figure.strip() or "so",
        ours=f"{_against(published)}; literal: {_against(literal)}{'' if literal.holds else ', which does not hold'}",
        verdict=verdict,
        run=results.run(READINGS),
        reason=reason,
    )


def _off(ours: float, value: float) -> str:
    """How far ours is from a published figure; nothing where it holds."""
    return "" if _nearness(ours, value) is Verdict.HOLDS else f"{100 * (ours / value - 1):+.0f} %."


def _by_model(values: Mapping[str, float]) -> str:
    return ", ".join(f"{model} {significant(value, 2)}" for model, value in values.items())


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
