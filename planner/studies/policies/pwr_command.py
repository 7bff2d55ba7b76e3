"""`planner study pwr`: the figures of the PWR paper, several traces beside each other, and what it says of them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.shared_options import Executor, Scheduler, seeds_of
from planner.domain import PowerFormula
from planner.errors import InputError
from planner.studies.commands import (
    FIGURES_FOLDER,
    REPORT_FILE,
    SUMMARY_FILE,
    Force,
    Processes,
    Quiet,
    policies_of,
    runs_progress,
    workers_of,
)
from planner.studies.policies import inputs

if TYPE_CHECKING:
    from planner.processes.workers import TaskPool
    from planner.studies.policies.paper import Reproduced, Traces
    from planner.studies.policies.records import OnlineRun
    from planner.studies.policies.study import PolicyStudy, SeedRun
    from planner.studies.runner import RunsDone

PREFIX = "openb_pod_list_"
SEEDS, INFLATION = "42-51", 1.0  # of the published experiments; the figures end where all GPUs have been asked for


def command(
    nodes: Annotated[Path, typer.Option(help="CSV of nodes, as `simulate cluster` takes it.", show_default=False)],
    pods: Annotated[
        list[str],
        typer.Option(
            help="CSV of pods, or TRACE=CSV; may be repeated. TRACE is default, gpushare40, gpushare100, multigpu20, "
            "multigpu50, gpuspec10 or gpuspec33; else the file's name has it, after openb_pod_list_ or alone.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for figures, a table each, and summary.md.", show_default=False)],
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A policy; may be repeated. [default: the paper's eight]", show_default=False),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds of arrivals and ties.")] = SEEDS,
    inflate: Annotated[float, typer.Option(help="Pods ask for this many times the GPUs.")] = INFLATION,
    power_formula: Annotated[
        PowerFormula | None,
        typer.Option(help="How watts of CPUs add up: paper (equation 1). [default: simulators]", show_default=False),
    ] = None,
    processes: Processes = None,
    executor: Executor = "local",
    scheduler: Scheduler = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """The PWR paper's figures 1 to 10, those whose traces are given, with a table each, beside what the paper says."""
    from planner import files
    from planner.runs.pages import written_page
    from planner.studies.policies.online.policies import parse_policy
    from planner.studies.policies.paper import FGD, POLICIES, file_names, numbers_of, paper_page, paper_tables
    from planner.studies.policies.plots import PAPER_FIGURES, paper_figures, trace_plots
    from planner.studies.policies.study import PolicyStudy

    paths, mixes, listed = _traces(pods), policies_of(policy or POLICIES, parse_policy), seeds_of(seeds)
    if FGD not in [mix.name for mix in mixes]:
        raise InputError("--policy: fgd must be among them: savings are against it.", hint="Add --policy fgd.")
    if not any(set(figure.traces) <= set(paths) for figure in PAPER_FIGURES.values()):
        raise InputError("--pods: no figure of the paper is of these traces alone.", hint="Add the other trace of one.")
    power = inputs.power_table()
    files.claim_folder(out, _kinds(file_names()), force=force)
    studies = {}
    for name, path in paths.items():
        trace_nodes, trace_pods = inputs.read_traces(nodes, path, power)
        studies[name] = PolicyStudy(
            nodes=trace_nodes,
            pods=trace_pods,
            policies=mixes,
            seeds=listed,
            inflation=inflate,
            power=power,
            formula=power_formula,
        )
    workers_each = processes or min(len(os.sched_getaffinity(0)), len(mixes) * len(listed))
    with workers_of(executor, workers_each, scheduler) as workers:
        traces = {name: _runs(name, study, workers, quiet=quiet) for name, study in studies.items()}
    drawn = paper_figures(traces, FGD)
    page = paper_page(traces, listed, tuple(drawn))
    rendered = {SUMMARY_FILE: page.encode(), REPORT_FILE: written_page(page, trace_plots(traces, FGD))} | paper_tables(
        traces, tuple(drawn)
    )
    rendered |= {f"{FIGURES_FOLDER}/{name}.png": png for name, png in drawn.items()}
    files.write_folder(out, rendered, force=force, kinds=_kinds(file_names()))
    _show(traces, numbers_of(tuple(drawn)), out)


def _kinds(tables: Sequence[str]) -> list[str]:
    return [*tables, SUMMARY_FILE, REPORT_FILE, f"{FIGURES_FOLDER}/figure-01.png"]


def _traces(pods: Sequence[str]) -> dict[str, Path]:
    """Files by the traces' names. InputError: another name, or one twice."""
    from planner.studies.policies.paper import TRACES

    paths: dict[str, Path] = {}
    for word in pods:
        before, equals, after = word.partition("=")
        path = Path(after if equals else word)
        name = before if equals else path.name.split(".")[0].removeprefix(PREFIX)
        if name not in TRACES:
            raise InputError(
                f"--pods: {word}: the trace must be one of {', '.join(TRACES)}, got {name!r}.",
                hint=f"Write default={path.name}; `planner simulate cluster` takes any trace.",
            )
        if name in paths:
            raise InputError(f"--pods: each trace may come once, got {name} twice.", hint="Drop one of the two.")
        paths[name] = path
    return paths


def _runs(
    name: str, study: "PolicyStudy", workers: "int | TaskPool", *, quiet: bool
) -> "Mapping[str, list[OnlineRun]]":
    from planner.studies.policies.study import run_study

    def line(step: "RunsDone[SeedRun]") -> None:
        if step.last is not None:
            screen.show_note(f"{name}: {step.done:.0f}/{step.total} runs: {step.last.policy}, seed {step.last.seed}")

    runs: dict[str, list[OnlineRun]] = {mix.name: [] for mix in study.policies}
    with runs_progress("policies", line, quiet=quiet) as listen:
        for seed_run in run_study(study, processes=workers, listen=listen):
            runs[seed_run.policy].append(seed_run.run)
    return runs


def _show(traces: "Traces", figures: Sequence[int], out: Path) -> None:
    from planner.studies.policies.paper import HEADER, reproduced, statement_row

    rows: Sequence[Reproduced] = reproduced(traces, figures)
    if rows:
        screen.show_table("What the paper says, and here", HEADER, [statement_row(row) for row in rows])
    screen.show_text(f"Written to {out}")
