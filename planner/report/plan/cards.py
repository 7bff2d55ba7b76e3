"""What serves, as a reader sees it: pools of equal servers behind buckets, or groups of equal islands; their sums."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from planner.domain import BucketPool, Phase, Plan, PlannedIsland, context_tokens
from planner.report.buckets.view import own_buckets, span_label
from planner.report.kit.quantities import counted, span
from planner.report.plan.routing import READABLE_GROUPS, IslandGroup, groups, merged, of_phase


def used_gpus(plan: Plan) -> dict[str, int]:
    """GPUs in islands that serve, by type."""
    counts = {item.gpu.name: 0 for item in plan.scenario.inventory.items}
    for island in plan.islands:
        counts[island.gpu] += island.size if island.phase is not None else 0
    return counts


def gpus_by_phase(plan: Plan) -> dict[Phase, dict[str, int]]:
    """GPUs of islands by phase and type."""
    counts = {phase: dict.fromkeys(plan.fleet, 0) for phase in plan.phases}
    for island in plan.islands:
        if island.phase is not None:
            counts[island.phase][island.gpu] += island.size
    return counts


def most_watts(plan: Plan) -> dict[str, float]:
    """What the fleet's GPUs draw at most by their data sheets, by type (W); hosts and cooling are not among it."""
    return {item.gpu.name: plan.fleet[item.gpu.name] * item.gpu.max_w for item in plan.scenario.inventory.items}


def nodes_of(plan: Plan, islands: Sequence[PlannedIsland], pool: BucketPool | None = None) -> int:
    """Nodes that islands of one GPU type take together: those that they lie on, else as few as can be, copies of the
    model side by side."""
    if plan.placement is not None:
        names = {island.id for island in islands}
        lie_on = {part.node for part in plan.placement.parts if part.island in names}
        if lie_on:
            return len(lie_on)
    copies = [size for island in islands for size in _copies(island, pool)]
    return _fewest_nodes(copies, plan.scenario.inventory.item(islands[0].gpu).gpu.gpus_per_host) if copies else 0


def _copies(island: PlannedIsland, pool: BucketPool | None) -> list[int]:
    """GPUs of each copy of the model."""
    if pool is not None:
        return [pool.server.parallel.devices] * pool.count
    if island.parallel is None:
        return [island.size]
    return [island.parallel.devices] * island.parallel.replicas


def _fewest_nodes(copies: Sequence[int], host: int) -> int:
    """Copies of more than a node have theirs alone; of the rest each goes where it fits best, the largest first."""
    alone = sum(math.ceil(size / host) for size in copies if size > host)
    room: Counter[int] = Counter()
    for size in sorted((size for size in copies if size <= host), reverse=True):
        fitting = min((gpus for gpus in room if gpus >= size), default=None)
        if fitting is None:
            alone, fitting = alone + 1, host
        else:
            room[fitting] -= 1
            room += Counter()  # drops what is 0
        room[fitting - size] += 1
    return alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Equal servers of one GPU type in one phase. `share`: of its bucket's requests (of all, where there are no
    buckets). `prompts`: which of its bucket (tokens). `settings`: columns of engine settings by name."""

    name: str
    phase: Phase
    gpu: str
    servers: int
    sizes: tuple[int, ...]
    gpus: int
    nodes: int
    degrees: str
    share: float
    utilisation: float
    rate_rps: float
    usd_per_hour: float | None
    settings: tuple[tuple[str, str | int | None], ...]
    prompts: str = ""

    @property
    def title(self) -> str:
        """`8 servers of 8 H200`."""
        return f"{counted(self.servers, 'server')} of {span(self.sizes)} {self.gpu}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A bucket of one phase with what serves it; `label` is empty where all prompts come."""

    phase: Phase
    label: str
    probability: float
    cards: tuple[Card, ...]


def lanes(plan: Plan) -> tuple[Lane, ...]:
    """Phase by phase, buckets ascending; within one the largest share first."""
    if plan.form.row.pooled:
        return tuple(
            Lane(
                phase=phase,
                label=bucket.label,
                probability=bucket.probability,
                cards=tuple(_of_pool(plan, pool) for pool in bucket.pools),
            )
            for phase in Phase
            for bucket in own_buckets(plan, phase)
        )
    by_phase = ((phase, of_phase(groups(plan), phase)) for phase in plan.phases)
    return tuple(
        Lane(
            phase=phase,
            label="",
            probability=1.0,
            cards=tuple(_of_group(plan, group) for group in merged(members, READABLE_GROUPS)),
        )
        for phase, members in by_phase
        if members
    )


def cards(plan: Plan) -> tuple[Card, ...]:
    """All of them, equal islands together, however many groups there are."""
    if plan.form.row.pooled:
        return tuple(card for lane in lanes(plan) for card in lane.cards)
    return tuple(_of_group(plan, group) for phase in plan.phases for group in of_phase(groups(plan), phase))


def _of_pool(plan: Plan, pool: BucketPool) -> Card:
    island = next(island for island in plan.islands if island.id == pool.island)
    server = pool.server
    tokens = server.tokens_per_step or None
    return Card(
        name=pool.island,
        phase=pool.phase,
        gpu=pool.gpu,
        servers=pool.count,
        sizes=(server.parallel.devices,),
        gpus=pool.gpus,
        nodes=nodes_of(plan, [island], pool),
        degrees=_degrees(island),
        share=pool.share,
        utilisation=island.utilisation,
        rate_rps=island.rate_rps,
        prompts=span_label(pool.start, pool.end),
        usd_per_hour=_rent(plan, pool.gpu, pool.gpus),
        settings=(
            *_parallel(island),
            ("Tokens a step", tokens),
            ("Batch", server.batch_size),
            ("Overlap", "yes" if server.overlapped else "no"),
            *((("Drafted a step", plan.outlook.drafted_by(pool.island) or None),) if plan.outlook.drafts else ()),
            ("Context (tokens)", context_tokens(plan.scenario, island)),
            *((("Most on a node", pool.per_node or None),) if _spreads(plan) else ()),
        ),
    )


def _spreads(plan: Plan) -> bool:
    """Whether servers of some pool are spread: then the cards of all tell, as they become rows of one table."""
    return any(pool.per_node for pool in plan.outlook.pools)


def _of_group(plan: Plan, group: IslandGroup) -> Card:
    island = group.islands[0]
    assert group.phase is not None
    copies = sum(member.parallel.replicas if member.parallel else 1 for member in group.islands)
    alike = len({member.parallel for member in group.islands}) == 1
    return Card(
        name=_names(group),
        phase=group.phase,
        gpu=group.gpu,
        servers=copies,
        sizes=tuple(member.parallel.devices for member in group.islands if member.parallel),
        gpus=group.gpus,
        nodes=nodes_of(plan, group.islands),
        degrees=_degrees(island) if alike else "several configurations",
        share=group.rate_rps / plan.throughput_rps if plan.throughput_rps > 0 else 0.0,
        utilisation=max(member.utilisation for member in group.islands),
        rate_rps=group.rate_rps,
        usd_per_hour=_rent(plan, group.gpu, group.gpus),
        settings=(
            *(_parallel(island) if alike else (("TP", None), ("DP", None), ("PP", None))),
            ("Islands", len(group.islands)),
            ("Batch", span(member.batch_size for member in group.islands)),
            ("Longest prompt", span(member.longest_prompt for member in group.islands)),
        ),
    )


def _names(group: IslandGroup) -> str:
    first, count = group.islands[0].id, len(group.islands)
    return first if count == 1 else f"{first} and {count - 1:,} more"


def _parallel(island: PlannedIsland) -> tuple[tuple[str, int | None], ...]:
    parallel = island.parallel
    return (
        ("TP", parallel.tp if parallel else None),
        ("DP", parallel.dp if parallel else None),
        ("PP", parallel.pp if parallel else None),
    )


def _degrees(island: PlannedIsland) -> str:
    parallel = island.parallel
    if parallel is None:
        return ""
    return f"TP{parallel.tp} DP{parallel.dp}" + (f" PP{parallel.pp}" if parallel.pp > 1 else "")


def _rent(plan: Plan, gpu: str, gpus: int) -> float | None:
    inventory = plan.scenario.inventory
    return None if gpu in inventory.without_price else gpus * inventory.item(gpu).rent_usd_per_gpu_hour
