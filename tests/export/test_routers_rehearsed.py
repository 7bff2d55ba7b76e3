"""Rehearsals with the routers' programs, in a small form: they hold what a replay of the same requests holds, lose what
a dead server had, and leave nothing behind."""

import json
import os
import subprocess
from dataclasses import replace

import pytest
from contract_plans import two_range_plan
from export_plans import island, plan_of, route
from tools import locations

from planner.domain import PHASES, ParallelConfig, Phase, Plan, SloSettings
from planner.errors import PlannerError
from planner.runs.rehearsal.records import Rehearsal
from planner.runs.rehearsal.rehearsing import rehearse
from planner.runs.rehearsal.settings import Kill, RehearsalSettings
from planner.runs.rehearsal.writing import rehearsal_files

COUNT, RATE_RPS = 150, 30.0
_ANSWER = 12  # tokens in the mean


def programs() -> dict[str, tuple[str, ...]]:
    """The words that start each program here."""
    locations.require("haproxy", "routers")
    words = locations.router_programs()
    path = ("env", f"PYTHONPATH={locations.folder('routers')}")
    modules = {module.partition(".")[0]: (*path, *words[name]) for name, module in locations.ROUTER_MODULES.items()}
    return {"haproxy": tuple(words["haproxy"]), **modules}


def with_levels(plan: Plan, ttft_ms: float = 4000.0) -> Plan:
    """A plan with levels, whose answers are short."""
    workload = replace(plan.scenario.workload, output_tokens=(_ANSWER,) * len(plan.scenario.workload.input_tokens))
    slo = SloSettings(ttft_ms=ttft_ms, tpot_ms=1000.0)
    return replace(plan, scenario=replace(plan.scenario, workload=workload, slo=slo))


def aggregated(servers: int) -> Plan:
    """One island of servers that do both phases, for all lengths."""
    pool = island("H20-0", "H20", Phase.MIXED, ParallelConfig(tp=8, dp=1, replicas=servers))
    rows = tuple(route(pool.id, phase, 0, 1.0, width=8192) for phase in PHASES)
    return with_levels(plan_of((pool,), name="one", routing=rows))


def rehearsed(plan: Plan, **changes: object) -> Rehearsal:
    settings = RehearsalSettings(rate_rps=RATE_RPS, requests=COUNT, slower=1.0, programs=programs())
    return rehearse(plan, plan.scenario.workload, replace(settings, **changes))  # type: ignore[arg-type]


def routers_left() -> list[str]:
    """Programs that this process has started and that run still."""
    listed = subprocess.run(
        ("ps", "-o", "args=", "--ppid", str(os.getpid())), check=False, capture_output=True, text=True
    )
    return [line for line in listed.stdout.splitlines() if "haproxy" in line or "launch_router" in line]


@pytest.mark.parametrize(("router", "engine"), [("haproxy", "vllm"), ("vllm", "vllm"), ("model-gateway", "sglang")])
def test_split_servers_are_paired_and_hold_what_a_replay_holds(router: str, engine: str) -> None:
    result = rehearsed(with_levels(two_range_plan()), router=router, engine=engine)
    assert result.failures == ()
    assert all(use.requests for use in result.rehearsed.islands)
    for first, other in zip(result.rehearsed.levels, result.replayed.levels, strict=True):
        assert first.keeping == pytest.approx(other.keeping, abs=0.1)
    tokens_ms = [run.total.tpot_ms.p50.mean for run in (result.rehearsed, result.replayed) if run.total.tpot_ms]
    assert tokens_ms[0] == pytest.approx(tokens_ms[1], abs=8.0)  # no program keeps a first token back
    for phase in PHASES:
        uses = [use for use in result.pools if use.phase is phase]
        assert sum(use.rehearsed for use in uses) == pytest.approx(1.0)
        assert all(use.rehearsed == pytest.approx(use.planned, abs=0.2) for use in uses)
    assert result.lateness.words == 3 * COUNT  # a prefill's answer, then a first and a last token
    assert routers_left() == []


def test_a_dead_server_loses_what_it_had() -> None:
    result = rehearsed(aggregated(3), kills=(Kill(island="H20-0", at_s=2.0),))
    (death,) = result.killed
    assert death.server == "H20-0-0"
    assert death.at_s == pytest.approx(2.0, abs=0.5)
    assert 0 < death.lost <= death.answering < COUNT
    assert result.elsewhere == 0  # what met its closed port was sent to another
    assert sum(count for _, count in result.failures) == death.lost
    files = rehearsal_files(result)
    document = json.loads(files["rehearsal.json"])
    assert document["failed"] == death.lost
    assert document["killed"][0]["server"] == death.server
    assert b"died at" in files["rehearsal.md"]
    assert len(files["requests.csv"].splitlines()) == COUNT + 1


def test_an_interrupt_leaves_nothing_behind_and_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def interrupted(done: float) -> None:
        if done:  # with answers under way
            raise KeyboardInterrupt

    settings = RehearsalSettings(router="haproxy", rate_rps=RATE_RPS, requests=COUNT, programs=programs())
    plan = aggregated(1)
    caplog.set_level("ERROR", logger="tornado.application")  # as Dask sets it
    with pytest.raises(KeyboardInterrupt):
        rehearse(plan, plan.scenario.workload, settings, interrupted)
    assert routers_left() == []
    assert caplog.records == []


def test_a_program_that_ends_is_told_with_what_it_wrote() -> None:
    plan, words = aggregated(1), {"haproxy": ("sh", "-c", "echo no such option >&2; exit 4")}
    settings = RehearsalSettings(router="haproxy", rate_rps=RATE_RPS, requests=COUNT, programs=words)
    with pytest.raises(PlannerError, match="ended with 4: no such option"):
        rehearse(plan, plan.scenario.workload, settings)
