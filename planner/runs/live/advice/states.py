"""A service's servers as pools, and how few of them (or how many more) promise a rate.

| symbol | meaning | unit |
|---|---|---|
| n | servers of a pool; whole copies of its deployment, where one copy is several servers | 1 |
| p | promise of all pools together: margin times the rate that they serve within the levels | requests/s |
| N | what must be promised | requests/s |

Fewer: pool by pool, the dearest servers first, the least n with p >= N. More: the pool whose servers promise most for
their rent, the least n with p >= N that the free GPUs have room for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from planner.cost.serving import BATCHES
from planner.domain import BucketPool, Phase, Scenario
from planner.domain.serving.server import ServerConfig
from planner.evaluation.buckets.service import BucketService
from planner.proposing.feasibility import posed
from planner.runs.live.advice.rebuilding import RebuiltService

GAIN = 0.01
"""Of a rate or a rent: less is no gain."""
_TRIED = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512)
"""Batches that are tried with each budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """Servers that are judged. `units`: servers of a copy, and `claimed` GPUs of a server, by island."""

    scenario: Scenario
    pools: tuple[BucketPool, ...]
    units: Mapping[str, int]
    claimed: Mapping[str, float]

    @classmethod
    def of(cls, rebuilt: RebuiltService) -> "Pooled":
        """Those of a plan that was rebuilt."""
        pools: tuple[BucketPool, ...] = rebuilt.plan.outlook.pools
        copies = {island: deployment.copies for island, deployment in rebuilt.islands.items()}
        claimed = {island: deployment.claimed_gpus for island, deployment in rebuilt.islands.items()}
        return cls(
            scenario=rebuilt.plan.scenario,
            pools=pools,
            units={pool.island: max(1, pool.count // copies[pool.island]) for pool in pools},
            claimed={pool.island: claimed[pool.island] / pool.count for pool in pools},
        )

    def rent_of(self, pool: BucketPool) -> float:
        """USD/hour of one server, with GPUs that it claims and does not use."""
        return self.scenario.inventory.item(pool.gpu).price_usd_per_gpu_hour * self.claimed[pool.island]

    @property
    def rent_usd_per_hour(self) -> float:
        """Of all."""
        return sum(self.rent_of(pool) * pool.count for pool in self.pools)

    @property
    def promise_rps(self) -> float:
        """Of all together, within the levels."""
        return BucketService(posed(self.scenario)).priced(self.pools).rate_rps * self.scenario.routing.margin

    def with_counts(self, counts: Mapping[str, int]) -> "Pooled":
        """With so many servers of an island; pools without any are left out."""
        pools = (replace(pool, count=counts.get(pool.island, pool.count)) for pool in self.pools)
        return replace(self, pools=tuple(pool for pool in pools if pool.count))


def resized(state: Pooled, needed_rps: float, room: Mapping[str, int], least_servers: int) -> Pooled | None:
    """The fewest copies that promise so much, or as many more as do; None where the GPUs at hand do not suffice."""
    if state.promise_rps < needed_rps:
        return _grown(state, needed_rps, room)
    shrunk = state
    for pool in sorted(state.pools, key=lambda pool: -state.rent_of(pool)):
        shrunk = _shrunk(shrunk, pool.island, needed_rps, least_servers)
    return shrunk


def _shrunk(state: Pooled, island: str, needed_rps: float, least_servers: int) -> Pooled:
    pool = next(pool for pool in state.pools if pool.island == island)
    unit = state.units[island]
    others = [other for other in state.pools if other.island != island and other.phase is pool.phase]
    # one copy may fail at any time: what there are several of stays several
    fewest = max(0, min(least_servers, _alike(state, pool)) - sum(other.count for other in others))
    low = -(-max(fewest, 0 if others else 1) // unit)
    copies = _fewest(low, pool.count // unit, lambda n: state.with_counts({island: n * unit}).promise_rps >= needed_rps)
    return state.with_counts({island: copies * unit})


def _alike(state: Pooled, pool: BucketPool) -> int:
    return sum(other.count for other in state.pools if other.phase is pool.phase)


def _grown(state: Pooled, needed_rps: float, room: Mapping[str, int]) -> Pooled | None:
    for pool in sorted(state.pools, key=lambda pool: state.rent_of(pool) / max(pool.capacity_rps, 1e-12)):
        unit = state.units[pool.island]
        copies = int(room.get(pool.gpu, 0) / (state.claimed[pool.island] * unit))
        grown = partial(_with_more, state, pool, unit)
        if copies and grown(copies).promise_rps >= needed_rps:
            return grown(_fewest(1, copies, lambda n, grown=grown: grown(n).promise_rps >= needed_rps))  # type: ignore[misc]
    return None


def _with_more(state: Pooled, pool: BucketPool, unit: int, copies: int) -> Pooled:
    return state.with_counts({pool.island: pool.count + copies * unit})


def _fewest(low: int, high: int, suffices: Callable[[int], bool]) -> int:
    """The least number that suffices; `high` does."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle + 1, high)
    return high


def other_flags(state: Pooled) -> Pooled:
    """The same servers at the batch and budget that promise most, pool after pool; as they are where that is not worth
    a restart."""
    best, promise_rps = state, state.promise_rps
    for number in range(len(state.pools)):
        changed, changed_rps = best, promise_rps
        for server in _servers_of(best.pools[number], state):
            pools = list(best.pools)
            pools[number] = replace(pools[number], server=server)
            tried = replace(best, pools=tuple(pools))
            tried_rps = tried.promise_rps
            if tried_rps > changed_rps * (1 + GAIN / 10):
                changed, changed_rps = tried, tried_rps
        if changed_rps > promise_rps * (1 + GAIN):
            best, promise_rps = changed, changed_rps
    return best


def _servers_of(pool: BucketPool, state: Pooled) -> list[ServerConfig]:
    """Every batch with every budget that the engine's profile knows, and its server."""
    profile = state.scenario.engine
    server = pool.server
    budgets = sorted({server.tokens_per_step, *profile.prefill_budgets} if pool.phase is not Phase.DECODE else {0})
    limit = profile.greatest_batch or BATCHES[-1]
    batches = sorted({server.batch_size, *(batch for batch in _TRIED if batch <= limit)})
    if pool.phase is Phase.PREFILL:
        batches = [server.batch_size]
    return [replace(server, tokens_per_step=budget, batch_size=batch) for budget in budgets for batch in batches]


def better_routed(state: Pooled) -> Pooled:
    """Behind a router that knows how busy servers are, the one that plans are deployed with."""
    routing = replace(state.scenario.routing, policy=None)
    return replace(state, scenario=replace(state.scenario, routing=routing))
