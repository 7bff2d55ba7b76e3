"""Which of several plans stands in each window of a day or a week: the switching programme, solved exactly.

| symbol | meaning | unit |
|---|---|---|
| t = 1..T | windows of equal length, in order | |
| k, j = 1..K | plans to choose from | |
| d_t | rate that the plan of window t has to carry | requests/s |
| r_k | rate that plan k promises | requests/s |
| c_tk | what plan k costs in window t | USD |
| x_jk | what changing from plan j to plan k costs, x_kk = 0 | USD |
| S | most changes a day | |

    least sum_t c_{t, k_t} + x_{k_{t-1}, k_t}   with  r_{k_t} >= d_t  and at most S changes in every day

is a shortest path through states (window, changes of that day so far, plan): V_t(s, k) = c_tk + min(V_{t-1}(s, k),
min_j V_{t-1}(s - 1, j) + x_jk), and at a day's first window the changes of the day before are forgotten. T K^2 S steps.

A bound is the same path with costs that no plan undercuts: c_tk as the least that any fleet which carries r_k may cost,
and nothing for a change (`least_usd`).

Where GPUs may be reserved, a plan of windows says which, too (`best_plans`). With the reservation R_g set, the
switching programme is exact; with the plans set, the best R_g of each type is a quantile: as many as stand in at least
a share 1 - delta of all windows. R_g is the n_kg of some plan k, or 0: where there are few such reservations all are
tried, which is exact. Of others the two alternate from the fleet of every plan, and from none, until nothing is gained;
the gap to the bound tells what may be missing.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.domain import Scenario
from planner.domain.schedules import RateSeries, ScheduleLevel, Tariff, TariffKind
from planner.errors import InfeasibleError
from planner.replanning.schedules.levels import Floats, LevelSet, gpus_of, window_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Switching:
    """Which plan stands in each window, what that costs with its changes, and the windows that begin with a change."""

    plans: tuple[int, ...]
    usd: float
    changes: tuple[int, ...]


def best_switching(
    demands_rps: Sequence[float],
    promises_rps: Sequence[float],
    window_usd: ArrayLike,
    change_usd: ArrayLike,
    *,
    days: Sequence[int],
    most_changes: int,
    standing: int | None = None,
    changes_so_far: int = 0,
) -> Switching:
    """The cheapest plans for `demands_rps` (T), out of plans that promise `promises_rps` (K).

    `window_usd`: T x K, or K where no window's prices differ; `change_usd`: K x K, from row to column; `days`: the day
    of each window, ascending; `most_changes` a day. Of equal costs the plan that stands stays. `standing`: the plan
    before the first window, which another in that window is a change from (None: any may be the first, for nothing);
    `changes_so_far`: of the first window's day. Raises InfeasibleError where no plan carries a window's rate, or too
    few changes are allowed to follow the rates.
    """
    demands, promises = np.asarray(demands_rps, dtype=float), np.asarray(promises_rps, dtype=float)
    _require_carried(demands, promises)
    costs = np.broadcast_to(np.asarray(window_usd, dtype=float), (len(demands), len(promises)))
    costs = np.where(promises[None, :] >= demands[:, None], costs, np.inf)
    changes = np.asarray(change_usd, dtype=float) + np.where(np.eye(len(promises)) > 0, np.inf, 0.0)
    first = _first(costs[0], changes, most_changes, standing, changes_so_far)
    values, origins = _forward(first, costs, changes, days)
    return _backward(values, origins, days, standing)


def least_usd(
    demands_rps: Sequence[float],
    carried_rps: Sequence[float],
    least_window_usd: ArrayLike,
    *,
    days: Sequence[int],
    most_changes: int | None = None,
) -> float:
    """A bound in USD: no plans whose costs are at least `least_window_usd` where they carry `carried_rps` cost less.

    `most_changes` a day; None: any number. Where changes are limited a plan that stands carries all rates meanwhile.
    """
    if most_changes is None:
        return _unlimited_usd(demands_rps, carried_rps, least_window_usd)
    free = np.zeros((len(carried_rps), len(carried_rps)))
    return best_switching(demands_rps, carried_rps, least_window_usd, free, days=days, most_changes=most_changes).usd


def _unlimited_usd(demands_rps: Sequence[float], carried_rps: Sequence[float], least_window_usd: ArrayLike) -> float:
    """Each window by itself."""
    demands, carried = np.asarray(demands_rps, dtype=float), np.asarray(carried_rps, dtype=float)
    _require_carried(demands, carried)
    costs = np.broadcast_to(np.asarray(least_window_usd, dtype=float), (len(demands), len(carried)))
    return float(np.where(carried[None, :] >= demands[:, None], costs, np.inf).min(axis=1).sum())


def _require_carried(demands: Floats, promises: Floats) -> None:
    largest = float(promises.max(initial=0.0))
    beyond = np.flatnonzero(demands > largest)
    if len(beyond):
        raise InfeasibleError(
            f"schedule: window {int(beyond[0])} needs {demands[beyond[0]]:,.6g} requests/s, as do or need more "
            f"{len(beyond) - 1} others; the largest plan promises {largest:,.6g}.",
            hint="Offer more GPUs, or lower the rates.",
        )


def _first(costs: Floats, changes: Floats, most_changes: int, standing: int | None, changes_so_far: int) -> Floats:
    """Cost of the first window by changes of its day and plan."""
    values = np.full((most_changes + 1, len(costs)), np.inf)
    if standing is None:
        values[min(changes_so_far, most_changes)] = costs
        return values
    used = min(changes_so_far, most_changes)
    values[used, standing] = costs[standing]
    if used < most_changes:
        values[used + 1] = costs + changes[standing]
    return values


def _forward(first: Floats, costs: Floats, changes: Floats, days: Sequence[int]) -> tuple[Floats, NDArray[np.int32]]:
    """Least cost up to the last window by changes of its day and plan; and per window the state each came from."""
    windows, plans = costs.shape
    states, values = len(first), first
    origins = np.zeros((windows, states, plans), dtype=np.int32)
    places = np.arange(states * plans, dtype=np.int32).reshape(states, plans)
    for window in range(1, windows):
        before, origin = values, places
        if days[window] != days[window - 1]:
            cheapest = values.argmin(axis=0)
            before = np.full((states, plans), np.inf)
            before[0] = values[cheapest, np.arange(plans)]
            origin = np.broadcast_to(places[cheapest, np.arange(plans)], (states, plans))
        values, origins[window] = before.copy(), origin
        if states > 1:
            through = before[:-1, :, None] + changes[None, :, :]
            best = through.argmin(axis=1)
            reached = np.take_along_axis(through, best[:, None, :], axis=1)[:, 0, :]
            better = reached < values[1:]
            values[1:][better] = reached[better]
            origins[window, 1:][better] = np.take_along_axis(origin[:-1], best, axis=1)[better]
        values = values + costs[window]
    return values, origins


def _backward(
    values: Floats, origins: NDArray[np.int32], days: Sequence[int], standing: int | None = None
) -> Switching:
    """The path that ends cheapest."""
    usd = float(values.min())
    if not np.isfinite(usd):
        raise InfeasibleError(
            "schedule: no plans follow the rates with so few changes a day.",
            hint="Allow more changes, or larger plans.",
        )
    plan_count, state = values.shape[1], int(values.argmin())
    plans = []
    for window in range(len(days) - 1, -1, -1):
        plans.append(state % plan_count)
        state = int(origins[window].flat[state])
    plans.reverse()
    before = [plans[0] if standing is None else standing, *plans]
    changed = tuple(window for window, plan in enumerate(plans) if plan != before[window])
    return Switching(plans=tuple(plans), usd=usd, changes=changed)


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
