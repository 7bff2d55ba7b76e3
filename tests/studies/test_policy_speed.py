"""CPU-seconds of online policies on a trace as large as openb: mixtures, and ten copies of the cluster."""

import random
import sys
import time
from dataclasses import replace

import pytest
from peak_memory import peak_mb

from planner.domain import TraceNode, TracePod
from planner.placement.fragmentation import target_workload
from planner.studies.policies.online.arrivals import draw_arrivals, draw_tie_order
from planner.studies.policies.online.policies import parse_policy
from planner.studies.policies.online.simulation import simulate

pytestmark = pytest.mark.bench

COPIES = 10
KINDS = (
    ("T4", 2, 104, 420),
    ("G2", 8, 96, 490),
    ("P100", 2, 64, 134),
    ("V100M32", 8, 96, 52),
    ("V100M16", 4, 64, 54),
    ("G3", 8, 128, 39),
    ("A10", 1, 64, 24),
)
"""GPU model, GPUs, CPUs and nodes: 1 213 nodes, about as openb's."""

ASKS = ((0, 0, 17), (1, 1000, 48), (1, 500, 12), (1, 470, 10), (1, 810, 6), (1, 200, 4), (2, 1000, 1), (8, 1000, 2))
"""GPUs, milli-GPU of each, and how many of a hundred pods ask so."""


def trace(copies: int) -> tuple[list[TraceNode], list[TracePod]]:
    """So many copies of a cluster, and as many of its pods."""
    nodes = [
        TraceNode(name=f"n{model}-{k}", cpu_milli=cpus * 1000, memory_mib=cpus * 4096, gpus=gpus, gpu_model=model)
        for model, gpus, cpus, count in KINDS
        for k in range(count * copies)
    ]
    draw = random.Random(0)
    asks = draw.choices([ask[:2] for ask in ASKS], [ask[2] for ask in ASKS], k=8152)
    pods = []
    for k, (gpus, milli) in enumerate(asks):
        cpus = draw.choice((500, 2000, 3152, 4000, 6000, 7000, 8000, 10_000, 11_400, 12_000, 16_000))
        memory = draw.choice((1, 4, 8)) * 4096
        pods.append(TracePod(name=f"p{k}", cpu_milli=cpus, memory_mib=memory, gpus=gpus, gpu_milli=milli, gpu_spec=""))
    return nodes, [replace(pod, name=f"{pod.name}-{copy}") for copy in range(copies) for pod in pods]


def cpu_seconds(copies: int, policy: str, times: int = 1) -> tuple[float, int]:
    """(CPU-seconds of an experiment, the fastest of a few; arrivals)."""
    nodes, pods = trace(copies)
    arrivals, ties = draw_arrivals(pods, nodes, 42), draw_tie_order(nodes, 42)
    classes, taken = target_workload(pods), []
    for _ in range(times):
        start = time.process_time()
        simulate(nodes, arrivals, parse_policy(policy), classes, tie_order=ties, seed=42)
        taken.append(time.process_time() - start)
    return min(taken), len(arrivals)


def show(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_mixture_against_fgd_alone(times: int) -> None:
    fgd, arrivals = cpu_seconds(1, "fgd", times)
    both, _ = cpu_seconds(1, "pwr:0.1+fgd:0.9", times)
    show(
        f"{arrivals} arrivals, 1213 nodes: fgd {fgd:.2f} CPU-seconds ({arrivals / fgd:.0f} arrivals/s), "
        f"pwr:0.1+fgd:0.9 / fgd = {both / fgd:.2f}"
    )
    assert both <= 2 * fgd


def test_a_simulation_stays_small() -> None:
    megabytes = peak_mb("import test_policy_speed as bench\nbench.cpu_seconds(1, 'pwr:0.1+fgd:0.9')")
    show(f"peak memory of a process that simulates 1213 nodes: {megabytes:.0f} MB")
    assert megabytes <= 500


@pytest.mark.long
def test_ten_copies_of_the_cluster() -> None:
    one, arrivals = cpu_seconds(1, "fgd", times=2)
    ten, tenfold = cpu_seconds(COPIES, "fgd")
    show(
        f"ten copies of 1213 nodes, {tenfold} for {arrivals} arrivals: {ten:.1f} / {one:.2f} CPU-seconds = "
        f"{ten / one:.1f}"
    )
    assert tenfold >= 9.9 * arrivals
    assert ten <= 12 * one
