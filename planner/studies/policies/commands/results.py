"""What `planner simulate cluster` answers: files, JSON, tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.cli import screen
from planner.studies.commands import FIGURES_FOLDER, REPORT_FILE, SUMMARY_FILE, study_files

if TYPE_CHECKING:
    from planner.studies.policies.means import MeanMetrics
    from planner.studies.policies.records import OnlineRun
    from planner.studies.policies.study import PolicyStudy, SeedRun

POINTS = (80, 90, 100, 110, 120, 130)  # where the published allocations are given
SAVINGS_AT = (20, 40, 60, *POINTS)
"""Percent of GPU capacity that has arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Runs by policy, a run a seed, without their decisions; those as the files that will be written."""

    runs: "Mapping[str, Sequence[OnlineRun]]"
    decisions: Mapping[str, bytes]


def collected(study: "PolicyStudy", seed_runs: "Iterable[SeedRun]") -> Results:
    """Runs as they come; only what is written of their decisions is kept."""
    from planner.studies.policies.tables import decisions_csv, decisions_file

    runs: dict[str, list[OnlineRun]] = {mix.name: [] for mix in study.policies}
    decisions: dict[str, bytes] = {}
    for seed_run in seed_runs:
        if study.decisions:
            decisions[decisions_file(seed_run.policy, seed_run.seed)] = decisions_csv(seed_run.run.decisions)
        runs[seed_run.policy].append(replace(seed_run.run, decisions=()))
    return Results(runs=runs, decisions=decisions)


def file_names(study: "PolicyStudy") -> list[str]:
    """What `rendered` may write, figures as their folder."""
    from planner.studies.policies.tables import METRICS_FILE, decisions_file

    decisions = [decisions_file(mix.name, seed) for mix in study.policies for seed in study.seeds if study.decisions]
    return [METRICS_FILE, SUMMARY_FILE, REPORT_FILE, f"{FIGURES_FOLDER}/power.png", *decisions]


def rendered(study: "PolicyStudy", done: Results, baseline: str, *, name: str, figures: bool) -> dict[str, bytes]:
    """Every file of the study by its path; `figures`: pictures too."""
    from planner.studies.policies.report.figures import policy_figures
    from planner.studies.policies.report.page import policies_page
    from planner.studies.policies.report.plots import policy_plots
    from planner.studies.policies.tables import METRICS_FILE, metrics_csv

    drawn = policy_figures(done.runs, baseline) if figures else {}
    rows = [
        (policy, seed, run) for policy, runs in done.runs.items() for seed, run in zip(study.seeds, runs, strict=True)
    ]
    tables = {METRICS_FILE: metrics_csv(rows), **done.decisions}
    plots = policy_plots(done.runs, baseline)
    return study_files(
        tables, lambda titles: policies_page(done.runs, baseline, name=name, figures=titles), drawn, plots
    )


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
