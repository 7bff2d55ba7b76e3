"""`planner simulate cluster`: a trace of pods under online policies, as in the FGD and PWR studies, and its answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.option_records import with_records
from planner.cli.program.shared_options import seeds_of
from planner.domain import PowerFormula, Semantics
from planner.errors import InputError
from planner.studies.commands import (
    FIGURES_FOLDER,
    REPORT_FILE,
    SUMMARY_FILE,
    RunOptions,
    answer,
    at_work,
    baseline_of,
    each_run,
    policies_of,
    study_files,
)
from planner.studies.policies import inputs

if TYPE_CHECKING:
    from planner.studies.policies.means import MeanMetrics
    from planner.studies.policies.records import OnlineRun
    from planner.studies.policies.study import PolicyStudy, SeedRun

INFLATION, SEEDS = 1.3, "42-51"  # of the published FGD and PWR experiments


@with_records
def command(
    *,
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
    run: RunOptions,
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
        files.claim_folder(out, file_names(study), force=run.force)
    _tell_too_large(study, pods)
    tasks = len(mixes) * len(listed)
    with at_work("policies", each_run(_run_words), run, runs=tasks) as (workers, listen):
        runs, written = collected(study, run_study(study, processes=workers, listen=listen))
    answer(
        out,
        file_names(study),
        lambda: rendered(study, runs, written, against, name=pods.stem, figures=run.figures),
        lambda: document(study, runs, against),
        lambda: show(study, runs, against),
        run,
    )


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


def _tell_too_large(study: "PolicyStudy", pods: Path) -> None:
    from planner.studies.policies.study import too_large

    strange = too_large(study.nodes, study.pods)
    if strange:
        screen.show_warning(
            f"{pods}: {len(strange)} of {len(study.pods)} pods fit on no node, not even an empty one (the first is "
            f"{strange[0].name}); whenever they come, they fail."
        )


def _run_words(done: "SeedRun") -> str:
    latest = done.run.metrics[-1]
    return f"{done.policy}, seed {done.seed}: {latest.allocation_percent:.2f} % allocated, {latest.failures} failed"


POINTS = (80, 90, 100, 110, 120, 130)  # where the published allocations are given
SAVINGS_AT = (20, 40, 60, *POINTS)
"""Percent of GPU capacity that has arrived."""


def collected(
    study: "PolicyStudy", seed_runs: "Iterable[SeedRun]"
) -> "tuple[dict[str, list[OnlineRun]], dict[str, bytes]]":
    """Runs by policy as they come, a run a seed, and the files of their decisions: of those no more is kept."""
    from planner.studies.policies.page import decisions_csv, decisions_file

    runs: dict[str, list[OnlineRun]] = {mix.name: [] for mix in study.policies}
    written: dict[str, bytes] = {}
    for seed_run in seed_runs:
        if study.decisions:
            written[decisions_file(seed_run.policy, seed_run.seed)] = decisions_csv(seed_run.run.decisions)
        runs[seed_run.policy].append(replace(seed_run.run, decisions=()))
    return runs, written


def file_names(study: "PolicyStudy") -> list[str]:
    """What `rendered` may write, figures as their folder."""
    from planner.studies.policies.page import METRICS_FILE, decisions_file

    decisions = [decisions_file(mix.name, seed) for mix in study.policies for seed in study.seeds if study.decisions]
    return [METRICS_FILE, SUMMARY_FILE, REPORT_FILE, f"{FIGURES_FOLDER}/power.png", *decisions]


def rendered(
    study: "PolicyStudy",
    runs: "Mapping[str, Sequence[OnlineRun]]",
    written: Mapping[str, bytes],
    baseline: str,
    *,
    name: str,
    figures: bool,
) -> dict[str, bytes]:
    """Every file of the study by its path; `written`: decisions; `figures`: pictures too."""
    from planner.studies.policies.page import METRICS_FILE, metrics_csv, policies_page
    from planner.studies.policies.plots import policy_figures, policy_plots

    drawn = policy_figures(runs, baseline) if figures else {}
    rows = [
        (policy, seed, run) for policy, listed in runs.items() for seed, run in zip(study.seeds, listed, strict=True)
    ]
    tables = {METRICS_FILE: metrics_csv(rows), **written}
    plots = policy_plots(runs, baseline)
    return study_files(tables, lambda titles: policies_page(runs, baseline, name=name, figures=titles), drawn, plots)


def _means(runs: "Mapping[str, Sequence[OnlineRun]]") -> "dict[str, dict[int, MeanMetrics]]":
    from planner.studies.policies.means import mean_metrics

    return {policy: {row.arrived_percent: row for row in mean_metrics(online)} for policy, online in runs.items()}


def _savings(means: "Mapping[str, Mapping[int, MeanMetrics]]", baseline: str) -> dict[str, Mapping[int, float]]:
    from planner.studies.policies.means import savings

    base = list(means[baseline].values())
    return {policy: savings(base, list(rows.values())) for policy, rows in means.items()}


def document(study: "PolicyStudy", runs: "Mapping[str, Sequence[OnlineRun]]", baseline: str) -> dict[str, object]:
    """Means over the seeds at every percent, as JSON holds them."""
    from planner.studies.policies.study import too_large

    means = _means(runs)
    saved = _savings(means, baseline)
    return {
        "nodes": len(study.nodes),
        "gpus": sum(node.gpus for node in study.nodes),
        "pods": len(study.pods),
        "pods_too_large": len(too_large(study.nodes, study.pods)),
        "semantics": study.semantics.value,
        "inflation": study.inflation if study.arrivals is None else None,
        "seeds": list(study.seeds),
        "baseline": baseline,
        "policies": [
            {"policy": policy, "means": [_figures(row, saved[policy].get(at)) for at, row in rows.items()]}
            for policy, rows in means.items()
        ],
    }


def _figures(row: "MeanMetrics", saved: float | None) -> dict[str, object]:
    return {
        "arrived_percent": row.arrived_percent,
        "allocation_percent": row.allocation_percent,
        "fragmentation_percent": row.fragmentation_percent,
        "fragmentation_ratio_percent": row.fragmentation_ratio_percent,
        "failures": row.failures,
        "cpu_power_w": row.cpu_power_w,
        "gpu_power_w": row.gpu_power_w,
        "power_saved_percent": saved,
        "grar": row.grar,
    }


def show(study: "PolicyStudy", runs: "Mapping[str, Sequence[OnlineRun]]", baseline: str) -> None:
    """Tables of means, a row a policy, a column a percentage that was reached."""
    means = _means(runs)
    saved = _savings(means, baseline)
    seeds = f"mean of {len(study.seeds)} seeds" if len(study.seeds) > 1 else f"seed {study.seeds[0]}"

    def table(title: str, points: Sequence[int], cell: "Callable[[str, int], str]") -> None:
        """Over what all policies reached."""
        reached = [at for at in points if all(at in rows for rows in means.values())]
        rows = [(policy, *(cell(policy, at) for at in reached)) for policy in means]
        if reached:
            screen.show_table(f"{title}; {seeds}", ("arrived", *(f"{at} %" for at in reached)), rows)

    points = POINTS if any(at in rows for rows in means.values() for at in POINTS) else _last(means)
    table("Allocated, % of GPUs", points, lambda policy, at: f"{means[policy][at].allocation_percent:.2f}")
    table("Fragments, % of GPUs", points, lambda policy, at: f"{means[policy][at].fragmentation_percent:.2f}")
    table("GRAR, %", points, lambda policy, at: f"{100 * means[policy][at].grar:.2f}")
    table("Pods that failed", points, lambda policy, at: f"{means[policy][at].failures:.1f}")
    table("Power, kW", SAVINGS_AT, lambda policy, at: f"{means[policy][at].power_w / 1000:.1f}")
    if len(means) > 1:
        table(f"Power saved against {baseline}, %", SAVINGS_AT, lambda policy, at: f"{saved[policy][at]:.2f}")


def _last(means: "Mapping[str, Mapping[int, MeanMetrics]]") -> tuple[int, ...]:
    """Where less was asked for: the last percentage that all reached."""
    return (min(max(rows) for rows in means.values()),)
