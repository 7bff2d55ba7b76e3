"""What every baseline owes the outer loop, whatever the encoding, the inventory and the number of goals."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from search_cases import OF_COUNTS, Bowl, Remembering, inventory, search, used

from planner.domain import (
    Encoding,
    Evaluation,
    Goal,
    Layout,
    ObjectiveKind,
    ObjectiveSettings,
    SearchMethod,
    SizeSet,
    admits,
)
from planner.domain import SearchSettings as Settings
from planner.proposing.search import Aim, SearchResult, optimize, space_of
from planner.proposing.search.proposers import proposer_of

BASELINES = (SearchMethod.RANDOM, SearchMethod.SOBOL, SearchMethod.GRID, SearchMethod.GENETIC)
MIXED = {"H200": 64, "GB200-NVL72": 72}
WISHES = {"H200": (5, 0.4), "GB200-NVL72": (3, 0.8)}
TINY = {"H20": 7, "A100": 5}
GOALS = (Goal.RATE, Goal.PRICE)
SEVERAL = Aim(objective=ObjectiveSettings(kind=ObjectiveKind.PARETO, goals=GOALS), reference=(0.0, 200.0))

every_method = pytest.mark.parametrize("method", BASELINES)
every_encoding = pytest.mark.parametrize("encoding", OF_COUNTS)
every_aim = pytest.mark.parametrize("aim", [pytest.param(Aim(), id="rate"), pytest.param(SEVERAL, id="goals")])


class Priced(Bowl):
    """A GPU costs one USD/hour."""

    def __call__(self, layouts: Sequence[Layout], /) -> list[Evaluation]:
        return [
            replace(one, goals=(("rate", one.throughput_rps), ("price", float(sum(used(one.layout).values())))))
            for one in super().__call__(layouts)
        ]


def run(
    settings: Settings, aim: Aim, journal: Remembering | None = None, counts: Mapping[str, int] = MIXED
) -> SearchResult:
    judge = Priced({gpu: WISHES.get(gpu, (2, 0.5)) for gpu in counts})
    return optimize(inventory(counts), settings, judge, aim=aim, journal=journal)


@every_method
@every_encoding
@every_aim
def test_a_search_resumed_anywhere_ends_as_if_never_interrupted(
    method: SearchMethod, encoding: Encoding, aim: Aim
) -> None:
    settings = search(method, encoding=encoding, iterations=4, batch_size=3)
    whole = Remembering()
    result = run(settings, aim, whole)
    assert run(settings, aim) == result
    assert not any(one.note for one in result.record.rounds)
    assert len(whole.entries) == 4 + 12
    for known in range(0, len(whole.entries), 3):  # a round is four entries: each of its places comes up
        resumed = whole.upto(known)
        assert run(settings, aim, resumed) == result
        assert resumed.entries[:known] == whole.entries[:known]
        assert [e.trial for e in resumed.entries if hasattr(e, "trial")] == list(result.record.trials)


@every_method
@every_encoding
def test_seeds_tell_searches_apart(method: SearchMethod, encoding: Encoding) -> None:
    settings = search(method, encoding=encoding, iterations=3, batch_size=4)
    trials = run(settings, Aim()).record.trials
    assert run(replace(settings, seed=1), Aim()).record.trials != trials
    assert {trial.generator for trial in trials} >= {method.value}


@every_method
@every_encoding
@every_aim
@pytest.mark.parametrize("counts", [MIXED, TINY, {"H20": 2}])
def test_proposals_lie_in_the_space(
    method: SearchMethod, encoding: Encoding, aim: Aim, counts: Mapping[str, int]
) -> None:
    settings = search(method, encoding=encoding, iterations=4, batch_size=8)
    space = space_of(inventory(counts), settings, aim.objective.rents)
    goals = GOALS if aim is SEVERAL else ()
    trials = run(settings, aim, counts=counts).record.trials
    proposer, twin = proposer_of(space, settings, goals), proposer_of(space, settings, goals)
    for iteration in range(4):
        if proposer.ready:
            points = proposer.propose(8, iteration, np.random.default_rng(iteration))
            assert points == twin.propose(8, iteration, np.random.default_rng(iteration))
            for point in points:
                assert set(point) == {axis.name for axis in space.parameters}
                assert all(axis.low <= point[axis.name] <= axis.high for axis in space.parameters)
                assert all(sum(point[name] for name in one.names) <= one.upper + 1e-9 for one in space.limits)
        told = [trial for trial in trials if trial.iteration == iteration]
        proposer.tell(told)
        twin.tell(told)
    for trial in trials:
        assert all(count <= counts[gpu] for gpu, count in used(trial.layout).items())
        assert space.layout(dict(trial.parameters)) == trial.layout


@every_method
@every_encoding
@pytest.mark.parametrize("counts", [{"H200": 64, "GB200-NVL72": 216}, {"H200": 20}, {"H200": 8, "H20": 3}])
def test_islands_are_whole_nodes_where_they_must_be(
    method: SearchMethod, encoding: Encoding, counts: Mapping[str, int]
) -> None:
    settings = search(method, encoding=encoding, iterations=4, batch_size=8, sizes=SizeSet.WHOLE_NODES)
    layouts = [trial.layout for trial in run(settings, Aim(), counts=counts).record.trials]
    islands = {island for layout in layouts for island, _ in layout.counts}
    gpus = {item.gpu.name: item.gpu for item in inventory(counts).items}
    assert all(admits(SizeSet.WHOLE_NODES, gpus[island.gpu], island.size) for island in islands)
    assert {island.gpu for island in islands} == set(counts)
    assert all(used(layout).get(gpu, 0) <= count for layout in layouts for gpu, count in counts.items())


def every_layout(encoding: Encoding, counts: Mapping[str, int]) -> set[Layout]:
    """All layouts of a space with one axis or two, by a fine scan."""
    space = space_of(inventory(counts), search(encoding=encoding, slots=2))
    first, second = space.parameters
    return {
        space.layout({first.name: float(a), second.name: float(b)})
        for a in np.linspace(first.low, first.high, 4 * int(first.high) + 1)
        for b in np.linspace(second.low, second.high, 201)
    }


@every_method
@every_encoding
@pytest.mark.parametrize("counts", [{"H20": 7}, {"H20": 12}])
def test_no_layout_comes_twice_while_there_are_others(
    method: SearchMethod, encoding: Encoding, counts: Mapping[str, int]
) -> None:
    settings = search(method, encoding=encoding, iterations=8, batch_size=8, slots=2)
    layouts = [trial.layout for trial in run(settings, Aim(), counts=counts).record.trials]
    others = every_layout(encoding, counts)
    for place, layout in enumerate(layouts):
        if layout in layouts[:place]:
            assert others <= set(layouts[:place])


@every_method
def test_as_many_evaluations_as_any_other(method: SearchMethod) -> None:
    settings = search(method, iterations=3, batch_size=5)
    record = run(settings, Aim()).record
    assert [one.evaluations for one in record.rounds] == [5, 5, 5]
    assert len(record.trials) == 15
