"""Ids as ranges, as Linux and the kubelet write them: `0-7,16`."""

import re
from collections.abc import Iterable

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
