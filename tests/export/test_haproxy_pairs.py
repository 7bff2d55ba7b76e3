"""HAProxy on both sides of the program that pairs: really run, every server of a phase is chosen by its load in the
plan; and what is written of it."""

import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import yaml
from contract_plans import beside_plan, single_node_plan
from export_plans import island, plan_of, route
from routers_run.losing import kill_when
from routers_run.programs_run import running
from routers_run.requests_sent import send, trace_requests
from test_router_haproxy import config

from planner.domain import ParallelConfig, Phase, Plan, RouterPolicy, RoutingForm, RoutingSettings
from planner.export import render
from planner.export.routers.registry import ROUTERS

_PAIR, _NODE = ParallelConfig(tp=8, dp=1, replicas=2), ParallelConfig(tp=8, dp=1)
COUNT, LATE, AT_ONCE = 400, 60, 16
OK = 200


def unequal_plan(policy: RouterPolicy = RouterPolicy.LEAST_WORK) -> Plan:
    """An interval whose prefill islands take 4 to 1, two servers each; of its decode islands one has a server that
    takes as many requests as the two of the other together, and twice as long."""
    islands = (
        island("fast", "H200", Phase.PREFILL, _PAIR, batch_size=8),
        island("slow", "H20", Phase.PREFILL, _PAIR, batch_size=8),
        island("two", "H20", Phase.DECODE, _PAIR, batch_size=16),
        island("long", "H20", Phase.DECODE, _NODE, batch_size=64),
    )
    rows = (
        route("fast", Phase.PREFILL, 0, 0.8),
        route("slow", Phase.PREFILL, 0, 0.2),
        route("two", Phase.DECODE, 0, 0.5),
        replace(route("long", Phase.DECODE, 0, 0.5), step_ms=60.0),
    )
    plan = plan_of(islands, name="unequal", routing=rows)
    settings = RoutingSettings(form=RoutingForm.SETS, policy=policy)
    return replace(plan, scenario=replace(plan.scenario, routing=settings))


def test_every_server_of_a_pair_is_taken_by_its_load_and_a_dead_one_costs_what_it_answers(tmp_path: Path) -> None:
    plan, victim = unequal_plan(), "unequal-fast-0"
    with running(plan, tmp_path, router="haproxy", engine="vllm", alone=[victim], seconds=0.02) as programs:
        sent = send(programs.url, trace_requests(COUNT, plan), at_once=24)
        records = programs.records()
        killed, answered = kill_when(programs, victim, LATE)
        late = send(programs.url, trace_requests(4 * LATE, plan, seed=2), at_once=AT_ONCE, answered=answered)
        lost = [each for each in late if each.status != OK]
        under_way = [each for each in lost if each.at < killed[0]]
        after = send(programs.url, trace_requests(LATE, plan, seed=3), at_once=4)
    assert Counter(each.status for each in sent) == {OK: COUNT}
    counts = {name.removeprefix("unequal-"): len(rows) for name, rows in records.items()}
    assert sum(counts.values()) == 2 * COUNT  # a prefill and a decode each, and none twice
    assert 2.5 < (counts["fast-0"] + counts["fast-1"]) / (counts["slow-0"] + counts["slow-1"]) < 5.5  # 4 planned
    assert 1.3 < counts["long-0"] / (counts["two-0"] + counts["two-1"]) < 2.7  # 2: as many, of twice the time
    places = {name: {entry["number"]: entry for entry in rows} for name, rows in records.items()}
    prefilled = {n: name for name, rows in places.items() if "-fast-" in name or "-slow-" in name for n in rows}
    decoded = {
        n: entry for name, rows in places.items() if "-two-" in name or "-long-" in name for n, entry in rows.items()
    }
    assert all(decoded[n]["kv_transfer_params"]["remote_engine_id"] == name for n, name in prefilled.items())
    assert lost == under_way  # what came to the dead server later went to another
    assert len(lost) <= AT_ONCE
    assert {each.status for each in after} == {OK}
