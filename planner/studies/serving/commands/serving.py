"""`planner simulate serving`: many models on one pool, under schedulers that load and unload them."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.executor_options import Executor, Scheduler
from planner.cli.program.seeds import seeds_of
from planner.errors import InputError
from planner.studies.commands import (
    Figures,
    Force,
    Json,
    Processes,
    Quiet,
    option_of,
    policies_of,
    runs_progress,
    typed_options,
    workers_of,
)
from planner.studies.serving.commands import results
from planner.studies.serving.commands.inputs import (
    DNN_MINUTES,
    LLM_MINUTES,
    GivenFiles,
    Mix,
    arrivals_of,
    constants_of,
    pool_of,
    serving_policy,
    spikes_of,
)
from planner.studies.serving.records import InferenceKind

if TYPE_CHECKING:
    from planner.studies.runner import RunsDone
    from planner.studies.serving.study import ServingSeedRun, ServingStudy

POLICY_NAMES = ("baseline", "clockwork", "rr", "rr-quantum", "rr-starvation", "rr-model-quantum", "rr-deadline")
ARRIVALS = ("requests", "profile", "azure_functions")
"""Options that say when requests come, one of them at most."""

DRAWN = ("scale", "spikes", "spike_factor")
"""Options that say how counts by minute are drawn."""


def command(
    context: typer.Context,
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
    pool: Annotated[
        Path | None,
        typer.Option(
            help="CSV of machine types: machine, count; perhaps slots, memory_mb, load_mbit_s, reserve, gpu, gpus.",
            show_default=False,
        ),
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            help="CSV of models: model, kind, and machine, size_mb, step_s; or llm, a shipped one, priced by our cost "
            "model. Perhaps prompt_s, most_batch, memory_mb, sla_s, requests.",
            show_default=False,
        ),
    ] = None,
    requests: Annotated[
        Path | None,
        typer.Option(
            help="CSV of a trace: arrival_s, model; perhaps prompt_tokens, output_tokens.", show_default=False
        ),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(help="CSV of counts: minute, model, requests.", show_default=False)
    ] = None,
    azure_functions: Annotated[
        Path | None,
        typer.Option(help="A day of Azure Functions 2019; 40 random functions a model.", show_default=False),
    ] = None,
    outages: Annotated[
        Path | None, typer.Option(help="CSV of crashes: machine, start_s, end_s.", show_default=False)
    ] = None,
    minutes: Annotated[
        int | None,
        typer.Option(min=1, max=525_600, help="Minutes of arrivals. [default: 30; 1440 for llm]", show_default=False),
    ] = None,
    scale: Annotated[float, typer.Option(help="So many times the models' requests.")] = 1.0,
    spikes: Annotated[str, typer.Option(help="Minutes with spikes, from 0; or none.")] = "9,10,20",
    spike_factor: Annotated[float, typer.Option(help="A spike has so many times another minute's requests.")] = 4.0,
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
    figures: Figures = True,
    processes: Processes = None,
    executor: Executor = "local",
    scheduler: Scheduler = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Requests for many models on one pool: deadlines, waits and loading time of schedulers, as in the Warsaw study."""
    from planner import files
    from planner.studies.serving.arrivals import ArrivalLaw
    from planner.studies.serving.study import ServingStudy, run_serving_study
    from planner.studies.serving.warsaw import TOTALS

    _refuse_clashes(context)
    given = GivenFiles(
        pool=pool,
        models=models,
        requests=requests,
        profile=profile,
        azure_functions=azure_functions,
        outages=outages,
    )
    compared, listed = policies_of(policy or POLICY_NAMES, serving_policy), seeds_of(seeds)
    settings, scaling = constants_of(constants or ())
    law = ArrivalLaw(
        totals=TOTALS,
        minutes=minutes or (LLM_MINUTES if mix is Mix.LLM else DNN_MINUTES),
        spike_minutes=spikes_of(spikes),
        spike_factor=spike_factor,
        scale=scale,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
    )
    servers, law = pool_of(given, mix, inference, machines, law)
    trace, counts = arrivals_of(given, servers, law.minutes, listed[0])
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
        files.claim_folder(out, results.file_names(), force=force)
    with (
        workers_of(executor, processes or _cores(study), scheduler) as workers,
        runs_progress("serving", _line, quiet=quiet) as listen,
    ):
        runs = list(run_serving_study(study, processes=workers, listen=listen))
    done = results.ServingResults(study=study, runs=runs, machine=machine, records=records)
    _answer(done, given, out, figures=figures, force=force, json=json)


def _answer(
    done: results.ServingResults, given: GivenFiles, out: Path | None, *, figures: bool, force: bool, json: bool
) -> None:
    """Write what was asked for, and print it."""
    from planner import files

    if out is not None:
        named = given.requests or given.profile or given.models or given.pool
        rendered = results.rendered(done, name=named.stem if named else "", figures=figures)
        files.write_folder(out, rendered, force=force, kinds=results.file_names())
    if json:
        screen.show_json(results.document(done))
    else:
        results.show(done)
        if out is not None:
            screen.show_text(f"Written to {out}")


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


def _cores(study: "ServingStudy") -> int:
    return min(len(os.sched_getaffinity(0)), len(study.policies) * len(study.seeds))


def _line(step: "RunsDone[ServingSeedRun]") -> None:
    if step.last is not None:
        last = step.last.figures
        screen.show_note(
            f"{step.done:.0f}/{step.total} runs: {step.last.policy}, seed {step.last.seed}: "
            f"{last.met_percent:.2f} % in time, longest wait {last.wait_max_s:.1f} s, {last.load_s:.0f} s of loading"
        )
