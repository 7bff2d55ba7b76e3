"""Plans for rates: the cheapest fleet whose promise carries a rate, what changing between two takes, and what no fleet
undercuts.

A plan promises its capacity times the routing's margin, so a rate d is planned for as a target of d / margin. A plan
may be made anew, or from one that stands: dearer by little, and nearer to it.

What a plan that stands costs in a window depends on the tariff:

| symbol | meaning | unit |
|---|---|---|
| g, N_g, p_g, W_g | GPU type: GPUs of the inventory, price, highest draw | 1, USD/hour, kW |
| n_kg, c_k | GPUs of plan k, its capacity | 1, requests/s |
| d_t, h | rate of window t, length of a window | requests/s, hours |
| R_g, delta | GPUs reserved all the time, their discount | 1, 1 |
| e, iota, sigma | power; idle share of the draw; spot's share of the price | USD/kWh, 1, 1 |
| f_g | what a GPU in no server brings | USD/hour |

hourly      h sum_g p_g n_kg
reserved    h sum_g p_g ((1 - delta) R_g + max(0, n_kg - R_g))
owned       h sum_g e W_g n_kg (iota + (1 - iota) min(1, d_t / c_k)) - h sum_g f_g (N_g - n_kg)
            f_g = max(sigma p_g - e W_g, - iota e W_g): given to spot, drawing all it can, or idle, what is better

Of owned GPUs only what depends on them is counted; they are bought whatever stands.

A GPU that loads or drains beside the plan that stands costs p_g an hour where it is rented (as if none that are
reserved were idle), and f_g + e W_g where it is owned: it is not given to spot, and may draw all it can.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.domain import InventoryItem, ObjectiveKind, ObjectiveSettings, Plan, Scenario, require_buckets
from planner.domain.changes import ChangeSettings
from planner.domain.schedules import RateSeries, ScheduleLevel, Tariff, TariffKind
from planner.errors import InfeasibleError, InputError, SolverError
from planner.replanning.changes import changes_between, gpu_seconds_of
from planner.units import SECONDS_PER_HOUR

Floats = NDArray[np.float64]
KW = 1e-3


def window_usd(
    scenario: Scenario,
    series: RateSeries,
    levels: Sequence[ScheduleLevel],
    tariff: Tariff,
    reserved: Mapping[str, int] | None = None,
) -> Floats:
    """USD of every plan in every window (T x K); `reserved`: GPUs by type that are paid all the time."""
    hours = series.window_s / SECONDS_PER_HOUR
    if tariff.kind is TariffKind.OWNED:
        return hours * _owned_usd_per_hour(scenario, series, levels, tariff)
    per_hour = np.zeros(len(levels))
    for item in scenario.inventory.items:
        always = (reserved or {}).get(item.gpu.name, 0)
        beyond = np.maximum(0, gpus_of(levels, item.gpu.name) - always)
        per_hour += item.rent_usd_per_gpu_hour * ((1 - tariff.reserved_discount) * always + beyond)
    return np.broadcast_to(hours * per_hour, (len(series.windows), len(levels)))


def gpus_of(levels: Sequence[ScheduleLevel], gpu: str) -> Floats:
    """GPUs of one type in every plan's servers."""
    return np.array([dict(level.gpus).get(gpu, 0) for level in levels], dtype=float)


def _owned_usd_per_hour(
    scenario: Scenario, series: RateSeries, levels: Sequence[ScheduleLevel], tariff: Tariff
) -> Floats:
    capacity = np.array([level.plan.throughput_rps for level in levels])
    busy = np.minimum(1.0, np.array(series.rates_rps)[:, None] / capacity[None, :])
    usd = np.zeros(busy.shape)
    for item in scenario.inventory.items:
        serving = gpus_of(levels, item.gpu.name)
        usd += power_usd_per_hour(item, tariff) * serving * (tariff.idle_share + (1 - tariff.idle_share) * busy)
        usd -= spare_usd_per_hour(item, tariff) * (item.count - serving)
    return usd


def power_usd_per_hour(item: InventoryItem, tariff: Tariff) -> float:
    """Power of one GPU at its highest draw."""
    return item.gpu.max_w * KW * tariff.usd_per_kwh


def spare_usd_per_hour(item: InventoryItem, tariff: Tariff) -> float:
    """What a GPU in no server brings, less its power; negative where it is idle."""
    power = power_usd_per_hour(item, tariff)
    return max(tariff.spot_share * item.rent_usd_per_gpu_hour - power, -tariff.idle_share * power)


def changing_usd_per_hour(item: InventoryItem, tariff: Tariff) -> float:
    """What a GPU costs that loads or drains beside the plan that stands, rather than being in no server."""
    if tariff.kind is TariffKind.OWNED:
        return spare_usd_per_hour(item, tariff) + power_usd_per_hour(item, tariff)
    return item.rent_usd_per_gpu_hour


def serving_usd_per_hour(item: InventoryItem, tariff: Tariff) -> float:
    """What a GPU in a server that has no work costs more than one in no server."""
    return spare_usd_per_hour(item, tariff) + tariff.idle_share * power_usd_per_hour(item, tariff)


Planner = Callable[[Scenario], Plan]
"""Makes the plan of a scenario, as `pipeline.plan` does."""

Replanner = Callable[[Plan, Scenario], Plan]
"""Makes a plan of a scenario that leaves as much as possible of a standing one as it is."""

SAME = 1e-6  # relative, of rates


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastCost:
    """No fleet that promises `rate_rps` or more costs less than `usd_per_hour`."""

    rate_rps: float
    usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSet:
    """Plans to choose from, smallest promise first; `change_usd[j][k]`: of changing from the plan j to the plan k;
    `least`: bounds, by ascending rate."""

    levels: tuple[ScheduleLevel, ...]
    change_usd: tuple[tuple[float, ...], ...]
    least: tuple[LeastCost, ...]

    @property
    def promises_rps(self) -> tuple[float, ...]:
        """Of every plan."""
        return tuple(level.promise_rps for level in self.levels)

    def carrying(self, rate_rps: float) -> int:
        """The first plan that promises a rate; the last where none does."""
        enough = (k for k, promise in enumerate(self.promises_rps) if promise >= rate_rps * (1 - SAME))
        return next(enough, len(self.levels) - 1)

    def only(self, numbers: Iterable[int]) -> "LevelSet":
        """The same bounds, with these plans alone."""
        chosen = sorted(set(numbers))
        return LevelSet(
            levels=tuple(self.levels[k] for k in chosen),
            change_usd=tuple(tuple(self.change_usd[j][k] for k in chosen) for j in chosen),
            least=self.least,
        )


class LevelBook:
    """Plans of one scenario at rates, each made once; changes between them cost what `tariff` says.

    `planner` makes them; `replanner` makes them from neighbours. Raises as the planner does, where the highest rate
    that is asked for has no plan.
    """

    def __init__(
        self,
        scenario: Scenario,
        change: ChangeSettings,
        planner: Planner,
        replanner: Replanner | None = None,
        tariff: Tariff | None = None,
    ) -> None:
        require_schedulable(scenario)
        self.scenario, self.change, self.tariff = scenario, change, tariff or Tariff()
        self._planner, self._replanner = planner, replanner
        self._levels: list[ScheduleLevel] = []
        self._spans: list[tuple[float, float]] = []
        self._least: dict[float, float] = {}
        self._changes: dict[tuple[int, int], float] = {}

    @property
    def rates_rps(self) -> tuple[float, ...]:
        """Rates that were planned for, ascending."""
        return tuple(sorted(self._least))

    def carries(self, rate_rps: float) -> bool:
        """Whether a plan was made for a rate up to this one that promises it: no cheaper one is known to be missing."""
        return any(low <= rate_rps * (1 + SAME) and rate_rps <= high * (1 + SAME) for low, high in self._spans)

    def add(self, rate_rps: float) -> None:
        """Plan for a rate, unless a plan does that already. Raises as the planner does."""
        if rate_rps in self._least:
            return
        plan = self._planner(at_rate(self.scenario, rate_rps))
        bound = least_usd_per_hour(plan)
        self._least[rate_rps] = bound
        self._spans.append((rate_rps, self._level(plan, bound).promise_rps))

    def add_near(self, standing: ScheduleLevel, rate_rps: float) -> ScheduleLevel | None:
        """A plan for a rate that changes little of a standing one, where there is one."""
        if self._replanner is None:
            return None
        try:
            plan = self._replanner(standing.plan, at_rate(self.scenario, rate_rps))
        except (InfeasibleError, SolverError):
            return None
        return self._level(plan, self.least_usd_per_hour(rate_rps))

    def add_within(self, rate_rps: float, gpus: Mapping[str, int]) -> bool:
        """Plan for a rate on so many GPUs by type; whether there is a plan."""
        items = self.scenario.inventory.items
        offer = tuple(replace(item, count=gpus[item.gpu.name]) for item in items if gpus.get(item.gpu.name))
        inventory = replace(self.scenario.inventory, items=offer)
        try:
            plan = self._planner(replace(at_rate(self.scenario, rate_rps), inventory=inventory))
        except (InfeasibleError, SolverError):
            return False
        self._level(plan, self.least_usd_per_hour(rate_rps))
        return True

    def least_usd_per_hour(self, rate_rps: float) -> float:
        """The bound of the largest rate planned for that is no higher; 0 below all."""
        return max((usd for rate, usd in self._least.items() if rate <= rate_rps * (1 + SAME)), default=0.0)

    def cheapest_usd_per_hour(self, rate_rps: float) -> float:
        """Rent of the cheapest plan so far that promises the rate; infinite where none does."""
        return min((level.usd_per_hour for level in self._levels if level.promise_rps >= rate_rps), default=math.inf)

    def most_rps(self) -> float:
        """The most that any fleet of the inventory promises; 0 where none serves."""
        try:
            plan = self._planner(replace(self.scenario, objective=ObjectiveSettings()))
        except (InfeasibleError, SolverError):
            return 0.0
        return plan.outlook.promise_rps

    def _level(self, plan: Plan, bound: float) -> ScheduleLevel:
        """The plan as a level, of which there is one of the same pools."""
        # Two rates may have one plan: it is listed once, or changes between its twins would be counted.
        same = next((level for level in self._levels if plan.outlook == level.plan.outlook), None)
        if same is None:
            same = level_of(plan, bound)
            self._levels.append(same)
        return same

    def all(self) -> LevelSet:
        """Every plan so far, with what changing between them costs."""
        order = sorted(range(len(self._levels)), key=lambda k: (self._levels[k].promise_rps, k))
        return LevelSet(
            levels=tuple(self._levels[k] for k in order),
            change_usd=tuple(tuple(self._change_usd(j, k) for k in order) for j in order),
            least=self.all_least(),
        )

    def all_least(self) -> tuple[LeastCost, ...]:
        """The bounds so far."""
        return steps_of(self._least)

    def change_usd(self, before: ScheduleLevel, after: ScheduleLevel) -> float:
        """What changing from one plan to another costs."""
        seconds = gpu_seconds_of(changes_between(before.plan, after.plan, self.change).changes)
        return sum(
            seconds.get(item.gpu.name, 0.0) / SECONDS_PER_HOUR * changing_usd_per_hour(item, self.tariff)
            for item in self.scenario.inventory.items
        )

    def _change_usd(self, before: int, after: int) -> float:
        if (before, after) not in self._changes:
            self._changes[before, after] = self.change_usd(self._levels[before], self._levels[after])
        return self._changes[before, after]


def steps_of(bounds: dict[float, float]) -> tuple[LeastCost, ...]:
    """Bounds by ascending rate; a fleet for a higher rate is one for a lower rate, too, so they never fall."""
    steps: list[LeastCost] = []
    for rate in sorted(bounds):
        usd = max(bounds[rate], steps[-1].usd_per_hour if steps else 0.0)
        steps.append(LeastCost(rate_rps=rate, usd_per_hour=usd))
    return tuple(steps)


def at_rate(scenario: Scenario, rate_rps: float) -> Scenario:
    """The scenario whose cheapest plan promises a rate."""
    target = ObjectiveSettings(
        kind=ObjectiveKind.TARGET,
        target_rps=rate_rps / scenario.routing.margin,
        demand_rps=scenario.objective.demand_rps,
    )
    return replace(scenario, objective=target)


def level_of(plan: Plan, bound_usd_per_hour: float) -> ScheduleLevel:
    """A finished plan as a level."""
    gpus: dict[str, int] = {}
    for pool in plan.outlook.pools:
        gpus[pool.gpu] = gpus.get(pool.gpu, 0) + pool.gpus
    items = plan.scenario.inventory
    usd = sum(count * items.item(gpu).rent_usd_per_gpu_hour for gpu, count in gpus.items())
    return ScheduleLevel(
        plan=plan,
        promise_rps=plan.outlook.promise_rps,
        usd_per_hour=usd,
        bound_usd_per_hour=min(bound_usd_per_hour, usd),
        watts=sum(count * items.item(gpu).gpu.max_w for gpu, count in gpus.items()),
        gpus=tuple(sorted(gpus.items())),
    )


def least_usd_per_hour(plan: Plan) -> float:
    """What no fleet for the plan's target costs less than; 0 where nothing is proven."""
    # Without a proof 0 is the only bound that is true.
    bound = None if plan.certificate is None else plan.certificate.objective_bound
    return 0.0 if bound is None else bound


def require_schedulable(scenario: Scenario) -> None:
    """Raises InputError where plans of the scenario have no pools or no price."""
    require_buckets(scenario, "for a schedule, whose plans change server by server")
    if scenario.promise.sure is not None:
        raise InputError(
            f"scenario {scenario.name}: promise.sure: must be left out for a schedule, whose levels promise as "
            f"predicted, got {scenario.promise.sure:g}.",
            hint="Leave out promise.sure, and raise the rates instead.",
        )
    free = [item.gpu.name for item in scenario.inventory.items if not item.rent_usd_per_gpu_hour > 0]
    if free:
        raise InputError(
            f"scenario {scenario.name}: prices_usd_per_gpu_hour: must be above 0 for a schedule; {', '.join(free)} "
            "costs nothing.",
            hint="Give it a price.",
        )
