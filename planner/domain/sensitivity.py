"""What would change a plan's rate: more or fewer GPUs, a faster phase, and what is spare."""

from dataclasses import dataclass
from typing import Annotated

from planner.domain.keys import Bounds, Key
from planner.domain.layout import Phase

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
