"""What `planner cost accuracy` and `planner cost calibrate` share: files of measurements, and their conditions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.errors import InputError

if TYPE_CHECKING:
    from planner.cost import Evidence
    from planner.domain import ModelSpec
    from planner.files import Conditions

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        help="CSV of step times or measured points; results of vllm bench serve, llm-d, aiperf, guidellm, "
        "inference-perf, Dynamo's profiler."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Conditions of benchmark runs, where a file leaves them open."""

    gpu: Annotated[str | None, typer.Option(help="GPU type of the runs, where a file does not say it.")] = None
    model: Annotated[
        list[str] | None,
        typer.Option(help="Model of the runs, where a file leaves it open; or a config.json that a CSV names."),
    ] = None
    tp: Annotated[int | None, typer.Option(help="GPUs of an attention group.")] = None
    dp: Annotated[int | None, typer.Option(help="Attention groups of a worker.")] = None
    ep: Annotated[int | None, typer.Option(help="GPUs that experts are spread over; 1 in a dense model.")] = None
    gpus: Annotated[int | None, typer.Option(help="GPUs of all workers.")] = None
    precision: Annotated[str | None, typer.Option(help="Of the weights: FP8, NVFP4, BF16, ...")] = None
    engine: Annotated[str | None, typer.Option(help="vllm, sglang, trt, atom.")] = None

    def read(self) -> "tuple[dict[str, ModelSpec], Conditions]":
        """The user's own models by name, and the conditions. Raises InputError."""
        from planner.files import Conditions

        models, served = _models_of(self.model)
        return models, Conditions(
            gpu=self.gpu,
            model=served,
            tp=self.tp,
            dp=self.dp,
            ep=self.ep,
            gpus=self.gpus,
            precision=self.precision,
            engine=self.engine,
        )


def load_measured(
    paths: Sequence[Path], models: "dict[str, ModelSpec]", conditions: "Conditions"
) -> "tuple[Evidence, tuple[str, ...]]":
    """The step times and runs of the files, and the file of each step; a run without records keeps its reason."""
    from planner import cost, files

    tables, engine = [path for path in paths if files.is_step_table(path)], (conditions.engine or "").lower()
    if tables and engine not in ("", *files.STEP_ENGINES):
        raise InputError(
            f"--engine: must be one of {', '.join(files.STEP_ENGINES)} for step times, got {engine}.",
            hint="Name the engine that made the steps.",
        )
    read = [(m, str(path)) for path in tables for m in files.load_measurements(path)]
    steps = [(replace(m, engine=m.engine or engine), file) for m, file in read]
    measurements = tuple(m for m, _ in steps)
    gpus, named_models = (
        files.measured_records(measurements, ", ".join(map(str, tables)), models) if tables else ({}, {})
    )
    others = [path for path in paths if path not in tables]
    loaded = files.load_benchmarks(others, conditions) if others else ()
    runs = [replace(run, engine=run.engine or engine) for run in loaded]
    evidence = cost.Evidence(
        measurements=measurements, gpus=gpus, models=named_models, runs=files.resolve_names(runs, models=models)
    )
    return evidence, tuple(file for _, file in steps)


def _models_of(texts: Sequence[str] | None) -> "tuple[dict[str, ModelSpec], str | None]":
    """The user's own models by name, and the model of the runs: the one that is named, else the only one of a file."""
    from planner.cli.cost import options

    files_of_models = options.models([Path(text) for text in texts or () if text.endswith(".json")])
    names = [text for text in texts or () if not text.endswith(".json")] or list(files_of_models)
    if len(names) > 1 and names != list(files_of_models):
        raise InputError(
            f"--model: must name one model of the runs, got {', '.join(names)}.",
            hint="Calibrate with the runs of one model at a time; a config.json may be given besides.",
        )
    return files_of_models, names[0] if len(names) == 1 else None


def load_given() -> "tuple[Evidence, tuple[str, ...]]":
    """All measurements that come along, and the file of each step."""
    from planner import cost, files

    measurements = files.load_published_measurements()
    gpus, models = files.measured_records(measurements, "published measurements")
    runs = files.resolve_names(files.load_given_benchmarks())
    evidence = cost.Evidence(measurements=measurements, gpus=gpus, models=models, runs=runs)
    return evidence, ("published.csv",) * len(measurements)
