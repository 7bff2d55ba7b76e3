"""Which sizes islands may have, and in what units an inventory is handed out to them and to servers.

Islands of whole nodes are made of whole hosts, or of equal parts of one host. Beyond an NVLink domain that is larger
than a host they are whole domains. A part is the host halved so often that there are at least two of it, one a phase.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from planner.domain.gpu import GpuSpec
from planner.domain.layout import Inventory, InventoryItem, Layout


class SizeSet(StrEnum):
    """Which island sizes there may be. `whole_nodes`: equal parts of a host, whole hosts, whole NVLink domains."""

    ALL = "all"
    POWERS_OF_TWO = "powers_of_two"
    WHOLE_NODES = "whole_nodes"


Sizes = SizeSet | tuple[int, ...]


def admits(sizes: Sizes, gpu: GpuSpec, size: int) -> bool:
    """Whether an island of so many GPUs of the type may be formed."""
    match sizes:
        case SizeSet.ALL:
            return True
        case SizeSet.POWERS_OF_TWO:
            return size & (size - 1) == 0
        case SizeSet.WHOLE_NODES:
            host, domain = gpu.gpus_per_host, gpu.gpus_per_host * _hosts_per_domain(gpu)
            return host % size == 0 or (size % host == 0 and (size <= domain or size % domain == 0))
        case _:
            return size in sizes


def _hosts_per_domain(gpu: GpuSpec) -> int:
    """Whole hosts of an NVLink domain; 1 where a host is at least as large."""
    return max(1, gpu.gpus_per_nvlink_domain // gpu.gpus_per_host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """`units` of `unit` GPUs each that islands of one type, or servers, are made of.

    An island is either at most a group of units, or a whole number of groups: an NVLink domain is a group of hosts, a
    host a group of its parts. `least`: fewest units of an island. Servers are made of single GPUs, or in islands that
    are there; `charge`: of a GPU, as an objective counts it.
    """

    gpu: str
    units: int
    unit: int = 1
    group: int = 1
    least: int = 1
    charge: float = 0.0

    @property
    def most_islands(self) -> int:
        """Islands that all units together can form."""
        return self.most_islands_of(self.units)

    def most_islands_of(self, units: int) -> int:
        """Islands that so many units can form."""
        if self.least <= self.group:
            return units // self.least
        return units // (self.group * self.least_groups)

    @property
    def least_groups(self) -> int:
        """Fewest groups of an island of whole groups."""
        return -(-self.least // self.group)

    @property
    def largest_island(self) -> int:
        """GPUs of the largest island."""
        return self.unit * self.admitted(self.units)

    def admitted(self, units: int) -> int:
        """The largest island of at most so many units, whatever the least."""
        return units if units <= self.group else units - units % self.group

    def nodes_for(self, gpus: int, host: int) -> int:
        """Among how many nodes of `host` GPUs servers of so many can be spread; larger ones have theirs alone."""
        every = self.units * self.unit
        return max(1, every // gpus if gpus > host else -(-every // host))


def inventory_stocks(inventory: Inventory, charges: Sequence[float] = ()) -> tuple[Stock, ...]:
    """Every GPU type with all its GPUs."""
    paid = charges or (0.0,) * len(inventory.items)
    return tuple(
        Stock(gpu=item.gpu.name, units=item.count, charge=charge)
        for item, charge in zip(inventory.items, paid, strict=True)
        if item.count
    )


def island_stocks(layout: Layout) -> tuple[Stock, ...]:
    """Every class of islands with its islands."""
    return tuple(Stock(gpu=island.gpu, units=count, unit=island.size) for island, count in layout.counts)


def stocks_of(item: InventoryItem, sizes: Sizes, min_island_size: int) -> Iterator[Stock]:
    """The stocks of one GPU type. GPUs beside its whole hosts are a stock of their own: parts of a host.

    Parts are made of fewer than two hosts, too, that there may be an island for each phase. A list of sizes and powers
    of two are the exact method's alone: searches form islands of any size there.
    """
    if sizes is not SizeSet.WHOLE_NODES:
        yield Stock(gpu=item.gpu.name, units=item.count, least=min_island_size)
        return
    host = item.gpu.gpus_per_host
    if item.count < 2 * host:
        yield _parts(item.gpu, item.count, min_island_size)
        return
    yield Stock(
        gpu=item.gpu.name,
        units=item.count // host,
        unit=host,
        group=_hosts_per_domain(item.gpu),
        least=-(-min_island_size // host),
    )
    if item.count % host:
        yield _parts(item.gpu, item.count % host, min_island_size)


def _parts(gpu: GpuSpec, count: int, min_island_size: int) -> Stock:
    """Fewer than two hosts' GPUs in the largest equal parts of a host of which there are two."""
    parts = 1
    while count * parts < 2 * gpu.gpus_per_host and gpu.gpus_per_host % (2 * parts) == 0:
        parts *= 2
    unit = gpu.gpus_per_host // parts
    return Stock(
        gpu=gpu.name,
        units=count // unit,
        unit=unit,
        group=min(parts, 2),
        least=-(-min_island_size // unit),
    )
