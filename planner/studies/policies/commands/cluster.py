"""`planner simulate cluster`: a trace of pods under online policies, as in the FGD and PWR studies."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.executor_options import Executor, Scheduler
from planner.cli.program.seeds import seeds_of
from planner.domain import PowerFormula, Semantics
from planner.errors import InputError
from planner.studies.commands import (
    Figures,
    Force,
    Processes,
    Quiet,
    baseline_of,
    policies_of,
    runs_progress,
    workers_of,
)
from planner.studies.policies.commands import inputs, results

if TYPE_CHECKING:
    from planner.studies.policies.study import PolicyStudy, SeedRun
    from planner.studies.runner import RunsDone

INFLATION, SEEDS = 1.3, "42-51"  # of the published FGD and PWR experiments


def command(
    nodes: Annotated[
        Path, typer.Option(help="CSV of nodes: sn, cpu_milli, memory_mib, gpu, model.", show_default=False)
    ],
    pods: Annotated[
        Path,
        typer.Option(
            help="CSV of pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec.", show_default=False
        ),
    ],
    policy: Annotated[
        list[str],
        typer.Option(
            help="random, dotprod, gpuclustering, gpupacking, bestfit, fgd, pwr, adaptive, or a mixture as "
            "pwr:0.1+fgd:0.9; may be repeated.",
            show_default=False,
        ),
    ],
    inflate: Annotated[
        float | None,
        typer.Option(help=f"Pods ask for this many times the GPUs. [default: {INFLATION}]", show_default=False),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds of arrivals and ties: 42, 42-51 or 1,5,42-44.")] = SEEDS,
    semantics: Annotated[
        Semantics, typer.Option(help="reference: scores as the simulators round them; exact: the papers' formulas.")
    ] = Semantics.REFERENCE,
    power_formula: Annotated[
        PowerFormula | None,
        typer.Option(help="How watts of CPUs add up. [default: simulators; with exact, paper]", show_default=False),
    ] = None,
    arrivals: Annotated[
        Path | None, typer.Option(help="CSV with a column pod: the arrivals, in order. Takes one seed.")
    ] = None,
    tie_order: Annotated[
        Path | None, typer.Option(help="CSV with a column node: ties fall to the first. Takes one seed.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Policy to compare savings with. [default: fgd, else the first policy]", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for metrics.csv, summary.md, figures and decisions.", show_default=False)
    ] = None,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="Write what became of every arrival, a file a run.")
    ] = False,
    figures: Figures = True,
    processes: Processes = None,
    executor: Executor = "local",
    scheduler: Scheduler = None,
    force: Force = False,
    json: Annotated[bool, typer.Option("--json", help="Print the means as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Pods arrive one by one, each is placed at once or fails: allocation, fragmentation and power of policies."""
    from planner import files
    from planner.studies.policies.online.policies import parse_policy
    from planner.studies.policies.study import PolicyStudy, run_study

    _refuse_clashes(out, arrivals, inflate, decisions=decisions)
    mixes, power = policies_of(policy, parse_policy), inputs.power_table()
    against, listed = baseline_of(baseline, mixes, parse_policy, "fgd"), seeds_of(seeds)
    _refuse_several(listed, {"--arrivals": arrivals, "--tie-order": tie_order})
    trace_nodes, trace_pods = inputs.read_traces(nodes, pods, power)
    study = PolicyStudy(
        nodes=trace_nodes,
        pods=trace_pods,
        policies=mixes,
        seeds=listed,
        inflation=INFLATION if inflate is None else inflate,
        semantics=semantics,
        power=power,
        formula=power_formula,
        arrivals=inputs.arrivals_of(arrivals, trace_pods),
        tie_order=inputs.tie_order_of(tie_order, trace_nodes),
        decisions=decisions,
    )
    if out is not None:  # fails before the work, not after it
        files.claim_folder(out, results.file_names(study), force=force)
    _tell_too_large(study, pods)
    with (
        workers_of(executor, processes or _cores(study), scheduler) as workers,
        runs_progress("policies", _line, quiet=quiet) as listen,
    ):
        ended = results.collected(study, run_study(study, processes=workers, listen=listen))
    if out is not None:
        rendered = results.rendered(study, ended, against, name=pods.stem, figures=figures)
        files.write_folder(out, rendered, force=force, kinds=results.file_names(study))
    if json:
        screen.show_json(results.document(study, ended.runs, against))
    else:
        results.show(study, ended.runs, against)
        if out is not None:
            screen.show_text(f"Written to {out}")


def _refuse_clashes(out: Path | None, arrivals: Path | None, inflate: float | None, *, decisions: bool) -> None:
    if decisions and out is None:
        raise InputError("--decisions: needs --out, a folder for them, got none.", hint="Add --out DIR.")
    if arrivals is not None and inflate is not None:
        raise InputError("--inflate: goes with drawn arrivals only, got --arrivals too.", hint="Drop one of the two.")


def _refuse_several(seeds: Sequence[int], orders: Mapping[str, Path | None]) -> None:
    for option, path in orders.items():
        if path is not None and len(seeds) > 1:
            raise InputError(
                f"{option}: a given order belongs to one seed; --seeds has {len(seeds)}.", hint="Add --seeds 42."
            )


def _cores(study: "PolicyStudy") -> int:
    return min(len(os.sched_getaffinity(0)), len(study.policies) * len(study.seeds))


def _tell_too_large(study: "PolicyStudy", pods: Path) -> None:
    from planner.studies.policies.study import too_large

    strange = too_large(study.nodes, study.pods)
    if strange:
        screen.show_warning(
            f"{pods}: {len(strange)} of {len(study.pods)} pods fit on no node, not even an empty one (the first is "
            f"{strange[0].name}); whenever they come, they fail."
        )


def _line(step: "RunsDone[SeedRun]") -> None:
    if step.last is not None:
        latest = step.last.run.metrics[-1]
        screen.show_note(
            f"{step.done:.0f}/{step.total} runs: {step.last.policy}, seed {step.last.seed}: "
            f"{latest.allocation_percent:.2f} % allocated, {latest.failures} failed"
        )
