"""The search over divisions of a fleet, held against every division, and the space that it moves in."""

import math
import random
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from planner.domain import Stock
from planner.domain.fleets import FleetScenario
from planner.files.scenario.fleets import fleet_from_document
from planner.proposing.fleets import searching
from planner.proposing.fleets.deployments import deployments_of
from planner.proposing.fleets.dividing import DividedFleet
from planner.proposing.fleets.judging import Division, JudgedDivision, PlannedDeployments, ReplayedDivisions
from planner.proposing.search import DivisionCounts, DivisionSpace
from planner.workload import summarize

NODES = {"H20": 24, "H200": 24}
"""Three nodes and three, among two services: a hundred divisions."""


def fleet_of(kind: str = "multiple", rounds: int = 4, seed: int = 0) -> FleetScenario:
    common = {"model": "gpt-oss-20b", "workload": "azure-conv-2023", "search": {"seed": seed}}
    document = {
        "name": "drawn",
        "inventory": NODES,
        "slo": {"ttft_ms": 1000},
        "objective": {"kind": kind, "judged": "replayed", "rounds": rounds, "divisions": 8},
        "services": [
            {"name": "a", "demand": 10, "weight": 2, **common},
            {"name": "b", "demand": 15, **common},
        ],
    }
    return fleet_from_document(document, origin="drawn.yaml", base=Path(), summarize=summarize)


class Drawn:
    """A judge whose deployments serve drawn rates of their nodes; it counts what it is asked for."""

    def __init__(self, fleet: FleetScenario, seed: int) -> None:
        source = random.Random(seed)
        self.deployments = deployments_of(fleet)
        self._planned = PlannedDeployments(fleet, self.deployments, lambda _: pytest.fail("nothing is planned"))
        self._speed = [[source.uniform(0.5, 4) for _ in NODES] for _ in self.deployments]
        self._together = [source.uniform(-0.3, 0.6) for _ in self.deployments]
        self.asked_for: list[Division] = []

    def value(self, division: Division) -> JudgedDivision:
        rates = []
        for j, gpus in enumerate(division):
            nodes = [n / 8 for n in gpus]
            speed = sum(n * v for n, v in zip(nodes, self._speed[j], strict=True))
            rates.append(max(0.0, speed + self._together[j] * math.sqrt(nodes[0] * nodes[1])))
        return self._planned.judged(division, (None,) * len(division), tuple(rates))

    def judge(self, division: Division) -> JudgedDivision:
        self.asked_for.append(division)
        return self.value(division)

    judge_again = value


def every(space: DivisionSpace) -> Iterator[DivisionCounts]:
    """All divisions, by counting."""
    columns = [
        [cut for cut in product(range(stock.units + 1), repeat=len(space.deployments)) if sum(cut) <= stock.units]
        for stock in space.stocks
    ]
    for chosen in product(*columns):
        yield tuple(zip(*chosen, strict=True))


@cache
def searched(seed: int, kind: str, rounds: int = 4) -> tuple[Drawn, searching.FleetDivisions, JudgedDivision]:
    """A search that begins with a division far from the best."""
    fleet = fleet_of(kind, rounds, seed)
    judge = Drawn(fleet, seed)
    solved = [{"H20": 24, "H200": 8}, {"H200": 8}]
    divisions = searching.FleetDivisions(fleet, judge.deployments, solved)
    judgements = searching._Judgements(divisions, judge)
    best = searching._best(divisions, judgements, fleet, judge.deployments, lambda _: None)
    return judge, divisions, best


@pytest.mark.parametrize(("seed", "kind"), [(2, "weighted"), (3, "multiple")])
def test_a_third_of_all_divisions_has_the_best_of_them(seed: int, kind: str) -> None:
    judge, divisions, best = searched(seed, kind)
    rows = [judge.value(divisions.division(counts)) for counts in every(divisions.space)]
    assert len(rows) == divisions.space.size == 100
    assert best.value == pytest.approx(max(row.value for row in rows), rel=0.01)
    assert best.value > judge.value(divisions.division(divisions.solved)).value
    assert len(judge.asked_for) <= 4 * 8
    fewest = min(sum(map(sum, row.division)) for row in rows if row.rank == best.rank)
    assert sum(map(sum, best.division)) == fewest


def test_no_division_is_judged_twice_and_the_first_are_the_programmes_and_its_neighbours() -> None:
    judge, divisions, _ = searched(3, "multiple")
    assert len(set(judge.asked_for)) == len(judge.asked_for)
    first = divisions.division(divisions.solved)
    assert judge.asked_for[0] == first == ((24, 8), (0, 8))
    for division in judge.asked_for[1:6]:
        moved = [n - m for row, start in zip(division, first, strict=True) for n, m in zip(row, start, strict=True)]
        assert sorted(n for n in moved if n) in ([8], [-8, 8])
    assert {g for row in judge.asked_for for g in map(sum, zip(*row, strict=True))} <= set(range(0, 25, 8))


def test_the_same_seed_asks_for_the_same_divisions_another_one_for_others() -> None:
    first, again = searched(3, "multiple")[0].asked_for, searched(3, "multiple", rounds=2)[0].asked_for
    assert first[: len(again)] == again
    assert len(again) == 16
    assert searched(4, "multiple", rounds=1)[0].asked_for[6:] != first[6:8]


SPARE = [((16, 8), (0, 8)), ((8, 8), (0, 8)), ((0, 8), (0, 8))]


@pytest.mark.parametrize("better", [False, True])
def test_of_equal_divisions_the_programmes_stays_and_of_better_ones_that_with_fewest_gpus(better: bool) -> None:
    class Level(Drawn):
        """Every division is worth as much as any; `better`: but for the programme's."""

        def judge(self, division: Division) -> JudgedDivision:
            rate = 2.0 if better and division != ((24, 8), (0, 8)) else 1.0
            return self._planned.judged(division, (None,) * 2, (rate, rate))

    fleet = fleet_of(rounds=1)
    judge = Level(fleet, 0)
    divisions = searching.FleetDivisions(fleet, judge.deployments, [{"H20": 24, "H200": 8}, {"H200": 8}])
    judgements = searching._Judgements(divisions, judge)
    for division in SPARE:
        judgements.of(divisions.layout(tuple(tuple(n // 8 for n in row) for row in division)))
    best = searching._best(divisions, judgements, fleet, judge.deployments, lambda _: None)
    assert best.division == (SPARE[-1] if better else ((24, 8), (0, 8)))


@pytest.fixture
def space() -> DivisionSpace:
    stocks = (Stock(gpu="H20", units=5, unit=8), Stock(gpu="H200", units=3, unit=8))
    return DivisionSpace(stocks=stocks, deployments=("a", "b-1", "b_1"))


def test_divisions_and_points_and_layouts_are_one_and_the_same(space: DivisionSpace) -> None:
    seen = set()
    for counts in every(space):
        point = space.point(counts)
        assert space.counts(point) == counts
        assert space.canonical(point) == point == space.encode(space.layout(point))
        seen.add(space.layout(point))
    assert len(seen) == space.size == math.comb(8, 3) * math.comb(6, 3)
    assert len({axis.name for axis in space.parameters}) == 6


def test_points_between_divisions_are_rounded_within_the_nodes(space: DivisionSpace) -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        point = {axis.name: float(rng.uniform(axis.low, axis.high)) for axis in space.parameters}
        counts = space.counts(point)
        assert all(n >= 0 for row in counts for n in row)
        for stock, limit, used in zip(space.stocks, space.limits, map(sum, zip(*counts, strict=True)), strict=True):
            assert used <= stock.units
            if sum(point[name] for name in limit.names) >= stock.units + 1.5:
                assert used == stock.units
            if sum(point[name] for name in limit.names) <= stock.units - 1.5:
                assert abs(used - sum(point[name] for name in limit.names)) <= 1.5


def test_first_looks_and_draws_use_every_node(space: DivisionSpace) -> None:
    rng = np.random.default_rng(1)
    points = [*space.spread(64, rng), *(space.sample(rng) for _ in range(64))]
    assert {tuple(map(sum, zip(*space.counts(point), strict=True))) for point in points} == {(5, 3)}
    assert len({space.layout(point) for point in points}) > 60


def test_gpus_beside_whole_nodes_stay_where_they_were() -> None:
    fleet = fleet_of()
    odd = [{"H20": 20, "H200": 8}, {"H20": 4}]
    divisions = searching.FleetDivisions(fleet, deployments_of(fleet), odd)
    assert divisions.solved == ((2, 1), (0, 0))
    assert divisions.division(((0, 2), (3, 1))) == ((4, 16), (28, 8))


def test_streams_at_high_rates_have_requests_for_half_a_minute() -> None:
    """A thousand requests at hundreds a second are over before an overload shows."""
    fleet = fleet_of()
    planned = PlannedDeployments(fleet, deployments_of(fleet), lambda _: pytest.fail("nothing is planned"))
    divided = SimpleNamespace(value=1.0, pricing=SimpleNamespace(needed=lambda value: [10.0 * value, 500.0 * value]))
    judge, search = searching._judge_of(cast("DividedFleet", divided), planned, lambda plan, _: plan, 3)
    assert isinstance(judge, ReplayedDivisions)
    assert judge._streams.requests == (10_000, 15_000)
    assert judge._fresh.requests == (20_000, 30_000)
    assert not {*judge._streams.seeds} & {*judge._fresh.seeds}
    assert search.requests == 15_000
