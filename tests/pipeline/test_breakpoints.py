"""Breakpoints and swings of a plan: held against plans made anew, ratios of rates, and the bands themselves."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import planner
from planner import pipeline
from planner.domain import Phase, Plan
from planner.domain.explanations import WhatIf
from planner.domain.serving.doubt import DoubtedPlan, DoubtSettings, Swing, Swung
from planner.errors import InputError
from planner.evaluation.doubts.drawn import at_paces
from planner.files import scenario_from_document
from planner.proposing.explaining.breakpoints import breakpoints
from planner.proposing.explaining.replanning import CLOSE, Replanner, first_change
from planner.proposing.explaining.what_ifs import priced_at
from planner.report.doubts.page import breakpoint_words, doubt_page, swings
from planner.report.kit.markdown import page_text
from planner.workload import summarize


def planned(**changes: Any) -> Plan:
    """Servers that do both phases, without levels: rates are as paces are."""
    document: dict[str, Any] = {
        "name": "broken",
        "model": "qwen3-30b-a3b-fp8",
        "workload": "azure-conv-2023",
        "inventory": {"H20": 16, "L40S": 16},
        "prices_usd_per_gpu_hour": {"H20": 1.0, "L40S": 0.5},
        "objective": {"kind": "per_dollar"},
        "serving": "aggregated",
        "ranges": {"width": 4096},
        "routing": {"most": 1},
    }
    scenario = scenario_from_document({**document, **changes}, origin="test", base=Path(), summarize=summarize)
    return pipeline.plan(scenario)


@cache
def cheapest() -> Plan:
    return planned()


@cache
def found() -> dict[str, list[WhatIf]]:
    rows: dict[str, list[WhatIf]] = {}
    for row in breakpoints(cheapest(), 60)[0]:
        rows.setdefault(row.key, []).append(row)
    return rows


def types(plan: Plan) -> set[str]:
    return {pool.gpu for pool in plan.outlook.pools}


def test_a_price_breaks_where_another_type_serves_as_much_for_it() -> None:
    """Most requests per USD: the type with the higher rate per USD, so prices break at the ratio of the rates."""
    alone = {
        gpu: planned(inventory={gpu: 16}, objective={"kind": "rate"}).throughput_rps / 16 for gpu in ("H20", "L40S")
    }
    assert types(cheapest()) == {"H20"}
    dearer = next(row for row in found()["prices_usd_per_gpu_hour.H20"] if row.value > 1)
    cheaper = found()["prices_usd_per_gpu_hour.L40S"][0]
    for row, price in ((dearer, 0.5 * alone["H20"] / alone["L40S"]), (cheaper, 1.0 * alone["L40S"] / alone["H20"])):
        assert row.changes
        assert row.same_at is not None
        ends = sorted((row.same_at, row.value))
        # CLOSE is how near the sides are, and what pools serve together is known to about a hundredth
        assert ends[0] / 1.02 <= price <= ends[1] * 1.02
        assert ends[1] / ends[0] <= CLOSE


def test_a_pace_breaks_with_prices() -> None:
    """Without levels a type that is slower by a share is as one that is dearer by it."""
    (slower,) = (row for row in found()["pace.H20.mixed"] if row.value < 1)
    (dearer,) = (row for row in found()["prices_usd_per_gpu_hour.H20"] if row.value > 1)
    assert slower.value == pytest.approx(1 / dearer.value, rel=0.04)
    assert slower.becomes == dearer.becomes == "mixed: L40S"


def test_both_sides_are_plans() -> None:
    row = next(row for row in found()["prices_usd_per_gpu_hour.H20"] if row.value > 1)
    pace = next(row for row in found()["pace.L40S.mixed"])
    assert row.same_at is not None
    assert pace.same_at is not None
    scenario = cheapest().scenario
    change = priced_at("H20")
    assert types(pipeline.plan(change(scenario, row.same_at))) == {"H20"}
    assert types(pipeline.plan(change(scenario, row.value))) == {"L40S"}
    at_pace = (at_paces(scenario, {("L40S", Phase.MIXED): value}) for value in (pace.same_at, pace.value))
    assert [types(pipeline.plan(each)) for each in at_pace] == [{"H20"}, {"L40S"}]


def test_prices_break_nothing_where_the_objective_does_not_count_them() -> None:
    """And what is rented more of alone is no other type."""
    fleet, target = planned(objective={"kind": "rate"}, inventory={"H20": 8}), {"kind": "target", "target_rps": 40}
    rows, untold = breakpoints(fleet, 60)
    assert {row.key for row in rows} == {"pace.H20.mixed"}
    more, _ = breakpoints(planned(objective=target, inventory={"H20": 16}), 60)
    assert {row.key for row in more} == {"pace.H20.mixed", "prices_usd_per_gpu_hour.H20"}
    assert not any(row.changes for row in (*rows, *more))
    assert untold == 0


def test_time_that_is_out_is_told() -> None:
    rows, untold = breakpoints(cheapest(), 1e-9)
    assert (rows, untold > 3) == ((), True)
    result = DoubtedPlan(
        name="x", rate_rps=1, promise_rps=1, rates_rps=(1.0,) * 16, demands_rps=(1.0,) * 16, rents=(1.0,) * 16,
        untold_breakpoints=untold,
    )  # fmt: skip
    assert f"For {untold} more keys time was out" in " ".join(breakpoint_words(result))


def test_plans_that_were_searched_for_have_none() -> None:
    scenario = replace(cheapest().scenario, objective=replace(cheapest().scenario.objective))
    searched = replace(cheapest(), scenario=scenario, buckets=None)
    with pytest.raises(InputError, match="must be of a plan that was solved for") as refused:
        breakpoints(searched, 1)
    assert refused.value.hint


@pytest.mark.study
def test_the_guide_tells_a_breakpoint_of_the_readmes_budget() -> None:
    root = Path(planner.__file__).parents[1]
    document = re.search(r"```yaml\n(name: budget .*?)```", (root / "README.md").read_text(), re.DOTALL)
    assert document is not None
    keys = yaml.safe_load(document[1])
    plan = pipeline.plan(scenario_from_document(keys, origin="README", base=root, summarize=summarize))
    price = plan.scenario.inventory.item("H20").price_usd_per_gpu_hour
    key = "prices_usd_per_gpu_hour.H20"
    row = first_change(Replanner(plan, 600), None, key, priced_at("H20"), price, 4 * price)
    assert row is not None
    (line,) = breakpoint_words(replace(swung()[1], breakpoints=(row,)))
    guide = (root / "planner/cli/docs/guides/doubt.md").read_text()
    assert f'"{line.rstrip(".")}"' in " ".join(guide.split())


@cache
def swung() -> tuple[Plan, DoubtedPlan]:
    plan = planned(inventory={"H20": 16}, objective={"kind": "rate"})
    return plan, pipeline.doubt(plan, DoubtSettings(draws=16, demand=0.3, prices=0.1, unavailable=0.2))


def test_without_levels_a_pace_swings_the_rate_by_its_band() -> None:
    plan, result = swung()
    band = next(row.band for row in plan.provenance.estimates if row.phase is Phase.MIXED)
    assert band is not None
    pace = next(row for row in result.swings if row.thing == "H20 mixed")
    assert pace.planned == plan.outlook.promise_rps
    assert (pace.low, pace.high) == pytest.approx((band.low * pace.planned, band.high * pace.planned))
    assert pace.width == pytest.approx(band.high - band.low)
    assert pace.span == f"{band.low:.2f} to {band.high:.2f} of its pace"


def test_each_doubt_moves_what_it_moves() -> None:
    plan, result = swung()
    by_kind = {row.moves: row for row in result.swings if "mixed" not in row.thing}
    asked, rent, nodes = by_kind[Swung.ASKED], by_kind[Swung.RENT], by_kind[Swung.RATE]
    assert asked.high / asked.planned == pytest.approx(2.718281828 ** (0.3 * 1.2815515))
    assert asked.low * asked.high == pytest.approx(asked.planned**2)
    assert rent.planned == pytest.approx(plan.price_usd_per_hour)
    assert rent.high / rent.planned == pytest.approx(2.718281828 ** (0.1 * 1.2815515))
    assert nodes.low == pytest.approx(plan.outlook.promise_rps / 2, rel=0.01)  # one of two nodes
    widths = [row.width for row in result.swings]
    assert widths == sorted(widths, reverse=True)


def test_what_is_not_doubted_does_not_swing() -> None:
    plan, _ = swung()
    result = pipeline.doubt(plan, DoubtSettings(draws=16, speeds=False, demand=0.1))
    assert [row.thing for row in result.swings] == ["the rate asked"]
    assert Swing(thing="x", span="", moves=Swung.RATE, planned=10, low=11, high=12).width == pytest.approx(0.2)


def test_the_page_draws_and_lists_them() -> None:
    _, result = swung()
    rows = tuple(row for rows in found().values() for row in rows)
    page = doubt_page(replace(result, breakpoints=rows), DoubtSettings(draws=16))
    text = page_text(page)
    assert "What each doubt does alone" in text
    assert "USD an hour; at" in text
    charts = [block for part in page.sections for block in part.blocks if getattr(block, "name", "") == "tornado"]
    (chart,) = charts
    assert [trace["orientation"] for trace in chart.traces] == ["h", "h"]
    assert chart.traces[0]["y"] == [row.thing for row in result.swings]
    assert len(swings(result).records()) == len(result.swings)
