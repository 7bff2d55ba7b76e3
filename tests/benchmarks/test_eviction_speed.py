"""CPU-seconds of preemption under limits: what the tries in which all islands are placed anew cost over the first."""

import sys
import time

import pytest

from planner.domain import PHASES, Cluster, PlacementDemand, PlacementSettings
from planner.placement import place
from planner.placement.clusters.synthetic import Fit, synthesize
from planner.placement.islands.evictions import eviction_trials

pytestmark = pytest.mark.bench

LARGER = [pytest.param(*sizes, marks=pytest.mark.long) for sizes in ((400, 12, 20), (1_000, 30, 40))]
MOST_TIMES = 5.0
"""Further tries look at three times the nodes of the first two at most, and end with the try that passes that."""


def crowded(nodes: int, islands: int) -> tuple[Cluster, list[PlacementDemand]]:
    """A cluster with 97 % of its GPUs held, and islands of both phases of 8 to 32 GPUs."""
    cluster = synthesize(nodes, 5, 0.97, fit=Fit.RANDOM)
    gpu = max(cluster.gpus, key=lambda name: cluster.gpus[name])
    demands = [
        PlacementDemand(
            island=f"i{k}",
            gpu=gpu,
            phase=list(PHASES)[k % 2],
            replicas=2 + k % 3,
            groups=(2, 4, 1)[k % 3],
            tp=(4, 2, 8)[k % 3],
            cpus_per_gpu=4,
            rate_rps=1.0 + k % 5,
        )
        for k in range(islands)
    ]
    return cluster, demands


@pytest.mark.parametrize(("nodes", "islands", "victims"), [(200, 30, 25), *LARGER])
def test_all_tries_against_the_first(nodes: int, islands: int, victims: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, demands = crowded(nodes, islands)
    asked = PlacementSettings(preempt=True, cpus_per_gpu=4, most_victims=victims)
    taken, placed = [], []
    for tries in (0, eviction_trials.MOST_TRIES):
        monkeypatch.setattr(eviction_trials, "MOST_TRIES", tries)
        start = time.process_time()
        found = place(demands, cluster, asked)
        taken.append(time.process_time() - start)
        placed.append(sum(site.gpus for site in found.sites))
    sys.stdout.write(
        f"\n{nodes} nodes, {islands} islands: {taken[0]:.2f} s for {placed[0]} GPUs, {taken[1]:.2f} s for {placed[1]}\n"
    )
    assert taken[1] / taken[0] <= MOST_TIMES
