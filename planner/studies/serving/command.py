"""`planner simulate serving`: many models on one pool, under schedulers that load and unload them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from planner.cli.program.option_records import with_records
from planner.cli.program.shared_options import seeds_of
from planner.errors import InputError
from planner.studies.commands import (
    RunOptions,
    answer,
    at_work,
    each_run,
    option_of,
    policies_of,
    typed_options,
)
from planner.studies.serving import results
from planner.studies.serving.records import (
    Absence,
    InferenceKind,
    Reading,
    ScalingSettings,
    ServingSettings,
    VictimOrder,
)

if TYPE_CHECKING:
    from planner.studies.serving.arrivals import ArrivalLaw, MinuteCounts
    from planner.studies.serving.inputs import ModelTable
    from planner.studies.serving.policies.named import PolicyRow
    from planner.studies.serving.records import InferenceKind, MachineType, ServingPool, ServingRequest
    from planner.studies.serving.study import ServingSeedRun, ServingStudy

DNN_MINUTES, LLM_MINUTES = 30, 1440
"""Minutes of the thesis' main run; those of its LLM run are not given, nor how its requests fall on models."""

LLM_TOTAL = 46_251
"""Requests of the LLM run."""

TASK_TOKENS = {"code": (2048.0, 28.0, 8_819), "conv": (1155.0, 211.0, 19_366)}
"""Mean tokens of prompts and answers, and requests, of the Azure LLM traces of 2023, after which models are named."""


class Mix(StrEnum):
    """Models of the thesis: `dnn`, its main study, or `llm`, its branch with language models."""

    DNN = "dnn"
    LLM = "llm"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFiles:
    """Files of the command; None: not given."""

    pool: Annotated[
        Path | None,
        typer.Option(
            help="CSV of machine types: machine, count; perhaps slots, memory_mb, load_mbit_s, reserve, gpu, gpus.",
            show_default=False,
        ),
    ] = None
    models: Annotated[
        Path | None,
        typer.Option(
            help="CSV of models: model, kind, and machine, size_mb, step_s; or llm, a shipped one, priced by our cost "
            "model. Perhaps prompt_s, most_batch, memory_mb, sla_s, requests.",
            show_default=False,
        ),
    ] = None
    requests: Annotated[
        Path | None,
        typer.Option(
            help="CSV of a trace: arrival_s, model; perhaps prompt_tokens, output_tokens.", show_default=False
        ),
    ] = None
    profile: Annotated[
        Path | None, typer.Option(help="CSV of counts: minute, model, requests.", show_default=False)
    ] = None
    azure_functions: Annotated[
        Path | None,
        typer.Option(help="A day of Azure Functions 2019; 40 random functions a model.", show_default=False),
    ] = None
    outages: Annotated[
        Path | None, typer.Option(help="CSV of crashes: machine, start_s, end_s.", show_default=False)
    ] = None


POLICY_NAMES = ("baseline", "clockwork", "rr", "rr-quantum", "rr-starvation", "rr-model-quantum", "rr-deadline")
ARRIVALS = ("requests", "profile", "azure_functions")
"""Options that say when requests come, one of them at most."""

DRAWN = ("scale", "spikes", "spike_factor")
"""Options that say how counts by minute are drawn."""


@with_records
def command(
    context: typer.Context,
    *,
    reading: Annotated[
        Reading,
        typer.Option(
            help="What the thesis leaves open: at its word (literal), or as its figures come out (published)."
        ),
    ] = Reading.LITERAL,
    mix: Annotated[
        Mix, typer.Option(help="The thesis' models: dnn, nine of them, or llm, its branch of llama-7B in three sizes.")
    ] = Mix.DNN,
    inference: Annotated[
        InferenceKind, typer.Option(help="How the models of --mix llm answer.")
    ] = InferenceKind.AUTOREGRESSIVE,
    machines: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="So many c5.18xlarge. [default: 20; 30 for llm]", show_default=False),
    ] = None,
    given_files: GivenFiles,
    minutes: Annotated[
        int | None,
        typer.Option(min=1, max=525_600, help="Minutes of arrivals. [default: 30; 1440 for llm]", show_default=False),
    ] = None,
    scale: Annotated[float, typer.Option(help="So many times the models' requests.")] = 1.0,
    spikes: Annotated[
        str | None,
        typer.Option(help="Minutes with spikes, from 0; or none. [default: 9,10,20, or as read]", show_default=False),
    ] = None,
    spike_factor: Annotated[
        float | None,
        typer.Option(
            help="A spike has so many times another minute's requests. [default: 4, or as read]", show_default=False
        ),
    ] = None,
    prompt_tokens: Annotated[float, typer.Option(help="Mean tokens of drawn prompts.")] = 1000.0,
    output_tokens: Annotated[float, typer.Option(help="Mean tokens of drawn answers.")] = 200.0,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help=f"One of {', '.join(POLICY_NAMES)}; may be repeated. [default: all]",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds of arrivals and SLAs: 422, or 1-5.")] = "422",
    constants: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A constant, as quantum_s=5; summary.md lists them; may be repeated.", show_default=False
        ),
    ] = None,
    machine: Annotated[int, typer.Option(min=0, help="Machine whose models are drawn over time.")] = 0,
    records: Annotated[bool, typer.Option("--records/--no-records", help="Write every request and action.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for serving.csv, minutes.csv, summary.md, figures, records.", show_default=False),
    ] = None,
    run: RunOptions,
) -> None:
    """Requests for many models on one pool: deadlines, waits and loading time of schedulers, as in the Warsaw study."""
    from planner import files
    from planner.studies.serving.reconciled.readings import law_as_read, settings_as_read
    from planner.studies.serving.study import ServingStudy, run_serving_study

    _refuse_clashes(context)
    compared, listed = policies_of(policy or POLICY_NAMES, serving_policy), seeds_of(seeds)
    settings, scaling = constants_of(constants or (), settings_as_read(reading))
    law = replace(
        _with_spikes(law_as_read(reading), spikes, spike_factor),
        minutes=minutes or (LLM_MINUTES if mix is Mix.LLM else DNN_MINUTES),
        scale=scale,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
    )
    servers, law = pool_of(given_files, mix, inference, machines, law)
    trace, counts = arrivals_of(given_files, servers, law.minutes, listed[0])
    study = ServingStudy(
        pool=replace(servers, scaling=scaling),
        policies=tuple(row.name for row in compared),
        seeds=listed,
        law=law,
        settings=settings,
        requests=trace,
        minutes=counts,
    )
    _require_machine(study, machine)
    if out is not None:  # fails before the work, not after it
        files.claim_folder(out, results.file_names(), force=run.force)
    tasks = len(compared) * len(listed)
    with at_work("serving", each_run(_run_words), run, runs=tasks) as (workers, listen):
        runs = list(run_serving_study(study, processes=workers, listen=listen))
    naming_file = given_files.requests or given_files.profile or given_files.models or given_files.pool
    name = naming_file.stem if naming_file else ""
    answer(
        out,
        results.file_names(),
        lambda: results.rendered(
            study,
            runs,
            name=name,
            machine=machine,
            records=records,
            figures=run.figures,
        ),
        lambda: results.document(study, runs),
        lambda: results.show(runs),
        run,
    )


def _with_spikes(law: "ArrivalLaw", spikes: str | None, factor: float | None) -> "ArrivalLaw":
    """The law with spikes as typed, else as read."""
    if spikes is not None:
        law = replace(law, spike_minutes=spikes_of(spikes))
    return law if factor is None else replace(law, spike_factor=factor)


def _refuse_clashes(context: typer.Context) -> None:
    """Refuse options that would be silently ignored."""
    typed = typed_options(context)
    sources = [name for name in ARRIVALS if name in typed]
    if len(sources) > 1:
        raise InputError(
            f"{option_of(sources[1])}: goes without {option_of(sources[0])}, got both.", hint="Drop one of the two."
        )
    for name, other in (
        ("machines", "pool"),
        ("mix", "models"),
        ("reading", "mix"),
        ("reading", "models"),
        ("inference", "models"),
        *((drawn, source) for source in sources for drawn in DRAWN),
        *(("minutes", source) for source in sources if source != "azure_functions"),
    ):
        if name in typed and other in typed:
            raise InputError(
                f"{option_of(name)}: goes without {option_of(other)}, got both.", hint="Drop one of the two."
            )
    if "inference" in typed and context.params["mix"] is not Mix.LLM:
        raise InputError("--inference: goes with --mix llm, got no --mix llm.", hint="Add --mix llm.")


def _require_machine(study: "ServingStudy", machine: int) -> None:
    count = sum(kind.machines + kind.reserve for kind in study.pool.types)
    if machine >= count:
        raise InputError(
            f"--machine: must be a number from 0 to {count - 1}, got {machine}.", hint="Choose one of these machines."
        )


def _run_words(done: "ServingSeedRun") -> str:
    figures = done.figures
    return (
        f"{done.policy}, seed {done.seed}: {figures.met_percent:.2f} % in time, "
        f"longest wait {figures.wait_max_s:.1f} s, {figures.load_s:.0f} s of loading"
    )


Settings = TypeVar("Settings", ServingSettings, ScalingSettings)


def serving_policy(word: str) -> "PolicyRow":
    """The policy of that name, in any case."""
    from planner.studies.serving.policies.named import parse_serving_policy

    return parse_serving_policy(word)


def constants_of(
    words: Sequence[str], usual: ServingSettings = ServingSettings()
) -> tuple[ServingSettings, ScalingSettings]:
    """`quantum_s=5`: constants of the policies, else the `usual` ones, and of scaling (`scaling.start_s=10`)."""
    serving: dict[str, object] = {}
    scaling: dict[str, object] = {}
    for word in words:
        key, equals, text = word.partition("=")
        name = key.strip().removeprefix("scaling.")
        record, values = (ScalingSettings, scaling) if key.strip() != name else (ServingSettings, serving)
        if not equals or name not in {field.name for field in fields(record)} or name in values:
            raise InputError(
                f"--set: must be KEY=VALUE, each key once, got {word!r:.80}.",
                hint=f"Keys: {', '.join(constant_words())}.",
            )
        values[name] = _word_of(name, text) if name in WORDS else _number(word, text)
    return replace(usual, **serving), replace(ScalingSettings(), **scaling)  # type: ignore[arg-type]


def constant_words() -> list[str]:
    """Every constant with its default."""
    serving = [f"{field.name}={getattr(ServingSettings(), field.name)}" for field in fields(ServingSettings)]
    return serving + [f"scaling.{field.name}={field.default}" for field in fields(ScalingSettings)]


WORDS: Mapping[str, type[StrEnum]] = {"victims": VictimOrder, "absence": Absence}
"""Constants that are words."""


def _word_of(name: str, text: str) -> StrEnum:
    words = WORDS[name]
    if text not in set(words):
        raise InputError(
            f"--set {name}: must be one of {', '.join(words)}, got {text!r:.40}.", hint="Choose one of them."
        )
    return words(text)


def _number(word: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--set: must be KEY=NUMBER, got {word!r:.80}.", hint="Write quantum_s=5.") from None


def spikes_of(text: str) -> tuple[int, ...]:
    """`9,10,20`: minutes; `none`."""
    words = [word.strip() for word in text.split(",")] if text.strip() != "none" else []
    if not all(word.isascii() and word.isdigit() and len(word) <= 6 for word in words):
        raise InputError(
            f"--spikes: must be minutes from 0, as 9,10,20, or none, got {text!r:.80}.", hint="Write 9,10,20."
        )
    return tuple(dict.fromkeys(int(word) for word in words))


def pool_of(
    given_files: GivenFiles, mix: Mix, kind: "InferenceKind", machines: int | None, law: "ArrivalLaw"
) -> "tuple[ServingPool, ArrivalLaw]":
    """The pool with its models, and the law with their totals and tokens."""
    from planner.studies.serving import inputs, warsaw
    from planner.studies.serving.priced_models import LlmLengths
    from planner.studies.serving.records import ServingPool

    usual = warsaw.LLM_MACHINES if mix is Mix.LLM else warsaw.MACHINES
    types: tuple[MachineType, ...] = (
        warsaw.machines(usual if machines is None else machines)
        if given_files.pool is None
        else inputs.read_machines(given_files.pool)
    )
    outages = inputs.read_outages(given_files.outages) if given_files.outages else ()
    if given_files.models is not None:
        lengths = LlmLengths(prompt_tokens=law.prompt_tokens, output_tokens=law.output_tokens)
        table: ModelTable = inputs.read_models(given_files.models, types, lengths)
        return ServingPool(types=types, models=table.models, outages=outages), replace(law, totals=table.totals)
    if mix is Mix.DNN:
        return ServingPool(types=types, models=warsaw.dnn_models(), outages=outages), law
    models = warsaw.llm_models(kind)
    tasks = {model.name: TASK_TOKENS[model.name.rpartition("-")[2]] for model in models}
    share = LLM_TOTAL / sum(requests for _, _, requests in tasks.values())
    llm_law = replace(
        law,
        totals={name: share * requests for name, (_, _, requests) in tasks.items()},
        tokens={name: (prompt, output) for name, (prompt, output, _) in tasks.items()},
    )
    return ServingPool(types=types, models=models, outages=outages), llm_law


def arrivals_of(
    given_files: GivenFiles, pool: "ServingPool", minutes: int, seed: int
) -> "tuple[tuple[ServingRequest, ...] | None, MinuteCounts | None]":
    """Requests, or counts by minute, of files; neither where they are drawn."""
    from planner.studies.serving import inputs
    from planner.studies.serving.arrivals import read_azure_functions

    if given_files.requests is not None:
        return inputs.read_requests(given_files.requests, pool.models), None
    if given_files.profile is not None:
        return None, inputs.read_minutes(given_files.profile, pool.models)
    if given_files.azure_functions is not None:
        return None, read_azure_functions(given_files.azure_functions, pool.models, minutes=minutes, seed=seed)
    return None, None
