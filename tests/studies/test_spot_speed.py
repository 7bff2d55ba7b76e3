"""CPU-seconds of the spot simulation: sixty nodes for six days, four thousand nodes, the checker's share."""

import sys
import time

import pytest

from planner.studies.spot.records import SpotNode, SpotWorkload
from planner.studies.spot.simulation.policies import SPOTGPU
from planner.studies.spot.simulation.runs import simulate_spot
from planner.studies.spot.workload import draw_jobs

pytestmark = pytest.mark.bench

ALIKE = [SpotNode(name=f"n{k}", gpus=8, cpus=192) for k in range(60)]
KINDS = (("A10", 1, 128, 2494), ("S1", 1, 192, 902), ("S1", 4, 192, 10), ("S1", 8, 192, 77), ("A100", 8, 128, 454))
KINDS += (("S2", 8, 192, 122), ("H800", 8, 192, 219))
"""GPU model, GPUs, CPUs and nodes: 4 278 nodes, as Alibaba's list of 2026 has them."""

LARGE = [
    SpotNode(name=f"{model}-{gpus}-{k}", gpus=gpus, cpus=cpus, gpu_model=model)
    for model, gpus, cpus, count in KINDS
    for k in range(count)
]
LONGER = SpotWorkload(hp_hours=4.8, spot_hours=9.0, spot_load=0.24)
"""Jobs so long that 200 000 of them come in 23 days."""


def cpu_seconds(nodes: list[SpotNode], work: SpotWorkload, days: float, *, check: bool = True) -> tuple[float, int]:
    """(CPU-seconds of a run with its jobs drawn, jobs)."""
    start = time.process_time()
    jobs = draw_jobs(nodes, work, days, 1)
    simulate_spot(nodes, jobs, SPOTGPU, days=days, warm_up_days=days / 6, seed=1, check=check)
    return time.process_time() - start, len(jobs)


def show(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")


@pytest.mark.parametrize("days", [2.0, pytest.param(6.0, marks=pytest.mark.long)])
def test_sixty_nodes_and_the_checkers_share(days: float) -> None:
    checked, jobs = min(cpu_seconds(ALIKE, SpotWorkload(), days) for _ in range(3))
    bare, _ = min(cpu_seconds(ALIKE, SpotWorkload(), days, check=False) for _ in range(3))
    show(f"60 nodes, {days:g} days, {jobs} jobs: {checked:.2f} CPU-seconds; checked / bare = {checked / bare:.2f}")
    assert checked <= 2 * bare


@pytest.mark.long
def test_seventy_times_the_nodes() -> None:
    """A job costs little more where there are many nodes: buckets, not scans."""
    small, few = min(cpu_seconds(ALIKE, SpotWorkload(), 6.0) for _ in range(3))
    large, many = cpu_seconds(LARGE, LONGER, 2.0)
    ratio = (large / many) / (small / few)
    show(f"4278 nodes, 2 days, {many} jobs: {large:.2f} CPU-seconds; seconds a job against 60 nodes = {ratio:.2f}")
    assert ratio <= 3
