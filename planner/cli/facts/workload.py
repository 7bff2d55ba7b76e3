"""`planner workload`: a trace becomes a workload, is shown, or becomes a shorter one; and how traces are to be read.
What engines tell becomes one in `metered.py`."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli import screen
from planner.cli.facts import metered
from planner.cli.program.option_records import with_records
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.domain.workload import TraceSummary
    from planner.files.tables.traces.options import TraceOptions

COLUMNS = ("arrival_s", "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFlags:
    """How a trace is to be read."""

    columns: Annotated[
        str | None,
        typer.Option(
            help="Names of the columns where they are unusual: arrival=T,input_tokens=IN,output_tokens=OUT, or the "
            "three of them in this order."
        ),
    ] = None
    time_unit: Annotated[
        str | None,
        typer.Option(help="What numbers in the column of times count, where it does not tell: s, ms, us, ns."),
    ] = None
    block_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens of each block that hash_ids of JSON have an id for.")
    ] = 512
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only rows with this value, as Model=GPT-4. Several of one column: any; of several columns: all."
        ),
    ] = None
    drop: Annotated[
        list[str] | None,
        typer.Option(
            help="Rows to leave out: unanswered (no token of answer), faulty (rows that would be refused), over:40960 "
            "(more tokens than that, prompt and answer together)."
        ),
    ] = None
    first: Annotated[
        str, typer.Option("--from", help="Begin here: a time (ISO 8601), or since the first arrival (2h).")
    ] = ""
    end: Annotated[str, typer.Option("--to", help="End before this: a time, or since the first arrival.")] = ""
    last: Annotated[str, typer.Option(help="Only the end of the trace, as 24h.")] = ""

    def read(self, trace: Path) -> "TraceOptions":
        """The options that were typed. Raises InputError."""
        from planner.files.tables.traces.options import trace_options

        return trace_options(
            trace,
            columns=_columns(self.columns),
            time_unit=_unit(self.time_unit),
            block_tokens=self.block_tokens,
            where=_where(self.where or ()),
            drop=self.drop or (),
            first=self.first,
            end=self.end,
            last=self.last,
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


group = typer.Typer(help="Workloads from traces and from what engines tell.", no_args_is_help=True)

Trace = Annotated[Path, typer.Argument(help="CSV or JSON with arrival time, input and output tokens, packed or not.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
Picture = Annotated[Path | None, typer.Option(help="Write the figure: FILE.png or FILE.svg.")]
Html = Annotated[Path | None, typer.Option(help="Write a page to send: FILE.html.")]


@group.callback()
def _group() -> None:
    """Workloads from traces and from what engines tell."""


group.command("from-metrics")(metered.command)


@group.command("summarize")
@with_records
def summarize_trace(
    trace: Trace,
    *,
    out: Annotated[Path | None, typer.Option(help="Workload file. [default: NAME.yaml beside the trace]")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the workload. [default: the trace's]")] = None,
    flags: TraceFlags,
    picture: Picture = None,
    html: Html = None,
    licence: Annotated[str, typer.Option(help="Of the trace, noted in the workload file.")] = "",
    citation: Annotated[str, typer.Option(help="Who published the trace, noted in the workload file.")] = "",
    source: Annotated[str, typer.Option(help="Where the trace is from, noted in the workload file.")] = "",
    force: Force = False,
    json: Json = False,
) -> None:
    """Summarise a trace as a length profile that any scenario can name; say what was understood of it."""
    from dataclasses import replace

    from planner import files
    from planner.runs.workloads import profile_of_trace

    options = flags.read(trace)
    profile, summary = profile_of_trace(trace, options)
    profile = replace(profile, name=name or profile.name, licence=licence, citation=citation)
    summary = replace(summary, name=profile.name, licence=licence, citation=citation)
    path = out or files.workload_path(trace.parent, profile.name)
    _require_free(force, picture, html, path)
    files.write_files(
        {path: files.workload_text(profile, source=source), **_drawn(summary, picture, html)}, force=force
    )
    if json:
        screen.show_json({"workload": profile.name, "file": str(path), **_document(summary)})
        return
    _show(summary)
    screen.show_note(f"Workload {profile.name}: {path}; in a scenario: `workload: {path}`.")


@group.command("show")
@with_records
def show_workload(
    workload: Annotated[str, typer.Argument(help="A shipped name, a workload file, or a trace.")],
    *,
    cache_tokens: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Say what a prefix cache of so many tokens would find; may be repeated."),
    ] = None,
    flags: TraceFlags,
    picture: Picture = None,
    html: Html = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Show what a workload or a trace is like: rate and peaks, lengths, how arrivals bunch, sessions, prefix reuse."""
    options = flags.read(Path(workload))
    from planner import files
    from planner.runs.workloads import summary_of

    _require_free(force, picture, html)
    summary = summary_of(workload, options, sorted(set(cache_tokens or ())))
    files.write_files(_drawn(summary, picture, html), force=force)
    if json:
        screen.show_json({"workload": summary.name, **_document(summary)})
    else:
        _show(summary)


@group.command("sample")
@with_records
def sample_trace(
    trace: Trace,
    *,
    requests: Annotated[int, typer.Option(min=1, help="About how many the sample is to have.")],
    out: Annotated[Path, typer.Option(help="The sample, a CSV file.")],
    seed: Annotated[int, typer.Option(min=0, help="Of the draw; the same seed draws the same.")] = 0,
    flags: TraceFlags,
    force: Force = False,
) -> None:
    """Make a shorter trace of a long one, to replay: stretches of time, each as likely as any other, end to end."""
    from planner import files
    from planner.runs.workloads import sample_of_trace

    options = flags.read(trace)
    files.refuse_existing(out, force=force)
    text, summary = sample_of_trace(trace, options, requests, seed)
    files.write_file(out, text.encode(), force=force)
    screen.show_text(f"{out}: {text.count(chr(10)) - 1:,} of {summary.requests:,} requests of {trace.name}.")


def _require_free(force: bool, picture: Path | None, *others: Path | None) -> None:
    """Fail before anything is drawn where a file could not be written."""
    from planner import files

    if picture is not None and picture.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"--picture: must end in .png or .svg, got {picture.name!r}.", hint="Rename it.")
    outputs = [path for path in (picture, *others) if path is not None]
    for path in outputs:
        files.refuse_existing(path, force=force)
        if outputs.count(path) > 1:
            raise InputError(f"{path}: two outputs would be written there.", hint="Give them different names.")


def _drawn(summary: "TraceSummary", picture: Path | None, html: Path | None) -> dict[Path, bytes]:
    """The picture and the page, where they are wanted."""
    from planner.report.workload.page import encoded_workload_figure

    written = {}
    if picture is not None:
        kind: Literal["svg", "png"] = "svg" if picture.suffix.lower() == ".svg" else "png"
        written[picture] = encoded_workload_figure(summary, kind)
    if html is not None:
        from planner.report.workload.page import workload_page
        from planner.runs.pages import made_by, page_bytes

        page = workload_page(summary, f"{made_by()} from {summary.name}.")
        written[html] = page_bytes(page)
    return written


def _show(summary: "TraceSummary") -> None:
    from planner.report.workload.document import picture
    from planner.report.workload.words import summary_rows

    screen.show_table(f"Workload {summary.name}", ("what", "value"), summary_rows(summary))
    screen.show_text("\n" + picture(summary))


def _document(summary: "TraceSummary") -> dict[str, object]:
    from planner.report.workload.document import workload_document

    return workload_document(summary)
