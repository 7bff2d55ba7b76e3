"""Online policies side by side: a table of every figure, CSV of every percent and arrival, and a Markdown page."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TypeAlias

from planner.report.kit.markdown import escaped, pictures, table
from planner.report.kit.quantities import NONE, counted, whole
from planner.report.kit.tables import Frame, csv_table
from planner.studies.policies.means import (
    MeanMetrics,
    PolicyCurve,
    PolicyRuns,
    kilowatts,
    policy_curves,
    saving_at,
    with_spread,
)
from planner.studies.policies.records import Decision, OnlineRun

METRICS_FILE = "metrics.csv"
QUEUE_FILE = "queue.csv"
FIGURES = (
    "arrived_percent",
    "allocation_percent",
    "fragmentation_percent",
    "fragmentation_ratio_percent",
    "cpu_power_w",
    "gpu_power_w",
    "grar",
    "failures",
    "power_w",
)
"""Of `OnlineMetrics`."""
DECISION_COLUMNS = tuple(field.name for field in fields(Decision))


def metrics_csv(runs: Iterable[tuple[str, int, OnlineRun]]) -> bytes:
    """Figures of (policy, seed, run), a row a percent of arrived GPU capacity; watts, percents, GRAR from 0 to 1."""
    rows = (
        [policy, seed, *(getattr(line, name) for name in FIGURES)] for policy, seed, run in runs for line in run.metrics
    )
    return csv_table(("policy", "seed", *FIGURES), rows)


def decisions_file(policy: str, seed: int) -> str:
    """Name of the file of a run's decisions: `pwr:0.1+fgd:0.9` becomes `pwr_0.1_fgd_0.9`."""
    return f"decisions_{re.sub(r'[^a-z0-9.]+', '_', policy.lower())}_{seed}.csv"


def decisions_csv(decisions: Iterable[Decision]) -> bytes:
    """A row an arrival; `node` is empty where the pod fitted nowhere, `gpus` are indices joined by `-`."""
    return csv_table(DECISION_COLUMNS, map(_decision, decisions))


def _decision(line: Decision) -> Sequence[object]:
    shown = {"gpus": "-".join(map(str, line.gpus)), "fragmentation_milli": f"{line.fragmentation_milli:.2f}"}
    return [shown.get(name, getattr(line, name)) for name in DECISION_COLUMNS]


ALLOCATION_AT = (80, 90, 95, 100, 110, 120, 130)
SAVINGS_AT = (10, 20, 30, 40, 50, 60, 70, 80, 90)
"""Percent of GPU capacity that has arrived."""

FULL = 100
Cell: TypeAlias = Callable[[PolicyCurve, int], str | None]


def metrics_frame(runs: PolicyRuns, seeds: Sequence[int] = ()) -> Frame:
    """One row a policy, run and percent of arrived GPU capacity; `seeds` names the runs (else they are numbered)."""
    import pandas as pd  # half a second to load: only who asks for a table pays

    rows = [
        {
            "policy": label,
            "seed": seeds[number] if seeds else number,
            **{name: getattr(line, name) for name in FIGURES},
        }
        for label, seed_runs in runs.items()
        for number, run in enumerate(seed_runs)
        for line in run.metrics
    ]
    return pd.DataFrame(rows)


def policies_page(runs: PolicyRuns, baseline: str, *, name: str = "", figures: Mapping[str, str] | None = None) -> str:
    """The runs as Markdown, ending in a newline. `name`: of the trace; `figures`: titles and paths of pictures.

    InputError: no runs, or a baseline that is not among them.
    """
    curves = policy_curves(runs, baseline)
    parts = [
        f"# Online policies{': ' + escaped(name) if name else ''}",
        _headline(curves, baseline),
        "## Allocation\n\nPercent of all GPUs that pods hold, after so much of the GPU capacity has been asked for"
        f"{_spread_words(curves)}.\n\n{_allocations(curves)}",
        f"## Power saved\n\nPercent of the power of {escaped(curves[baseline].title)}; below it, its kW.\n\n"
        f"{_savings(curves, baseline)}",
        f"## At {FULL} % asked for\n\n{_at_full(curves)}\n\nGRAR: GPUs held over GPUs asked for. Fragmentation: idle "
        "GPUs that pods drawn from the trace cannot use, expected. Failed: pods that fitted nowhere.",
        *pictures(figures or {}),
    ]
    return "\n\n".join(parts) + "\n"


def _spread_words(curves: Mapping[str, PolicyCurve]) -> str:
    most_runs = max(curve.runs for curve in curves.values())
    return f": mean and standard deviation of {counted(most_runs, 'run')}" if most_runs > 1 else ""


def _headline(curves: Mapping[str, PolicyCurve], baseline: str) -> str:
    ends = [int(curve.percents[-1]) for curve in curves.values()]
    at = min([FULL, *ends])
    allocated = {curve.title: row.allocation_percent for curve in curves.values() if (row := curve.at(at)) is not None}
    if not allocated:
        return ""
    highest = f"{max(allocated.values()):.2f}"
    best = [escaped(title) for title, value in allocated.items() if f"{value:.2f}" == highest]
    holders = f"{best[0]} holds" if len(best) == 1 else f"{' and '.join([', '.join(best[:-1]), best[-1]])} hold"
    return f"**{holders} most GPUs at {at} % asked for: {highest} %.**{_saver(curves, baseline)}"


def _saver(curves: Mapping[str, PolicyCurve], baseline: str) -> str:
    base = curves[baseline]
    means = {}
    for curve in curves.values():
        saved = [value for at in SAVINGS_AT[:-1] if (value := saving_at(curve, base, at)) is not None]
        if curve is not base and saved:
            means[curve.title] = sum(saved) / len(saved)
    if not means:
        return ""
    best = max(means, key=lambda title: means[title])
    if means[best] <= 0:
        return f" None draws less than {escaped(base.title)} from {SAVINGS_AT[0]} to {SAVINGS_AT[-2]} %, on average."
    return (
        f" {escaped(best)} draws least from {SAVINGS_AT[0]} to {SAVINGS_AT[-2]} %: on average {means[best]:.1f} % less "
        f"than {escaped(base.title)}."
    )


def _table(curves: Mapping[str, PolicyCurve], points: Sequence[int], cell: Cell) -> str:
    """A row a policy, a column a percentage that any of them has."""
    cells = {label: [cell(curve, at) for at in points] for label, curve in curves.items()}
    columns = [k for k in range(len(points)) if any(row[k] is not None for row in cells.values())]
    if not columns:
        return "None: too little was asked for."
    rows = [[escaped(curves[label].title), *(row[k] or NONE for k in columns)] for label, row in cells.items()]
    return table(["Policy", *(f"{points[k]} %" for k in columns)], rows, "l" + "r" * len(columns))


def _allocations(curves: Mapping[str, PolicyCurve]) -> str:
    def cell(curve: PolicyCurve, at: int) -> str | None:
        place = curve.place(at)
        if place is None:
            return None
        return with_spread(curve.means[place].allocation_percent, float(curve.allocation_std[place]), curve.runs)

    return _table(curves, ALLOCATION_AT, cell)


def _savings(curves: Mapping[str, PolicyCurve], baseline: str) -> str:
    base = curves[baseline]

    def cell(curve: PolicyCurve, at: int) -> str | None:
        if curve is base:
            row = base.at(at)
            return None if row is None else f"{kilowatts(row.power_w)} kW"
        saving = saving_at(curve, base, at)
        return None if saving is None else f"{round(saving, 1) + 0.0:.1f}"  # never -0.0

    others = {label: curve for label, curve in curves.items() if label != baseline}
    return _table({**others, baseline: base}, SAVINGS_AT, cell)


def _at_full(curves: Mapping[str, PolicyCurve]) -> str:
    rows = []
    for curve in curves.values():
        row = curve.at(FULL)
        if row is not None:
            rows.append([escaped(curve.title), *_full_cells(row)])
    header = ["Policy", "GRAR", "Fragmentation, % of GPUs", "% of idle GPUs", "Failed", "kW"]
    return table(header, rows, "l" + "r" * 5) if rows else "None: less was asked for."


def _full_cells(row: MeanMetrics) -> list[str]:
    return [
        f"{row.grar:.4f}",
        f"{row.fragmentation_percent:.2f}",
        f"{row.fragmentation_ratio_percent:.1f}",
        whole(row.failures),
        kilowatts(row.power_w),
    ]
