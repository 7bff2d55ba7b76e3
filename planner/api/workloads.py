"""Workloads at hand: shipped ones, workload files, traces in files and in data frames."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from planner.api.cards import card
from planner.domain import BLOCK_TOKENS, LengthProfile, RequestTrace
from planner.domain.workload import TraceSummary
from planner.errors import InputError
from planner.files.disk.names import shipped_workloads
from planner.files.sections import top_level
from planner.files.tables.traces.forms import is_trace
from planner.files.tables.traces.options import TraceOptions, trace_options
from planner.files.tables.traces.reader import ORIGIN, read_frame, read_with
from planner.files.tables.workloads import (
    read_workload,
    workload_document,
    workload_file,
    workload_from_document,
    write_workload,
)
from planner.report.kit.markdown import table
from planner.report.workload.document import lengths_frame, requests_frame
from planner.report.workload.words import duration, summary_rows
from planner.workload import describe, summarize

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Workload:
    """A workload at hand. `record`: its requests, or its lengths where it was summarised before; `document`: what
    stands under `workload` in a scenario; `notes`: what was assumed where it was made of metrics."""

    def __init__(
        self,
        record: RequestTrace | LengthProfile,
        document: str | Mapping[str, object] | None = None,
        notes: tuple[str, ...] = (),
        source: str = "",
    ) -> None:
        self.record, self.notes = record, notes
        self._document, self._source = document, source

    @property
    def name(self) -> str:
        """Its name."""
        return self.record.name

    @cached_property
    def profile(self) -> LengthProfile:
        """Prompt lengths with their shares and answers, the rate, how arrivals bunch: what plans are made for."""
        return self.record if isinstance(self.record, LengthProfile) else summarize(self.record)

    @property
    def document(self) -> str | Mapping[str, object]:
        """A name, a path or a mapping, as a scenario has it; of a data frame its lengths."""
        return workload_document(self.profile) if self._document is None else self._document

    @cached_property
    def facts(self) -> TraceSummary:
        """Rate and its peaks, lengths, bunching, prefix reuse, and how a file was understood."""
        return describe(self.record)

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row a prompt length (tokens): its share of the requests, and the mean answer where that is known."""
        return lengths_frame(self.profile)

    @cached_property
    def requests(self) -> "pd.DataFrame":
        """One row a request: seconds since the first arrival, tokens in and out. Raises InputError of a workload that
        was summarised before, which has none."""
        if isinstance(self.record, LengthProfile):
            raise InputError(
                f"Workload {self.name}: must be a trace to have requests, is a table of lengths.",
                hint="`.frame` has its lengths.",
            )
        return requests_frame(self.record)

    def summary(self) -> str:
        """What it is like, in Markdown."""
        return f"# Workload {self.name}\n\n" + table(("what", "value"), summary_rows(self.facts), "ll")

    def figure(self) -> "Figure":
        """Arrivals over time, lengths, bunching and prefix reuse, as far as they are known."""
        from planner.report.workload.page import workload_figure  # matplotlib takes a second to load

        return workload_figure(self.facts)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the workload file that scenarios can name; refuses to replace one unless `force`."""
        write_workload(self.profile, Path(path), force, source=self._source)
        return Path(path)

    def __repr__(self) -> str:
        return f"<workload {self.name}: {self._in_words()}>"

    def _in_words(self) -> str:
        facts = self.facts
        parts = [] if facts.requests is None else [f"{facts.requests:,} requests"]
        if facts.mean_rps is not None:
            parts.append(f"{facts.mean_rps:,.3g} requests/s")
        if facts.span_s is not None:
            parts.append(duration(facts.span_s))
        return ", ".join((*parts, f"prompts {facts.prompts.mean:,.0f} and answers {facts.mean_answer:,.0f} tokens"))

    def _repr_markdown_(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return card(f"Workload {self.name}", self._in_words(), facts=dict(summary_rows(self.facts)))


def workload(
    source: "Workload | str | Path | pd.DataFrame | Mapping[str, object]",
    *,
    name: str = "",
    columns: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    block_tokens: int = 512,
    where: Mapping[str, object] | None = None,
    drop: Iterable[str] = (),
    start: str = "",
    end: str = "",
    last: str = "",
) -> Workload:
    """A workload at hand, to look at and to plan for.

    >>> planner.workload("azure-conv-2023")
    >>> planner.workload("logs.csv.gz", where={"model": "our-70b"}, last="24h").figure()
    >>> planner.plan(inventory={"H200": 64}, workload=planner.workload(frame))

    `source`: a shipped name, a workload file, a trace (CSV or JSON, packed or not), or a data frame with a row a
    request. Columns are recognised by their usual names, else `columns` names them: {"arrival": ..., "input_tokens":
    ..., "output_tokens": ...}. Times are datetime64, timedelta, ISO 8601 or numbers in `time_unit` (s, ms, us, ns; told
    by their size where it is left out). `where`: only rows with these values; `drop`: unanswered, faulty, over:TOKENS;
    `start`, `end`: times, or durations since the first arrival (2h); `last`: a duration before the end.

    Raises InputError, which names row and column.
    """
    if isinstance(source, Workload):
        return source
    words: dict[str, Any] = {"columns": columns, "time_unit": time_unit, "where": where, "last": last}
    words |= {"drop": tuple(drop), "block_tokens": block_tokens, "first": start, "end": end}
    if _is_frame(source):
        return Workload(read_frame(source, trace_options(ORIGIN, **words), name or "trace"))
    if isinstance(source, Mapping):
        section = top_level(dict(source), "planner.workload(...)")
        return Workload(workload_from_document(section, Path.cwd())[0], dict(source))
    path = workload_file(str(source))
    options = trace_options(path, **words)
    if is_trace(path):
        trace = read_with(path, options)
        return Workload(replace(trace, name=name or trace.name), _trace_document(path, name, words))
    if options != TraceOptions():
        raise InputError(
            f"{source}: must be a trace where columns, rows or its clock are chosen, is a workload file.",
            hint="Leave these arguments out.",
        )
    return Workload(read_workload(path)[0], str(source) if str(source) in shipped_workloads() else str(path.absolute()))


def workload_from_metrics(
    *answers: str | Path,
    prometheus: str = "",
    engine: str = "",
    window: str = "",
    selector: str = "",
    longest: int | None = None,
    name: str = "metered",
) -> Workload:
    """A workload of what running engines count, from `answers` of Prometheus in files, or of the one at an address,
    with the token of PLANNER_PROMETHEUS_TOKEN where that is set.

    >>> metered = planner.workload_from_metrics(prometheus="http://localhost:9090", window="6h")
    >>> metered.notes, metered.facts.prompts.p99
    >>> planner.plan(inventory={"H200": 64}, workload=metered)

    `engine`: vllm or sglang (empty: whose metrics there are); `window`: the last so long (1h); `selector`: only series
    with these labels, as PromQL has them; `longest`: tokens that no request exceeds. Raises InputError where metrics
    are missing, or of several deployments.
    """
    from planner.runs.live.lengths import metered_workload
    from planner.runs.live.prometheus import prometheus_at

    if bool(answers) == bool(prometheus):
        raise InputError(
            "workload_from_metrics: must get answers alone, or prometheus with window and selector.",
            hint="Name the files of answers, or the address.",
        )
    source = prometheus_at(prometheus) if prometheus else [Path(path) for path in answers]
    metered = metered_workload(source, engine, name, longest, window=window, selector=selector)
    return Workload(metered.profile, notes=metered.notes, source=metered.source)


def _trace_document(path: Path, name: str, words: Mapping[str, Any]) -> dict[str, object]:
    """What a scenario says of the trace."""
    keys = {"first": "from", "end": "to"}
    document = {"kind": "trace", "name": name, "file": str(path.absolute())}
    document |= {keys.get(key, key): value for key, value in words.items() if value and value != BLOCK_TOKENS}
    return {key: _plain(value) for key, value in document.items() if value}


def _plain(value: Any) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [str(inner) for inner in value] if isinstance(value, list | tuple | set | frozenset) else value


def document_of(value: Any) -> object:
    """What stands under `workload` in a scenario: of a workload at hand, or of a data frame of requests."""
    return workload(value).document if isinstance(value, Workload) or _is_frame(value) else value


def _is_frame(value: Any) -> "TypeGuard[pd.DataFrame]":
    """Whether a value is a data frame; pandas need not be loaded to say no."""
    return hasattr(value, "iloc") and hasattr(value, "columns")
