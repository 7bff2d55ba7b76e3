"""How a trace is to be read: its columns, its clock, and which of its rows.

Letter case, blanks, underscores and dots do not count. Of a nested key (`usage.prompt_tokens`) the last part counts,
where no name matches whole.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from planner.domain import BLOCK_TOKENS
from planner.errors import InputError
from planner.files.disk.csv_rows import listed
from planner.files.tables.traces.clocks import TimeUnit, column_stem, iso_microseconds
from planner.units import MEGA

ARRIVAL, INPUT, OUTPUT = COLUMNS = ("arrival_s", "input_tokens", "output_tokens")
"""What a trace must have; users may write arrival for arrival_s."""

TURN_COLUMNS = ("session", "turn", "pause", "duration", "end")
"""What it may have of sessions, see `turns.py`."""

_ALIASES = {"arrival": ARRIVAL}

# letters and digits only, lower case: how column names are compared. Sources: Azure and BurstGPT traces, Mooncake,
# RAGPulse, vidur; logs of OpenAI-like APIs, Gemini's usageMetadata, OpenRouter, LiteLLM's spend logs, exports of
# Langfuse
_USUAL = {
    ARRIVAL: (
        "arrivals arrival timestamp timestamps time arrivaltime arrivaltimestamp arrivedat arrivaltimes requesttime "
        "requesttimestamp requestedat requeststart receivedat starttime starttimestamp startedat datetime seconds "
        "createdat created createdtime eventtime logtime ts starttimeunixnano"
    ),
    INPUT: (
        "contexttokens inputtokens prompttokens requesttokens inputlength inputlen promptlength promptlen "
        "numinputtokens numprompttokens numprefilltokens prefilltokens contextlength inputtokencount prompttokencount "
        "inputusage usageinput usagedetailsinput tokensprompt inputsequencelength isl"
    ),
    OUTPUT: (
        "generatedtokens outputtokens completiontokens responsetokens decodetokens outputlength outputlen "
        "generatedlength numoutputtokens numgeneratedtokens numcompletiontokens numdecodetokens outputtokencount "
        "completiontokencount candidatestokencount outputusage usageoutput usagedetailsoutput tokenscompletion "
        "outputsequencelength osl"
    ),
}
_COLUMN_FORMS = {
    ARRIVAL: "ISO 8601 or a number in s, ms, us or ns",
    INPUT: "tokens of the prompt",
    OUTPUT: "tokens of the answer",
}
_COUNTS = ("nummodelrequests", "nrequests", "numrequests", "requestcount", "ncontexttokenstotal")
_CACHED_APART = ("cachereadinputtokens", "cachecreationinputtokens")
_NAME_THEM = (
    "`planner workload summarize trace.csv --columns arrival=T,input_tokens=IN,output_tokens=OUT --out trace.yaml` "
    "writes a workload that every command takes; in a scenario "
    "`workload: {kind: trace, file: FILE, columns: {arrival: T, input_tokens: IN, output_tokens: OUT}}`"
)


def columns_of(origin: object, columns: Mapping[str, str]) -> dict[str, str]:
    """The user's names of columns by what they hold. Raises InputError for a key that is none."""
    for key in columns:
        if _ALIASES.get(key, key) not in (*COLUMNS, *TURN_COLUMNS):
            shown = ", ".join((*COLUMNS, *TURN_COLUMNS))
            raise InputError(f"{origin}: columns names {key!r}.", hint=f"The columns are {shown}.")
    return {_ALIASES.get(key, key): name for key, name in columns.items()}


def column_places(origin: object, names: Sequence[str], columns: Mapping[str, str]) -> dict[str, int]:
    """Where each of `COLUMNS` stands among the names of the header; `columns` as the user names them.

    Raises InputError where none or several fit, a row counts several requests, or cached tokens are counted apart.
    """
    by_user = columns_of(origin, columns)
    places = {key: _place(origin, names, key, by_user.get(key)) for key in COLUMNS}
    _require_single_requests(origin, names)
    _require_all_tokens(origin, names, names[places[INPUT]], INPUT in by_user)
    if len(set(places.values())) < len(COLUMNS):
        raise InputError(
            f"{origin}: columns must differ, got {listed(names[place] for place in places.values())}.",
            hint=f"Name three columns: {_NAME_THEM}.",
        )
    return places


def named_place(origin: object, names: Sequence[str], column: str, meaning: str) -> int:
    """The place of a column that a user names, as it is written or but for letter case, blanks and underscores."""
    places = [i for i, name in enumerate(names) if name == column]
    places = places or [i for i, name in enumerate(names) if plain(name) == plain(column)]
    return _only(origin, names, places, meaning, column)


def _place(origin: object, names: Sequence[str], key: str, column: str | None) -> int:
    if column is not None:
        return named_place(origin, names, column, key)
    places = [i for i, name in enumerate(names) if _is_usual(name, key)]
    places = places or [i for i, name in enumerate(names) if "." in name and _is_usual(name.rpartition(".")[2], key)]
    return _only(origin, names, places, key, None)


def _only(origin: object, names: Sequence[str], places: Sequence[int], meaning: str, column: str | None) -> int:
    if len(places) == 1:
        return places[0]
    rule = f"a column {column!r}" if column is not None else f"one column of {meaning}"
    fault = "several do: " + listed(names[i] for i in places) if places else "none does"
    holds = f" ({_COLUMN_FORMS[meaning]})" if meaning in _COLUMN_FORMS else ""
    raise InputError(
        f"{origin}: must have {rule}; {fault}. The columns found are {listed(names)}.",
        hint=f"Say which column has {meaning}{holds}: {_NAME_THEM}.",
    )


def _is_usual(name: str, key: str) -> bool:
    usual = _USUAL[key].split()
    return plain(name) in usual or (key == ARRIVAL and plain(column_stem(name)) in usual)


def plain(name: str) -> str:
    """Letters and digits of a column's name, in small letters."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _ends(names: Sequence[str], plain_names: Iterable[str]) -> list[str]:
    return [name for name in names if plain(name.rpartition(".")[2]) in plain_names]


def _require_single_requests(origin: object, names: Sequence[str]) -> None:
    counts = _ends(names, _COUNTS)
    if counts:
        raise InputError(
            f"{origin}: must have a row a request; column {counts[0]} counts the requests of a row.",
            hint="Give a log of single requests: sums over minutes or days tell nothing of lengths.",
        )


def _require_all_tokens(origin: object, names: Sequence[str], column: str, named_by_user: bool) -> None:
    apart = _ends(names, _CACHED_APART)
    if apart and not named_by_user:
        raise InputError(
            f"{origin}: column {column} leaves out tokens of the prompt where {listed(apart)} count them apart.",
            hint=f"Add a column with their sum and name it; or take {column} alone by name: {_NAME_THEM}.",
        )


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
