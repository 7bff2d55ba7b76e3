"""Rehearsals with the routers' programs, in a small form: they hold what a replay of the same requests holds, lose what
a dead server had, and leave nothing behind."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from contract_plans import two_range_plan
from export_plans import island, plan_of, route
from tools import locations

from planner.domain import PHASES, ParallelConfig, Phase, Plan, SloSettings
from planner.runs.rehearsal.records import Rehearsal
from planner.runs.rehearsal.rehearsing import rehearse
from planner.runs.rehearsal.settings import AskedRehearsal, Kill
from planner.runs.rehearsal.writing import rehearsal_files

COUNT, RATE_RPS = 150, 60.0
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
    pool = replace(island("H20-0", "H20", Phase.MIXED, ParallelConfig(tp=8, dp=1, replicas=servers)))
    rows = tuple(route(pool.id, phase, 0, 1.0, width=8192) for phase in PHASES)
    return with_levels(plan_of((pool,), name="one", routing=rows))


def rehearsed(plan: Plan, **changes: object) -> Rehearsal:
    asked = AskedRehearsal(rate_rps=RATE_RPS, requests=COUNT, slower=1.0, programs=programs())
    return rehearse(plan, plan.scenario.workload, replace(asked, **changes))  # type: ignore[arg-type]


def own_children() -> list[str]:
    """Processes that this one has started and that run."""
    listed = subprocess.run(("ps", "-o", "args=", "--ppid", str(_pid())), check=False, capture_output=True, text=True)
    return [line for line in listed.stdout.splitlines() if "haproxy" in line or "launch_router" in line]


def _pid() -> int:
    import os

    return os.getpid()


@pytest.mark.parametrize(
    ("router", "engine"), [("haproxy", "vllm"), ("vllm", "vllm"), ("model-gateway", "sglang")]
)
def test_split_servers_are_paired_and_hold_what_a_replay_holds(router: str, engine: str) -> None:
    result = rehearsed(with_levels(two_range_plan()), router=router, engine=engine)
    assert result.failures == ()
    assert [use.requests for use in result.rehearsed.islands] != [0] * len(result.rehearsed.islands)
    for mine, other in zip(result.rehearsed.levels, result.replayed.levels, strict=True):
        assert mine.keeping == pytest.approx(other.keeping, abs=0.1)
    for phase in PHASES:
        uses = [use for use in result.pools if use.phase is phase]
        assert sum(use.rehearsed for use in uses) == pytest.approx(1.0)
        assert all(use.rehearsed == pytest.approx(use.planned, abs=0.2) for use in uses)
    assert result.lateness.words == 3 * COUNT  # a prefill's answer, then a first and a last token
    assert own_children() == []


def test_a_dead_server_loses_what_it_had(tmp_path: Path) -> None:
    result = rehearsed(aggregated(3), kills=(Kill(island="H20-0", at_s=1.0),))
    (death,) = result.killed
    assert death.server == "H20-0-0"
    assert death.at_s == pytest.approx(1.0, abs=0.5)
    assert 0 < death.lost <= death.answering < COUNT
    assert result.elsewhere == 0  # what met its closed port was sent to another
    assert sum(count for _, count in result.failures) == death.lost
    files = rehearsal_files(result)
    document = json.loads(files["rehearsal.json"])
    assert document["failed"] == death.lost
    assert document["killed"][0]["server"] == death.server
    assert b"died at" in files["rehearsal.md"]
    assert len(files["requests.csv"].splitlines()) == COUNT + 1
