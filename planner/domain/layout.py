"""Inventory, islands and layouts."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

from planner.domain.gpu import GpuSpec
from planner.domain.keys import Bounds, Key
from planner.domain.workload import LengthRange

_Share = Annotated[float, Bounds(low=0, high=1)]
_Degree = Annotated[int, Bounds(low=1)]


class Phase(StrEnum):
    """What an island does of a request's life on GPUs: one of its two halves, or both."""

    PREFILL = "prefill"
    DECODE = "decode"
    MIXED = "mixed"


PHASES = (Phase.PREFILL, Phase.DECODE)
"""Every request has both, on one island or on two."""


def halves_of(phase: Phase) -> tuple[Phase, ...]:
    """What an island of a phase does: the phase itself, or both halves."""
    return PHASES if phase is Phase.MIXED else (phase,)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryItem:
    """`count` GPUs of one type at one price: 0 where it has none, `price_known` False where nobody gave one.
    `tiers_usd_per_gpu_hour`: what its part of a node's tiers for KV caches costs beside it."""

    gpu: GpuSpec
    count: int
    price_usd_per_gpu_hour: float
    price_known: bool = True
    tiers_usd_per_gpu_hour: float = 0.0

    @property
    def rent_usd_per_gpu_hour(self) -> float:
        """What one of them costs with all that comes with it."""
        return self.price_usd_per_gpu_hour + self.tiers_usd_per_gpu_hour

    @property
    def price_estimated(self) -> bool:
        """Whether its price is the shipped list's, where nobody publishes one."""
        listed = self.gpu.price
        return listed is not None and listed.is_estimate and self.price_usd_per_gpu_hour == listed.usd_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The GPUs at hand, one item a type. `unused_prices`: types that a price was given for and that are not at hand."""

    items: tuple[InventoryItem, ...]
    unused_prices: tuple[str, ...] = field(default=(), compare=False)

    def item(self, gpu: str) -> InventoryItem:
        """The item of the type `gpu`."""
        return next(i for i in self.items if i.gpu.name == gpu)

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """GPUs by type."""
        return tuple((item.gpu.name, item.count) for item in self.items)

    @property
    def without_price(self) -> tuple[str, ...]:
        """Types of which nobody gave a price."""
        return tuple(item.gpu.name for item in self.items if not item.price_known)

    @property
    def price_usd_per_hour(self) -> float:
        """The whole inventory's rent."""
        return sum(i.count * i.price_usd_per_gpu_hour for i in self.items)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Reach:
    """Where a placed island's replicas lie; of the worst one, as a collective waits for its last GPU."""

    foreign: Annotated[_Share, Key("share of a replica that a GPU reaches over its NIC alone")] = 0.0
    crossing: Annotated[_Share, Key("share of a replica that lies under other access switches")] = 0.0
    path: Annotated[
        _Share, Key("what is left of the NIC rate on the way to the islands it exchanges KV caches with")
    ] = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ParallelConfig:
    """How one island runs the model. A stage spreads its layers' experts over its `dp * tp` GPUs."""

    tp: Annotated[_Degree, Key("GPUs of an attention group")]
    dp: Annotated[_Degree, Key("attention groups of a stage")]
    replicas: Annotated[_Degree, Key("copies of the model; replicas * pp * dp * tp = size")] = 1
    pp: Annotated[_Degree, Key("pipeline stages of a replica; plans of before have none", added=True)] = 1

    @property
    def stage_devices(self) -> int:
        """GPUs of one pipeline stage."""
        return self.tp * self.dp

    @property
    def devices(self) -> int:
        """GPUs of one replica."""
        return self.pp * self.stage_devices

    @property
    def size(self) -> int:
        """GPUs of the island."""
        return self.replicas * self.devices


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Role:
    """What islands are to do: one phase at one configuration, for prompts of `start` to `end` - 1 tokens."""

    phase: Phase
    parallel: ParallelConfig
    start: int
    end: int

    def covers(self, span: LengthRange) -> bool:
        """Whether all prompts of a range are among them."""
        return self.start <= span.start and span.end <= self.end


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class IslandClass:
    """Islands that cannot be told apart: `size` GPUs of the type `gpu`. `reach` and `phase` belong to placed islands
    alone, `role` to islands that bounds on TTFT tell apart by what they do: a tuple of none or one each."""

    gpu: str
    size: int
    phase: tuple[Phase, ...] = ()
    reach: tuple[Reach, ...] = ()
    role: tuple[Role, ...] = ()

    @property
    def plain(self) -> "IslandClass":
        """The class whatever its islands do."""
        return replace(self, role=()) if self.role else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A multiset of islands: each class once, ascending, with its count."""

    counts: tuple[tuple[IslandClass, int], ...]

    @classmethod
    def of(cls, islands: Iterable[IslandClass]) -> "Layout":
        """The layout of a list of islands, in canonical order, so that equal layouts compare equal."""
        return cls(counts=tuple(sorted(Counter(islands).items())))

    @property
    def plain(self) -> "Layout":
        """The layout whatever its islands do."""
        return Layout.of(island.plain for island, count in self.counts for _ in range(count))

    @property
    def gpus(self) -> Counter[str]:
        """GPUs in islands, by type; 0 of any other."""
        gpus = Counter[str]()
        for island, count in self.counts:
            gpus[island.gpu] += island.size * count
        return gpus

    @property
    def label(self) -> str:
        """The layout in words: `H20 16x2 8x1, H200 32x2` (size x count)."""
        by_gpu: dict[str, list[str]] = {}
        for island, count in self.counts:
            by_gpu.setdefault(island.gpu, []).append(f"{island.size}x{count}")
        return ", ".join(f"{gpu} {' '.join(sizes)}" for gpu, sizes in by_gpu.items())
