"""The plan's serving islands as the export sees them: grouped into pods, named, ready for an engine.

symbol     meaning                                   source
devices    GPUs of one copy of the model             ParallelConfig.devices = pp x tp x dp
groups     copies of the model in the island         ParallelConfig.replicas
gpus       GPUs of one pod                           largest divisor of devices that a host holds, that no
                                                     tensor-parallel group and no stage straddles, and that fills
                                                     what the placement, if any, gives each copy on a node
pods       pods of one group                         devices / gpus

GPUs that a plan's placement gives each copy of an island on a node, as far as they bound the size of a pod.

symbol    meaning                                                  source
share     GPUs of one copy on one node                             PlacedPart.gpu_indices
aligned   the part of a share in one NUMA node                     NodeGpu.numa

A pod lies on one node, so pods of `gpus` GPUs can lie where the placement has the island if `gpus` divides every share.
Where the kubelet holds pods to NUMA nodes (`restricted`, `single-numa-node`) and `gpus` fit one, it admits a pod only
inside one, so that `gpus` has to divide the aligned parts; larger pods must span as few NUMA nodes as on an empty node,
and may span none under `single-numa-node`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypedDict

from planner.domain import (
    CostMode,
    EngineProfile,
    GpuSpec,
    ModelSpec,
    ParallelConfig,
    Phase,
    PlacedPart,
    Plan,
    PlannedIsland,
    Qos,
    Route,
    context_tokens,
    halves_of,
)
from planner.domain.engine import ExchangeSite, pod_sizes
from planner.domain.serving.caches.tiers import CacheTier
from planner.errors import ExportError, InconsistentPlanError
from planner.export.objects.names import island_slugs, weights_location, workload_name
from planner.export.partners import clusters, partners
from planner.files import catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """`gpus` of a copy on a node: `by_numa` how many in each NUMA node; `numa_gpus`: those of the node's largest one.

    Both are empty or 0 where nothing keeps pods on NUMA nodes. `one_numa`: no pod may span two.
    """

    gpus: int
    by_numa: tuple[int, ...] = ()
    numa_gpus: int = 0
    one_numa: bool = False

    def takes(self, gpus: int) -> bool:
        """Whether pods of so many GPUs fill the share."""
        if gpus <= self.numa_gpus:
            return all(part % gpus == 0 for part in self.by_numa)
        if self.one_numa or self.gpus % gpus:
            return False
        spanned = -(-gpus // self.numa_gpus) if self.numa_gpus else len(self.by_numa)
        return len(self.by_numa) <= spanned * (self.gpus // gpus)


class NodeShares:
    """The shares of every island of a plan."""

    def __init__(self, plan: Plan) -> None:
        parts = plan.placement.parts if plan.placement else ()
        self._settings = plan.scenario.placement
        self._phases = {island.id: island.phase for island in plan.islands}
        self._parts: dict[str, list[PlacedPart]] = {}
        for part in parts:
            self._parts.setdefault(part.island, []).append(part)
        self._numa = _numa_nodes(plan, {part.node for part in parts})

    def of(self, island_id: str) -> tuple[NodeShare, ...]:
        """The shares of an island's copies, in the placement's order; empty where it lies on no nodes."""
        phase = self._phases[island_id]
        qos = self._settings.qos(phase) if phase else Qos.NONE
        return tuple(
            _share(part, self._numa.get(part.node, {}) if qos.binds else {}, qos)
            for part in self._parts.get(island_id, ())
        )


def _share(part: PlacedPart, numa_of_gpu: Mapping[int, int], qos: Qos) -> NodeShare:
    by_numa = Counter(numa_of_gpu[index] for index in part.gpu_indices if index in numa_of_gpu)
    return NodeShare(
        gpus=len(part.gpu_indices),
        by_numa=tuple(by_numa[key] for key in sorted(by_numa)),
        numa_gpus=max(Counter(numa_of_gpu.values()).values(), default=0),
        one_numa=qos is Qos.SINGLE_NUMA and bool(numa_of_gpu),
    )


def _numa_nodes(plan: Plan, names: Set[str]) -> dict[str, dict[int, int]]:
    """Node -> GPU index -> NUMA node, of the nodes with these names."""
    nodes = plan.scenario.cluster.nodes if plan.scenario.cluster else ()
    return {node.name: {gpu.index: gpu.numa for gpu in node.gpus} for node in nodes if node.name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGrouping:
    """`groups` copies of `pods` pods of `gpus_per_pod` GPUs each."""

    groups: int
    pods: int
    gpus_per_pod: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingIsland:
    """One island that serves a phase, or both. `name` is its object name, `slug` its part of file names and labels.

    `batch_size` counts sequences per attention group (decode, mixed) or prompts per attention group and step
    (prefill), those of all pipeline stages together; `max_model_len` and `max_tokens_per_step` are tokens;
    `weights` is what the engine loads; `placed`: the plan says on which nodes. What the rates rest on: `overlapped`
    (two micro-batches hide the experts' communication), `redundant_experts` asked for, `draft_tokens` a step, by the
    model's own layers or by what lies at `draft_uri`; `images`: prompts hold some. `partners`: of the islands that it
    hands KV caches to or takes them from; `exchange_gpus`: the GPU types of all that hang together by that, its own
    too. `engine`: that the plan was priced for. `per_node`: copies that may share a node at most, where losses of nodes
    count on it (0: as many as fit). `by_rank`: each attention rank takes requests at a port of its own, in every pod of
    a copy; else the leader takes those of all, `by_server` says why. `served_names`: what requests may call the model,
    as its engine would by itself first (empty: that alone). `tiers`: below the device memory of one of its GPUs; none
    where it takes no prompts. `store`: where the remote one answers. `events_port`: where a router hears what it holds.
    """

    id: str
    slug: str
    name: str
    phase: Phase
    gpu: GpuSpec
    size: int
    parallel: ParallelConfig
    grouping: PodGrouping
    model: ModelSpec
    weights: str
    batch_size: int
    max_model_len: int
    max_tokens_per_step: int
    rate_rps: float
    utilisation: float
    routes: tuple[Route, ...]
    overlapped: bool = False
    redundant_experts: int = 0
    draft_tokens: int = 0
    draft_uri: str = ""
    images: bool = False
    placed: bool = False
    partners: tuple[ParallelConfig, ...] = ()
    exchange_gpus: tuple[GpuSpec, ...] = ()
    engine: EngineProfile = field(default_factory=EngineProfile)
    per_node: int = 0
    by_rank: bool = False
    by_server: str = ""
    served_names: tuple[str, ...] = ()
    tiers: tuple[CacheTier, ...] = ()
    store: str = ""
    events_port: int = 0

    @property
    def local_ranks(self) -> int:
        """Attention ranks of a pod; 1 where a rank fills it, or several."""
        return max(1, self.grouping.gpus_per_pod // (self.parallel.tp * self.parallel.pp))

    @property
    def servers(self) -> int:
        """Copies of the model, or attention ranks: what takes requests by itself."""
        return self.grouping.groups * (self.parallel.dp if self.by_rank else 1)

    @property
    def mixed(self) -> bool:
        """Whether it does both phases, so that no KV cache leaves or reaches it."""
        return self.phase is Phase.MIXED

    @property
    def takes_prompts(self) -> bool:
        """Whether its steps take prompts in, up to `max_tokens_per_step`."""
        return Phase.PREFILL in halves_of(self.phase)

    @property
    def decode_tokens(self) -> int:
        """Tokens that an attention group takes through the model in a decode step of one micro-batch per stage."""
        return -(-self.batch_size // self.parallel.pp) * (1 + self.draft_tokens)

    def tier_gb(self, name: str) -> float:
        """What a tier holds of a GPU's caches (GB); 0 where there is none."""
        return next((tier.gb_per_gpu for tier in self.tiers if tier.name == name), 0.0)

    @property
    def exchange_site(self) -> ExchangeSite:
        """Where its experts exchange tokens."""
        return ExchangeSite(
            gpu=self.gpu,
            model=self.model,
            phase=self.phase,
            parallel=self.parallel,
            gpus_per_pod=self.grouping.gpus_per_pod,
            decode_tokens=self.decode_tokens,
            batch_size=self.batch_size,
        )

    def profile(self, engine: str) -> EngineProfile:
        """What `engine` accepts: the plan's own version; the standard one where the plan names another engine or
        none."""
        return self.engine if self.engine.name == engine else catalog.engine(engine)


def group_pods(parallel: ParallelConfig, gpus_per_host: int, shares: Sequence[NodeShare] = ()) -> PodGrouping:
    """Split each copy of `parallel` into equal pods; exact, so that GPUs multiply out to the island's size.

    `shares`: where the placement has the copies; pods of one GPU fill any.
    """
    sizes = pod_sizes(parallel, gpus_per_host)
    gpus = next(size for size in sizes if all(share.takes(size) for share in shares))
    return PodGrouping(groups=parallel.replicas, pods=parallel.devices // gpus, gpus_per_pod=gpus)


def nests(unit: int, gpus: int) -> bool:
    """Whether units of so many GPUs fill pods of `gpus`, or pods fill units."""
    return unit % gpus == 0 or gpus % unit == 0


def serving_islands(plan: Plan, plan_name: str) -> tuple[ServingIsland, ...]:
    """The islands of `plan` with a phase, in the plan's order.

    Raises:
        ExportError: no island serves, or attention heads do not divide over a tensor-parallel group.
        InconsistentPlanError: an island's parallel configuration does not fill it, or a route names no such
            island.
        InputError: names or the model's location cannot go into a manifest.
    """
    serving = [island for island in plan.islands if island.phase is not None]
    if not serving:
        raise ExportError(
            f"Plan {plan.scenario.name}: no island serves a phase, so there is nothing to export.",
            hint="Plan again: a plan that serves has an island for each phase.",
        )
    _check_routes(plan)
    slugs = island_slugs(island.id for island in serving)
    pairs = partners({island.id: island.phase for island in plan.islands if island.phase is not None}, plan.routing)
    together, shares, exchange = clusters(pairs), NodeShares(plan), _Exchanges(plan)
    routes: dict[str, list[Route]] = {}
    for route in plan.routing:
        routes.setdefault(route.island, []).append(route)
    return tuple(
        _serving_island(
            plan,
            island,
            workload_name(plan_name, slugs[island.id]),
            slugs[island.id],
            tuple(routes.get(island.id, ())),
            shares.of(island.id),
            exchange.of(pairs[island.id], together[island.id]),
        )
        for island in serving
    )


class _Exchange(TypedDict):
    partners: tuple[ParallelConfig, ...]
    exchange_gpus: tuple[GpuSpec, ...]


class _Exchanges:
    """Who exchanges KV caches with whom; many islands do so with the same others."""

    def __init__(self, plan: Plan) -> None:
        self._inventory = plan.scenario.inventory
        self._islands = {island.id: island for island in plan.islands}
        self._exchanges: dict[tuple[tuple[str, ...], frozenset[str]], _Exchange] = {}

    def of(self, others: tuple[str, ...], together: frozenset[str]) -> _Exchange:
        """`others`: whom an island shares a length with; `together`: all that hang together by that."""
        if (others, together) not in self._exchanges:
            shapes = (self._islands[other].parallel for other in others)
            gpus = sorted({self._islands[member].gpu for member in together})
            self._exchanges[others, together] = {
                "partners": tuple(shape for shape in shapes if shape is not None),
                "exchange_gpus": tuple(self._inventory.item(name).gpu for name in gpus),
            }
        return self._exchanges[others, together]


def _serving_island(
    plan: Plan,
    island: PlannedIsland,
    name: str,
    slug: str,
    routes: tuple[Route, ...],
    shares: Sequence[NodeShare],
    exchange: _Exchange,
) -> ServingIsland:
    scenario = plan.scenario
    gpu = scenario.inventory.item(island.gpu).gpu
    parallel = _checked_parallel(island, scenario.model)
    assert island.phase is not None
    return ServingIsland(
        id=island.id,
        slug=slug,
        name=name,
        phase=island.phase,
        gpu=gpu,
        size=island.size,
        parallel=parallel,
        grouping=group_pods(parallel, gpu.gpus_per_host, shares),
        placed=bool(shares),
        model=scenario.model,
        weights=weights_location(scenario.model.name, scenario.model.uri),
        batch_size=max(1, island.batch_size),
        max_model_len=context_tokens(scenario, island),
        max_tokens_per_step=island.tokens_per_step or scenario.cost.max_tokens_per_step,
        rate_rps=island.rate_rps,
        utilisation=island.utilisation,
        routes=routes,
        images=scenario.cost.images_per_request > 0,
        engine=scenario.engine,
        per_node=plan.per_node(island.id),
        tiers=island_tiers(plan, island),
        **exchange,
        **_assumptions(plan, island, parallel),
    )


def island_tiers(plan: Plan, island: PlannedIsland) -> tuple[CacheTier, ...]:
    """Those of islands that take prompts in: what decodes alone begins with the cache that it is sent."""
    settings, items = plan.scenario.tiers, plan.scenario.inventory
    if settings is None or island.phase is Phase.DECODE:
        return ()
    taking = [other.size for other in plan.islands if other.phase not in (None, Phase.DECODE)]
    return settings.of(items.item(island.gpu).gpu, sum(taking))


class _Assumptions(TypedDict, total=False):
    overlapped: bool
    redundant_experts: int
    draft_tokens: int
    draft_uri: str


def _assumptions(plan: Plan, island: PlannedIsland, parallel: ParallelConfig) -> _Assumptions:
    """Reference mode heeds none of these settings."""
    cost, experts = plan.scenario.cost, plan.scenario.model.experts
    if cost.mode is CostMode.REFERENCE:
        return {}
    two_batches = cost.two_micro_batches if island.overlapped is None else island.overlapped
    draft = cost.drafting.draft
    return {
        "overlapped": bool(two_batches and experts and parallel.stage_devices > 1),
        "redundant_experts": cost.redundant_experts if experts else 0,
        "draft_tokens": _drafted(plan, island),
        "draft_uri": draft.uri if draft else "",
    }


def _drafted(plan: Plan, island: PlannedIsland) -> int:
    """Tokens a step; prefill drafts as those do that decode its prompts, whose caches it hands over."""
    decoding = [other for other in plan.islands if other.phase is Phase.DECODE]
    asked = decoding if island.phase is Phase.PREFILL and decoding else [island]
    return max(plan.scenario.cost.with_drafted(other.drafted).drafting.drafted for other in asked)


def _checked_parallel(island: PlannedIsland, model: ModelSpec) -> ParallelConfig:
    parallel = island.parallel
    if parallel is None or parallel.size != island.size:
        raise InconsistentPlanError(
            f"Island {island.id}, parallel: replicas x pp x dp x tp must be its {island.size} GPUs, got {parallel}."
        )
    if model.heads % parallel.tp:
        raise ExportError(
            f"Island {island.id}, parallel.tp: must divide the model's {model.heads} "
            f"attention heads, got {parallel.tp}.",
            hint="No engine splits a head; choose another island size.",
        )
    if model.experts is None and parallel.dp > 1:
        raise ExportError(
            f"Island {island.id}, parallel.dp: must be 1 for {model.name}, which has no experts, got {parallel.dp}.",
            hint="Plan again: further groups of a dense model are replicas.",
        )
    return parallel


def _check_routes(plan: Plan) -> None:
    phases = {island.id: island.phase for island in plan.islands if island.phase is not None}
    for route in plan.routing:
        phase = phases.get(route.island)
        if phase is None or route.phase not in halves_of(phase):
            raise InconsistentPlanError(
                f"Routing table, {route.phase} {route.range_start}-{route.range_end - 1}: "
                f"must name an island that serves {route.phase}, got {route.island!r}."
            )
