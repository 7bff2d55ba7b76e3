"""Routers as programs, really run before engines without a model: every request lands where the size of its body says,
split ones are handed over in the engine's own way, and a dead server loses nothing but what it was answering."""

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from contract_plans import two_range_plan
from export_plans import island, plan_of, route
from routers_run.losing import kill_when
from routers_run.programs_run import Running, running
from routers_run.requests_sent import Request, Sent, send, trace_requests

from planner.domain import PHASES, ParallelConfig, Phase, Plan

_NODE = ParallelConfig(tp=8, dp=1)
_PAIR = ParallelConfig(tp=8, dp=1, replicas=2)
_RANKS = ParallelConfig(tp=4, dp=2, replicas=2)
CUTS = (0, 512, 2048)
COUNT = 300
AT_ONCE, LATE = 12, 40
OK, TOO_LARGE = 200, 413


def aggregated_intervals() -> Plan:
    """Three intervals, each with two servers of islands that do both phases, the first's of two ranks each; the last
    with two islands."""
    islands = tuple(
        island(f"H20-{number}", "H20", Phase.MIXED, parallel)
        for number, parallel in enumerate((_RANKS, _PAIR, _NODE, _NODE))
    )
    serving = {0: (0,), 512: (1,), 2048: (2, 3)}
    ends = (*CUTS[1:], 8192)
    rows = tuple(
        route(islands[number].id, phase, start, 1 / len(numbers), width=end - start)
        for (start, numbers), end in zip(serving.items(), ends, strict=True)
        for phase in PHASES
        for number in numbers
    )
    return plan_of(islands, name="three", routing=rows)


def in_ranks(plan: Plan) -> Plan:
    """The plan with two attention ranks in every server."""
    return replace(plan, islands=tuple(replace(i, parallel=ParallelConfig(tp=4, dp=2)) for i in plan.islands))


def by_size(request: Request, cuts: tuple[int, ...], plan: Plan) -> int:
    """The interval of a body, counted here by itself: JSON of a chat request, then 4 bytes a token."""
    answer = plan.scenario.workload.max_output_tokens
    name = plan.scenario.model.uri.removeprefix("hf://")
    envelope = len(
        f'{{"model": "{name}", "messages": [{{"role": "user", "content": ""}}], '
        f'"max_tokens": {answer}, "temperature": 0.0, "stream": true}}'
    )
    return max(at for at, cut in enumerate(cuts) if cut == 0 or len(request.body) >= envelope + 4 * cut)


def by_tokens(request: Request, cuts: tuple[int, ...]) -> int:
    """The interval that the plan has the prompt in."""
    return max(at for at, cut in enumerate(cuts) if request.tokens >= cut)


def astray(sent: tuple[Sent, ...], cuts: tuple[int, ...], plan: Plan, landed: dict[int, int]) -> int:
    """How many lie elsewhere than their true tokens say; every one lies where its size says."""
    assert all(landed[each.request.number] == by_size(each.request, cuts, plan) for each in sent)
    return sum(landed[each.request.number] != by_tokens(each.request, cuts) for each in sent)


def test_haproxy_sends_requests_by_their_size(tmp_path: Path) -> None:
    plan, victim = aggregated_intervals(), "three-h20-1-0"
    with running(plan, tmp_path, router="haproxy", engine="vllm", alone=[victim]) as programs:
        sent = send(programs.url, trace_requests(COUNT, plan), chunked=10)
        records = programs.records()
        too_large = Request(number=COUNT, tokens=40_000, body=b'{"prompt": "' + b"x" * 160_000 + b'"}')
        assert [each.status for each in send(programs.url, [too_large])] == [TOO_LARGE]
        loses_what_was_under_way(programs, plan, victim, blind_s=0.0)
    assert Counter(each.status for each in sent) == {OK: COUNT}
    intervals = {"0": 0, "1": 1, "2": 2, "3": 2}
    landed = {each.request.number: intervals[_number(each.engine)] for each in sent}
    assert 0 < astray(sent, CUTS, plan, landed) < COUNT // 5  # 10 % of spread in bytes a token
    assert sorted(entry["number"] for rows in records.values() for entry in rows) == list(range(COUNT))  # each once
    for number in range(len(CUTS)):  # servers of one interval are taken alike
        counts = [len(rows) for name, rows in records.items() if intervals[_number(name)] == number]
        assert max(counts) <= 1.2 * min(counts) + 10


@pytest.mark.parametrize(("router", "engine", "blind_s"), [("vllm", "vllm", 3.0), ("model-gateway", "sglang", 0.0)])
def test_gateways_pair_copies_of_the_interval(router: str, engine: str, blind_s: float, tmp_path: Path) -> None:
    plan, cuts, victim = in_ranks(two_range_plan()), (0, 2048), "two-ranges-h20-0-0"
    with running(plan, tmp_path, router=router, engine=engine, alone=[victim]) as programs:
        sent = send(programs.url, trace_requests(COUNT, plan))
        records = programs.records()
        loses_what_was_under_way(programs, plan, victim, blind_s=blind_s)
    assert Counter(each.status for each in sent) == {OK: COUNT}
    assert len(records) == len(plan.islands) * (2 if engine == "vllm" else 1)  # a rank each, or a server
    assert all(records.values())
    entries = {name: {int(str(entry["number"])): entry for entry in rows} for name, rows in records.items()}
    assert sum(map(len, records.values())) == 2 * COUNT  # a prefill and a decode each, and none twice
    prefill = {number: name for name, rows in entries.items() if "-h200-" in name for number in rows}
    decode = {number: name for name, rows in entries.items() if "-h20-" in name for number in rows}
    landed = {number: int(int(_number(name)) >= 4) for number, name in prefill.items()}
    assert landed == {number: int(int(_number(name)) >= 2) for number, name in decode.items()}  # both of one interval
    assert 0 < astray(sent, cuts, plan, landed) < COUNT // 5
    for number in range(COUNT):
        first, second = entries[prefill[number]][number], entries[decode[number]][number]
        if engine == "vllm":  # one token, then the answer, and where the cache lies between them
            assert (first["max_tokens"], second["max_tokens"]) == (1, 7)
            assert second["kv_transfer_params"]["remote_engine_id"] == prefill[number]
        else:  # both at once, in one room
            assert first["bootstrap_room"] == second["bootstrap_room"]
            assert first["bootstrap_port"] == second["bootstrap_port"]


def loses_what_was_under_way(programs: Running, plan: Plan, victim: str, *, blind_s: float) -> None:
    """Kill a server while requests come in: lost are at most those that it had, or that a router sent it in the
    `blind_s` until it noticed; all others are answered, and then none goes there."""
    killed, kill = kill_when(programs, victim, LATE)
    requests = trace_requests(6 * LATE, plan, seed=2)
    sent = send(programs.url, requests, at_once=AT_ONCE, answered=kill)
    lost = [each for each in sent if each.status != OK]
    assert len(sent) == len(requests)
    assert killed
    assert all(each.at < killed[0] + blind_s for each in lost), [(e.status, e.at - killed[0]) for e in lost]
    assert len(lost) <= (AT_ONCE if not blind_s else len(requests) // 2)
    time.sleep(max(0.0, killed[0] + blind_s - time.monotonic()))
    late = send(programs.url, requests[:LATE], at_once=4)
    assert {each.status for each in late} == {OK}
    assert victim not in {each.engine for each in late}


def _number(name: str) -> str:
    """The island's number: of `two-ranges-h200-5-0` it is 5."""
    return name.rsplit("-", 2)[1]
