"""NetworkPolicies by what they allow: every connection that routers and engines take, and none from elsewhere."""

from dataclasses import replace
from functools import cache

import pytest
from contract_plans import PLANS
from export_plans import PREFILL
from reachability import Pod, allowed, connections, engine_pods, policies, router_pods
from sharing_fleets import sharing_fleet

from planner.errors import ExportError, InputError
from planner.export import TARGETS, ExportOptions, find_faults, render
from planner.runs.deployments import render_fleet

CASES = [
    (target, engine, plan, router)
    for target, engine, routers in (
        ("lws", "vllm", ("", "vllm", "none", "aibrix")),
        ("lws", "sglang", ("", "model-gateway", "sglang")),
        ("kubernetes", "vllm", ("", "vllm")),
        ("disaggregatedset", "sglang", ("model-gateway",)),
        ("disaggregatedset", "vllm", ("",)),
        ("llm-d", "vllm", ("",)),
        ("kserve", "vllm", ("",)),
        ("dynamo", "vllm", ("",)),
    )
    for router in routers
    for plan in ("single nodes", "several nodes", "aggregated")
]
CLIENT = Pod(name="client", namespace="apps", labels={"app": "chat"})
STRANGER = Pod(name="stranger", labels={"app": "other"})
PROMETHEUS = Pod(name="prometheus", namespace="monitoring", labels={"app.kubernetes.io/name": "prometheus"})
DNS = Pod(name="dns", namespace="kube-system", labels={"k8s-app": "kube-dns"})
NODE_DNS = Pod(name="node-local-dns", address="169.254.20.10")
INTERNET = Pod(name="internet", address="203.0.113.7")
RENDEZVOUS, SIDE_CHANNEL, CHOSEN = 29501, 5600, 43210


@cache
def exported(target: str, engine: str, plan: str, router: str, clients: tuple[str, ...] = ()) -> dict[str, str]:
    """The files; none where the target or the router refuses the plan."""
    options = ExportOptions(client_namespaces=clients)
    try:
        return render(PLANS[plan](), target=target, engine=engine, router=router, options=options)
    except ExportError:
        return {}


each_export = pytest.mark.parametrize(("target", "engine", "plan", "router"), CASES)


@each_export
def test_what_a_plan_takes_is_open_and_nothing_else_comes_in(target: str, engine: str, plan: str, router: str) -> None:
    files = exported(target, engine, plan, router)
    if not files:
        pytest.skip("refused")
    rules, engines, routers = policies(files), engine_pods(files), router_pods(files)
    assert engines
    for source, destination, port in connections(files):
        assert allowed(rules, source, destination, port), f"{source.name} to {destination.name}:{port}"
    for _, one in engines:
        for _, other in engines:
            for port in (RENDEZVOUS, SIDE_CHANNEL, CHOSEN):
                assert allowed(rules, one, other, port)
        assert allowed(rules, one, DNS, 53, "UDP")
        assert allowed(rules, one, NODE_DNS, 53, "UDP")
        assert allowed(rules, one, INTERNET, 443), "the weights come from the hub"
        for outside in (STRANGER, CLIENT, INTERNET):
            assert not allowed(rules, outside, one, SIDE_CHANNEL)
            assert not allowed(rules, outside, one, CHOSEN)
            if routers:
                assert not any(allowed(rules, outside, one, port) for port in one.ports)
    for each in routers.values():
        assert allowed(rules, each, DNS, 53, "UDP")
        assert not allowed(rules, each, INTERNET, 80)


@each_export
def test_requests_come_in_at_one_door_and_metrics_go_to_prometheus(
    target: str, engine: str, plan: str, router: str
) -> None:
    files = exported(target, engine, plan, router)
    if not files:
        pytest.skip("refused")
    rules, engines, routers = policies(files), engine_pods(files), router_pods(files)
    if routers:
        entry = min(routers.values(), key=lambda pod: len(pod.name))
        door, *others = entry.ports
        assert allowed(rules, CLIENT, entry, door)
        assert not any(allowed(rules, CLIENT, entry, port) for port in others)
        for behind in routers.values():
            if behind is not entry and door not in behind.ports:
                assert not any(allowed(rules, CLIENT, behind, port) for port in behind.ports)
                assert allowed(rules, entry, behind, behind.ports[0])
                assert all(allowed(rules, behind, entry, port) for port in others)
    answering = [pod for _, pod in engines if pod.ports]
    assert all(allowed(rules, PROMETHEUS, pod, 9090 if target == "dynamo" else pod.ports[0]) for pod in answering)
    other = Pod(name="job", namespace="monitoring", labels={"app": "job"})
    assert not any(allowed(rules, other, pod, SIDE_CHANNEL) for pod in answering)


@pytest.mark.parametrize(("target", "router"), [("lws", ""), ("lws", "none"), ("llm-d", ""), ("dynamo", "")])
def test_named_clients_alone_come_in(target: str, router: str) -> None:
    files = exported(target, "vllm", "single nodes", router, ("apps",))
    rules, routers = policies(files), router_pods(files)
    entries = [min(routers.values(), key=lambda pod: len(pod.name))] if routers else [p for _, p in engine_pods(files)]
    elsewhere = Pod(name="elsewhere", namespace="lab")
    for entry in entries:
        door = 8000 if target == "dynamo" else entry.ports[0]
        assert allowed(rules, CLIENT, entry, door)
        assert not allowed(rules, elsewhere, entry, door)
        assert not allowed(rules, INTERNET, entry, door)
        assert allowed(rules, STRANGER, entry, door) is not bool(routers), "another's router stands in the namespace"


def test_programs_that_look_for_pods_reach_the_api_server_and_others_do_not() -> None:
    api = Pod(name="api", address="198.51.100.1")
    for target, watching in (("kubernetes", True), ("lws", False)):
        files = exported(target, "vllm", "single nodes", "vllm")
        rules = policies(files)
        for pod in router_pods(files).values():
            assert allowed(rules, pod, api, 6443) is watching


def test_weights_that_a_job_fetches_let_engines_reach_nobody_outside() -> None:
    files = render(PLANS["single nodes"](), options=ExportOptions(model_volume="weights"))
    rules, job = policies(files), Pod(name="w", labels={"batch.kubernetes.io/job-name": "single-nodes-weights"})
    assert "name: single-nodes-weights" in files["weights-job.yaml"]
    assert not any(allowed(rules, pod, INTERNET, 443) for _, pod in engine_pods(files))
    assert allowed(rules, job, INTERNET, 443)
    assert not allowed(rules, STRANGER, job, 443)


def test_one_policy_is_of_all_engines_so_that_steps_of_a_roll_out_leave_it_alone() -> None:
    files, other = exported("lws", "vllm", "several nodes", ""), exported("lws", "vllm", "single nodes", "")
    for text, plan in ((files, "mixed-fleet"), (other, "single-nodes")):
        assert len(policies(text)) == 2
        assert PREFILL.id.lower() not in text["network-policies.yaml"].replace(plan, "")


def test_without_them_none_are_written_and_targets_without_pods_refuse_the_word() -> None:
    plan = PLANS["single nodes"]()
    assert "network-policies.yaml" not in render(plan, options=ExportOptions(network_policies=False))
    for target in ("script", "kueue"):
        assert "network-policies.yaml" not in render(plan, target=target)
        with pytest.raises(ExportError, match="network_policies"):
            render(plan, target=target, options=ExportOptions(network_policies=False))
    with pytest.raises(InputError, match="client_namespaces: must be namespaces, each once, got 'A B'"):
        render(plan, options=ExportOptions(client_namespaces=("A B",)))


def test_a_prometheus_elsewhere_is_told() -> None:
    plan = PLANS["single nodes"]()
    inside = render(plan, options=ExportOptions(prometheus="http://mine.metrics.svc:9090"))
    assert "namespace metrics" in inside["network-policies.yaml"]
    outside = render(plan, options=ExportOptions(prometheus="https://prometheus.example.com"))
    assert "add where it reads metrics from" in outside["network-policies.yaml"]
    assert not any(allowed(policies(outside), PROMETHEUS, pod, pod.ports[0]) for _, pod in engine_pods(outside))


@pytest.mark.parametrize("target", [name for name, row in TARGETS.items() if row.pods_of])
def test_they_are_sound_objects(target: str) -> None:
    files = exported(target, "vllm", "single nodes", "")
    assert find_faults(files, PLANS["single nodes"]()) == ()
    broken = files["network-policies.yaml"].replace("policyTypes:", "policyType:")
    assert find_faults({**files, "network-policies.yaml": broken}, PLANS["single nodes"]())


@pytest.mark.parametrize("clients", [(), ("apps",)])
def test_a_fleets_front_reaches_its_deployments_routers_and_clients_reach_the_front(clients: tuple[str, ...]) -> None:
    fleet = sharing_fleet()
    parts = tuple(
        replace(part, plan=replace(part.plan, scenario=replace(part.plan.scenario, deploy=settings)))
        for part in fleet.parts
        for settings in [replace(part.plan.scenario.deploy, client_namespaces=clients)]
    )
    fleet_files = render_fleet(replace(fleet, parts=parts, batches=()), target="lws")
    rules = policies(fleet_files.manifests)
    (front,) = router_pods(dict(fleet_files.shared)).values()
    elsewhere = Pod(name="elsewhere", namespace="lab")
    assert allowed(rules, CLIENT, front, front.ports[0])
    assert allowed(rules, elsewhere, front, front.ports[0]) is not bool(clients)
    for deployment in fleet_files.deployments.values():
        entry = min(router_pods(deployment.files).values(), key=lambda pod: len(pod.name))
        assert allowed(rules, front, entry, entry.ports[0])
        assert allowed(rules, elsewhere, entry, entry.ports[0]) is not bool(clients)
        assert not any(
            allowed(rules, front, pod, port) for _, pod in engine_pods(deployment.files) for port in pod.ports
        )
