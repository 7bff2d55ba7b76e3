"""How far a plan is from the best possible, and the best layout itself where the exact method is asked for."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from planner.assignment import LayoutAnswer, Offer, best_layout, relax
from planner.domain import (
    AssignmentSettings,
    Bound,
    Certificate,
    CostMode,
    Formulation,
    InventoryItem,
    IslandClass,
    Layout,
    ObjectiveKind,
    ObjectiveSettings,
    Scenario,
    Sizes,
    SizeSet,
    WarmStart,
    admits,
)
from planner.errors import InfeasibleError, InputError, SolverError
from planner.evaluation.evaluator import Evaluator

MOST_STAGES = 8
LEAST_SHARE = 0.01  # of the highest rate: what a fleet that "serves" serves at least
MOST_REFERENCE_SIZES = 1024
RATE = ObjectiveSettings(kind=ObjectiveKind.RATE)
PLACEMENT = "placement"
ONE_OF_SEVERAL = "the other goals of the frontier have no bound"
UNBOUNDED = "islands of more than 1,024 GPUs have no bound in reference mode"


def offer_of(scenario: Scenario, evaluator: Evaluator, sizes: Sizes = SizeSet.ALL) -> Offer:
    """Every island that a layout of the inventory may be made of, with what it does."""
    classes = [
        IslandClass(gpu=item.gpu.name, size=size)
        for item in scenario.inventory.items
        for size in _sizes(scenario, item, sizes)
    ]
    evaluator.tabulate(classes)
    return Offer.of(
        scenario.inventory.items,
        [evaluator.row(island) for island in classes],
        [span.probability for span in evaluator.question.workload.ranges],
    )


def _sizes(scenario: Scenario, item: InventoryItem, sizes: Sizes) -> Iterator[int]:
    """Sizes of islands from the minimum up. Beyond the largest replica there are only copies of smaller islands."""
    smallest = scenario.search.min_island_size
    largest = min(item.count, smallest + _largest_replica(scenario, item))
    return (size for size in range(smallest, largest + 1) if admits(sizes, item.gpu, size))


def _largest_replica(scenario: Scenario, item: InventoryItem) -> int:
    if scenario.cost.mode is CostMode.REFERENCE:
        return MOST_REFERENCE_SIZES
    stages = scenario.cost.max_pipeline_stages
    if scenario.model.experts is None:
        return (stages or MOST_STAGES) * item.gpu.gpus_per_host
    return (stages or 1) * (scenario.model.experts.routed + scenario.cost.redundant_experts)


def solve_layout(scenario: Scenario, evaluator: Evaluator) -> LayoutAnswer:
    """The best layout for the scenario's objective.

    Raises InfeasibleError where a target is out of reach, or a budget rents nothing that serves; it names what can be
    had.
    """
    offer = offer_of(scenario, evaluator, scenario.search.sizes)
    settings, objective = layout_settings(scenario), single(scenario.objective)
    require_prices(scenario)
    if not any(offer.options):
        raise InputError(
            f"scenario {scenario.name}: search.sizes: must admit an island of some GPU type, got "
            f"{scenario.search.sizes!r}.",
            hint="Choose sizes between search.min_island_size and the inventory's counts.",
        )
    highest_rps = _require_reachable(scenario, offer, settings)
    floor_rps = LEAST_SHARE * highest_rps
    try:
        if 0 < objective.target_rps < floor_rps:  # a smaller rate drowns in the solver's tolerance
            return replace(best_layout(offer, replace(objective, target_rps=floor_rps), settings), proven=False)
        return best_layout(offer, objective, settings)
    except SolverError as error:
        raise SolverError(
            f"scenario {scenario.name}: search.method exact: {error.message}",
            hint="Raise search.work_limit or search.gap.",
        ) from None
    except InfeasibleError:
        if not objective.kind.row.budgeted:
            raise
        raise InfeasibleError(
            f"scenario {scenario.name}: objective.budget_usd_per_hour: {objective.budget_usd_per_hour:g} USD/hour "
            f"rents no fleet that serves the workload; {_cheapest_words(offer, objective, floor_rps, settings)}.",
            hint="Raise the budget, or offer cheaper GPUs.",
        ) from None


def _cheapest_words(offer: Offer, objective: ObjectiveSettings, floor_rps: float, settings: AssignmentSettings) -> str:
    """What the cheapest fleet costs; that a budget is too small is known without it."""
    try:
        cheapest = best_layout(offer, replace(objective, kind=ObjectiveKind.TARGET, target_rps=floor_rps), settings)
    except SolverError:
        return "what the cheapest costs was not found within the work limit"
    return f"the cheapest costs {cheapest.value:.2f}"


def single(objective: ObjectiveSettings) -> ObjectiveSettings:
    """The objective that the layout's programme takes: of several goals the rate, of a placed one the rate before."""
    return objective if objective.kind.row.solvable else RATE


def layout_settings(scenario: Scenario) -> AssignmentSettings:
    """The solver's settings for layouts: the search's gap and time."""
    return replace(scenario.assignment, gap=scenario.search.gap, work_limit=scenario.search.work_limit)


def require_prices(scenario: Scenario) -> None:
    """Raises InputError where an objective in money has nothing to count."""
    objective = scenario.objective
    free = [item.gpu.name for item in scenario.inventory.items if not item.rent_usd_per_gpu_hour > 0]
    if free and objective.kind.row.priced:
        raise InputError(
            f"scenario {scenario.name}: prices_usd_per_gpu_hour: must be above 0 where objective.kind is "
            f"{objective.kind.value}; {', '.join(free)} costs nothing.",
            hint="Give it a price, or choose another objective.",
        )


def _require_reachable(scenario: Scenario, offer: Offer, settings: AssignmentSettings) -> float:
    """The highest rate of the relaxation. Raises InfeasibleError where the target is above it."""
    target = scenario.objective.target_rps
    highest_rps = relax(offer, RATE, settings).rate
    if target > highest_rps:
        raise InfeasibleError(
            f"scenario {scenario.name}: objective.target_rps: {target:g} requests/s is above what the offered GPUs can "
            f"reach, at most {highest_rps:.1f}.",
            hint="Lower the target, offer more GPUs, or loosen the service levels.",
        )
    return highest_rps


def certify(
    scenario: Scenario, evaluator: Evaluator, layout: Layout, throughput_rps: float, answer: LayoutAnswer | None
) -> Certificate:
    """Bounds for a plan of `layout`; `answer` is the exact method's, where it made the layout."""
    if scenario.cost.mode is CostMode.REFERENCE and _beyond_reference(scenario):
        return _unknown(objective_value(scenario, layout, throughput_rps), UNBOUNDED)
    try:
        if answer is None:
            certificate = _of_search(scenario, evaluator, layout, throughput_rps)
        else:
            certificate = _of_answer(scenario, evaluator, layout, throughput_rps, answer)
    except SolverError as error:
        return _unknown(objective_value(scenario, layout, throughput_rps), error.message)
    unseen = [aspect for aspect, present in _unseen(scenario) if present]
    if unseen:
        blind = f"the bound does not see the {' and '.join(unseen)}, so the plan may be closer to the best than this"
        certificate = replace(certificate, note="; ".join(filter(None, (certificate.note, blind))))
    return certificate


def certified_again(scenario: Scenario, saved: Certificate, layout: Layout, throughput_rps: float) -> Certificate:
    """A saved plan's bounds, held against the rate that its layout serves where it lies now."""
    value = objective_value(scenario, layout, throughput_rps)
    bound_rps = None if saved.bound_rps is None else max(saved.bound_rps, throughput_rps)
    bound = saved.objective_bound
    if bound is not None:
        bound = min(bound, value) if scenario.objective.minimises else max(bound, value)
    blind = f"the bound does not see the {PLACEMENT}"
    return Certificate(
        bound_rps=bound_rps,
        gap=None if bound_rps is None else 1 - throughput_rps / bound_rps,
        objective_value=value,
        objective_bound=bound,
        objective_gap=None if bound is None else abs(value - bound) / max(abs(bound), 1e-12),
        note=saved.note if PLACEMENT in saved.note else "; ".join(filter(None, (saved.note, blind))),
    )


def _unseen(scenario: Scenario) -> tuple[tuple[str, bool], ...]:
    return (
        ("network", scenario.network is not None and not scenario.bucketed),
        ("queues", _queues(scenario) and not scenario.bucketed),
        ("deviation formulation", scenario.assignment.formulation is Formulation.DEVIATION),
        (PLACEMENT, scenario.cluster is not None),
        ("replay", scenario.objective.kind.row.replayed),
    )


def _queues(scenario: Scenario) -> bool:
    return scenario.slo.ttft_ms is not None or any(limits.ttft_ms is not None for limits in scenario.slo.ranges)


def _of_search(scenario: Scenario, evaluator: Evaluator, layout: Layout, throughput_rps: float) -> Certificate:
    """Of the GPUs at hand; of those that the layout has, where several goals choose their number."""
    several, settings = scenario.objective.kind.row.several, layout_settings(scenario)
    rented = several and scenario.objective.rents
    offer = _used_offer(scenario, evaluator, layout) if rented else offer_of(scenario, evaluator)
    search = scenario.search
    seeded = search.method.row.may_solve or WarmStart.EXACT in search.warm_start  # solved for already
    bound = relax(offer, RATE, settings).value
    if search.bound is Bound.TIGHT or seeded:
        with suppress(SolverError):  # the relaxation's bound holds, too
            bound = min(bound, best_layout(offer, RATE, settings).bound)
    bound = max(bound, throughput_rps)  # equal but for the solver's last digits
    gap = 1 - throughput_rps / bound
    return Certificate(
        bound_rps=bound,
        gap=gap,
        objective_value=throughput_rps,
        objective_bound=None if several else bound,
        objective_gap=None if several else gap,
        note=ONE_OF_SEVERAL if several else "",
    )


def _of_answer(
    scenario: Scenario, evaluator: Evaluator, layout: Layout, throughput_rps: float, answer: LayoutAnswer
) -> Certificate:
    objective = scenario.objective
    value = objective_value(scenario, layout, throughput_rps)
    note = "" if answer.proven else "the solver stopped at its work limit: the best found so far"
    if objective.kind.row.per_charge and not answer.proven:
        note = "bounded by the relaxation alone"
    if scenario.search.sizes is not SizeSet.ALL:
        note = "; ".join(filter(None, (note, "the bound is of islands of the sizes chosen")))
    if objective.kind.row.plain and scenario.search.sizes is SizeSet.ALL:
        bound_rps = answer.bound
    elif objective.kind.row.plain:
        bound_rps = relax(offer_of(scenario, evaluator), RATE, layout_settings(scenario)).value
    elif objective.kind.row.budgeted and scenario.search.sizes is SizeSet.ALL:
        relaxed_rps = relax(_used_offer(scenario, evaluator, layout), RATE, layout_settings(scenario)).value
        bound_rps = min(relaxed_rps, answer.bound)
    else:
        bound_rps = relax(_used_offer(scenario, evaluator, layout), RATE, layout_settings(scenario)).value
    bound_rps = max(bound_rps, throughput_rps)
    better = min(answer.bound, value) if objective.minimises else max(answer.bound, value)
    return Certificate(
        bound_rps=bound_rps,
        gap=1 - throughput_rps / bound_rps,
        objective_value=value,
        objective_bound=better,
        objective_gap=abs(value - better) / max(abs(better), 1e-12),
        note=note,
    )


def objective_value(scenario: Scenario, layout: Layout, throughput_rps: float) -> float:
    """The objective of a layout in its own unit: requests/s (also of several goals), USD/hour, requests per USD/hour,
    or W."""
    items = {item.gpu.name: item for item in scenario.inventory.items}
    price = sum(items[i.gpu].rent_usd_per_gpu_hour * i.size * n for i, n in layout.counts)
    watts = sum(items[i.gpu].gpu.max_w * i.size * n for i, n in layout.counts)
    return scenario.objective.kind.row.value(throughput_rps, price, watts)


def _used_offer(scenario: Scenario, evaluator: Evaluator, layout: Layout) -> Offer:
    """The offer of the GPUs that the layout uses, no more."""
    offer = offer_of(scenario, evaluator)
    counts = tuple(layout.gpus[gpu] for gpu in offer.gpus)
    options = tuple(
        tuple(row for row in rows if row.island.size <= count)
        for rows, count in zip(offer.options, counts, strict=True)
    )
    return replace(offer, counts=counts, options=options)


def _beyond_reference(scenario: Scenario) -> bool:
    return any(item.count > MOST_REFERENCE_SIZES for item in scenario.inventory.items)


def _unknown(value: float, note: str) -> Certificate:
    return Certificate(
        bound_rps=None,
        gap=None,
        objective_value=value,
        objective_bound=None,
        objective_gap=None,
        note=note,
    )


def is_exact(scenario: Scenario) -> bool:
    """Whether the layout itself is solved for: `auto` does where the programme sees all that is asked, or where the
    number of GPUs is chosen, which no search does for a single goal."""
    objective, method = scenario.objective, scenario.search.method.row
    if not method.may_solve or objective.kind.row.several:
        return method.solves
    if objective.rents:
        return True
    counts = objective.kind.row.placed  # else the best layout is placed as it is
    return not any(present and (counts or aspect != PLACEMENT) for aspect, present in _unseen(scenario))
