"""Points of a frontier of plans of buckets: the best pools for a rent, and the cheapest that serve anything."""

from planner.assignment import best_pools, relaxed_values
from planner.domain import AssignmentSettings, FrontierPoint, ObjectiveKind, ObjectiveSettings
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.judging import layout_of
from planner.evaluation.evaluator import Evaluator
from planner.layouts.buckets.certificate import used_gpus
from planner.layouts.buckets.infeasible import nothing_serves, stocks_of
from planner.layouts.buckets.pools import fastest_pools

LEAST_SHARE = 1e-3
"""Share of the best possible rate that the cheapest pools are asked for."""

ROUNDING = 1e-9


def cheapest_pools(evaluator: Evaluator, settings: AssignmentSettings) -> float:
    """Price of the cheapest pools found that serve every bucket (USD/hour).

    Raises InfeasibleError where nothing serves, SolverError where that is not known within the work limit.
    """
    question, prices = evaluator.question, evaluator.prices
    rate = ObjectiveSettings()
    stocks, partitions = stocks_of(question, rate), prices.partitions[:1]
    offer = prices.offer(stocks, partitions)
    most = max(relaxed_values(offer, partitions, rate, settings).values(), default=0.0)
    if not most:
        raise nothing_serves(question, prices, rate)
    target = ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=LEAST_SHARE * most)
    try:
        return best_pools(offer, partitions, target, settings).value
    except InfeasibleError:
        raise nothing_serves(question, prices, rate) from None


def point_of_pools(evaluator: Evaluator, settings: AssignmentSettings, budget: float) -> FrontierPoint | None:
    """The best pools for a rent; None where none are found."""
    enough = budget * (1 + ROUNDING)  # a budget must not fall short of a price by the last digit
    objective = ObjectiveSettings(kind=ObjectiveKind.BUDGET, budget_usd_per_hour=enough)
    try:
        priced, bound, solver = fastest_pools(evaluator, objective, settings)
    except (InfeasibleError, SolverError):
        return None
    if not priced.rate_rps > 0:
        return None
    layout, items = layout_of(priced.pools), evaluator.question.scenario.inventory.items
    evaluator.remember_pools(layout, priced, solver)
    used = used_gpus(layout)
    gpus = {item.gpu.name: used.get(item.gpu.name, 0) for item in items}
    return FrontierPoint(
        budget_usd_per_hour=budget,
        price_usd_per_hour=sum(item.price_usd_per_gpu_hour * gpus[item.gpu.name] for item in items),
        rate_rps=priced.rate_rps,
        bound_rps=max(bound, priced.rate_rps),
        gpus=tuple(gpus.items()),
        watts=sum(item.gpu.max_w * gpus[item.gpu.name] for item in items),
        layout=layout,
    )
