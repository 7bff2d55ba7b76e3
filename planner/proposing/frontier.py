"""Rate against price: for budgets from the cheapest fleet that serves anything to the whole offer, the best fleet."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise

from planner.assignment import Offer, best_layout, best_pools, relax, relaxed_values
from planner.domain import (
    AssignmentSettings,
    CostMode,
    Formulation,
    Frontier,
    FrontierPoint,
    InventoryItem,
    Layout,
    ObjectiveKind,
    ObjectiveSettings,
    Scenario,
)
from planner.errors import InfeasibleError, InputError, SolverError
from planner.evaluation.buckets.judging import layout_of
from planner.evaluation.evaluator import Evaluator, open_evaluator
from planner.evaluation.goodput import bounds_ttft
from planner.processes.interrupts import check, deferred
from planner.proposing.buckets.infeasible import nothing_serves, stocks_of
from planner.proposing.buckets.pools import fastest_pools
from planner.proposing.certificate import MOST_REFERENCE_SIZES, RATE, layout_settings, offer_of
from planner.proposing.feasibility import posed, require_room
from planner.proposing.queued_layouts import layouts_with_queues
from planner.proposing.rate_bands import with_bands

FEWEST_POINTS = 2
MOST_POINTS = 200
GAP = 0.01
SHARE_OF_TIME = 1 / 30
"""A point's part of search.work_limit: 4 s of the default 120 s."""

LEAST_SHARES = (1e-4, 1e-3, 1e-2, 0.1, 0.5)
"""Shares of the best possible rate that the cheapest fleet is asked for."""

LEAST_SHARE_OF_POOLS = 1e-3
"""The same of pools, whose programme has no share that drowns."""

ROUNDING = 1e-9

ReportPoint = Callable[[int, int, FrontierPoint | None], None]
"""Heard after each budget: done, total, and the best layout found; None where there is none within the work limit."""


def frontier(scenario: Scenario, points: int, progress: ReportPoint = lambda *_: None) -> Frontier:
    """The best fleets for `points` budgets, evenly spread; points that another dominates are left out.

    Points are of the scenario's form of routing: pools behind buckets, or layouts with a table. Its objective is not
    heeded, and the inner problem is that of the whole mix (`max_rate`). A point
    gets a thirtieth of search.work_limit and a gap of at least 1 %. Raises InputError for a number of points outside
    2..200, without any price, or in reference mode beyond 1,024 GPUs of a type; InfeasibleError where nothing serves,
    SolverError where no fleet that does is found within the work limit. An interrupt ends it with the points found
    so far; KeyboardInterrupt where there are none.
    """
    _require(scenario, points)
    inner = replace(scenario.assignment, formulation=Formulation.MAX_RATE)
    judged = replace(scenario, assignment=inner, objective=ObjectiveSettings())  # a target's queues are of its rate
    with open_evaluator(posed(judged)) as evaluator:
        settings = layout_settings(judged)
        settings = replace(settings, gap=max(GAP, settings.gap), work_limit=settings.work_limit * SHARE_OF_TIME)
        cheapest, best = (_of_pools if judged.bucketed else _of_layouts)(evaluator, settings)
        budgets = _budgets(judged, cheapest, points)
        by_budget: dict[float, FrontierPoint | None] = {}
        with suppress(KeyboardInterrupt), deferred():
            for budget in budgets:
                point = _point(evaluator, best, budget)
                check()  # one that was found while an interrupt came may not be the best
                by_budget[budget] = point
                progress(len(by_budget), points, point)
        solved = [point for point in by_budget.values() if point is not None]
        front = with_bands(undominated(solved), evaluator)
    if not solved and len(by_budget) < len(budgets):
        raise KeyboardInterrupt
    if not solved:
        raise SolverError(
            f"frontier: scenario {scenario.name}: none of the {len(budgets)} budgets was solved within the work limit.",
            hint="Raise search.work_limit, of which a point gets a thirtieth.",
        )
    return Frontier(
        points=front,
        unsolved=tuple(budget for budget, point in by_budget.items() if point is None),
        unasked=tuple(budget for budget in budgets if budget not in by_budget),
    )


def _require(scenario: Scenario, points: int) -> None:
    if not FEWEST_POINTS <= points <= MOST_POINTS:
        raise InputError(
            f"points: must lie in {FEWEST_POINTS}..{MOST_POINTS}, got {points}.", hint="12 make a good figure."
        )
    items = scenario.inventory.items
    if unknown := scenario.inventory.without_price:
        raise InputError(
            f"scenario {scenario.name}: prices_usd_per_gpu_hour.{unknown[0]}: must be given, a frontier counts money: "
            f"there is no price for {', '.join(unknown)}.",
            hint="Add it under prices_usd_per_gpu_hour, or leave the type out of the inventory.",
        )
    if not any(item.rent_usd_per_gpu_hour > 0 and item.count for item in items):
        raise InputError(
            f"scenario {scenario.name}: prices_usd_per_gpu_hour: at least one offered GPU type must have a price above "
            "0, got none.",
            hint="Set prices_usd_per_gpu_hour.",
        )
    largest = max(item.count for item in items)
    if scenario.cost.mode is CostMode.REFERENCE and largest > MOST_REFERENCE_SIZES:
        raise InputError(
            f"scenario {scenario.name}: inventory: must hold at most {MOST_REFERENCE_SIZES:,} GPUs of a type in "
            f"reference mode, got {largest:,}.",
            hint="Take cost.mode default, or a smaller inventory.",
        )


Best = Callable[[ObjectiveSettings], tuple[Layout, float, float] | None]
"""The best layout for an objective, its rate, and the bound of all; None where none is found."""


def _of_layouts(evaluator: Evaluator, settings: AssignmentSettings) -> tuple[float, Best]:
    """Price of the cheapest layout with a routing table that serves anything, and the best ones."""
    require_room(evaluator)
    scenario = evaluator.question.scenario
    offer = offer_of(scenario, evaluator, scenario.search.sizes)
    return _cheapest(evaluator, offer, settings), partial(_best_layout, evaluator, offer, settings)


def _of_pools(evaluator: Evaluator, settings: AssignmentSettings) -> tuple[float, Best]:
    """The same of pools behind buckets."""
    return _cheapest_pools(evaluator, settings), partial(_best_of_pools, evaluator, settings)


def _point(evaluator: Evaluator, best: Best, budget: float) -> FrontierPoint | None:
    """The best fleet for a budget; None where none is found."""
    enough = budget * (1 + ROUNDING)  # a budget must not fall short of a price by the last digit
    solution = best(ObjectiveSettings(kind=ObjectiveKind.BUDGET, budget_usd_per_hour=enough))
    if solution is None or not solution[1] > 0:
        return None
    layout, rate_rps, bound_rps = solution
    items, gpus = evaluator.question.scenario.inventory.items, layout.gpus
    return FrontierPoint(
        budget_usd_per_hour=budget,
        price_usd_per_hour=_price(layout, items),
        rate_rps=rate_rps,
        bound_rps=max(bound_rps, rate_rps),
        gpus=tuple((item.gpu.name, gpus[item.gpu.name]) for item in items),
        watts=sum(item.gpu.max_w * gpus[item.gpu.name] for item in items),
        layout=layout,
    )


def _price(layout: Layout, items: Sequence[InventoryItem]) -> float:
    gpus = layout.gpus
    return sum(item.rent_usd_per_gpu_hour * gpus[item.gpu.name] for item in items)


def _budgets(scenario: Scenario, cheapest: float, points: int) -> list[float]:
    """Evenly from the cheapest fleet's price to the whole offer's."""
    dearest = scenario.inventory.price_usd_per_hour
    start = min(cheapest, dearest)
    step = (dearest - start) / (points - 1)
    return [*(start + k * step for k in range(points - 1)), dearest]


def _cheapest(evaluator: Evaluator, offer: Offer, settings: AssignmentSettings) -> float:
    """Price of the cheapest fleet found that serves anything (USD/hour).

    A small rate drowns in the solver's tolerance on whole numbers, a large one takes more than the least: the cheapest
    of several is taken, and the largest are asked only where the small ones find nothing. Raises InfeasibleError where
    nothing serves, SolverError where that is not known within the work limit.
    """
    highest_rps = relax(offer, RATE, settings).rate
    prices: list[float] = []
    late = False
    for share in LEAST_SHARES:
        # a small share has found one: larger ones cost no less
        if prices and share > LEAST_SHARES[2]:
            break
        target = ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=share * highest_rps)
        try:
            answer = best_layout(offer, target, settings) if highest_rps > 0 else None
        except InfeasibleError:
            continue
        except SolverError:
            late = True
            continue
        if answer and evaluator.evaluate(answer.layout.plain).throughput_rps > 0:
            prices.append(_price(answer.layout, evaluator.question.scenario.inventory.items))
    if late and not prices:
        raise SolverError(
            "frontier: no fleet that serves every range was found within the work limit, nor that there is none.",
            hint="Raise search.work_limit, of which a point gets a thirtieth.",
        )
    if not prices:
        raise InfeasibleError(
            "frontier: no islands of the offered GPUs serve every range in both phases.",
            hint="Prefill and decode need an island each: offer more GPUs, or types with more memory.",
        )
    return min(prices)


def _best_layout(
    evaluator: Evaluator, offer: Offer, settings: AssignmentSettings, objective: ObjectiveSettings
) -> tuple[Layout, float, float] | None:
    try:
        answer = best_layout(offer, objective, settings)
    except (InfeasibleError, SolverError):
        return None
    judged = [evaluator.evaluate(answer.layout.plain)]
    if bounds_ttft(evaluator.question.scenario.slo):  # the programme sees no queues: layouts with room for them compete
        judged += layouts_with_queues(offer, evaluator, objective, settings)
    best = max(judged, key=lambda evaluation: evaluation.throughput_rps)
    return best.layout, best.throughput_rps, answer.bound


def _cheapest_pools(evaluator: Evaluator, settings: AssignmentSettings) -> float:
    """Price of the cheapest pools found that serve every bucket (USD/hour).

    Raises InfeasibleError where nothing serves, SolverError where that is not known within the work limit.
    """
    question, prices = evaluator.question, evaluator.prices
    rate = ObjectiveSettings()
    stocks, partitions = stocks_of(question, rate), prices.partitions[:1]
    offer = prices.offer(stocks, partitions)
    highest_rps = max(relaxed_values(offer, partitions, rate, settings).values(), default=0.0)
    if not highest_rps:
        raise nothing_serves(question, prices, rate)
    target = ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=LEAST_SHARE_OF_POOLS * highest_rps)
    try:
        return best_pools(offer, partitions, target, settings).value
    except InfeasibleError:
        raise nothing_serves(question, prices, rate) from None


def _best_of_pools(
    evaluator: Evaluator, settings: AssignmentSettings, objective: ObjectiveSettings
) -> tuple[Layout, float, float] | None:
    try:
        priced, bound, solver = fastest_pools(evaluator, objective, settings)
    except (InfeasibleError, SolverError):
        return None
    layout = layout_of(priced.pools)
    evaluator.remember_pools(layout, priced, solver)  # its bands are told of these pools, not of others alike
    return layout, priced.rate_rps, bound


def undominated(points: list[FrontierPoint]) -> tuple[FrontierPoint, ...]:
    """Points by rising price that each serve more than every cheaper one.

    What no layout of a budget exceeds, none of a smaller budget does: bounds come down to those of larger budgets.
    """
    front: list[FrontierPoint] = []
    for point in sorted(_tightened(points), key=lambda p: (p.price_usd_per_hour, -p.rate_rps)):
        if point.price_usd_per_hour > 0 and (not front or point.rate_rps > front[-1].rate_rps):
            front.append(point)
    assert all(a.price_usd_per_hour < b.price_usd_per_hour for a, b in pairwise(front))
    return tuple(front)


def _tightened(points: list[FrontierPoint]) -> list[FrontierPoint]:
    bound_rps, rows = math.inf, []
    for point in sorted(points, key=lambda p: -p.budget_usd_per_hour):
        # from the largest budget down; a point found above the bound of a larger budget is within the solver's gap
        bound_rps = max(point.rate_rps, min(bound_rps, point.bound_rps))
        rows.append(replace(point, bound_rps=bound_rps))
    return rows
