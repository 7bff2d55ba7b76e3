"""Why servers of a GPU type do not serve a phase: the engine's rule, the memory or the service level that excludes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.cost import CostContext
from planner.cost.engine_rules import refusals
from planner.cost.serving import server_shapes
from planner.domain import (
    EngineProfile,
    Inventory,
    InventoryItem,
    ParallelConfig,
    Phase,
    SizeSet,
    SloSettings,
    halves_of,
)
from planner.evaluation.buckets.prices import BucketPrices

SOUGHT_NODES = 16  # of one server, where more GPUs than there are would do
MOST_RULES = 2  # told of a GPU type and phase
_WHOLE = 0  # the bucket of all lengths


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
    return {gpu: min(mine) for gpu, mine in sizes.items() if mine}


def _serving(prices: BucketPrices, gpu: str, phase: Phase, *, capped: bool) -> list[int]:
    """GPUs of the servers that serve all lengths, with queues or without."""
    column = prices.column(gpu, phase)
    rates = (column.capped if capped else column.full)[:, _WHOLE].tolist()
    return [column.config(row, _WHOLE).parallel.devices for row, rate in enumerate(rates) if rate > 0]


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
    unbounded = BucketPrices(replace(question, scenario=offered), most=1)
    serving = _serving(unbounded, item.gpu.name, phase, capped=False)
    if any(devices <= item.count for devices in serving):
        return "memory suffices, the service levels are not reached"
    largest = max(shape.devices for shape in accepted)
    enough = f"at least {min(serving)} would do" if serving else f"nor into {many}"
    return (
        f"memory: {scenario.model.weights_gb:.0f} GB of weights and the KV cache do not fit into {largest} "
        f"GPU{'s' * (largest != 1)} of {item.gpu.device_gb:.0f} GB, {enough}"
    )
