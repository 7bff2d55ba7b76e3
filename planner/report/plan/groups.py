"""Islands that a reader need not distinguish, in groups."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from planner.domain import Phase, Plan, PlannedIsland
from planner.report.kit.quantities import span

PHASE_ORDER = (*Phase, None)
"""The order in which phases are told; None is an idle island."""

READABLE_GROUPS = 12
"""Groups of one phase that a legend or a routing table can name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandGroup:
    """Islands of one GPU type in one phase (None: idle), of one size; of several where groups were merged."""

    gpu: str
    phase: Phase | None
    islands: tuple[PlannedIsland, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """GPUs of each island, descending."""
        return tuple(sorted((i.size for i in self.islands), reverse=True))

    @property
    def gpus(self) -> int:
        """GPUs of all the islands."""
        return sum(self.sizes)

    @property
    def rate_rps(self) -> float:
        """Requests/s that the islands serve together."""
        return sum(i.rate_rps for i in self.islands)

    @property
    def price_usd_per_hour(self) -> float:
        """Rent of all the islands."""
        return sum(i.price_usd_per_hour for i in self.islands)

    @property
    def label(self) -> str:
        """`H200/16 ×4`: type, GPUs of one island, number of islands."""
        return f"{self.gpu}/{span(self.sizes)} ×{len(self.islands)}"


def groups(plan: Plan) -> tuple[IslandGroup, ...]:
    """Equal islands (type, phase, size, parallel configuration) together; each pool of a plan of buckets by itself.

    In the order of the inventory's types, then of PHASE_ORDER, then large before small.
    """
    types = [item.gpu.name for item in plan.scenario.inventory.items]

    def order(island: PlannedIsland) -> tuple[int, int, int, str, str]:
        return (
            types.index(island.gpu),
            PHASE_ORDER.index(island.phase),
            -island.size,
            repr(island.parallel),
            island.id if plan.form.row.pooled else "",  # a pool is told from every other
        )

    equal = [tuple(members) for _, members in groupby(sorted(plan.islands, key=order), key=order)]
    return tuple(IslandGroup(gpu=members[0].gpu, phase=members[0].phase, islands=members) for members in equal)


def of_phase(members: Iterable[IslandGroup], phase: Phase | None) -> tuple[IslandGroup, ...]:
    """The groups in one phase."""
    return tuple(g for g in members if g.phase is phase)


def merged(ordered: Sequence[IslandGroup], limit: int) -> tuple[IslandGroup, ...]:
    """At most `limit` groups where possible: neighbours of one type and phase join, closest sizes first.

    `ordered` is as `groups` gives it. Groups of different types or phases never join.
    """
    rows = list(ordered)
    while len(rows) > limit:
        gaps = [(_gap(a, b), at) for at, (a, b) in enumerate(pairwise(rows)) if _akin(a, b)]
        if not gaps:
            break
        _, at = min(gaps)
        rows[at : at + 2] = [_joined(rows[at], rows[at + 1])]
    return tuple(rows)


def _akin(a: IslandGroup, b: IslandGroup) -> bool:
    return (a.gpu, a.phase) == (b.gpu, b.phase)


def _gap(a: IslandGroup, b: IslandGroup) -> float:
    """Ratio of the extreme sizes that the joined group would hold (log)."""
    return math.log(a.sizes[0] / b.sizes[-1])


def _joined(a: IslandGroup, b: IslandGroup) -> IslandGroup:
    return IslandGroup(gpu=a.gpu, phase=a.phase, islands=a.islands + b.islands)
