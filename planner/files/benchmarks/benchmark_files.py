"""The door to benchmark results: files of any format that is read, told by what they hold, not by their names."""

from collections.abc import Callable, Sequence
from pathlib import Path

from planner.domain import BenchmarkRun
from planner.errors import InputError
from planner.files.benchmarks.aiperf_records import is_aiperf_record, read_aiperf_records
from planner.files.benchmarks.conditions import (
    Conditions,
    deployment_of,
    refuse_contradicted_runs,
    require_conditions,
)
from planner.files.benchmarks.dynamo_profiles import MAGIC, read_dynamo_profile
from planner.files.benchmarks.guidellm_reports import is_guidellm_report, read_guidellm_report
from planner.files.benchmarks.inference_perf_stages import is_inference_perf_stage, read_inference_perf_stage
from planner.files.benchmarks.llmd_reports import is_llmd_report, read_llmd_report
from planner.files.benchmarks.point_tables import is_point_table, read_point_table
from planner.files.benchmarks.tool_runs import ToolResult, benchmark_runs
from planner.files.benchmarks.vllm_results import is_vllm_result, read_vllm_result
from planner.files.disk.csv_rows import listed
from planner.files.disk.documents import parse_json, read_json, read_yaml
from planner.files.disk.opening import MOST_OF_A_LINE, MOST_OF_A_LIST, opened
from planner.files.sections import Section

FORMATS = (
    "measured points (CSV), llm-d Benchmark Report 0.2 (YAML, JSON), vllm bench serve (JSON), aiperf "
    "profile_export.jsonl, Dynamo profiler (npz), guidellm report 2 (JSON, YAML), inference-perf stage (JSON)"
)
_DOCUMENTS: tuple[tuple[Callable[[Section], bool], Callable[[Section], ToolResult]], ...] = (
    (is_guidellm_report, read_guidellm_report),
    (is_llmd_report, read_llmd_report),
    (is_inference_perf_stage, read_inference_perf_stage),
    (is_vllm_result, read_vllm_result),
)


def load_benchmarks(paths: Sequence[Path], conditions: Conditions | None = None) -> tuple[BenchmarkRun, ...]:
    """The runs of files, in order. `conditions` say what files of tools leave open; tables of points tell all.

    InputError names file and key of what cannot be read; all conditions at once that neither the files nor the
    caller says, with their flags; and what the two say differently.
    """
    stated_conditions = conditions or Conditions()
    contents = [_read(path) for path in paths]
    require_conditions((content.stated for content in contents if isinstance(content, ToolResult)), stated_conditions)
    return tuple(run for content in contents for run in _runs(content, stated_conditions))


def _runs(content: ToolResult | tuple[BenchmarkRun, ...], conditions: Conditions) -> tuple[BenchmarkRun, ...]:
    if isinstance(content, ToolResult):
        return benchmark_runs(content, deployment_of(content.stated, conditions))
    refuse_contradicted_runs(content, conditions)
    return content


def _read(path: Path) -> ToolResult | tuple[BenchmarkRun, ...]:
    """A file by what it begins with."""
    with opened(path) as stream:
        head = stream.read(MOST_OF_A_LINE + 1)
    if head.startswith(MAGIC):
        return read_dynamo_profile(path)
    text = head.decode("utf-8-sig", errors="replace").lstrip()
    first_line = text.partition("\n")[0]
    if not text.startswith("{"):
        return read_point_table(path) if is_point_table(first_line) else _read_document(read_yaml(path))
    if _begins_with_a_record(first_line):
        return read_aiperf_records(path)
    return _read_document(read_json(path, most=MOST_OF_A_LIST))


def _begins_with_a_record(line: str) -> bool:
    """Whether the first line is a record of a request, if a damaged one."""
    if '"request_start_ns"' not in line:
        return False
    try:
        return is_aiperf_record(parse_json(line, file="the first line"))
    except InputError:
        return True  # its reader names the line


def _read_document(document: Section) -> ToolResult:
    for recognises, read in _DOCUMENTS:
        if recognises(document):
            return read(document)
    hint = f"Read are {FORMATS}."
    if document.holds_section("request_throughput"):
        hint = "Give aiperf's profile_export.jsonl beside it: the summary has no requests."
    raise InputError(
        f"{document.file}: must be a benchmark result in a format that is read, got the keys {listed(document, 8)}.",
        hint=hint,
    )
