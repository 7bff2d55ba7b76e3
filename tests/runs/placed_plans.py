"""A plan put on made-up nodes by hand, with one island short, victims and all else that a placement may hold."""

from collections.abc import Sequence
from dataclasses import replace

from planner.domain import (
    Alignment,
    Cluster,
    ClusterNode,
    ClusterState,
    FragmentShare,
    IslandSite,
    NodeGpu,
    NumaNode,
    PlacedPart,
    Placement,
    Plan,
    PlannedIsland,
    Pod,
    Reach,
    ScorePart,
    Shortfall,
    Victim,
)


def _node(gpu: str, place: int) -> ClusterNode:
    name = f"{gpu.lower()}-{place}"
    return ClusterNode(
        name=name,
        gpu=gpu,
        gpus=tuple(NodeGpu(index=i, uuid=f"GPU-{name}-{i}", numa=i // 4) for i in range(8)),
        numa_nodes=tuple(NumaNode(id=n, socket=n, cores=tuple(range(n * 32, n * 32 + 32))) for n in range(2)),
        cpus=64.0,
        memory_gb=1000.0,
        asw=f"asw-{place // 2}",
    )


CLUSTER = Cluster(
    name="eight",
    nodes=tuple(_node(gpu, place) for gpu in ("H200", "H20") for place in range(24)),
    pods=(Pod(name="sweep", node="h200-0", gpus=(0,), preemptible=True),),
)
STATE = ClusterState(
    gpus=384,
    allocated=1,
    idle=383,
    headroom_gpus=380,
    watts=54321.5,
    empty_nodes=47,
    fragments=(FragmentShare(gpus=4, stranded=3, fit=95, share=0.5), FragmentShare(gpus=8, stranded=7, fit=47)),
)


def _parts(islands: Sequence[PlannedIsland]) -> tuple[PlacedPart, ...]:
    """Whole islands, one after the other, on the nodes of their type; GPU by GPU."""
    free = {
        gpu: [(node, one) for node in CLUSTER.nodes if node.gpu == gpu for one in range(8)] for gpu in ("H200", "H20")
    }
    parts = []
    for island in islands:
        taken = [free[island.gpu].pop(0) for _ in range(island.size)]
        for node in dict.fromkeys(node for node, _ in taken):
            gpus = tuple(one for at, one in taken if at is node)
            parts.append(
                PlacedPart(
                    island=island.id,
                    replica=0,
                    node=node.name,
                    asw=node.asw,
                    tp=1,
                    gpu_indices=gpus,
                    numa_nodes=tuple(sorted({one // 4 for one in gpus})),
                    cores=(*range(gpus[0] * 8, gpus[0] * 8 + 8), 63),
                    nics=("mlx5_0",),
                )
            )
    return tuple(parts)


def placed_by_hand(plan: Plan) -> Plan:
    """The plan on nodes, but for its last island; of the small plan's GPU types."""
    serving = [island for island in plan.islands if island.phase]
    first, last = serving[0], serving[-1]
    parts = _parts(serving[:-1])
    placement = Placement(
        cluster="eight",
        parts=parts,
        sites=(
            IslandSite(
                island=first.id,
                gpus=first.size,
                nodes=1,
                switches=(("asw-0", first.size),),
                entropy=0.0,
                aligned=True,
                worst=Alignment.SOCKET,
                crossing_replicas=0,
                domains=(("nvl-0", 4),),
                crossing_domains=1,
                rate_rps=8.0,
                ideal_rps=10.0,
                waits_for=(1, 2),
            ),
        ),
        shortfalls=(
            Shortfall(
                island=last.id,
                gpu=last.gpu,
                gpus=last.size,
                resource="cores",
                reason="h20-0 has 3 whole cores",
                remedies=("fewer cores a GPU", "move default/sweep"),
            ),
        ),
        before=STATE,
        after=replace(STATE, allocated=33, idle=351),
        score=0.73,
        terms=(ScorePart(name="topology", value=1.0, weight=1.0), ScorePart(name="packing", value=-0.2, weight=0.1)),
        victims=(
            Victim(
                pod="default/sweep", node="h200-0", island=first.id, priority=5, gpus=1, lost_gpu_hours=None, order=1
            ),
            Victim(
                pod="default/sweep", node="h200-0", island=first.id, priority=5, gpus=1, lost_gpu_hours=0.25, order=2
            ),
        ),
        unplaced_rps=plan.throughput_rps,
        placed_rps=plan.throughput_rps / 2,
        judged_rps=plan.throughput_rps / 2 - 0.125,
    )
    islands = tuple(
        island if island.phase is None else replace(island, reach=Reach(foreign=0.5, crossing=0.25, path=1 / 1.27))
        for island in plan.islands
    )
    return replace(plan, scenario=replace(plan.scenario, cluster=CLUSTER), placement=placement, islands=islands)
