"""Clusters as they are: lists of awkward shapes, and what is read of claims, switches, NVLink domains and boards.

Every expected figure is counted by hand from the list.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from listed_nodes import PRODUCT, TYPE, asking, eight, imported, node, said
from recorded_sources import kubectl_pod, written_list

from planner.domain import Cluster, Phase, Placement, PlacementDemand, PlacementSettings, Pod, Qos, Taint
from planner.errors import InputError
from planner.files.cluster.cluster_sections import cluster_from_section
from planner.files.sections import Section
from planner.placement import place, violations
from planner.runs.cluster_import import ClusterSources, import_cluster

LISTS = Path(__file__).parent.parent / "data" / "clusters"
LEAF, SPINE = "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine"
BASE = {"H100": 24, "H20": 8, "H200": 8}
BASE_IDLE = {"H100": 18, "H20": 8, "H200": 7}
PRESENT = (Taint(key="nvidia.com/gpu", value="present"),)


def shared_list(name: str, **options: Any) -> Cluster:
    return import_cluster(ClusterSources(kubectl=(LISTS / f"{name}.json",), **options))


def demand(gpus: int, gpu: str = "H100", qos: Qos = Qos.BEST_EFFORT, tp: int = 1, island: str = "i") -> PlacementDemand:
    return PlacementDemand(
        island=island, gpu=gpu, phase=Phase.DECODE, replicas=1, groups=gpus // tp, tp=tp, qos=qos, cpus_per_gpu=8
    )


def placed(cluster: Cluster, *demands: PlacementDemand, **options: Any) -> Placement:
    settings = PlacementSettings(tolerations=PRESENT, **options)
    placement = place(demands, cluster, settings)
    assert not violations(cluster, demands, placement, tolerations=PRESENT, evictions=settings)
    return placement


class TestSharedLists:
    @pytest.mark.parametrize(
        ("name", "nodes", "gpus", "idle"),
        [
            ("base", 6, BASE, BASE_IDLE),
            ("mig_single", 7, BASE, BASE_IDLE),
            ("other", 7, BASE | {"Tesla-T4": 4}, BASE_IDLE | {"Tesla-T4": 4}),
            ("full_batch", 6, {"H100": 32, "H20": 16}, {"H100": 0, "H20": 0}),
            ("gb200", 7, BASE | {"GB200-NVL72": 4}, BASE_IDLE | {"GB200-NVL72": 4}),
        ],
    )
    def test_they_hold_what_they_hold(self, name: str, nodes: int, gpus: dict[str, int], idle: dict[str, int]) -> None:
        cluster = shared_list(name)
        assert (len(cluster.nodes), cluster.gpus, cluster.idle_gpus) == (nodes, gpus, idle)
        assert cluster.levels == (("asw", LEAF), ("aggregation", SPINE))
        assert said(cluster, f"{LEAF} names access switches", f"{SPINE} aggregation switches")
        assert not said(cluster, "left out with its pods")
        assert import_cluster(ClusterSources(kubectl=(LISTS / f"{name}.json",), strict=True)).nodes == cluster.nodes

    def test_nodes_and_pods_of_the_base_list(self) -> None:
        cluster = shared_list("base")
        nodes = {one.name: one for one in cluster.nodes}
        assert {name: (one.asw, one.aggregation) for name, one in nodes.items()} == {
            "cp-0": ("", ""),
            "h100-0": ("leaf1", "sp1"),
            "h100-1": ("leaf1", "sp1"),
            "h100-2": ("leaf2", "sp1"),
            "h200-0": ("leaf2", "sp1"),
            "h20-0": ("leaf3", "sp2"),
        }
        pods = {pod.name: pod for pod in cluster.pods}
        assert sorted(pods) == ["init-heavy", *(f"nvidia-dp-{k}" for k in range(5)), "starting", "vllm-a"]
        assert {name: pod.gpu_count for name, pod in pods.items() if pod.gpu_count} == {
            "vllm-a": 4,
            "starting": 2,
            "init-heavy": 1,
        }
        assert pods["init-heavy"].cpus == pytest.approx(32 + 0.25)  # the first init container, before the sidecar
        assert (pods["vllm-a"].preemptible, pods["nvidia-dp-0"].locked) == (True, True)
        assert [taint.key for taint in nodes["h100-2"].taints] == ["nvidia.com/gpu", "node.kubernetes.io/unschedulable"]
        assert said(cluster, "cp-0", "222.87 CPUs of 16")
        assert said(cluster, "1 pods", "wait for a node")

    def test_partly_used_nodes_take_islands_by_number(self) -> None:
        """4 idle GPUs on h100-0 and 6 on h100-1, of which nobody says which; h100-2 is cordoned."""
        cluster = shared_list("base")
        placement = placed(cluster, demand(10))
        (site,) = placement.sites
        assert (site.gpus, placement.shortfalls) == (10, ())
        assert {part.node: (len(part.gpu_indices), part.gpus_assumed, part.nics) for part in placement.parts} == {
            "h100-0": (4, True, ()),
            "h100-1": (6, True, ()),
        }
        assert placement.before.idle - placement.after.idle == 10
        pairs = placed(cluster, demand(10, tp=2))
        assert (pairs.sites[0].worst.value, pairs.sites[0].aligned) == ("cross", False)  # as far apart as may be
        assert placed(cluster, demand(11)).shortfalls[0].resource == "GPUs"

    @pytest.mark.parametrize("seed", range(6))
    def test_what_is_placed_by_number_is_sound(self, seed: int) -> None:
        """Pods of unknown GPUs drawn onto the base list; islands of random sizes: as many GPUs as groups allow."""
        rng = np.random.default_rng(seed)
        base = shared_list("base")
        hosts = [one for one in base.nodes if one.gpu == "H100" and not any("unsch" in t.key for t in one.taints)]
        held = [int(rng.integers(0, 8)) for _ in hosts]
        pods = [
            Pod(name=f"p{k}", node=one.name, gpu_request=n) for k, (one, n) in enumerate(zip(hosts, held, strict=True))
        ]
        cluster = replace(base, pods=tuple(pods))
        tp = int(rng.integers(1, 5))
        groups = sum((8 - n) // tp for n in held)
        placement = placed(cluster, demand(groups * tp, tp=tp, qos=Qos.NONE)) if groups else None
        assert placement is None or not placement.shortfalls
        assert placed(cluster, demand((groups + 1) * tp, tp=tp, qos=Qos.NONE)).shortfalls

    def test_parts_that_claim_what_nobody_knows_are_faults(self) -> None:
        cluster, asked = shared_list("base"), [demand(10)]
        placement = placed(cluster, *asked)
        sure = [replace(part, gpus_assumed=False) for part in placement.parts]
        faults = violations(cluster, asked, replace(placement, parts=tuple(sure)), tolerations=PRESENT)
        assert any("holds 4 GPUs there, and which is not known" in fault for fault in faults)
        fuller = Pod(name="more", node="h100-0", gpu_request=1)
        faults = violations(replace(cluster, pods=(*cluster.pods, fuller)), asked, placement, tolerations=PRESENT)
        assert "node h100-0: gpu_indices: pods hold 5 and parts 4 of its 8 GPUs." in faults
        settled = replace(cluster, pods=tuple(pod for pod in cluster.pods if not pod.gpu_count))
        faults = violations(settled, asked, placement, tolerations=PRESENT)
        assert any("gpus_assumed is true, and it is known which GPUs are free" in fault for fault in faults)

    @pytest.mark.parametrize("qos", [Qos.GUARANTEED, Qos.SINGLE_NUMA])
    def test_who_must_know_the_gpus_takes_none_of_them(self, qos: Qos) -> None:
        (short,) = placed(shared_list("base"), demand(2, tp=2, qos=qos)).shortfalls
        assert "2 hold pods whose GPUs are not known (qos best_effort may use them, or import with --devices)" in (
            short.reason
        )

    def test_slices_are_offered_and_no_whole_gpu(self) -> None:
        cluster = shared_list("mig_single")
        sliced = next(one for one in cluster.nodes if one.name == "mig-1")
        assert (sliced.gpu, sliced.gpus, sliced.offers) == ("H100", (), (("nvidia.com/gpu", 56),))
        assert said(cluster, "mig-1", "MIG slices 1g.10gb", "islands take whole GPUs")

    def test_a_type_without_a_spec_is_kept_and_said(self) -> None:
        cluster = shared_list("other")
        t4 = next(one for one in cluster.nodes if one.name == "t4-0")
        assert (t4.gpu, len(t4.gpus), [gpu.numa for gpu in t4.gpus]) == ("Tesla-T4", 4, [0, 0, 1, 1])
        assert said(cluster, "GPU type Tesla-T4", "plans cannot use it", "--gpu-type")

    def test_batch_pods_are_victims(self) -> None:
        """Each of six nodes is full of one batch pod; one node is not heard of."""
        cluster = shared_list("full_batch")
        assert {(pod.kind.value, pod.preemptible, len(pod.gpus)) for pod in cluster.pods} == {("offline", True, 8)}
        lost = next(one for one in cluster.nodes if one.name == "h100-0")
        assert [taint.key for taint in lost.taints] == ["node.kubernetes.io/unreachable"]
        placement = placed(cluster, demand(16, tp=8, qos=Qos.GUARANTEED), preempt=True)
        assert (len(placement.victims), placement.shortfalls) == (2, ())
        assert "b0" not in {victim.pod.partition("/")[2] for victim in placement.victims}
        (short,) = placed(cluster, demand(16, tp=8)).shortfalls
        assert any("placement.preempt: true" in remedy for remedy in short.remedies)

    def test_batch_pods_that_share_a_node_stay_until_their_gpus_are_told(self, tmp_path: Path) -> None:
        """Two jobs of four GPUs each fill a node: it is not known which GPUs an eviction would free."""
        pods = [kubectl_pod(name, "n-1", gpus=4, spec={"priority": -10}) for name in ("a", "b")]
        for pod in pods:
            pod["spec"]["containers"] = kubectl_pod("x", "n-1", gpus=4)["spec"]["containers"]
        items = [eight("n-1", {PRODUCT: "NVIDIA-H100-80GB-HBM3"}), *pods]
        (short,) = placed(imported(tmp_path, *items), demand(4, tp=4), preempt=True).shortfalls
        assert any("an import with --devices: 2 pods below priority 1000" in remedy for remedy in short.remedies)
        (tmp_path / "devices.yaml").write_text("serving/a: [0, 1, 2, 3]\nserving/b: [4, 5, 6, 7]\n")
        told = imported(tmp_path, *items, devices=tmp_path / "devices.yaml")
        assert len(placed(told, demand(4, tp=4), preempt=True).victims) == 1

    def test_a_clique_is_an_nvlink_domain(self) -> None:
        nodes = {one.name: one for one in shared_list("gb200").nodes}
        assert nodes["gb-0"].nvlink_domain == "7b968a6d.32766"
        assert {nodes[name].nvlink_domain for name in nodes if name != "gb-0"} == {""}
        assert [gpu.numa for gpu in nodes["gb-0"].gpus] == [0, 0, 1, 1]

    @pytest.mark.parametrize("name", ["332", "347", "352"])
    def test_the_eviction_clusters_load(self, name: str) -> None:
        document = yaml.safe_load((LISTS / f"evictions_{name}.yaml").read_text())
        cluster = cluster_from_section(Section(document["cluster"], file=name))
        rows = document["cluster"]
        assert (len(cluster.nodes), len(cluster.pods)) == (len(rows["nodes"]), len(rows["pods"]))
        assert cluster.gpus


def test_gpus_handed_out_in_fractions_are_not_whole(tmp_path: Path) -> None:
    """Three halves may lie on three GPUs: five are left for sure."""
    halves = [asking(f"p{k}", {"annotations": {"gpu-fraction": "0.5"}}) for k in range(3)]
    cluster = imported(tmp_path, eight("n-1", {PRODUCT: "NVIDIA-H200"}), *halves)
    assert (cluster.idle_gpus, cluster.nodes[0].offers) == ({"H200": 5}, (("gpu-fraction", 3),))
    assert said(cluster, "3 GPUs at most are handed out in fractions")


def test_reservations_hold_the_gpus_of_fractions(tmp_path: Path) -> None:
    halves = [asking(f"p{k}", {"annotations": {"gpu-fraction": "0.5"}}) for k in range(2)]
    holder = asking("gpu-reservation-n-1-x", {"resources": {"nvidia.com/gpu": "1"}}, "kai-resource-reservation")
    cluster = imported(tmp_path, eight("n-1", {PRODUCT: "NVIDIA-H200"}), *halves, holder)
    assert (cluster.gpus, cluster.idle_gpus) == ({"H200": 8}, {"H200": 7})
    assert [pod.gpu_share for pod in cluster.pods if pod.namespace == "serving"] == [0.5, 0.5]


def test_hami_registers_devices(tmp_path: Path) -> None:
    """Two L40S of 46068 MiB in ten slots each; a pod takes 30 % of the cores and half of the memory, another all."""
    device = "GPU-{},10,46068,100,NVIDIA-NVIDIA L40S,0,true:"
    registered = {"hami.io/node-nvidia-register": "".join(device.format(k) for k in "ab")}
    host = node("n-1", {}, registered, resources={"nvidia.com/gpu": 20})
    half = asking(
        "half", {"resources": {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "30", "nvidia.com/gpumem": "23034"}}
    )
    unlimited = asking("unlimited", {"resources": {"nvidia.com/gpu": "1"}})
    cluster = imported(tmp_path, host, half, unlimited)
    assert (cluster.nodes[0].gpu, cluster.gpus, cluster.nodes[0].offers) == ("L40S", {}, (("nvidia.com/gpu", 20),))
    assert {pod.name: pod.gpu_share for pod in cluster.pods} == {"half": pytest.approx(0.5), "unlimited": 1.0}
    assert said(cluster, "HAMi, 10 a GPU")


DRA = {"driver": "gpu.nvidia.com"}


def dra_node(name: str = "n-1") -> list[dict[str, Any]]:
    attributes = {"productName": {"string": "NVIDIA H200"}, "type": {"string": "gpu"}}
    devices = [{"name": f"gpu-{k}", "attributes": attributes | {"uuid": {"string": f"GPU-{k}"}}} for k in range(8)]
    spec = DRA | {"nodeName": name, "pool": {"name": name}, "devices": devices}
    return [node(name), {"kind": "ResourceSlice", "metadata": {"name": f"{name}-slice"}, "spec": spec}]


def claim(name: str, *devices: str, driver: str = "gpu.nvidia.com") -> dict[str, Any]:
    results = [{"driver": driver, "pool": "n-1", "device": device, "request": "r"} for device in devices]
    status = {"allocation": {"devices": {"results": results}}}
    return {"kind": "ResourceClaim", "metadata": {"name": name, "namespace": "serving"}, "status": status}


def claiming(name: str, claim_name: str, **options: Any) -> dict[str, Any]:
    return kubectl_pod(
        name, "n-1", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}]}, **options
    )


def test_claims_say_which_gpus_pods_hold(tmp_path: Path) -> None:
    items = [
        claim("c", "gpu-2", "gpu-5"),
        claiming("a", "c"),
        claim("nic", "eth1", driver="dra.net"),
        claiming("b", "nic"),
    ]
    cluster = imported(tmp_path, *dra_node(), *items)
    assert {pod.name: (pod.gpus, pod.gpu_request) for pod in cluster.pods} == {"a": ((2, 5), 2), "b": ((), 0)}
    assert (cluster.gpus, cluster.idle_gpus) == ({"H200": 8}, {"H200": 6})
    assert cluster.nodes[0].gpus[3].uuid == "GPU-3"


def test_a_claim_beside_gpus_of_the_plugin_is_for_something_else(tmp_path: Path) -> None:
    """The channel of a ComputeDomain, as on every NVL72."""
    pod = kubectl_pod("a", "n-1", gpus=4, spec={"resourceClaims": [{"name": "imex", "resourceClaimTemplateName": "x"}]})
    pod["spec"]["containers"] = kubectl_pod("a", "n-1", gpus=4)["spec"]["containers"]
    cluster = imported(tmp_path, eight("n-1", {PRODUCT: "NVIDIA-GB200"}, 4), pod)
    assert cluster.idle_gpus == {"GB200-NVL72": 0}
    assert said(cluster, "pod serving/a", "taken for other devices")


def test_other_kinds_are_passed_over_and_counted(tmp_path: Path) -> None:
    others = [{"kind": "Service", "metadata": {"name": f"s{k}"}} for k in range(2)]
    others += [{"kind": "DaemonSet", "metadata": {"name": "d"}}, {"kind": "ResourceClaimTemplate"}]
    cluster = imported(tmp_path, eight("n-1", {PRODUCT: "NVIDIA-H200"}), *others)
    assert cluster.gpus == {"H200": 8}
    for counted in ("2 Service objects", "1 DaemonSet objects", "1 ResourceClaimTemplate objects"):
        assert said(cluster, counted, "passed over")


@pytest.mark.parametrize(("status", "taint"), [("False", "not-ready"), ("Unknown", "unreachable"), ("True", "")])
def test_nodes_that_are_not_ready_are_tainted(tmp_path: Path, status: str, taint: str) -> None:
    host = eight("n-1", {PRODUCT: "NVIDIA-H200"})
    host["status"]["conditions"] = [{"type": "Ready", "status": status}]
    assert [one.key for one in imported(tmp_path, host).nodes[0].taints] == (
        [f"node.kubernetes.io/{taint}"] * bool(taint)
    )


@pytest.mark.parametrize(
    ("labels", "domain"),
    [
        ({"nvidia.com/gpu.clique": "7b968a6d-9a2b-4d2f-8a3b-0c1d2e3f4a5b.1"}, "7b968a6d-9a2b-4d2f-8a3b-0c1d2e3f4a5b.1"),
        ({"nvidia.com/gpu.clique": "00000000-0000-0000-0000-000000000000.0"}, ""),
        ({"nvidia.com/gpu.clique": ""}, ""),
        ({"network.topology.nvidia.com/accelerator": "nvl1"}, "nvl1"),
        ({"ds.coreweave.com/nvlink.domain": "rack-7"}, "rack-7"),
        ({TYPE: "a4x-highgpu-4g", "cloud.google.com/gce-topology-subblock": "sb1"}, "sb1"),
        ({TYPE: "a3-ultragpu-8g", "cloud.google.com/gce-topology-subblock": "sb1"}, ""),
    ],
)
def test_nvlink_domains_of_several_hosts(tmp_path: Path, labels: dict[str, str], domain: str) -> None:
    one = eight("n-1", {PRODUCT: "NVIDIA-GB200"} | labels, 4)
    assert imported(tmp_path, one).nodes[0].nvlink_domain == domain


AWS, GCE = "topology.k8s.aws/network-node-layer-", "cloud.google.com/gce-topology-"
ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("rows", "levels", "switches"),
    [
        ([{f"{AWS}1": "a", f"{AWS}2": "b", f"{AWS}3": "c"}, {f"{AWS}1": "a", f"{AWS}2": "b", f"{AWS}3": "c"}],
         (("asw", f"{AWS}3"), ("aggregation", f"{AWS}2")), [("c", "b")] * 2),
        ([{f"{GCE}block": "b", f"{GCE}subblock": "s", f"{GCE}host": "h1"},
          {f"{GCE}block": "b", f"{GCE}subblock": "s", f"{GCE}host": "h2"}],
         (("asw", f"{GCE}subblock"), ("aggregation", f"{GCE}block")), [("s", "b")] * 2),
        ([{LEAF: "l1", SPINE: "s"}, {LEAF: "l2", SPINE: "s"}], (("asw", SPINE),), [("s", "")] * 2),
        ([{LEAF: "l1", SPINE: "s"}, {}], (("asw", LEAF), ("aggregation", SPINE)), [("l1", "s"), ("", "")]),
        ([{"fabric.topograph.run/tier-0": "t", "fabric.topograph.run/tier-1": "u"}] * 2,
         (("asw", "fabric.topograph.run/tier-0"), ("aggregation", "fabric.topograph.run/tier-1")), [("t", "u")] * 2),
        ([{"topology.kubernetes.io/rack": "r", ZONE: "z"}] * 2,
         (("asw", "topology.kubernetes.io/rack"), ("aggregation", ZONE)), [("r", "z")] * 2),
        ([{ZONE: "z1"}, {ZONE: "z2"}], (("asw", ZONE),), [("z1", ""), ("z2", "")]),
        ([{ZONE: "z1"}, {ZONE: "z1"}], (), [("", "")] * 2),
        ([{}, {}], (), [("", "")] * 2),
    ],
)  # fmt: skip
def test_switches_that_labels_name_by_themselves(
    tmp_path: Path, rows: list[dict[str, str]], levels: tuple[tuple[str, str], ...], switches: list[tuple[str, str]]
) -> None:
    """The nearest level that groups nodes is the access switch; a zone is one only where it parts nodes."""
    hosts = [eight(f"n-{k}", {PRODUCT: "NVIDIA-H200"} | row) for k, row in enumerate(rows)]
    cluster = imported(tmp_path, *hosts)
    assert cluster.levels == levels
    assert [(one.asw, one.aggregation) for one in cluster.nodes] == switches
    assert said(cluster, "switches: ", levels[0][1] if levels else "--level asw=LABEL")


def test_a_dgx_a100_has_its_own_board(tmp_path: Path) -> None:
    labels = {PRODUCT: "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.machine": "NVIDIA-DGX-A100-920-23687-2530-000"}
    (one,) = imported(tmp_path, eight("n-1", labels)).nodes
    assert [gpu.numa for gpu in one.gpus] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert [(numa.id, numa.socket) for numa in one.numa_nodes] == [(1, 0), (3, 0), (5, 1), (7, 1)]


def test_labels_that_contradict_the_drivers_are_said(tmp_path: Path) -> None:
    labels = {PRODUCT: "NVIDIA-H20", "cloud.google.com/gke-accelerator": "nvidia-b200", TYPE: "some-machine"}
    cluster = imported(tmp_path, eight("n-1", labels))
    assert cluster.gpus == {"H20": 8}
    assert said(cluster, "GPUs are H20 by its label nvidia.com/gpu.product", "gke-accelerator says")
    assert said(shared_list("base"), "node h200-0", "GPUs are H200", "node.kubernetes.io/instance-type")


@pytest.mark.parametrize(
    ("change", "preemptible", "kind"),
    [
        ({"spec": {"priority": -10}}, True, "offline"),
        ({"spec": {"priority": -10, "priorityClassName": "batch"}}, True, "offline"),
        ({"metadata": {"ownerReferences": [{"kind": "Job", "name": "j"}]}}, False, "offline"),
        ({}, False, "online"),
    ],
)
def test_batch_pods_with_and_without_a_class(
    tmp_path: Path, change: dict[str, Any], preemptible: bool, kind: str
) -> None:
    """A priority below 0 comes from a class, named or not; a job without one stays, and it is said."""
    pod = kubectl_pod("p", "n-1", gpus=8, metadata=change.get("metadata", {}))
    pod["spec"] |= change.get("spec", {})
    cluster = imported(tmp_path, eight("n-1", {PRODUCT: "NVIDIA-H200"}), pod)
    assert (cluster.pods[0].preemptible, cluster.pods[0].kind.value) == (preemptible, kind)
    assert said(cluster, "names no priority class", "--preempt-unclassed") is (kind == "offline" and not preemptible)


def test_lists_where_nothing_can_be_read_say_why(tmp_path: Path) -> None:
    path = written_list(tmp_path / "list.json", eight("n-1", {"feature.node.kubernetes.io/pci-10de.present": "true"}))
    with pytest.raises(InputError, match=r"no label names it.*Run GPU feature discovery"):
        import_cluster(ClusterSources(kubectl=(path,)))
