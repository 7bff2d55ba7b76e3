"""The plan: islands with their duties, the routing table, and how it was found."""

from dataclasses import dataclass
from typing import Annotated

from planner.domain.efficiency import Band, Origin, RateBand
from planner.domain.explanations import Sensitivity
from planner.domain.keys import Bounds, Items, Key, Mapped, OneOf
from planner.domain.layout import PHASES, ParallelConfig, Phase, Reach
from planner.domain.objective import Certificate
from planner.domain.placement import Placement
from planner.domain.scenario import Scenario
from planner.domain.search_record import SearchRecord
from planner.domain.service import Service
from planner.domain.serving.cost import CostMode
from planner.domain.serving.routing import RoutingForm
from planner.domain.serving.server import BucketPlan

_Amount = Annotated[float, Bounds(low=0)]
_Share = Annotated[float, Bounds(low=0, high=1)]
_Count = Annotated[int, Bounds(low=0)]
_Start = Annotated[int, Bounds(low=0), Key("tokens, inclusive")]
_End = Annotated[int, Bounds(low=1), Key("tokens, exclusive")]

SPARE_NOTE = "spare: the plan's rate needs no more of this class"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedIsland:
    """One island of the plan. `phase` is None for an island that serves nothing; its `batch_size` is 0."""

    id: str
    gpu: str
    size: Annotated[int, Bounds(low=1), Key("GPUs")]
    phase: Phase | None
    parallel: ParallelConfig | None
    batch_size: Annotated[
        _Count,
        Key("prompts per rank and step (prefill) or sequences per attention group (decode), the largest of its ranges"),
    ]
    longest_prompt: Annotated[_Count, Key("tokens")]
    rate_rps: Annotated[_Amount, Key("requests/s served at the plan's throughput")]
    utilisation: Annotated[_Amount, Key("busy share of its time at the plan's throughput")]
    price_usd_per_hour: _Amount
    note: Annotated[str, Key("why it serves nothing, or what of it found no room")] = ""
    reach: Annotated[Reach | None, Key("where the replicas of a placed island lie; of the worst one", sparse=True)] = (
        None
    )
    tokens_per_step: Annotated[
        _Count, Key("token budget of a prefill step of a rank; 0: the scenario's", unit="tokens", sparse=True)
    ] = 0
    overlapped: Annotated[
        bool | None,
        Key("whether two micro-batches hide communication; else by the scenario's settings", sparse=True),
    ] = None
    cached_share: Annotated[
        float | None,
        Bounds(low=0, below=1),
        Key("of its prompts' tokens in the cache; of prefill, unless cost.kv_cache_rate is a number", sparse=True),
    ] = None
    context: Annotated[
        _Count, Key("that its engines run with already, where its prompts need less", unit="tokens", sparse=True)
    ] = 0
    drafted: Annotated[
        int | None,
        Bounds(low=0),
        Key("a step, where a pool chose; else as the scenario says", unit="tokens", sparse=True),
    ] = None
    lane: Annotated[
        str, Key("of engines of another version or checkpoint, which hand caches to each other alone", sparse=True)
    ] = ""

    @classmethod
    def idle(cls, name: str, gpu: str, size: int, price_usd_per_hour: float, note: str) -> "PlannedIsland":
        """An island that serves nothing; `note` says why."""
        return cls(
            id=name,
            gpu=gpu,
            size=size,
            phase=None,
            parallel=None,
            batch_size=0,
            longest_prompt=0,
            rate_rps=0.0,
            utilisation=0.0,
            price_usd_per_hour=price_usd_per_hour,
            note=note,
        )


def context_tokens(scenario: Scenario, island: PlannedIsland) -> int:
    """Prompt and answer that the island's engines are started for (tokens)."""
    needed = min(island.longest_prompt + scenario.workload.max_output_tokens, scenario.model.max_context)
    return max(needed, island.context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One cell of the routing table: `share` of the requests of a range go to an island in a phase."""

    phase: Phase
    range_start: _Start
    range_end: _End
    probability: Annotated[_Share, Key("of a request to fall into the range")]
    island: str
    share: Annotated[_Share, Key("of the range's requests that go to the island")]
    rate_rps: Annotated[_Amount, Key("requests/s at the plan's throughput")]
    assigned_rps: Annotated[_Amount, Key("requests/s that the time given to the range would serve")]
    capacity_rps: Annotated[float, Bounds(above=0), Key("requests/s if the island did nothing else")]
    batch_size: _Count
    step_ms: Annotated[_Amount, Key("one prefill step, or one output token")]


@dataclass(frozen=True, slots=True, kw_only=True)
class KvFlow:
    """What one prefill island hands to one decode island, of prompts of `range_start` <= tokens < `range_end`."""

    prefill: Annotated[str, Key("id of the island")]
    decode: Annotated[str, Key("id of the island")]
    range_start: _Start
    range_end: _End
    rate_rps: Annotated[_Amount, Key("requests/s at the plan's throughput")]
    gb_s: Annotated[_Amount, Key("KV cache that it carries (GB/s, 10^9 bytes)")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How firm the rates of one GPU type in one phase are, and why."""

    gpu: str
    phase: Phase
    origin: Origin
    source: str
    band: Annotated[Band | None, Key("how far measured rates were off predicted ones", sparse=True)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What made the plan: versions, mode, seed, inputs; `calibration` and `estimates`: where its rates come from."""

    planner_version: Annotated[str, Key(name="planner")]
    python_version: Annotated[str, Key(name="python")]
    libraries: Annotated[tuple[tuple[str, str], ...], Mapped()]
    solver: str
    seed: _Count
    cost_mode: Annotated[str, OneOf(tuple(mode.value for mode in CostMode))]
    input_hashes: Annotated[tuple[tuple[str, str], ...], Key("rows of file name and SHA-256", name="inputs_sha256")]
    calibration: Annotated[str, Key("name of the efficiency factors", added=True)] = ""
    estimates: Annotated[
        tuple[Estimate, ...], Key("how firm the rates of each GPU type and phase are", added=True)
    ] = ()
    unverified: Annotated[
        bool, Key("the plan, or the one that was placed, was read from a file without digests", sparse=True)
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The planner's answer to one scenario. With a `placement` the rates are those of the islands where they lie.

    `rate_band`: how far the throughput may be off; None in reference mode, of a profile's times, and of older plans.
    """

    scenario: Scenario
    throughput_rps: Annotated[_Amount, Key("requests/s at which the whole mix is served in both phases")]
    prefill_rps: Annotated[_Amount, Key("rate at which prefill alone could serve the mix")]
    decode_rps: Annotated[_Amount, Key("rate at which decode alone could serve the mix")]
    objective_rps: Annotated[_Amount, Key("what the formulation reports for itself")]
    deviation_rps: _Amount
    optimal: Annotated[bool, Key("false: the solver stopped at its work limit")]
    islands: tuple[PlannedIsland, ...]
    routing: Annotated[tuple[Route, ...], Items(least=1)]
    search: SearchRecord
    provenance: Provenance
    certificate: Certificate | None = None
    service: Service | None = None
    exact_rps: Annotated[
        float | None,
        Bounds(low=0),
        Key("throughput recomputed at every exact prompt length with the same routing", added=True),
    ] = None
    sensitivity: Sensitivity | None = None
    flows: Annotated[
        tuple[KvFlow, ...],
        Key("KV caches that a prefill island hands to a decode island, where the scenario has a network", added=True),
    ] = ()
    network_bottleneck: Annotated[
        str, Key("part of the network that holds the rate back (empty: none)", added=True)
    ] = ""
    placement: Placement | None = None
    rate_band: RateBand | None = None
    buckets: BucketPlan | None = None

    @property
    def form(self) -> RoutingForm:
        """How its requests find their island."""
        if self.buckets is not None:
            return RoutingForm.BUCKETS
        return RoutingForm.SETS if self.scenario.routing.form is RoutingForm.SETS else RoutingForm.TABLE

    @property
    def outlook(self) -> BucketPlan:
        """What it says beyond its islands and routes; where it has no pools, what it promises."""
        return self.buckets or BucketPlan.without_pools(
            self.throughput_rps * self.scenario.routing.margin, levels_set=self.scenario.slo.bounds_anything
        )

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The two halves, and both at once where some island does that."""
        mixed = any(island.phase is Phase.MIXED for island in self.islands)
        return tuple(Phase) if mixed else PHASES

    def per_node(self, island: str) -> int:
        """Most servers of an island that a node may have, where losses of nodes count on it (0: as many as fit)."""
        spreads = (
            pool.spread(self.scenario.inventory.item(pool.gpu).gpu.gpus_per_host)
            for pool in self.outlook.pools
            if pool.island == island
        )
        return next(spreads, 0)

    @property
    def loaded_w(self) -> float | None:
        """W of the cluster's nodes with the plan's GPUs at their load, other pods' at full draw; None on no nodes.

        A GPU draws between rest and full in proportion to the busy share of its time: the usual linear model (Fan,
        Weber and Barroso, Power provisioning for a warehouse-sized computer, ISCA 2007).
        """
        if self.placement is None:
            return None
        swing_w = {item.gpu.name: item.gpu.max_w - item.gpu.idle_w for item in self.scenario.inventory.items}
        gpus = {site.island: site.gpus for site in self.placement.sites}
        idle = (
            gpus.get(island.id, 0) * swing_w[island.gpu] * max(0.0, 1 - island.utilisation) for island in self.islands
        )
        return self.placement.after.watts - sum(idle)

    @property
    def fleet(self) -> dict[str, int]:
        """GPUs that are paid for, by type: the inventory as it stands, or those rented where the number was chosen."""
        if not self.scenario.objective.rents:
            return {item.gpu.name: item.count for item in self.scenario.inventory.items}
        rented = {item.gpu.name: 0 for item in self.scenario.inventory.items}
        for island in self.islands:
            rented[island.gpu] += island.size
        return rented

    @property
    def priced(self) -> bool:
        """Whether every GPU type that is paid for has a price; else the sums are of the others alone."""
        return not any(self.fleet[gpu] for gpu in self.scenario.inventory.without_price)

    @property
    def price_usd_per_hour(self) -> float:
        """Rent of every GPU of the fleet, used or not."""
        return sum(i.rent_usd_per_gpu_hour * self.fleet[i.gpu.name] for i in self.scenario.inventory.items)

    @property
    def tokens_per_s(self) -> float:
        """Input and output tokens per second at the plan's throughput."""
        workload = self.scenario.workload
        return self.throughput_rps * (workload.mean_input_tokens + workload.mean_output_tokens)

    @property
    def output_tokens_per_s(self) -> float:
        """Output tokens per second at the plan's throughput."""
        return self.throughput_rps * self.scenario.workload.mean_output_tokens

    @property
    def price_usd_per_million_tokens(self) -> float:
        """Rent divided by input and output tokens served (USD per 10^6 tokens)."""
        return self.price_usd_per_hour / (self.tokens_per_s * 3600.0) * 1e6
