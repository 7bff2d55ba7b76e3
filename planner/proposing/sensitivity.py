"""What binds a plan and what would change it, from the relaxation's prices and from solving it again.

The worth of GPUs is that of the best possible layout: islands may be formed anew when the count changes.

| symbol | meaning |
|---|---|
| y[phase, j], w[t] | prices of the relaxation: of capacity on a range, of a GPU |
| p[j], N[t], lambda | probability of a range, GPUs of a type, best possible rate |

By duality sum_(phase, j) p y = 1 and sum_t w N = lambda: shares of the fleet's worth by phase, range and type.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from planner.assignment import Offer, Relaxation, relax
from planner.domain import (
    PHASES,
    AssignmentSettings,
    ClassPerformance,
    CostMode,
    GpuWorth,
    Phase,
    PhasePerformance,
    PhaseWorth,
    Plan,
    RangeHeadroom,
    Scenario,
    Sensitivity,
    SizeSet,
)
from planner.errors import SolverError
from planner.evaluation.evaluator import Evaluator
from planner.proposing.certificate import MOST_REFERENCE_SIZES, RATE, is_exact, layout_settings, offer_of

BALANCED = 0.01
"""Phases whose rates differ by less than this share count as balanced."""

FASTER = 1.1

DIGITS = 9
"""Spare time beyond these decimals is a rounding error."""


def sensitivity_of(plan: Plan, evaluator: Evaluator) -> Sensitivity | None:
    """What would change the plan's rate; GPUs are those that the plan has, rented or given.

    None where the relaxation cannot tell: in reference mode with more than 1,024 GPUs of a type, or without a solver.
    """
    scenario = plan.scenario
    if scenario.cost.mode is CostMode.REFERENCE and max(plan.fleet.values()) > MOST_REFERENCE_SIZES:
        return None
    with suppress(SolverError):
        wide, settings = _widened(scenario, evaluator), layout_settings(scenario)
        offer = _counted(wide, plan.fleet)
        relaxed = relax(offer, RATE, settings)
        phases = tuple(_phase_worth(phase, offer, relaxed, settings) for phase in PHASES)
        balance = Balance.of(plan)
        binding = balance.binding
        relieved = relax(
            # balanced phases have no binding one: the one of more worth is relieved, to tell what comes next
            _faster(offer, binding or max(phases, key=lambda worth: worth.worth_share).phase),
            RATE,
            settings,
        )
        gpus = tuple(_gpu_worth(plan, gpu, wide, relaxed, settings) for gpu in wide.gpus)
        return Sensitivity(
            bound_rps=relaxed.rate,
            binding=binding,
            headroom=balance.headroom,
            next_rps=balance.next_rps,
            next_gpu=max(offer.gpus, key=lambda gpu: relieved.toll[gpu] * plan.fleet[gpu]),
            drop_first=drop_first(gpus),
            gpus=gpus,
            phases=phases,
            ranges=tuple(headrooms(plan, lambda phase, j, chance: chance * relaxed.worth[phase, j])),
        )
    return None


def _widened(scenario: Scenario, evaluator: Evaluator) -> Offer:
    """The offer with a node more of every type, so that its larger islands are in it too."""
    items = tuple(replace(item, count=item.count + item.gpu.gpus_per_host) for item in scenario.inventory.items)
    # tabulated once, whatever number of GPUs is asked of it below
    wider = replace(scenario, inventory=replace(scenario.inventory, items=items))
    return offer_of(wider, evaluator, scenario.search.sizes if is_exact(scenario) else SizeSet.ALL)


def _counted(wide: Offer, counts: dict[str, int]) -> Offer:
    """The offer with these counts, and the islands that so many GPUs can form."""
    return replace(
        wide,
        counts=tuple(counts[gpu] for gpu in wide.gpus),
        options=tuple(
            tuple(row for row in rows if row.island.size <= counts[gpu])
            for gpu, rows in zip(wide.gpus, wide.options, strict=True)
        ),
    )


def _gpu_worth(plan: Plan, gpu: str, wide: Offer, relaxed: Relaxation, settings: AssignmentSettings) -> GpuWorth:
    item, count = plan.scenario.inventory.item(gpu), plan.fleet[gpu]
    node = item.gpu.gpus_per_host
    lost = min(node, count)

    def change(by: int) -> float:
        """Best possible rate with `by` more GPUs, less that of the fleet."""
        return relax(_counted(wide, plan.fleet | {gpu: count + by}), RATE, settings).rate - relaxed.rate

    more = max(0.0, change(node))  # the solver's last digits aside, more is never worse
    less = min(0.0, change(-lost)) if count else None
    return GpuWorth(
        gpu=gpu,
        gpus_per_node=node,
        gpus_lost=lost,
        price_usd_per_gpu_hour=item.rent_usd_per_gpu_hour,
        dual_rps=relaxed.toll[gpu],
        more_node_rps=more,
        more_node_most_rps=more,
        less_node_rps=less,
        less_node_most_rps=less,
    )


def _phase_worth(phase: Phase, offer: Offer, relaxed: Relaxation, settings: AssignmentSettings) -> PhaseWorth:
    share = sum(p * relaxed.worth[phase, j] for j, p in enumerate(offer.probabilities))
    gain = relax(_faster(offer, phase), RATE, settings).rate - relaxed.rate
    return PhaseWorth(phase=phase, worth_share=share, faster_rps=max(0.0, gain))


def _faster(offer: Offer, phase: Phase) -> Offer:
    """The offer with one phase faster by a tenth."""
    return replace(offer, options=tuple(tuple(_sped_up(row, phase) for row in rows) for rows in offer.options))


def _sped_up(row: ClassPerformance, phase: Phase) -> ClassPerformance:
    # rates are of service: a tenth more of them is a tenth less time, with the same batches
    half = _faster_half(row.phase(phase))
    further = tuple((of, _faster_half(performance) if of is phase else performance) for of, performance in row.further)
    if phase is Phase.PREFILL:
        return replace(row, prefill=half, further=further)
    return replace(row, decode=half, further=further)


def _faster_half(half: PhasePerformance) -> PhasePerformance:
    return replace(half, rates_rps=tuple(FASTER * rate for rate in half.rates_rps))


def drop_first(gpus: tuple[GpuWorth, ...]) -> str:
    """Least lost per USD saved; a type without a price saves nothing and goes last."""
    present = [worth for worth in gpus if worth.less_node_rps is not None]
    priced = [worth for worth in present if worth.price_usd_per_gpu_hour > 0]

    def loss(worth: GpuWorth) -> float:
        # where nothing has a price, a GPU is a GPU
        saved = worth.gpus_lost * (worth.price_usd_per_gpu_hour if priced else 1.0)
        return -(worth.less_node_rps or 0.0) / saved

    return min(priced or present, key=loss).gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The phase that holds a plan's rate back (None: both alike), and what the other could serve (requests/s)."""

    binding: Phase | None
    headroom: float
    next_rps: float

    @classmethod
    def of(cls, plan: Plan) -> "Balance":
        """By the rates of both phases."""
        slow, fast = sorted((plan.prefill_rps, plan.decode_rps))
        slower = Phase.PREFILL if plan.prefill_rps < plan.decode_rps else Phase.DECODE
        headroom = fast / slow - 1
        return cls(binding=slower if headroom >= BALANCED else None, headroom=headroom, next_rps=fast)


def headrooms(plan: Plan, worth: Callable[[Phase, int, float], float]) -> Iterator[RangeHeadroom]:
    """A row for each phase and range, or bucket, that is routed; `worth`: its share of the fleet's worth, by its number
    and probability."""
    spare = {island.id: max(0.0, 1 - island.utilisation) for island in plan.islands}
    for phase in PHASES:
        phase_routes = [route for route in plan.routing if route.phase is phase]
        spans = sorted({(route.range_start, route.range_end, route.probability) for route in phase_routes})
        for j, (start, end, probability) in enumerate(spans):
            idle = sum(spare[r.island] * r.capacity_rps for r in phase_routes if r.range_start == start)
            yield RangeHeadroom(
                phase=phase,
                range_start=start,
                range_end=end,
                headroom=round(idle / (probability * plan.throughput_rps), DIGITS),
                worth_share=worth(phase, j, probability),
            )
