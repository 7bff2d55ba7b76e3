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

serve_<phase>_<B>   sum_o R z >= lambda P(B)      offered_<t>   sum use z <= N[t]
budget, target      as in the layout programme    kinds, pools  z <= most k, k <= h
survive_<..>        sum R z - lost[o] R[o, B] k[o, B] >= share lambda P(B): whichever pool loses its nodes
binds_<phase>_<B>   sum R z - lambda P(B) <= M (1 - b), sum b >= 1: lambda is what is served, where a loss is survived

The buckets of a phase partition the lengths, and there are few partitions: each is relaxed first (servers divisible, so
only the best R / use of a stock counts), and solved, best relaxation first, as long as that may still be better. The
bound is the largest of what the solved ones have proven and what the others' relaxations allow.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pulp

from planner.assignment.aim import aim
from planner.assignment.solver import dual_bound, solve
from planner.domain import AssignmentSettings, ObjectiveSettings, Phase
from planner.errors import InfeasibleError, SolverError

NOTHING = 1e-6  # a rate below this is the solver's tolerance
SURE = 0.5  # above it a binary is 1, whatever the tolerance
SLACK = 1e-6  # of a bound: the size of HiGHS's tolerances
ROUNDS = 8  # of Dinkelbach's method
DOMINATED = 1e-9

Place = tuple[Phase, int]  # a bucket of a phase, by its number


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketOption:
    """A server on a bucket: `server` and `kind` are the caller's numbers, `lost`: servers of it that go with the nodes
    whose loss is to be survived."""

    stock: int
    use: int
    server: int
    kind: int
    rate_rps: float
    lost: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketOffer:
    """Stocks with their counts and charges (USD/hour, or W, of a unit), options and probability of every bucket of a
    phase. `survive`: share of the rate that a loss must leave; 0: none."""

    counts: tuple[int, ...]
    charges: tuple[float, ...]
    options: Mapping[Place, tuple[BucketOption, ...]]
    probabilities: Mapping[Place, float]
    survive: float = 0.0


Partition = tuple[tuple[int, ...], tuple[int, ...]]  # buckets of prefill and of decode, each over all lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCount:
    """`count` servers of `option` for `place`."""

    place: Place
    option: BucketOption
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAnswer:
    """The best pools. `value` and `bound` in the objective's unit; `proven`: within the gap that was asked for."""

    partition: Partition
    pools: tuple[PoolCount, ...]
    rate_rps: float
    value: float
    bound: float
    proven: bool
    solver: str

    @property
    def kinds(self) -> int:
        """Different servers: GPU type and configuration."""
        return len({(pool.option.stock, pool.option.kind) for pool in self.pools})

    @property
    def buckets(self) -> int:
        """Buckets of both phases."""
        return sum(map(len, self.partition))


def undominated(options: Iterable[BucketOption]) -> tuple[BucketOption, ...]:
    """Without options that smaller ones of the same stock outdo in the same room."""
    kept: list[BucketOption] = []
    for option in sorted(options, key=lambda o: (o.stock, o.use, -o.rate_rps, o.kind, o.server)):
        rivals = (o for o in kept if o.stock == option.stock and option.use % o.use == 0)
        copies = ((option.use // o.use) * o.rate_rps for o in rivals)
        if option.rate_rps > 0 and not any(rate >= option.rate_rps * (1 - DOMINATED) for rate in copies):
            kept.append(option)
    return tuple(kept)


def places_of(partition: Partition) -> list[Place]:
    """The buckets of a partition with their phase."""
    prefill, decode = partition
    return [*((Phase.PREFILL, b) for b in prefill), *((Phase.DECODE, b) for b in decode)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaxedBuckets:
    """The relaxation of one partition: `value` in the objective's unit, `rate_rps`, and prices: `worth[place]` of one
    more request/s of the bucket's capacity, `toll[t]` of a unit of a stock."""

    value: float
    rate_rps: float
    worth: Mapping[Place, float]
    toll: tuple[float, ...]


def relaxed_buckets(
    offer: BucketOffer, partition: Partition, objective: ObjectiveSettings, settings: AssignmentSettings
) -> RelaxedBuckets | None:
    """What no pools of this partition can exceed; None where they cannot serve."""
    best = _best_per_unit(offer, partition)
    model = pulp.LpProblem("relaxed", pulp.LpMinimize if objective.minimises else pulp.LpMaximize)
    rate = pulp.LpVariable("rate", lowBound=0)
    units = {key: pulp.LpVariable(f"units_{n}", lowBound=0) for n, key in enumerate(best)}
    scale = pulp.LpVariable("scale", lowBound=0) if objective.kind.row.per_charge else None
    for place in places_of(partition):
        served = pulp.LpAffineExpression([(units[key], best[key]) for key in best if key[1] == place])
        model += served - offer.probabilities[place] * rate >= 0, _row(place)
    for t, count in enumerate(offer.counts):
        used = pulp.LpAffineExpression([(units[key], 1.0) for key in best if key[0] == t])
        model += used - (count * scale if scale is not None else count) <= 0, f"offered_{t}"
    cost = pulp.LpAffineExpression([(units[key], offer.charges[key[0]]) for key in best])
    if scale is not None:
        model.setObjective(1 * rate)
        model += cost <= 1, "charge"
        model += rate - objective.target_rps * scale >= 0, "target"
    else:
        aim(model, objective, rate, cost)
    try:
        solve(model, settings)
    except InfeasibleError:
        return None
    if not (rate.varValue or 0.0) > NOTHING:
        return None
    price = {name: abs(row.pi or 0.0) for name, row in model.constraints.items()}
    return RelaxedBuckets(
        value=float(pulp.value(model.objective)),
        rate_rps=float(rate.varValue or 0.0),
        worth={place: price[_row(place)] for place in places_of(partition)},
        toll=tuple(price[f"offered_{t}"] for t in range(len(offer.counts))),
    )


def _row(place: Place) -> str:
    return f"serve_{place[0].value}_{place[1]}"


def _best_per_unit(offer: BucketOffer, partition: Partition) -> dict[tuple[int, Place], float]:
    """The best rate per unit of each stock on each bucket."""
    best: dict[tuple[int, Place], float] = {}
    for place in places_of(partition):
        for option in offer.options[place]:
            key = (option.stock, place)
            best[key] = max(best.get(key, 0.0), option.rate_rps / option.use)
    return best


def best_pools(
    offer: BucketOffer,
    partitions: Sequence[Partition],
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    *,
    relaxed: Mapping[Partition, float] | None = None,
) -> BucketAnswer:
    """The best pools of any of `partitions`, to `settings.gap` where `settings.time_limit_s` allows.

    `relaxed`: bounds of the partitions where they are known. Raises InfeasibleError where nothing serves.
    """
    if objective.kind.row.per_charge:
        return _per_charge(offer, partitions, objective, settings)
    bounds = dict(relaxed) if relaxed is not None else relaxed_values(offer, partitions, objective, settings)
    sign = -1.0 if objective.minimises else 1.0
    order = sorted(bounds, key=lambda partition: (-sign * bounds[partition], len(places_of(partition))))
    best: BucketAnswer | None = None
    reached: list[float] = []  # bounds of partitions that are done
    left, proven = settings.time_limit_s, True
    for number, partition in enumerate(order):
        if best is not None and sign * bounds[partition] <= sign * best.value + settings.gap * abs(best.value):
            reached.append(bounds[partition])
            break
        limits = replace(settings, time_limit_s=max(0.2, left / (2 if number == 0 else 4)))
        answer, bound, seconds = _attempt(offer, partition, objective, limits, best)
        left -= seconds
        reached.append(bounds[partition] if bound is None else sign * min(sign * bound, sign * bounds[partition]))
        if answer is not None and (best is None or sign * answer.value > sign * best.value):
            best = answer
        if left <= 0:
            reached += [bounds[other] for other in order[number + 1 :]]
            proven = False
            break
    if best is None:
        raise InfeasibleError(
            "buckets: no servers of the offered GPUs serve every bucket in both phases.",
            hint="Prefill and decode need an island each: offer more GPUs, or types with more memory.",
        )
    bound = sign * max(sign * value for value in (*reached, best.value))
    gap = abs(bound - best.value) / max(abs(bound), NOTHING)
    return replace(best, bound=bound * (1 + sign * SLACK), proven=proven and gap <= settings.gap + 2 * SLACK)


def relaxed_values(
    offer: BucketOffer, partitions: Sequence[Partition], objective: ObjectiveSettings, settings: AssignmentSettings
) -> dict[Partition, float]:
    """Bounds of the partitions that can serve."""
    values = ((partition, relaxed_buckets(offer, partition, objective, settings)) for partition in partitions)
    return {partition: relaxed.value for partition, relaxed in values if relaxed is not None}


def _attempt(
    offer: BucketOffer,
    partition: Partition,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    best: BucketAnswer | None,
) -> tuple[BucketAnswer | None, float | None, float]:
    """(pools better than the best by the gap, what is proven of the partition, seconds)."""
    sign = -1.0 if objective.minimises else 1.0
    cutoff = None if best is None else best.value + sign * settings.gap * abs(best.value)
    try:
        answer, seconds = pools_of(offer, partition, objective, settings, cutoff=cutoff)
    except InfeasibleError:
        return None, cutoff, 0.0
    except SolverError:
        return None, None, settings.time_limit_s
    return answer, answer.bound, seconds


def pools_of(
    offer: BucketOffer,
    partition: Partition,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    *,
    cutoff: float | None = None,
    reward: float = 0.0,
) -> tuple[BucketAnswer, float]:
    """The best pools of one partition, better than `cutoff`, and the solver's seconds.

    Raises InfeasibleError where there are none, SolverError where none were found in time.
    """
    programme = _Programme(offer, partition, objective)
    cost = programme.cost()
    if objective.kind.row.per_charge:
        programme.model.setObjective(programme.rate - reward * cost)
        programme.model += programme.rate >= max(objective.target_rps, NOTHING), "target"
    else:
        aim(programme.model, objective, programme.rate, cost)
    if cutoff is not None:
        value = cost if objective.minimises else programme.rate
        programme.model += (value <= cutoff if objective.minimises else value >= cutoff), "better"
    if offer.survive:
        programme.survive()
    return programme.solved(settings)


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
    programme = _Programme(offer, best.partition, ObjectiveSettings())
    kinds, pools = programme.count_kinds()
    programme.model.sense = pulp.LpMinimize
    weight = 1.0 / (len(pools) + 1)
    programme.model.setObjective(pulp.lpSum(kinds.values()) + weight * pulp.lpSum(pools.values()))
    cost, rate = programme.cost(), programme.rate
    if objective.kind.row.per_charge:
        programme.model += rate - (1 - within) * best.value * cost >= 0
        programme.model += rate >= max(objective.target_rps, NOTHING)
    elif objective.minimises:
        programme.model += cost <= best.value * (1 + within)
        programme.model += rate >= objective.target_rps
    else:
        programme.model += rate >= best.rate_rps * (1 - within)
        if objective.kind.row.budgeted:
            programme.model += cost <= objective.budget_usd_per_hour
    if offer.survive:
        programme.survive(pools)
    answer, _ = programme.solved(settings)
    return answer


def fastest_of_kinds(
    offer: BucketOffer, partition: Partition, most_kinds: int, settings: AssignmentSettings
) -> BucketAnswer:
    """The most requests/s of at most so many kinds. Raises as `pools_of` does."""
    programme = _Programme(offer, partition, ObjectiveSettings())
    kinds, pools = programme.count_kinds()
    programme.model += pulp.lpSum(kinds.values()) <= most_kinds, "most_kinds"
    programme.model.setObjective(1 * programme.rate)
    if offer.survive:
        programme.survive(pools)
    answer, _ = programme.solved(settings)
    return answer


class _Programme:
    """One partition's servers as integers."""

    def __init__(self, offer: BucketOffer, partition: Partition, objective: ObjectiveSettings) -> None:
        self.offer, self.partition = offer, partition
        sense = pulp.LpMinimize if objective.minimises else pulp.LpMaximize
        self.model = pulp.LpProblem("buckets", sense)
        self.rate = pulp.LpVariable("rate", lowBound=0)
        self.servers: dict[tuple[Place, BucketOption], pulp.LpVariable] = {}
        for n, (place, option) in enumerate((p, o) for p in places_of(partition) for o in offer.options[p]):
            most = offer.counts[option.stock] // option.use
            if most:
                self.servers[place, option] = pulp.LpVariable(f"servers_{n}", 0, most, pulp.LpInteger)
        for place in places_of(partition):
            served = pulp.LpAffineExpression(
                [(v, key[1].rate_rps) for key, v in self.servers.items() if key[0] == place]
            )
            self.model += served - offer.probabilities[place] * self.rate >= 0, _row(place)
        for t, count in enumerate(offer.counts):
            used = pulp.LpAffineExpression([(v, key[1].use) for key, v in self.servers.items() if key[1].stock == t])
            self.model += used <= count, f"offered_{t}"

    def cost(self) -> pulp.LpAffineExpression:
        """USD/hour, or W, of all servers."""
        charges = self.offer.charges
        return pulp.LpAffineExpression([(v, charges[o.stock] * o.use) for (_, o), v in self.servers.items()])

    def count_kinds(
        self,
    ) -> tuple[dict[tuple[int, int], pulp.LpVariable], dict[tuple[Place, BucketOption], pulp.LpVariable]]:
        """Binaries of kinds and of pools."""
        pools = self._pools()
        kinds: dict[tuple[int, int], pulp.LpVariable] = {}
        for (_, option), there in pools.items():
            key = (option.stock, option.kind)
            if key not in kinds:
                kinds[key] = pulp.LpVariable(f"kind_{len(kinds)}", cat=pulp.LpBinary)
            self.model += there <= kinds[key]
        return kinds, pools

    def _pools(self) -> dict[tuple[Place, BucketOption], pulp.LpVariable]:
        pools = {key: pulp.LpVariable(f"pool_{n}", cat=pulp.LpBinary) for n, key in enumerate(self.servers)}
        for key, variable in self.servers.items():
            self.model += variable <= variable.upBound * pools[key]
        return pools

    def survive(self, pools: Mapping[tuple[Place, BucketOption], pulp.LpVariable] | None = None) -> None:
        """Whatever pool loses its nodes, the share of the rate remains in its bucket; a place at least binds, so that
        the rate is no lower than what is served."""
        there, binds = self._pools() if pools is None else pools, []
        for n, place in enumerate(places_of(self.partition)):
            mine = [(key, v) for key, v in self.servers.items() if key[0] == place]
            served = pulp.LpAffineExpression([(v, key[1].rate_rps) for key, v in mine])
            binds.append(pulp.LpVariable(f"binds_{n}", cat=pulp.LpBinary))
            most = sum(v.upBound * key[1].rate_rps for key, v in mine)
            self.model += served - self.offer.probabilities[place] * self.rate <= most * (1 - binds[n])
            needed = self.offer.survive * self.offer.probabilities[place] * self.rate
            for key, _ in mine:
                option = key[1]
                self.model += served - option.lost * option.rate_rps * there[key] - needed >= 0
        self.model += pulp.lpSum(binds) >= 1, "one_binds"

    def solved(self, settings: AssignmentSettings) -> tuple[BucketAnswer, float]:
        """The answer, and the solver's seconds."""
        proven, solver = solve(self.model, settings)
        pools = tuple(
            PoolCount(place=place, option=option, count=round(v.varValue or 0.0))
            for (place, option), v in self.servers.items()
            if (v.varValue or 0.0) > SURE
        )
        value = float(pulp.value(self.model.objective))
        dual = dual_bound(self.model, value if proven else None)
        answer = BucketAnswer(
            partition=self.partition,
            pools=pools,
            rate_rps=min(_served(self.offer, self.partition, pools)),
            value=value,
            bound=value if dual is None else dual,
            proven=proven,
            solver=solver,
        )
        if not answer.rate_rps > NOTHING:
            raise InfeasibleError("buckets: nothing is served.", hint="Offer more GPUs.")
        return answer, float(self.model.solutionTime or 0.0)


def _served(offer: BucketOffer, partition: Partition, pools: Sequence[PoolCount]) -> Iterator[float]:
    for place in places_of(partition):
        rate = sum(pool.count * pool.option.rate_rps for pool in pools if pool.place == place)
        yield rate / offer.probabilities[place]


def _per_charge(
    offer: BucketOffer, partitions: Sequence[Partition], objective: ObjectiveSettings, settings: AssignmentSettings
) -> BucketAnswer:
    """Requests per USD by Dinkelbach's method: maximise lambda - q cost, then q = lambda / cost, until it rests."""
    bounds = relaxed_values(offer, partitions, objective, settings)
    best: BucketAnswer | None = None
    for partition in sorted(bounds, key=lambda p: -bounds[p]):
        worth = 0.0 if best is None else best.value
        if bounds[partition] <= worth * (1 + settings.gap):
            break
        for _ in range(ROUNDS):
            try:
                answer, _ = pools_of(offer, partition, objective, settings, reward=worth)
            except (InfeasibleError, SolverError):
                break
            cost = sum(pool.count * pool.option.use * offer.charges[pool.option.stock] for pool in answer.pools)
            if not cost or answer.rate_rps / cost <= worth * (1 + SLACK):
                break
            worth = answer.rate_rps / cost
            best = replace(answer, value=worth)
    if best is None:
        raise InfeasibleError(
            "buckets: no servers of the offered GPUs serve every bucket in both phases.",
            hint="Prefill and decode need an island each: offer more GPUs.",
        )
    bound = max([*bounds.values()])
    return replace(best, bound=bound, proven=best.value >= (1 - settings.gap) * bound)
