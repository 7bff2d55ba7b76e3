"""The set of islands that serves most where pods may go, as a programme: what no order of islands came to.

| symbol | meaning | unit |
|---|---|---|
| t | least share that a phase gets, less what the lost work of pods that go counts | 1 |
| c[p] | price of pod p over that of the dearest; who goes at the same price, and how many, comes after | 1 |

Three solutions, each keeping what the one before got: max t, max sum_f g_f, min sum_p c[p] e[p]. Other symbols: see
`largest_sets`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pulp

from planner.domain import PlacementDemand, PlacementSettings, Pod
from planner.placement.islands.evictions.eviction_limits import ROUNDING_H, Allowance
from planner.placement.islands.evictions.eviction_order import Eviction
from planner.placement.islands.evictions.preemption import Preemption
from planner.placement.islands.filling import largest_first
from planner.placement.islands.fleet import Occupancy
from planner.placement.islands.second_tries.largest_sets import TOLERANCE, Answer, Programme, hold_groups
from planner.placement.victims.cheapest_sets import Price

MOST_PODS = 400
"""Pods that may go: more make too large a programme."""

A_POD = 1e-3
"""What each pod costs beside its price, over the price of the dearest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What counts. `gain`: share of its phase that each island is; `got`: what phases have without them; `lost`: what a
    GPU-hour of lost work counts, as a share; `to_beat`: (t, sum of g_f) that an answer has to be better than."""

    gain: Mapping[str, float]
    got: Mapping[str, float]
    lost: float
    to_beat: tuple[float, float]


def most_worth(
    demands: Sequence[PlacementDemand],
    occupancy: Occupancy,
    pods: Mapping[int, Sequence[Pod]],
    prices: Mapping[str, Price],
    allowance: Allowance,
    worth: Worth,
) -> Answer | None:
    """Which islands lie where, and who goes; None where the programme is too large or has no answer.

    `occupancy`: none of `demands` is there; `pods` may go, by node, as far as `allowance` lets them.
    """
    able = {node: [pod for pod in those if allowance.may_go(pod)] for node, those in pods.items()}
    listed = [pod for those in able.values() for pod in those]
    if len(listed) > MOST_PODS:
        return None
    programme = Programme.of(demands, occupancy, able, _limits(listed, allowance))
    if programme is None:
        return None
    shares = _shares(demands, programme, worth)
    smallest_share = pulp.LpVariable("least", -1.0, 1.0)
    for share in shares:
        programme.model += smallest_share <= share
    lost = pulp.lpSum(
        worth.lost * (allowance.settings.lost_gpu_hours(pod) or 0.0) * programme.evicted[pod.key]
        for pod in listed
        if worth.lost and pod.key in programme.evicted
    )
    # Prices reach far beyond what a solver tells apart: only their first figure counts, over the largest.
    dearest = max((prices[pod.key][0] for pod in listed), default=0) or 1
    price = pulp.lpSum(
        (prices[pod.key][0] / dearest + A_POD) * programme.evicted[pod.key]
        for pod in listed
        if pod.key in programme.evicted
    )
    # Cuts off at once what could not be worth more.
    programme.model += smallest_share - lost >= worth.to_beat[0] - TOLERANCE
    values: list[float] = []
    for objective in (smallest_share - lost, pulp.lpSum(shares), -1 * price):
        best = programme.solve(objective)
        values.append(-1.0 if best is None else best)
        if best is None or (len(values) == 2 and not _better(values, worth.to_beat)):
            return None
        programme.model += objective >= best - TOLERANCE
    return programme.answer()


def _better(values: Sequence[float], to_beat: tuple[float, float]) -> bool:
    """Compared from left to right, as far as sums of floats can be."""
    return values[0] > to_beat[0] + TOLERANCE or (
        values[0] > to_beat[0] - TOLERANCE and values[1] > to_beat[1] + TOLERANCE
    )


def placed_as(answer: Answer, demands: Sequence[PlacementDemand], state: Preemption) -> Iterator[Eviction]:
    """Place islands just as an answer says; those that bind alignment come first, as others take what is left.

    Who goes on a node goes for the first of its islands.
    """
    waiting, occupancy = dict(answer.pods), state.occupancy
    placed = (demand for demand in demands if demand.island in answer.groups)
    for demand in sorted(placed, key=lambda demand: (not demand.qos.binds, *largest_first(demand))):
        groups = answer.groups[demand.island]
        pods = [pod for node in sorted({node for node, _ in groups}) for pod in waiting.pop(node, ())]
        for pod in pods:
            occupancy.evict(occupancy.fleet.number[pod.node], [pod])
        site = hold_groups(occupancy, demand, groups)
        state.forget(pods, site.nodes)
        yield Eviction(site, tuple(state.ordered(site, pods)))


def lost_share(settings: PlacementSettings, rate_rps: float) -> float:
    """What a GPU-hour of lost work counts, as a share of the rate of the phase whose islands serve least."""
    return settings.lost_gpu_hour_rps / rate_rps if rate_rps else 0.0


def _shares(demands: Sequence[PlacementDemand], programme: Programme, worth: Worth) -> list[pulp.LpAffineExpression]:
    """g_f of every phase."""
    return [
        share
        + pulp.lpSum(
            worth.gain.get(demand.island, 0.0) * programme.chosen[demand.island]
            for demand in demands
            if demand.phase == phase
        )
        for phase, share in worth.got.items()
    ]


def _limits(pods: Sequence[Pod], allowance: Allowance) -> list[tuple[Mapping[str, float], float]]:
    """The limits on evictions as rows: what each pod takes of one, and how much of it is left."""
    limits: list[tuple[Mapping[str, float], float]] = []
    if allowance.victims is not None:
        limits.append(({pod.key: 1.0 for pod in pods}, allowance.victims))
    if allowance.lost_gpu_hours is not None:
        hours = {pod.key: allowance.settings.lost_gpu_hours(pod) or 0.0 for pod in pods}
        # With the rounding that `Allowance` has, or the programme would refuse what it allows.
        limits.append((hours, allowance.lost_gpu_hours + ROUNDING_H))
    for budget, allowed in allowance.budgets.items():
        limits.append(({pod.key: 1.0 for pod in pods if pod.disruption_budget == budget}, allowed))
    return limits
