"""A plan without the servers that were lost, and an inventory without their GPUs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from planner.domain import BucketPool, Cluster, Inventory, PlacedPart, PlacementSettings, Plan, PlannedIsland
from planner.domain.changes import LostServers
from planner.domain.usable import preemptible_by_type, usable_by_type
from planner.errors import InputError

LISTED = 8
"""Nodes that a refusal names."""


def without_lost(plan: Plan, lost: LostServers) -> Plan:
    """The plan's pools with the servers that are left; those that lost all are gone. Rates are those of before.

    Raises InputError where the plan has no such servers, GPUs or nodes.
    """
    gone = _lost_servers(plan, lost)
    if not gone:
        return plan
    pools = [replace(pool, count=pool.count - gone[pool.island]) for pool in plan.outlook.pools]
    islands = [_smaller(island, gone[island.id]) for island in plan.islands]
    placement = plan.placement
    if placement is not None:
        placement = replace(placement, parts=tuple(_remaining_parts(plan, lost, {p.island: p.count for p in pools})))
    return replace(
        plan,
        buckets=replace(plan.outlook, pools=tuple(pool for pool in pools if pool.count)),
        islands=tuple(island for island in islands if island.size),
        placement=placement,
    )


def remaining_inventory(plan: Plan, inventory: Inventory, lost: LostServers) -> Inventory:
    """The inventory less the GPUs that were lost; of servers across nodes those on nodes that were. InputError where it
    has fewer."""
    gpus = Counter(dict(lost.gpus))
    pools = {pool.island: pool for pool in plan.outlook.pools}
    for island, count in _lost_servers(plan, replace(lost, gpus=(), nodes=())).items():
        gpus[pools[island].gpu] += count * pools[island].server.parallel.devices
    for part in plan.placement.parts if plan.placement is not None else ():
        gpus[pools[part.island].gpu] += len(part.gpu_indices) * (part.node in lost.nodes)
    items = []
    for item in inventory.items:
        remaining = item.count - gpus[item.gpu.name]
        if remaining < 0:
            raise InputError(
                f"lost: {item.gpu.name}: must be at most the inventory's {item.count} GPUs, got {gpus[item.gpu.name]}.",
                hint="The scenario's inventory is that of before the loss.",
            )
        items.append(replace(item, count=remaining))
    return replace(inventory, items=tuple(items))


def with_shortfall(
    plan: Plan, inventory: Inventory, lost: LostServers, meanwhile: Mapping[str, int]
) -> tuple[LostServers, dict[str, int]]:
    """What is lost where the inventory less what is `lost` has fewer GPUs than run: servers beyond it, too, but for
    GPUs that are there `meanwhile`, by type. And how many GPUs more that makes of each type.

    Raises InputError as `without_lost` does.
    """
    remaining, before = without_lost(plan, lost), plan.scenario.inventory
    items = remaining_inventory(plan, inventory, lost).items
    available = {item.gpu.name: item.count for item in items} | dict(meanwhile)
    gpus = dict(lost.gpus)
    more = dict[str, int]()
    for item in before.items:
        name = item.gpu.name
        short = _used(remaining, name) - available.get(name, 0)
        if short > 0:
            gone = max(gpus.get(name, 0), item.count - _used(plan, name)) + short  # idle ones go first
            more[name], gpus[name] = gone - gpus.get(name, 0), gone
    return replace(lost, gpus=tuple(gpus.items())), more


def _used(plan: Plan, gpu: str) -> int:
    return sum(pool.gpus for pool in plan.outlook.pools if pool.gpu == gpu)


def remaining_cluster(cluster: Cluster, lost: LostServers) -> Cluster:
    """The cluster without the nodes that were lost, and what ran on them."""
    return replace(
        cluster,
        nodes=tuple(node for node in cluster.nodes if node.name not in lost.nodes),
        pods=tuple(pod for pod in cluster.pods if pod.node not in lost.nodes),
    )


def no_more_than(cluster: Cluster, inventory: Inventory, settings: PlacementSettings) -> Inventory:
    """The inventory as far as the cluster has it: GPUs that did nothing on a lost node are gone, too."""
    usable, _ = usable_by_type(cluster, settings)
    evictable = preemptible_by_type(cluster, settings) if settings.preempt else {}
    counts = {gpu: usable.get(gpu, 0) + evictable.get(gpu, 0) for gpu in {*usable, *evictable}}
    items = (replace(item, count=min(item.count, counts.get(item.gpu.name, 0))) for item in inventory.items)
    return replace(inventory, items=tuple(items))


def _lost_servers(plan: Plan, lost: LostServers) -> Counter[str]:
    """Servers that are lost, by island."""
    pools = {pool.island: pool for pool in plan.outlook.pools}
    gone = Counter[str]()
    for island, count in lost.servers:
        if island not in pools or not 0 <= count <= pools[island].count:
            raise InputError(
                f"lost: {island}: must be servers of an island of the plan, at most as many as it has, got {count}.",
                hint=f"The plan has {', '.join(f'{pool.count} of {name}' for name, pool in pools.items())}.",
            )
        gone[island] += count
    if lost.nodes:
        gone.update(_on_nodes(plan, lost))
    for gpu, count in lost.gpus:
        _take(gone, plan, gpu, count)
    return Counter({island: min(count, pools[island].count) for island, count in gone.items() if count})


def _on_nodes(plan: Plan, lost: LostServers) -> Counter[str]:
    """Servers that have a part on a lost node."""
    nodes = {part.node for part in plan.placement.parts} if plan.placement is not None else set()
    strangers = sorted(set(lost.nodes) - nodes)
    if strangers:
        shortened = ", ".join(f"{name:.80}" for name in strangers[:LISTED])
        raise InputError(
            f"lost: {shortened}: must be nodes that the plan lies on, got nodes without a server of it.",
            hint="Name nodes of the plan's placement, or say which servers or GPUs were lost."
            if nodes
            else "The plan is not placed on nodes: say which servers or GPUs were lost.",
        )
    assert plan.placement is not None, "only placed plans lie on nodes"
    replicas = {(part.island, part.replica) for part in plan.placement.parts if part.node in lost.nodes}
    return Counter(island for island, _ in replicas)


def _remaining_parts(plan: Plan, lost: LostServers, counts: Mapping[str, int]) -> Iterator[PlacedPart]:
    """The parts of so many servers of each island: those on lost nodes are gone, then those of the highest numbers."""
    assert plan.placement is not None, "only placed plans have parts"
    replicas_of: dict[str, list[int]] = {}
    for part in plan.placement.parts:
        replicas = replicas_of.setdefault(part.island, [])
        if part.replica not in replicas and not _on_lost(plan, part.island, part.replica, lost):
            replicas.append(part.replica)
    stays = {island: set(sorted(replicas)[: counts[island]]) for island, replicas in replicas_of.items()}
    for part in plan.placement.parts:
        if part.replica in stays[part.island]:
            yield part


def _on_lost(plan: Plan, island: str, replica: int, lost: LostServers) -> bool:
    assert plan.placement is not None, "only placed plans lie on nodes"
    return any(
        part.node in lost.nodes for part in plan.placement.parts if (part.island, part.replica) == (island, replica)
    )


def _take(gone: Counter[str], plan: Plan, gpu: str, count: int) -> None:
    """So many GPUs of a type are lost: idle ones first, then servers of the largest pool, one at a time."""
    pools = [pool for pool in plan.outlook.pools if pool.gpu == gpu]
    offered = next((item.count for item in plan.scenario.inventory.items if item.gpu.name == gpu), None)
    if offered is None or not 0 <= count <= offered:
        raise InputError(
            f"lost: {gpu}: must be GPUs of the plan's inventory, at most {offered or 0}, got {count}.",
            hint="Name a GPU type of the plan that runs.",
        )
    missing = count - (offered - sum(pool.gpus for pool in pools))
    while missing > 0:
        largest = max(pools, key=lambda pool: (_servers_left(pool, gone) * pool.server.parallel.devices, pool.island))
        gone[largest.island] += 1
        missing -= largest.server.parallel.devices


def _servers_left(pool: BucketPool, gone: Counter[str]) -> int:
    return pool.count - gone[pool.island]


def _smaller(island: PlannedIsland, servers: int) -> PlannedIsland:
    """An island without some of its servers."""
    if island.parallel is None or not servers:
        return island
    servers_left = island.parallel.replicas - servers
    price = island.price_usd_per_hour / island.size * servers_left * island.parallel.devices
    if not servers_left:
        return replace(island, size=0)
    return replace(
        island,
        size=servers_left * island.parallel.devices,
        parallel=replace(island.parallel, replicas=servers_left),
        price_usd_per_hour=price,
    )
