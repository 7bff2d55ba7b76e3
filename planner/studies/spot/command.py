"""`planner simulate spot`: guaranteed and spot jobs over days, under policies that choose who gives way."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import screen
from planner.cli.program.option_records import with_records
from planner.cli.program.shared_options import seeds_of
from planner.errors import InputError
from planner.studies.commands import (
    RunOptions,
    answer,
    at_work,
    baseline_of,
    each_run,
    option_of,
    policies_of,
    typed_options,
)
from planner.studies.spot.capacity import LEAST_DONE_PERCENT, SpotLimits
from planner.studies.spot.inputs import curve_of, hours_of, jobs_of, nodes_of, spot_policy, weights_of
from planner.studies.spot.records import SpotRun, SpotWorkload

if TYPE_CHECKING:
    from planner.studies.spot.study import SpotStudy

MACHINES, SPOT_LOAD = 60, 0.245


DRAWN = (
    "spot_load",
    "curve",
    "spot_hours",
    "checkpoint_hours",
    "hp_load",
    "hp_diurnal",
    "hp_hours",
    "hp_peak",
    "standby_share",
    "spot_sizes",
    "spot_gangs",
)
"""Options that say how jobs are drawn."""

LIMITS = ("most_evictions_per_job", "most_lost_percent", "most_slowdown", "least_done_percent")
"""Options that the curve's answer keeps to."""


@with_records
def command(
    context: typer.Context,
    *,
    nodes: Annotated[
        Path | None,
        typer.Option(help="CSV: gpu_model, gpu_capacity_num, cpu_num, node_name.", show_default=False),
    ] = None,
    machines: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help=f"This many nodes of 8 GPUs and 192 CPUs. [default: {MACHINES}]"),
    ] = None,
    jobs: Annotated[
        Path | None,
        typer.Option(
            help="CSV instead of drawn jobs: job, class (hp, spot), submit_s, pods, gpus, cpus, duration_s, "
            "checkpoint_s; perhaps gpu_model, standby.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="spotgpu, random, or with switches, as spotgpu-history; may be repeated. [default: both]",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Policy to compare with. [default: random, else the first]", show_default=False)
    ] = None,
    days: Annotated[float, typer.Option(help="Days that are simulated.")] = 6.0,
    warm_up_days: Annotated[float, typer.Option(help="The first of them that do not count.")] = 1.0,
    seeds: Annotated[str, typer.Option(help="Seeds of jobs, evictions, chances: 1-5 or 1,7,10-12.")] = "1-5",
    spot_load: Annotated[
        float | None,
        typer.Option(help=f"Share of the GPUs that spot jobs ask for. [default: {SPOT_LOAD}]", show_default=False),
    ] = None,
    spot_hours: Annotated[float, typer.Option(help="Mean hours of a spot job.")] = 5.0,
    checkpoint_hours: Annotated[str, typer.Option(help="Shortest and longest checkpoint interval, h.")] = "1-8",
    hp_load: Annotated[float, typer.Option(help="Share of the GPUs with permanent guaranteed jobs.")] = 0.55,
    hp_diurnal: Annotated[float, typer.Option(help="Mean share with guaranteed jobs that come and go by day.")] = 0.14,
    hp_hours: Annotated[float, typer.Option(help="Mean hours of a job that comes and goes by day.")] = 1.1,
    hp_peak: Annotated[float, typer.Option(help="Share that guaranteed jobs never exceed.")] = 1.0,
    standby_share: Annotated[float, typer.Option(help="Share of the permanent jobs lent out every night.")] = 0.1,
    spot_sizes: Annotated[
        str | None,
        typer.Option(
            help="GPUs of a pod of a spot job with weights, as 1:50,2:22,4:16,8:12. [default: as guaranteed ones]",
            show_default=False,
        ),
    ] = None,
    spot_gangs: Annotated[
        str | None,
        typer.Option(help="Pods of a spot job with weights. [default: as guaranteed ones]", show_default=False),
    ] = None,
    curve: Annotated[
        str | None, typer.Option(help="Spot loads to try, as 0.05,0.1,0.2: how much is carried?", show_default=False)
    ] = None,
    most_evictions_per_job: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Limit for the curve's answer: evictions a job that started. [default: 0.5, if no --most is given]",
        ),
    ] = None,
    most_lost_percent: Annotated[
        float | None, typer.Option(min=0, help="Limit: percent of the spot GPU-hours lost.", show_default=False)
    ] = None,
    most_slowdown: Annotated[
        float | None,
        typer.Option(min=1, help="Limit: completion over work of due jobs, at least.", show_default=False),
    ] = None,
    least_done_percent: Annotated[
        float, typer.Option(min=0, max=100, help="A load is carried if so many of the jobs due by the end are done.")
    ] = LEAST_DONE_PERCENT,
    sample_minutes: Annotated[float, typer.Option(help="Stretch of time of a row of series.csv.")] = 60.0,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Look at every event: no guaranteed job evicted, nothing twice.")
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for spot.csv, series.csv, summary.md, figures, curve.csv.", show_default=False),
    ] = None,
    run: RunOptions,
) -> None:
    """Spot jobs fill what guaranteed jobs leave or lend, and give way: completion, lost work, evictions, allocation."""
    from planner import files
    from planner.studies.spot import results
    from planner.studies.spot.study import SpotResults, SpotStudy, run_spot_study

    _refuse_clashes(context)
    compared, listed = policies_of(policy or ["spotgpu", "random"], spot_policy), seeds_of(seeds)
    against = baseline_of(baseline, compared, spot_policy, "random")
    loads = curve_of(curve)
    load = SPOT_LOAD if spot_load is None else spot_load
    fleet = nodes_of(nodes, MACHINES if machines is None else machines)
    study = SpotStudy(
        nodes=fleet,
        policies=compared,
        seeds=listed,
        loads=tuple(dict.fromkeys([load, *loads])),
        jobs=jobs_of(jobs, fleet),
        workload=SpotWorkload(
            permanent_load=hp_load,
            diurnal_load=hp_diurnal,
            hp_hours=hp_hours,
            hp_peak=hp_peak,
            standby_share=standby_share,
            spot_load=load,
            spot_hours=spot_hours,
            checkpoint_hours=hours_of(checkpoint_hours),
            spot_sizes=weights_of("--spot-sizes", spot_sizes),
            spot_gangs=weights_of("--spot-gangs", spot_gangs),
        ),
        days=days,
        warm_up_days=warm_up_days,
        sample_s=60 * sample_minutes,
        check=check,
    )
    _tell_late(study)
    limits = SpotLimits(
        most_evictions_per_job=_default_limit(most_evictions_per_job, most_lost_percent, most_slowdown),
        most_lost_percent=most_lost_percent,
        most_slowdown=most_slowdown,
        least_done_percent=least_done_percent,
    )
    if out is not None:  # fails before the work, not after it
        files.claim_folder(out, results.FILES, force=run.force)
    tasks = len(compared) * len(listed) * (len(study.loads) if study.jobs is None else 1)
    with at_work("spot", each_run(_run_words), run, runs=tasks) as (workers, listen):
        runs = list(run_spot_study(study, processes=workers, listen=listen))
    done = SpotResults.of(study, runs, against, load, loads, limits)
    name = jobs.stem if jobs else nodes.stem if nodes else ""
    answer(
        out,
        results.FILES,
        lambda: results.rendered(done, name=name, figures=run.figures),
        lambda: results.document(done),
        lambda: results.show(done),
        run,
    )


def _tell_late(study: "SpotStudy") -> None:
    """Warn of jobs submitted after the last day: they are not simulated."""
    from planner.report.kit.quantities import measured

    late = sum(job.submit_s > 86_400 * study.days for job in study.jobs or ())
    if late:
        total = len(study.jobs or ())
        span = measured(study.days, "day")
        screen.show_warning(f"{late:,} of {total:,} jobs come after the {span} and are left out (--days).")


def _default_limit(evictions: float | None, lost: float | None, slowdown: float | None) -> float | None:
    """The limit on evictions a job where no limit is given."""
    return 0.5 if evictions is None and lost is None and slowdown is None else evictions


def _refuse_clashes(context: typer.Context) -> None:
    """Refuse options that would be silently ignored."""
    typed = typed_options(context)
    if {"nodes", "machines"} <= typed:
        raise InputError("--machines: goes without --nodes, got both.", hint="Drop one of the two.")
    for name in DRAWN:
        if "jobs" in typed and name in typed:
            raise InputError(
                f"{option_of(name)}: goes with drawn jobs only, got --jobs too.", hint="Drop one of the two."
            )
    for name in LIMITS:
        if name in typed and "curve" not in typed:
            raise InputError(f"{option_of(name)}: limits the answer of --curve, got no --curve.", hint="Add --curve.")


def _run_words(run: SpotRun) -> str:
    at, figures = "" if run.spot_load is None else f", spot load {run.spot_load:g}", run.figures
    return (
        f"{run.policy}, seed {run.seed}{at}: {figures.all_percent:.1f} % allocated, {figures.evictions} evictions, "
        f"{figures.lost_gpu_h:.0f} GPU-hours lost"
    )
