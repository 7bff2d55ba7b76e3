"""Random clusters, and churned ones as schedulers leave them."""

import numpy as np
from hypothesis import strategies as st
from small_clusters import TAINT, cluster, node, pod

from planner.domain import Cluster
from planner.placement.clusters.synthetic import Fit, NodeType, TaskMix, synthesize


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Nodes of 4 or 8 GPUs, two types, labels and taints, and pods that lie where their rules allow it."""
    count = draw(st.integers(2, 7))
    nodes = [
        node(
            f"n{at}",
            draw(st.sampled_from([4, 8])),
            gpu=draw(st.sampled_from(["H20", "H20", "H200"])),
            labels=(("pool", draw(st.sampled_from("ab"))),),
            taints=draw(st.sampled_from([(), (), (TAINT,)])),
            cpus=draw(st.sampled_from([40.0, 64.0, 128.0])),
        )
        for at in range(count)
    ]
    pods = []
    for place in nodes:
        free, groups = list(range(len(place.gpus))), set()
        cpus = place.cpus
        for size in draw(st.lists(st.integers(1, 4), max_size=4)):
            wanted = float(size * draw(st.sampled_from([4, 8, 12])))
            if size > len(free) or wanted > cpus:
                continue
            group = draw(st.sampled_from(["", "", "g", "h"]))
            group = "" if group in groups else group
            groups.add(group)
            cpus -= wanted
            pods.append(
                pod(
                    f"p{len(pods)}",
                    place.name,
                    [free.pop() for _ in range(size)],
                    cpus=wanted,
                    locked=draw(st.integers(0, 4)) == 0,
                    anti_affinity=group,
                    node_selector=draw(st.sampled_from([(), (), place.labels])),
                    disruption_budget=draw(st.sampled_from(["", "", "some", "none"])),
                )
            )
    return cluster(nodes, pods, [("some", 1), ("none", 0)])


SMALL_TASKS = ((1, 0.60), (2, 0.25), (4, 0.13), (8, 0.02))


def churned(nodes: int, seed: int, load: float, *, fit: str = "best", small: bool = False) -> Cluster:
    """Hosts of one type, filled, 30 % of the tasks gone, refilled: the facts' mix, or one of small tasks."""
    mix = TaskMix(filled=1.0, sizes=SMALL_TASKS) if small else TaskMix(filled=1.0)
    return synthesize(nodes, seed, load, types=(NodeType(gpu="H800", share=1.0),), mix=mix, fit=Fit(fit))


def tiny(seed: int) -> Cluster:
    """Three to five nodes with at most nine pods, of which every order of moves can be looked at."""
    generator = np.random.default_rng(seed)
    size = int(generator.choice([4, 8]))
    nodes = [
        node(f"n{at}", size, cpus=float(generator.choice([8, 12, 16])) * size) for at in range(generator.integers(3, 6))
    ]
    pods = []
    for place in nodes:
        free, groups, cpus = list(range(size)), set(), place.cpus
        for _ in range(generator.integers(0, 5)):
            gpus = int(generator.choice([1, 1, 1, 2, 2, 3, 4]))
            wanted = float(gpus * generator.choice([4, 8, 12]))
            group, locked = str(generator.choice(["", "", "", "g"])), bool(generator.random() < 0.2)
            if gpus > len(free) or wanted > cpus or len(pods) == 9 or (group and group in groups):
                continue
            groups.add(group)
            cpus -= wanted
            held = [free.pop() for _ in range(gpus)]
            pods.append(pod(f"p{len(pods)}", place.name, held, cpus=wanted, locked=locked, anti_affinity=group))
    return cluster(nodes, pods)
