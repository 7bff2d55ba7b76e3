"""Workload files: a literal block of lengths with their counts or probabilities, or a formula; and their text.

    kind: lengths    lengths: | input_tokens,requests,output_tokens      (one row a distinct prompt length)
                     lengths: | input_tokens,probability[,output_tokens]
    kind: normal     mean, standard_deviation, low, high                 (truncated normal over whole lengths)
    kind: trace      file, and perhaps time_unit, columns, block_tokens, name, where, drop, from, to, last
                     (requests in a file, see `planner/files/tables/traces`)
    kind: sessions   sessions_per_s, span_s, turns, messages, answers, pauses ...
                     (drawn from marginals, see `planner/workload/sessions.py`)

`output_tokens` is the mean answer to prompts of that length. `prefix` (see `prefix_tables`) tells of lengths how their
prompts begin alike, `counts` (see `count_tables`) how arrivals bunch.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from planner.domain import BLOCK_TOKENS, InputHash, LengthProfile, RequestTrace
from planner.domain.workload import truncated_normal
from planner.errors import InputError
from planner.files.disk.documents import input_hash, read_yaml
from planner.files.disk.mistakes import read_all
from planner.files.disk.names import canonical, is_path, resolve, shipped_workloads
from planner.files.disk.single_files import refuse_existing, write_file
from planner.files.disk.strict_yaml import EXPONENT_FLOAT
from planner.files.sections import MOST_TOKENS, NAME_PATTERN, Section, nearest_hint, referred_from
from planner.files.tables.length_tables import (
    LengthTable,
    counts_table,
    length_rows,
    prefix_document,
    read_counts,
    read_prefix,
)
from planner.files.tables.traces.clocks import TimeUnit
from planner.files.tables.traces.forms import TRACES, holds_requests
from planner.files.tables.traces.options import trace_options
from planner.files.tables.traces.reader import read_trace, read_with
from planner.workload.sessions import SessionMarginals, Spread, SystemPrompts, draw_sessions

_COMMON_KEYS = ("name", "kind", "licence", "citation", "source", "mean_output_tokens", "max_output_tokens")
_LENGTHS_KEYS = (*_COMMON_KEYS, "requests", "arrival_rps", "burstiness", "clock", "lengths", "prefix", "counts")
_NORMAL_KEYS = (*_COMMON_KEYS, "mean", "standard_deviation", "low", "high")
_TRACE_KEYS = (
    "name", "kind", "file", "time_unit", "columns", "block_tokens", "where", "drop", "from", "to", "last",
)  # fmt: skip
_SESSIONS_KEYS = (
    "name", "kind", "licence", "citation", "source", "sessions_per_s", "span_s", "turns", "first_message_tokens",
    "message_tokens", "answer_tokens", "answer_s_per_token", "pause_s", "tool_pause_s", "tool_share", "system_prompt",
    "most_tokens", "block_tokens", "seed",
)  # fmt: skip
_LONGEST_NORMAL = 1_000_000
_MOST_TURNS, _MOST_PROMPTS, _MOST_CV = 100_000, 100_000, 1000
_LONGEST_S, _MOST_PER_S = 31_536_000, 1_000_000


def load_workload(name_or_path: str, base: Path | None = None) -> LengthProfile | RequestTrace:
    """A shipped workload, a workload file or a trace (CSV or JSON, packed or not), relative to `base`.

    A trace comes back as its requests: whoever asked summarises them.
    """
    return read_workload(workload_file(name_or_path, base))[0]


def workload_file(name_or_path: str, base: Path | None = None) -> Path:
    """The file behind a shipped name or a path."""
    if is_path(name_or_path, ".yaml", ".yml", *TRACES):
        return resolve(name_or_path, base)
    shipped = shipped_workloads()
    name = canonical(name_or_path, shipped)
    if name not in shipped:
        raise InputError(
            f"There is no workload {name_or_path!r}.",
            hint=nearest_hint(name_or_path, shipped, noun="shipped workloads")
            + " For your own give the path of a workload file (.yaml) or a trace (.csv, .jsonl).",
        )
    return shipped[name]


def read_workload(path: Path) -> tuple[LengthProfile | RequestTrace, tuple[InputHash, ...]]:
    """The profile of a workload file, or the requests of a trace; and the files that were read."""
    if holds_requests(path):
        return read_trace(path), (input_hash(path),)
    workload, inputs = read_all(read_yaml(path), lambda document: workload_from_document(document, path.parent))
    return workload, (input_hash(path), *inputs)


def files_of_workload(path: Path) -> tuple[Path, ...]:
    """The files whose content decides a workload: its own, and the trace that it names. InputError where it is none."""
    if holds_requests(path):
        return (path,)
    document = read_yaml(path)
    return (path, resolve(document.text("file"), path.parent)) if document.holds_text("file") else (path,)


def workload_from_document(document: Section, base: Path) -> tuple[LengthProfile | RequestTrace, tuple[InputHash, ...]]:
    """The profile that a workload document describes, or the requests of the trace that it names relative to `base`;
    and the files that were read."""
    kind = document.one_of("kind", ("lengths", "normal", "trace", "sessions"))
    if kind == "trace":
        return _trace(document, base)
    if kind == "sessions":
        return draw_sessions(_marginals(document)), ()
    return _normal_profile(document) if kind == "normal" else _lengths_profile(document), ()


def _trace(document: Section, base: Path) -> tuple[RequestTrace, tuple[InputHash, ...]]:
    document.allow_only(*_TRACE_KEYS)
    path = resolve(document.text("file"), base)
    name = document.name("name") if "name" in document else ""
    columns, where = document.section("columns", optional=True), document.section("where", optional=True)
    with referred_from(document, "file"):
        options = trace_options(
            path,
            columns={key: columns.text(key) for key in columns},
            time_unit=document.choice("time_unit", TimeUnit) if "time_unit" in document else None,
            block_tokens=document.integer("block_tokens", default=BLOCK_TOKENS, low=1, high=MOST_TOKENS),
            where={key: _values(where, key) for key in where},
            drop=document.texts("drop") if "drop" in document else (),
            first=_moment(document, "from"),
            end=_moment(document, "to"),
            last=_moment(document, "last"),
        )
        trace = read_with(path, options)
        return replace(trace, name=name or trace.name), (input_hash(path),)


def _marginals(document: Section) -> SessionMarginals:
    document.allow_only(*_SESSIONS_KEYS)
    turns, system = document.section("turns"), document.section("system_prompt", optional=True)
    turns.allow_only("mean", "spread")
    system.allow_only("tokens", "distinct", "zipf")
    for key in ("licence", "citation", "source"):
        document.text(key, default="")
    is_geometric = turns.one_of("spread", ("geometric", "none"), default="geometric") == "geometric"
    mean_turns = turns.number("mean", low=1, high=_MOST_TURNS)
    if not is_geometric and not mean_turns.is_integer():
        raise turns.fault("mean", "a whole number where all sessions have as many turns")
    tool_share = document.number("tool_share", default=0.0, low=0, high=1)
    message = _spread(document, "message_tokens", MOST_TOKENS)
    pause = _spread(document, "pause_s", _LONGEST_S)
    system_tokens = system.integer("tokens", default=0, low=0, high=MOST_TOKENS)
    return SessionMarginals(
        name=document.name("name"),
        sessions_per_s=document.number("sessions_per_s", above=0, high=_MOST_PER_S),
        span_s=document.number("span_s", above=0, high=_LONGEST_S),
        mean_turns=mean_turns,
        is_geometric=is_geometric,
        first_message=_spread(document, "first_message_tokens", MOST_TOKENS, message),
        message=message,
        answer=_spread(document, "answer_tokens", MOST_TOKENS),
        pause=pause,
        tool_pause=_spread(document, "tool_pause_s", _LONGEST_S, None if tool_share > 0 else pause),
        tool_share=tool_share,
        system=SystemPrompts(
            tokens=system_tokens,
            distinct=system.integer("distinct", default=1, low=1, high=_MOST_PROMPTS),
            zipf=system.number("zipf", default=1.0, low=0, high=10),
        ),
        answer_s_per_token=document.number("answer_s_per_token", default=0.02, low=0, high=10),
        most_tokens=document.integer("most_tokens", default=MOST_TOKENS, low=system_tokens + 2, high=MOST_TOKENS),
        block_tokens=document.integer("block_tokens", default=BLOCK_TOKENS, low=1, high=MOST_TOKENS),
        seed=document.integer("seed", default=0, low=0),
    )


def _spread(document: Section, key: str, most: float, default: Spread | None = None) -> Spread:
    """A mean and a coefficient of variation; `default` where the key may be left out."""
    if default is not None and key not in document:
        return default
    section = document.section(key)
    section.allow_only("mean", "cv")
    return Spread(
        mean=section.number("mean", above=0, high=most), cv=section.number("cv", default=0.0, low=0, high=_MOST_CV)
    )


def _values(where: Section, key: str) -> tuple[str, ...]:
    """One value or several; numbers and truth values as a file writes them."""
    if where.holds_list(key):
        return tuple(where.texts(key))
    return (where.text(key) if where.holds_text(key) else f"{where.number(key):g}",)


def _moment(document: Section, key: str) -> str:
    return document.text(key, default="")


def _normal_profile(document: Section) -> LengthProfile:
    document.allow_only(*_NORMAL_KEYS)
    low = document.integer("low", low=0, high=MOST_TOKENS)
    mean_output = document.number("mean_output_tokens", above=0, high=MOST_TOKENS)
    return truncated_normal(
        name=document.name("name"),
        mean=document.number("mean"),
        standard_deviation=document.number("standard_deviation", above=0),
        low=low,
        high=document.integer("high", low=max(low, 1), high=low + _LONGEST_NORMAL),
        mean_output_tokens=mean_output,
        max_output_tokens=_max_output(document, mean_output),
        licence=document.text("licence", default=""),
        citation=document.text("citation", default=""),
    )


def _max_output(document: Section, at_least: float) -> int:
    return document.integer("max_output_tokens", low=math.ceil(at_least * (1 - 1e-9)), high=MOST_TOKENS)


def _lengths_profile(document: Section) -> LengthProfile:
    document.allow_only(*_LENGTHS_KEYS)
    table = LengthTable.read(document)
    mean_output = _mean_output(document, table)
    return LengthProfile(
        name=document.name("name"),
        input_tokens=table.input_tokens,
        probabilities=table.probabilities,
        output_tokens=table.output_tokens,
        mean_output_tokens=mean_output,
        max_output_tokens=_max_output(document, max((mean_output, *table.output_tokens))),
        requests=_requests(document, table),
        arrival_rps=document.number("arrival_rps", above=0) if "arrival_rps" in document else None,
        burstiness=document.number("burstiness", low=0) if "burstiness" in document else None,
        licence=document.text("licence", default=""),
        citation=document.text("citation", default=""),
        clock=document.text("clock", default=""),
        prefix=read_prefix(document.section("prefix")) if "prefix" in document else None,
        counts=read_counts(document) if "counts" in document else None,
    )


def _mean_output(document: Section, table: LengthTable) -> float:
    if not table.output_tokens:
        return document.number("mean_output_tokens", above=0, high=MOST_TOKENS)
    of_rows = math.fsum(p * o for p, o in zip(table.probabilities, table.output_tokens, strict=True))
    mean = document.number("mean_output_tokens", default=of_rows, above=0, high=MOST_TOKENS)
    if not math.isclose(mean, of_rows, rel_tol=1e-3):
        raise document.fault("mean_output_tokens", f"the mean of the lengths' output_tokens, {of_rows:.6g}")
    if mean <= 0:
        raise document.fault("lengths", "with answers: some output_tokens above 0")
    return mean


def _requests(document: Section, table: LengthTable) -> int | None:
    if table.requests is None:
        return document.integer("requests", low=1) if "requests" in document else None
    if document.integer("requests", default=table.requests, low=1) != table.requests:
        raise document.fault("requests", f"the sum of the lengths' requests, {table.requests}")
    return table.requests


def workload_document(profile: LengthProfile, *, source: str = "") -> dict[str, object]:
    """The workload document that reads back as `profile`."""
    facts: Mapping[str, object] = {
        "licence": profile.licence,
        "citation": profile.citation,
        "source": source,
        "requests": profile.requests,
        "mean_output_tokens": profile.mean_output_tokens,
        "max_output_tokens": profile.max_output_tokens,
        "arrival_rps": profile.arrival_rps,
        "burstiness": profile.burstiness,
        "clock": profile.clock,
    }
    document: dict[str, object] = {"name": profile.name, "kind": "lengths"}
    document |= {key: value for key, value in facts.items() if value not in (None, "")}
    document["lengths"] = length_rows(profile)
    if profile.counts is not None:
        document["counts"] = counts_table(profile.counts)
    return document if profile.prefix is None else document | {"prefix": prefix_document(profile.prefix)}


class _BlockDumper(yaml.SafeDumper):
    """Texts of several lines as literal blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_BlockDumper.add_representer(str, _represent_text)
# what the loader would read as a number is quoted
_BlockDumper.add_implicit_resolver(*EXPONENT_FLOAT)


def write_workload(profile: LengthProfile, path: Path, force: bool = False, *, source: str = "") -> None:
    """Write a workload file, whole or not at all; an existing one only with `force`."""
    refuse_existing(path, force=force)
    write_file(path, workload_text(profile, source=source), force=force)


def workload_text(profile: LengthProfile, *, source: str = "") -> bytes:
    """A workload file. `source` says in words how the profile came about. The same profile gives the same bytes."""
    _require_name(profile.name)
    document = workload_document(profile, source=source)
    text: str = yaml.dump(document, Dumper=_BlockDumper, sort_keys=False, allow_unicode=True, width=100)
    return text.encode()


def workload_path(folder: Path, name: str) -> Path:
    """Where a workload of that name belongs in `folder`. Raises InputError for a name that is no plain name."""
    _require_name(name)
    return folder / f"{name}.yaml"


def _require_name(name: str) -> None:
    if not NAME_PATTERN.fullmatch(name):
        raise InputError(
            f"workload name: must be letters, digits, '.', '_' or '-', at most 63, got {name!r}.",
            hint="Rename the workload.",
        )
