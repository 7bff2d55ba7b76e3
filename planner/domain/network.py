"""The network between prefill and decode islands: what KV caches may take of it, and what they need."""

from collections.abc import Iterable
from dataclasses import dataclass

from planner.domain.layout import Inventory
from planner.domain.model import ModelSpec
from planner.domain.workload import LengthRange

BYTES_PER_GB = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """What KV transfer may take.

    `nic_share` in (0, 1]: part of every GPU's data-sheet `nic_gb_s`. `switch_gb_s`: GPU type -> uplink of the switch
    that all its islands share, for what leaves the type and, as much again, for what enters it (GB/s, 10^9 bytes);
    types without one reach everybody at the speed of their NICs.
    """

    nic_share: float = 0.5
    switch_gb_s: tuple[tuple[str, float], ...] = ()


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
    """KV cache that a prompt hands from prefill to decode (GB): one whole copy.

    An upper bound where layers see a window only, and where the decode island holds a prefix already; copies that
    several ranks of an attention group keep are made after arrival and do not count.
    """
    return model.kv_bytes_per_token * tokens / BYTES_PER_GB
