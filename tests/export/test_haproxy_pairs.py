"""HAProxy on both sides of the program that pairs: really run, every server of a phase is chosen by its load in the
plan; and what is written of it."""

import contextlib
import json
import re
import socket
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
import yaml
from export_plans import island, plan_of, route
from router_reading.comparing import router_faults
from router_reading.haproxy import read_backends, read_doors
from routers_run.losing import kill_when
from routers_run.programs_run import Running, running
from routers_run.requests_sent import send, trace_requests
from routers_run.stub_engine import SLOW_S, SLOWLY
from test_router_gateways import commands, values
from test_router_haproxy import config

from planner.domain import ParallelConfig, Phase, Plan, RouterPolicy, RoutingForm, RoutingSettings
from planner.domain.serving.programs import Surroundings
from planner.domain.serving.routers import Endpoints, Rule
from planner.export import ExportOptions, render
from planner.export.routers.registry import ROUTERS
from planner.export.routers.speeds import equal_groups, server_counts

_PAIR, _NODE = ParallelConfig(tp=8, dp=1, replicas=2), ParallelConfig(tp=8, dp=1)
COUNT, LATE, AT_ONCE = 400, 60, 16
OK = 200


def unequal_plan(
    form: RoutingForm = RoutingForm.SETS,
    policy: RouterPolicy = RouterPolicy.LEAST_WORK,
    prefill: Mapping[str, float] = MappingProxyType({"fast": 0.8, "slow": 0.2}),
    decode: Mapping[str, tuple[float, float]] = MappingProxyType({"two": (0.5, 30.0), "long": (0.5, 60.0)}),
) -> Plan:
    """An interval whose prefill islands have these shares and two servers each; of its decode islands, which have these
    shares and steps (ms), `long` has one server and others two."""
    islands = (
        *(island(name, "H200", Phase.PREFILL, _PAIR, batch_size=8) for name in prefill),
        *(island(n, "H20", Phase.DECODE, _NODE if n == "long" else _PAIR, batch_size=32) for n in decode),
    )
    rows = (
        *(route(name, Phase.PREFILL, 0, share) for name, share in prefill.items()),
        *(replace(route(n, Phase.DECODE, 0, share), step_ms=ms) for n, (share, ms) in decode.items()),
    )
    plan = plan_of(islands, name="unequal", routing=rows)
    return replace(plan, scenario=replace(plan.scenario, routing=RoutingSettings(form=form, policy=policy)))


def test_servers_are_taken_by_their_load_and_a_dead_one_costs_what_it_answers(tmp_path: Path) -> None:
    plan, victim = unequal_plan(), "unequal-fast-0"
    options = ExportOptions(router_counts="requests")
    with running(
        plan, tmp_path, router="haproxy", engine="vllm", alone=[victim], seconds=0.02, options=options
    ) as programs:
        sent = send(programs.url, trace_requests(COUNT, plan), at_once=24)
        records = programs.records()
        assert not decoded_after_its_client_left(programs, COUNT)
        killed, answered = kill_when(programs, victim, LATE)
        late = send(programs.url, trace_requests(4 * LATE, plan, seed=2), at_once=AT_ONCE, answered=answered)
        after = send(programs.url, trace_requests(LATE, plan, seed=3), at_once=4)
    assert Counter(each.status for each in sent) == {OK: COUNT}
    counts = {name.removeprefix("unequal-"): len(rows) for name, rows in records.items()}
    assert sum(counts.values()) == 2 * COUNT  # a prefill and a decode each, and none twice
    assert 2.5 < (counts["fast-0"] + counts["fast-1"]) / (counts["slow-0"] + counts["slow-1"]) < 5.5  # 4 planned
    assert 1.3 < counts["long-0"] / (counts["two-0"] + counts["two-1"]) < 2.7  # 2: as many, of twice the time
    entries = {name: {str(row["number"]): row for row in rows} for name, rows in records.items()}
    decoded = {
        n: row for name, rows in entries.items() if "-two-" in name or "-long-" in name for n, row in rows.items()
    }
    prefilled = {n: name for name, rows in entries.items() if "-fast-" in name or "-slow-" in name for n in rows}
    assert {n: row["kv_transfer_params"]["remote_engine_id"] for n, row in decoded.items()} == prefilled  # type: ignore[index]
    lost = [each for each in late if each.status != OK]
    assert all(each.at < killed[0] for each in lost)  # what would have come to the dead server went to another
    assert len(lost) <= AT_ONCE
    assert {each.status for each in after} == {OK}


def decoded_after_its_client_left(programs: Running, number: int) -> bool:
    """Whether a request comes to a decode server although its client went away while it was in prefill."""
    host, _, port = programs.url.rpartition(":")
    body = json.dumps({"model": "stub", "max_tokens": 7, "prompt": f"{number} {SLOWLY} x"})
    with contextlib.closing(socket.create_connection((host, int(port)))) as client:
        head = (
            f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        )
        client.sendall(f"{head}\r\n\r\n{body}".encode())
        time.sleep(SLOW_S / 2)
    time.sleep(SLOW_S)
    places = [name for name, rows in programs.records().items() if any(row["number"] == number for row in rows)]
    assert len(places) >= 1  # it had begun
    return len(places) > 1


def test_servers_weigh_what_the_plan_has_them_hold() -> None:
    prefill, decode = read_doors(config(render(unequal_plan(), target="script"))).values()
    assert dict(prefill) == {"unequal-fast-0:8000": 256, "unequal-fast-1:8000": 256} | {
        f"unequal-slow-{copy}:8000": 64 for copy in range(2)
    }
    # 0.5 x 30 ms on two servers, 0.5 x 60 ms on one
    assert [weight for _, weight in decode] == [64, 64, 256]
    table = config(render(unequal_plan(RoutingForm.TABLE), target="script"))
    assert "balance leastconn" not in table
    assert [weight for _, weight in read_doors(table)[10_101]] == [128, 128, 256]  # in turn: the shares as they are


@pytest.mark.parametrize("target", ["lws", "kubernetes", "disaggregatedset"])
def test_programs_reach_haproxy_where_it_listens(target: str) -> None:
    files = render(unequal_plan(), target=target, router="haproxy")
    documents = list(yaml.safe_load_all(files["router.yaml"]))
    service = next(d for d in documents if d["kind"] == "Service" and d["metadata"]["name"] == "unequal-router")
    pod = next(d for d in documents if d["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0]
    doors = read_doors(config(files))
    (words,) = commands(files).values()
    urls = [*values(words, "--prefill"), *values(words, "--decode")]
    assert urls == [f"http://unequal-router:{port}" for port in doors]
    assert {row["port"] for row in service["spec"]["ports"]} == {8080, *doors}
    assert {row["name"]: row["containerPort"] for row in pod["ports"]} == {
        row["targetPort"]: row["port"] for row in service["spec"]["ports"]
    }
    assert "--disable-circuit-breaker" in words
    assert not any("router.planner/interval" in text for text in files.values())  # HAProxy finds pods by name
    assert router_faults(files, unequal_plan()) == ()


def test_pods_that_an_autoscaler_adds_have_a_place() -> None:
    plan = unequal_plan()
    more = tuple(replace(item, count=item.count + 16) for item in plan.scenario.inventory.items)
    plan = replace(plan, scenario=replace(plan.scenario, inventory=replace(plan.scenario.inventory, items=more)))
    files = render(plan, target="kubernetes", options=ExportOptions(autoscaling="hpa", monitoring=True))
    most_copies = {
        scaler["spec"]["scaleTargetRef"]["name"]: scaler["spec"]["maxReplicas"]
        for scaler in yaml.safe_load_all(files["autoscaling.yaml"])
        if scaler["kind"] == "HorizontalPodAutoscaler"
    }
    templates = re.findall(r"server-template (\S+)- (\d+) ", config(files))
    assert {name: int(places) for name, places in templates} == most_copies
    assert most_copies["unequal-fast"] == 4


def test_neither_program_waits_for_the_other_to_be_ready() -> None:
    """Its readiness decides whether HAProxy gets requests, also those of the programs that it waits for."""
    text = config(render(unequal_plan(), target="lws"))
    (rule,) = (line for line in text.splitlines() if line.strip().startswith("monitor fail if split"))
    assert rule.split() == ["monitor", "fail", "if", "split-0-down"]
    assert {line.split()[2] for line in text.splitlines() if " acl " in line} == {"nbsrv(prefill-0)", "nbsrv(decode-0)"}


def test_clients_leave_connections_to_the_programs_behind() -> None:
    """Of every client's: its own, and of either copy of the pairing program one to each phase, kept or in use."""
    lines = config(render(unequal_plan(), target="lws")).splitlines()
    total, clients = (int(line.split()[1]) for line in lines if line.strip().startswith("maxconn"))
    assert total >= clients + 2 * 2 * clients


def test_other_forms_stay_where_haproxy_cannot_choose_for_the_program() -> None:
    """SGLang's pair agrees on an address before both halves are sent; prefixes are looked for in all servers."""
    files = render(unequal_plan(), target="lws", engine="sglang", router="haproxy")
    assert list(commands(files)) == ["unequal-router-0-split-0", "unequal-router-0-split-1"]
    assert read_doors(config(files)) == {}
    cached = unequal_plan(policy=RouterPolicy.PREFIX_AWARE)
    (words,) = commands(render(cached, target="lws", router="haproxy")).values()
    assert len(values(words, "--prefill")) == 4
    assert values(words, "--policy") == ["cache_aware"]


def test_what_haproxy_does_is_told() -> None:
    behaviour = ROUTERS["haproxy"].behaviour(unequal_plan(), Surroundings())
    assert all(
        (layers[0].rule, layers[0].by_speed) == (Rule.LEAST_LOADED, True)
        for layers in (behaviour.prefill, behaviour.decode)
    )
    assert not any("status 500" in note for note in behaviour.notes)
    cached = ROUTERS["haproxy"].behaviour(unequal_plan(policy=RouterPolicy.PREFIX_AWARE), Surroundings())
    assert (cached.prefixes, cached.prefill[0].by_speed) == (True, False)


def test_no_vllm_router_stands_over_servers_of_different_speed() -> None:
    files = render(unequal_plan(), target="script", router="vllm")
    rows = {tuple(values(words, "--prefill") + values(words, "--decode")) for words in commands(files).values()}
    servers = {name: [f"http://unequal-{name}-{copy}:8000" for copy in range(2)] for name in ("fast", "slow", "two")}
    long = ["http://unequal-long-0:8000"]
    assert rows == {tuple(servers[first] + second) for first in ("fast", "slow") for second in (servers["two"], long)}
    ((_, _, programs),) = read_backends(config(files)) or ()
    # of the prefill 0.8 and 0.2, of the decode time 1/3 and 2/3
    assert [weight for _, weight in programs] == [256, 128, 64, 32]
    behaviour = ROUTERS["vllm"].behaviour(unequal_plan(), Surroundings())
    assert (behaviour.prefill[0].among, behaviour.prefill[0].by_speed) == (Endpoints.POOL, True)


def test_equal_servers_share_a_vllm_router() -> None:
    """Speeds within 5 % are one: 0.51 to 0.49; and a server counts, not its island."""
    nearly = {"fast": 0.51, "slow": 0.49}
    words = commands(render(unequal_plan(prefill=nearly), target="lws", router="vllm"))
    assert [len(values(row, "--prefill")) for row in words.values()] == [4, 4]  # one for each decode pool
    alike = unequal_plan(prefill=nearly, decode={"two": (2 / 3, 30.0), "long": (1 / 3, 30.0)})
    files = render(alike, target="lws", router="vllm")
    assert list(commands(files)) == ["unequal-router"]  # nobody has to stand in front


def test_speed_is_of_what_is_chosen_among() -> None:
    """Half the servers of twice the ranks take half the requests: unlike as servers, alike as ranks."""
    plan = unequal_plan()
    wide = replace(plan.islands[0], parallel=ParallelConfig(tp=4, dp=4, replicas=2))
    narrow = replace(plan.islands[1], parallel=ParallelConfig(tp=4, dp=2, replicas=2))
    plan = replace(plan, islands=(wide, narrow, *plan.islands[2:]))
    loads = {"fast": 2 / 3, "slow": 1 / 3}
    assert equal_groups(loads, server_counts(plan, ranks=False)) == (("fast",), ("slow",))
    assert equal_groups(loads, server_counts(plan, ranks=True)) == (("fast", "slow"),)


def test_pods_of_a_speed_are_found_by_their_label() -> None:
    plan = unequal_plan(prefill={"fast": 0.4, "even": 0.4, "slow": 0.2})
    files = render(plan, target="kubernetes", router="vllm")
    documents = [d for name, text in files.items() if name[0].isdigit() for d in yaml.safe_load_all(text)]
    pods = {
        d["metadata"]["name"].removeprefix("unequal-"): d["spec"]["template"]["metadata"]["labels"]
        for d in documents
        if d["kind"] == "Deployment"
    }
    picked = set()
    for words in commands(files).values():
        for role in ("prefill", "decode"):
            at = words.index(f"--{role}-selector") + 1
            end = next(n for n in range(at, len(words)) if words[n].startswith("--"))
            labels = dict(word.split("=") for word in words[at:end])
            picked.add((role, *(name for name, pod in pods.items() if labels.items() <= pod.items())))
    assert picked == {("prefill", "fast", "even"), ("prefill", "slow"), ("decode", "two"), ("decode", "long")}
