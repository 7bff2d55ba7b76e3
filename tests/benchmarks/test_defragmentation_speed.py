"""CPU-seconds of defragmentation: a partition of 500 nodes, growth up to the paper's 37 707 nodes, and what the replay
adds."""

import sys
import time
from collections.abc import Callable

import pytest

from planner.defragmentation import consolidate, fewest_nodes, replay
from planner.domain import Cluster
from planner.domain.defragmentation import DefragmentationSettings
from planner.placement.clusters.synthetic import NodeType, TaskMix, synthesize

pytestmark = pytest.mark.bench


def churned(nodes: int, load: float = 0.87) -> Cluster:
    """Filled by best fit, 30 % of the tasks gone, refilled."""
    types = (NodeType(gpu="H800", share=1.0),)
    return synthesize(nodes, 1, load, types=types, mix=TaskMix(filled=1.0))


def cpu_s(work: Callable[[], object], times: int = 3) -> float:
    """CPU-seconds of the quickest of some runs."""
    seconds = []
    for _ in range(times):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def show(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")


def test_depth_and_replay_of_a_partition() -> None:
    cluster = churned(500)
    plan = consolidate(cluster)
    deep = cpu_s(lambda: consolidate(cluster))
    flat = cpu_s(lambda: consolidate(cluster, DefragmentationSettings(depth=1)))
    checked = cpu_s(lambda: replay(cluster, plan.moves))
    show(f"500 nodes: {deep:.3f} CPU-seconds, depth 1 {flat:.3f}; replay / plan = {checked / deep:.2f}")
    assert deep <= 10 * flat
    assert checked <= deep


@pytest.mark.parametrize(("few", "many"), [(1_000, 4_000), pytest.param(4_000, 37_707, marks=pytest.mark.long)])
def test_growth_is_nearly_linear(few: int, many: int) -> None:
    clusters = [churned(nodes) for nodes in (few, many)]
    small, large = (cpu_s(lambda cluster=cluster: consolidate(cluster), times=2) for cluster in clusters)
    ratio = (large / many) / (small / few)
    show(f"{many} nodes: {large:.1f} CPU-seconds; seconds a node against {few} nodes = {ratio:.2f}")
    assert ratio <= 1.6


def test_the_exact_programme_takes_many_times_as_long() -> None:
    cluster = churned(100)
    heuristic = cpu_s(lambda: consolidate(cluster))
    exact = cpu_s(lambda: fewest_nodes(cluster, count_moves=False), times=1)
    show(f"100 nodes: exact / chains = {exact / heuristic:.0f} ({exact:.2f} and {heuristic:.3f} CPU-seconds)")
    assert exact >= 3 * heuristic
