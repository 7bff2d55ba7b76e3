"""A cluster at one moment: what is held, idle, stranded, and drawn (W)."""

from collections.abc import Mapping, Sequence

from planner.domain import ClusterState, FragmentShare, Qos
from planner.domain.node_room import Ask
from planner.domain.shapes import GroupKind
from planner.placement.islands.fleet import Occupancy
from planner.placement.islands.scoring import REQUESTS, stranded
from planner.placement.power_model import cpu_watts

Watts = Mapping[str, tuple[float, float]]
"""GPU type -> (W at rest, W at work)."""


def state_of(occupancy: Occupancy, gpus: Sequence[str], watts: Watts, cpus_per_gpu: int) -> ClusterState:
    """The state of the nodes with GPUs of these types; held GPUs count at their highest draw. Requests fit by number;
    guaranteed work is given those that a single GPU's groups may have.
    """
    fleet = occupancy.fleet
    nodes = fleet.of_type(gpus)
    idle = {n: occupancy.free[n].idle for n in nodes}
    total = sum(len(fleet.nodes[n].gpus) for n in nodes)
    alone = GroupKind(1, cpus_per_gpu, Qos.GUARANTEED)
    asks = {gpu: Ask(gpu, (), alone, 0.0) for gpu in gpus}
    return ClusterState(
        gpus=total,
        allocated=total - sum(idle.values()),
        idle=sum(idle.values()),
        headroom_gpus=sum(_headroom(occupancy, n, asks[fleet.nodes[n].gpu]) for n in nodes),
        watts=watts_of(occupancy, gpus, watts),
        empty_nodes=sum(idle[n] == len(fleet.nodes[n].gpus) for n in nodes),
        fragments=tuple(
            FragmentShare(
                gpus=request,
                stranded=sum(stranded(idle[n], request) for n in nodes),
                fit=sum(idle[n] // request for n in nodes),
            )
            for request in REQUESTS
        ),
    )


def watts_of(occupancy: Occupancy, gpus: Sequence[str], watts: Watts) -> float:
    """W of the nodes with GPUs of these types."""
    return sum(_watts(occupancy, n, occupancy.free[n].idle, watts) for n in occupancy.fleet.of_type(gpus))


def _headroom(occupancy: Occupancy, node: int, alone: Ask) -> int:
    return occupancy.room(node, alone) if occupancy.suits(node, alone) else 0


def _watts(occupancy: Occupancy, node: int, idle: int, watts: Watts) -> float:
    record = occupancy.fleet.nodes[node]
    at_rest, at_work = watts.get(record.gpu, (0.0, 0.0))
    busy = len(record.gpus) - idle
    return at_rest * idle + at_work * busy + cpu_watts(record.cpus, occupancy.free[node].cpus)
