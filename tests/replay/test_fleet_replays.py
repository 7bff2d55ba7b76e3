"""A fleet's replay: what each service meets in a shared queue, by its own levels."""

from dataclasses import replace
from functools import cache

import pytest
from sharing_fleets import sharing_fleet

from planner import pipeline
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, ReplaySettings, Requests
from planner.domain.fleets import FleetPlan
from planner.domain.replay import FleetReplay
from planner.domain.serving.levels import Standing
from planner.replay.arrivals import merged_streams
from planner.report.replay.services import services_table

POISSON = ArrivalSettings(process=ArrivalProcess.POISSON)


def settings_of(fleet: FleetPlan, requests: int = 3000) -> dict[str, ReplaySettings]:
    return {
        part.name: ReplaySettings(router=part.plan.scenario.router, arrivals=POISSON, seeds=(0, 1), requests=requests)
        for part in fleet.parts
    }


@cache
def replayed() -> FleetReplay:
    """At the promise."""
    return pipeline.replay_fleet(sharing_fleet(), settings_of(sharing_fleet()))


def test_every_service_with_a_demand_keeps_its_levels_at_the_promise() -> None:
    replay = replayed()
    assert [(s.service, s.deployment) for s in replay.services] == [
        ("code", "code"),
        ("chat", "chat-and-agents"),
        ("agents", "chat-and-agents"),
    ]
    assert replay.standing is Standing.HOLDS
    assert {s.service: sorted({level.bound_ms for level in s.levels}) for s in replay.services} == {
        "code": [60, 4000],
        "chat": [50, 2000],
        "agents": [60, 4000],
    }


def test_a_shared_queue_has_requests_of_each_service_by_its_part() -> None:
    replay, fleet = replayed(), sharing_fleet()
    (result,) = [result for result in replay.results if result.plan == "chat-and-agents"]
    part = next(part for part in fleet.parts if part.name == "chat-and-agents")
    requests = {s.service: s.requests for s in replay.services if s.deployment == part.name}
    assert sum(requests.values()) == result.total.requests
    for name, share in part.deployment.parts:
        assert requests[name] / result.total.requests == pytest.approx(share, abs=0.02)
    within = {s.service: s.within_levels.mean for s in replay.services}
    stricter = sum(within[name] * requests[name] for name in requests) / sum(requests.values())
    assert result.total.within_levels.mean <= stricter + 1e-9  # the deployment's levels are the stricter of both


def test_a_service_alone_meets_what_its_plan_replays() -> None:
    fleet = sharing_fleet()
    part, settings = fleet.parts[0], settings_of(fleet)[fleet.parts[0].name]
    alone = pipeline.replay(part.plan, part.plan.scenario.workload, settings, part.promise_rps)
    together = replayed()
    assert replace(together.results[0], left_out=(), notes=()) == replace(alone, left_out=(), notes=())
    assert together.services[0].levels == alone.levels


def test_a_service_whose_own_level_nobody_could_keep_breaks_alone() -> None:
    fleet = sharing_fleet()
    services = tuple(
        replace(s, scenarios=tuple(replace(c, slo=replace(c.slo, ttft_ms=1.0)) for c in s.scenarios))
        if s.name == "agents"
        else s
        for s in fleet.fleet.services
    )
    hard = replace(fleet, fleet=replace(fleet.fleet, services=services))
    replay = pipeline.replay_fleet(hard, settings_of(hard, requests=1500))
    standings = {s.service: s.standing for s in replay.services}
    assert standings["agents"] is Standing.BREAKS
    assert standings["chat"] is not Standing.BREAKS
    assert replay.standing is Standing.BREAKS


def test_beyond_its_capacity_a_deployment_breaks_levels() -> None:
    fleet = sharing_fleet()
    replay = pipeline.replay_fleet(fleet, settings_of(fleet, requests=1500), share=2.0)
    assert replay.standing is Standing.BREAKS


def test_merged_streams_are_in_the_order_of_arrival_and_say_whose_each_is() -> None:
    first = Requests(name="a", arrival_ms=[0.0, 4.0, 9.0], prompt_tokens=[1, 2, 3], answer_tokens=[1, 1, 1])
    second = Requests(name="b", arrival_ms=[2.0, 4.0], prompt_tokens=[7, 8], answer_tokens=[2, 2])
    merged = merged_streams("both", [first, second], 4)
    assert list(merged.arrival_ms) == [0.0, 2.0, 4.0, 4.0]
    assert list(merged.prompt_tokens) == [1, 7, 2, 8]
    assert list(merged.answer_tokens) == [1, 2, 1, 2]
    assert list(merged.classes) == [0, 1, 0, 1]
    assert merged.same_instant == 1


def test_the_table_has_a_row_a_service() -> None:
    block = services_table(replayed()).block()
    assert [row[0] for row in block.rows] == ["code", "chat", "agents"]
    assert {row[-1] for row in block.rows} == {"hold"}
