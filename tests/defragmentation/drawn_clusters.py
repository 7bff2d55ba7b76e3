"""Random clusters, and churned ones as schedulers leave them."""

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
