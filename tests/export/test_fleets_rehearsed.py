"""A fleet rehearsed with real programs, in a small form: services by their names through the exported front, each
judged by its own levels beside the replay of the same requests."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from sharing_fleets import sharing_fleet
from test_routers_rehearsed import programs, routers_left
from typer.testing import CliRunner

from planner import PlannedFleet
from planner.cli.app import build
from planner.domain.fleets import FleetPlan
from planner.errors import InputError
from planner.report.kit.markdown import page_text
from planner.runs.rehearsal.fleets.records import FleetRehearsal
from planner.runs.rehearsal.fleets.rehearsing import rehearse_fleet
from planner.runs.rehearsal.fleets.writing import fleet_rehearsal_files, fleet_rehearsal_page
from planner.runs.rehearsal.settings import Kill, RehearsalSettings

ANSWER = 12  # tokens of every answer


def quick_fleet() -> FleetPlan:
    """Two models, one of which two services share; answers are short."""
    fleet = sharing_fleet()
    services = tuple(
        replace(service, scenarios=tuple(replace(s, workload=_short(s.workload)) for s in service.scenarios))
        for service in fleet.fleet.services
    )
    return replace(fleet, fleet=replace(fleet.fleet, services=services))


def _short(workload):  # type: ignore[no-untyped-def]
    return replace(workload, output_tokens=(ANSWER,) * len(workload.input_tokens))


def rehearsed(fleet: FleetPlan, requests: int, **changes: object) -> FleetRehearsal:
    settings = RehearsalSettings(rate_rps=0.9 * fleet.promise_rps, requests=requests, slower=1.0, programs=programs())
    return rehearse_fleet(fleet, replace(settings, **changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def rehearsal() -> FleetRehearsal:
    """Two models and three services."""
    return rehearsed(quick_fleet(), 240)


def test_services_hold_behind_the_front_what_a_replay_holds(rehearsal: FleetRehearsal) -> None:
    rows = {(row.rehearsed.service, row.rehearsed.deployment): row for row in rehearsal.services}
    assert set(rows) == {("code", "code"), ("chat", "chat-and-agents"), ("agents", "chat-and-agents")}
    assert all(row.failures == () for row in rows.values())
    promised = {part.name: part.promised_to for part in sharing_fleet().parts}
    for (service, deployment), row in rows.items():
        assert row.promised_rps == promised[deployment](service)
        assert row.rehearsed.requests == row.replayed.requests
        assert row.rehearsed.within_levels.mean == pytest.approx(row.replayed.within_levels.mean, abs=0.1)
        assert [level.name for level in row.rehearsed.levels] == [level.name for level in row.replayed.levels]
    assert rehearsal.share == pytest.approx(0.9)
    assert set(rehearsal.programs) >= {"haproxy"}
    assert routers_left() == []


def test_each_service_is_judged_by_its_own_levels(rehearsal: FleetRehearsal) -> None:
    bounds = {row.rehearsed.service: [level.bound_ms for level in row.rehearsed.levels] for row in rehearsal.services}
    assert bounds == {"code": [4000, 60], "chat": [2000, 50], "agents": [4000, 60]}


def test_all_requests_are_of_some_service(rehearsal: FleetRehearsal) -> None:
    assert len(rehearsal.outcomes) == 240
    assert sum(result.total.requests for result in rehearsal.rehearsed.results) == pytest.approx(0.9 * 240, abs=2)
    for rehearsed_part, replayed_part in zip(rehearsal.rehearsed.results, rehearsal.replayed.results, strict=True):
        taken = [sum(use.requests for use in result.islands) for result in (rehearsed_part, replayed_part)]
        assert taken[0] == pytest.approx(taken[1], abs=3)  # each was seen at some server, in both
    sent = {row.rehearsed.service: row.rehearsed.requests for row in rehearsal.services}
    total = sum(row.promised_rps for row in rehearsal.services)
    for row in rehearsal.services:
        assert sent[row.rehearsed.service] / 216 == pytest.approx(row.promised_rps / total, abs=0.12)


def test_the_page_and_the_document_tell_of_every_service(rehearsal: FleetRehearsal) -> None:
    page = page_text(fleet_rehearsal_page(rehearsal))
    files = fleet_rehearsal_files(rehearsal)
    document = json.loads(files["rehearsal.json"])
    assert "| chat" in page
    assert "at 90 % of what all services are promised" in page
    assert [row["service"] for row in document["services"]] == [row.rehearsed.service for row in rehearsal.services]
    assert document["requests"] == files["requests.csv"].count(b"\n") - 1 == 240


def test_a_service_with_two_deployments_is_split_as_they_promise() -> None:
    fleet = quick_fleet()
    (code,) = (part for part in fleet.parts if part.name == "code")
    twin = replace(code.deployment.scenario, name="code-2")
    other = replace(code, deployment=replace(code.deployment, scenario=twin), plan=replace(code.plan, scenario=twin))
    rehearsal = rehearsed(replace(fleet, parts=(code, replace(other, plan=_renamed(code.plan, "code-2")))), 120)
    counts = Counter({row.rehearsed.deployment: row.rehearsed.requests for row in rehearsal.services})
    assert all(row.failures == () for row in rehearsal.services)
    assert abs(counts["code"] - counts["code-2"]) <= 8
    assert sum(counts.values()) == pytest.approx(108, abs=2)


def _renamed(plan, name):  # type: ignore[no-untyped-def]
    return replace(plan, scenario=replace(plan.scenario, name=name))


def test_engines_that_do_not_know_the_service_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be missed if no engine looked at the name."""
    from planner.runs.rehearsal import rehearsing

    stage = rehearsing.Prepared.stage
    monkeypatch.setattr(
        rehearsing.Prepared, "stage", lambda self, requests, clock, _names: stage(self, requests, clock)
    )
    fleet = quick_fleet()
    rehearsal = rehearsed(replace(fleet, parts=tuple(p for p in fleet.parts if p.name == "code")), 20)
    (row,) = rehearsal.services
    assert row.failed == 20
    assert "the model 'code' does not exist" in row.failures[0][0]
    assert rehearsal.holds is not True


def test_what_cannot_be_rehearsed_is_refused() -> None:
    fleet = sharing_fleet()
    settings = RehearsalSettings(rate_rps=1.0, requests=10)
    with pytest.raises(InputError, match="kill: must be left out for a fleet"):
        rehearse_fleet(fleet, replace(settings, kills=(Kill(island="a", at_s=1.0),)))
    with pytest.raises(InputError, match="services: must be some with a demand"):
        rehearse_fleet(replace(fleet, parts=()), settings)
    with pytest.raises(InputError, match="requests: must be from 1"):
        rehearse_fleet(fleet, replace(settings, requests=0))


def test_the_command_takes_a_fleets_folder(tmp_path: Path) -> None:
    PlannedFleet(sharing_fleet()).save(tmp_path / "small")
    words = [f"--program={name}={' '.join(command)}" for name, command in programs().items()]
    asked = [
        "rehearse",
        str(tmp_path / "small"),
        "--requests",
        "40",
        "--slower",
        "0.25",
        "--out",
        str(tmp_path / "out"),
        "--json",
        *words,
    ]
    answer = CliRunner().invoke(build(), asked)
    document = json.loads(answer.stdout)
    assert {row["service"] for row in document["services"]} == {"chat", "agents", "code"}
    assert document["share"] == pytest.approx(1.0)
    assert json.loads((tmp_path / "out/rehearsal.json").read_text())["summary"] == document["summary"]
    assert answer.exit_code == 2  # forty requests are too few to tell
    refused = CliRunner().invoke(build(), ["rehearse", str(tmp_path / "small"), "--trace", "lengths"])
    assert isinstance(refused.exception, InputError)
    assert "--trace: must be left out for the fleet" in str(refused.exception)
