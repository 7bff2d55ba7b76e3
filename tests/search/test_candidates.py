"""How candidates are drawn and ranked: moves that stay where they should, and expected improvement as theory has it."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood
from scipy.integrate import quad
from scipy.stats import norm
from search_cases import inventory, search

from planner.domain import IslandClass, Layout, SearchMethod, Surrogate
from planner.proposing.search import space_of
from planner.proposing.search.neighbours import Move, Neighbour, moves_of, neighbours
from planner.proposing.search.promise import Scored, most_promising, ranking
from planner.proposing.search.surrogate import SmoothFunction, SumOfTypes, log_expected_improvement, recipe

COUNTS = {"H200": 64, "H20": 96, "H800": 32}


def test_expected_improvement_is_the_integral_over_each_points_own_best() -> None:
    """By the model's own mean and deviation; `best` far below and far above what is predicted, too."""
    rng = np.random.default_rng(0)
    sites = torch.tensor(rng.random((8, 2)))
    model = SingleTaskGP(sites, torch.sin(5 * sites[:, :1]), torch.full((8, 1), 0.01, dtype=torch.double))
    points, bests = rng.random((5, 2)), np.array([-1.5, 0.0, 0.5, 1.0, 1.2])
    found = log_expected_improvement(model, points, bests)
    with torch.no_grad():
        posterior = model.posterior(torch.tensor(points)[:, None])
    middles, deviations = posterior.mean.flatten().tolist(), posterior.variance.sqrt().flatten().tolist()
    for improvement, best, middle, deviation in zip(found, bests, middles, deviations, strict=True):
        high = max(best, middle) + 20 * deviation
        due, _ = quad(lambda f, b=best, m=middle, d=deviation: (f - b) * norm.pdf(f, m, d), best, high)
        assert improvement == pytest.approx(np.log(due), rel=1e-6)


def test_a_believed_value_moves_the_promise_elsewhere() -> None:
    points = np.array([[0.0], [0.3], [1.0]])
    model = SmoothFunction(points, np.array([-1.0, 1.0, 0.0]), seed=0)
    near, far = np.array([0.33]), np.array([0.7])
    before = model.log_expected_improvement(np.array([near, far]), np.full(2, 1.0))
    assert model.believe(near) == pytest.approx(1.0, abs=0.4)
    after = model.log_expected_improvement(np.array([near, far]), np.full(2, 1.0))
    assert after[0] < before[0] - 1
    assert after[1] > after[0]


def candidate(size: int) -> Neighbour:
    return Neighbour(point={"size": float(size)}, layout=Layout.of([IslandClass(gpu="H20", size=size)]))


def candidates(promises: dict[int, float]) -> list[Scored]:
    return [(promise, candidate(size)) for size, promise in promises.items()]


def apart(one: Neighbour, other: Neighbour) -> bool:
    return abs(one.point["size"] - other.point["size"]) > 1


def chosen_of(sets: Sequence[Sequence[Scored]], count: int) -> list[float]:
    return [one.point["size"] for one in most_promising(sets, count, apart)]


def test_the_best_of_each_set_comes_first_and_then_the_best_of_all() -> None:
    sets = [candidates({2: 1.0, 4: 3.0, 6: 2.9}), candidates({8: 0.5, 10: 2.0}), candidates({12: 0.0})]
    assert chosen_of(sets, 3) == [4.0, 10.0, 12.0]
    assert chosen_of(sets, 2) == [4.0, 10.0]
    assert chosen_of(sets, 6) == [4.0, 10.0, 12.0, 6.0, 2.0, 8.0]


def test_what_lies_too_near_to_a_choice_is_left_out() -> None:
    assert chosen_of([candidates({4: 3.0, 5: 2.9, 8: 1.0})], 3) == [4.0, 8.0]
    assert chosen_of([candidates({4: 3.0}), candidates({4: 3.0})], 2) == [4.0]


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
