"""Schedules of fleets: nobody has a node twice, services have theirs before they need them, batches have the others."""

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from planner import pipeline
from planner.domain.fleets import BatchTerms, FleetPlan
from planner.domain.schedules import DAY_S, RateSeries, RateWindow
from planner.domain.serving.fleets.lending import IDLE, FleetSchedule, LendingTerms
from planner.errors import InputError
from planner.files.scenario.fleets import fleet_from_document
from planner.replanning.fleets import replaying
from planner.replanning.fleets.ladders import plan_of_level
from planner.replanning.fleets.lending import without_short
from planner.report.kit.markdown import page_text
from planner.report.replanning.fleet_tables import fleet_schedule_page, losses, windows
from planner.workload import summarize

LEVELS = {"ttft_ms": 2000, "tpot_ms": 40, "percentile": 95}
CHAT = {"name": "chat", "model": "qwen3-30b-a3b-fp8", "slo": LEVELS}
DOCUMENT = {
    "name": "pair",
    "inventory": {"H200": 24, "H20": 32},
    "prices_usd_per_gpu_hour": {"H200": 4, "H20": 1},
    "workload": "normal-500-2000",
    "serving": "split",
    "ranges": {"width": 2048},
    "services": [
        {**CHAT, "demand": {"rates": "servegen-m-small", "times": 0.3}},
        {**CHAT, "name": "agents", "demand": {"rates": "servegen-deepseek-r1", "times": 3}},
        {"name": "nightly", "model": "qwen3-30b-a3b-fp8", "batch": {}},
    ],
}
HOURS = 48
PRICED_NODE = {"H200": 8, "H20": 8}


@pytest.fixture(scope="module")
def fleet_plan() -> FleetPlan:
    """All nodes are given to the two services."""
    fleet = fleet_from_document(DOCUMENT, origin="test", base=Path(), summarize=summarize)
    return pipeline.plan_fleet(fleet)


@pytest.fixture(scope="module")
def schedule(fleet_plan: FleetPlan) -> FleetSchedule:
    """Two days of it."""
    return pipeline.schedule_fleet(fleet_plan, days=HOURS / 24)


def test_every_gpu_has_one_holder_in_every_hour(schedule: FleetSchedule) -> None:
    inventory = {item.gpu.name: item.count for item in schedule.plan.fleet.inventory.items}
    assert len(schedule.windows) == HOURS
    for number in range(HOURS):
        total = Counter[str]()
        for gpus in schedule.gpus(number).values():
            assert all(count >= 0 for count in gpus.values())
            total.update(gpus)
        assert dict(total) == inventory


def test_services_have_what_an_hour_needs_and_the_next(schedule: FleetSchedule) -> None:
    """By the curve itself: the highest rate of the hour and of the one after, in ten minutes each."""
    shares = {share.service: share.promised_rps for share in schedule.plan.shares}
    headroom = schedule.terms.headroom
    for place, ladder in enumerate(schedule.ladders):
        curve = schedule.plan.fleet.service(ladder.deployment).rates
        assert curve is not None
        assert len(curve.rates_rps) in (144, 14 * 144)
        rates = [curve.rates_rps[k % len(curve.rates_rps)] for k in range(6 * HOURS)]
        for number, window in enumerate(schedule.windows):
            need = min(headroom * max(rates[6 * number : 6 * number + 12]), shares[ladder.deployment])
            assert ladder.levels[window.levels[place]].promise_rps >= need * (1 - 1e-6)
            assert window.rates_rps[place] == pytest.approx(max(rates[6 * number : 6 * number + 6]))
    assert schedule.short == ()


def test_levels_are_some_of_the_servers_of_the_one_before(schedule: FleetSchedule) -> None:
    for ladder, part in zip(schedule.ladders, schedule.plan.parts, strict=True):
        assert ladder.levels[0].promise_rps == pytest.approx(part.promise_rps)
        for before, after in zip(ladder.levels, ladder.levels[1:], strict=False):
            assert all(fewer <= more for fewer, more in zip(after.counts, before.counts, strict=True))
            assert after.promise_rps <= before.promise_rps
            assert sum(dict(after.gpus).values()) < sum(dict(before.gpus).values())


def test_a_level_is_a_plan_that_promises_as_much(schedule: FleetSchedule) -> None:
    ladder, part = schedule.ladders[0], schedule.plan.parts[0]
    level = ladder.levels[-1]
    plan = plan_of_level(part, level)
    assert plan.outlook.promise_rps == pytest.approx(level.promise_rps)
    assert [pool.count for pool in plan.outlook.pools] == [count for count in level.counts if count]


def test_tokens_are_those_of_blocks_less_what_loading_takes(schedule: FleetSchedule) -> None:
    before = (0,) * len(schedule.blocks)
    assert schedule.gained_tokens_a_day > 0
    for window in schedule.windows:
        expected = 0.0
        for block, count, count_before in zip(schedule.blocks, window.lent, before, strict=True):
            expected += block.tokens_per_s * (3600 * count - block.lost_s * max(0, count - count_before))
        assert window.tokens == pytest.approx(expected)
        before = window.lent
    assert schedule.gained_tokens_a_week == pytest.approx(7 * sum(w.tokens for w in schedule.windows) / 2)


def test_more_headroom_lends_less(fleet_plan: FleetPlan) -> None:
    tokens = [
        pipeline.schedule_fleet(fleet_plan, LendingTerms(headroom=headroom), days=1).gained_tokens_a_day
        for headroom in (1.0, 1.5, 100.0)
    ]
    assert tokens[0] >= tokens[1] >= tokens[2] == 0.0
    assert tokens[0] > 0


def test_requests_that_bunch_keep_the_levels(schedule: FleetSchedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "SECONDS", 10.0)
    replayed = pipeline.replay_fleet_schedule(schedule, burstiness=2.0, requests=600)
    assert {row.deployment for row in replayed} == {"chat", "agents"}
    assert min(row.within_levels for row in replayed) > 0.95
    assert False not in {row.holds for row in replayed}


def test_a_batch_that_has_its_tokens_is_lent_no_more(fleet_plan: FleetPlan, schedule: FleetSchedule) -> None:
    batch = fleet_plan.fleet.service("nightly")
    day = sum(window.tokens for window in schedule.windows[:24])
    sated = replace(batch, batch=BatchTerms(tokens_a_day=day / 4))
    services = (*fleet_plan.fleet.interactive, sated)
    fewer = pipeline.schedule_fleet(replace(fleet_plan, fleet=replace(fleet_plan.fleet, services=services)), days=1)
    assert day / 4 <= fewer.gained_tokens_a_day < day / 2
    assert not any(fewer.windows[-1].lent)


def test_without_a_batch_nothing_is_lent(fleet_plan: FleetPlan) -> None:
    alone = replace(fleet_plan, fleet=replace(fleet_plan.fleet, services=fleet_plan.fleet.interactive), batches=())
    schedule = pipeline.schedule_fleet(alone, days=1)
    assert schedule.gained_tokens_a_day == schedule.lent_gpu_hours_a_day == schedule.starts == 0
    assert any(dict(window.idle) for window in schedule.windows)
    assert alone.parts == fleet_plan.parts


def test_without_a_curve_there_is_no_schedule(fleet_plan: FleetPlan) -> None:
    services = tuple(replace(service, rates=None) for service in fleet_plan.fleet.services)
    with pytest.raises(InputError, match="must have a curve of rates"):
        pipeline.schedule_fleet(replace(fleet_plan, fleet=replace(fleet_plan.fleet, services=services)))


def test_a_service_without_a_curve_always_has_what_its_demand_needs(fleet_plan: FleetPlan) -> None:
    services = tuple(replace(s, rates=s.rates if s.name == "chat" else None) for s in fleet_plan.fleet.services)
    schedule = pipeline.schedule_fleet(replace(fleet_plan, fleet=replace(fleet_plan.fleet, services=services)), days=1)
    place = [ladder.deployment for ladder in schedule.ladders].index("agents")
    (level,) = {window.levels[place] for window in schedule.windows}
    demand_rps = fleet_plan.fleet.service("agents").demand_rps
    assert [window.rates_rps[place] for window in schedule.windows] == pytest.approx([demand_rps] * 24)
    promised = schedule.ladders[place].levels[level].promise_rps
    assert promised >= min(schedule.terms.headroom * demand_rps, schedule.ladders[place].levels[0].promise_rps)


def test_batches_are_the_first_to_lend_a_node(fleet_plan: FleetPlan, schedule: FleetSchedule) -> None:
    promised = {share.service: share.promised_rps for share in fleet_plan.shares}
    for loss in pipeline.lost_nodes_of_fleet(fleet_plan):  # at their peak they have all nodes
        assert loss.lender == ""
        assert loss.after == loss.meanwhile
        assert dict(loss.after)[loss.deployment] < promised[loss.deployment]
        assert all(rps == pytest.approx(promised[name]) for name, rps in loss.after if name != loss.deployment)
    number = max(range(HOURS), key=lambda k: schedule.windows[k].tokens)
    lent = schedule.gpus(number)["nightly"]
    for loss in pipeline.lost_nodes_of_fleet(fleet_plan, schedule, number):
        lends = lent.get(loss.gpu, 0) >= PRICED_NODE[loss.gpu]
        assert loss.lender == ("nightly" if lends else IDLE if schedule.gpus(number)[""].get(loss.gpu) else "")
        if loss.lender:
            assert dict(loss.after)[loss.deployment] > dict(loss.meanwhile)[loss.deployment]
    assert losses(pipeline.lost_nodes_of_fleet(fleet_plan, schedule, number)).frame().notna().all(axis=None)


def test_what_is_to_survive_survives_at_every_level() -> None:
    survive = {"nodes": 1, "share": 0.6}
    services = [{**DOCUMENT["services"][0], "survive": survive}, DOCUMENT["services"][2]]
    document = {**DOCUMENT, "inventory": {"H20": 40}, "services": services}
    fleet = fleet_from_document(document, origin="test", base=Path(), summarize=summarize)
    schedule = pipeline.schedule_fleet(pipeline.plan_fleet(fleet), LendingTerms(headroom=1.0), days=1)
    (ladder,), (part,) = schedule.ladders, schedule.plan.parts
    assert len(ladder.levels) > 1
    for level in ladder.levels[1:]:
        plan = plan_of_level(part, level)
        assert plan.outlook.promise_rps == pytest.approx(level.promise_rps)
        assert min(loss.rate_rps for loss in plan.outlook.losses) >= 0.6 * plan.throughput_rps * (1 - 1e-6)


def test_the_same_twice(fleet_plan: FleetPlan, schedule: FleetSchedule) -> None:
    again = pipeline.schedule_fleet(fleet_plan, days=HOURS / 24)
    assert (again.windows, again.ladders, again.blocks) == (schedule.windows, schedule.ladders, schedule.blocks)
    assert windows(again).csv() == windows(schedule).csv()
    assert page_text(fleet_schedule_page(again)) == page_text(fleet_schedule_page(schedule))


@pytest.mark.parametrize("least", [1, 2, 3])
def test_no_low_stretch_is_too_short(least: int) -> None:
    for levels in product((0, 1, 2), repeat=5):
        smoothed = without_short(levels, least)
        assert all(after <= before for after, before in zip(smoothed, levels, strict=True))
        for low in (1, 2):
            stretches = "".join("x" if level >= low else " " for level in smoothed).split()
            assert all(len(stretch) >= least for stretch in stretches)
        assert least > 1 or smoothed == list(levels)


def test_rates_are_scaled_and_stay_a_series() -> None:
    windows_of = tuple(RateWindow(start_s=600.0 * k, rate_rps=float(k)) for k in range(144))
    series = RateSeries(name="a", window_s=600.0, windows=windows_of, begins_s=DAY_S / 2)
    assert series.times(2).peak_rps == 2 * series.peak_rps == 286
    assert series.times(2).begins_s == series.begins_s
