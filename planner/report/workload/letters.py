"""A trace as a picture of letters: rate over time, and lengths as bars."""

from collections.abc import Sequence

from planner.domain.workload import LengthFacts, TraceSummary
from planner.report.workload.words import duration

_LEVELS = "▁▂▃▄▅▆▇█"
_POINTS = 60
_BAR = 32
_EIGHTHS = " ▏▎▍▌▋▊▉"


def picture(summary: TraceSummary) -> str:
    """Lines of at most 80 columns."""
    lines = [] if summary.series is None else _rate_lines(summary)
    lines += ["", "prompts (tokens)", *_bars(summary.prompts)]
    if summary.answers is not None:
        lines += ["", "answers (tokens)", *_bars(summary.answers)]
    return "\n".join(lines).strip("\n")


def _rate_lines(summary: TraceSummary) -> list[str]:
    series = summary.series
    if series is None or len(series.requests) < 2:
        return []
    width = -(-len(series.requests) // _POINTS)
    groups = [series.requests[start : start + width] for start in range(0, len(series.requests), width)]
    rates = [sum(group) / (len(group) * series.width_s) for group in groups]
    window = duration(width * series.width_s)
    return [f"requests/s by {window}, at most {max(rates):,.3g}", sparkline(rates)]


def sparkline(values: Sequence[float]) -> str:
    """A letter a value, from 0 to the greatest."""
    most = max(values)
    if most <= 0:
        return _LEVELS[0] * len(values)
    return "".join(_LEVELS[min(len(_LEVELS) - 1, int(value / most * len(_LEVELS)))] for value in values)


def _bars(facts: LengthFacts) -> list[str]:
    most = max(share for *_, share in facts.bins)
    labels = [f"{start:,}-{end - 1:,}" if end - start > 1 else f"{start:,}" for start, end, _ in facts.bins]
    longest = max(map(len, labels))
    return [
        f"{label:>{longest}}  {_bar(share / most):<{_BAR}} {share:6.1%}"
        for label, (*_, share) in zip(labels, facts.bins, strict=True)
    ]


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).rstrip()
