"""Forms of serving compared: every point is what a plan of that form has, and changes lie where the better one does."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from pipeline_scenarios import bucketed, by_deviation, in_table
from planned import plan

from planner.domain import (
    PURE_FORMS,
    FormComparison,
    Phase,
    RoutingSettings,
    Scenario,
    ServingForm,
    worth_of,
)
from planner.errors import InfeasibleError, InputError
from planner.evaluation.buckets.transfer import transfer_of
from planner.proposing.serving_forms import CLOSE, compare_forms, usual_bounds
from planner.workload import question_of

BOUNDS_MS = (15.0, 30.0, 100.0)
FEW = {"ranges": {"width": 2048}, "routing": {"most": 1}}
LEVELS = {"ttft_ms": 6000, "tpot_ms": 60, "percentile": 99}


def scenario(**changes: Any) -> Scenario:
    document = {"model": "llama-3.1-70b", "workload": "azure-conv-2023", "slo": LEVELS, **FEW, **changes}
    return bucketed({"H100": 8}, **document)


@cache
def compared() -> FormComparison:
    return compare_forms(scenario(), BOUNDS_MS)


@pytest.mark.parametrize("form", ServingForm)
def test_every_point_is_what_a_plan_of_that_form_serves(form: ServingForm) -> None:
    for tpot_ms in BOUNDS_MS:
        point = compared().at(tpot_ms, form)
        own = scenario(slo={**LEVELS, "tpot_ms": tpot_ms}, serving=form.value)
        if not point.rate_rps:
            with pytest.raises(InfeasibleError) as refused:
                plan(own)
            assert (point.pools, point.why) == ((), refused.value.message)
            continue
        alone = plan(own)
        assert alone.certificate is not None
        assert point.rate_rps == pytest.approx(alone.throughput_rps)
        if form is ServingForm.AUTO:  # a point is bounded over both forms, a plan's proof names its own
            ratio = point.bound_rps / alone.certificate.objective_bound
            assert 1 - 1e-9 <= ratio <= 1.25  # a fifth where one form serves nothing, some per cent elsewhere
        else:
            assert point.bound_rps == pytest.approx(alone.certificate.objective_bound)
        assert sum(pool.gpus for pool in point.pools) == sum(island.size for island in alone.islands if island.phase)


def test_a_change_lies_between_tried_bounds_and_both_sides_agree() -> None:
    comparison = compared()
    assert [change.after for change in comparison.changes] == [ServingForm.SPLIT, ServingForm.AGGREGATED]
    for change in comparison.changes:
        assert BOUNDS_MS[0] <= change.below_ms < change.at_ms < change.above_ms <= BOUNDS_MS[-1]
        assert change.above_ms / change.below_ms <= CLOSE * (1 + 1e-4)
        for tpot_ms, form in ((change.below_ms, change.before), (change.above_ms, change.after)):
            worth = {pure: worth_of(comparison.at(tpot_ms, pure).rate_rps, pure) for pure in PURE_FORMS}
            assert form is not None
            assert worth[form] == max(worth.values()) > 0


def test_between_changes_the_better_form_stays() -> None:
    comparison = compared()
    solved = sorted({point.tpot_ms for point in comparison.points})
    flips = [(a, b) for a, b in pairwise(solved) if comparison.best(a) is not comparison.best(b)]
    assert flips == [(change.below_ms, change.above_ms) for change in comparison.changes]


def test_a_free_choice_is_as_good_as_either_form() -> None:
    comparison = compared()
    for tpot_ms in BOUNDS_MS:
        best = comparison.best(tpot_ms)
        assert best is not None
        free = comparison.at(tpot_ms, ServingForm.AUTO).rate_rps
        assert free >= 0.98 * comparison.at(tpot_ms, best).rate_rps


def test_forms_have_the_servers_that_they_are_named_for() -> None:
    for point in compared().points:
        phases = {pool.phase for pool in point.pools}
        assert not (point.form is ServingForm.SPLIT and Phase.MIXED in phases)
        assert point.form is not ServingForm.AGGREGATED or phases <= {Phase.MIXED}
        assert bool(point.pools) == (point.rate_rps > 0) != bool(point.why)


def test_the_cost_of_handing_over_is_that_of_the_split_plan() -> None:
    comparison, alone = compared(), plan(scenario())
    assert comparison.own_ms == 60
    assert alone.buckets.transfer == comparison.transfer
    assert 0 < comparison.transfer.mean_ms < comparison.transfer.longest_ms < LEVELS["ttft_ms"]


def test_what_is_handed_over_follows_from_prompts_and_rate() -> None:
    alone = plan(scenario())
    ranges = question_of(alone.scenario).workload.ranges
    tokens = sum(span.probability * span.mean_input_tokens for span in ranges)
    by_hand = alone.buckets.promise_rps * tokens * alone.scenario.model.kv_bytes_per_token / 1e9
    assert alone.buckets.transfer.gb_s == pytest.approx(by_hand)
    twice = transfer_of(question_of(alone.scenario), alone.buckets.pools, 2 * alone.buckets.promise_rps)
    assert twice.gb_s == pytest.approx(2 * by_hand)
    assert twice.mean_ms == alone.buckets.transfer.mean_ms


def test_nothing_is_handed_over_where_nothing_is_split() -> None:
    alone = plan(scenario(serving="aggregated"))
    assert alone.buckets.transfer is None


@pytest.mark.parametrize(("own", "least"), [(60.0, 12.0), (None, 10.0), (0.2, 0.1)])
def test_usual_bounds_are_around_the_scenarios_own(own: float | None, least: float) -> None:
    tried = usual_bounds(scenario(slo={"ttft_ms": 6000, **({} if own is None else {"tpot_ms": own})}))
    assert own is None or own in tried
    assert least <= tried[0] < 2 * least
    assert tried == tuple(sorted(set(tried)))
    assert 5 <= len(tried) <= 8


def test_usual_bounds_stay_below_those_on_ttft() -> None:
    assert max(usual_bounds(scenario(slo={"ttft_ms": 100, "tpot_ms": 60}))) < 100


@pytest.mark.parametrize(
    ("bounds_ms", "said"),
    [
        ((60.0, 0.01), "must lie in 0.1"),
        ((60.0, float("nan")), "got nan"),
        ((60.0, float("inf")), "got inf"),
        ((60.0, 60.0), "got 1"),
        ((60.0, 6000.0), "ttft_ms must exceed"),
    ],
)
def test_bounds_that_cannot_be_are_refused(bounds_ms: tuple[float, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        compare_forms(scenario(), bounds_ms)


def test_a_scenario_without_buckets_is_refused() -> None:
    with pytest.raises(InputError, match=r"routing\.form must be buckets"):
        compare_forms(in_table(scenario()), BOUNDS_MS)
    deviates = replace(by_deviation(scenario()), routing=RoutingSettings())
    with pytest.raises(InputError, match=r"got table, with assignment\.formulation: deviation"):
        compare_forms(deviates, BOUNDS_MS)


def test_no_form_under_any_bound_is_told_with_its_reason() -> None:
    with pytest.raises(InfeasibleError, match=r"(?s)up to 3 ms TPOT. There: .*slo.tpot_ms: 3 ms") as refused:
        compare_forms(scenario(), (2.0, 3.0))
    assert refused.value.exit_status == 3
