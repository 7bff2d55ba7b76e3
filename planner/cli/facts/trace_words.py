"""How a trace is to be read, as it is typed: options that several commands share."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.errors import InputError

if TYPE_CHECKING:
    from planner.files.tables.traces.options import TraceOptions

COLUMNS = ("arrival_s", "input_tokens", "output_tokens")

Columns = Annotated[
    str | None,
    typer.Option(
        help="Names of the columns where they are unusual: arrival=T,input_tokens=IN,output_tokens=OUT, or the three "
        "of them in this order."
    ),
]
TimeUnit = Annotated[
    str | None,
    typer.Option(help="What numbers in the column of times count, where it does not tell: s, ms, us, ns."),
]
BlockTokens = Annotated[int, typer.Option(min=1, help="Tokens of each block that hash_ids of JSON have an id for.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        help="Only rows with this value, as Model=GPT-4. Several of one column: any; of several columns: all."
    ),
]
Dropped = Annotated[
    list[str] | None,
    typer.Option(
        help="Rows to leave out: unanswered (no token of answer), faulty (rows that would be refused), over:40960 "
        "(more tokens than that, prompt and answer together)."
    ),
]
First = Annotated[str, typer.Option("--from", help="Begin here: a time (ISO 8601), or since the first arrival (2h).")]
End = Annotated[str, typer.Option("--to", help="End before this: a time, or since the first arrival.")]
Last = Annotated[str, typer.Option(help="Only the end of the trace, as 24h.")]


def options_from(
    trace: Path,
    *,
    columns: str | None,
    time_unit: str | None,
    block_tokens: int,
    where: Sequence[str] | None,
    drop: Sequence[str] | None,
    first: str,
    end: str,
    last: str,
) -> "TraceOptions":
    """The options that were typed. Raises InputError."""
    from planner.files.tables.traces.options import trace_options

    return trace_options(
        trace,
        columns=_columns(columns),
        time_unit=_unit(time_unit),
        block_tokens=block_tokens,
        where=_where(where or ()),
        drop=drop or (),
        first=first,
        end=end,
        last=last,
    )


def _unit(text: str | None) -> str | None:
    units = ("s", "ms", "us", "ns")
    if text is not None and text not in units:
        raise InputError(
            f"--time-unit: must be one of {', '.join(units)}, got {text!r}.",
            hint="Give what the numbers in the column of times count.",
        )
    return text


def _columns(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if all("=" in part for part in parts):
        pairs = [part.partition("=") for part in parts]
        return {key.strip(): name.strip() for key, _, name in pairs}
    if len(parts) != len(COLUMNS) or not all(parts):
        raise InputError(
            f"--columns: must be three names (arrival time, input tokens, output tokens), or pairs, got {text!r}.",
            hint="For example --columns TIMESTAMP,ContextTokens,GeneratedTokens, or --columns arrival=T.",
        )
    return dict(zip(COLUMNS, parts, strict=True))


def _where(texts: Sequence[str]) -> dict[str, list[str]]:
    values: defaultdict[str, list[str]] = defaultdict(list)
    for text in texts:
        column, sign, value = text.partition("=")
        if not sign or not column.strip():
            raise InputError(
                f"--where: must be COLUMN=VALUE, got {text!r:.80}.", hint="For example --where Model=GPT-4."
            )
        values[column.strip()].append(value.strip())
    return values
