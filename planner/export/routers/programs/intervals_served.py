"""Who serves an interval of prompt lengths, as programs that take requests see it: copies that do both phases, and
prefill and decode copies that something has to pair.

symbol   meaning                                                            unit
share    of the interval's requests that go to an island, 0..1
weight   of a server: its share, as a whole number up to 256, the largest
         of a backend's being 256 (HAProxy's range)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isclose

from planner.domain import Plan
from planner.export.routers.coverage import covering_routes
from planner.export.routers.intervals import RoutedInterval, routed_buckets, routed_intervals
from planner.export.seams import Endpoint

MOST_WEIGHT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedInterval:
    """Prompts of `start` <= tokens < `end`. `split`: share of them that prefill and decode islands do together,
    `shares` those of the prefill islands; `mixed`: (id, share) of each island that does both phases. `last`: there are
    no longer ones."""

    number: int
    start: int
    end: int
    prefill: tuple[str, ...]
    decode: tuple[str, ...]
    split: float
    mixed: tuple[tuple[str, float], ...]
    shares: tuple[float, ...] = ()
    last: bool = False

    def by_pool(self) -> "tuple[ServedInterval, ...]":
        """The split share by prefill island, each with all decode islands: servers of one such part are alike."""
        return tuple(
            replace(self, prefill=(name,), shares=(share,), split=share, mixed=())
            for name, share in zip(self.prefill, self.shares, strict=True)
        )

    @property
    def title(self) -> str:
        """The interval in words."""
        return f"{self.start} to {self.end - 1} tokens"


def served_intervals(plan: Plan) -> tuple[ServedInterval, ...]:
    """The plan's intervals from no tokens to the context; neighbours that the same servers share alike are one."""
    mixed = {island.id for island in plan.islands if island.phase is not None and island.phase.value == "mixed"}
    merged: list[ServedInterval] = []
    for interval in routed_intervals(routed_buckets(covering_routes(plan))):
        part = _served(interval, mixed, len(merged))
        if merged and merged[-1].end == part.start and _alike(merged[-1], part):
            merged[-1] = replace(merged[-1], end=part.end)
        else:
            merged.append(part)
    return tuple(replace(part, last=part is merged[-1]) for part in merged)


def _served(interval: RoutedInterval, mixed: set[str], number: int) -> ServedInterval:
    both = tuple((name, share) for name, share in interval.prefill.islands if name in mixed)
    return ServedInterval(
        number=number,
        start=interval.start,
        end=interval.end,
        prefill=tuple(name for name in interval.prefill.names if name not in mixed),
        decode=tuple(name for name in interval.decode.names if name not in mixed),
        split=sum(share for name, share in interval.prefill.islands if name not in mixed),
        mixed=both,
        shares=tuple(share for name, share in interval.prefill.islands if name not in mixed),
    )


def _alike(first: ServedInterval, second: ServedInterval) -> bool:
    names = (first.prefill, first.decode, [name for name, _ in first.mixed])
    return names == (second.prefill, second.decode, [name for name, _ in second.mixed]) and all(
        isclose(mine, theirs, rel_tol=1e-9) for (_, mine), (_, theirs) in zip(first.mixed, second.mixed, strict=True)
    )


def chosen(names: Iterable[str], endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """Where the islands called `names` answer."""
    wanted = set(names)
    return tuple(endpoint for endpoint in endpoints if endpoint.island.id in wanted)


def server_weights(shares: Sequence[tuple[float, int]]) -> tuple[int, ...]:
    """A weight for each (share, servers) pair: of one of the servers that have the share together."""
    each = [share / servers for share, servers in shares]
    most = max(each, default=0.0)
    return tuple(max(1, round(MOST_WEIGHT * part / most)) for part in each) if most > 0 else ()
