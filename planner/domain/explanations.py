"""Why a plan is what it is, and what would change it: every figure computed, none remembered."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.layout import Phase
from planner.domain.serving.server import ServerConfig, SimplerPlan

_Amount = Annotated[float, Bounds(low=0)]
_WorthShare = Annotated[float, Bounds(low=0, high=1.001), Key("of the fleet's worth by the shadow prices")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWorth:
    """What GPUs of one type are worth, as a change of the rate (requests/s) with the layout free.

    `dual_rps` is the shadow price of one GPU. A node is `gpus_per_node` GPUs; a node more or less is solved anew:
    `more_node_rps` and `less_node_rps` are what plans reach that were found, and the same buckets do no better than
    `more_node_most_rps` and `less_node_most_rps`. Of less the change is 0 or below, or None where the fleet has none of
    the type; a type with less than a node loses what it has, `gpus_lost`. Of a table of ranges the relaxation is solved
    anew, and both are what it allows.
    """

    gpu: str
    gpus_per_node: Annotated[int, Bounds(low=1)]
    gpus_lost: Annotated[int, Bounds(low=0)]
    price_usd_per_gpu_hour: _Amount
    dual_rps: Annotated[_Amount, Key("shadow price of one GPU")]
    more_node_rps: _Amount
    more_node_most_rps: _Amount
    less_node_rps: Annotated[float | None, Bounds(high=0), Key("without gpus_lost GPUs (null: there are none)")]
    less_node_most_rps: Annotated[float | None, Bounds(high=0), Key("at most, without them (null: there are none)")]

    @property
    def rps_per_usd_hour(self) -> float | None:
        """Requests/s that one more node adds per USD/hour; None without a price."""
        price = self.price_usd_per_gpu_hour * self.gpus_per_node
        return self.more_node_rps / price if price > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseWorth:
    """`worth_share`: of the fleet's worth, what one phase takes, by the shadow prices; both phases sum to 1.

    It is also the elasticity of the best possible rate: a phase faster by 1 % raises it by `worth_share` %.
    `faster_rps` is the re-solved gain of a phase that is faster by 10 %.
    """

    phase: Phase
    worth_share: _WorthShare
    faster_rps: Annotated[_Amount, Key("gain of the phase 10 % faster")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeHeadroom:
    """`headroom`: what the spare time of the islands serving a range could add to its rate, relative to that rate.

    Each range is taken alone: spare time can be spent once. `worth_share`: of the fleet's worth, as in `PhaseWorth`.
    """

    phase: Phase
    range_start: Annotated[int, Bounds(low=0)]
    range_end: Annotated[int, Bounds(low=1)]
    headroom: Annotated[_Amount, Key("what the spare time of its islands could add, relative to its rate")]
    worth_share: _WorthShare


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What binds a plan, what is spare, and what more or less of each GPU type would do.

    `bound_rps`: no layout of these GPUs serves more, by the relaxation. `binding`: the
    slower phase of the plan's islands, None where both are alike; `headroom`: how much faster the other is, relative;
    it limits next, at `next_rps`. `next_gpu`: with the binding phase (or the one of greater share) 10 % faster, the
    type of the greatest worth. `drop_first`: the type whose loss of a node costs least per USD saved (per GPU where
    nothing has a price).
    """

    bound_rps: _Amount
    binding: Annotated[Phase | None, Key("the slower phase of the plan's islands (null: both alike)")]
    headroom: Annotated[_Amount, Key("how much faster the other phase is, relative")]
    next_rps: Annotated[_Amount, Key("where the other phase limits")]
    next_gpu: Annotated[str, Key("type of the greatest worth with the binding phase 10 % faster")]
    drop_first: Annotated[str, Key("type whose loss of a node costs least per USD saved")]
    gpus: tuple[GpuWorth, ...]
    phases: tuple[PhaseWorth, ...]
    ranges: tuple[RangeHeadroom, ...]


class Limit(StrEnum):
    """What keeps a server from serving more: the bounds, its NICs, what fits into memory, the greatest batch of its
    engine, the greatest batch that is tried, or nothing but the speed of its steps. Of servers that do both phases only
    bounds are told from the rest."""

    TTFT = "TTFT"
    TPOT = "TPOT"
    NIC = "its NICs"
    MEMORY = "memory"
    ENGINE = "engine's batch"
    BATCH = "largest batch tried"
    STEPS = "its steps"
    NO_BOUND = "no bound"


SECONDS = 4.0
"""Of CPU, for planning again what would change a pool, unless somebody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalServer:
    """A configuration on the GPUs of a pool: `servers` of it fit, each serves `rate_rps` of the bucket's mix within the
    levels and `full_rps` where nobody waits; `idle_gpus` are left over. `left_rps`: what the servers serve that remain
    after the loss of nodes that is to be survived. `chosen`: it is the pool's own."""

    server: ServerConfig
    servers: int
    rate_rps: float
    full_rps: float
    left_rps: float
    idle_gpus: int
    limit: Limit
    chosen: bool

    @property
    def serves_rps(self) -> float:
        """All its servers together."""
        return self.servers * self.rate_rps


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeUse:
    """What a GPU of one type does of the pool's bucket at best, and what its time is worth there and in its best other
    use, by the prices of the relaxation (requests/s of the whole plan for one GPU). `gpus`: of it in the bucket."""

    gpu: str
    gpus: int
    server: ServerConfig | None
    rate_per_gpu_rps: float
    rate_per_usd: float | None
    worth_rps: float
    elsewhere: Phase | None
    elsewhere_rps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """Configurations of the pool's type and phase that cannot be chosen, by reason, and the rules that refuse most."""

    refused: int
    without_memory: int
    beyond_levels: int
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountReason:
    """What sets the number of servers. `offered_gpus`: GPUs of the type in the inventory; `type_gpus`, `type_idle`: of
    them those that are paid for, and those in no pool.
    `one_less_rps`: what the plan would serve with one server less, the others' queues taken as they are;
    `one_less_left_rps`: of that, what remained after the loss to be survived, of which `survive_rps` are asked for (0:
    none)."""

    offered_gpus: int
    type_gpus: int
    type_idle: int
    one_less_rps: float
    one_less_left_rps: float
    survive_rps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A key of the scenario at another value. `changes`: other kinds of servers are chosen there; `same_at`: the
    nearest value tried where they are not. `becomes`: the servers of the phase, `rate_rps` of the whole. `planned`:
    planned again; else by the rates of single servers, an estimate."""

    key: str
    value: float
    same_at: float | None
    changes: bool
    becomes: str
    rate_rps: float | None
    planned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolExplanation:
    """Why a pool is what it is. `load_rps`: of the bucket's requests at the plan's capacity. `cuts`: what plans of
    other numbers of buckets serve."""

    plan: str
    island: str
    gpu: str
    phase: Phase
    start: int
    end: int
    servers: int
    server: ServerConfig
    load_rps: float
    plan_rps: float
    types: tuple[TypeUse, ...]
    rivals: tuple[RivalServer, ...]
    excluded: Excluded
    count: CountReason
    cuts: tuple[SimplerPlan, ...]
    what_ifs: tuple[WhatIf, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalIsland:
    """A configuration of an island in a plan of a table: mean rate over what the island is given to serve, by its
    prompts (requests/s). `gpu`: its type; `per_usd`: rate per USD/hour (None: no price)."""

    gpu: str
    tp: int
    dp: int
    pp: int
    replicas: int
    rate_rps: float
    per_gpu_rps: float
    per_usd: float | None
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandExplanation:
    """Why an island of a plan of a table is what it is. `lengths`: middles of the ranges that it serves, with the share
    of its requests. `unfit`: configurations that do not fit. `one_less_rps`: best possible rate without its GPUs, by
    the relaxation (None: not known)."""

    plan: str
    island: str
    gpu: str
    size: int
    phase: Phase
    lengths: tuple[tuple[int, float], ...]
    utilisation: float
    rivals: tuple[RivalIsland, ...]
    others: tuple[RivalIsland, ...]
    unfit: int
    one_less_rps: float | None
    bound_rps: float | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Plans of another form, or of a scenario with one thing less: none serves more than `bound_rps` (None: nothing
    serves). `reached_rps`: what the best that was solved for serves (None: only the bound was worked out).
    `fewer_gpus`: the scenario is the plan's, but for GPUs that are left out."""

    name: str
    bound_rps: float | None
    reached_rps: float | None = None
    fewer_gpus: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanExplanation:
    """Why the plan serves what it does: both phases, what binds, what its alternatives lose. Rates in requests/s."""

    plan: str
    rate_rps: float
    prefill_rps: float
    decode_rps: float
    bound: float | None
    unit: str
    sensitivity: Sensitivity | None
    survival_cost_rps: float | None
    alternatives: tuple[Alternative, ...]
    cuts: tuple[SimplerPlan, ...]
    notes: tuple[str, ...]
