"""The way of a KV cache from prefill to decode: NICs of the sending rank, uplinks that a GPU type shares.

Each part of the way carries one cache after the other at its full rate; a cache is there when its slowest part is done.
"""

from planner.domain.fleet import ReplayFleet
from planner.units import MS_PER_S


class Network:
    """Free from when on (ms): NICs of sending ranks, uplinks out of and into a GPU type's switch."""

    __slots__ = ("_free", "_gb_ms", "_kv_gb", "_types")

    def __init__(self, fleet: ReplayFleet) -> None:
        self._free: dict[tuple[object, ...], float] = {}
        self._gb_ms = {gpu: gb_s / MS_PER_S for gpu, gb_s in fleet.uplinks}
        self._types = [pool.gpu for pool in fleet.pools]
        self._kv_gb = fleet.kv_gb_per_token

    def sent(self, now: float, nic: tuple[int, int], nic_ms: float, pools: tuple[int, int], tokens: int) -> float:
        """When the cache of a prompt of `tokens` is there. `nic`: server and rank that send; `nic_ms`: over its NIC
        alone; `pools`: numbers of the sending and the receiving pool."""
        done = self._over(now, nic, nic_ms)
        sender, receiver = (self._types[pool] for pool in pools)
        if self._gb_ms and sender != receiver:
            gb = self._kv_gb * tokens
            for way, gpu in (("out", sender), ("in", receiver)):
                if gpu in self._gb_ms:
                    done = max(done, self._over(now, (way, gpu), gb / self._gb_ms[gpu]))
        return done

    def _over(self, now: float, link: tuple[object, ...], length_ms: float) -> float:
        free = self._free
        start = free.get(link, 0.0)
        done = (start if start > now else now) + length_ms
        free[link] = done
        return done
