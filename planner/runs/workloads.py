"""Traces read and counted: as they pass by where their rows are nearly in order of arrival, else in memory."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from planner.domain import LengthProfile
from planner.domain.workload import TraceSummary
from planner.errors import InputError
from planner.files.tables.traces.forms import is_trace
from planner.files.tables.traces.options import TraceOptions
from planner.files.tables.traces.streams import TraceStream, UnorderedError
from planner.files.tables.workloads import load_workload, workload_file
from planner.workload import describe, draw_stretches, profile_and_summary, take_stretches, tally_requests
from planner.workload.summary import Requests, blocks_of


def profile_of_trace(
    path: Path, options: TraceOptions, cache_tokens: Sequence[int] = ()
) -> tuple[LengthProfile, TraceSummary]:
    """The profile of a trace, and what it says, also of caches of `cache_tokens`. Memory does not grow with the trace,
    but for one whose rows are in no order of arrival (16 bytes a request), are turns of sessions (50) or have ids of
    blocks (24, and 8 an id; 100 a block while reuse is counted)."""
    stream = TraceStream(path, options)
    try:
        tally = tally_requests(stream.blocks())
    except UnorderedError:
        return profile_and_summary(stream.read_whole(), cache_tokens)
    return tally.profile(stream.name, clock=stream.clock), tally.summary(stream.name, reading=stream.reading)


def summary_of(name_or_path: str, options: TraceOptions, cache_tokens: Sequence[int] = ()) -> TraceSummary:
    """What a shipped workload, a workload file or a trace says, also of caches of `cache_tokens`. Raises InputError
    where options of a trace are asked of a workload that is none."""
    path = workload_file(name_or_path)
    if is_trace(path):
        return profile_of_trace(path, options, cache_tokens)[1]
    if options != TraceOptions():
        raise InputError(
            f"{name_or_path}: must be a trace where columns, rows or its clock are chosen, is a workload file.",
            hint="Leave these options out, or put them into the file (kind: trace).",
        )
    return describe(load_workload(name_or_path), cache_tokens)


def sample_of_trace(path: Path, options: TraceOptions, sample: int, seed: int) -> tuple[str, TraceSummary]:
    """About `wanted` requests of a trace as CSV, and what the whole trace says; memory as for `profile_of_trace`."""
    stream = TraceStream(path, options)
    try:
        tally = tally_requests(stream.blocks())
        summary = tally.summary(stream.name, reading=stream.reading)
    except UnorderedError:
        trace = stream.read_whole()
        summary = profile_and_summary(trace)[1]
        return _csv(_sampled(summary, blocks_of(trace), sample, seed)), summary
    return _csv(_sampled(summary, stream.blocks(), sample, seed)), summary


def _sampled(summary: TraceSummary, blocks: Iterable[Requests], sample: int, seed: int) -> Iterator[Requests]:
    stretches = draw_stretches(
        requests=summary.requests or 0, span_s=summary.span_s or 0.0, sample_size=sample, seed=seed
    )
    return take_stretches(blocks, stretches)


def _csv(blocks: Iterable[Requests]) -> str:
    lines = ["arrival_s,input_tokens,output_tokens\n"]
    for arrivals, inputs, outputs in blocks:
        columns = (arrivals.tolist(), inputs.tolist(), outputs.tolist())
        lines += [f"{arrival:.6f},{prompt},{answer}\n" for arrival, prompt, answer in zip(*columns, strict=True)]
    return "".join(lines)
