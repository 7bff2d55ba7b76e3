"""Who serves an interval of prompt lengths, as programs that take requests see it: copies that do both phases, and
prefill and decode copies that something has to pair.

symbol   meaning                                                            unit
share    of the interval's requests that go to an island, 0..1
weight   of a server: its share, as a whole number up to 256, the largest
         of a backend's being 256 (HAProxy's range)

How long a request may take, and how many a server may hold: what proxies have to be told, from the plan.

symbol    meaning                                                             unit
answer    longest answer of the workload                                      tokens
TPOT      slowest step that the plan's decode routes count on                 s
timeout   2 answer x TPOT + TTFT bound, or 60 s where there is none;          s
          at least 300 s: what is slower than twice the plan is stuck
hold      requests that a server may have at a time: twice the sequences      requests
          that it runs, so that as many may wait in it
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose

from planner.domain import PHASES, Phase, Plan
from planner.export.islands import ServingIsland
from planner.export.routers.intervals import RoutedBucket, covering_routes, routed_buckets
from planner.export.seams import Endpoint

MOST_WEIGHT = 256
SPLIT, MIXED = "split", "mixed"
"""The ways in which an interval's requests are served: by pairs, or by one island each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedInterval:
    """Prompts of `start` <= tokens < `end`. `split`: share of them that prefill and decode islands do together,
    `shares` those of the prefill islands; `mixed`: (id, share) of each island that does both phases. `last`: there are
    no longer ones. `chance`: that a request of such a length which no interval before took is for this one: below 1
    where engines in lanes of their own share the lengths."""

    start: int
    end: int
    prefill: tuple[str, ...]
    decode: tuple[str, ...]
    split: float
    mixed: tuple[tuple[str, float], ...]
    shares: tuple[float, ...] = ()
    number: int = 0
    last: bool = False
    chance: float = 1.0

    def by_pool(self) -> "tuple[ServedInterval, ...]":
        """The split share by prefill island, each with all decode islands: servers of one such part are alike."""
        return tuple(
            replace(self, prefill=(name,), shares=(share,), split=share, mixed=())
            for name, share in zip(self.prefill, self.shares, strict=True)
        )

    def roles(self, way: str) -> dict[str, tuple[str, ...]]:
        """Role -> the islands that have it where requests are served in a `way` (`split`, `mixed`)."""
        if way == MIXED:
            return {"mixed": tuple(name for name, _ in self.mixed)}
        return {"prefill": self.prefill, "decode": self.decode}

    @property
    def title(self) -> str:
        """The interval in words."""
        return f"{self.start} to {self.end - 1} tokens"


def served_intervals(plan: Plan) -> tuple[ServedInterval, ...]:
    """The plan's intervals from no tokens to the context, one for each lane of engines; neighbours that the same
    servers share alike are one."""
    mixed = {island.id for island in plan.islands if island.phase is not None and island.phase.value == "mixed"}
    lanes = {island.id: island.lane for island in plan.islands}
    buckets = routed_buckets(covering_routes(plan))
    prefill, decode = ([bucket for bucket in buckets if bucket.phase is phase] for phase in PHASES)
    # buckets of both phases are cut at each other's ends; lengths that a phase leaves out are left out
    cut = [parts for first in prefill for second in decode if (parts := _served(first, second, mixed, lanes))]
    merged: list[tuple[ServedInterval, ...]] = []
    for parts in sorted(cut, key=lambda parts: parts[0].start):
        if merged and merged[-1][0].end == parts[0].start and _alike(merged[-1], parts):
            merged[-1] = tuple(replace(part, end=parts[0].end) for part in merged[-1])
        else:
            merged.append(parts)
    rows = [replace(part, last=parts is merged[-1]) for parts in merged for part in parts]
    return tuple(replace(part, number=number) for number, part in enumerate(rows))


def _served(
    prefill: RoutedBucket, decode: RoutedBucket, mixed: set[str], lanes: Mapping[str, str]
) -> tuple[ServedInterval, ...]:
    """What two buckets have in common, by lane; none where that is nothing."""
    start, end = max(prefill.start, decode.start), min(prefill.end, decode.end)
    if start >= end:
        return ()
    parts, remaining = list[ServedInterval](), 1.0
    for lane in sorted({lanes.get(name, "") for name, _ in prefill.islands}):
        shares = {name: share for name, share in prefill.islands if lanes.get(name, "") == lane}
        part = sum(shares.values()) if len(shares) < len(prefill.islands) else 1.0
        split = {name: share / part for name, share in shares.items() if name not in mixed}
        interval = ServedInterval(
            start=start,
            end=end,
            prefill=tuple(split),
            decode=tuple(name for name in decode.names if name not in mixed and lanes.get(name, "") == lane),
            split=sum(split.values()),
            mixed=tuple((name, share / part) for name, share in shares.items() if name in mixed),
            shares=tuple(split.values()),
            chance=min(1.0, part / remaining),
        )
        parts.append(interval)
        remaining -= part
    # whatever is left over by rounding is the last one's
    return (*parts[:-1], replace(parts[-1], chance=1.0))


def _alike(first: Sequence[ServedInterval], second: Sequence[ServedInterval]) -> bool:
    """Whether the same servers take both, in the same shares."""
    return len(first) == len(second) and all(map(_same_servers, first, second))


def _same_servers(first: ServedInterval, second: ServedInterval) -> bool:
    names = (first.prefill, first.decode, [name for name, _ in first.mixed])
    pairs = [(first.chance, second.chance)]
    if names != (second.prefill, second.decode, [name for name, _ in second.mixed]):
        return False
    pairs += [(share, other) for (_, share), (_, other) in zip(first.mixed, second.mixed, strict=True)]
    return all(isclose(share, other, rel_tol=1e-9) for share, other in pairs)


def chosen(names: Iterable[str], endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """Where the islands called `names` answer."""
    ids = set(names)
    return tuple(endpoint for endpoint in endpoints if endpoint.island.id in ids)


def server_weights(shares: Sequence[tuple[float, int]]) -> tuple[int, ...]:
    """A weight for each (share, servers) pair: of one of the servers that have the share together."""
    each = [share / servers for share, servers in shares]
    largest = max(each, default=0.0)
    return tuple(max(1, round(MOST_WEIGHT * part / largest)) for part in each) if largest > 0 else ()


_LEAST_S, _TTFT_S = 300, 60.0
_MS = 1000.0


def answer_timeout_s(plan: Plan) -> int:
    """Seconds from a request to the end of its answer that nothing sound takes."""
    steps = [route.step_ms for route in plan.routing if route.phase is Phase.DECODE and math.isfinite(route.step_ms)]
    bound = plan.scenario.slo.ttft_ms
    first = _TTFT_S if bound is None else bound / _MS
    longest = 2 * plan.scenario.workload.max_output_tokens * max(steps, default=0.0) / _MS + first
    return max(_LEAST_S, math.ceil(longest))


def held_requests(island: ServingIsland) -> int:
    """Requests that one server may have at a time, running and waiting: a copy, or a rank where these are endpoints."""
    return max(2, 2 * island.batch_size * (1 if island.by_rank else island.parallel.dp))


def island_requests(endpoint: Endpoint) -> int:
    """The same of all that answer there."""
    return endpoint.island.servers * held_requests(endpoint.island)
