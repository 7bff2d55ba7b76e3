"""How candidates are drawn and ranked: moves that stay where they should, and expected improvement as theory has it."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm
from search_cases import inventory, search

from planner.domain import IslandClass, Layout, SearchMethod, Surrogate
from planner.proposing.search import space_of
from planner.proposing.search.neighbours import Move, Neighbour, moves_of, neighbours
from planner.proposing.search.promise import CandidateSet, log_expected_improvement, most_promising, ranking
from planner.proposing.search.surrogate import SumOfTypes, recipe

COUNTS = {"H200": 64, "H20": 96, "H800": 32}


def test_expected_improvement_is_the_integral() -> None:
    best = 1.5
    for mean, deviation in [(0.0, 1.0), (2.0, 0.5), (1.5, 2.0), (-2.0, 0.9), (-6.0, 1.3)]:
        whole, _ = quad(lambda f, m=mean, d=deviation: (f - best) * norm.pdf(f, m, d), best, best + 20 * deviation)
        found = log_expected_improvement(np.array([mean]), np.array([deviation]), best)[0]
        assert found == pytest.approx(np.log(whole), rel=1e-6)


@given(st.floats(-1e5, 10), st.floats(1e-3, 1e3))
def test_expected_improvement_grows_with_the_mean_and_stays_finite(z: float, deviation: float) -> None:
    means = deviation * np.array([z, z + 0.1])
    low, high = log_expected_improvement(means, np.full(2, deviation), 0.0)
    assert np.isfinite([low, high]).all()
    assert high > low


def test_far_below_the_best_it_follows_the_known_expansion() -> None:
    z = np.array([-50.0, -500.0])
    expansion = norm.logpdf(z) - 2 * np.log(-z)  # phi(z) / z^2 to leading order
    assert log_expected_improvement(z, np.ones(2), 0.0) == pytest.approx(expansion, abs=2e-3)


def candidate(size: int) -> Neighbour:
    return Neighbour(point={"size": float(size)}, layout=Layout.of([IslandClass(gpu="H20", size=size)]))


def candidates(means: dict[int, float], deviations: Sequence[float] | None = None) -> CandidateSet:
    deviation = np.array([deviations or [1.0] * len(means)]).T
    mean = np.array([[mean] for mean in means.values()])
    return CandidateSet(candidates=[candidate(size) for size in means], mean=mean, deviation=deviation)


def apart(one: Neighbour, other: Neighbour) -> bool:
    return abs(one.point["size"] - other.point["size"]) > 1


def chosen_of(sets: Sequence[CandidateSet], count: int, best: float = 2.0) -> list[float]:
    chosen = most_promising(sets, count, np.array([[best]]), apart, np.random.default_rng(0))
    return [one.point["size"] for one in chosen]


def test_the_best_of_each_set_comes_first_and_then_the_best_of_all() -> None:
    sets = [candidates({2: 1.0, 4: 3.0, 6: 2.9}), candidates({8: 0.5, 10: 2.0}), candidates({12: 0.0})]
    assert chosen_of(sets, 3) == [4.0, 10.0, 12.0]
    assert chosen_of(sets, 2) == [4.0, 10.0]
    assert chosen_of(sets, 6) == [4.0, 10.0, 12.0, 6.0, 2.0, 8.0]


def test_what_lies_too_near_to_a_choice_is_left_out() -> None:
    assert chosen_of([candidates({4: 3.0, 5: 2.9, 8: 1.0})], 3) == [4.0, 8.0]
    assert chosen_of([candidates({4: 3.0}), candidates({4: 3.0})], 2) == [4.0]


def test_what_is_less_sure_promises_more_at_the_same_mean() -> None:
    assert chosen_of([candidates({2: 1.0, 4: 1.0}, [0.1, 2.0])], 1, best=1.0) == [4.0]


def test_one_goal_ranks_by_value_and_several_put_the_frontier_first() -> None:
    rng = np.random.default_rng(0)
    assert ranking(np.array([[1.0], [3.0], [2.0]]), rng) == [1, 2, 0]
    values = np.array([[0.0, 0.0], [10.0, 1.0], [1.0, 10.0], [7.0, 7.0], [2.0, 2.0]])
    firsts = {ranking(values, rng)[0] for _ in range(200)}
    assert firsts == {1, 2, 3}


@pytest.mark.parametrize("method", [SearchMethod.DIVIDER, SearchMethod.DIRECT])
@pytest.mark.parametrize("rents", [False, True])
def test_neighbours_are_new_canonical_and_in_the_box(method: SearchMethod, rents: bool) -> None:
    space, rng = space_of(inventory(COUNTS), search(method), rents), np.random.default_rng(0)
    ranked = [space.canonical(space.sample(rng)) for _ in range(12)]
    known = {space.layout(point) for point in ranked}
    for move in moves_of(space):
        found = neighbours(space, ranked, known, move, 40, rng)
        assert found
        assert len({one.layout for one in found}) == len(found)
        for one in found:
            assert one.layout not in known
            assert space.canonical(one.point) == one.point
            assert space.layout(one.point) == one.layout
            assert all(axis.low <= one.point[axis.name] <= axis.high for axis in space.parameters)


def test_a_step_of_one_type_leaves_the_others() -> None:
    space, rng = space_of(inventory(COUNTS), search(SearchMethod.DIVIDER)), np.random.default_rng(0)
    start = space.canonical(space.sample(rng))
    moves = moves_of(space)
    assert [types for _, types in moves[:3]] == [("H200",), ("H20",), ("H800",)]
    for move in moves[:3]:
        for one in neighbours(space, [start], set(), move, 20, rng):
            moved = {axis.gpu for axis in space.parameters if one.point[axis.name] != start[axis.name]}
            assert moved <= set(move[1])


def test_a_mixture_takes_types_from_known_points() -> None:
    space, rng = space_of(inventory(COUNTS), search(SearchMethod.DIVIDER)), np.random.default_rng(0)
    ranked = [space.canonical(space.sample(rng)) for _ in range(8)]
    (mixture,) = [move for move in moves_of(space) if move[0] is Move.MIXTURE]
    found = neighbours(space, ranked, set(), mixture, 60, rng)
    own = {axis.gpu: [a.name for a in space.parameters if a.gpu == axis.gpu] for axis in space.parameters}

    def kept(one: Neighbour) -> int:
        return sum(
            any(all(one.point[name] == source[name] for name in names) for source in ranked) for names in own.values()
        )

    assert min(kept(one) for one in found) >= len(COUNTS) - 1


def test_a_single_type_has_no_mixtures() -> None:
    space = space_of(inventory({"H20": 64}), search(SearchMethod.DIVIDER))
    assert moves_of(space) == [(Move.STEP, ("H20",))]


def test_the_kernel_learns_sums_over_types_from_fewer_points() -> None:
    """Truth: a sum of two functions of two coordinates each, rough enough for 40 points to be few."""
    rng = np.random.default_rng(0)

    def truth(x: np.ndarray) -> np.ndarray:
        return np.sin(7 * x[:, 0]) * x[:, 1] + np.cos(5 * x[:, 2] + 3 * x[:, 3])

    points, others = rng.random((40, 4)), rng.random((200, 4))
    errors = []
    for kernel in (SumOfTypes([[0, 1], [2, 3]]), None):
        observed = torch.tensor(truth(points))[:, None]
        model = SingleTaskGP(torch.tensor(points), observed, torch.full_like(observed, 1e-6), covar_module=kernel)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        mean = model.posterior(torch.tensor(others)).mean.detach().numpy()[:, 0]
        errors.append(np.sqrt(np.mean((mean - truth(others)) ** 2)))
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize("surrogate", Surrogate)
def test_several_goals_are_judged_by_their_hypervolume(surrogate: Surrogate) -> None:
    one, three, five = (recipe(surrogate, [[0, 1]], 0, goals) for goals in (1, 3, 5))
    assert one.acquisition_class.__name__ == "qLogExpectedImprovement"
    assert three.acquisition_class is five.acquisition_class
    assert three.acquisition_class.__name__ == "qLogNoisyExpectedHypervolumeImprovement"
    assert not three.acquisition_options
    assert five.acquisition_options
