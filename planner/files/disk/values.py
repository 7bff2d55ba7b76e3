"""Values of documents in words, their bounds, and a value within them."""

from collections.abc import Mapping


def bounds_text(low: float | None, high: float | None, above: float | None = None, below: float | None = None) -> str:
    """` of at least 0 and less than 1`; empty where nothing is bounded."""
    limits = [
        f"{word} {limit}"
        for word, limit in (("at least", low), ("more than", above), ("at most", high), ("less than", below))
        if limit is not None
    ]
    return f" of {' and '.join(limits)}" if limits else ""


def within(low: float | None, high: float | None, above: float | None = None, below: float | None = None) -> float:
    """Some number that keeps to the limits, 1 where it does."""
    least = low if low is not None else above
    most = high if high is not None else below
    if (least is None or least < 1) and (most is None or most > 1):
        return 1
    if low is not None or high is not None:
        return low if low is not None else 1 if high is None else high
    if above is not None and below is not None:
        return (above + below) / 2
    return above + 1 if above is not None else (below or 0) - 1


def shown(value: object) -> str:
    """A value as an error shows it, with its type."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple | set):
        return f"a list of {len(value)}"
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
