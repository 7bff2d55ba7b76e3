"""What share of its time a mixture lets an island work, and which further configurations an island may run."""

import numpy as np
import pytest
from cost_figures import gpu, model
from cost_workloads import workload
from hypothesis import example, given
from hypothesis import strategies as st

from planner.cost import Mixture, admitted_shares, largest_share, mixture, tabulate
from planner.cost.parallelism import RARE, WORTH_HAVING, further
from planner.domain import PHASES, CostSettings, Phase, PhasePerformance, SloSettings
from planner.evaluation.goodput import misses_of, slack_ms

LOAD = workload((128, 1024, 4096, 7000), mean_output_tokens=200, max_output_tokens=1000)
SLO = SloSettings(ttft_ms=3000, tpot_ms=50, percentile=99)
ROW = tabulate(gpu("H200"), 8, model=model("deepseek-v3"), workload=LOAD, settings=CostSettings(), slo=SLO)
CHOICES = [(phase, one) for phase in PHASES for one in ROW.choices(phase)]


def slack(phase: Phase, one: PhasePerformance, ranges: list[int]) -> float:
    found = [slack_ms(phase, one, j, LOAD.ranges[j], SLO, 50.0) for j in ranges]
    return min(ms for ms in found if ms is not None)


@pytest.mark.parametrize(("phase", "one"), CHOICES)
def test_a_range_alone_is_admitted_as_the_table_says(phase: Phase, one: PhasePerformance) -> None:
    alone = [
        Mixture(
            phase=phase,
            performance=one,
            busy=tuple(float(j == k) for k in range(len(LOAD.ranges))),
            slack_ms=slack(phase, one, [j]),
        )
        for j in range(len(LOAD.ranges))
    ]
    shares = admitted_shares(alone, LOAD.mean_output_tokens, misses_of(SLO))
    assert shares == pytest.approx(list(one.utilisation_limits), abs=1e-6)


@given(st.sampled_from(CHOICES), st.lists(st.floats(0.01, 1), min_size=4, max_size=4), st.integers(1, 15))
def test_many_mixtures_at_once_are_each_as_one_queue(
    choice: tuple[Phase, PhasePerformance], weights: list[float], served: int
) -> None:
    phase, one = choice
    ranges = [j for j in range(4) if served >> j & 1]
    busy = tuple(weights[j] if j in ranges else 0.0 for j in range(4))
    least = slack(phase, one, ranges)
    asked = Mixture(phase=phase, performance=one, busy=busy, slack_ms=least)
    other = Mixture(phase=phase, performance=one, busy=(1.0, 1.0, 0.0, 0.0), slack_ms=least)
    assert one.parallel is not None
    queue = mixture(
        phase,
        [float(one.parallel.dp * one.batch_sizes[j]) for j in ranges],
        [one.step_ms[j] for j in ranges],
        [weights[j] / sum(weights[k] for k in ranges) for j in ranges],
        LOAD.mean_output_tokens,
    )
    full = 1 - 1e-12
    expected = largest_share(queue, full, least, misses_of(SLO)) * full
    found = admitted_shares([other, asked], LOAD.mean_output_tokens, misses_of(SLO))[1]
    assert found == pytest.approx(expected, abs=1e-6)


def test_what_nothing_bounds_is_admitted_whole() -> None:
    free = Mixture(phase=Phase.PREFILL, performance=ROW.prefill, busy=(1.0,) * 4, slack_ms=float("inf"))
    assert admitted_shares([free], 200.0, 0.01) == [1.0]


@given(
    st.lists(st.lists(st.floats(0, 10), min_size=3, max_size=3), min_size=1, max_size=6),
    st.lists(st.floats(0.001, 1), min_size=3, max_size=3),
)
@example([[5e-324, 1.0, 1.0], [0.0, 1.0, 1.0]], [1.0, 1.0, 1.0])  # the least number above zero, reached at once
@example([[0.0, 1.0, 1.0], [5e-324, 1.0, 1.0]], [1.0, 1.0, 1.0])  # and what nobody else serves
def test_further_configurations_add_something_and_leave_nothing_worth_having(
    rows: list[list[float]], weights: list[float]
) -> None:
    rates, probabilities = np.array(rows), np.array(weights) / sum(weights)
    best = np.where(rates.max(axis=0) > 0, rates.max(axis=0), 1.0)
    counted = np.maximum(probabilities, RARE)
    chosen = [0, *further(rates, probabilities, 0, count=10)]
    assert len(set(chosen)) == len(chosen)
    reached = rates[0]
    for k in chosen[1:]:
        assert (np.maximum(rates[k] - reached, 0) / best * counted).sum() >= WORTH_HAVING * (1 - 1e-9)
        reached = np.maximum(reached, rates[k])
    assert (np.maximum(rates - reached, 0) / best * counted).sum(axis=1).max() < WORTH_HAVING
    assert len(further(rates, probabilities, 0, count=1)) <= 1


def test_a_rare_range_that_nobody_else_serves_is_worth_a_configuration() -> None:
    rates = np.array([[10.0, 0.01], [5.0, 5.0]])
    assert further(rates, np.array([0.999, 0.001]), 0, count=2) == [1]
