"""Attention ranks as endpoints: every rank has one address, whoever lists it, and nobody has another's port."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from contract_plans import MIXED, aggregated_plan, beside_plan, single_node_plan
from export_plans import PREFILL, example_plan, gpu, island, plan_of, route
from quick_yaml import load_documents
from router_reading.comparing import router_faults

from planner.domain import PHASES, ParallelConfig, Phase, Plan
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, find_faults, read_manifests, render
from planner.export.checking.carrying import engines_of, with_engines
from planner.export.checking.tables import routing_tables
from planner.export.engines.arguments import read_flags
from planner.export.found import FoundPod, FoundWorkload
from planner.files import load_engine

BY_RANK = ExportOptions(ranks="rank")


def workloads(files: dict[str, str]) -> dict[str, FoundWorkload]:
    """By the id of their islands."""
    rows = (w for m, kind in read_manifests(files).sound if kind and kind.workloads for w in kind.workloads(m))
    return {workload.annotations["planner/island-id"]: workload for workload in rows}


def services(files: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Rows of the routing table, by island."""
    (table,), _ = routing_tables([manifest for manifest, _ in read_manifests(files).sound])
    return {row["island"]: row for row in table.table["services"]}


def ranks_of(pod: FoundPod, index: int) -> list[tuple[int, int]]:
    """(rank, port) of what the engine starts in the pod `index`, by vLLM's own arithmetic."""
    words = [word.replace("$(LWS_WORKER_INDEX)", str(index)) for word in pod.arguments or ()]
    values = read_flags(words)
    port = int(values["port"])
    if "data-parallel-multi-port-external-lb" not in values:
        return [(int(values["data-parallel-rank"]), port)]
    start = int(words[4]) * int(words[5]) if words[0] == "sh" else 0
    return [(start + local, port + local) for local in range(int(values["data-parallel-size-local"]))]


@pytest.mark.parametrize(("tp", "dp"), [(1, 32), (4, 4), (2, 6), (8, 2), (1, 37), (1, 8)])
def test_every_rank_of_a_copy_has_one_address_and_the_table_has_all(tp: int, dp: int) -> None:
    decode = island("H20-x", "H20", Phase.DECODE, ParallelConfig(tp=tp, dp=dp, replicas=2), batch_size=8)
    files = render(plan_of((decode, PREFILL)), options=BY_RANK, router="none")
    workload = workloads(files)["H20-x"]
    pods = [pod for pod in workload.pods for _ in range(pod.count)]
    started = [(rank, port, index) for index, pod in enumerate(pods) for rank, port in ranks_of(pod, index)]
    assert [rank for rank, _, _ in started] == list(range(dp))
    name = workload.manifest.name
    hosts = [[f"{name}-{copy}", *(f"{name}-{copy}-{n}" for n in range(1, len(pods)))] for copy in range(2)]
    addresses = [f"{hosts[copy][index]}.{name}:{port}" for copy in range(2) for _, port, index in started]
    assert services(files)["H20-x"]["ranks"] == addresses
    assert len(set(addresses)) == 2 * dp


def test_all_pods_of_ranks_answer_and_one_port_stands_for_all_of_them() -> None:
    (documents,) = [
        list(load_documents(text))
        for name, text in render(example_plan(), options=ExportOptions(monitoring=True)).items()
        if name == "02-h20-0.yaml"
    ]
    group, service = documents[0]["spec"]["leaderWorkerTemplate"], documents[1]
    for template in ("leaderTemplate", "workerTemplate"):
        container = group[template]["spec"]["containers"][0]
        numbers = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert [numbers["http"], *(numbers[f"http-{rank}"] for rank in range(1, 8))] == list(range(8000, 8008))
        assert {container[f"{probe}Probe"]["httpGet"]["port"] for probe in ("readiness", "startup", "liveness")} == {
            "health"
        }
        assert f"--data-parallel-supervisor-port={numbers['health']}" in container["args"]
        assert any(word.startswith("--shutdown-timeout=") for word in container["args"])
    assert "leaderworkerset.sigs.k8s.io/worker-index" not in service["spec"]["selector"]
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http", *(f"http-{n}" for n in range(1, 8))]


def test_a_monitor_scrapes_every_rank() -> None:
    text = render(example_plan(), options=ExportOptions(monitoring=True))["monitoring.yaml"]
    (monitor,) = [document for document in load_documents(text) if document["kind"] == "PodMonitor"]
    scraped = [row["port"] for row in monitor["spec"]["podMetricsEndpoints"]]
    assert scraped == ["http", *(f"http-{rank}" for rank in range(1, 8))]


def test_processes_that_share_a_host_share_no_port() -> None:
    many = island("H20-x", "H20", Phase.DECODE, ParallelConfig(tp=1, dp=4, replicas=40), batch_size=8)
    (workload, *_) = (
        w
        for name, w in workloads(render(plan_of((many, PREFILL)), target="script", options=BY_RANK)).items()
        if name == "H20-x"
    )
    ports: Counter[int] = Counter()
    for pod, *_ in workload.copies:
        values = read_flags(pod.arguments or ())
        side = next(int(word.partition("=")[2]) for word in pod.arguments or () if "SIDE_CHANNEL_PORT" in word)
        ports.update(port for _, port in ranks_of(pod, 0))
        ports.update(side + rank for rank, _ in ranks_of(pod, 0))
        ports.update(int(values[f"data-parallel-{name}-port"]) for name in ("rpc", "supervisor"))
    assert len(ports) == 40 * (4 + 4 + 2)
    assert max(ports.values()) == 1


WIDE = plan_of(
    (
        island("H20-x", "H20", Phase.MIXED, ParallelConfig(tp=1, dp=16), batch_size=8),
        island("H200-x", "H200", Phase.MIXED, ParallelConfig(tp=4, dp=2), batch_size=8),
    ),
    gpus=(gpu("H200"), gpu("H20", gpus_per_host=16)),
    routing=tuple(route(name, phase, 0, 0.5) for phase in PHASES for name in ("H20-x", "H200-x")),
)
OLD = replace(single_node_plan(), scenario=replace(single_node_plan().scenario, engine=load_engine("vllm", "0.18.0")))


@pytest.mark.parametrize(
    ("plan", "place", "name", "reason"),
    [
        (example_plan(), {"engine": "sglang"}, "H200-0", "SGLang has ports by rank only in an experimental server"),
        (single_node_plan(), {"target": "kubernetes", "router": "vllm"}, "H20-0", "look at one port of each"),
        (single_node_plan(), {"target": "kserve"}, "H20-0", "KServe's presets serve and probe one port"),
        (single_node_plan(), {"target": "dynamo"}, "H20-0", "Dynamo's own KV router chooses the rank"),
        (example_plan(), {"target": "llm-d"}, "H20-0", "starts the sidecar of decode pods with one port"),
        (aggregated_plan(), {"router": "aibrix"}, "H20-9", "router aibrix chooses servers"),
        (WIDE, {"router": "llm-d"}, "H20-x", "at most 8 ports, and a pod 16 ranks"),
        (OLD, {}, "H20-0", "vLLM 0.18.0 has one port for the 2 ranks of a pod; versions from 0.23 on"),
    ],
)
def test_where_ranks_cannot_be_endpoints_servers_are_and_who_asks_is_told(
    plan: Plan, place: dict[str, str], name: str, reason: str
) -> None:
    files = render(plan, **place)  # type: ignore[arg-type]
    assert not router_faults(files, plan)
    lines = [line for text in files.values() for line in text.splitlines()]
    assert any("Endpoints: a copy is one, as" in line and reason in line for line in lines)
    with pytest.raises(ExportError, match=rf"Island {name}, deploy\.ranks: must not be rank, as .*{re.escape(reason)}"):
        render(plan, options=BY_RANK, **place)  # type: ignore[arg-type]


def test_a_choice_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"deploy\.ranks: must be one of auto, server, rank, got 'ranks'"):
        render(example_plan(), options=ExportOptions(ranks="ranks"))


def test_a_pool_has_the_ports_of_its_largest_pods_and_all_name_theirs() -> None:
    files = render(WIDE, target="lws", router="llm-d")
    values = next(iter(load_documents(next(iter(load_documents(files["llm-d-router.yaml"])))["data"]["values.yaml"])))
    assert values["router"]["modelServers"]["targetPorts"] == [{"number": 8000}, {"number": 8001}]
    (wide,) = [pod for pod in workloads(files)["H20-x"].pods if pod.count]
    (narrow,) = [pod for pod in workloads(files)["H200-x"].pods if pod.count]
    assert wide.annotations["llm-d.ai/active-ports"] == "8000"
    assert narrow.annotations["llm-d.ai/active-ports"] == "8000,8001"


def test_workers_whose_ranks_answer_are_in_the_pool_of_their_phase() -> None:
    """Decode pods of the chart go by server, so that their workers stay out; those of prefill are endpoints."""
    files = render(example_plan(), target="llm-d")
    values = next(iter(load_documents(next(iter(load_documents(files["llm-d-router.yaml"])))["data"]["values.yaml"])))
    picker = next(iter(load_documents(values["router"]["epp"]["pluginsCustomConfig"]["planner.yaml"])))
    leaders_alone = {
        profile["name"]: {"pluginRef": "leaders"} in profile["plugins"] for profile in picker["schedulingProfiles"]
    }
    assert leaders_alone == {"prefill": False, "decode": True}


def test_haproxy_weighs_a_rank_by_its_part_of_the_share() -> None:
    """Two copies of two ranks have a half, one copy of two ranks the other: a rank of the latter counts twice."""
    files = render(beside_plan(), target="script")
    lines = re.findall(r"server beside-(\S+) \S+ weight (\d+) maxconn (\d+) check", files["haproxy.cfg"])
    servers = {name: weight for name, weight, _ in lines if "-9-" in name}
    assert {name: int(limit) for name, _, limit in lines if name.startswith("h20-9")} == dict.fromkeys(
        [f"h20-9-{n}" for n in range(4)], 2 * MIXED.batch_size
    ), "twice the batch of a rank, not of a server"
    assert set(servers) == {*(f"h20-9-{n}" for n in range(4)), *(f"h200-9-{n}" for n in range(2))}
    weights = {name: int(weight) for name, weight in servers.items()}
    assert weights["h200-9-0"] == pytest.approx(2 * weights["h20-9-0"], abs=1)


def test_pods_without_names_have_a_name_a_rank() -> None:
    """HAProxy takes an address once for a name, so that ranks of a pod need several."""
    text = render(aggregated_plan(), target="kubernetes")["router.yaml"]
    names = re.findall(r'server-template \S+ (\d+) "([\w-]+)\.\S+:(\d+)"', text)
    headless = {
        document["metadata"]["name"]: [port["port"] for port in document["spec"]["ports"]]
        for document in load_documents(text)
        if document["kind"] == "Service" and document["spec"].get("clusterIP") == "None"
    }
    assert {name: [int(port)] for _, name, port in names} == headless
    assert len(headless) == 4
    assert {count for count, _, _ in names} == {"2"}


WRONG = {
    "a rank of the table is lost": (r'"rank_ports": \[8000, 8001\]', '"rank_ports": [8000]', "routing.yaml"),
    "a rank is named twice": (r"(-0-1\.mixed-fleet-h200-0:800)1", r"\g<1>0", "routing.yaml"),
    "ranks share the leader's port again": (" +- --data-parallel-multi-port-external-lb\n", "", "01-h200-0.yaml"),
    "a Service leads to no rank": ("targetPort: http-1", "targetPort: http-2", "01-h200-0.yaml"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_ranks_break_is_found(kind: str) -> None:
    pattern, other, file = WRONG[kind]
    plan = example_plan()
    files = dict(render(plan))
    assert not find_faults(files, plan)
    files[file], count = re.subn(pattern, other, files[file])
    assert count
    assert find_faults(files, plan)


def test_one_endpoint_a_server_where_it_is_asked_for() -> None:
    files = render(example_plan(), options=ExportOptions(ranks="server"))
    assert not any("rank_ports" in row for row in services(files).values())
    assert all("external-lb" not in text for text in files.values())
    assert "--api-server-count=2" in files["01-h200-0.yaml"]


def test_what_is_written_beside_pods_that_run_on_suits_them() -> None:
    """Pods were started by server, or in pods of other sizes: Services, table and router follow."""
    plan = example_plan()
    by_server = engines_of(render(plan, options=ExportOptions(ranks="server")))
    files = with_engines(render(plan, running=by_server), by_server)
    assert not router_faults(files, plan)
    assert not any("rank_ports" in row for row in services(files).values())
    mixed = aggregated_plan()
    by_rank = engines_of(render(mixed))
    assert all("rank_ports" in row for row in services(render(mixed, router="none", running=by_rank)).values())
    with pytest.raises(ExportError, match=r"H20-9: its ranks must go on as endpoints.*router aibrix chooses servers"):
        render(mixed, router="aibrix", running=by_rank)


def test_a_version_without_several_ports_has_one_in_pods_of_one_rank() -> None:
    decode = island("H20-x", "H20", Phase.DECODE, ParallelConfig(tp=8, dp=2), batch_size=8)
    plan = plan_of((decode, PREFILL))
    old = replace(plan, scenario=replace(plan.scenario, engine=load_engine("vllm", "0.18.0")))
    files = render(old)
    assert "--data-parallel-external-lb" in files["01-h20-x.yaml"]
    assert "external-lb" not in files["02-h200-0.yaml"]
    assert not router_faults(files, old)
