"""A batch of four small jobs: one twice, one that no fleet serves."""

import csv
from pathlib import Path

SMALL = """\
name: small
model: deepseek-v3
workload: normal-500-2000
inventory: {H200: 16}
prices_usd_per_gpu_hour: {H200: 4, H20: 1}
ranges: {width: 4096}
serving: split
"""
JOBS = """\
defaults: {scenario: small.yaml}
jobs:
  - {name: level, grid: {slo.tpot_ms: [40, 80]}}
  - {name: same, set: {slo.tpot_ms: 80}}
  - {name: none, inventories: [{H200: 4}]}
"""
BARE = ("--executor", "serial", "--no-figures")


def write_jobs() -> None:
    """The scenario and its jobs, in the folder one is in."""
    Path("small.yaml").write_text(SMALL)
    Path("jobs.yaml").write_text(JOBS)


def rows_of(folder: str) -> list[dict[str, str]]:
    """The rows of results.csv."""
    return list(csv.DictReader(Path(folder, "results.csv").read_text().splitlines()))


def runs_of(folder: str) -> dict[str, Path]:
    """The run of each planned job."""
    return {row["job"]: Path(folder, "runs", row["run"]) for row in rows_of(folder) if row["state"] == "planned"}
