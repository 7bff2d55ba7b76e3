"""Values of documents in words, their bounds, and a value within them; ids as ranges."""

import re
from collections.abc import Iterable, Mapping


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
    lower = low if low is not None else above
    upper = high if high is not None else below
    if (lower is None or lower < 1) and (upper is None or upper > 1):
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


_PART = re.compile(r"(0|[1-9][0-9]{0,8})(?:-(0|[1-9][0-9]{0,8}))?")


def ranges_text(ids: Iterable[int]) -> str:
    """The ids in the order in which they come, neighbours that follow each other as one range."""
    runs: list[list[int]] = []
    for number in ids:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def read_ranges(text: str, highest: int) -> tuple[int, ...]:
    """The ids of a text such as `0-7,16`, in its order. Raises ValueError where it is no such text, or an id is above
    `highest`."""
    ids: list[int] = []
    for part in text.replace(" ", "").split(",") if text.strip() else ():
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is no id and no range of ids")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last <= highest:
            raise ValueError(f"{part} must ascend and end at {highest} at most")
        ids.extend(range(first, last + 1))
        if len(ids) > highest + 1:
            raise ValueError("ids are given more than once")
    return tuple(ids)
