"""The pace of servers that do both phases, off their time per output token.

| symbol | meaning | unit | source |
|---|---|---|---|
| u, k | share of the time with running requests; running requests of a group | 1 | `BUSY`, `RUNNING` |
| b | sequences of a group while it works: k / u | 1 | |
| T(b) | time per output token that the cost model has at b, with the prompts that b answers bring along | ms | |
| t | mean time per output token as measured | ms | `TPOT` |
| pace | T(b) / t: speed of the passes over the predicted one | 1 | |

All parts of a pass scale alike, so that one pace is told of both phases. At a given b the time follows from the pace
alone; at a given rate b would follow from it, too, and its error would count several times.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.cost.serving import MixedServers
from planner.domain import PHASES, Calibration, Plan
from planner.domain.serving.observed import Quantity
from planner.evaluation.buckets.priced import priced_buckets
from planner.plans.observed.loads import Loads
from planner.plans.observed.paced import pace_factor, with_factors
from planner.units import MS_PER_S
from planner.workload import question_of

BUSY = 0.8
"""Share of the time that servers must work: of one or two sequences the pace of replays came out up to 3 % too high,
and promises within levels fall faster than it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedPace:
    """The pace of an island's servers. `why_not`: a sentence where it cannot be told (then `pace` is 1)."""

    island: str
    gpu: str
    sequences: float = 0.0
    predicted_ms: float = 0.0
    measured_ms: float = 0.0
    why_not: str = ""

    @property
    def pace(self) -> float:
        """Measured over predicted speed."""
        return 1.0 if self.why_not else self.predicted_ms / self.measured_ms


def mixed_paces(loads: Loads) -> Iterator[MixedPace]:
    """The pace of every island that does both phases."""
    plan = loads.plan
    question = question_of(plan.scenario)
    for bucket in priced_buckets(question, plan.outlook.pools, None, {}):
        for pool, servers in zip(bucket.pools, bucket.servers, strict=True):
            if not isinstance(servers, MixedServers):
                continue
            reason = _why_not(loads, pool.island)
            if reason:
                yield MixedPace(island=pool.island, gpu=pool.gpu, why_not=reason)
                continue
            tpot = loads.histogram([pool.island], Quantity.TPOT)
            assert tpot is not None
            assert tpot.mean is not None
            busy, running = (loads.value(pool.island, q) or 0.0 for q in (Quantity.BUSY, Quantity.RUNNING))
            yield MixedPace(
                island=pool.island,
                gpu=pool.gpu,
                sequences=running / busy,
                predicted_ms=float(servers.tpot_at(bucket.buckets, running / busy)[0, 0]),
                measured_ms=tpot.mean * MS_PER_S,
            )


def _why_not(loads: Loads, island: str) -> str:
    busy, running = (loads.value(island, quantity) for quantity in (Quantity.BUSY, Quantity.RUNNING))
    tpot = loads.histogram([island], Quantity.TPOT)
    if busy is None or not running or tpot is None or not tpot.mean:
        return "Its engine tells too little: the time per output token and running requests are needed."
    if busy < BUSY:
        return f"It idles: it worked {busy:.0%} of the time, where at least {BUSY:.0%} are needed."
    return ""


def mixed_calibration(plan: Plan, paces: Sequence[MixedPace], name: str) -> Calibration | None:
    """The plan's calibration with the paces, those of a GPU type by how many sequences told them; None where none
    does."""
    measured = [pace for pace in paces if not pace.why_not]
    factors = []
    for gpu in sorted({pace.gpu for pace in measured}):
        of_type = [pace for pace in measured if pace.gpu == gpu]
        # means of times, so that the busier tell more
        pace = sum(p.predicted_ms * p.sequences for p in of_type) / sum(p.measured_ms * p.sequences for p in of_type)
        factors += [pace_factor(plan, gpu, phase, pace, pace_source(plan)) for phase in PHASES]
    return with_factors(plan, factors, name) if factors else None


def pace_source(plan: Plan) -> str:
    """Where such paces come from, for calibration files."""
    return f"time per output token of running servers, {plan.scenario.name}"
