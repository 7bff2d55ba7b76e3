"""Servers spread over nodes, and what a lost node takes, against every way to lay them out."""

from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np
import pytest

from planner.domain import BucketPool, Inventory, InventoryItem, ParallelConfig, Phase, ServerConfig
from planner.evaluation.buckets.spreads import lost_servers, spread
from planner.files import load_gpu_spec

HOST = 8
Node = tuple[int, ...]


def pools_of(rng: np.random.Generator, nodes: int) -> tuple[BucketPool, ...]:
    """Two or three pools of one bucket that nodes of eight GPUs have room for."""
    room, pools = nodes * HOST, []
    for _ in range(int(rng.integers(2, 4))):
        devices = int(rng.choice([1, 2, 4, 8]))
        count = int(rng.integers(1, 1 + max(1, room // devices // 2)))
        if count * devices > room:
            break
        room -= count * devices
        pools.append(
            BucketPool(
                gpu="H20",
                phase=Phase.PREFILL,
                server=ServerConfig(parallel=ParallelConfig(tp=devices, dp=1), tokens_per_step=8192),
                count=count,
                start=0,
                end=100,
                capacity_rps=float(rng.uniform(1, 2)) * devices,
                full_rps=9.0,
            )
        )
    return tuple(pools)


def of_nodes(gpus: int) -> Inventory:
    return Inventory(items=(InventoryItem(gpu=load_gpu_spec("H20"), count=gpus, price_usd_per_gpu_hour=1.0),))


def contents(pools: tuple[BucketPool, ...], most: tuple[int, ...]) -> list[Node]:
    """What one node may hold: so many servers of each pool, at most `most`."""
    numbers = product(*(range(min(pool.count, top) + 1) for pool, top in zip(pools, most, strict=True)))
    sizes = [pool.server.parallel.devices for pool in pools]
    return [n for n in numbers if sum(d * k for d, k in zip(sizes, n, strict=True)) <= HOST]


def fits(pools: tuple[BucketPool, ...], nodes: int, most: tuple[int, ...]) -> bool:
    """Whether all servers find room on so many nodes with at most `most` of each pool on one."""
    choices = contents(pools, most)

    @cache
    def rest(left: Node, empty: int) -> bool:
        if not any(left):
            return True
        smaller = (n for n in choices if any(n) and all(k <= m for k, m in zip(n, left, strict=True)))
        return empty > 0 and any(rest(tuple(m - k for k, m in zip(n, left, strict=True)), empty - 1) for n in smaller)

    return rest(tuple(pool.count for pool in pools), nodes)


def worst_rps(pools: tuple[BucketPool, ...], most: tuple[int, ...]) -> float:
    """The most that any node takes along."""
    rates = [pool.capacity_rps for pool in pools]
    return max(sum(r * k for r, k in zip(rates, n, strict=True)) for n in contents(pools, most))


def drawn() -> Iterator[tuple[int, tuple[BucketPool, ...]]]:
    rng = np.random.default_rng(3)
    for _ in range(20):
        nodes = int(rng.integers(2, 4))
        yield nodes, pools_of(rng, nodes)


@pytest.mark.parametrize(("nodes", "pools"), list(drawn()))
def test_servers_are_spread_as_thinly_as_all_of_them_find_room(nodes: int, pools: tuple[BucketPool, ...]) -> None:
    thin = spread(pools, of_nodes(nodes * HOST))
    most = tuple(pool.per_node or 1 for pool in thin)
    assert fits(pools, nodes, most), "servers lie so"
    fewest = [
        min(
            top
            for top in range(1, pool.count + 1)
            if fits(pools, nodes, tuple(top if k == n else HOST for n in range(len(pools))))
        )
        for k, pool in enumerate(pools)
    ]
    assert all(top >= least for top, least in zip(most, fewest, strict=True))
    alone = [-(-pool.count // nodes) for pool in pools]
    if fits(pools, nodes, tuple(alone)):
        assert worst_rps(pools, most) <= worst_rps(pools, tuple(alone)) + 1e-9


@pytest.mark.parametrize(("nodes", "pools"), list(drawn()))
def test_a_lost_node_takes_no_less_than_any_layout_puts_on_one(nodes: int, pools: tuple[BucketPool, ...]) -> None:
    thin = spread(pools, of_nodes(nodes * HOST))
    most = tuple(pool.per_node or 1 for pool in thin)
    lost = [lost_servers(thin, {"H20": HOST}, first, 1) for first in range(len(thin))]
    taken = [sum(thin[k].capacity_rps * count for k, count in each.items()) for each in lost]
    assert max(taken) == pytest.approx(worst_rps(thin, most))
    for each in lost:
        assert tuple(each.get(k, 0) for k in range(len(thin))) in contents(thin, most)
