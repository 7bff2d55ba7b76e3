"""The plan: islands with their duties, the routing table, and how it was found."""

from dataclasses import dataclass

from planner.domain.efficiency import Origin
from planner.domain.layout import ParallelConfig, Phase, Reach
from planner.domain.objective import Certificate
from planner.domain.placement import Placement
from planner.domain.scenario import Scenario
from planner.domain.search_record import SearchRecord
from planner.domain.sensitivity import Sensitivity
from planner.domain.service import Service

SPARE_NOTE = "spare: the plan's rate needs no more of this class"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedIsland:
    """One island of the plan. `batch_size` is the largest batch of the ranges it serves (0: idle).

    `utilisation` is the busy share of its time at the plan's throughput; `rate_rps` the requests it then serves.
    `phase` is None for an island that serves nothing; `note` says why. `reach`: where a placed island lies.
    """

    id: str
    gpu: str
    size: int
    phase: Phase | None
    parallel: ParallelConfig | None
    batch_size: int
    longest_prompt: int
    rate_rps: float
    utilisation: float
    price_usd_per_hour: float
    note: str = ""
    reach: Reach | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One cell of the routing table: `share` of the requests of a range go to an island in a phase.

    `capacity_rps` is what the island would serve if it did nothing else, `assigned_rps` what the time that it is given
    for the range would serve, `rate_rps` what it serves at the plan's throughput.
    """

    phase: Phase
    range_start: int
    range_end: int
    probability: float
    island: str
    share: float
    rate_rps: float
    assigned_rps: float
    capacity_rps: float
    batch_size: int
    step_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KvFlow:
    """What one prefill island hands to one decode island, of prompts of `range_start` <= tokens < `range_end`.

    `rate_rps` at the plan's throughput; `gb_s` is the KV cache that it carries.
    """

    prefill: str
    decode: str
    range_start: int
    range_end: int
    rate_rps: float
    gb_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How firm the rates of one GPU type in one phase are, and why."""

    gpu: str
    phase: Phase
    origin: Origin
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What made the plan: versions, mode, seed, inputs; `calibration` and `estimates`: where its rates come from.

    `unverified`: the plan, or the one that was placed, was read from a file without digests.
    """

    planner_version: str
    python_version: str
    libraries: tuple[tuple[str, str], ...]
    solver: str
    seed: int
    cost_mode: str
    input_hashes: tuple[tuple[str, str], ...]
    calibration: str = ""
    estimates: tuple[Estimate, ...] = ()
    unverified: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The planner's answer to one scenario.

    `flows` are empty where the scenario has no network; `network_bottleneck` names the part of it that holds the rate
    back (empty: none does). With a `placement` the rates are those of the islands where they lie.
    """

    scenario: Scenario
    throughput_rps: float
    prefill_rps: float
    decode_rps: float
    objective_rps: float
    deviation_rps: float
    optimal: bool
    islands: tuple[PlannedIsland, ...]
    routing: tuple[Route, ...]
    search: SearchRecord
    provenance: Provenance
    certificate: Certificate | None = None
    service: Service | None = None
    exact_rps: float | None = None
    sensitivity: Sensitivity | None = None
    flows: tuple[KvFlow, ...] = ()
    network_bottleneck: str = ""
    placement: Placement | None = None

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
    def price_usd_per_hour(self) -> float:
        """Rent of every GPU of the fleet, used or not."""
        return sum(i.price_usd_per_gpu_hour * self.fleet[i.gpu.name] for i in self.scenario.inventory.items)

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
