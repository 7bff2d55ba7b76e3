"""Why there are no pools for a scenario, in words; and whether there are any, told before they are solved for."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product

from planner.assignment import BucketAnswer, BucketOffer, Partition, Place, best_pools, relaxed_values
from planner.cost import CostContext
from planner.cost.engine_rules import refusals
from planner.cost.serving import server_shapes
from planner.domain import (
    PHASES,
    AssignmentSettings,
    EngineProfile,
    Inventory,
    InventoryItem,
    ObjectiveKind,
    ObjectiveSettings,
    ParallelConfig,
    Phase,
    Question,
    SizeSet,
    SloSettings,
    halves_of,
)
from planner.domain.stocks import Stock, inventory_stocks
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.evaluator import Evaluator
from planner.proposing.certificate import LEAST_SHARE, layout_settings
from planner.proposing.feasibility import unreachable_bounds

SOUGHT_NODES = 16  # of one server, where more GPUs than there are would do
MOST_RULES = 2  # told of a GPU type and phase
_ALL_LENGTHS = 0  # the bucket of all lengths
ROUGH_GAP = 0.5  # where only whether there are pools is asked
LATE_SECONDS = 2.0
_SURVIVAL_STEPS = 50
_APART = "Prefill and decode need a server each:"


def stocks_of(question: Question, objective: ObjectiveSettings) -> tuple[Stock, ...]:
    """The inventory's GPUs, charged as the objective counts them."""
    items = question.scenario.inventory.items
    if objective.kind.row.in_watts:
        return inventory_stocks(question.scenario.inventory, [item.gpu.max_w for item in items])
    return inventory_stocks(question.scenario.inventory, [item.rent_usd_per_gpu_hour for item in items])


def _may_mix(prices: BucketPrices) -> bool:
    """Whether servers may do both phases."""
    return Phase.MIXED in prices.space.serving


def nothing_serves(question: Question, prices: BucketPrices, objective: ObjectiveSettings) -> InfeasibleError:
    """Why no partition can be served: a budget or target, too few GPUs for both phases, or the GPUs themselves."""
    scenario = question.scenario
    offer = prices.offer(stocks_of(question, objective), prices.partitions[:1])
    fastest = relaxed_values(offer, prices.partitions[:1], ObjectiveSettings(), scenario.assignment)
    highest_rps = max(fastest.values(), default=0.0)
    # not even servers that can be divided serve anything: then neither a budget nor a target is to blame
    if not highest_rps:
        return _excluded(question, prices)
    if objective.target_rps:
        return InfeasibleError(
            f"scenario {scenario.name}: objective.target_rps: {objective.target_rps:g} requests/s is above what the "
            f"offered GPUs can reach, at most {highest_rps:.1f}.",
            hint="Lower the target, offer more GPUs, or loosen the service levels.",
        )
    if objective.kind.row.budgeted:
        return InfeasibleError(
            f"scenario {scenario.name}: objective.budget_usd_per_hour: {objective.budget_usd_per_hour:g} USD/hour "
            "rents no fleet that serves the workload; "
            f"{_cheapest_words(question, offer, prices.partitions[0], highest_rps)}.",
            hint="Raise the budget, or offer cheaper GPUs.",
        )
    return _without_room(question, prices)


def _without_room(question: Question, prices: BucketPrices) -> InfeasibleError:
    """Each phase has servers, and there are too few GPUs for one of each."""
    scenario = question.scenario
    smallest = {phase: smallest_servers(prices, phase) for phase in PHASES}
    needs = "; ".join(
        f"to {phase} {', '.join(f'{devices} {gpu}' for gpu, devices in servers.items())}"
        for phase, servers in smallest.items()
    )
    offered = ", ".join(f"{item.count} {item.gpu.name}" for item in scenario.inventory.items)
    pairs = product(smallest[Phase.PREFILL].items(), smallest[Phase.DECODE].items())
    # types that hand no KV caches to each other cannot split a request
    of_family = [pair for pair in pairs if any({gpu for gpu, _ in pair} <= family for family in prices.families)]
    (first, gpus), (other, more) = min(of_family, key=lambda pair: pair[0][1] + pair[1][1])
    fleet = f"{gpus + more} {first}" if first == other else f"{gpus} {first} and {more} {other}"
    beside = ", or set serving to auto, which may serve both phases on the same GPUs" if not _may_mix(prices) else ""
    return InfeasibleError(
        f"scenario {scenario.name}: inventory: must have room for a server of {scenario.model.name} in each phase, got "
        f"{offered}; the smallest servers take {needs}. The smallest fleet that can be split is {fleet}.",
        hint=f"{_APART} add GPUs{beside}.",
    )


def _cheapest_words(question: Question, offer: BucketOffer, partition: Partition, highest_rps: float) -> str:
    """What the cheapest fleet costs; that a budget is too small is known without it."""
    cheapest = ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=LEAST_SHARE * highest_rps)
    try:
        answer = best_pools(offer, [partition], cheapest, layout_settings(question.scenario))
    except (InfeasibleError, SolverError):
        return "what the cheapest costs was not found within the work limit"
    return f"the cheapest costs {answer.value:.2f}"


def _excluded(question: Question, prices: BucketPrices) -> InfeasibleError:
    """Nothing serves one of the phases: why, by GPU type and phase."""
    scenario, load = question.scenario, question.workload
    unserved = [phase for phase in prices.space.serving if not smallest_servers(prices, phase)]
    halves = dict.fromkeys(half for phase in unserved for half in halves_of(phase))
    cells = [(half, j) for half in halves for j in range(len(load.ranges))]
    bounds = "".join(f"\n  {verdict}" for verdict in unreachable_bounds(question, cells))
    reasons = "".join(f"\n  {line}" for line in exclusions(prices))
    return InfeasibleError(
        f"scenario {scenario.name}: inventory: no servers of these GPUs that an engine would start serve "
        f"{scenario.model.name} ({scenario.model.weights_gb:.0f} GB of weights) in both phases"
        f"{' within the service levels' if scenario.slo.bounds_anything else ''}.{bounds}{reasons}",
        hint=f"{'Add' if _may_mix(prices) else _APART + ' add'} GPUs, choose a type with more memory or a smaller model"
        + (", or loosen slo." if scenario.slo.bounds_anything else "."),
    )


def not_survived(
    question: Question,
    offer: BucketOffer,
    prices: BucketPrices,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
) -> InfeasibleError:
    """Names the closest share that can be survived, or what else is short."""
    scenario = question.scenario
    limits = replace(settings, work_limit=LATE_SECONDS, gap=0.05)

    def surviving(steps: int) -> BucketAnswer | None:
        shares = replace(offer, survive=steps / _SURVIVAL_STEPS)
        with suppress(InfeasibleError, SolverError):
            return best_pools(shares, prices.partitions[:1], objective, limits)
        return None

    # where nothing serves with all nodes up, the loss is not what is short
    unbroken = surviving(0) if scenario.survive.share else None
    if unbroken is None:
        return nothing_serves(question, prices, objective)
    low, high = 0, round(scenario.survive.share * _SURVIVAL_STEPS)
    # the share that can be survived falls with what is asked: halving finds it to a fiftieth
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if surviving(middle) else (low, middle)
    nodes = f"any {scenario.survive.nodes} node{'s' * (scenario.survive.nodes != 1)}"
    alone = _alone(unbroken, question, objective)
    return InfeasibleError(
        f"scenario {scenario.name}: survive.share: {scenario.survive.share:g} of the rate does not remain after the "
        f"loss of {nodes}; the closest share is {low / _SURVIVAL_STEPS:.2f}."
        + (f" Pools without it have no more than one node may take along: {alone}." if alone else ""),
        hint=f"Lower survive.share or survive.nodes, or {_helps(alone, prices)}.",
    )


def _alone(answer: BucketAnswer, question: Question, objective: ObjectiveSettings) -> str:
    """The servers of buckets that the lost nodes may hold all of: `1 server of 8 H200 for prefill`, joined by `and`."""
    stocks, counts = stocks_of(question, objective), dict[Place, int]()
    for pool in answer.pools:
        counts[pool.place] = counts.get(pool.place, 0) + pool.count
    works, lost_nodes = {Phase.MIXED: "both phases"}, question.scenario.survive.nodes
    return " and ".join(
        f"{pool.count} server{'s' * (pool.count != 1)} of {pool.option.use} {stocks[pool.option.stock].gpu} for "
        f"{works.get(pool.place[0], pool.place[0].value)}"
        for pool in answer.pools
        if counts[pool.place] <= lost_nodes * -(-counts[pool.place] // pool.option.nodes)
    )


def _helps(alone: str, prices: BucketPrices) -> str:
    """What would leave something after a loss."""
    beside = "" if _may_mix(prices) else ", or set serving to auto, whose servers do both phases"
    if alone:
        return f"offer GPUs on a further node for the same again ({alone}){beside}"
    return f"offer more GPUs: every phase needs servers on several nodes{beside}"


def require_pools(evaluator: Evaluator, tell: Callable[[str], None]) -> None:
    """Raises InfeasibleError where no pools of the inventory serve the workload; `tell` hears of each step."""
    question, prices, objective = evaluator.question, evaluator.prices, ObjectiveSettings()
    settings = replace(layout_settings(question.scenario), gap=ROUGH_GAP)
    gpus = ", ".join(item.gpu.name for item in question.scenario.inventory.items)
    tell(f"working out what servers of {gpus} do of {len(prices.partitions)} ways to make buckets")
    offers = prices.offers(stocks_of(question, objective), prices.shortlist)
    if not offers:
        raise nothing_serves(question, prices, objective)
    tell(f"looking for pools that serve every bucket ({prices.served_rps:,.0f} requests/s at the very most)")
    if not any(_serves(offer, prices.shortlist, settings) for offer in offers):
        raise not_survived(question, offers[-1], prices, objective, settings)


def _serves(offer: BucketOffer, partitions: Sequence[Partition], settings: AssignmentSettings) -> bool:
    """Whether servers are there for every bucket of a partition; taken for granted where the solver is late."""
    try:
        best_pools(offer, partitions, ObjectiveSettings(), settings)
    except InfeasibleError:
        return False
    except SolverError:
        return True
    return True


def exclusions(prices: BucketPrices) -> Iterator[str]:
    """A line for each GPU type and reason: what its servers serve, or why they serve nothing, in which phases."""
    for item in prices.question.scenario.inventory.items:
        phases: dict[str, list[Phase]] = {}
        for phase in prices.space.serving:
            phases.setdefault(_reason(prices, item, phase), []).append(phase)
        for reason, alike in phases.items():
            yield f"{item.gpu.name} (the inventory has {item.count}) {', '.join(alike)}: {reason}"


def smallest_servers(prices: BucketPrices, phase: Phase) -> dict[str, int]:
    """GPUs of the smallest server that serves all lengths, by GPU type; types that serve nothing are left out."""
    items = prices.question.scenario.inventory.items
    sizes = {item.gpu.name: _serving(prices, item.gpu.name, phase, capped=True) for item in items}
    return {gpu: min(type_sizes) for gpu, type_sizes in sizes.items() if type_sizes}


def _serving(prices: BucketPrices, gpu: str, phase: Phase, *, capped: bool) -> list[int]:
    """GPUs of the servers that serve all lengths, with queues or without."""
    column = prices.column(gpu, phase)
    rates = (column.capped if capped else column.full)[:, _ALL_LENGTHS].tolist()
    return [column.config(row, _ALL_LENGTHS).parallel.devices for row, rate in enumerate(rates) if rate > 0]


def _reason(prices: BucketPrices, item: InventoryItem, phase: Phase) -> str:
    context, engine = prices.context(item.gpu.name), prices.question.scenario.engine
    shapes = server_shapes(context, prices.sizes(item.gpu), lambda _: True)
    if not shapes:
        chosen = "" if prices.question.scenario.search.sizes is SizeSet.WHOLE_NODES else " of the search.sizes chosen"
        return f"no server{chosen} is of {item.count} GPUs or fewer, on equal parts of a node or whole nodes"
    rules = [_refusals(context, phase, shape, engine) for shape in shapes]
    accepted = [shape for shape, broken in zip(shapes, rules, strict=True) if not broken]
    refused = _refused(f"{engine}", rules)
    if not accepted:
        return refused
    if serving := _serving(prices, item.gpu.name, phase, capped=True):
        return f"served, by {min(serving)} GPUs or more"
    return "; ".join(filter(None, (_memory_or_levels(prices, item, phase, accepted), refused)))


def _refusals(context: CostContext, phase: Phase, shape: ParallelConfig, engine: EngineProfile) -> tuple[str, ...]:
    """Of a mixed server: those of either phase, and that it has no stages."""
    both = tuple(sentence for half in halves_of(phase) for sentence in refusals(context, half, shape, engine))
    stages = ("pp must be 1 where servers do both phases",) if phase is Phase.MIXED and shape.pp > 1 else ()
    return (*both, *stages)


def _refused(engine: str, rules: Sequence[tuple[str, ...]]) -> str:
    """The rules that exclude most configurations, in words; empty where none is excluded."""
    counts = Counter(sentence.rpartition(", got ")[0] or sentence for broken in rules for sentence in broken[:1])
    if not counts:
        return ""
    often = [sentence for sentence, _ in counts.most_common(MOST_RULES)]
    refused = sum(counts.values())
    number = f"all {refused}" if refused == len(rules) else f"{refused} of {len(rules)}"
    return f"{engine} refuses {number} configurations: {'; '.join(often)}"


def _memory_or_levels(
    prices: BucketPrices, item: InventoryItem, phase: Phase, accepted: Sequence[ParallelConfig]
) -> str:
    """What keeps configurations that the engine accepts from serving."""
    question = prices.question
    scenario = question.scenario
    many = max(item.count, SOUGHT_NODES * item.gpu.gpus_per_host)
    inventory = Inventory(items=(replace(item, count=many),))
    offered = replace(scenario, inventory=inventory, slo=SloSettings())
    unbounded = BucketPrices(replace(question, scenario=offered), most_buckets=1)
    serving = _serving(unbounded, item.gpu.name, phase, capped=False)
    if any(devices <= item.count for devices in serving):
        return "memory suffices, the service levels are not reached"
    largest = max(shape.devices for shape in accepted)
    enough = f"at least {min(serving)} would do" if serving else f"nor into {many}"
    return (
        f"memory: {scenario.model.weights_gb:.0f} GB of weights and the KV cache do not fit into {largest} "
        f"GPU{'s' * (largest != 1)} of {item.gpu.device_gb:.0f} GB, {enough}"
    )
