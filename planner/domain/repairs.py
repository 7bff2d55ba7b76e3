"""What topology costs a placed plan, and single changes that win it back: moves, evictions, exchanges, other layouts.

Nothing is carried out: a repair is what placing again promises once somebody has done it.
"""

from dataclasses import dataclass
from enum import StrEnum

from planner.domain.defragmentation import Move
from planner.domain.layout import Layout


class RepairKind(StrEnum):
    """`move`: a pod of the cluster goes to another node. `eviction`: a preemptible pod goes. `exchange`: two servers of
    the plan swap what they have of two nodes. `layout`: another plan, which serves at most 1 % less before it is
    placed."""

    MOVE = "move"
    EVICTION = "eviction"
    EXCHANGE = "exchange"
    LAYOUT = "layout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A single change. `rate_rps`: of the plan placed again, `rates_rps`: what each island could serve there.

    `move` of a move; `pod` and `node` of an eviction, with the GPU-hours lost since its checkpoint (None: not known);
    `exchange` as the key `placement.exchange` has it; `layout` of a layout.
    """

    kind: RepairKind
    rate_rps: float
    rates_rps: tuple[tuple[str, float], ...]
    move: Move | None = None
    pod: str = ""
    node: str = ""
    lost_gpu_hours: float | None = 0.0
    exchange: str = ""
    layout: Layout | None = None

    @property
    def disturbs(self) -> tuple[int, float]:
        """What it costs others, less being better: pods that go, pods that move and lost GPU-hours."""
        rank = {RepairKind.EXCHANGE: 0, RepairKind.LAYOUT: 1, RepairKind.MOVE: 2, RepairKind.EVICTION: 3}
        return rank[self.kind], self.lost_gpu_hours or 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandRepair:
    """An island that serves less than it could under one switch (0: it found no room), and the best single change for
    it; None where none of those tried wins anything back."""

    island: str
    rate_rps: float
    ideal_rps: float
    repair: Repair | None
    repaired_rps: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """Repairs of a plan on a cluster. `tried`: changes of each kind that were tried, and how many there are."""

    cluster: str
    rate_rps: float
    unplaced_rps: float
    islands: tuple[IslandRepair, ...]
    tried: tuple[tuple[RepairKind, int, int], ...]

    @property
    def each(self) -> tuple[Repair, ...]:
        """The changes of the islands, each once."""
        return tuple(dict.fromkeys(row.repair for row in self.islands if row.repair is not None))

    @property
    def best(self) -> Repair | None:
        """The change after which the whole plan serves most."""
        return max(self.each, key=lambda repair: (repair.rate_rps, [-cost for cost in repair.disturbs]), default=None)
