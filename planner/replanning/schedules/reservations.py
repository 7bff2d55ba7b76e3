"""Plans of windows under a tariff, and with them the GPUs that are reserved, where some are.

With the reservation R_g set, the switching programme is exact; with the plans set, the best R_g of each type is a
quantile: as many as stand in at least a share 1 - delta of all windows. R_g is the n_kg of some plan k, or 0: where
there are few such reservations all are tried, which is exact. Of others the two alternate from the fleet of every plan,
and from none, until nothing is gained; the gap to the bound tells what may be missing.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from planner.domain import Scenario
from planner.domain.schedules import RateSeries, ScheduleLevel, Tariff, TariffKind
from planner.replanning.schedules.levels import LevelSet
from planner.replanning.schedules.switching import Switching, best_switching
from planner.replanning.schedules.tariffs import gpus_of, window_usd

GAIN = 1e-9  # relative, that goes on
MOST_STEPS = 2e8  # of the switching programme over all reservations: about a second


def best_plans(
    levels: LevelSet,
    scenario: Scenario,
    series: RateSeries,
    tariff: Tariff,
    most_changes: int,
    *,
    standing: int | None = None,
    changes_so_far: int = 0,
    reserved: Mapping[str, int] | None = None,
) -> tuple[Switching, dict[str, int]]:
    """The cheapest plans, and the GPUs reserved for them by type; `reserved`: they are already."""

    def switching(always: Mapping[str, int]) -> Switching:
        return best_switching(
            series.rates_rps,
            levels.promises_rps,
            window_usd(scenario, series, levels.levels, tariff, always),
            levels.change_usd,
            days=series.days,
            most_changes=most_changes,
            standing=standing,
            changes_so_far=changes_so_far,
        )

    if tariff.kind is not TariffKind.RESERVED:
        return switching({}), {}
    if reserved is not None:
        return switching(reserved), dict(reserved)
    best: tuple[Switching, dict[str, int]] | None = None
    for start in _starts(levels.levels, len(series.windows) * (most_changes + 1)):
        attempt = _alternating(switching, start, lambda plans: quantiles(levels.levels, plans, tariff))
        if best is None or attempt[0].usd < best[0].usd * (1 - GAIN):
            best = attempt
    assert best is not None, "there is a start"
    return best


def _alternating(
    switching: Callable[[Mapping[str, int]], Switching],
    start: dict[str, int],
    reservation: Callable[[Sequence[int]], dict[str, int]],
) -> tuple[Switching, dict[str, int]]:
    """Plans for a reservation, a reservation for the plans, until nothing is gained."""
    best, always = switching(start), start
    while True:
        better = reservation(best.plans)
        answer = switching(better)
        if answer.usd >= best.usd * (1 - GAIN):
            return best, always
        best, always = answer, better


def _starts(levels: Sequence[ScheduleLevel], states: int) -> Iterator[dict[str, int]]:
    """Every reservation to begin with, once; `states` that the switching programme has of each plan."""
    names = sorted({gpu for level in levels for gpu, _ in level.gpus})
    counts = [sorted({0, *(dict(level.gpus).get(name, 0) for level in levels)}) for name in names]
    if math.prod(map(len, counts)) * states * len(levels) ** 2 <= MOST_STEPS:
        yield from (dict(zip(names, some, strict=True)) for some in product(*counts))
        return
    reservations = [{}, *(dict(level.gpus) for level in levels)]
    yield from (gpus for n, gpus in enumerate(reservations) if gpus not in reservations[:n])


def quantiles(levels: Sequence[ScheduleLevel], plans: Sequence[int], tariff: Tariff) -> dict[str, int]:
    """The best reservation for plans that stand in windows of equal length."""
    names = sorted({gpu for level in levels for gpu, _ in level.gpus})
    always: dict[str, int] = {}
    for name in names:
        descending = np.sort(gpus_of(levels, name)[list(plans)])[::-1]
        least_windows = max(1, int(np.ceil((1 - tariff.reserved_discount) * len(plans) - 1e-9)))
        always[name] = int(descending[least_windows - 1])
    return {name: count for name, count in always.items() if count}
