"""What is said of the gap to the best possible: praise only where it is small."""

import re
from dataclasses import replace

import pytest

from planner.domain import (
    Certificate,
    ObjectiveKind,
    ObjectiveSettings,
    SearchMethod,
    SearchSettings,
    SizeSet,
    SloSettings,
)
from planner.report import summary


def with_gap(plan, gap, **changes):
    certificate = Certificate(
        bound_rps=plan.throughput_rps / (1 - gap),
        gap=gap,
        objective_value=plan.throughput_rps,
        objective_bound=plan.throughput_rps / (1 - gap),
        objective_gap=gap,
    )
    return replace(plan, certificate=certificate, scenario=replace(plan.scenario, **changes))


@pytest.mark.parametrize("gap", [0.0, 0.014, 0.1])
def test_a_small_gap_is_told_as_such(plan, gap):
    assert f"Within {100 * gap:.1f} % of the best possible layout" in summary(with_gap(plan, gap))


@pytest.mark.parametrize("gap", [0.11, 0.5, 0.985])
def test_a_large_gap_is_never_praise(plan, gap):
    words = summary(with_gap(plan, gap))
    assert not re.search(rf"[Ww]ithin {100 * gap:.1f} %", words)
    assert "Not shown to be close to the best possible layout**" in words
    assert f"{100 * gap:.1f} % less" in words
    assert "search.method: exact" in words


def test_what_would_close_it_is_what_the_scenario_left_out(plan):
    exact = SearchSettings(method=SearchMethod.EXACT, sizes=SizeSet.WHOLE_NODES)
    words = summary(with_gap(plan, 0.6, search=exact, slo=SloSettings(ttft_ms=2000)))
    assert all(word in words for word in ("search.sizes: all", "slo.ttft_ms"))
    assert "search.iterations" not in words
    assert "search.work_limit" not in words
    stopped = with_gap(plan, 0.6, search=exact)
    stopped = replace(stopped, certificate=replace(stopped.certificate, note="the solver stopped at its work limit"))
    assert "search.work_limit" in summary(stopped)
    every = summary(with_gap(plan, 0.6, search=replace(exact, sizes=SizeSet.ALL)))
    assert "search.sizes" not in every
    assert "slo.ttft_ms" not in every


@pytest.mark.parametrize("kind", [ObjectiveKind.BUDGET, ObjectiveKind.TARGET])
def test_the_same_holds_for_other_objectives(plan, kind):
    objective = ObjectiveSettings(kind=kind, budget_usd_per_hour=50.0, target_rps=5.0)
    close, far = (summary(with_gap(plan, gap, objective=objective)) for gap in (0.02, 0.7))
    assert "within 2.0 % of the best possible" in close
    assert "within 70.0 %" not in far
    assert "not shown to be close to the best possible" in far
