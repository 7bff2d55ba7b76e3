"""The Ax experiment behind Bayesian search: it holds every trial with its data, in a space with sum constraints."""

import numpy as np
import pytest
from search_cases import Bowl, inventory, search

from planner.domain import SearchMethod
from planner.search import space_of
from planner.search.experiment import AxProposer

COUNTS = {"H200": 64, "GB200-NVL72": 72}
WISHES = {"H200": (5, 0.4), "GB200-NVL72": (3, 0.8)}


@pytest.mark.parametrize("method", [SearchMethod.DIVIDER, SearchMethod.DIRECT])
def test_every_round_is_a_completed_trial_with_data(method: SearchMethod) -> None:
    settings = search(method, slots=2)
    space, rng, bowl = space_of(inventory(COUNTS), settings), np.random.default_rng(0), Bowl(WISHES)
    proposer = AxProposer(space, settings)
    told: list[float] = []
    points = space.spread(5, rng)
    for count in (4, 3):
        points = [space.canonical(point) for point in points]
        evaluations = bowl([space.layout(point) for point in points])
        proposer.tell(points, evaluations)
        told += [evaluation.throughput_rps for evaluation in evaluations]
        points = proposer.propose(count, rng)
        assert len(points) == count
    experiment = proposer.experiment
    assert [trial.status.name for trial in experiment.trials.values()] == ["COMPLETED"] * 2
    table = experiment.lookup_data().df
    assert sorted(table["mean"]) == pytest.approx(sorted(told))
    assert set(table["arm_name"]) == set(experiment.arms_by_name)
    for trial in experiment.trials.values():
        for arm in trial.arms:
            rate = table.loc[table["arm_name"] == arm.name, "mean"].item()
            assert rate == pytest.approx(bowl.rate(space.layout(arm.parameters)))


def test_sum_constraints_reach_ax_under_names_with_hyphens() -> None:
    settings = search(SearchMethod.DIRECT, slots=3)
    space = space_of(inventory(COUNTS), settings)
    experiment = AxProposer(space, settings).experiment
    constraints = experiment.search_space.parameter_constraints
    assert sorted(one.bound for one in constraints) == [64, 72]
    for one, limit in zip(constraints, space.limits, strict=True):
        assert one.constraint_dict == dict.fromkeys(limit.names, 1.0)
    assert set(experiment.search_space.parameters) == {axis.name for axis in space.parameters}


def test_proposals_keep_the_sum_constraint() -> None:
    settings = search(SearchMethod.DIRECT, slots=2)
    space, rng = space_of(inventory(COUNTS), settings), np.random.default_rng(1)
    proposer, bowl = AxProposer(space, settings), Bowl(WISHES)
    points = [space.canonical(point) for point in space.spread(6, rng)]
    proposer.tell(points, bowl([space.layout(point) for point in points]))
    for point in proposer.propose(4, rng):
        assert all(axis.low <= point[axis.name] <= axis.high for axis in space.parameters)
        assert all(sum(point[name] for name in limit.names) <= limit.most + 1e-6 for limit in space.limits)


def test_a_point_told_twice_in_a_round_is_one_arm() -> None:
    settings = search(SearchMethod.DIVIDER)
    space, bowl = space_of(inventory(COUNTS), settings), Bowl(WISHES)
    point = space.canonical(space.sample(np.random.default_rng(0)))
    proposer = AxProposer(space, settings)
    proposer.tell([point, point], bowl([space.layout(point)] * 2))
    assert len(proposer.experiment.lookup_data().df) == 1
