"""CPU-seconds of candidate generation, ours against Ax's default client, in one run on the same trials."""

import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig

from planner.domain import Inventory, Question, Scenario, SearchSettings, Trial, Workload
from planner.evaluation.evaluator import Evaluator
from planner.files import load_scenario, shipped_scenarios
from planner.proposing.search import space_of
from planner.proposing.search.experiment import AxProposer
from planner.workload import divide, summarize

pytestmark = pytest.mark.bench

BATCH = 16


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario(shipped_scenarios()["azure-code-512usd"], summarize)


def cpu_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def judged(scenario: Scenario, workload: Workload, rounds: int) -> list[Trial]:
    """Layouts spread over the space, judged."""
    space, rng = space_of(scenario.inventory, scenario.search), np.random.default_rng(0)
    points = [space.canonical(point) for point in space.spread(BATCH * rounds, rng)]
    found = Evaluator(Question(scenario=scenario, workload=workload))([space.layout(point) for point in points])
    return [
        Trial(
            index=index,
            iteration=index // BATCH,
            parameters=tuple(sorted(point.items())),
            layout=evaluation.layout,
            throughput_rps=evaluation.throughput_rps,
            generator="spread",
        )
        for index, (point, evaluation) in enumerate(zip(points, found, strict=True))
    ]


def ours(inventory: Inventory, settings: SearchSettings, trials: list[Trial]) -> float:
    proposer = AxProposer(space_of(inventory, settings), settings)
    proposer.tell(trials)
    return cpu_seconds(lambda: proposer.propose(BATCH, 1, np.random.default_rng(0)))


def default_client(inventory: Inventory, settings: SearchSettings, trials: list[Trial]) -> float:
    """The space as one would write it down: counts as integers."""
    client = Client(random_seed=0)
    axes = space_of(inventory, settings).parameters
    client.configure_experiment(
        [
            RangeParameterConfig(
                name=axis.name, parameter_type="int" if axis.whole else "float", bounds=(axis.low, axis.high)
            )
            for axis in axes
        ]
    )
    client.configure_optimization("throughput_rps")
    whole = {axis.name for axis in axes if axis.whole}
    for trial in trials:
        point = {name: int(value) if name in whole else value for name, value in trial.parameters}
        index = client.attach_trial(point)
        client.complete_trial(index, {"throughput_rps": (trial.throughput_rps, 0.0)})
    return cpu_seconds(lambda: client.get_next_trials(BATCH))


@pytest.mark.long
@pytest.mark.parametrize("rounds", [2, 8])
def test_a_round_of_candidates_against_the_default_client(scenario: Scenario, rounds: int) -> None:
    workload = divide(scenario.workload, scenario.ranges.width)
    trials = judged(scenario, workload, rounds)
    ours(scenario.inventory, scenario.search, trials)  # imports and first use
    mine = ours(scenario.inventory, scenario.search, trials)
    theirs = default_client(scenario.inventory, scenario.search, trials)
    sys.stdout.write(
        f"\na round of {BATCH} after {len(trials)} layouts: Ax's default client / ours = {theirs / mine:.0f} "
        f"({theirs:.1f} and {mine:.2f} CPU-seconds)\n"
    )
    assert mine < theirs
