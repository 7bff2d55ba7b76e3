"""What islands a layout may be made of: the data of the layout programme, and its rows.

Islands as integers: what a programme over layouts, or over the roles of a given one, is made of.

| symbol | meaning | unit |
|---|---|---|
| o | an option: islands of one kind in one phase | |
| z[o] | islands of the option | 1, integer |
| x[o, j] | islands' worth of time on range j | islands |
| b[o, j] | rate of one island on range j alone, within its bounds | requests/s |
| u[o, j] | utilisation that b stops at (1 without bounds on TTFT) | 1 |
| s[o] | utilisation that the queue of the mixture admits | 1 |
| N[k] | GPUs of a type, or islands of a class: the stock that an option takes `use` of | 1 |

serve_<phase>_<j>   sum_o b x >= lambda p[j]     capacity_<o>   sum_j x[o, j] <= z[o]
offered_<k>         sum_o use z <= N[k]          queue_<o>      sum_j u x <= s z, where the mixture may work less than b
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pulp

from planner.domain import (
    PHASES,
    ClassPerformance,
    InventoryItem,
    IslandClass,
    ObjectiveSettings,
    Phase,
    PhasePerformance,
    Role,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandKind:
    """Islands of one class in one phase: their rates by range (requests/s; 0: not served).

    Under bounds on TTFT `limits[j]` is the utilisation that the rate of range j stops at (empty: 1), and `share` the
    utilisation that the queue of all its ranges admits.
    """

    island: IslandClass
    phase: Phase
    rates_rps: tuple[float, ...]
    limits: tuple[float, ...] = ()
    share: float = 1.0

    @property
    def shared_rps(self) -> tuple[float, ...]:
        """Rates at the mixture's share, where that is less than the range's own limit."""
        if not self.limits:
            return self.rates_rps
        return tuple(
            b * min(1.0, self.share / u) if b > 0 else 0.0 for b, u in zip(self.rates_rps, self.limits, strict=True)
        )

    @property
    def abilities(self) -> tuple[float, ...]:
        """What an island that does more must have more of: rates alone, and rates of busy time in the mixture."""
        if not self.limits:
            return self.rates_rps
        mixed = (b * self.share / u if b > 0 else 0.0 for b, u in zip(self.rates_rps, self.limits, strict=True))
        return (*self.rates_rps, *mixed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """GPU types with how many there are, their charges, and what an island of every size does.

    `options[t]`: rows of type t, one a size. `prices` in USD/hour, `watts` at full load, both per GPU. `roles[t]`: what
    islands of type t may do, where queues count; else they do what their rows say.
    """

    gpus: tuple[str, ...]
    counts: tuple[int, ...]
    prices: tuple[float, ...]
    watts: tuple[float, ...]
    options: tuple[tuple[ClassPerformance, ...], ...]
    probabilities: tuple[float, ...]
    roles: tuple[tuple[IslandKind, ...], ...] = ()

    @classmethod
    def of(
        cls, items: Sequence[InventoryItem], rows: Sequence[ClassPerformance], probabilities: Sequence[float]
    ) -> "Offer":
        """The offer of an inventory with the rows of its island classes."""
        return cls(
            gpus=tuple(item.gpu.name for item in items),
            counts=tuple(item.count for item in items),
            prices=tuple(item.rent_usd_per_gpu_hour for item in items),
            watts=tuple(item.gpu.max_w for item in items),
            options=tuple(
                tuple(row for row in rows if row.island.gpu == item.gpu.name and row.island.size <= item.count)
                for item in items
            ),
            probabilities=tuple(probabilities),
        )

    def charges(self, objective: ObjectiveSettings) -> tuple[float, ...]:
        """What one GPU of each type costs in the unit of the objective: USD/hour, or watts."""
        return self.watts if objective.kind.row.in_watts else self.prices

    def kinds(self) -> tuple[tuple[IslandKind, ...], ...]:
        """By type every kind of island that serves something."""
        return self.roles or tuple(tuple(kind for row in rows for kind in _kinds(row)) for rows in self.options)


def _kinds(row: ClassPerformance) -> Iterator[IslandKind]:
    """A class in both phases, as it is or at a further configuration."""
    for phase in PHASES:
        for performance in row.choices(phase):
            as_it_is = performance is row.phase(phase)
            island = row.island if as_it_is else in_role(row.island, phase, performance)
            yield IslandKind(island=island, phase=phase, rates_rps=performance.rates_rps)


def in_role(
    island: IslandClass, phase: Phase, performance: PhasePerformance, start: int = 0, end: int = 2**63
) -> IslandClass:
    """The class as it does a phase with that configuration, for prompts of `start` to `end` - 1 tokens."""
    assert performance.parallel is not None, "an island that serves has degrees"
    return replace(island, role=(Role(phase=phase, parallel=performance.parallel, start=start, end=end),))


def efficiency(offer: Offer) -> dict[tuple[int, Phase, int], float]:
    """Best rate of one GPU by (type, phase, range), where it is above 0 (requests/s)."""
    best: dict[tuple[int, Phase, int], float] = {}
    for t, kinds in enumerate(offer.kinds()):
        for kind in kinds:
            for j, rate in enumerate(kind.shared_rps):
                if rate > 0:
                    key = (t, kind.phase, j)
                    best[key] = max(best.get(key, 0.0), rate / kind.island.size)
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandOption:
    """Islands of one kind. `stock`: the place of what each takes `use` of.

    `waste` and `loss` belong to the layout programme: what an island costs of the relaxed optimum at least, and that as
    a share of its GPUs' worth.
    """

    stock: int
    use: int
    kind: IslandKind
    waste: float = 0.0
    loss: float = 0.0

    @property
    def name(self) -> str:
        """Unlike any other option's."""
        role = "".join(
            f"_{r.parallel.replicas}_{r.parallel.pp}_{r.parallel.dp}_{r.parallel.tp}_{r.start}_{r.end}"
            for r in self.kind.island.role
        )
        return f"{self.stock}_{self.use}_{self.kind.phase}{role}"

    @property
    def is_capped(self) -> bool:
        """Whether its queue may admit less than the bounds of some range alone."""
        kind = self.kind
        return bool(kind.limits) and any(
            u > kind.share for u, b in zip(kind.limits, kind.rates_rps, strict=True) if b > 0
        )


Times = dict[tuple[int, int], pulp.LpVariable]
"""x by (place of the option, range)."""


def island_rows(
    model: pulp.LpProblem,
    options: Sequence[IslandOption],
    stocks: Sequence[int],
    probabilities: Sequence[float],
    rate: pulp.LpVariable,
) -> list[pulp.LpVariable]:
    """Add variables and all rows but the objective's; returns z by option."""
    islands = [
        pulp.LpVariable(f"islands_{o.name}", lowBound=0, upBound=stocks[o.stock] // o.use, cat=pulp.LpInteger)
        for o in options
    ]
    time = {
        (k, j): pulp.LpVariable(f"time_{o.name}_{j}", lowBound=0)
        for k, o in enumerate(options)
        for j, b in enumerate(o.kind.rates_rps)
        if b > 0
    }
    _serve(model, options, probabilities, time, rate)
    _keep_time(model, options, time, islands)
    for stock, count in enumerate(stocks):
        used = [(islands[k], o.use) for k, o in enumerate(options) if o.stock == stock]
        if used:
            model += pulp.LpAffineExpression(used) <= count, f"offered_{stock}"
    return islands


def _serve(
    model: pulp.LpProblem,
    options: Sequence[IslandOption],
    probabilities: Sequence[float],
    time: Times,
    rate: pulp.LpVariable,
) -> None:
    """serve: each range gets its share of the rate in both phases."""
    for phase in PHASES:
        of_phase = [k for k, o in enumerate(options) if o.kind.phase is phase]
        for j, p in enumerate(probabilities):
            # Divided by p, or rows of rare ranges would drown in the tolerance.
            served = [(time[k, j], options[k].kind.rates_rps[j] / p) for k in of_phase if (k, j) in time]
            model += pulp.LpAffineExpression([*served, (rate, -1)]) >= 0, f"serve_{phase}_{j}"


def _keep_time(
    model: pulp.LpProblem, options: Sequence[IslandOption], time: Times, islands: list[pulp.LpVariable]
) -> None:
    """capacity and queue: islands have no more time than there is, and work no more of it than their queues admit."""
    for k, o in enumerate(options):
        columns = [(j, time[k, j]) for j in range(len(o.kind.rates_rps)) if (k, j) in time]
        model += pulp.LpAffineExpression([*((x, 1) for _, x in columns), (islands[k], -1)]) <= 0, f"capacity_{o.name}"
        if o.is_capped:
            worked = [(x, o.kind.limits[j]) for j, x in columns]
            model += pulp.LpAffineExpression([*worked, (islands[k], -o.kind.share)]) <= 0, f"queue_{o.name}"
