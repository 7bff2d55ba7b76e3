"""Levels of the reference mode: what a prototype reached on the paper's inventories, and search against chance."""

from dataclasses import replace

import pytest
from pipeline_scenarios import shipped

from planner.domain import SearchMethod
from planner.pipeline import plan

MIXED_LEVEL_RPS = 348  # 64 H200, 64 H800, 128 H20 on the code trace; no layout exceeds 348.6
UNIFORM_LEVEL_RPS = 254  # 128 H200 at the same price


@pytest.mark.slow
def test_search_reaches_the_mixed_fleets_level_and_chance_does_not() -> None:
    scenario = shipped("azure-code-512usd-reference")
    assert (scenario.search.iterations, scenario.search.batch_size, scenario.search.seed) == (15, 16, 0)
    found = plan(scenario).throughput_rps
    assert 0.95 * MIXED_LEVEL_RPS <= found <= 348.7
    blind = plan(replace(scenario, search=replace(scenario.search, method=SearchMethod.RANDOM))).throughput_rps
    assert blind < found


@pytest.mark.slow
def test_search_reaches_the_uniform_fleets_level() -> None:
    assert plan(shipped("azure-code-128xH200-reference")).throughput_rps >= 0.95 * UNIFORM_LEVEL_RPS
