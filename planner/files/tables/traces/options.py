"""How a trace is to be read: its columns, its clock, and which of its rows."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from planner.domain import BLOCK_TOKENS
from planner.errors import InputError
from planner.files.tables.traces.clocks import TimeUnit
from planner.files.tables.traces.columns import columns_of
from planner.files.tables.traces.times import iso_microseconds
from planner.units import MEGA

_Kind = TypeVar("_Kind", bound=StrEnum)
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_OVER = re.compile(r"^over:(\d{1,9})$")
_DURATION = re.compile(r"^(\d+(?:\.\d+)?) ?(s|m|min|h|d|w)$")


class Drop(StrEnum):
    """Rows that are left out on request."""

    UNANSWERED = "unanswered"  # no token of answer: a request that failed, or was cancelled
    FAULTY = "faulty"  # no time, no prompt, or no number of tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A border of time: seconds since 1970, or since the first arrival."""

    seconds: float
    is_date: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """`columns`: names by what they hold; `where`: values of other columns, one of which a row must have; `first` and
    `end`: the stretch of time, `last_s` the seconds before the end; `most_tokens`: of a prompt and its answer."""

    columns: Mapping[str, str] = field(default_factory=dict)
    time_unit: TimeUnit | None = None
    block_tokens: int = BLOCK_TOKENS
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    drop: frozenset[Drop] = frozenset()
    most_tokens: int | None = None
    first: Moment | None = None
    end: Moment | None = None
    last_s: float | None = None

    @property
    def cuts_time(self) -> bool:
        """Whether only a stretch of time is wanted."""
        return (self.first, self.end, self.last_s) != (None, None, None)


def trace_options(
    origin: object,
    *,
    columns: Mapping[str, str] | None = None,
    time_unit: TimeUnit | str | None = None,
    block_tokens: int = BLOCK_TOKENS,
    where: Mapping[str, object] | None = None,
    drop: Iterable[str] = (),
    first: str = "",
    end: str = "",
    last: str = "",
) -> TraceOptions:
    """The options from words, as scenarios and commands have them. Raises InputError; `origin` names the trace."""
    if last and (first or end):
        raise InputError(f"{origin}: must have last, or from and to, got both.", hint="Leave one of them out.")
    words = tuple(drop)
    return TraceOptions(
        columns=columns_of(origin, columns or {}),
        time_unit=None if time_unit is None else _word(origin, "time_unit", time_unit, TimeUnit),
        block_tokens=block_tokens,
        where={name: _values(values) for name, values in (where or {}).items()},
        drop=frozenset(_drop(origin, word) for word in words if not _OVER.match(word)),
        most_tokens=min((int(match[1]) for word in words if (match := _OVER.match(word))), default=None),
        first=_moment(origin, "from", first),
        end=_moment(origin, "to", end),
        last_s=_duration_s(origin, "last", last),
    )


def _drop(origin: object, word: str) -> Drop:
    try:
        return Drop(word)
    except ValueError:
        raise InputError(
            f"{origin}: drop must be one of {', '.join(Drop)}, over:TOKENS, got {word!r:.60}.",
            hint="Choose one of them; over:40960 leaves out requests of more tokens, prompt and answer together.",
        ) from None


def _word(origin: object, key: str, word: str, kind: type[_Kind]) -> _Kind:
    try:
        return kind(word)
    except ValueError:
        raise InputError(
            f"{origin}: {key} must be one of {', '.join(kind)}, got {word!r:.60}.", hint="Choose one of them."
        ) from None


def _values(values: object) -> tuple[str, ...]:
    several = values if isinstance(values, Sequence) and not isinstance(values, str) else [values]
    return tuple(str(value).strip() for value in several)


def _moment(origin: object, key: str, text: str) -> Moment | None:
    if not text:
        return None
    if _DURATION.match(text):
        return Moment(seconds=_duration_s(origin, key, text) or 0.0, is_date=False)
    microseconds = iso_microseconds(text)
    if math.isnan(microseconds):
        raise InputError(
            f"{origin}: {key} must be a time (ISO 8601) or a duration since the first arrival, got {text!r:.60}.",
            hint=f"For example {key}: 2023-11-16T18:00 or {key}: 2h (s, m, h, d, w).",
        )
    return Moment(seconds=microseconds / MEGA, is_date=True)


def _duration_s(origin: object, key: str, text: str) -> float | None:
    if not text:
        return None
    match = _DURATION.match(text)
    if match is None or float(match[1]) <= 0:
        raise InputError(
            f"{origin}: {key} must be a duration above 0 with its unit, got {text!r:.60}.",
            hint=f"For example {key}: 24h (s, m, h, d, w).",
        )
    return float(match[1]) * _SECONDS[match[2]]
