"""The inner problem solved the long way: every split of the islands into phases, a linear programme each.

Written from the definition (one variable an island, phase and range), not from the package.
"""

from itertools import product

import numpy as np
import numpy.typing as npt
from assignment_tables import expand
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from planner.domain import PHASES, AssignmentSettings, Layout, PerformanceTable

Row = npt.NDArray[np.float64]


def phase_rate(rates: list[list[float]], probabilities: list[float]) -> float:
    """Highest lambda with sum_i b_ij x_ij >= lambda p_j and sum_j x_ij <= 1, over islands i that do nothing else."""
    if not rates:
        return 0.0
    islands, ranges = len(rates), len(probabilities)
    width = islands * ranges
    serve = np.zeros((ranges, width + 1))
    capacity = np.zeros((islands, width + 1))
    for i, j in product(range(islands), range(ranges)):
        serve[j, i * ranges + j] = -rates[i][j]
        capacity[i, i * ranges + j] = 1
    serve[:, width] = probabilities
    found = linprog(
        np.eye(1, width + 1, width)[0] * -1,
        A_ub=np.vstack([serve, capacity]),
        b_ub=np.concatenate([np.zeros(ranges), np.ones(islands)]),
        bounds=(0, None),
    )
    assert found.status == 0
    return float(-found.fun)


def best_rate(table: PerformanceTable, layout: Layout) -> float:
    """Highest rate of the mix over every split of the islands into prefill and decode."""
    islands = expand(layout)
    probabilities = [r.probability for r in table.ranges]
    best = 0.0
    for split in product(PHASES, repeat=len(islands)):
        halves = []
        for phase in PHASES:
            rates = [
                list(table.row(island).phase(phase).rates_rps)
                for island, own in zip(islands, split, strict=True)
                if own is phase
            ]
            halves.append(phase_rate(rates, probabilities))
        best = max(best, min(halves))
    return best


class DeviationProblem:
    """The paper's section 4.8.1 with a binary z an island and a load x an island, phase and range.

    Columns: x_prefill (i, j), x_decode (i, j), z (i), delta (prefill | decode | match, j). Phase 0 prefills.
    """

    def __init__(self, table: PerformanceTable, layout: Layout, settings: AssignmentSettings) -> None:
        self.settings = settings
        self.islands = expand(layout)
        self.p = np.array([r.probability for r in table.ranges])
        self.b = np.array([[table.row(i).phase(phase).rates_rps for i in self.islands] for phase in PHASES])
        self.n, self.m = len(self.islands), len(self.p)
        self.width = 2 * self.n * self.m + self.n + 3 * self.m
        self.rows: list[Row] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def rate(self, phase: int, j: int) -> Row:
        """R_j of a phase as a row."""
        row = np.zeros(self.width)
        for i in range(self.n):
            row[(phase * self.n + i) * self.m + j] = self.b[phase, i, j]
        return row

    def total(self, phase: int) -> Row:
        """R of a phase as a row."""
        return np.asarray(np.sum([self.rate(phase, j) for j in range(self.m)], axis=0))

    def unit(self, column: int) -> Row:
        """One column as a row."""
        return np.asarray(np.eye(1, self.width, column)[0])

    def delta(self, kind: int, j: int) -> Row:
        """A deviation: 0 prefill, 1 decode, 2 match."""
        return self.unit(2 * self.n * self.m + self.n + kind * self.m + j)

    def add(self, row: Row, low: float, high: float) -> None:
        """low <= row <= high."""
        self.rows.append(row)
        self.low.append(low)
        self.high.append(high)

    def islands_in_one_phase(self) -> None:
        """Constraints 1 and 2."""
        for i in range(self.n):
            z = self.unit(2 * self.n * self.m + i)
            loads = [[self.unit((phase * self.n + i) * self.m + j) for j in range(self.m)] for phase in (0, 1)]
            self.add(np.sum(loads, axis=(0, 1)), 1, 1)
            for j in range(self.m):
                self.add(loads[0][j] + z, -np.inf, 1)
                self.add(loads[1][j] - z, -np.inf, 0)

    def deviations(self) -> None:
        """Constraints 3 to 6."""
        for phase in (0, 1):
            self.add(self.total(phase), 0.01, np.inf)
            for j in range(self.m):
                gap = self.rate(phase, j) - self.p[j] * self.total(phase)
                self.add(gap - self.delta(phase, j), -np.inf, 0)
                self.add(-gap - self.delta(phase, j), -np.inf, 0)
                self.add(self.delta(phase, j) - self.settings.tau * self.p[j] * self.total(phase), -np.inf, 0)
        for j in range(self.m):
            gap = self.rate(1, j) - self.rate(0, j)
            self.add(gap - self.delta(2, j), -np.inf, 0)
            self.add(-gap - self.delta(2, j), -np.inf, 0)

    def best_objective(self) -> float | None:
        """R_prefill + R_decode - sum of weighted deviations; None where nothing is feasible."""
        self.islands_in_one_phase()
        self.deviations()
        weight = self.settings.deviation_weight / (1 + self.p)
        value = self.total(0) + self.total(1)
        value -= np.sum([weight[j] * self.delta(kind, j) for kind in range(3) for j in range(self.m)], axis=0)
        binary = np.zeros(self.width)
        binary[2 * self.n * self.m : 2 * self.n * self.m + self.n] = 1
        found = milp(
            -value,
            constraints=LinearConstraint(np.array(self.rows), self.low, self.high),
            integrality=binary,
            bounds=Bounds(np.zeros(self.width), np.where(binary > 0, 1.0, np.inf)),
            options={"mip_rel_gap": 0.0},
        )
        return None if found.x is None else float(-found.fun)
