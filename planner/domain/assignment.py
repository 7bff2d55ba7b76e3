"""The answer of the inner problem, and the seams between stages: each is one method."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from planner.domain.layout import IslandClass, Layout, Phase
from planner.domain.serving.server import BucketPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """What `count` islands of one class do: one phase, and `time_shares[j]` of each island's time on range j."""

    island: IslandClass
    phase: Phase
    count: int
    time_shares: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Requests/s of the table's range `range_index` that one class hands to another, all islands together."""

    prefill: IslandClass
    decode: IslandClass
    range_index: int
    rate_rps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Duties, and the rates they reach.

    `prefill_rps` and `decode_rps` are the request rates at which each phase alone could serve the whole mix;
    `throughput_rps` is their minimum. `objective_rps` is what the chosen formulation reports for itself (the same
    for max_rate; min(R_prefill, R_decode) for deviation), `deviation_rps` its total deviation from the mix.
    `optimal` is False where the solver stopped at its work limit. Where a network is given, `flows` say who hands KV
    caches to whom, and `network_bottleneck` names the part of the network that holds the rate back (empty: none). Plans
    of buckets have `pools` instead of duties.
    """

    duties: tuple[Duty, ...]
    throughput_rps: float
    prefill_rps: float
    decode_rps: float
    objective_rps: float
    deviation_rps: float = 0.0
    optimal: bool = True
    solver: str = ""
    flows: tuple[Flow, ...] = ()
    network_bottleneck: str = ""
    pools: tuple[BucketPool, ...] = ()

    def phase_rps(self, phase: Phase) -> float:
        """The rate at which `phase` alone could serve the whole mix."""
        return self.prefill_rps if phase is Phase.PREFILL else self.decode_rps


def named_duties(duties: Iterable[Duty]) -> Iterator[tuple[Duty, tuple[str, ...]]]:
    """Duties with the names of their islands, before they are placed; islands of a class are numbered through."""
    numbers: Counter[str] = Counter()
    for duty in duties:
        stem = f"{duty.island.gpu.lower()}-{duty.island.size}g-{duty.phase}"
        first = numbers[stem] + 1
        numbers[stem] += duty.count
        yield duty, tuple(f"{stem}-{number}" for number in range(first, first + duty.count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What the search learns of one layout. `assignment` is None, and `error` says why, where it serves nothing;
    `failed` where the evaluation broke off, so that nothing is known of it. `goals`: the value of each goal, in the
    scenario's order, where it has several. `cpu_s`: CPU-seconds that judging it took."""

    layout: Layout
    throughput_rps: float
    assignment: Assignment | None
    error: str = ""
    failed: bool = False
    goals: tuple[tuple[str, float], ...] = ()
    cpu_s: float = field(default=0.0, compare=False)


class EvaluateLayouts(Protocol):
    """Evaluates a batch of layouts, in order; each answer is handed out as soon as it is there."""

    def __call__(self, layouts: Sequence[Layout], /) -> Iterable[Evaluation]: ...


class ReportProgress(Protocol):
    """Told after each evaluated batch: evaluations done, of how many, and the best rate so far (requests/s)."""

    def __call__(self, done: int, total: int, best_rps: float, /) -> None: ...


def no_progress(_done: int, _total: int, _best_rps: float, /) -> None:
    """The silent listener."""
