"""Pods of a placed plan fit the nodes that the placement gives its islands."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from contract_plans import placed_plan
from export_plans import gpu, island, plan_of
from hypothesis import given
from hypothesis import strategies as st
from quick_yaml import load_documents

from planner.domain import (
    Cluster,
    ClusterNode,
    NodeGpu,
    NumaNode,
    ParallelConfig,
    Phase,
    PlacedPart,
    PlacementSettings,
    Plan,
    Qos,
)
from planner.errors import ExportError
from planner.export import ExportOptions, find_faults, render
from planner.export.islands import serving_islands

Share = tuple[int, ...]  # GPUs of a copy in each NUMA node of a node


def node(name: str, numa: Share) -> ClusterNode:
    """A node with so many H20 in each NUMA node."""
    nodes = [n for n, gpus in enumerate(numa) for _ in range(gpus)]
    return ClusterNode(
        name=name,
        gpu="H20",
        gpus=tuple(NodeGpu(index=i, uuid=f"{name}-{i}", numa=n) for i, n in enumerate(nodes)),
        numa_nodes=tuple(NumaNode(id=n, socket=n) for n in range(len(numa))),
        cpus=96.0,
        memory_gb=1024.0,
        asw="s0",
    )


def _part(name: str, replica: int, one: ClusterNode, tp: int, share: Share) -> PlacedPart:
    free = {n: [g.index for g in one.gpus if g.numa == n] for n in range(len(one.numa_nodes))}
    return PlacedPart(
        island=name,
        replica=replica,
        node=one.name,
        asw=one.asw,
        tp=tp,
        gpu_indices=tuple(index for n, count in enumerate(share) for index in free[n][:count]),
        numa_nodes=tuple(n for n, count in enumerate(share) if count),
    )


def placed(
    parallel: ParallelConfig, shares: list[list[Share]], *, numa: Share = (4, 4), qos: Qos = Qos.NONE, host: int = 8
) -> Plan:
    """A decode island, each of whose copies has these shares, each on its own node; prefill lies on one of H200."""
    nodes = [replace(node("p0", (4, 4)), gpu="H200")]
    parts = [_part("H200-0", 0, nodes[0], 8, (4, 4))]
    for replica, copy in enumerate(shares):
        for share in copy:
            one = node(f"n{len(nodes)}", numa)
            nodes.append(one)
            parts.append(_part("H20-0", replica, one, parallel.tp, share))
    decode = island("H20-0", "H20", Phase.DECODE, parallel)
    prefill = island("H200-0", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1))
    plan = plan_of((decode, prefill), gpus=(gpu("H20", gpus_per_host=host), gpu("H200")), name="shares")
    example = placed_plan().placement
    assert example is not None
    scenario = replace(
        plan.scenario,
        cluster=Cluster(name="room", nodes=tuple(nodes)),
        placement=PlacementSettings(decode_qos=qos, prefill_qos=qos),
    )
    return replace(plan, scenario=scenario, placement=replace(example, parts=tuple(parts)))


def pod_gpus(plan: Plan) -> int:
    """GPUs of the decode island's pods."""
    return serving_islands(plan, "shares")[0].grouping.gpus_per_pod


def test_pods_fill_every_nodes_share() -> None:
    """Six nodes of 8 and one of 3: pods of 3 would leave 6 x 2 GPUs unused and four pods without a node."""
    plan = placed(ParallelConfig(tp=1, dp=51), [[*[(4, 4)] * 6, (3, 0)]])
    assert pod_gpus(plan) == 1
    assert pod_gpus(replace(plan, placement=None)) == 3
    for target in ("lws", "disaggregatedset", "script"):
        assert find_faults(render(plan, target=target), plan) == ()
    text = render(plan)["01-h20-0.yaml"]
    assert "1 group x 51 pods x 1 GPU = 51 H20." in text
    assert "and the placement's shares of its nodes, allow no larger equal pods" in text


def test_pods_fill_every_nodes_share_with_sglang() -> None:
    """Nodes of 8, 5 and 3 GPUs: SGLang splits layers over 16 GPUs, not over 51."""
    plan = placed(ParallelConfig(tp=1, dp=16), [[(4, 4), (4, 1), (3, 0)]])
    assert pod_gpus(plan) == 1
    assert pod_gpus(replace(plan, placement=None)) == 8
    for target in ("lws", "disaggregatedset", "script"):
        assert find_faults(render(plan, target=target, engine="sglang"), plan) == ()


# (tp, dp, shares of a copy, QoS) -> GPUs a pod; nodes have two NUMA nodes of four GPUs
CASES: list[tuple[int, int, list[Share], Qos, int]] = [
    (1, 16, [(4, 4)] * 2, Qos.NONE, 8),
    (1, 12, [(4, 4), (4, 0)], Qos.NONE, 4),
    (2, 7, [(4, 4), (4, 2)], Qos.NONE, 2),
    (4, 3, [(4, 4), (4, 0)], Qos.NONE, 4),
    (8, 2, [(4, 4)] * 2, Qos.SINGLE_NUMA, 4),  # no kubelet of single-numa-node takes a pod of eight
    (1, 16, [(4, 4)] * 2, Qos.GUARANTEED, 8),
    (1, 4, [(2, 2)], Qos.NONE, 4),
    (1, 4, [(2, 2)], Qos.GUARANTEED, 2),  # four would have to lie in one NUMA node
    (1, 4, [(2, 2)], Qos.BEST_EFFORT, 4),
    (1, 6, [(3, 3)], Qos.GUARANTEED, 6),
    (1, 4, [(3, 1)], Qos.GUARANTEED, 1),
]


@pytest.mark.parametrize(("tp", "dp", "shares", "qos", "expected"), CASES)
def test_pods_by_shares_and_qos(tp: int, dp: int, shares: list[Share], qos: Qos, expected: int) -> None:
    assert pod_gpus(placed(ParallelConfig(tp=tp, dp=dp), [shares], qos=qos)) == expected


def test_a_pod_over_more_numa_nodes_than_it_needs_is_refused_by_the_kubelet_and_not_written() -> None:
    parallel = ParallelConfig(tp=1, dp=8)
    compact = placed(parallel, [[(4, 4, 0, 0)]], numa=(4, 4, 4, 4), qos=Qos.GUARANTEED, host=16)
    spread = placed(parallel, [[(4, 2, 2, 0)]], numa=(4, 4, 4, 4), qos=Qos.GUARANTEED, host=16)
    assert (pod_gpus(compact), pod_gpus(spread)) == (8, 2)


@st.composite
def placements(draw: st.DrawFn) -> Plan:
    """One to three copies of one to five shares of whole tensor-parallel groups, on nodes of 4 to 16 GPUs."""
    numa = draw(st.sampled_from([(4, 4), (8,), (2, 2), (8, 8), (4, 4, 4, 4)]))
    tp = draw(st.sampled_from([t for t in (1, 2, 4, 8) if t <= sum(numa)]))
    copies: list[list[Share]] = []
    sizes = draw(st.lists(st.integers(1, sum(numa) // tp), min_size=1, max_size=5))
    for _ in range(draw(st.integers(1, 3))):
        copy = []
        for groups in draw(st.permutations(sizes)):
            left, share = groups * tp, []
            for gpus in numa:
                share.append(min(left, gpus))
                left -= share[-1]
            copy.append(tuple(share))
        copies.append(copy)
    parallel = ParallelConfig(tp=tp, dp=sum(sizes), replicas=len(copies))
    host = draw(st.sampled_from([4, 8, 16]))
    return placed(parallel, copies, numa=numa, qos=draw(st.sampled_from(list(Qos))), host=host)


@given(plan=placements())
def test_the_nodes_of_a_placement_hold_all_pods(plan: Plan) -> None:
    decode, prefill = serving_islands(plan, "shares")
    grouping = decode.grouping
    held: Counter[str] = Counter()
    for part in plan.placement.parts:
        held[part.node] += len(part.gpu_indices) if part.island == decode.id else 0
    assert sum(count // grouping.gpus_per_pod for count in held.values()) >= grouping.groups * grouping.pods
    assert grouping.groups * grouping.pods * grouping.gpus_per_pod == decode.size
    assert prefill.grouping.gpus_per_pod * prefill.grouping.pods == 8


@given(plan=placements(), engine=st.sampled_from(["vllm", "sglang"]))
def test_pinned_pods_have_room_on_their_nodes(plan: Plan, engine: str) -> None:
    """Read back from the manifests: what the placement has on the nodes of a pod's affinity holds the set's pods."""
    try:
        files = render(plan, engine=engine, options=ExportOptions(pin_nodes=True))
    except ExportError:
        return
    found: dict[str, Any] = next(iter(load_documents(files["01-h20-0.yaml"])))
    group = found["spec"]["leaderWorkerTemplate"]
    pod = group["workerTemplate"]["spec"]
    gpus = pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    affinity = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    names = affinity["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
    assert plan.placement is not None
    room = sum(len(p.gpu_indices) // gpus for p in plan.placement.parts if p.node in names)
    assert room >= found["spec"]["replicas"] * group["size"]
