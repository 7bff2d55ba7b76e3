"""Nodes, jobs, policies and loads of a spot study, read strictly: errors name file, row and column, or the option."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from planner.domain import MOST_GPUS_OF_A_NODE
from planner.errors import InputError
from planner.files.disk.csv_rows import CsvRow, csv_rows, number_of, require_once
from planner.studies.spot.records import JobClass, SpotJob, SpotNode, StandbyWindow

if TYPE_CHECKING:
    from planner.studies.spot.records import SpotJob, SpotNode, SpotPolicy

NODE_COLUMNS = ("gpu_model", "gpu_capacity_num", "cpu_num", "node_name")
JOB_COLUMNS = ("job", "class", "submit_s", "pods", "gpus", "cpus", "duration_s", "checkpoint_s")
LONGEST_S = 1e10


def read_spot_nodes(path: Path) -> tuple[SpotNode, ...]:
    """Nodes, in the file's order: columns gpu_model, gpu_capacity_num, cpu_num, node_name, as in Alibaba's list."""
    nodes = [
        SpotNode(
            name=row.name("node_name"),
            gpus=row.whole("gpu_capacity_num", low=1, high=MOST_GPUS_OF_A_NODE),
            cpus=row.whole("cpu_num"),
            gpu_model=row.text("gpu_model"),
        )
        for row in csv_rows(path, NODE_COLUMNS)
    ]
    require_once(path, "node_name", [node.name for node in nodes])
    return tuple(nodes)


def read_spot_jobs(path: Path) -> tuple[SpotJob, ...]:
    """Jobs, in the file's order: columns job, class (hp or spot), submit_s, pods, gpus, cpus (the two of a pod),
    duration_s, checkpoint_s (empty for hp), and perhaps gpu_model and standby.

    `standby`: windows in seconds of the job's own clock, as 3600-7200;10800-14400.
    """
    jobs = [_job(row) for row in csv_rows(path, JOB_COLUMNS)]
    require_once(path, "job", [job.name for job in jobs])
    return tuple(jobs)


def _job(row: CsvRow) -> SpotJob:
    word = row.text("class").lower()
    if word not in {kind.value for kind in JobClass}:
        raise row.fault("class", "must be hp or spot")
    kind = JobClass(word)
    saves = kind is JobClass.SPOT or bool(row.text("checkpoint_s"))
    return SpotJob(
        name=row.name("job"),
        kind=kind,
        submit_s=_seconds(row, "submit_s", zero=True),
        pods=row.whole("pods", low=1),
        gpus=row.whole("gpus", low=1, high=MOST_GPUS_OF_A_NODE),
        cpus=row.whole("cpus"),
        duration_s=_seconds(row, "duration_s"),
        checkpoint_s=_seconds(row, "checkpoint_s") if saves else None,
        gpu_model=row.text("gpu_model"),
        standby=_windows(row),
    )


def _seconds(row: CsvRow, column: str, *, zero: bool = False) -> float:
    seconds = row.number(column)
    if not (seconds >= 0 if zero else seconds > 0) or seconds > LONGEST_S:
        raise row.fault(column, f"must be seconds, {'0 or more' if zero else 'above 0'} and at most {LONGEST_S:g}")
    return seconds


def _windows(row: CsvRow) -> tuple[StandbyWindow, ...]:
    """Windows as they are written; whether they lie in the job, apart from each other, is looked at with the job."""
    windows = []
    for part in row.text("standby").split(";") if row.text("standby") else ():
        begin, dash, end = part.partition("-")
        window = StandbyWindow(start_s=number_of(begin), end_s=number_of(end))
        if not dash or math.isnan(window.start_s) or math.isnan(window.end_s):
            raise row.fault("standby", "must be windows in seconds, as 3600-7200;10800-14400")
        windows.append(window)
    return tuple(windows)


GPUS, CPUS = 8, 192
MOST_LOADS = 50


def nodes_of(path: Path | None, machines: int) -> "tuple[SpotNode, ...]":
    """Nodes of a file, or so many alike."""
    from planner.studies.spot.records import SpotNode

    if path is not None:
        return read_spot_nodes(path)
    return tuple(SpotNode(name=f"node-{k}", gpus=GPUS, cpus=CPUS) for k in range(machines))


def jobs_of(path: Path | None, nodes: "Sequence[SpotNode]") -> "tuple[SpotJob, ...] | None":
    """Jobs of a file that can run on the nodes; None without a file. InputError names file and row."""
    from planner.studies.spot.simulation.checks import require_simulable

    if path is None:
        return None
    jobs = read_spot_jobs(path)
    try:
        require_simulable(nodes, jobs)
    except InputError as error:
        rows = [row for row, job in enumerate(jobs, start=1) if error.message.startswith(f"job {job.name}:")]
        where = f"row {rows[0]}, " if rows else ""
        raise InputError(f"{path}: {where}{error.message}", hint=error.hint) from None
    return jobs


def spot_policy(word: str) -> "SpotPolicy":
    """The policy of that name, in any case."""
    from planner.studies.spot.simulation.policies import parse_spot_policy

    return parse_spot_policy(word.strip().lower())


def curve_of(text: str | None) -> tuple[float, ...]:
    """`0.05,0.1,0.2`: spot loads, ascending; none without a text."""
    if text is None:
        return ()
    loads = [_number(part) for part in text.split(",")]
    if not all(0 < load <= 2 for load in loads) or loads != sorted(set(loads)) or len(loads) > MOST_LOADS:
        raise InputError(
            f"--curve: must be at most {MOST_LOADS} spot loads above 0 and at most 2, ascending, got {text!r}.",
            hint="Write 0.05,0.1,0.2.",
        )
    return tuple(loads)


def hours_of(text: str) -> tuple[float, float]:
    """`1-8`, or `2` for both: shortest and longest, above 0."""
    first, dash, last = text.partition("-")
    short, long = _number(first), _number(last if dash else first)
    if not (short > 0 and long >= short and math.isfinite(long)):
        raise InputError(
            f"--checkpoint-hours: must be hours above 0, the longer last, got {text!r}.", hint="Write 1-8."
        )
    return short, long


def weights_of(option: str, text: str | None) -> tuple[tuple[int, float], ...]:
    """`1:50,2:22`: whole numbers with their weights; none without a text."""
    if text is None:
        return ()
    pairs = [part.partition(":") for part in text.split(",")]
    counts = [int(count) if count.isascii() and count.isdigit() and len(count) < 5 else 0 for count, _, _ in pairs]
    weights = [_number(weight) for _, _, weight in pairs]
    if not (all(counts) and len(set(counts)) == len(counts) and all(0 < weight < math.inf for weight in weights)):
        raise InputError(
            f"{option}: must be whole numbers from 1, each once, with weights above 0, got {text!r}.",
            hint="Write 1:50,2:22,4:16,8:12.",
        )
    return tuple(zip(counts, weights, strict=True))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
