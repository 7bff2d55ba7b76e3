"""Tables of online policies as CSV: figures of every percent, and what became of every arrival."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields

from planner.report.kit.tables import csv_table
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
