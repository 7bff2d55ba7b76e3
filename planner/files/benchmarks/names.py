"""GPU types and models that benchmark runs name: their records, or the reason why a run cannot be predicted."""

from collections.abc import Iterable, Mapping
from functools import cache

from planner.domain import BenchmarkRun, GpuSpec, ModelSpec, NamedRun
from planner.errors import InputError
from planner.files.benchmarks.point_rows import MOST_FAULTS
from planner.files.benchmarks.precisions import PRECISION_RULE
from planner.files.disk.names import canonical
from planner.files.disk.shipped import shipped_models
from planner.files.models.gpu_specs import load_gpu_specs
from planner.files.models.models import load_model
from planner.files.sections import nearest_hint


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
    named = resolve_names(runs, gpus=gpus, models=models)
    faults = [item for item in named if item.reason]
    if faults:
        messages = " ".join(f"{item.run.file}: row {item.run.row}: {item.reason}" for item in faults[:MOST_FAULTS])
        more = f" And {len(faults) - MOST_FAULTS} more runs." if len(faults) > MOST_FAULTS else ""
        raise InputError(f"{messages}{more}", hint=faults[0].hint)
    return named


def _resolved(run: BenchmarkRun, specs: Mapping[str, GpuSpec], further: Mapping[str, ModelSpec]) -> NamedRun:
    gpu = specs.get(canonical(run.gpu, specs))
    model = further.get(run.model) or _shipped_model(run.model)
    reason, hint = run.doubt, f"precision may be {PRECISION_RULE}." if run.doubt else ""
    if gpu is None:
        reason, hint = f"there is no GPU type {run.gpu!r:.80}.", nearest_hint(run.gpu[:80], specs, what="GPU types")
    elif model is None:
        names = {**further, **shipped_models()}
        reason, hint = f"there is no model {run.model!r:.80}.", nearest_hint(run.model[:80], names, what="models")
    elif not run.decode.gpus or (run.prefill is not None and not run.prefill.gpus):
        reason = "its degrees and workers do not make up the GPUs that it tells."
        hint = "Give workers and degrees of each pool whose product is its GPUs, or leave the run out."
    return NamedRun(run=run, gpu=gpu, model=model, reason=reason, hint=hint)


@cache
def _shipped_model(name: str) -> ModelSpec | None:
    return load_model(name) if canonical(name, shipped_models()) in shipped_models() else None
