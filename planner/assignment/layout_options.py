"""What islands a layout may be made of: the data of the layout programme."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.domain import ClassPerformance, InventoryItem, ObjectiveKind, ObjectiveSettings, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """GPU types with how many there are, their charges, and what an island of every size does.

    `options[t]`: rows of type t, one a size. `prices` in USD/hour, `watts` at full load, both per GPU.
    """

    gpus: tuple[str, ...]
    counts: tuple[int, ...]
    prices: tuple[float, ...]
    watts: tuple[float, ...]
    options: tuple[tuple[ClassPerformance, ...], ...]
    probabilities: tuple[float, ...]

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
        return self.watts if objective.kind is ObjectiveKind.WATTS else self.prices


def efficiency(offer: Offer) -> dict[tuple[int, Phase, int], float]:
    """Best rate of one GPU by (type, phase, range), where it is above 0 (requests/s)."""
    best: dict[tuple[int, Phase, int], float] = {}
    for t, rows in enumerate(offer.options):
        for row in rows:
            for phase in Phase:
                for j, rate in enumerate(row.phase(phase).rates_rps):
                    if rate > 0:
                        key = (t, phase, j)
                        best[key] = max(best.get(key, 0.0), rate / row.island.size)
    return best
