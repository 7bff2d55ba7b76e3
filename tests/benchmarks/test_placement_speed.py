"""CPU-seconds of placing: how they grow with the nodes, and the two sizes that are asked for."""

import sys
import time

import numpy as np
import pytest

from planner.domain import PHASES, Cluster, Phase, PlacementDemand, PlacementSettings
from planner.placement import Fleet, place, synthesize, violations

pytestmark = pytest.mark.bench

SIZES = (1_250, 2_500, 5_000, 10_000, 20_000)
NODES_AN_ISLAND = 20
TIMES = 3


def islands(count: int, seed: int) -> list[PlacementDemand]:
    """Islands of 1 to 64 GPUs of three types, half of them in either phase, each fed by all of the other."""
    rng = np.random.default_rng(seed)
    names: dict[Phase, list[str]] = {phase: [] for phase in PHASES}
    for k in range(count):
        names[Phase.DECODE if k % 2 else Phase.PREFILL].append(f"i{k}")
    demands = []
    for phase in PHASES:
        other = Phase.DECODE if phase is Phase.PREFILL else Phase.PREFILL
        feeds = tuple((name, 1.0) for name in names[other])
        for name in names[phase]:
            tp = int(rng.choice([1, 2, 4, 8]))
            demands.append(
                PlacementDemand(
                    island=name,
                    gpu=str(rng.choice(["H200", "H800", "H20"])),
                    phase=phase,
                    replicas=int(rng.choice([1, 1, 2])),
                    groups=min(32 // tp, int(rng.choice([1, 1, 2, 4, 8]))),
                    tp=tp,
                    cpus_per_gpu=8,
                    feeds=feeds,
                )
            )
    return demands


def cpu_seconds(cluster: Cluster, demands: list[PlacementDemand]) -> float:
    """The fastest of a few, the cluster's preparation included."""
    taken = []
    for _ in range(TIMES):
        start = time.process_time()
        found = place(demands, Fleet.of(cluster), PlacementSettings())
        taken.append(time.process_time() - start)
        assert not found.shortfalls
        assert not violations(cluster, demands, found)
    return min(taken)


@pytest.mark.parametrize("sizes", [SIZES[:3], pytest.param(SIZES, marks=pytest.mark.long)])
def test_cost_grows_no_faster_than_the_nodes(sizes: tuple[int, ...]) -> None:
    """The same islands on ever larger clusters, and islands that grow with the cluster; slopes in log-log."""
    clusters = {nodes: synthesize(nodes, 1, 0.7) for nodes in sizes}
    same = [cpu_seconds(clusters[nodes], islands(60, 0)) for nodes in sizes]
    growing = [cpu_seconds(clusters[nodes], islands(nodes // NODES_AN_ISLAND, 0)) for nodes in sizes]
    slope = np.polyfit(np.log(sizes), np.log(same), 1)[0]
    joint = np.polyfit(np.log(sizes), np.log(growing), 1)[0]
    told = ", ".join(f"{n:,}: {a:.2f} / {b:.2f}" for n, a, b in zip(sizes, same, growing, strict=True))
    sys.stderr.write(
        f"\nplacing, CPU-s by nodes (60 islands / {NODES_AN_ISLAND} nodes an island): {told}; slope {slope:.2f}, "
        f"islands growing too {joint:.2f}\n"
    )
    assert slope <= 1.1


def test_a_hundred_islands_on_a_thousand_nodes() -> None:
    cluster = synthesize(1_000, 1, 0.5)
    few, many = cpu_seconds(cluster, islands(25, 3)), cpu_seconds(cluster, islands(100, 3))
    sys.stderr.write(f"\nplacing on 1,000 nodes: 25 islands {few:.3f}, 100 islands {many:.3f} CPU-s\n")
    assert many <= 8 * few
