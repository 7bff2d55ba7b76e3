"""Plans under doubt: held against the bands themselves, another way to slow servers, and what must follow."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner import pipeline
from planner.api.deployments import PlannedDeployment
from planner.cost.residuals.bands import known_as, place
from planner.cost.residuals.pace_draws import (
    normal_scores,
    pace_dimensions,
    pace_draws,
    pace_scores,
    uniform_draws,
)
from planner.domain import Band, Calibration, Factor, LoadPoint, Origin, Phase, Plan, Scenario
from planner.domain.serving.doubt import SHARED, AlikeErrors, DoubtedPlan, DoubtSettings, KnownBetter
from planner.errors import InfeasibleError, InputError
from planner.evaluation.doubts.drawn import at_paces
from planner.evaluation.doubts.odds import DRAWS
from planner.evaluation.doubts.plans import _Draws
from planner.evaluation.evaluator import open_evaluator
from planner.files.scenario.scenario_documents import scenario_document
from planner.files.scenario.scenarios import scenario_from_document
from planner.proposing.buckets.surely import solve_surely
from planner.proposing.feasibility import posed
from planner.workload import summarize

pytestmark = pytest.mark.usefixtures("all_draws")

LEVELS = {"ttft_ms": 2000, "tpot_ms": 40, "percentile": 95}


def scenario_of(**keys: Any) -> Scenario:
    document = {
        "name": "doubted",
        "model": "qwen3-30b-a3b-fp8",
        "workload": "azure-conv-2023",
        "inventory": {"H20": 16},
        "prices_usd_per_gpu_hour": {"H20": 1, "H200": 4},
        "serving": "aggregated",
        "ranges": {"width": 4096},
        **keys,
    }
    return scenario_from_document(document, origin="the tests", base=Path(), summarize=summarize)


@cache
def plain() -> Plan:
    """Sixteen GPUs of one type, no levels."""
    return pipeline.plan(scenario_of())


@cache
def held_to_levels() -> Plan:
    return pipeline.plan(scenario_of(slo=LEVELS, inventory={"H20": 16, "H200": 8}))


@cache
def doubted(draws: int = 64, **doubts: float) -> DoubtedPlan:
    return pipeline.doubt(held_to_levels(), DoubtSettings(draws=draws, **doubts))  # type: ignore[arg-type]


def band_of(plan: Plan) -> Band:
    band = next(row.band for row in plan.provenance.estimates if row.phase is Phase.MIXED)
    assert band is not None
    return band


def test_without_levels_rates_are_the_bands_own() -> None:
    """One type, one phase: what is sure is the rate times the band's quantile."""
    plan, band = plain(), band_of(plain())
    result = pipeline.doubt(plan, DoubtSettings())
    assert result.rate_rps == plan.throughput_rps
    assert result.sure_rps(0.9) == pytest.approx(plan.outlook.promise_rps * band.low, rel=0.01)
    assert result.sure_rps(0.1) == pytest.approx(plan.outlook.promise_rps * band.high, rel=0.01)


def test_paces_do_what_a_calibration_does() -> None:
    """The other way to slow servers: a factor on their passes, priced anew from the walk over layers."""
    scenario, pace = scenario_of(), 0.8
    family = place("H20", known_as(scenario.model), scenario.cost.engine)
    factor = Factor(name="pace_decode", family=family, value=pace, unit="1", origin=Origin.USER, source="the test")
    calibration = Calibration(name="slow", factors=(factor,))
    calibrated = pipeline.plan(replace(scenario, cost=replace(scenario.cost, calibration=calibration)))
    paced = pipeline.plan(at_paces(scenario, {("H20", Phase.MIXED): pace}))
    assert paced.throughput_rps == pytest.approx(calibrated.throughput_rps, rel=1e-9)
    assert paced.throughput_rps < 0.9 * plain().throughput_rps


def with_band(plan: Plan, low: float, high: float) -> Plan:
    """The plan, every estimate with that band."""
    rows = tuple(replace(row, band=Band(low=low, high=high, basis="the test")) for row in plan.provenance.estimates)
    return replace(plan, provenance=replace(plan.provenance, estimates=rows))


def test_levels_make_rates_fall_faster_than_paces() -> None:
    """Where a band is one number nothing else is drawn: every rate is that of servers at this pace."""
    plan = held_to_levels()
    one = pipeline.doubt(with_band(plan, 1.0, 1.0), DoubtSettings(draws=16))
    assert one.rates_rps == pytest.approx([plan.outlook.promise_rps] * 16, rel=1e-3)
    slow = pipeline.doubt(with_band(plan, 0.85, 0.85), DoubtSettings(draws=16))
    assert len(set(slow.rates_rps)) == 1
    assert 0 < slow.rates_rps[0] < 0.85 * plan.outlook.promise_rps
    unbounded = pipeline.doubt(with_band(plain(), 0.85, 0.85), DoubtSettings(draws=16))
    assert unbounded.rates_rps[0] == pytest.approx(0.85 * plain().outlook.promise_rps)


def test_what_is_sure_falls_with_how_sure_it_is() -> None:
    result = doubted()
    rates = [result.sure_rps(sure) for sure in (0.95, 0.8, 0.5, 0.2, 0.05)]
    assert rates == sorted(rates)
    assert rates[0] < result.promise_rps < rates[-1]
    for sure, so_sure in zip((0.95, 0.8, 0.5), rates, strict=False):
        assert result.odds(so_sure) == pytest.approx(sure, abs=1 / 64)
    assert result.sure_rps(0.8) == pytest.approx(np.quantile(result.rates_rps, 0.2, method="hazen"))


def test_a_seed_gives_the_same_draws_and_draws_agree() -> None:
    assert pipeline.doubt(held_to_levels(), DoubtSettings(draws=64)) == doubted()
    plan = held_to_levels()
    scenario = replace(plan.scenario, search=replace(plan.scenario.search, seed=plan.scenario.search.seed + 1))
    other = pipeline.doubt(replace(plan, scenario=scenario), DoubtSettings(draws=64))
    assert other.rates_rps != doubted().rates_rps
    assert other.sure_rps(0.5) == pytest.approx(doubted().sure_rps(0.5), rel=0.1)


def test_draws_lie_as_the_bands_say() -> None:
    points = uniform_draws(256, 3, 5)
    assert points.mean(axis=0) == pytest.approx([0.5] * 3, abs=0.01)
    scores = normal_scores(points)
    assert scores.std(axis=0) == pytest.approx([1.0] * 3, abs=0.05)
    paces = pace_draws({("H20", Phase.DECODE): Band(low=0.7, high=1.2, basis=""), ("H200", Phase.DECODE): Band(
        low=0.7, high=1.2, basis="")}, uniform_draws(1024, 2, 0))  # fmt: skip
    both = np.log(np.array(list(paces.values())))
    for row in both:
        assert np.exp(np.quantile(row, [0.1, 0.9])) == pytest.approx([0.7, 1.2], rel=0.02)
    ranks = both.argsort(axis=1).argsort(axis=1)
    assert np.corrcoef(ranks)[0, 1] == pytest.approx(SHARED, abs=0.06)  # of ranks a little less than of scores


def test_the_rate_asked_and_prices_are_doubted_apart() -> None:
    result = doubted(demand=0.3, prices=0.2)
    assert result.rates_rps == pytest.approx(doubted().rates_rps, rel=0.35)  # other points, the same speeds
    demands = np.array(result.demands_rps)
    assert np.median(demands) == pytest.approx(result.promise_rps, rel=0.02)
    assert np.log(demands).std() == pytest.approx(0.3, rel=0.1)
    rents = np.array(result.rents)
    assert np.median(rents) == pytest.approx(held_to_levels().price_usd_per_hour, rel=0.05)
    assert doubted().demands_rps == pytest.approx([result.promise_rps] * 64)
    assert doubted().odds_of_demand == doubted().odds(result.promise_rps)


def test_nodes_that_are_away_take_their_servers_along() -> None:
    plan, chance = held_to_levels(), 0.1
    settings = DoubtSettings(speeds=False, unavailable=chance, draws=256)
    result = pipeline.doubt(plan, settings)
    whole = result.promise_rps
    used = sum(pool.count * pool.server.parallel.devices for pool in plan.outlook.pools)
    nodes = used // 8
    untouched = sum(rate >= whole * (1 - 1e-6) for rate in result.rates_rps) / 256
    assert untouched == pytest.approx((1 - chance) ** nodes, abs=0.03)
    assert max(result.rates_rps) <= whole * (1 + 1e-6)
    draws = _Draws(plan, settings)
    counts = [dict(draws.with_nodes(number).inventory.counts) for number in range(256)]
    lost = sum(16 - row.get("H20", 0) + 8 - row.get("H200", 0) for row in counts) / 8 / 256
    assert lost == pytest.approx(chance * nodes, rel=0.1)


def test_a_plan_made_knowing_serves_no_less() -> None:
    result = pipeline.doubt(held_to_levels(), DoubtSettings(draws=16), knowing=2)
    assert len(result.known_better) == 2
    for row in result.known_better:
        assert row.rate_rps == result.rates_rps[row.draw]
        assert row.knowing_rps >= row.rate_rps
    surely = pipeline.doubt(with_band(held_to_levels(), 1.0, 1.0), DoubtSettings(draws=16), knowing=1)
    assert surely.known_better[0].regret == pytest.approx(0.0, abs=2e-3)
    assert KnownBetter(draw=0, rate_rps=3.0, knowing_rps=4.0).regret == 0.25


def test_a_scenario_says_what_it_doubts() -> None:
    scenario = scenario_of(doubt={"demand": 0.2, "unavailable": 0.01, "draws": 64})
    assert scenario.doubt == DoubtSettings(demand=0.2, unavailable=0.01, draws=64)
    document = scenario_document(scenario)
    assert document["doubt"] == {"speeds": True, "demand": 0.2, "prices": 0.0, "unavailable": 0.01, "draws": 64}
    assert "doubt" not in scenario_document(scenario_of())


def test_a_promise_has_the_odds_that_draws_tell() -> None:
    """The same draws, one by one."""
    scenario = scenario_of(slo=LEVELS, inventory={"H20": 16, "H200": 8}, doubt={"demand": 0.2})
    odds = pipeline.plan(scenario, odds=True).outlook.odds
    assert odds is not None
    drawn = doubted(DRAWS)
    assert [row.rate_rps for row in odds.sure] == pytest.approx([drawn.sure_rps(row.sure) for row in odds.sure])
    assert odds.odds == drawn.odds(drawn.promise_rps)
    assert pipeline.plan(replace(scenario, doubt=DoubtSettings())).outlook.odds is None


def test_a_promise_is_as_sure_as_was_asked() -> None:
    sections = {"slo": LEVELS, "inventory": {"H20": 8}, "doubt": {"draws": 32}}
    predicted = pipeline.plan(scenario_of(**sections))
    surely = pipeline.plan(scenario_of(**sections, promise={"sure": 0.75}))
    assert surely.outlook.odds is not None
    promise = surely.outlook.promise_rps
    assert promise == surely.outlook.odds.sure_rps(0.75) < predicted.outlook.promise_rps
    assert promise >= 0.99 * pipeline.doubt(predicted, DoubtSettings(draws=32)).sure_rps(0.75)
    (row,) = {row.rate_rps for row in surely.outlook.latencies if row.load is LoadPoint.PROMISE}
    assert row == pytest.approx(promise)
    assert pipeline.recheck(surely, "plan.json") is surely
    altered = replace(surely, buckets=replace(surely.outlook, promise_rps=predicted.outlook.promise_rps))
    with pytest.raises(InputError, match="its margin and odds leave"):
        pipeline.recheck(altered, "plan.json")


def test_types_err_as_alike_as_is_said() -> None:
    keys = [("H20", Phase.MIXED), ("H200", Phase.MIXED), ("H800", Phase.MIXED), ("H20", Phase.DECODE)]
    rows = (("H200", "H20", 0.9), ("H20", "H800", 0.2))
    alike = [AlikeErrors(gpu=gpu, other=other, correlation=value) for gpu, other, value in rows]
    scores = pace_scores(keys, uniform_draws(4096, pace_dimensions(keys), 1), alike)
    said = {("H20", "H200"): 0.9, ("H20", "H800"): 0.2, ("H200", "H800"): SHARED}
    for (first, second), correlation in said.items():
        pair = scores[first, Phase.MIXED], scores[second, Phase.MIXED]
        assert np.corrcoef(*pair)[0, 1] == pytest.approx(correlation, abs=0.02)
    assert np.corrcoef(scores[keys[0]], scores[keys[3]])[0, 1] == pytest.approx(0, abs=0.02)
    assert scores[keys[2]].std() == pytest.approx(1, abs=0.02)


def test_types_that_err_apart_make_up_for_each_other() -> None:
    plan, pair = held_to_levels(), {"gpu": "H20", "other": "H200"}
    settings = (DoubtSettings(draws=128, alike=(AlikeErrors(**pair, correlation=r),)) for r in (-0.9, 1.0))  # type: ignore[arg-type]
    apart, alike = (np.std(pipeline.doubt(plan, setting).rates_rps) for setting in settings)
    assert apart < 0.8 * alike


@pytest.mark.parametrize(
    ("alike", "words"),
    [
        ([("H20", "H100", 0.5)], "doubt.alike must be of two GPU types of the inventory each, got H20 and H100"),
        ([("H20", "H20", 0.5)], "must be of two GPU types"),
        ([("H20", "H200", 0.5), ("H200", "H20", 0.6)], "must name a pair once"),
        ([("H20", "H200", 1.0), ("H20", "H800", -1.0)], "which has no negative eigenvalue"),
        ([("H20", "H200", 1.2)], "correlation must be"),
    ],
)
def test_what_are_no_correlations_is_refused(alike: list[tuple[str, str, float]], words: str) -> None:
    rows = [dict(zip(("gpu", "other", "correlation"), row, strict=True)) for row in alike]
    with pytest.raises(InputError, match=words) as refused:
        scenario_of(inventory={"H20": 8, "H200": 8, "H800": 8}, doubt={"alike": rows})
    assert refused.value.hint


@pytest.mark.parametrize("target_rps", [100.0, 140.0])
def test_the_cheapest_that_is_so_sure_is_sought(target_rps: float) -> None:
    """Of pools of one type: no GPU less is as sure, and what nobody is sure of is infeasible."""
    objective = {"kind": "target", "target_rps": target_rps}
    sections = {"slo": LEVELS, "doubt": {"draws": 32}, "promise": {"sure": 0.75}, "simplicity": 0}
    try:
        cheapest = pipeline.plan(scenario_of(**sections, objective=objective))
    except InfeasibleError:
        used, capacity = 16 + 1, 0.0
    else:
        used, capacity = cheapest.fleet["H20"], cheapest.outlook.promise_rps / 0.9
        assert capacity >= target_rps * (1 - 1e-3)
    fewer = pipeline.plan(scenario_of(**sections, inventory={"H20": used - 1}))
    assert fewer.outlook.promise_rps / 0.9 < target_rps <= capacity * (1 + 1e-3) or used == 16 + 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"objective": {"kind": "per_dollar"}}, "promise.sure goes with objective.kind rate or target or robust"),
        ({"routing": {"form": "table"}, "serving": "split"}, "where promise.sure is given"),
        ({"search": {"method": "random"}}, "search.method must be auto or exact where promise.sure is given"),
        ({"promise": {"sure": 1}}, "promise.sure must be a number of more than 0"),
        ({"doubt": {"speeds": False}}, "doubt.speeds must be true where promise.sure is given"),
    ],
)
def test_what_conflicts_with_being_sure_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        scenario_of(**{"promise": {"sure": 0.8}, **changes})
    assert refused.value.hint


@pytest.mark.parametrize(
    ("plan", "settings", "words"),
    [
        (plain, DoubtSettings(speeds=False), "must doubt something, got nothing: all of it is 0"),
        (lambda: replace(plain(), provenance=replace(plain().provenance, estimates=())), DoubtSettings(),
         "its speeds have no band"),
        (lambda: replace(plain(), buckets=None), DoubtSettings(), "must be of pools behind buckets"),
    ],
)  # fmt: skip
def test_what_cannot_be_doubted_is_refused(plan: Callable[[], Plan], settings: DoubtSettings, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        pipeline.doubt(plan(), settings)
    assert refused.value.hint


def test_notebooks_have_it_at_hand() -> None:
    doubt = PlannedDeployment(held_to_levels()).doubt(draws=32)
    assert doubt.sure(0.8) == doubt.record.sure_rps(0.8) < doubt.sure(0.5)
    assert list(doubt.frame["sure"])[:3] == [0.95, 0.9, 0.8]
    assert len(doubt.draws) == 32
    assert "80 % sure" in repr(doubt)
    assert "What is doubted" in doubt.summary()
    with pytest.raises(InputError, match="sure: must be above 0"):
        doubt.sure(1.0)
    contrary = [{"gpu": "H20", "other": "H200", "correlation": 1.5}]
    with pytest.raises(InputError, match="correlation must be"):
        PlannedDeployment(held_to_levels()).doubt(draws=16, alike=contrary)  # type: ignore[arg-type]


def test_a_target_cannot_be_sure_where_no_band_says_how() -> None:
    objective = {"kind": "target", "target_rps": 40}
    asked = scenario_of(objective=objective, promise={"sure": 0.8})
    with open_evaluator(posed(asked)) as evaluator, pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.proposing.buckets.surely.promise_odds", lambda *_: None)
        with pytest.raises(InputError, match="must have a band, got none") as refused:
            solve_surely(evaluator)
    assert refused.value.hint
