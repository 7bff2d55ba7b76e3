"""What islands a layout may be made of: the data of the layout programme."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from planner.domain import (
    PHASES,
    ClassPerformance,
    InventoryItem,
    IslandClass,
    ObjectiveSettings,
    Phase,
    PhasePerformance,
    Role,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandKind:
    """Islands of one class in one phase: their rates by range (requests/s; 0: not served).

    Under bounds on TTFT `limits[j]` is the utilisation that the rate of range j stops at (empty: 1), and `share` the
    utilisation that the queue of all its ranges admits.
    """

    island: IslandClass
    phase: Phase
    rates_rps: tuple[float, ...]
    limits: tuple[float, ...] = ()
    share: float = 1.0

    @property
    def shared_rps(self) -> tuple[float, ...]:
        """Rates at the mixture's share, where that is less than the range's own limit."""
        if not self.limits:
            return self.rates_rps
        return tuple(
            b * min(1.0, self.share / u) if b > 0 else 0.0 for b, u in zip(self.rates_rps, self.limits, strict=True)
        )

    @property
    def abilities(self) -> tuple[float, ...]:
        """What an island that does more must have more of: rates alone, and rates of busy time in the mixture."""
        if not self.limits:
            return self.rates_rps
        mixed = (b * self.share / u if b > 0 else 0.0 for b, u in zip(self.rates_rps, self.limits, strict=True))
        return (*self.rates_rps, *mixed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """GPU types with how many there are, their charges, and what an island of every size does.

    `options[t]`: rows of type t, one a size. `prices` in USD/hour, `watts` at full load, both per GPU. `roles[t]`: what
    islands of type t may do, where queues count; else they do what their rows say.
    """

    gpus: tuple[str, ...]
    counts: tuple[int, ...]
    prices: tuple[float, ...]
    watts: tuple[float, ...]
    options: tuple[tuple[ClassPerformance, ...], ...]
    probabilities: tuple[float, ...]
    roles: tuple[tuple[IslandKind, ...], ...] = ()

    @classmethod
    def of(
        cls, items: Sequence[InventoryItem], rows: Sequence[ClassPerformance], probabilities: Sequence[float]
    ) -> "Offer":
        """The offer of an inventory with the rows of its island classes."""
        return cls(
            gpus=tuple(item.gpu.name for item in items),
            counts=tuple(item.count for item in items),
            prices=tuple(item.price_usd_per_gpu_hour for item in items),
            watts=tuple(item.gpu.max_w for item in items),
            options=tuple(
                tuple(row for row in rows if row.island.gpu == item.gpu.name and row.island.size <= item.count)
                for item in items
            ),
            probabilities=tuple(probabilities),
        )

    def charges(self, objective: ObjectiveSettings) -> tuple[float, ...]:
        """What one GPU of each type costs in the unit of the objective: USD/hour, or watts."""
        return self.watts if objective.kind.row.in_watts else self.prices

    def kinds(self) -> tuple[tuple[IslandKind, ...], ...]:
        """By type every kind of island that serves something."""
        return self.roles or tuple(tuple(kind for row in rows for kind in _kinds(row)) for rows in self.options)


def _kinds(row: ClassPerformance) -> Iterator[IslandKind]:
    """A class in both phases, as it is or at a further configuration."""
    for phase in PHASES:
        for performance in row.choices(phase):
            as_it_is = performance is row.phase(phase)
            island = row.island if as_it_is else in_role(row.island, phase, performance)
            yield IslandKind(island=island, phase=phase, rates_rps=performance.rates_rps)


def in_role(
    island: IslandClass, phase: Phase, performance: PhasePerformance, start: int = 0, end: int = 2**63
) -> IslandClass:
    """The class as it does a phase with that configuration, for prompts of `start` to `end` - 1 tokens."""
    assert performance.parallel is not None, "an island that serves has degrees"
    return replace(island, role=(Role(phase=phase, parallel=performance.parallel, start=start, end=end),))


def efficiency(offer: Offer) -> dict[tuple[int, Phase, int], float]:
    """Best rate of one GPU by (type, phase, range), where it is above 0 (requests/s)."""
    best: dict[tuple[int, Phase, int], float] = {}
    for t, kinds in enumerate(offer.kinds()):
        for kind in kinds:
            for j, rate in enumerate(kind.shared_rps):
                if rate > 0:
                    key = (t, kind.phase, j)
                    best[key] = max(best.get(key, 0.0), rate / kind.island.size)
    return best
