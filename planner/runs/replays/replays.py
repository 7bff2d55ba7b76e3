"""A replay of a saved plan: its rate, its trace, its failures, and its folder, sealed."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from planner import files, report
from planner.domain import InputHash, LengthProfile, Plan, RequestTrace
from planner.domain.arrivals import Failure, ReplaySettings
from planner.domain.replay import ReplayResult, ReplaySweep
from planner.errors import InputError
from planner.files.disk.names import shipped_scenarios, shipped_workloads
from planner.files.plan.digests import read_sealed, require_schema, sealed_text
from planner.files.records import load_record, record_document
from planner.files.tables.traces.forms import TRACES
from planner.files.tables.workloads import read_workload
from planner.runs.pages import page_bytes
from planner.workload import summarize

PROMISE, LENGTHS = "promise", "lengths"
"""Words for a rate and a trace: what the plan promises, and its own table of lengths."""

_MOST_RPS = 1e6
_SCENARIOS = (".yaml", ".yml")


def rate_of(plan: Plan, rate: str | float | None) -> float:
    """Requests/s: a number, `0.9x` of the plan's capacity, or its `promise`, which None means, too. Raises as `rate_in`
    does."""
    return rate_in(plan.outlook.promise_rps, plan.throughput_rps, rate)


def rate_in(promise_rps: float, capacity_rps: float, rate: str | float | None) -> float:
    """Requests/s: a number, `0.9x` of the capacity, or the `promise`, which None means, too.

    InputError for other words, or a rate that no replay can have.
    """
    if rate is None or rate == PROMISE:
        rate_rps = promise_rps
    else:
        rate_rps = _number(str(rate).removesuffix("x"), rate)
        if isinstance(rate, str) and rate.endswith("x"):
            rate_rps *= capacity_rps
    if not 0 < rate_rps <= _MOST_RPS:
        raise InputError(
            f"rate: must be above 0 and at most {_MOST_RPS:g} requests/s, got {rate}.",
            hint="Give 0.9x, promise, or requests/s.",
        )
    return rate_rps


def _number(text: str, rate: str | float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(
            f"rate: must be a share of the capacity (0.9x), promise, or requests/s, got {rate!r}.",
            hint="Write --rate 0.9x, --rate promise or --rate 250.",
        )
    return number


def trace_of(plan: Plan, name: str | None, run: Path | None = None) -> RequestTrace | LengthProfile:
    """The trace of that name: a file, a workload, or `lengths`; None: the one that the plan was made for where it is at
    hand, else the plan's own table of lengths.

    The plan's own trace is looked for by its SHA-256, beside the run, in the current folder and among shipped
    scenarios. InputError as `files.load_workload` tells it.
    """
    if name == LENGTHS:
        return plan.scenario.workload
    if name is not None:
        return files.load_workload(name)
    return _trace_again(plan, run) or plan.scenario.workload


def unasked_lengths(plan: Plan, name: object, source: object) -> tuple[str, ...]:
    """A note where nobody named a trace and the plan's own lengths stand in for it."""
    if name is not None or source is not plan.scenario.workload:
        return ()
    return (
        f"No trace was named, and the one that workload {plan.scenario.workload.name} was made from, if any, is not at "
        "hand unchanged: prompts and answers were drawn from the plan's own table of lengths.",
    )


def _trace_again(plan: Plan, run: Path | None) -> RequestTrace | None:
    """The requests that the plan's workload was summarised from, where their files lie unchanged; those of a workload
    that draws sessions are drawn again."""
    digests = dict(plan.provenance.input_hashes)
    if not any(name.lower().endswith(TRACES) for name in digests):
        return None
    for path in _unchanged(digests, run, _SCENARIOS):
        trace = _trace_behind(path, digests)
        if trace is not None:
            return trace
    traces = map(_trace_in, _unchanged(digests, run, (*TRACES, *_SCENARIOS)))
    return next((trace for trace in traces if trace is not None), None)


def _trace_in(path: Path) -> RequestTrace | None:
    """The requests of a file; None where it has none, as a model's config.json."""
    try:
        trace = files.load_workload(str(path.absolute()))
    except InputError:
        return None
    return trace if isinstance(trace, RequestTrace) else None


def _unchanged(digests: dict[str, str], run: Path | None, suffixes: tuple[str, ...]) -> list[Path]:
    """Files with the name and the content of an input of the plan."""
    beside = [] if run is None else [run.absolute(), *list(run.absolute().parents)[:2]]
    shipped = {path.parent for path in (*shipped_scenarios().values(), *shipped_workloads().values())}
    paths = [folder / name for folder in (Path.cwd(), *beside, *sorted(shipped)) for name in digests]
    fitting = [path for path in dict.fromkeys(paths) if path.name.lower().endswith(suffixes) and path.is_file()]
    return [path for path in fitting if files.input_hash(path).sha256 == digests[path.name]]


def _trace_behind(path: Path, digests: dict[str, str]) -> RequestTrace | None:
    """The trace that a scenario names, read as the scenario says; None where it is none, or another by now."""
    traces: list[RequestTrace] = []
    behind: list[InputHash] = []

    def read(file: Path) -> tuple[LengthProfile | RequestTrace, tuple[InputHash, ...]]:
        requests, inputs = read_workload(file)
        behind.extend(inputs)
        return requests, inputs

    def keep(trace: RequestTrace) -> LengthProfile:
        traces.append(trace)
        return summarize(trace)

    try:
        scenario = files.load_scenario(path, keep, (), read)
    except InputError:  # a workload file, or a scenario whose files are gone: then its trace may lie elsewhere
        return None
    behind.extend(item for item in scenario.inputs if item.name.lower().endswith(TRACES))
    same = all(digests.get(item.name) == item.sha256 for item in behind)
    return traces[0] if traces and same else None


def with_failures(result: ReplayResult, settings: ReplaySettings, *notes_before: str) -> ReplayResult:
    """The result with what happened when, and what is to be noted of its trace."""
    events = result.events or tuple((failure.at_s, _event(failure)) for failure in settings.failures)
    late = [failure for failure in settings.failures if failure.at_s >= result.warm_up_s + result.seconds]
    notes = [f"{_event(failure)} at {failure.at_s:g} s: after the last request, so nobody met it." for failure in late]
    return replace(result, events=events, notes=(*notes_before, *result.notes, *notes))


def _event(failure: Failure) -> str:
    """`h200-1 loses 2 nodes, back after 60 s`."""
    nodes = "all its servers" if failure.nodes == 0 else "1 node" if failure.nodes == 1 else f"{failure.nodes} nodes"
    back = "" if failure.back_after_s is None else f", back after {failure.back_after_s:g} s"
    return f"{failure.island} loses {nodes}{back}"


REQUEST_KEY = "asked"
NAMES = (*report.replay_file_names(), files.PAGE_FILE)
"""All that such a folder may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedReplay:
    """What a replay was asked for. `trace`: as it was named (None: the one that the plan was made for); `sweep`:
    whether the highest rate that holds was looked for, too."""

    trace: str | None
    rate_rps: float
    sweep: bool
    settings: ReplaySettings


def replay_folder(request: AskedReplay, result: ReplayResult, rates: ReplaySweep | None) -> dict[str, bytes]:
    """Relative path -> content of every file."""
    page = page_bytes(report.replay_page(result, rates))
    written = report.replay_files(result, rates)
    document = json.loads(written[files.REPLAY_FILE]) | {REQUEST_KEY: record_document(request)}
    return {**written, files.REPLAY_FILE: sealed_text(document, indent=2), files.PAGE_FILE: page}


def asked_of(folder: Path) -> AskedReplay:
    """What the replay in a folder was asked for. InputError where it was edited, or does not tell."""
    path = folder / files.REPLAY_FILE
    document: dict[str, Any] = read_sealed(path).plain()
    if not isinstance(document.get(REQUEST_KEY), dict):
        raise InputError(
            f"{path}: {REQUEST_KEY}: must be what was asked for, is missing.", hint="Replay the plan again."
        )
    require_schema(AskedReplay, document[REQUEST_KEY], f"{path}: {REQUEST_KEY}")
    return load_record(AskedReplay, document[REQUEST_KEY])
