"""A cluster at one moment (what is held, idle, stranded, and drawn in W), and the cap on what it may draw.

Watts are those of GPUs that are held at their highest draw, of idle ones at rest, and of CPU packages. Under a cap
islands keep their places in order until the next would draw more than is left.
"""

from collections.abc import Mapping, Sequence

from planner.domain import ClusterState, FragmentShare, PlacementDemand, PlacementSettings, Qos, Shortfall
from planner.domain.node_room import Ask
from planner.domain.shapes import GroupKind
from planner.errors import InputError
from planner.placement.fragmentation import REQUESTS, stranded
from planner.placement.islands.filling import largest_first
from planner.placement.islands.fleet import Occupancy, Site
from planner.placement.islands.shortfalls import counted
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
    shares = dict(fleet.fragments.requests) if fleet.fragments.of_pods else {}
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
                share=shares.get(request, 0.0),
            )
            for request in sorted({*REQUESTS, *shares})
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


ROUNDING_W = 1e-6


def require_watts(settings: PlacementSettings, gpus: Sequence[str], watts: Watts) -> None:
    """InputError where there is a cap and nobody says what GPUs of a type draw."""
    unknown = [gpu for gpu in gpus if gpu not in watts]
    if settings.power_cap_w and unknown:
        raise InputError(
            f"placement.power_cap_w: the watts of {unknown[0]} must be known; they are not.",
            hint="Add idle_w and max_w to the GPU's specification, or leave out the cap.",
        )


def within_cap(
    sites: Sequence[Site], occupancy: Occupancy, settings: PlacementSettings, gpus: Sequence[str], watts: Watts
) -> tuple[list[Site], list[Shortfall]]:
    """The sites that stay, and the shortfalls of the others, which have left `occupancy`.

    All are lifted, then put back in the placer's order, those of the largest replicas first; from the first that would
    exceed the cap on, only the islands before it stay. Nothing is lifted where all are within it.
    """
    cap = settings.power_cap_w
    if not cap or watts_of(occupancy, gpus, watts) <= cap + ROUNDING_W:
        return list(sites), []
    for site in sites:
        site.leave(occupancy)
    drawn = watts_of(occupancy, gpus, watts)
    order = sorted(sites, key=lambda site: largest_first(site.demand))
    islands: set[str] = set()
    shortfalls: dict[str, Shortfall] = {}
    for site in order:
        site.enter(occupancy)
        extra_w = watts_of(occupancy, gpus, watts) - drawn
        if shortfalls or drawn + extra_w > cap + ROUNDING_W:
            site.leave(occupancy)
            shortfalls[site.demand.island] = _shortfall(site.demand, extra_w, drawn, cap, watts)
        else:
            drawn += extra_w
            islands.add(site.demand.island)
    return [site for site in sites if site.demand.island in islands], [
        shortfalls[site.demand.island] for site in sites if site.demand.island in shortfalls
    ]


def _shortfall(demand: PlacementDemand, extra_w: float, drawn: float, cap: float, watts: Watts) -> Shortfall:
    spare_w = cap - drawn
    per_replica = extra_w / demand.replicas
    remedies = [f"placement.power_cap_w {drawn + extra_w:.0f}: it would fit"]
    # By an average replica: nodes that are woken up cost the first ones more, hence "about".
    replicas = min(demand.replicas - 1, int(spare_w // per_replica)) if spare_w > 0 and per_replica > 0 else 0
    if replicas > 0:
        gpus = counted(replicas * demand.groups * demand.tp, "GPU")
        remedies.append(f"fewer GPUs: about {replicas:,} of {counted(demand.replicas, 'replica')} would fit ({gpus})")
    remedies += _thriftier(demand, watts)
    reason = f"{extra_w:,.0f} W are asked for, {max(spare_w, 0):,.0f} W are left of the cap of {cap:,.0f} W"
    return Shortfall(
        island=demand.island,
        gpu=demand.gpu,
        gpus=demand.size,
        resource="power",
        reason=reason
        + (f"; {drawn:,.0f} W are drawn already" if spare_w > 0 else f"; {drawn:,.0f} W are drawn already, before it"),
        remedies=tuple(remedies),
    )


def _thriftier(demand: PlacementDemand, watts: Mapping[str, tuple[float, float]]) -> list[str]:
    """The GPU type whose work adds least, where that is less."""
    own_watts = watts[demand.gpu]
    woken = {gpu: at_work - at_rest for gpu, (at_rest, at_work) in watts.items()}
    less = sorted((w, gpu) for gpu, w in woken.items() if w < own_watts[1] - own_watts[0])
    return [
        f"GPUs that draw less: {gpu} adds {w:g} W a GPU, {demand.gpu} {own_watts[1] - own_watts[0]:g} W"
        for w, gpu in less[:1]
    ]
