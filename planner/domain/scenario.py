"""A planning question, with every name already resolved to a record."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from planner.domain.cluster import Cluster
from planner.domain.efficiency import Calibration
from planner.domain.keys import Bounds, Key, OneOf
from planner.domain.layout import Inventory, Layout, Reach
from planner.domain.measurement import Measurement
from planner.domain.model import ModelSpec
from planner.domain.network import NetworkSettings
from planner.domain.objective import ObjectiveSettings
from planner.domain.placement import PlacementSettings
from planner.domain.slo import SloSettings
from planner.domain.workload import LengthProfile

FEWEST_FAILURES = 8  # fewer do not end a search


class CostMode(StrEnum):
    """`default`: physical rates, memory checked, defects mended. `reference`: Shallowsim and the paper."""

    DEFAULT = "default"
    REFERENCE = "reference"


class Formulation(StrEnum):
    """Inner problem: the rate of the whole mix, or the paper's throughput less weighted deviation."""

    MAX_RATE = "max_rate"
    DEVIATION = "deviation"


class SearchMethod(StrEnum):
    """How the outer loop comes by layouts.

    `divider`, `direct`: Bayesian optimisation over that encoding. `random`, `sobol`, `grid`, `genetic`: baselines over
    `SearchSettings.encoding`. `exact`: the layout is solved for. `auto`: solved for where the programme sees all that
    the scenario asks; else Bayesian optimisation, seeded with the programme's answer.
    """

    DIVIDER = "divider"
    DIRECT = "direct"
    RANDOM = "random"
    SOBOL = "sobol"
    GRID = "grid"
    GENETIC = "genetic"
    EXACT = "exact"
    AUTO = "auto"


class Encoding(StrEnum):
    """What a search varies: island count and skew of a type, or the sizes of K slots."""

    DIVIDER = "divider"
    DIRECT = "direct"


class WarmStart(StrEnum):
    """Layouts to begin with: the layout programme's answer, or its relaxation, rounded."""

    EXACT = "exact"
    RELAXATION = "relaxation"


class Bound(StrEnum):
    """How a plan's bound is found: by the relaxation (milliseconds), or by solving the layout itself (seconds)."""

    FAST = "fast"
    TIGHT = "tight"


class SizeSet(StrEnum):
    """Which island sizes the exact method may form."""

    ALL = "all"
    POWERS_OF_TWO = "powers_of_two"
    WHOLE_NODES = "whole_nodes"


class Surrogate(StrEnum):
    """Model behind Bayesian optimisation: a Gaussian process; a sparse one, fully Bayesian (NUTS); its MAP variant."""

    GP = "gp"
    SAASBO = "saasbo"
    SAASBO_MAP = "saasbo_map"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSettings:
    """`width`: tokens per length range."""

    width: int = 256


class CostSource(StrEnum):
    """Where step times come from: the formulas, or a user's profile."""

    ANALYTIC = "analytic"
    TABULATED = "tabulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSettings:
    """How step times are judged. Reference mode heeds `mode` and `kv_cache_rate` alone.

    `kv_cache_rate`: share of a prompt found in the prefix cache. `max_tokens_per_step`: a rank's prefill budget; longer
    prompts are taken in chunks. `two_micro_batches`: computation hides communication. `balanced_experts`: no expert is
    more popular than another. `redundant_experts`: further copies of experts in every layer. `mtp_tokens`: tokens that
    multi-token prediction drafts a step, each accepted with `mtp_acceptance` if those before were.
    `max_pipeline_stages`: None lets dense models take up to 8, models with experts none. `gpus_per_switch` and
    `cross_switch_bandwidth`: GPUs under one access switch, and what is left of the NIC rate between switches.
    `calibration` stands over the built-in factors; `profile` is what the tabulated source looks up. `reach`: where a
    placed replica lies (None: as compactly as NVLink domains and switches allow).
    """

    mode: CostMode = CostMode.DEFAULT
    kv_cache_rate: float = 0.0
    max_tokens_per_step: int = 16384
    two_micro_batches: bool = True
    balanced_experts: bool = False
    redundant_experts: int = 0
    mtp_tokens: int = 0
    mtp_acceptance: float = 0.8
    max_pipeline_stages: int | None = None
    gpus_per_switch: int = 256
    cross_switch_bandwidth: float = 1 / 1.27
    source: CostSource = CostSource.ANALYTIC
    calibration: Calibration | None = None
    profile: tuple[Measurement, ...] = ()
    reach: Reach | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentSettings:
    """Inner problem and solver. `tau` and `deviation_weight` (M) belong to the deviation formulation alone."""

    formulation: Annotated[Formulation, Key("the rate of the whole mix, or the paper's less weighted deviation")] = (
        Formulation.MAX_RATE
    )
    solver: Annotated[str, OneOf(("highs", "cbc")), Key("solver of the MILPs")] = "highs"
    time_limit_s: Annotated[float, Bounds(above=0), Key("of one solve")] = 20.0
    gap: Annotated[float, Bounds(low=0, below=1), Key("relative, to be proven")] = 1e-4
    tau: Annotated[float, Bounds(low=0, high=1e6), Key("weight of the paper's deviation in rates")] = 0.5
    deviation_weight: Annotated[float, Bounds(low=0, high=1e9), Key("weight of the deviation, M of the paper")] = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Outer search; the defaults are the paper's. `slots` (K per type) belongs to the direct encoding alone.

    Skews lie between `least_skew` (None: -`skew`) and `skew`; they belong to the divider encoding alone.
    `sizes` (a set, or island sizes), `gap` (relative, to be proven) and `time_limit_s` belong to the exact method and
    to a tight `bound`. `warm_start` and `earlier` (layouts of runs before) are judged first. A search ends when more
    than the share `failure_limit` of its evaluations broke off. `timings`: whether a plan tells CPU-seconds.
    """

    method: SearchMethod = SearchMethod.DIVIDER
    encoding: Encoding = Encoding.DIVIDER
    surrogate: Surrogate = Surrogate.GP
    iterations: int = 15
    batch_size: int = 16
    min_island_size: int = 2
    skew: float = 5.0
    least_skew: float | None = None
    slots: int = 8
    seed: int = 0
    processes: int = 1
    sizes: SizeSet | tuple[int, ...] = SizeSet.ALL
    gap: float = 0.002
    time_limit_s: float = 120.0
    bound: Bound = Bound.FAST
    warm_start: tuple[WarmStart, ...] = ()
    earlier: tuple[Layout, ...] = ()
    failure_limit: float = 0.5
    timings: bool = True

    @property
    def encoded(self) -> Encoding:
        """The encoding that the method searches."""
        if self.method in (SearchMethod.DIVIDER, SearchMethod.DIRECT):
            return Encoding(self.method.value)
        return self.encoding

    @property
    def skews(self) -> tuple[float, float]:
        """The least and the largest skew."""
        return -self.skew if self.least_skew is None else self.least_skew, self.skew

    def too_many_failures(self, failed: int, judged: int) -> bool:
        """Whether a search ends for so many evaluations that broke off, of those made so far."""
        return failed >= FEWEST_FAILURES and failed > self.failure_limit * judged

    def slots_too_few(self, inventory: Inventory) -> bool:
        """Whether more slots would give two islands, one a phase, where there can be only one."""
        by_type = [item.count // self.min_island_size for item in inventory.items]
        direct = self.method is not SearchMethod.EXACT and self.encoded is Encoding.DIRECT
        return direct and sum(by_type) > 1 >= sum(min(self.slots, islands) for islands in by_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputHash:
    """A file that the scenario was read from, by name and SHA-256."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Model, workload, inventory and settings. `workload` keeps exact lengths; the pipeline cuts the ranges.

    `network` is None where KV transfer is taken to be free; `cluster` is None where islands are not put on nodes.
    """

    name: str
    model: ModelSpec
    workload: LengthProfile
    inventory: Inventory
    ranges: RangeSettings = field(default_factory=RangeSettings)
    cost: CostSettings = field(default_factory=CostSettings)
    slo: SloSettings = field(default_factory=SloSettings)
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    assignment: AssignmentSettings = field(default_factory=AssignmentSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    inputs: tuple[InputHash, ...] = ()
    network: NetworkSettings | None = None
    cluster: Cluster | None = None
    placement: PlacementSettings = field(default_factory=PlacementSettings)
