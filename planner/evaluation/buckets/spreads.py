"""How the servers of pools are spread over nodes, and what a node may take of them.

| symbol | meaning |
|---|---|
| d[p], z[p] | GPUs of a server of a pool, its servers |
| s[p] | servers of the pool that share a node, at the most |

Pools of larger servers go first, each server to the node with most room that has not its part of the pool yet. A node
lost takes s of the pool that it is the worst for, then whatever else it may have: s of any other pool, while there is
room, those of the same buckets first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from planner.domain import BucketPool, Inventory
from planner.evaluation.buckets.priced import serves


def spread(pools: Iterable[BucketPool], inventory: Inventory) -> tuple[BucketPool, ...]:
    """The pools with as few servers a node as all of them together find room for."""
    every = tuple(pools)
    per_node: dict[int, int] = {}
    for item in inventory.items:
        host = item.gpu.gpus_per_host
        of_type = [k for k, pool in enumerate(every) if pool.gpu == item.gpu.name]
        large = sum(-(-every[k].gpus // host) * host for k in of_type if every[k].server.parallel.devices >= host)
        rooms = _rooms(item.count - large, host)
        small = [k for k in of_type if every[k].server.parallel.devices < host]
        for k in sorted(small, key=lambda k: -every[k].server.parallel.devices):
            per_node[k] = _placed(rooms, every[k].server.parallel.devices, every[k].count)
    return tuple(replace(pool, per_node=per_node.get(k, 0)) for k, pool in enumerate(every))


def _rooms(gpus: int, host: int) -> list[int]:
    return [host] * (gpus // host) + ([gpus % host] if gpus % host else [])


def _placed(rooms: list[int], devices: int, count: int) -> int:
    """Most servers of a pool that come to share a node; `rooms`: GPUs that are free on each, less those taken."""
    hosted = [0] * len(rooms)
    per_node = -(-count // max(1, len(rooms)))
    for _ in range(count):
        while True:
            open_to = [n for n, room in enumerate(rooms) if room >= devices and hosted[n] < per_node]
            if open_to or per_node >= count:
                break
            per_node += 1
        if not open_to:
            return 0  # no room: sizes that do not divide a node; as many as fit
        node = max(open_to, key=lambda n: (rooms[n], -n))
        rooms[node] -= devices
        hosted[node] += 1
    return max(hosted, default=0)


def most_per_node(pool: BucketPool, host: int) -> int:
    """Servers of a pool that a node may have."""
    fits = max(1, host // pool.server.parallel.devices)
    return min(fits, pool.per_node or fits)


def lost_servers(pools: Sequence[BucketPool], hosts: Mapping[str, int], first: int, nodes: int) -> dict[int, int]:
    """Servers that the loss of so many nodes takes, by pool, where they are the worst for the pool `first`. `hosts`:
    GPUs of a node, by type."""
    lost: dict[int, int] = dict.fromkeys(range(len(pools)), 0)
    beside = [k for k, pool in enumerate(pools) if serves(pool) & serves(pools[first])]
    for _ in range(nodes):
        start = first if lost[first] < pools[first].count else _worst(pools, hosts, lost, beside)
        if start is None:
            break
        _lose_node(pools, hosts[pools[start].gpu], lost, start, beside)
    return {k: count for k, count in lost.items() if count}


def _worst(
    pools: Sequence[BucketPool], hosts: Mapping[str, int], lost: Mapping[int, int], beside: Sequence[int]
) -> int | None:
    """The pool of the same bucket of which a node takes most."""
    surviving = [k for k in beside if pools[k].count > lost[k]]
    return max(
        surviving,
        key=lambda k: (pools[k].capacity_rps * most_per_node(pools[k], hosts[pools[k].gpu]), -k),
        default=None,
    )


def _lose_node(pools: Sequence[BucketPool], host: int, lost: dict[int, int], start: int, beside: Sequence[int]) -> None:
    """One node with as much of a pool as it may have, and of the others of its type what has room beside them."""
    room, gpu = host, pools[start].gpu
    others = [
        k for k, pool in enumerate(pools) if pool.gpu == gpu and k != start and pool.server.parallel.devices < host
    ]
    order = sorted(
        others, key=lambda k: (k not in beside, -pools[k].capacity_rps / pools[k].server.parallel.devices, k)
    )
    for k in (start, *order):
        devices = pools[k].server.parallel.devices
        count = min(pools[k].count - lost[k], most_per_node(pools[k], host), max(int(k == start), room // devices))
        lost[k] += count
        room -= count * devices
