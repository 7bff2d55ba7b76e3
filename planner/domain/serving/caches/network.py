"""The network between prefill and decode islands: what KV caches may take of it, and what they need."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from planner.domain.keys import Bounds, Key, Mapped
from planner.domain.layout import Inventory
from planner.domain.model.spec import ModelSpec
from planner.domain.workload import LengthRange

BYTES_PER_GB = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """What KV transfer may take, of every GPU's data-sheet `nic_gb_s` and of switches (10^9 bytes a GB). GPU types
    without an uplink reach everybody at the speed of their NICs."""

    nic_share: Annotated[float, Bounds(above=0, high=1), Key("part of every GPU's NIC that KV caches may take")] = 0.5
    switch_gb_s: Annotated[
        tuple[tuple[str, float], ...],
        Bounds(above=0, high=1e9),
        Mapped(ascending=True),
        Key("uplink of the switch that all islands of a GPU type share, each way", name="uplinks_gb_s"),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KvTraffic:
    """What one request hands over, per range of the table, and the NIC of each GPU type (GB, GB/s a GPU)."""

    gb_per_request: tuple[float, ...]
    nic_gb_s: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, model: ModelSpec, inventory: Inventory, ranges: Iterable[LengthRange]) -> "KvTraffic":
        """The traffic of a model's requests between islands of an inventory."""
        return cls(
            gb_per_request=tuple(kv_gb(model, span.mean_input_tokens) for span in ranges),
            nic_gb_s=tuple((item.gpu.name, item.gpu.nic_gb_s) for item in inventory.items),
        )


def kv_gb(model: ModelSpec, tokens: float) -> float:
    """What a prompt hands from prefill to decode (GB): one whole copy of its cache, of windows what they still see, and
    the states.

    An upper bound where the decode island holds a prefix already; copies that several ranks of an attention group keep
    are made after arrival and do not count.
    """
    return model.cached_bytes(tokens) / BYTES_PER_GB
