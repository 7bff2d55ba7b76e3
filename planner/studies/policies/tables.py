"""Tables of online policies as CSV: figures of every percent, and what became of every arrival."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

from planner.studies.policies.records import Decision, OnlineRun

METRICS_FILE = "metrics.csv"
QUEUE_FILE = "queue.csv"
METRICS_COLUMNS = (
    "policy",
    "seed",
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
DECISION_COLUMNS = (
    "arrival",
    "pod",
    "node",
    "gpus",
    "arrived_gpu_milli",
    "used_gpu_milli",
    "fragmentation_milli",
    "cpu_power_w",
    "gpu_power_w",
)


def metrics_csv(runs: Iterable[tuple[str, int, OnlineRun]]) -> bytes:
    """Figures of (policy, seed, run), a row a percent of arrived GPU capacity; watts, percents, GRAR from 0 to 1."""
    return _table(METRICS_COLUMNS, (row for policy, seed, run in runs for row in _metrics(policy, seed, run)))


def _metrics(policy: str, seed: int, run: OnlineRun) -> Iterator[Sequence[object]]:
    for row in run.metrics:
        known = {"policy": policy, "seed": seed}
        yield [known[name] if name in known else _cell(getattr(row, name)) for name in METRICS_COLUMNS]


def queue_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """queue.csv: a row a policy."""
    return _table(header, ([_shown(value) for value in row] for row in rows))


def _shown(value: object) -> object:
    return _cell(value) if isinstance(value, float) else value


def decisions_file(policy: str, seed: int) -> str:
    """Name of the file of a run's decisions: `pwr:0.1+fgd:0.9` becomes `pwr_0.1_fgd_0.9`."""
    return f"decisions_{re.sub(r'[^a-z0-9.]+', '_', policy.lower())}_{seed}.csv"


def decisions_csv(decisions: Iterable[Decision]) -> bytes:
    """A row an arrival; `node` is empty where the pod fitted nowhere, `gpus` are indices joined by `-`."""
    return _table(DECISION_COLUMNS, map(_decision, decisions))


def _decision(line: Decision) -> Sequence[object]:
    gpus = "-".join(map(str, line.gpus))
    drawn = f"{line.fragmentation_milli:.2f}", _cell(line.cpu_power_w), _cell(line.gpu_power_w)
    return line.arrival, line.pod, line.node, gpus, line.arrived_gpu_milli, line.used_gpu_milli, *drawn


def _cell(value: float) -> str:
    return f"{value:.10g}"


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()
