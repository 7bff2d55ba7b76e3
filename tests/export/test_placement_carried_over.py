"""What a placement and the options for the scheduler become in the manifests."""

from dataclasses import replace
from typing import Any

import pytest
from contract_plans import placed_plan, single_node_plan
from export_plans import DECODE, PREFILL, SMALL_DECODE, example_plan, gpu, plan_of
from quick_yaml import load_documents

from planner.domain import Plan, Qos
from planner.errors import InputError
from planner.export import ExportOptions, find_faults, render

RACK = (("asw", "example.com/rack"),)
BOTH = (*RACK, ("aggregation", "example.com/row"))
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"


def first(files: dict[str, str], file: str) -> dict[str, Any]:
    """The first object of a file."""
    found: dict[str, Any] = next(iter(load_documents(files[file])))
    return found


def templates(workload: dict[str, Any]) -> list[dict[str, Any]]:
    """The pod templates of a LeaderWorkerSet or a Deployment."""
    spec = workload["spec"]
    group = spec.get("leaderWorkerTemplate", spec)
    return [group[key] for key in ("leaderTemplate", "workerTemplate", "template") if key in group]


def test_the_placement_settings_reach_pods_and_comments() -> None:
    files = render(placed_plan())
    workload = first(files, "01-h200-0.yaml")
    for template in templates(workload):
        limits = template["spec"]["containers"][0]["resources"]["limits"]
        assert limits["cpu"] == 8 * 6
        assert {"key": "team", "operator": "Equal", "value": "serving", "effect": "NoSchedule"} in template["spec"][
            "tolerations"
        ]
        assert "affinity" not in template["spec"]
    assert workload["metadata"]["annotations"]["planner/topology-manager-policy"] == "restricted"
    assert (
        "# Placed for nodes whose kubelet has topologyManagerPolicy restricted and cpuManagerPolicy static"
        in files["01-h200-0.yaml"]
    )


def test_the_policy_follows_the_phases_qos() -> None:
    plan = placed_plan()
    settings = replace(plan.scenario.placement, decode_qos=Qos.NONE, prefill_qos=Qos.SINGLE_NUMA)
    files = render(replace(plan, scenario=replace(plan.scenario, placement=settings)))
    found = [first(files, f)["metadata"]["annotations"]["planner/topology-manager-policy"] for f in list(files)[:2]]
    assert found == ["single-numa-node", "none"]


def test_a_plan_on_no_nodes_asks_for_no_policy() -> None:
    assert "topology-manager" not in "".join(render(example_plan()).values())


def test_nodes_are_pinned_by_their_host_names_if_asked_for() -> None:
    files = render(placed_plan(), options=ExportOptions(pin_nodes=True))
    for file, prefix in (("01-h200-0.yaml", "h"), ("02-h20-0.yaml", "d")):
        for template in templates(first(files, file)):
            rule = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            (expression,) = rule["nodeSelectorTerms"][0]["matchExpressions"]
            hosts = [f"{prefix}{i}.example" for i in range(4)]
            assert expression == {"key": "kubernetes.io/hostname", "operator": "In", "values": hosts}
    with pytest.raises(InputError, match=r"must have nodes for island H200-0 to pin it to, has none"):
        render(example_plan(), options=ExportOptions(pin_nodes=True))


def test_copies_with_switches_of_their_own_get_exclusive_topology() -> None:
    files = render(placed_plan(), options=ExportOptions(topology_labels=RACK))
    assert first(files, "01-h200-0.yaml")["metadata"]["annotations"][EXCLUSIVE] == "example.com/rack"
    assert EXCLUSIVE not in first(files, "02-h20-0.yaml")["metadata"]["annotations"]  # its copy lies under two


def test_copies_that_share_a_switch_must_not_exclude_each_other() -> None:
    files = render(placed_plan(shared_switch=True), options=ExportOptions(topology_labels=RACK))
    assert EXCLUSIVE not in first(files, "01-h200-0.yaml")["metadata"]["annotations"]
    assert "# WARNING: not asked for below" in files["01-h200-0.yaml"]


def test_a_copy_over_two_switches_is_held_together_one_level_up() -> None:
    files = render(placed_plan(), options=ExportOptions(topology_labels=BOTH))
    assert first(files, "02-h20-0.yaml")["metadata"]["annotations"][EXCLUSIVE] == "example.com/row"


@pytest.mark.parametrize(
    ("labels", "kind", "label"),
    [(RACK, "preferred", "example.com/rack"), (BOTH, "required", "example.com/row")],
)
def test_with_a_queue_kueue_packs(labels: tuple[tuple[str, str], ...], kind: str, label: str) -> None:
    options = ExportOptions(topology_labels=labels, queue="serving")
    files = render(placed_plan(shared_switch=True), options=options)
    workload = first(files, "02-h20-0.yaml")
    assert workload["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "serving"
    assert EXCLUSIVE not in workload["metadata"]["annotations"]
    for template in templates(workload):
        assert template["metadata"]["annotations"] == {
            f"kueue.x-k8s.io/podset-{kind}-topology": label,
            "kueue.x-k8s.io/podset-group-name": "h20-0",
        }
    prefill = templates(first(files, "01-h200-0.yaml"))[0]["metadata"]["annotations"]
    assert prefill["kueue.x-k8s.io/podset-required-topology"] == "example.com/rack"


@pytest.mark.parametrize("target", ["lws", "kubernetes"])
def test_pods_of_one_node_need_no_packing(target: str) -> None:
    files = render(single_node_plan(), target=target, options=ExportOptions(topology_labels=RACK, queue="q"))
    assert "podset" not in "".join(files.values())
    assert "exclusive-topology" not in "".join(files.values())


def test_the_scenarios_priority_class_is_used_where_no_other_is_named() -> None:
    plan = placed_plan()
    scenario = replace(plan.scenario, placement=replace(plan.scenario.placement, priority_class="serving"))
    named = replace(plan, scenario=scenario)
    for options, name in ((None, "serving"), (ExportOptions(priority_class="llm"), "llm")):
        for template in templates(first(render(named, options=options), "01-h200-0.yaml")):
            assert template["spec"]["priorityClassName"] == name
    assert "priority" not in "".join(render(named, target="script"))


@pytest.mark.parametrize(
    ("plan", "told"),
    [(placed_plan(), "as their placement took it"), (example_plan(), "placement.priority of its scenario")],
)
def test_a_priority_class_tells_where_its_value_comes_from(plan: Plan, told: str) -> None:
    text = render(plan, options=ExportOptions(priority_class="serving"))["priority-class.yaml"]
    assert text.startswith(f"# Priority of the plan's islands over other pods, {told}.\n")


@pytest.mark.parametrize("pods_reach", [False, True])
def test_nvlink_between_hosts_wants_a_compute_domain(pods_reach: bool) -> None:
    """Copies over several hosts of one NVLink domain; within a host, or where hosts reach each other by network only,
    there is nothing to claim."""
    domain = 72 if pods_reach else 8
    types = tuple(gpu(name, gpus_per_nvlink_domain=domain) for name in ("H20", "H200"))
    files = render(plan_of((PREFILL, DECODE, SMALL_DECODE), gpus=types))
    told = ["ComputeDomain" in text for name, text in files.items() if name[:2].isdigit()]
    assert told == [pods_reach, pods_reach, False]


@pytest.mark.parametrize(("qos", "warned"), [(Qos.GUARANTEED, True), (Qos.BEST_EFFORT, False)])
def test_llm_d_tells_that_its_sidecar_makes_decode_pods_burstable(qos: Qos, warned: bool) -> None:
    plan = placed_plan()
    settings = replace(plan.scenario.placement, prefill_qos=qos, decode_qos=qos)
    text = render(replace(plan, scenario=replace(plan.scenario, placement=settings)), target="llm-d")["01.values.yaml"]
    comments = " ".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    assert comments.count("Burstable") == 1
    assert ("WARNING: chart llm-d-modelservice" in comments) is warned


@pytest.mark.parametrize(("preempt", "policy"), [(True, "PreemptLowerPriority"), (False, "Never")])
def test_a_priority_class_has_the_placements_priority(preempt: bool, policy: str) -> None:
    plan = placed_plan()
    scenario = replace(plan.scenario, placement=replace(plan.scenario.placement, preempt=preempt))
    files = render(replace(plan, scenario=scenario), options=ExportOptions(priority_class="serving-high"))
    made = first(files, "priority-class.yaml")
    assert (made["metadata"]["name"], made["value"], made["preemptionPolicy"]) == ("serving-high", 5000, policy)
    assert all(t["spec"]["priorityClassName"] == "serving-high" for t in templates(first(files, "01-h200-0.yaml")))


@pytest.mark.parametrize("target", ["lws", "kubernetes"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_models_volume_holds_the_model_and_a_fifth_more(target: str, engine: str) -> None:
    plan = single_node_plan()
    files = render(plan, target=target, engine=engine, options=ExportOptions(model_volume="weights"))
    claim = first(files, "model-volume.yaml")
    gib = int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi"))
    assert gib * 2**30 >= 1.2 * plan.scenario.model.weights_gb * 1e9 > (gib - 1) * 2**30
    container = templates(first(files, "01-h200-0.yaml"))[0]["spec"]["containers"][0]
    assert {"name": "model", "mountPath": "/models", "readOnly": True} in container["volumeMounts"]
    assert {"name": "HF_HOME", "value": "/models"} in container["env"]
    assert find_faults(files, plan) == ()


def test_a_local_model_is_mounted_where_it_is_loaded_from() -> None:
    plan = single_node_plan()
    model = replace(plan.scenario.model, uri="/data/deepseek")
    local = replace(plan, scenario=replace(plan.scenario, model=model))
    files = render(local, options=ExportOptions(model_volume="weights"))
    container = templates(first(files, "01-h200-0.yaml"))[0]["spec"]["containers"][0]
    assert {"name": "model", "mountPath": "/data/deepseek"} in container["volumeMounts"]
    assert "HF_HOME" not in str(container["env"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"priority_class": "system-node-critical"}, "priority_class: must not begin with system-"),
        ({"priority_class": "High; rm"}, "priority_class: must be a DNS label"),
        ({"queue": "a/b"}, "queue: must be a DNS label"),
        ({"model_volume": "Weights"}, "model_volume: must be a DNS label"),
        ({"topology_labels": (("rack", "x"),)}, "topology: must be of asw, aggregation, each once, got 'rack'"),
        ({"topology_labels": (*RACK, *RACK)}, "each once"),
        ({"topology_labels": (("asw", "a b"),)}, r"topology\[asw\]: must be a node label's key"),
        ({"pod_resources": (("cpu", 3),)}, "pod_resources: must be extended resources"),
        ({"pod_resources": (("rdma/ib", 0),)}, "pod_resources: must be extended resources"),
        ({"cpus_per_gpu": 0}, "cpus_per_gpu: must be at least 1"),
        ({"cpus_per_gpu": 10**11}, "cpus_per_gpu: must be at least 1 and at most 1024, got 100000000000"),
        ({"memory_gib_per_gpu": 10**6}, "memory_gib_per_gpu: must be at least 1 and at most 65536"),
        (
            {"memory_gib_per_gpu": 65536, "shared_memory_gib": 65537},
            "shared_memory_gib: must be at least 1 and at most",
        ),
        ({"pod_resources": (("rdma/ib", 10**12),)}, "counts of 1 to 1000000, got rdma/ib=1000000000000"),
        ({"images": (("NVIDIA", "a" * 600 + ":1"),)}, "must name a fixed tag"),
        ({"memory_gib_per_gpu": 8}, "shared_memory_gib: counts towards"),
    ],
)
def test_options_that_kubernetes_would_refuse_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        render(placed_plan(), options=ExportOptions(**options))
