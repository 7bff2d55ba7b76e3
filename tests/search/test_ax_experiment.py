"""The Ax experiment behind Bayesian search: every trial with its data, stored and reloaded as Ax does it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from ax.adapter.registry import Cont_X_trans, Y_trans
from ax.core.base_trial import TrialStatus
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.generators.torch.botorch_modular import utils as ax_models
from ax.storage.json_store.load import load_experiment
from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP
from scipy.stats import norm
from search_cases import Bowl, inventory, search

from planner.domain import Candidates, Goal, SearchMethod, Surrogate, Trial
from planner.proposing.search import space_of
from planner.proposing.search.experiment import AxProposer, _fitted
from planner.proposing.search.neighbours import moves_of, neighbours
from planner.proposing.search.space import Space
from planner.proposing.search.surrogate import recipe, reproducible

COUNTS = {"H200": 64, "GB200-NVL72": 72}
WISHES = {"H200": (5, 0.4), "GB200-NVL72": (3, 0.8)}
TWO_GOALS = (Goal.RATE, Goal.PRICE)
REFERENCE = (0.0, 150.0)


def trials_of(space: Space, points: Sequence[dict[str, float]], iteration: int = 0) -> list[Trial]:
    """What the bowl says of canonical points; the price of a layout is its GPUs."""
    bowl = Bowl(WISHES)
    trials = []
    for index, point in enumerate(space.canonical(point) for point in points):
        layout = space.layout(point)
        gpus = float(sum(island.size * count for island, count in layout.counts))
        trials.append(
            Trial(
                index=index,
                iteration=iteration,
                parameters=tuple(sorted(point.items())),
                layout=layout,
                throughput_rps=bowl.rate(layout),
                generator="test",
                goals=(("rate", bowl.rate(layout)), ("price", gpus)),
            )
        )
    return trials


def proposer_of(
    method: SearchMethod = SearchMethod.DIVIDER,
    surrogate: Surrogate = Surrogate.GP,
    goals: tuple[Goal, ...] = (),
) -> AxProposer:
    settings = search(method, surrogate=surrogate, slots=2)
    return AxProposer(space_of(inventory(COUNTS), settings), settings, goals, REFERENCE if goals else ())


def test_neighbours_are_ranked_by_what_ax_predicts_of_them() -> None:
    """The order of the model's own expected improvement is that of Ax's predictions in requests/s."""
    proposer, rng = proposer_of(), np.random.default_rng(0)
    told(proposer, 12)
    space, values = proposer.space, np.array(proposer.values)
    drawn = neighbours(space, proposer.points, set(), moves_of(space)[0], 200, rng)
    with reproducible(0):
        fitted = recipe(Surrogate.GP, proposer._groups(), 0)
        adapter = _fitted(proposer.experiment, fitted, transforms=[*Cont_X_trans, *Y_trans])
        scores = proposer._scores(adapter, drawn, values, rng)
        mean, covariance = adapter.predict([ObservationFeatures(parameters=dict(one.point)) for one in drawn])
    deviation = np.sqrt(covariance["throughput_rps"]["throughput_rps"])
    z = (np.array(mean["throughput_rps"]) - values.max()) / deviation
    near = z > -5  # further out the plain formula drowns in rounding
    assert near.sum() > 3
    due = np.log(deviation[near] * (norm.pdf(z[near]) + z[near] * norm.cdf(z[near])))
    assert np.ptp(np.array(scores)[near] - due) < 1e-6


@pytest.mark.parametrize("goals", [(), TWO_GOALS])
def test_the_plain_loop_climbs_to_every_candidate(goals: tuple[Goal, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    shares = []
    for candidates in Candidates:
        proposer = proposer_of(goals=goals)
        proposer.settings = replace(proposer.settings, candidates=candidates)
        told(proposer)
        looked: list[int] = []
        monkeypatch.setattr(proposer, "_near", lambda _adapter, count, *_, looked=looked: looked.append(count) or [])
        shares.append((len(proposer.propose(4, 0, np.random.default_rng(0))), looked))
    assert shares == [(1, [3]), (4, [])]


def told(proposer: AxProposer, count: int = 6) -> list[Trial]:
    """The proposer is told `count` points of its space."""
    trials = trials_of(proposer.space, proposer.space.spread(count, np.random.default_rng(1)))
    proposer.tell(trials)
    return trials


@pytest.mark.parametrize("method", [SearchMethod.DIVIDER, SearchMethod.DIRECT])
def test_every_round_is_a_completed_trial_with_data(method: SearchMethod) -> None:
    proposer, rng = proposer_of(method), np.random.default_rng(0)
    points = proposer.space.spread(5, rng)
    rates: list[float] = []
    for iteration in range(2):
        trials = trials_of(proposer.space, points, iteration)
        proposer.tell(trials)
        rates += [trial.throughput_rps for trial in trials]
        points = proposer.propose(4, iteration, rng)
        assert 0 < len(points) <= 4
    experiment, bowl = proposer.experiment, Bowl(WISHES)
    assert [trial.status.name for trial in experiment.trials.values()] == ["COMPLETED"] * 2
    table = experiment.lookup_data().df
    assert sorted(table["mean"]) == pytest.approx(sorted(rates))
    assert set(table["arm_name"]) == set(experiment.arms_by_name)
    for name, arm in experiment.arms_by_name.items():
        rate = table.loc[table["arm_name"] == name, "mean"].item()
        assert rate == pytest.approx(bowl.rate(proposer.space.layout(arm.parameters)))


def test_sum_constraints_reach_ax_under_names_with_hyphens() -> None:
    proposer = proposer_of(SearchMethod.DIRECT)
    constraints = proposer.experiment.search_space.parameter_constraints
    assert sorted(one.bound for one in constraints) == [64, 72]
    for one, limit in zip(constraints, proposer.space.limits, strict=True):
        assert one.constraint_dict == dict.fromkeys(limit.names, 1.0)
    assert set(proposer.experiment.search_space.parameters) == {axis.name for axis in proposer.space.parameters}


@pytest.mark.parametrize("surrogate", [Surrogate.GP, Surrogate.SAASBO_MAP])
@pytest.mark.parametrize("method", [SearchMethod.DIVIDER, SearchMethod.DIRECT])
def test_proposals_are_new_layouts_within_the_box(method: SearchMethod, surrogate: Surrogate) -> None:
    proposer = proposer_of(method, surrogate)
    known = {trial.layout for trial in told(proposer)}
    space, points = proposer.space, proposer.propose(8, 1, np.random.default_rng(2))
    for point in points:
        assert all(axis.low - 1e-9 <= point[axis.name] <= axis.high + 1e-9 for axis in space.parameters)
    near = [space.layout(space.canonical(point)) for point in points[1:]]
    assert len(near) >= 6
    assert len(set(near)) == len(near)
    assert not known & set(near)


def test_sparse_models_propose_from_the_draws_of_their_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler itself compiles for half a minute: it is run by `make study`."""
    runs: list[dict[str, object]] = []

    def eight_draws(model: SaasFullyBayesianSingleTaskGP, **options: object) -> None:
        runs.append(options)
        scales = torch.rand(8, model.pyro_model.train_X.shape[-1], dtype=torch.double) + 0.2
        draws = {"mean": scales[:, 0], "outputscale": scales[:, 1], "lengthscale": scales}
        model.load_mcmc_samples(draws)
        model.eval()

    monkeypatch.setattr(ax_models, "fit_fully_bayesian_model_nuts", eight_draws)
    proposer = proposer_of(SearchMethod.DIRECT, Surrogate.SAASBO)
    told(proposer)
    points = proposer.propose(4, 1, np.random.default_rng(2))
    assert len(points) >= 3
    for point in points:
        assert all(axis.low - 1e-9 <= point[axis.name] <= axis.high + 1e-9 for axis in proposer.space.parameters)
    (options,) = runs
    assert set(options) == {"disable_progbar", "seed"}  # its numbers of draws are the library's
    assert isinstance(options["seed"], int)
    again = proposer_of(SearchMethod.DIRECT, Surrogate.SAASBO)
    told(again)
    assert again.propose(4, 1, np.random.default_rng(2)) == points
    assert runs[1] == options


@pytest.mark.parametrize("goals", [(), TWO_GOALS])
def test_what_was_told_and_the_generator_decide_the_proposals(goals: tuple[Goal, ...]) -> None:
    once, again = proposer_of(goals=goals), proposer_of(goals=goals)
    told(once)
    told(again)
    first = once.propose(2, 1, np.random.default_rng(3))
    assert again.propose(2, 1, np.random.default_rng(3)) == first
    assert again.propose(2, 1, np.random.default_rng(4)) != first


def test_nothing_is_compiled_for_several_goals(tmp_path: Path) -> None:
    """BoTorch would compile a kernel and wait for the lock of a killed compiler, here and on every later search."""
    lock = tmp_path / "logei_fused_ext" / "lock"
    lock.parent.mkdir()
    lock.touch()
    script = "from test_ax_experiment import *; p = proposer_of(goals=TWO_GOALS); told(p); "
    script += "print(len(p.propose(2, 1, np.random.default_rng(3))))"
    environment = os.environ | {
        "TORCH_EXTENSIONS_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split()[-1] == "2"
    assert [path.name for path in lock.parent.iterdir()] == ["lock"]


def test_a_point_told_twice_in_a_round_is_one_arm() -> None:
    proposer = proposer_of()
    point = proposer.space.canonical(proposer.space.sample(np.random.default_rng(0)))
    proposer.tell(trials_of(proposer.space, [point, point]))
    assert len(proposer.experiment.lookup_data().df) == 1


def test_an_evaluation_that_broke_off_is_an_abandoned_arm_without_data() -> None:
    proposer = proposer_of()
    good, bad = trials_of(proposer.space, proposer.space.spread(2, np.random.default_rng(0)))
    broken = Trial(
        index=1,
        iteration=0,
        parameters=bad.parameters,
        layout=bad.layout,
        throughput_rps=0.0,
        generator="test",
        error="out of memory",
        failed=True,
    )
    proposer.tell([good, broken])
    (batch,) = proposer.experiment.trials.values()
    (abandoned,) = batch.abandoned_arms
    assert dict(abandoned.parameters) == dict(bad.parameters)
    assert batch.abandoned_arms_metadata[0].reason == "out of memory"
    assert len(proposer.experiment.lookup_data().df) == 1


def test_layouts_without_a_point_are_not_told() -> None:
    proposer = proposer_of()
    (trial,) = trials_of(proposer.space, proposer.space.spread(1, np.random.default_rng(0)))
    outside = Trial(index=0, iteration=0, parameters=(), layout=trial.layout, throughput_rps=1.0, generator="exact")
    proposer.tell([outside])
    assert proposer.experiment.trials == {}
    assert not proposer.ready


@pytest.mark.parametrize("goals", [(), TWO_GOALS])
def test_ax_reloads_what_was_saved(goals: tuple[Goal, ...], tmp_path: Path) -> None:
    proposer = proposer_of(goals=goals)
    told(proposer)
    (tmp_path / "experiment.json").write_bytes(proposer.saved())
    found = load_experiment(str(tmp_path / "experiment.json"))
    assert isinstance(found, Experiment)
    assert found.search_space == proposer.experiment.search_space
    assert found.optimization_config == proposer.experiment.optimization_config
    assert [trial.status for trial in found.trials.values()] == [TrialStatus.COMPLETED]
    mine, theirs = proposer.experiment.lookup_data().df, found.lookup_data().df
    assert theirs["mean"].tolist() == pytest.approx(mine["mean"].tolist(), rel=1e-9)  # Ax writes ten decimals
    arms = {name: arm.parameters for name, arm in proposer.experiment.arms_by_name.items()}
    assert {name: arm.parameters for name, arm in found.arms_by_name.items()} == arms


def test_equal_experiments_are_saved_as_equal_bytes() -> None:
    saved = []
    for _ in range(2):
        proposer = proposer_of()
        told(proposer)
        saved.append(proposer.saved())
    assert saved[0] == saved[1]
    assert "1970" in json.loads(saved[0])["time_created"]["value"]


def test_several_goals_are_ax_objectives_with_thresholds() -> None:
    proposer = proposer_of(goals=TWO_GOALS)
    config = proposer.experiment.optimization_config
    assert config.is_moo_problem
    assert config.objective.expression == "rate, -price"
    assert {(one.metric_names[0], one.bound) for one in config.objective_thresholds} == {
        ("rate", 0.0),
        ("price", 150.0),
    }


def test_what_serves_nothing_is_told_as_no_use_in_any_goal() -> None:
    proposer = proposer_of(goals=TWO_GOALS)
    (trial,) = trials_of(proposer.space, proposer.space.spread(1, np.random.default_rng(0)))
    nothing = Trial(
        index=0, iteration=0, parameters=trial.parameters, layout=trial.layout, throughput_rps=0.0, generator="test"
    )
    proposer.tell([nothing])
    table = proposer.experiment.lookup_data().df.set_index("metric_name")["mean"]
    assert table.to_dict() == {"rate": 0.0, "price": 150.0}
