"""Routers as programs, really run before engines without a model: every request lands where the size of its body says,
split ones are handed over in the engine's own way, and a dead server loses nothing but what it was answering."""

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from contract_plans import two_range_plan
from export_plans import island, plan_of, route
from routers_run.programs_run import Running, running
from routers_run.requests_sent import Request, Sent, send, trace_requests

from planner.domain import PHASES, ParallelConfig, Phase, Plan

_NODE = ParallelConfig(tp=8, dp=1)
_PAIR = ParallelConfig(tp=8, dp=1, replicas=2)
CUTS = (0, 512, 2048)
COUNT = 1000
OK, TOO_LARGE = 200, 413


def aggregated_intervals() -> Plan:
    """Three intervals, each with two servers of islands that do both phases; the last with two islands."""
    islands = tuple(
        island(f"H20-{number}", "H20", Phase.MIXED, parallel)
        for number, parallel in enumerate((_PAIR, _PAIR, _NODE, _NODE))
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


def counted(sent: tuple[Sent, ...], cuts: tuple[int, ...], plan: Plan, landed: dict[int, int]) -> int:
    """Requests that went astray by their true tokens; every one lies where its size says."""
    assert all(landed[one.request.number] == by_size(one.request, cuts, plan) for one in sent)
    return sum(landed[one.request.number] != by_tokens(one.request, cuts) for one in sent)


def test_haproxy_sends_a_thousand_requests_by_their_size(tmp_path: Path) -> None:
    plan = aggregated_intervals()
    requests = trace_requests(COUNT, plan)
    with running(plan, tmp_path, router="haproxy", engine="vllm") as programs:
        sent = send(programs.url, requests, chunked=10)
        records = programs.records()
        too_large = Request(number=COUNT, tokens=40_000, body=b'{"prompt": "' + b"x" * 160_000 + b'"}')
        assert [one.status for one in send(programs.url, [too_large])] == [TOO_LARGE]
    assert Counter(one.status for one in sent) == {OK: COUNT}
    intervals = {"0": 0, "1": 1, "2": 2, "3": 2}
    landed = {one.request.number: intervals[one.engine.split("-h20-")[1][0]] for one in sent}
    astray = counted(sent, CUTS, plan, landed)
    assert 0 < astray < COUNT // 5  # spread of 10 % in bytes a token
    assert sorted(entry["number"] for rows in records.values() for entry in rows) == list(range(COUNT))  # each once
    for number in range(3):  # servers of one interval are taken alike
        shares = [len(rows) for name, rows in records.items() if intervals[name.split("-h20-")[1][0]] == number]
        assert max(shares) <= 1.2 * min(shares) + 10


@pytest.mark.parametrize(("router", "engine"), [("vllm", "vllm"), ("model-gateway", "sglang")])
def test_gateways_pair_copies_of_the_interval(router: str, engine: str, tmp_path: Path) -> None:
    plan = two_range_plan()
    requests = trace_requests(COUNT, plan)
    cuts = (0, 2048)
    with running(plan, tmp_path, router=router, engine=engine) as programs:
        sent = send(programs.url, requests)
        records = programs.records()
    assert Counter(one.status for one in sent) == {OK: COUNT}
    prefill = {entry["number"]: name for name, rows in records.items() if "h200" in name for entry in rows}
    decode = {entry["number"]: name for name, rows in records.items() if "h200" not in name for entry in rows}
    landed = {number: int(int(_number(name)) >= 4) for number, name in prefill.items()}
    assert landed == {number: int(int(_number(name)) >= 2) for number, name in decode.items()}  # both of one interval
    assert 0 < counted(sent, cuts, plan, landed) < COUNT // 5
    assert sum(map(len, records.values())) == 2 * COUNT  # a prefill and a decode each, and none twice
    entries = {name: {int(str(entry["number"])): entry for entry in rows} for name, rows in records.items()}
    for number in range(COUNT):
        first, second = entries[prefill[number]][number], entries[decode[number]][number]
        if engine == "vllm":  # one token, then the answer, with the cache's place between them
            assert (first["max_tokens"], second["max_tokens"]) == (1, 7)
            assert second["kv_transfer_params"]["remote_engine_id"] == prefill[number]
        else:  # both at once, in one room
            assert first["bootstrap_room"] == second["bootstrap_room"]
            assert first["bootstrap_port"] == second["bootstrap_port"] == 8998


def _number(name: str) -> str:
    """Of `two-ranges-h200-5-0` the island's number, 5."""
    return name.rsplit("-", 2)[1]


@pytest.mark.parametrize(
    ("router", "engine", "victim"),
    [("haproxy", "vllm", "three-h20-1-0"), ("vllm", "vllm", "two-ranges-h20-0-0"), ("model-gateway", "sglang", "two-ranges-h20-0-0")],
)
def test_a_dead_server_loses_what_it_was_answering_alone(router: str, engine: str, victim: str, tmp_path: Path) -> None:
    plan = aggregated_intervals() if router == "haproxy" else two_range_plan()
    requests = trace_requests(300, plan, seed=2)
    killed: list[float] = []

    def kill(programs: Running, answered: int) -> None:
        if answered >= 60 and not killed:
            os.kill(programs.processes[victim].pid, signal.SIGKILL)
            programs.processes[victim].wait(timeout=3)
            killed.append(time.monotonic())

    with running(plan, tmp_path, router=router, engine=engine, alone=[victim], seconds=0.02) as programs:
        sent = send(programs.url, requests, at_once=12, answered=lambda count: kill(programs, count))
        assert killed
        late = send(programs.url, requests[:40], at_once=4)
    lost = [one for one in sent if one.status != OK]
    assert len(sent) == len(requests)
    assert all(one.at < killed[0] for one in lost), [(one.status, one.at - killed[0]) for one in lost]
    assert len(lost) <= 12  # no more than were under way
    assert {one.status for one in late} == {OK}
    assert victim not in {one.engine for one in late}
