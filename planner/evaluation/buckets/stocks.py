"""What servers are made of: the GPUs of an inventory, or the islands of a layout."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.domain import Inventory, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """Units that servers are made of: GPUs of a type (`size` 1), or islands of one class (`size` GPUs each)."""

    gpu: str
    count: int
    size: int = 1
    charge: float = 0.0

    def nodes_for(self, gpus: int, host: int) -> int:
        """Among how many nodes of `host` GPUs servers of so many can be spread; larger ones have theirs alone."""
        every = self.count * self.size
        return max(1, every // gpus if gpus > host else -(-every // host))


def inventory_stocks(inventory: Inventory, charges: Sequence[float] = ()) -> tuple[Stock, ...]:
    """Every GPU type with all its GPUs."""
    paid = charges or (0.0,) * len(inventory.items)
    return tuple(
        Stock(gpu=item.gpu.name, count=item.count, charge=charge)
        for item, charge in zip(inventory.items, paid, strict=True)
        if item.count
    )


def island_stocks(layout: Layout) -> tuple[Stock, ...]:
    """Every class of islands with its islands."""
    return tuple(Stock(gpu=island.gpu, count=count, size=island.size) for island, count in layout.counts)
