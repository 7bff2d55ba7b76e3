"""The inner problem of given islands: at the ranges' midpoints exact lengths and model are one."""

from dataclasses import replace
from pathlib import Path

import pytest

from planner.domain import PHASES, CostMode, IslandClass, Layout, Phase, Scenario
from planner.files import scenario_from_document
from planner.studies.chapter5.experiments import document, setup_of
from planner.studies.chapter5.inner_loop import run_islands
from planner.studies.chapter5.records import IslandCase
from planner.workload import summarize

SETUP = setup_of({"DGX-B300": 64}, "normal-500-2000")
CASE = IslandCase(
    label="(x)",
    title="two sizes",
    setup=SETUP,
    layout=Layout.of([IslandClass(gpu="DGX-B300", size=size) for size in (32, 16, 8, 8)]),
)
MIDPOINTS = (128, 896, 2176, 4224)


def scenario() -> Scenario:
    made = document(SETUP, CostMode.REFERENCE)
    return scenario_from_document(made, origin="test", base=Path(), summarize=summarize)


def at_midpoints() -> Scenario:
    profile = replace(scenario().workload, input_tokens=MIDPOINTS, probabilities=(0.4, 0.3, 0.2, 0.1))
    return replace(scenario(), workload=profile)


def test_exact_lengths_at_midpoints_are_the_model() -> None:
    found = run_islands(CASE, at_midpoints())
    assert found.lengths == MIDPOINTS
    for curve in found.curves:
        assert curve.evaluated_rps == pytest.approx(curve.model_rps, rel=2e-3)
        assert curve.model_rps == pytest.approx(found.range_rates_rps(curve.phase), rel=1e-9)


def test_every_length_is_served_and_sums_agree() -> None:
    found = run_islands(CASE, scenario())
    assert len(found.lengths) == 8001
    assert sum(found.probabilities) == pytest.approx(1)
    for curve in found.curves:
        assert min(curve.evaluated_rps) > 0
        assert sum(curve.model_rps) == pytest.approx(found.phase_rps(curve.phase))
        assert sum(curve.evaluated_rps) == pytest.approx(found.phase_rps(curve.phase), rel=0.05)


def test_islands_have_one_phase_and_no_more_than_their_time() -> None:
    found = run_islands(CASE, scenario())
    assert sum(one.count for one in found.shares) == 4
    for one in found.shares:
        assert sum(one.time_shares) <= 1 + 1e-9
    assert all(found.of_phase(phase) for phase in PHASES)
    assert found.rate_rps == min(found.phase_rps(Phase.PREFILL), found.phase_rps(Phase.DECODE))
    assert found.mix_rps > 0
