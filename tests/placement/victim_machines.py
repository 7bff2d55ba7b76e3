"""Machines of the paper's kind, and newcomers to them."""

from planner.domain import Preemptor, Qos, VictimMethod
from planner.placement.victims import Machines

EXACT = (VictimMethod.NAIVE, VictimMethod.IMP, VictimMethod.MASKS)


def machine(sockets: int = 2, numas: int = 8, gpus: int = 8, nodes: int = 1) -> Machines:
    """Empty machines of the paper's kind: GPU i on NUMA node i, four to a socket."""
    return Machines.uniform(nodes, sockets=sockets, numa_nodes=numas, gpus=gpus)


def asks(gpus: int, qos: Qos = Qos.GUARANTEED, priority: int = 1000, **more: float) -> Preemptor:
    return Preemptor(name="newcomer", gpus=gpus, priority=priority, qos=qos, **more)  # type: ignore[arg-type]
