"""Decision variables of the inner problem, aggregated over interchangeable islands.

| symbol | meaning | unit |
|---|---|---|
| c, j | island class, range | |
| n[c] | islands of the class | 1 |
| n_prefill[c] | how many of them prefill (the others decode) | 1, integer |
| x[c, phase, j] | islands' worth of time that the class gives to the range in the phase | islands |
| b[c, phase, j] | rate of one island of the class that does nothing else | requests/s |
| u[c, phase, j] | utilisation that b stops at under bounds on TTFT, else 1 | 1 |

One integer a class replaces a binary an island, and with it the symmetry between equal islands.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulp

from planner.domain import PHASES, ClassPerformance, IslandClass, Layout, PerformanceTable, Phase

Cell = tuple[int, Phase, int]
Shares = Mapping[tuple[IslandClass, Phase], float]
"""Utilisation that the queue of a class admits in a phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A PuLP model with its variables and data, open for constraints. `shares` by (class, phase): see `Shares`."""

    model: pulp.LpProblem
    rows: tuple[ClassPerformance, ...]
    counts: tuple[int, ...]
    probabilities: tuple[float, ...]
    prefill_islands: tuple[pulp.LpVariable, ...]
    time: dict[Cell, pulp.LpVariable]
    shares: Mapping[tuple[int, Phase], float] = field(default_factory=dict)

    def require(self, constraint: pulp.LpConstraint, name: str) -> None:
        """Add a named constraint."""
        self.model.addConstraint(constraint, name)

    def islands(self, index: int, phase: Phase) -> pulp.LpAffineExpression:
        """How many islands of class `index` do `phase`."""
        if phase is Phase.PREFILL:
            return 1 * self.prefill_islands[index]
        return self.counts[index] - self.prefill_islands[index]

    def rate(self, phase: Phase, j: int) -> pulp.LpAffineExpression:
        """Requests/s of range j served in `phase`."""
        return pulp.LpAffineExpression(
            [
                (self.time[c, phase, j], row.phase(phase).rates_rps[j])
                for c, row in enumerate(self.rows)
                if (c, phase, j) in self.time
            ]
        )

    def busy(self, index: int, phase: Phase) -> pulp.LpAffineExpression:
        """Islands' worth of time that class `index` spends in `phase`."""
        cells = [(index, phase, j) for j in range(len(self.probabilities))]
        return pulp.LpAffineExpression([(self.time[c], 1.0) for c in cells if c in self.time])

    def worked(self, index: int, phase: Phase) -> pulp.LpAffineExpression:
        """Islands' worth of time that class `index` is at work in `phase`: sum_j u x."""
        limit = self.rows[index].phase(phase).utilisation_limit
        cells = [(index, phase, j) for j in range(len(self.probabilities))]
        return pulp.LpAffineExpression([(self.time[c], limit(c[2])) for c in cells if c in self.time])


def open_problem(table: PerformanceTable, layout: Layout, shares: Shares | None = None) -> Problem:
    """Variables for the islands of `layout` that serve anything; cells of rate 0 get none."""
    pairs = [(table.row(island), count) for island, count in layout.counts]
    useful = [(row, n) for row, n in pairs if row.prefill.serves or row.decode.serves]
    rows, counts = tuple(row for row, _ in useful), tuple(n for _, n in useful)
    return Problem(
        model=pulp.LpProblem("assignment", pulp.LpMaximize),
        rows=rows,
        counts=counts,
        probabilities=tuple(r.probability for r in table.ranges),
        prefill_islands=tuple(_prefill_islands(i, row, n) for i, (row, n) in enumerate(useful)),
        time={
            (i, phase, j): pulp.LpVariable(f"time_{i}_{phase}_{j}", lowBound=0)
            for i, row in enumerate(rows)
            for phase in PHASES
            for j, rate in enumerate(row.phase(phase).rates_rps)
            if rate > 0
        },
        shares={
            (i, phase): shares[row.island, phase]
            for i, row in enumerate(rows)
            for phase in PHASES
            if shares is not None and (row.island, phase) in shares
        },
    )


def _prefill_islands(index: int, row: ClassPerformance, count: int) -> pulp.LpVariable:
    # A class that cannot do a phase is in the other with all its islands.
    fewest = 0 if row.decode.serves else count
    largest = count if row.prefill.serves else 0
    return pulp.LpVariable(f"prefill_islands_{index}", lowBound=fewest, upBound=largest, cat=pulp.LpInteger)
