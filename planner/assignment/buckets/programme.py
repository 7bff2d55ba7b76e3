"""Pools behind buckets of prompt length as integers: how many servers of which kind take which bucket.

| symbol | meaning | unit |
|---|---|---|
| t, N[t] | stock: a GPU type with its GPUs, or a class of islands with its islands | 1 |
| o, use[o] | option: a server of a stock, what one of it takes of the stock | 1 |
| B, P(B) | bucket of a phase, its probability | 1 |
| R[o, B] | rate of one server on the bucket's mix, its queue counted | requests/s |
| z[o, B] | servers, integer: a pool where above 0 | 1 |
| k[o, B], h[c] | whether there is the pool, whether the kind (type and configuration) c is used | 0, 1 |
| lambda | rate at which the whole mix is served | requests/s |

serve_<phase>_<B>   sum_o R z >= lambda P(B)      offered_<t>   sum use z <= N[t]      uplinks: see `uplink_rows`
budget, target      as in the layout programme    kinds, pools  z <= most k, k <= h

Mixed servers stand in the rows of both halves of their bucket, which has the same lengths in both phases: what they do
of its prefill they do of its decode, and its pools of one phase share what is left.

The buckets of a phase partition the lengths, and there are few partitions: each is relaxed first (servers divisible, so
only the best R / use of a stock counts), and solved, best relaxation first, as long as that may still be better. The
bound is the largest of what the solved ones have proven and what the others' relaxations allow.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pulp

from planner.assignment.buckets.change_rows import change_rows
from planner.assignment.buckets.offer import (
    BucketAnswer,
    BucketOffer,
    BucketOption,
    Partition,
    Place,
    PoolCount,
    columns_of,
    places_of,
)
from planner.assignment.buckets.relaxed import relaxed_values, row_of
from planner.assignment.buckets.survival_rows import survival_rows
from planner.assignment.buckets.uplink_rows import uplink_rows, uplink_rps
from planner.assignment.relaxation import LEAST_RPS as NOTHING
from planner.assignment.relaxation import aim, within_share
from planner.domain import PHASES, AssignmentSettings, ObjectiveSettings
from planner.errors import InfeasibleError, SolverError
from planner.milp import Meter, dual_bound, solve

SURE = 0.5  # above it a binary is 1, whatever the tolerance
SLACK = 1e-6  # of a bound: the size of HiGHS's tolerances
LEAST_WORK = 0.2  # of one partition: a unit is about a CPU-second
ROUNDS = 8  # of Dinkelbach's method


def best_pools(
    offer: BucketOffer,
    partitions: Sequence[Partition],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    *,
    relaxed: Mapping[Partition, float] | None = None,
) -> BucketAnswer:
    """The best pools of any of `partitions`, to `settings.gap` where `settings.work_limit` allows.

    `relaxed`: bounds of the partitions where they are known. Raises InfeasibleError where nothing serves.
    """
    if objective.kind.row.per_charge:
        return _per_charge(offer, partitions, objective, settings)
    bounds = dict(relaxed) if relaxed is not None else relaxed_values(offer, partitions, objective, settings)
    best, bound, late = _searched(offer, bounds, objective, settings, None)
    if best is None:
        raise _nothing_serves(late=late)
    assert bound is not None, "what serves has a bound"
    return replace(best, bound=bound, proven=proves(best.value, bound, settings.gap))


def better_pools(
    offer: BucketOffer,
    relaxed: Mapping[Partition, float],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    *,
    than: float,
) -> tuple[BucketAnswer | None, float | None]:
    """The best pools of the `relaxed` partitions that are better than a value by more than the gap, None where there
    are none or none were found within the limit; and what no pools of them pass, None where they cannot serve. Not for
    ratios."""
    best, bound, _ = _searched(offer, relaxed, objective, settings, than)
    return best, bound


def _searched(
    offer: BucketOffer,
    bounds: Mapping[Partition, float],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    than: float | None,
) -> tuple[BucketAnswer | None, float | None, bool]:
    """(best pools, what none pass, whether a limit left something open). Partitions are taken in the order of their
    relaxations, each asked only for what is better than the best so far: a programme without such pools ends at once.
    """
    sign = -1.0 if objective.minimises else 1.0
    order = sorted(bounds, key=lambda partition: (-sign * bounds[partition], len(places_of(partition))))
    best, to_beat, late = None, than, False
    reached: list[float] = []  # bounds of partitions that may serve
    meter = Meter(settings.work_limit)
    for number, partition in enumerate(order):
        # What beats the best by less than the gap is not worth a solve.
        cutoff = None if to_beat is None else to_beat + sign * settings.gap * abs(to_beat)
        if (cutoff is not None and sign * bounds[partition] <= sign * cutoff) or meter.remaining <= 0:
            late = late or meter.remaining <= 0
            reached += [bounds[other] for other in order[number:]]
            break
        # The first has the best bound, and most often the answer: it may take half of the work.
        limits = replace(settings, work_limit=max(LEAST_WORK, meter.remaining / (2 if number == 0 else 4)))
        try:
            answer = pools_of(offer, partition, objective, limits, cutoff=cutoff, meter=meter)
        except InfeasibleError:
            # Nothing beats the cutoff here; where there was none, nothing serves at all.
            reached += [] if cutoff is None else [sign * min(sign * cutoff, sign * bounds[partition])]
            continue
        except SolverError:
            late = True
            # The limit left it open: its relaxation is all that is known.
            reached.append(bounds[partition])
            continue
        late = late or not answer.proven
        reached.append(sign * min(sign * answer.bound, sign * bounds[partition]))
        if to_beat is None or sign * answer.value > sign * to_beat:
            best, to_beat = answer, answer.value
    values = reached if best is None else [*reached, best.value]
    # Each bound is only as sharp as the solver's tolerance.
    bound = sign * max(sign * value for value in values) * (1 + sign * SLACK) if values else None
    return best, bound, late


def proves(value: float, bound: float, gap: float) -> bool:
    """Whether a value is as near to its bound as was asked for."""
    return abs(bound - value) <= (gap + 2 * SLACK) * max(abs(bound), abs(value), NOTHING)


def _nothing_serves(*, late: bool) -> InfeasibleError | SolverError:
    """The end of what has no answer; `late`: for want of work."""
    if late:
        return SolverError(
            "buckets: none were found within the work limit, nor that there are none.", hint="Raise search.work_limit."
        )
    return InfeasibleError(
        "buckets: no servers of the offered GPUs serve every bucket in both phases.",
        hint="Prefill and decode need an island each: offer more GPUs, or types with more memory.",
    )


def pools_of(
    offer: BucketOffer,
    partition: Partition,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    *,
    cutoff: float | None = None,
    reward: float = 0.0,
    meter: Meter | None = None,
) -> BucketAnswer:
    """The best pools of one partition, better than `cutoff`; `meter` hears the solver's work.

    Raises InfeasibleError where there are none, SolverError where none were found within the limit.
    """
    programme = PoolProgramme(offer, partition, objective)
    cost = programme.cost()
    if objective.kind.row.per_charge:
        programme.model.setObjective(programme.rate - reward * cost)
        # Without it the best of a small reward is to serve nothing.
        programme.model += programme.rate >= max(objective.target_rps, NOTHING), "target"
    else:
        aim(programme.model, objective, programme.rate, cost)
    if cutoff is not None:
        value = cost if objective.minimises else programme.rate
        programme.model += (value <= cutoff if objective.minimises else value >= cutoff), "better"
    return programme.solved(settings, meter)


def simplest_pools(
    offer: BucketOffer,
    best: BucketAnswer,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    *,
    within: float,
) -> BucketAnswer:
    """The fewest kinds, then pools, whose objective is within the share `within` of that of `best`, with its
    partition. Raises as `pools_of` does."""
    programme = PoolProgramme(offer, best.partition, ObjectiveSettings())
    kinds, pools = programme.count_kinds()
    programme.model.sense = pulp.LpMinimize
    # All pools together weigh less than one kind.
    weight = 1.0 / (len(pools) + 1)
    programme.model.setObjective(pulp.lpSum(kinds.values()) + weight * pulp.lpSum(pools.values()))
    within_share(programme.model, objective, best.value, within, programme.rate, programme.cost())
    return programme.solved(settings)


def fastest_of_kinds(
    offer: BucketOffer,
    partition: Partition,
    most_kinds: int,
    settings: AssignmentSettings,
    *,
    most_cost: float | None = None,
) -> BucketAnswer:
    """The most requests/s of at most so many kinds, for at most that cost (USD/hour, or W, as the offer charges; None:
    of all that is offered). Raises as `pools_of` does."""
    programme = PoolProgramme(offer, partition, ObjectiveSettings())
    kinds, _ = programme.count_kinds()
    programme.model += pulp.lpSum(kinds.values()) <= most_kinds, "most_kinds"
    if most_cost is not None:
        programme.model += programme.cost() <= most_cost, "most_cost"
    programme.model.setObjective(1 * programme.rate)
    return programme.solved(settings)


class PoolRows:
    """One partition's servers, and rows that they serve the rate of the whole, in a programme that may hold others,
    too: `prefix` tells their names apart. `divisible`: the relaxation."""

    def __init__(
        self,
        model: pulp.LpProblem,
        offer: BucketOffer,
        partition: Partition,
        prefix: str = "",
        *,
        divisible: bool = False,
    ) -> None:
        self.model, self.offer, self.partition = model, offer, partition
        self.rate = pulp.LpVariable(f"{prefix}rate", lowBound=0)
        self.servers: dict[tuple[Place, BucketOption], pulp.LpVariable] = {}
        category = pulp.LpContinuous if divisible else pulp.LpInteger
        for n, (place, option) in enumerate(columns_of(offer, partition)):
            count_limit = offer.most_of(option)
            if count_limit:
                # divisible ones are bound by the stock's row alone, which has the whole price of a GPU, then
                upper = None if divisible else count_limit
                self.servers[place, option] = pulp.LpVariable(f"{prefix}servers_{n}", 0, upper, category)
        for place in places_of(partition):
            served = pulp.LpAffineExpression([(v, option.rate_rps) for option, v in self._serving(place)])
            model += served - offer.probabilities[place] * self.rate >= 0, f"{prefix}{row_of(place)}"
        # whole nodes are lost: of divisible servers that says nothing
        if offer.survive and not divisible:
            survival_rows(model, offer, places_of(partition), self.servers, self.rate, prefix)

    def used(self, stock: int) -> pulp.LpAffineExpression:
        """Units of a stock that the servers take."""
        return pulp.LpAffineExpression([(v, key[1].use) for key, v in self.servers.items() if key[1].stock == stock])

    def _serving(self, place: Place) -> list[tuple[BucketOption, pulp.LpVariable]]:
        """Servers of a bucket of prefill or decode, mixed ones, too."""
        return [(o, v) for (home, o), v in self.servers.items() if place in self.offer.served_by(home)]

    def chosen(self) -> tuple[PoolCount, ...]:
        """The pools of a solved programme."""
        return tuple(
            PoolCount(place=place, option=option, count=round(v.varValue or 0.0))
            for (place, option), v in self.servers.items()
            if (v.varValue or 0.0) > SURE
        )


class PoolProgramme(PoolRows):
    """One partition's servers as integers, out of all that is offered."""

    def __init__(self, offer: BucketOffer, partition: Partition, objective: ObjectiveSettings) -> None:
        sense = pulp.LpMinimize if objective.minimises else pulp.LpMaximize
        super().__init__(pulp.LpProblem("buckets", sense), offer, partition)
        # without it HiGHS, which solves small programmes unpresolved, has called worse answers of fleets proven
        self.rate.upBound = min(map(self._rate_limit, places_of(partition)))
        for t, count in enumerate(offer.counts):
            self.model += self.used(t) <= count, f"offered_{t}"
        self.change = change_rows(self.model, offer, self.servers)
        uplink_rows(self.model, offer, partition, self.servers, self.rate)

    def _rate_limit(self, place: Place) -> float:
        """What all GPUs of every stock would serve of a bucket, over its probability."""
        best: dict[int, float] = {}
        for option, _ in self._serving(place):
            best[option.stock] = max(best.get(option.stock, 0.0), option.rate_rps / option.use)
        served = sum(self.offer.counts[stock] * rate for stock, rate in best.items())
        return served / self.offer.probabilities[place]

    def cost(self) -> pulp.LpAffineExpression:
        """USD/hour, or W, of all servers, with the weight of the change to them."""
        charges = self.offer.charges
        rent = pulp.LpAffineExpression([(v, charges[o.stock] * o.use) for (_, o), v in self.servers.items()])
        return rent + self.offer.terms.usd_weight * self.change.usd

    def count_kinds(
        self,
    ) -> tuple[dict[tuple[int, int], pulp.LpVariable], dict[tuple[Place, BucketOption], pulp.LpVariable]]:
        """Binaries of kinds and of pools."""
        pools = self._pools()
        kinds: dict[tuple[int, int], pulp.LpVariable] = {}
        for (_, option), used in pools.items():
            key = (option.stock, option.kind)
            if key not in kinds:
                kinds[key] = pulp.LpVariable(f"kind_{len(kinds)}", cat=pulp.LpBinary)
            self.model += used <= kinds[key]
        return kinds, pools

    def _pools(self) -> dict[tuple[Place, BucketOption], pulp.LpVariable]:
        pools = {key: pulp.LpVariable(f"pool_{n}", cat=pulp.LpBinary) for n, key in enumerate(self.servers)}
        for key, variable in self.servers.items():
            # The tightest factor that holds, so that the relaxation opens no more of a pool than it must.
            self.model += variable <= variable.upBound * pools[key]
        return pools

    def solved(self, settings: AssignmentSettings, meter: Meter | None = None) -> BucketAnswer:
        """The answer. Raises InfeasibleError and SolverError as `solve` does, and where nothing is served."""
        solved = solve(self.model, settings, meter)
        pools = self.chosen()
        value = float(pulp.value(self.model.objective))
        dual = dual_bound(self.model, value if solved.proven else None)
        # A solver that was cut short and says no bound has shown none: the partition's relaxation is left.
        nothing_known = math.inf if self.model.sense == pulp.LpMaximize else -math.inf
        # From whole servers: the solver's own rate is off by its tolerance.
        served = min(served_rps(self.offer, self.partition, pools))
        answer = BucketAnswer(
            partition=self.partition,
            pools=pools,
            rate_rps=min(served, uplink_rps(self.offer, self.partition, pools)),
            value=value,
            bound=nothing_known if dual is None else dual,
            proven=solved.proven,
            solver=solved.solver,
        )
        if not served > NOTHING:
            raise InfeasibleError("buckets: nothing is served.", hint="Offer more GPUs.")
        return answer


def served_rps(offer: BucketOffer, partition: Partition, pools: Sequence[PoolCount]) -> Iterator[float]:
    """The rate of the whole that each bucket allows: what its servers do, or what a loss leaves over its share."""
    for place in places_of(partition):
        serving = [pool for pool in pools if place in offer.served_by(pool.place)]
        rate = sum(pool.option.rate_rps * pool.count for pool in serving)
        if offer.survive:
            after = sum(pool.option.after_rps * pool.count for pool in serving)
            rate = min(rate, (after - offer.lost_rps(serving)) / offer.survive)
        yield rate / offer.probabilities[place]


def _per_charge(
    offer: BucketOffer, partitions: Sequence[Partition], objective: ObjectiveSettings, settings: AssignmentSettings
) -> BucketAnswer:
    """Requests per USD by Dinkelbach's method: maximise lambda - q cost, then q = lambda / cost, until it rests.

    Where no pools have lambda - q cost > d, none have lambda / cost > q + d / (least cost).
    """
    bounds = relaxed_values(offer, partitions, objective, settings)
    best: BucketAnswer | None = None
    reached: list[float] = []
    meter = Meter(settings.work_limit)
    for partition in sorted(bounds, key=lambda p: -bounds[p]):
        worth = 0.0 if best is None else best.value
        # In falling order: no later partition can do better either.
        if bounds[partition] <= worth * (1 + settings.gap):
            reached.append(bounds[partition])
            break
        least_charge, ceiling = _least_charge(offer, partition), bounds[partition]
        for _ in range(ROUNDS):
            try:
                limits = replace(settings, work_limit=max(LEAST_WORK, meter.remaining / 4))
                answer = pools_of(offer, partition, objective, limits, reward=worth, meter=meter)
            except InfeasibleError:
                ceiling = 0.0
                break
            except SolverError:
                break
            ceiling = min(ceiling, worth + max(0.0, answer.bound) / least_charge)
            cost = offer.charge_of(answer.pools)
            # The method rests: no pools have a better ratio.
            if answer.rate_rps / cost <= worth * (1 + SLACK):
                break
            worth = answer.rate_rps / cost
            best = replace(answer, value=worth)
        reached.append(ceiling)
    if best is None:
        raise _nothing_serves(late=any(reached))
    bound = max(*reached, best.value)
    return replace(best, bound=bound * (1 + SLACK), proven=proves(best.value, bound, settings.gap))


def _least_charge(offer: BucketOffer, partition: Partition) -> float:
    """No pools cost less: a server each bucket (USD/hour), one for both phases where mixed ones may serve them."""
    charges: dict[Place, float] = {}
    for place, option in columns_of(offer, partition):
        for served in offer.served_by(place):
            charge = option.use * offer.charges[option.stock]
            charges[served] = min(charge, charges.get(served, math.inf))
    of_phases = [sum(charges[phase, bucket] for bucket in partition.of(phase)) for phase in PHASES]
    return max(of_phases) if partition.mixed else sum(of_phases)
