"""What is to survive a loss: how near its pools are to their bound, and what is told of bursts meanwhile."""

import pytest
from pipeline_scenarios import bucketed

from planner.evaluation.evaluator import Evaluator
from planner.layouts.buckets.pools import solve_buckets
from planner.workload import question_of

PATIENT = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}


@pytest.mark.parametrize("gpu", ["H800", "H20"])
def test_pools_that_lose_two_nodes_are_near_a_bound_that_knows_of_the_loss(gpu: str) -> None:
    """Queues were priced for what serves where nothing is lost: the bound of 48 H800 was three times the rate."""
    asked = bucketed(
        {gpu: 48},
        model="deepseek-v3",
        workload="azure-code-2023",
        serving="aggregated",
        slo=PATIENT,
        survive={"nodes": 2, "share": 0.8},
    )
    choice = solve_buckets(Evaluator(question_of(asked)))
    assert 0.97 * choice.bound <= choice.priced.rate_rps <= choice.bound * (1 + 1e-6)
