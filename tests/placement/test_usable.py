"""GPUs that are counted as usable are those that the placer accepts: one rule, asked from two sides."""

from dataclasses import replace

import numpy as np
import pytest
from placed_records import cluster_of, node

from planner.domain import PHASES, Cluster, PlacementDemand, PlacementSettings, Pod, Qos, Taint
from planner.domain.usable import usable_by_type
from planner.placement import place
from planner.report.cluster.cluster_state import summarize_cluster
from planner.report.cluster.page import cluster_page
from planner.report.kit.markdown import page_text


def drawn(rng: np.random.Generator) -> Cluster:
    """Four nodes with pods that hold GPUs, cores and memory; some tainted, some with pods of unknown GPUs."""
    nodes, pods = [], []
    for k in range(4):
        taints = (Taint(key=str(rng.choice(["spare", "broken"]))),) if rng.random() < 0.4 else ()
        nodes.append(replace(node(f"n{k}", cores=8), cpus=float(rng.integers(4, 64)), taints=taints))
        for gpu in nodes[-1].gpus:
            if rng.random() < 0.3:
                pods.append(Pod(name=f"p{k}-{gpu.index}", node=f"n{k}", gpus=(gpu.index,), memory_gb=20.0))
        if rng.random() < 0.2:
            pods.append(Pod(name=f"vague{k}", node=f"n{k}", gpu_request=0 if rng.random() < 0.5 else 1))
    held = {one.name: sum(pod.gpu_count for pod in pods if pod.node == one.name) for one in nodes}
    return cluster_of(*nodes, pods=[pod for pod in pods if held[pod.node] <= 8])


def most_placed(cluster: Cluster, settings: PlacementSettings) -> int:
    """Over nodes, the most GPUs that islands of one group each, all of one size and phase, get from the placer."""
    total = 0
    for one in cluster.nodes:
        alone = replace(cluster, nodes=(one,), pods=tuple(pod for pod in cluster.pods if pod.node == one.name))
        best = 0
        for phase in PHASES:
            for tp in range(1, 9):
                demands = [
                    PlacementDemand(
                        island=f"i{k}",
                        gpu=one.gpu,
                        phase=phase,
                        replicas=1,
                        groups=1,
                        tp=tp,
                        qos=settings.qos(phase),
                        cpus_per_gpu=settings.cpus_per_gpu,
                        memory_gb_per_gpu=settings.memory_gb_per_gpu,
                    )
                    for k in range(8 // tp)
                ]
                best = max(best, sum(site.gpus for site in place(demands, alone, settings).sites))
        total += best
    return total


@pytest.mark.parametrize("seed", range(8))
def test_the_count_is_what_the_placer_accepts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = drawn(rng)
    settings = PlacementSettings(
        prefill_qos=list(Qos)[int(rng.integers(4))],
        decode_qos=list(Qos)[int(rng.integers(4))],
        cpus_per_gpu=int(rng.choice([0, 2, 4])),
        memory_gb_per_gpu=float(rng.choice([0, 50])),
        tolerations=(Taint(key="spare"),),
    )
    usable, left_out = usable_by_type(cluster, settings)
    assert sum(usable.values()) == most_placed(cluster, settings)
    assert sum(usable.values()) + sum(one.gpus for one in left_out) == sum(cluster.idle_gpus.values())
    assert all(one.why for one in left_out)


def test_gpus_of_cordoned_nodes_are_neither_held_nor_idle() -> None:
    """The one rule: the page of a cluster, an inventory and the placer leave them out for the same reason."""
    cordoned = node("n1", taints=(Taint(key="node.kubernetes.io/unschedulable"),))
    cluster = cluster_of(node("n0"), cordoned, pods=[Pod(name="p", node="n1", gpus=(0,))])
    summary = summarize_cluster(cluster)
    (state,) = summary.types
    assert (state.gpus, state.held, state.shut, state.idle, state.empty_nodes) == (16, 1, 7, 8, 1)
    assert [row.fit for row in summary.fragments] == [8, 4, 2, 1]
    usable, left_out = usable_by_type(cluster, PlacementSettings())
    assert usable == {"H20": summary.idle}
    assert left_out == summary.shut
    assert summary.shut[0].text == "7 idle H20 GPUs on 1 node: are cordoned; uncordon them (kubectl uncordon)"
    page = page_text(cluster_page(cluster))
    assert "8 are idle" in page
    assert "neither held nor idle:\n\n- 7 idle H20 GPUs on 1 node: are cordoned" in page
