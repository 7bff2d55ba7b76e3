"""HAProxy that counts bytes, really run: prompts keep clear of a long one, and however requests end nothing is left
counted; and where it cannot, that is said."""

import asyncio
import json
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from contract_plans import aggregated_plan
from routers_run.losing import kill_when
from routers_run.programs_run import Running, running
from routers_run.requests_sent import Request, Sent, send, trace_requests
from routers_run.stub_engine import SLOWLY
from test_haproxy_pairs import OK, unequal_plan
from test_router_haproxy import config

from planner.domain import RouterPolicy, RoutingForm
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, render
from planner.export.routers.haproxy import FORWARD_S, LUA_FILE

BYTES, REQUESTS = ExportOptions(router_counts="bytes"), ExportOptions(router_counts="requests")
LONG, SHORT = 40_000, 300
COUNT, AT_ONCE, LATE = 60, 24, 40


def request(number: int, size: int, word: str = "x") -> Request:
    """A request whose prompt has about so many bytes."""
    body = json.dumps({"model": "stub", "max_tokens": 7, "prompt": f"{number} {word} {'x' * size}"})
    return Request(number=number, tokens=size // 4, body=body.encode())


async def beside_a_long_one(programs: Running) -> tuple[tuple[Sent, ...], dict[str, list[int]]]:
    """What becomes of short prompts while a long one is worked on, and the numbers that came to each server."""
    long = asyncio.create_task(asyncio.to_thread(send, programs.url, [request(0, LONG, SLOWLY)]))
    await asyncio.sleep(0.2)
    shorts = await asyncio.to_thread(send, programs.url, [request(1 + n, SHORT) for n in range(COUNT)], at_once=AT_ONCE)
    assert not long.done()  # it was there all the time
    await long
    return shorts, {name: [int(str(row["number"])) for row in rows] for name, rows in programs.records().items()}


@pytest.mark.parametrize("counts", ["bytes", "requests"])
def test_short_prompts_keep_clear_of_a_long_one_where_bytes_count(counts: str, tmp_path: Path) -> None:
    plan, victim = unequal_plan(), "unequal-fast-0"
    options = ExportOptions(router_counts=counts)
    with running(
        plan, tmp_path, router="haproxy", engine="vllm", alone=[victim], seconds=0.02, options=options
    ) as programs:
        sent, numbers = asyncio.run(beside_a_long_one(programs))
        if counts == "bytes":
            nothing_stays_counted(programs, victim)
    assert Counter(each.status for each in sent) == {OK: COUNT}
    (behind,) = (rows for name, rows in numbers.items() if 0 in rows and re.search("-(fast|slow)-", name))
    assert (len(behind) > 1) == (counts == "requests")


def nothing_stays_counted(programs: Running, victim: str) -> None:
    """Requests that clients give up, that a server takes along as it dies, and that no server is left for."""
    assert set(programs.outstanding().values()) == {0}
    asyncio.run(given_up(programs))
    killed, kill = kill_when(programs, victim, LATE)
    send(programs.url, trace_requests(4 * LATE, unequal_plan()), at_once=AT_ONCE, answered=kill)
    assert killed
    for process in {each.pid: each for each in programs.processes.values()}.values():
        process.kill()
    lost = send(programs.url, [request(n, SHORT) for n in range(COUNT)], at_once=AT_ONCE)
    assert OK not in {each.status for each in lost}
    assert set(programs.outstanding().values()) == {0}
    assert "Lua" not in programs.log.read_text()


async def given_up(programs: Running) -> None:
    """Clients that go away while their prompt is worked on, which is counted until then."""
    host, _, port = programs.url.rpartition(":")
    writers = []
    for number in range(8):
        _, writer = await asyncio.open_connection(host, int(port))
        body = request(number, SHORT, SLOWLY).body
        head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        writer.write(b"%scontent-length: %d\r\n\r\n%s" % (head, len(body), body))
        await writer.drain()
        writers.append(writer)
    await asyncio.sleep(0.2)
    assert sum(programs.outstanding().values()) > 8 * SHORT
    for writer in writers:
        writer.close()
    end = time.monotonic() + 3
    while sum(programs.outstanding().values()) and time.monotonic() < end:
        await asyncio.sleep(0.05)
    assert set(programs.outstanding().values()) == {0}


@pytest.mark.parametrize("target", ["script", "lws"])
def test_the_script_goes_along_and_prefill_alone_is_counted(target: str) -> None:
    files = render(unequal_plan(), target=target, options=BYTES)
    text = config(files)
    assert "nbthread 1\n" in text  # HAProxy's filters of several threads lose what they counted
    assert re.findall(r"^backend (\S+)\n(?:    .*\n)*?    filter lua", text, re.MULTILINE) == ["prefill-0"]
    assert any("register_filter" in text for name, text in files.items() if target == "lws" or name == LUA_FILE)
    assert "lua" not in config(render(unequal_plan(), target=target, options=REQUESTS))


def test_answers_that_one_thread_cannot_forward_are_warned_of() -> None:
    """80 % of two threads at 24 microseconds a token: 66,667 tokens/s."""
    plan = unequal_plan()
    answer = plan.scenario.workload.mean_output_tokens
    for tokens_s, options, warned in ((66_000, BYTES, False), (67_500, BYTES, True), (67_500, REQUESTS, False)):
        busy = replace(plan, throughput_rps=tokens_s / answer)
        assert ("# WARNING: " in render(busy, target="lws", options=options)["router.yaml"]) is warned
    guide = (Path(__file__).parents[2] / "planner/cli/docs/guides/manifests.md").read_text(encoding="utf-8")
    assert f"A thread forwards some {round(1 / FORWARD_S, -4):,.0f} tokens/s" in guide
    assert "over 80 % busy" in guide


def test_what_is_counted_is_asked_of_haproxy_alone_and_bytes_where_it_chooses_prefill_servers() -> None:
    for router, target in (("vllm", "lws"), ("llm-d", "llm-d"), ("none", "lws")):
        with pytest.raises(ExportError, match="router_counts: must be left out unless the router is haproxy"):
            render(unequal_plan(), target=target, router=router, options=REQUESTS)
    cached = unequal_plan(policy=RouterPolicy.PREFIX_AWARE)
    for plan, engine in (
        (unequal_plan(RoutingForm.TABLE), "vllm"),
        (cached, "vllm"),
        (aggregated_plan(), "vllm"),
        (unequal_plan(), "sglang"),
    ):
        assert "lua" not in config(render(plan, engine=engine, options=BYTES))
    with pytest.raises(InputError, match="router_counts: must be one of bytes, requests, got 'tokens'"):
        render(unequal_plan(), options=replace(BYTES, router_counts="tokens"))
