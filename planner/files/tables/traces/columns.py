"""Which column of a trace holds what: recognised by its usual names, or named by the user.

Letter case, blanks, underscores and dots do not count. Of a nested key (`usage.prompt_tokens`) the last part counts,
where no name matches whole.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from planner.errors import InputError
from planner.files.disk.csv_rows import listed
from planner.files.tables.traces.clocks import column_stem

ARRIVAL, INPUT, OUTPUT = COLUMNS = ("arrival_s", "input_tokens", "output_tokens")
"""What a trace must have; users may write arrival for arrival_s."""

_ALIASES = {"arrival": ARRIVAL}

# letters and digits only, lower case: how column names are compared. Sources: Azure and BurstGPT traces, Mooncake,
# RAGPulse, vidur; logs of OpenAI-like APIs, Gemini's usageMetadata, OpenRouter, LiteLLM's spend logs, exports of
# Langfuse
_USUAL = {
    ARRIVAL: (
        "arrivals arrival timestamp timestamps time arrivaltime arrivaltimestamp arrivedat arrivaltimes requesttime "
        "requesttimestamp requestedat requeststart receivedat starttime starttimestamp startedat datetime seconds "
        "createdat created createdtime eventtime logtime ts"
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
_CAME = {
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
        if _ALIASES.get(key, key) not in COLUMNS:
            raise InputError(f"{origin}: columns names {key!r}.", hint=f"The columns are {', '.join(COLUMNS)}.")
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


def named_place(origin: object, names: Sequence[str], column: str, what: str) -> int:
    """The place of a column that a user names, as it is written or but for letter case, blanks and underscores."""
    places = [i for i, name in enumerate(names) if name == column]
    places = places or [i for i, name in enumerate(names) if _plain(name) == _plain(column)]
    return _only(origin, names, places, what, column)


def _place(origin: object, names: Sequence[str], key: str, column: str | None) -> int:
    if column is not None:
        return named_place(origin, names, column, key)
    places = [i for i, name in enumerate(names) if _is_usual(name, key)]
    places = places or [i for i, name in enumerate(names) if "." in name and _is_usual(name.rpartition(".")[2], key)]
    return _only(origin, names, places, key, None)


def _only(origin: object, names: Sequence[str], places: Sequence[int], what: str, column: str | None) -> int:
    if len(places) == 1:
        return places[0]
    wanted = f"a column {column!r}" if column is not None else f"one column of {what}"
    came = "several do: " + listed(names[i] for i in places) if places else "none does"
    holds = f" ({_CAME[what]})" if what in _CAME else ""
    raise InputError(
        f"{origin}: must have {wanted}; {came}. The columns found are {listed(names)}.",
        hint=f"Say which column has {what}{holds}: {_NAME_THEM}.",
    )


def _is_usual(name: str, key: str) -> bool:
    usual = _USUAL[key].split()
    return _plain(name) in usual or (key == ARRIVAL and _plain(column_stem(name)) in usual)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _ends(names: Sequence[str], plain_names: Iterable[str]) -> list[str]:
    return [name for name in names if _plain(name.rpartition(".")[2]) in plain_names]


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
