"""Nodes and jobs of a spot study from CSV, read strictly: errors name file, row and column."""

import math
from pathlib import Path

from planner.domain import MOST_GPUS_OF_A_NODE
from planner.files.disk.csv_rows import CsvRow, csv_rows, number_of, require_once
from planner.studies.spot.records import JobClass, SpotJob, SpotNode, StandbyWindow

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
