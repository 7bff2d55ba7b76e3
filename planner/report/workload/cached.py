"""What a plan's pools find of their prompts in caches: in device memory and in the tiers below it."""

from planner.domain import Plan, PlannedIsland
from planner.domain.serving.caches.tiers import TIER_NAMES, TierOutlook, TierSize
from planner.report.kit.quantities import percent, significant
from planner.report.kit.tables import Column, table_of
from planner.report.kit.tree import Block, DataTable, Section, paragraphs, section
from planner.units import SECONDS_PER_HOUR

_NAMES = {"host": "host memory", "ssd": "SSDs", "remote": "the store"}
_MILLION = 1e6


def cached_section(plan: Plan) -> Section:
    """Hits by pool and tier, what they save, and the sizes that were planned for; of no blocks without tiers."""
    outlook = plan.outlook.tiers
    if outlook is None:
        return section("cached", "What is already cached")
    blocks: list[Block] = [*paragraphs(_saved(plan))]
    if outlook.hits:
        blocks.append(_hits(plan, outlook))
    if outlook.sizes:
        blocks += [_sizes(plan, outlook), *paragraphs(_worth(plan, outlook))]
    return section("cached", "What is already cached", *blocks)


def _saved(plan: Plan) -> str:
    """Tokens that nobody computes, and what they would cost at the plan's price of a token."""
    taking_in = [island for island in plan.islands if island.cached_share is not None]
    served = sum(island.rate_rps for island in taking_in)
    if not served:
        return ""
    share = sum((island.cached_share or 0.0) * island.rate_rps for island in taking_in) / served
    tokens = share * plan.scenario.workload.mean_input_tokens * plan.throughput_rps
    words = f"{percent(share)} of the prompts' tokens are found: {significant(tokens)} tokens/s need not be computed"
    if plan.priced and plan.price_usd_per_hour > 0:
        worth = tokens * SECONDS_PER_HOUR * plan.price_usd_per_million_tokens / _MILLION
        words += f", which at the plan's price of a token are {significant(worth)} USD/hour"
    return f"{words}."


def _hits(plan: Plan, outlook: TierOutlook) -> DataTable:
    """A row for each pool that takes prompts in."""
    rows = [island for island in plan.islands if island.cached_share is not None]
    tiers = [name for name in TIER_NAMES if any(row.tier == name for row in outlook.hits)]
    read = {(row.island, row.tier): row for row in outlook.hits}

    def from_tier(island: str, tier: str) -> float:
        row = read.get((island, tier))
        return row.share if row else 0.0

    def of_tier(tier: str) -> Column[PlannedIsland]:
        return Column(_NAMES[tier].capitalize(), lambda row: from_tier(row.id, tier), percent)

    def of_device(row: PlannedIsland) -> float:
        return max(0.0, (row.cached_share or 0.0) - sum(from_tier(row.id, tier) for tier in tiers))

    columns: list[Column[PlannedIsland]] = [
        Column("Pool", lambda row: row.id),
        Column("Device memory", of_device, percent),
        *map(of_tier, tiers),
        Column("Computed", lambda row: 1 - (row.cached_share or 0.0), percent),
        Column("GB/s a GPU reads", lambda row: sum(h.gb_per_s_per_gpu for h in outlook.hits if h.island == row.id)),
    ]
    return table_of(columns, rows).block("Where the tokens of each pool's prompts are found.", "plan.json")


def _sizes(plan: Plan, outlook: TierOutlook) -> DataTable:
    assert plan.scenario.tiers is not None, "sizes are of tiers"
    chosen, unit = plan.scenario.tiers.host_gb_per_node, plan.scenario.objective.kind.row.unit
    columns: list[Column[TierSize]] = [
        Column("Host memory (GB a node)", lambda row: row.host_gb_per_node, significant),
        Column(unit[:1].upper() + unit[1:], lambda row: row.value, significant),
        Column("Bound", lambda row: row.bound, significant),
        Column("", lambda row: "the plan" if row.host_gb_per_node == chosen else row.why),
    ]
    caption = "Sizes of host memory, each with pools of its own; rents include the memory's."
    return table_of(columns, outlook.sizes).block(caption, "plan.json")


def _worth(plan: Plan, outlook: TierOutlook) -> str:
    """One more terabyte on one node beside one more GPU, where both are requests/s."""
    if not plan.scenario.objective.kind.row.plain or plan.scenario.objective.rents:
        return ""
    nodes = sum(count / plan.scenario.inventory.item(gpu).gpu.gpus_per_host for gpu, count in plan.fleet.items())
    steps = [f"{significant(worth / nodes)} from {significant(size)} GB on" for size, worth in outlook.worth_per_tb]
    gpus = [
        f"{significant(worth.more_node_rps / worth.gpus_per_node)} ({worth.gpu})"
        for worth in (plan.sensitivity.gpus if plan.sensitivity else ())
    ]
    if not steps:
        return ""
    beside = f", one more GPU {' or '.join(gpus)}" if gpus else ""
    return f"One more terabyte of host memory on one node adds, in requests/s, {', '.join(steps)}{beside}."
