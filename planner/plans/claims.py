"""What a plan says of itself that follows from its rows: rates, certificate, what binds it, worths of GPUs.

Each finding begins with the key of plan.json that does not fit. What only a solver can tell (bounds, shadow prices,
rates of other trials) is not looked at here.
"""

from collections import defaultdict
from collections.abc import Iterator

from planner.domain import Certificate, Phase, Plan, Route, Sensitivity

TOLERANCE = 1e-6  # comparisons are written as "not within", so that a NaN fails them
SLIVERS = 1e-4  # what routes too small to be listed may add to a rate
BALANCED = 0.01  # phases whose rates differ by less bind alike


def close(figure: float, due: float, tolerance: float = TOLERANCE) -> bool:
    """Whether two figures agree: relative to the second, or absolute where that is below 1."""
    return abs(figure - due) <= tolerance * max(1.0, abs(due))


def false_claims(plan: Plan) -> Iterator[str]:
    """Every figure that its own rows contradict, the key first."""
    yield from _rates(plan)
    if plan.rate_band is not None and not plan.rate_band.low_rps <= plan.rate_band.high_rps:
        yield f"rate_band.low_rps must be at most high_rps, {plan.rate_band.high_rps:.6g}"
    if plan.certificate is not None:
        yield from _certified(plan, plan.certificate)
    if plan.sensitivity is not None:
        yield from _binding(plan, plan.sensitivity)
        yield from _worths(plan, plan.sensitivity)
        yield from _headrooms(plan, plan.sensitivity)
    yield from _rounds(plan)


def _due(key: str, stated: float, due: float, tolerance: float = TOLERANCE) -> Iterator[str]:
    if not close(stated, due, tolerance):
        yield f"{key} must be {due:.6g}, got {stated:.6g}"


def _rates(plan: Plan) -> Iterator[str]:
    """The rate of a phase is that of its slowest range in the time assigned to it, less what queues cost."""
    factor = 1.0 if plan.service is None else plan.service.factor
    if plan.service is not None:
        yield from _due("service.goodput_rps", plan.service.goodput_rps, plan.throughput_rps)
    totals = []
    for phase, stated_rps in ((Phase.PREFILL, plan.prefill_rps), (Phase.DECODE, plan.decode_rps)):
        sums: dict[tuple[int, float], float] = defaultdict(float)
        for route in _routes(plan, phase):
            sums[route.range_start, route.probability] += route.assigned_rps
        totals.append(sum(sums.values()))
        mix = min((rate / probability for (_, probability), rate in sums.items() if probability > 0), default=0.0)
        yield from _due(f"{phase.value}_rps", stated_rps, factor * mix, SLIVERS)
    yield from _due("assignment.objective_rps", plan.objective_rps, min(totals), SLIVERS)


def _routes(plan: Plan, phase: Phase) -> list[Route]:
    return [route for route in plan.routing if route.phase is phase]


def _certified(plan: Plan, certificate: Certificate) -> Iterator[str]:
    """Gaps are those of value and bound, and no plan is better than its bound."""
    yield from _bounded_rate(plan, certificate)
    yield from _due("objective.value", certificate.objective_value, _objective_value(plan))
    value, bound, gap = certificate.objective_value, certificate.objective_bound, certificate.objective_gap
    if bound is None or gap is None:
        if bound is not gap:
            yield "objective.bound and objective.gap must both be given, or neither"
        return
    lower, upper = (bound, value) if plan.scenario.objective.minimises else (value, bound)
    if not lower <= upper + TOLERANCE * max(1.0, abs(upper)):
        yield f"objective.bound must be no worse than the plan's own value, {value:.6g}, got {bound:.6g}"
    yield from _due("objective.gap", gap, abs(value - bound) / max(abs(bound), 1e-12))


def _bounded_rate(plan: Plan, certificate: Certificate) -> Iterator[str]:
    bound, gap = certificate.bound_rps, certificate.gap
    if bound is None or gap is None:
        if bound is not gap:
            yield "bound_rps and gap must both be given, or neither"
        return
    if not bound >= plan.throughput_rps * (1 - TOLERANCE):
        yield f"bound_rps must be at least throughput_rps, {plan.throughput_rps:.6g}, got {bound:.6g}"
    else:
        yield from _due("gap", gap, 1 - plan.throughput_rps / bound)


def _objective_value(plan: Plan) -> float:
    watts = sum(plan.scenario.inventory.item(gpu).gpu.max_w * count for gpu, count in plan.fleet.items())
    return plan.scenario.objective.kind.row.value(plan.throughput_rps, plan.price_usd_per_hour, watts)


def _binding(plan: Plan, sensitivity: Sensitivity) -> Iterator[str]:
    slow, fast = sorted((plan.prefill_rps, plan.decode_rps))
    yield from _due("sensitivity.next_rps", sensitivity.next_rps, fast)
    yield from _due("sensitivity.headroom", sensitivity.headroom, fast / slow - 1)
    slower = Phase.PREFILL if plan.prefill_rps < plan.decode_rps else Phase.DECODE
    binding = slower if fast / slow - 1 >= BALANCED else None
    if sensitivity.binding is not binding:
        yield f"sensitivity.binding must be {binding or 'null'}, got {sensitivity.binding or 'null'}"


def _worths(plan: Plan, sensitivity: Sensitivity) -> Iterator[str]:
    """A row for each type of the inventory, with its own node and price; types that are named are among them."""
    items = plan.scenario.inventory.items
    if [worth.gpu for worth in sensitivity.gpus] != [item.gpu.name for item in items]:
        yield "sensitivity.gpus must have one row for each type of scenario.inventory"
        return
    for row, (worth, item) in enumerate(zip(sensitivity.gpus, items, strict=True)):
        node, count = item.gpu.gpus_per_host, plan.fleet[worth.gpu]
        where = f"sensitivity.gpus.{row}"
        yield from _due(f"{where}.gpus_per_node", worth.gpus_per_node, node)
        yield from _due(f"{where}.gpus_lost", worth.gpus_lost, min(node, count))
        yield from _due(f"{where}.price_usd_per_gpu_hour", worth.price_usd_per_gpu_hour, item.rent_usd_per_gpu_hour)
        if (worth.less_node_rps is None) != (count == 0):
            yield f"{where}.less_node_rps must be null where the fleet has none of the type, and only there"
    for key, gpu in (("next_gpu", sensitivity.next_gpu), ("drop_first", sensitivity.drop_first)):
        if not plan.fleet.get(gpu):
            yield f"sensitivity.{key} must be a type of the fleet, got {gpu!r}"


def _headrooms(plan: Plan, sensitivity: Sensitivity) -> Iterator[str]:
    """Of each phase and range what the spare time of its islands could add."""
    spare = {island.id: max(0.0, 1 - island.utilisation) for island in plan.islands}
    due: dict[tuple[Phase, int, int], float] = defaultdict(float)
    for route in plan.routing:
        idle = spare.get(route.island, 0.0) * route.capacity_rps
        due[route.phase, route.range_start, route.range_end] += idle / (route.probability * plan.throughput_rps)
    keys = [(row.phase, row.range_start, row.range_end) for row in sensitivity.ranges]
    if sorted(keys) != sorted(due):
        yield "sensitivity.ranges must have one row for each phase and range of routing"
        return
    for row, headroom in enumerate(sensitivity.ranges):
        yield from _due(f"sensitivity.ranges.{row}.headroom", headroom.headroom, due[keys[row]])


def _rounds(plan: Plan) -> Iterator[str]:
    """Each round of the search reports what its trials come to."""
    best = 0.0
    for row, entry in enumerate(plan.search.rounds):
        judged_rps = [
            plan.search.judged_rps(trial) for trial in plan.search.trials if trial.iteration == entry.iteration
        ]
        best = max([best, *judged_rps])
        yield from _due(f"search.rounds.{row}.evaluations", entry.evaluations, len(judged_rps))
        yield from _due(f"search.rounds.{row}.best_rps", entry.best_rps, best)
