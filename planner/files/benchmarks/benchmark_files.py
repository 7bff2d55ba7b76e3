"""The door to benchmark results: files of any format that is read, told by what they hold, not by their names."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from planner.domain import BenchmarkRun, GpuSpec, ModelSpec, NamedRun
from planner.errors import InputError
from planner.files.benchmarks.aiperf_records import is_aiperf_record, read_aiperf_records
from planner.files.benchmarks.conditions import (
    PRECISION_RULE,
    Conditions,
    deployment_of,
    refuse_contradicted_runs,
    require_conditions,
)
from planner.files.benchmarks.dynamo_profiles import MAGIC, read_dynamo_profile
from planner.files.benchmarks.guidellm_reports import is_guidellm_report, read_guidellm_report
from planner.files.benchmarks.llmd_reports import (
    is_inference_perf_stage,
    is_llmd_report,
    read_inference_perf_stage,
    read_llmd_report,
)
from planner.files.benchmarks.published_points import MOST_FAULTS, PUBLISHED_COLUMNS, read_published_points
from planner.files.benchmarks.serving_points import SERVING_COLUMNS, read_serving_points
from planner.files.benchmarks.silicon_points import SILICON_COLUMNS, read_silicon_points
from planner.files.benchmarks.tool_runs import ToolResult, benchmark_runs
from planner.files.benchmarks.vllm_results import is_vllm_result, read_vllm_result
from planner.files.disk.csv_rows import csv_cells, listed
from planner.files.disk.documents import parse_json, read_json, read_yaml
from planner.files.disk.names import canonical, shipped_models
from planner.files.disk.opening import MOST_OF_A_LINE, MOST_OF_A_LIST, opened, packing_of
from planner.files.models.gpu_specs import load_gpu_specs
from planner.files.models.models import load_model
from planner.files.sections import Section, nearest_hint

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
    """A file by what it begins with; packed ones are tables."""
    with opened(path) as stream:
        packed = bool(packing_of(path, stream))
        head = stream.read(MOST_OF_A_LINE + 1)
    if head.startswith(MAGIC):
        return read_dynamo_profile(path)
    if packed:
        return read_point_table(path)
    text = head.decode("utf-8-sig", errors="replace").lstrip()
    first_line = text.partition("\n")[0]
    if not text.startswith("{"):
        return read_point_table(path) if is_point_table(first_line) else _read_document(read_yaml(path))
    if _begins_with_a_record(first_line):
        return read_aiperf_records(path)
    return _read_document(read_json(path, most_bytes=MOST_OF_A_LIST))


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


_FOLDER = Path(__file__).resolve().parents[1] / "measurement_sets"
GIVEN_POINTS = (_FOLDER / "published_points.csv", _FOLDER / "serving_points.csv", _FOLDER / "silicon_points.csv.xz")
# of the rows of a table that name none
_SOURCES: Mapping[str, str] = {
    "serving_points.csv": "InferenceX (SemiAnalysis), public results, read November 2026",
    "silicon_points.csv.xz": "systems/silicon_sample.csv of aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0)",
}
# a column that one form alone has -> all that the form needs, and its reader
_FORMS: dict[str, tuple[Sequence[str], Callable[[Path], tuple[BenchmarkRun, ...]]]] = {
    "phase_or_metric": (PUBLISHED_COLUMNS, read_published_points),
    "disaggregated": (SERVING_COLUMNS, read_serving_points),
    "silicon_data_source": (SILICON_COLUMNS, read_silicon_points),
}


def load_given_benchmarks() -> tuple[BenchmarkRun, ...]:
    """The runs that come with the planner, each with its source: published points, then two sets of runs under load."""
    return tuple(
        run if run.source else replace(run, source=_SOURCES[path.name])
        for path in GIVEN_POINTS
        for run in read_point_table(path)
    )


def is_point_table(header: str) -> bool:
    """Whether a first line is the header of a CSV table: two names at least, GPU and model or a form's own column."""
    cells = {cell.strip(' \t\r"') for cell in header.split(",")}
    return {"gpu", "model"} <= cells or bool(cells & _FORMS.keys())


def read_point_table(path: Path) -> tuple[BenchmarkRun, ...]:
    """The runs of a CSV file in one of the forms, which its header tells. InputError as their readers."""
    header = [cell.strip() for cell in next(csv_cells(path), [])]
    forms = [form for column, form in _FORMS.items() if column in header]
    if len(forms) != 1:
        rules = " or ".join(f"{', '.join(columns)} (points with {name})" for name, (columns, _) in _FORMS.items())
        raise InputError(
            f"{path}: the header must name the columns of one form of measured points, got {listed(header)}.",
            hint=f"Name {rules}.",
        )
    return forms[0][1](path)


def resolve_names(
    runs: Iterable[BenchmarkRun],
    *,
    gpus: Mapping[str, GpuSpec] | None = None,
    models: Mapping[str, ModelSpec] | None = None,
) -> tuple[NamedRun, ...]:
    """Each run with its records, in order, or with the reason why it has none.

    `gpus`: all GPU types by name, the shipped ones where it is None; `models` stand beside the shipped ones.
    """
    specs = load_gpu_specs() if gpus is None else gpus
    return tuple(_resolved(run, specs, models or {}) for run in runs)


def require_names(
    runs: Iterable[BenchmarkRun],
    *,
    gpus: Mapping[str, GpuSpec] | None = None,
    models: Mapping[str, ModelSpec] | None = None,
) -> tuple[NamedRun, ...]:
    """As `resolve_names`; InputError with file, row and reason of the first five runs that have one."""
    resolved = resolve_names(runs, gpus=gpus, models=models)
    faults = [item for item in resolved if item.reason]
    if faults:
        messages = " ".join(f"{item.run.file}: row {item.run.row}: {item.reason}" for item in faults[:MOST_FAULTS])
        more = f" And {len(faults) - MOST_FAULTS} more runs." if len(faults) > MOST_FAULTS else ""
        raise InputError(f"{messages}{more}", hint=faults[0].hint)
    return resolved


def _resolved(run: BenchmarkRun, specs: Mapping[str, GpuSpec], further: Mapping[str, ModelSpec]) -> NamedRun:
    gpu = specs.get(canonical(run.gpu, specs))
    model = further.get(run.model) or _shipped_model(run.model)
    reason, hint = run.doubt, "Leave the run out." if run.doubt else ""
    if run.precision.doubt:
        reason, hint = run.precision.doubt, f"precision may be {PRECISION_RULE}."
    if gpu is None:
        reason, hint = f"there is no GPU type {run.gpu!r:.80}.", nearest_hint(run.gpu[:80], specs, noun="GPU types")
    elif model is None:
        names = {**further, **shipped_models()}
        reason, hint = f"there is no model {run.model!r:.80}.", nearest_hint(run.model[:80], names, noun="models")
    elif not run.decode.gpus or (run.prefill is not None and not run.prefill.gpus):
        reason = "its degrees and workers do not make up the GPUs that it tells."
        hint = "Give workers and degrees of each pool whose product is its GPUs, or leave the run out."
    return NamedRun(run=run, gpu=gpu, model=model, reason=reason, hint=hint)


@cache
def _shipped_model(name: str) -> ModelSpec | None:
    return load_model(name) if canonical(name, shipped_models()) in shipped_models() else None
