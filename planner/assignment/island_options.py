"""Islands as integers: what a programme over layouts, or over the roles of a given one, is made of.

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

from collections.abc import Sequence
from dataclasses import dataclass

import pulp

from planner.assignment.layout_options import IslandKind
from planner.domain import PHASES


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
