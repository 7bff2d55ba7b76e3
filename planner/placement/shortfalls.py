"""Why an island found no room: which resource is short, on which nodes, and what would help."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.domain import PlacementDemand, PlacementSettings, Qos, Shortfall
from planner.placement.fleet import Ask, Fleet, Occupancy
from planner.placement.preemption import may_go
from planner.placement.shapes import GroupKind, capacity, offered
from planner.placement.sites import ask_of

NAMED = 3
"""Nodes and pods that a reason lists by name."""


def shortfall_of(demand: PlacementDemand, occupancy: Occupancy, settings: PlacementSettings) -> Shortfall:
    """The shortfall of an island that has no room in `occupancy`."""
    fleet, ask = occupancy.fleet, ask_of(demand)
    of_type = fleet.of_type([demand.gpu])
    suited = [node for node in of_type if occupancy.suits(node, ask)]
    resource, reason = _reason(demand, ask, occupancy, of_type, suited)
    return Shortfall(
        island=demand.island,
        gpu=demand.gpu,
        gpus=demand.size,
        resource=resource,
        reason=reason,
        remedies=tuple(_remedies(demand, ask, occupancy, settings, suited)),
    )


def _reason(
    demand: PlacementDemand, ask: Ask, occupancy: Occupancy, of_type: list[int], suited: list[int]
) -> tuple[str, str]:
    """The first of the limits, from the coarsest on, that leaves too little for the island."""
    if not of_type:
        return "nodes", f"no node has {demand.gpu} GPUs"
    if not suited:
        why = _barred(occupancy.fleet, of_type, ask)
        return "nodes", f"none of the {len(of_type)} {demand.gpu} nodes may be used: {why}"
    idle = sum(sum(occupancy.gpus[node]) for node in suited)
    barred = len(of_type) - len(suited)
    among = f"{len(suited)} {demand.gpu} nodes" + (f" ({barred} more may not be used)" if barred else "")
    if idle < demand.size:
        return "GPUs", f"{demand.size} GPUs are asked for, {idle} are idle on {among}"
    return _limit(demand, ask, occupancy, suited, f"{idle} idle GPUs on {among}")


def _limit(demand: PlacementDemand, ask: Ask, occupancy: Occupancy, suited: list[int], idle: str) -> tuple[str, str]:
    """GPUs are idle in number: what keeps groups from forming, each ask stricter than the one before."""
    wanted = demand.replicas * demand.groups
    asks = (
        ("GPUs on one node", _loosened(ask, Qos.NONE, cores=False, memory=False)),
        ("CPUs", _loosened(ask, Qos.NONE, memory=False)),
        ("memory", _loosened(ask, Qos.NONE)),
        ("aligned GPUs", ask),
    )
    before = None
    for resource, stricter in asks:
        groups = _room(occupancy, suited, stricter)
        if groups < wanted or resource == asks[-1][0]:
            break
        before = stricter
    told = f"{groups} of {wanted} groups of {demand.tp} GPUs fit on {idle}"
    if before is None:
        return resource, f"{told}: the emptiest node is {_emptiest(occupancy, suited)}"
    short = _short(occupancy, suited, stricter, before)
    if resource == "CPUs":
        return resource, f"{told}, as each asks for {ask.cores} CPUs; short on {short}"
    if resource == "memory":
        return resource, f"{told}, as each asks for {ask.memory_gb:g} GB of memory; short on {short}"
    firm = f"QoS {demand.qos.value} (kubelet {demand.qos.kubelet_policy}), {ask.kind.cores_per_gpu} cores near each GPU"
    return resource, f"{told} under {firm}; {_width(occupancy.fleet, suited, ask)}short on {short}"


def _loosened(ask: Ask, qos: Qos, *, cores: bool = True, memory: bool = True) -> Ask:
    kind = GroupKind(ask.kind.tp, ask.kind.cores_per_gpu if cores else 0, qos)
    return replace(ask, kind=kind, memory_gb_per_gpu=ask.memory_gb_per_gpu if memory else 0.0)


def _room(occupancy: Occupancy, nodes: Iterable[int], ask: Ask) -> int:
    return sum(occupancy.room(node, ask) for node in nodes)


def _barred(fleet: Fleet, nodes: list[int], ask: Ask) -> str:
    """Why nodes may not be used, by the number of them."""
    closed = sum(not fleet.open[node] for node in nodes)
    unlabelled = sum(fleet.open[n] and not set(ask.selector) <= set(fleet.nodes[n].labels) for n in nodes)
    tainted = len(nodes) - closed - unlabelled
    told = (
        (closed, "hold pods whose GPUs are not known"),
        (unlabelled, f"lack the labels {', '.join(f'{key}={value}' for key, value in ask.selector)}"),
        (tainted, "have taints that are not tolerated"),
    )
    return ", ".join(f"{count} {why}" for count, why in told if count)


def _emptiest(occupancy: Occupancy, nodes: list[int]) -> str:
    node = max(nodes, key=lambda n: (sum(occupancy.gpus[n]), -n))
    return f"{occupancy.fleet.nodes[node].name} with {sum(occupancy.gpus[node])} idle GPUs"


def _short(occupancy: Occupancy, nodes: list[int], ask: Ask, looser: Ask) -> str:
    """Nodes that a looser ask would get more from, those that lose most first."""
    lost = {n: occupancy.room(n, looser) - occupancy.room(n, ask) for n in nodes}
    worst = sorted((n for n in nodes if lost[n] > 0), key=lambda n: (-lost[n], n))
    named = ", ".join(occupancy.fleet.nodes[n].name for n in worst[:NAMED])
    return f"{len(worst)} nodes ({named}{', ...' if len(worst) > NAMED else ''})"


def _width(fleet: Fleet, nodes: list[int], ask: Ask) -> str:
    """Said where not even an empty node could host a group."""
    shapes = {fleet.shapes[node] for node in nodes}
    if any(capacity(shape, offered(shape, shape.gpus, shape.cores, ask.kind), ask.kind) for shape in shapes):
        return ""
    return "not even an empty node could host one; "


def _remedies(
    demand: PlacementDemand, ask: Ask, occupancy: Occupancy, settings: PlacementSettings, suited: Sequence[int]
) -> Iterable[str]:
    groups = _room(occupancy, suited, ask)
    if whole := groups // demand.groups:
        yield f"fewer GPUs: {whole} of {demand.replicas} replicas fit ({whole * demand.groups * demand.tp} GPUs)"
    elif groups:
        yield f"fewer GPUs: {groups} groups fit ({groups * demand.tp} GPUs in one replica)"
    if demand.qos.binds:
        loose = _room(occupancy, suited, _loosened(ask, Qos.BEST_EFFORT))
        if loose >= demand.replicas * demand.groups:
            yield "placement.qos: best_effort: it would fit, not aligned everywhere"
    yield from _preemption(demand, ask, occupancy, settings, suited)
    yield from _migration(demand, ask, occupancy, suited)


def _preemption(
    demand: PlacementDemand, ask: Ask, occupancy: Occupancy, settings: PlacementSettings, suited: Sequence[int]
) -> Iterable[str]:
    going, gained = 0, _room(occupancy, suited, ask)
    for node in suited:
        pods = [pod for pod in occupancy.fleet.pods_of.get(node, ()) if may_go(pod, settings.priority)]
        if pods:
            trial = occupancy.alone(node)
            trial.evict(node, pods)
            gained += trial.room(node, ask) - occupancy.room(node, ask)
            going += len(pods)
    if not settings.preempt and going and gained >= demand.replicas * demand.groups:
        yield (
            f"a preemption: {going} pods below priority {settings.priority} may be evicted from these nodes, which "
            f"makes room for {gained} groups (placement.preempt: true)"
        )


def _migration(demand: PlacementDemand, ask: Ask, occupancy: Occupancy, suited: Sequence[int]) -> Iterable[str]:
    """A node that could host a group if its pods moved to idle GPUs elsewhere."""
    idle = sum(sum(occupancy.gpus[node]) for node in suited)
    if idle < demand.size:
        return  # nowhere to move to
    best = None
    for node in suited:
        movable = [pod for pod in occupancy.fleet.pods_of.get(node, ()) if not pod.locked and pod.gpus]
        gpus = sum(pod.gpu_count for pod in movable)
        if not movable or gpus > idle - sum(occupancy.gpus[node]):
            continue
        trial = occupancy.alone(node)
        trial.evict(node, movable)
        more = trial.room(node, ask) - occupancy.room(node, ask)
        if more > 0 and (best is None or (gpus / more, node) < best[0]):
            best = ((gpus / more, node), more, movable)
    if best is not None:
        (_, node), more, movable = best
        named = ", ".join(pod.key for pod in movable[:NAMED]) + (", ..." if len(movable) > NAMED else "")
        yield (
            f"a migration: moving {len(movable)} pods ({named}) off {occupancy.fleet.nodes[node].name} to idle GPUs "
            f"elsewhere makes room for {more} more group{'s' if more > 1 else ''} of {demand.tp} GPUs"
        )
