"""Idle GPUs that cannot serve: counts by hand, against brute force, on the public node list, and as properties."""

import csv
import io
import lzma
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import Cluster, ClusterNode, NodeGpu, NumaNode, Pod, Qos, Taint
from planner.domain.diagnosis import (
    ChangeKind,
    GpuRequest,
    JobDiagnosis,
    JobScope,
    RequestDiagnosis,
    StrandingCause,
)
from planner.errors import InputError
from planner.placement.diagnosis import diagnose
from planner.placement.diagnosis.rooms import grounds_of, requests_that_fit

NODE_LIST = Path(__file__).parents[1] / "data" / "spot_gpu_2026" / "node_info.csv.xz"
FAULT = Taint(key="node.kubernetes.io/unschedulable")


def node_of(name: str, gpus: int = 8, cpus: float = 128, memory_gb: float = 1024, **more: object) -> ClusterNode:
    """Two sockets of one NUMA node each; the GPUs divided between them."""
    fields = {
        "gpu": "H20",
        "gpus": tuple(NodeGpu(index=k, uuid=f"{name}-{k}", numa=2 * k // max(gpus, 1)) for k in range(gpus)),
        "numa_nodes": (NumaNode(id=0, socket=0), NumaNode(id=1, socket=1)),
        "asw": "a-1",
    }
    return ClusterNode(name=name, cpus=cpus, memory_gb=memory_gb, **(fields | more))  # type: ignore[arg-type]


def pod_of(node: str, gpus: Sequence[int] = (), cpus: float = 0, **more: object) -> Pod:
    return Pod(name=f"p-{node}-{'-'.join(map(str, gpus))}-{cpus:g}", node=node, gpus=tuple(gpus), cpus=cpus, **more)  # type: ignore[arg-type]


def row_of(cluster: Cluster, text: str, **settings: object) -> RequestDiagnosis:
    """The pooled row of one request."""
    request = GpuRequest.parse(text)
    return diagnose(cluster, requests=(request,), jobs=(), **settings).requests[-1]  # type: ignore[arg-type]


def causes_of(row: RequestDiagnosis | JobDiagnosis) -> dict[str, float]:
    return {cause.value: gpus for cause, gpus in row.causes}


BY_HAND = Cluster(
    name="by-hand",
    nodes=(
        node_of("full"),
        node_of("half"),
        node_of("shared"),
        node_of("busy-cpus"),
        node_of("little-memory", memory_gb=64),
        node_of("cordoned", taints=(FAULT,)),
        node_of("empty"),
    ),
    pods=(
        pod_of("full", range(8), 64),
        pod_of("half", (0, 1, 4), 24),  # idle: 2, 3 of NUMA node 0 and 5, 6, 7 of NUMA node 1
        pod_of("shared", gpu_share=0.5, cpus=4),
        pod_of("busy-cpus", (0, 1, 2, 3), 100),
        pod_of("cordoned", (0,), 8),
    ),
)
"""Idle: 0 + 5 + 7.5 + 4 + 8 + 7 + 8 = 39.5."""


def test_causes_counted_by_hand() -> None:
    row = row_of(BY_HAND, "4G32C")
    # half: one of four, one stranded; shared: one of four, three stranded, a half fractional; busy-cpus: 28 CPUs left;
    # little-memory and empty: two each
    assert (row.idle_gpus, row.fit, row.servable_gpus) == (39.5, 6, 24)
    assert causes_of(row) == {"barred": 7, "fractional": 0.5, "stranded": 4, "cpu": 4}
    with_memory = row_of(BY_HAND, "4G32C64GB")
    assert with_memory.fit == 5
    assert causes_of(with_memory) == {"barred": 7, "fractional": 0.5, "stranded": 4, "cpu": 4, "memory": 4}


def test_alignment_counted_by_hand() -> None:
    """Five idle GPUs lie as 2 + 3: no four in one NUMA node; which GPUs are whole beside a part is not known."""
    row = row_of(BY_HAND, "4G32C", qos=Qos.SINGLE_NUMA)
    assert causes_of(row) == {"barred": 7, "fractional": 0.5, "stranded": 4, "cpu": 4, "unknown": 4, "numa": 4}
    assert row.fit == 4
    gained = {change.kind: change.gpus for change in row.changes}
    assert gained[ChangeKind.ALIGNMENT] == 8
    assert row_of(BY_HAND, "1G8C", qos=Qos.SINGLE_NUMA).of(StrandingCause.UNKNOWN) == 0


def test_released_counts_by_hand() -> None:
    """Nodes with faults count as others, a node that takes one request serves, CPU-bound is min(g, idle)."""
    released = row_of(BY_HAND, "4G32C").released
    assert (released.fractional, released.stranded, released.cpu) == (0.5, 0, 4)
    eight = row_of(BY_HAND, "8G128C").released
    # CPUs: half 104, shared 124, busy-cpus 28, cordoned 120 are below 128: 5 + 7.5 + 4 + 7
    assert (eight.fractional, eight.stranded, eight.cpu) == (0, 0, 23.5)
    one = row_of(BY_HAND, "1G64C").released
    assert (one.fractional, one.stranded, one.cpu) == (0.5, 0, 1)  # busy-cpus: one of its four idle GPUs
    sixteen = replace(BY_HAND, nodes=(*BY_HAND.nodes, node_of("wide", gpus=16, cpus=4)))
    assert row_of(sixteen, "4G32C").released == released


def test_changes_by_hand() -> None:
    changes = {(change.kind, change.amount): change for change in row_of(BY_HAND, "4G32C").changes}
    assert changes[ChangeKind.CPUS, 4].gpus == 4  # busy-cpus has 28 of 32
    assert changes[ChangeKind.FAULTS, 1].gpus == 4
    assert changes[ChangeKind.PARTS, 1].gpus == 4
    together = changes[ChangeKind.CONSOLIDATION, 5]  # pods with GPUs
    # 32.5 idle GPUs without the cordoned node make eight requests, two more than now
    assert together.at_most
    assert together.gpus == 8
    assert ChangeKind.LOCKED_PODS not in {kind for kind, _ in changes}
    locked = replace(BY_HAND, pods=tuple(replace(pod, locked=pod.node != "half") for pod in BY_HAND.pods))
    bounded = {change.kind: change for change in row_of(locked, "4G32C").changes}
    # only the pods of `half` may go: it would take two requests instead of one
    assert (bounded[ChangeKind.CONSOLIDATION].gpus, bounded[ChangeKind.LOCKED_PODS].gpus) == (4, 4)
    assert "shared" in bounded[ChangeKind.LOCKED_PODS].nodes


def test_the_smallest_number_of_cpus_that_opens_half_and_all() -> None:
    """Idle CPUs 0, 4, 8, 8 of four whole nodes against 1G16C on single GPUs."""
    nodes = tuple(node_of(f"n-{k}", gpus=1, cpus=cpus) for k, cpus in enumerate((0, 4, 8, 8)))
    changes = row_of(Cluster(name="c", nodes=nodes), "1G16C").changes
    assert [(change.kind, change.amount, change.gpus) for change in changes][:2] == [
        (ChangeKind.CPUS, 16, 4),
        (ChangeKind.CPUS, 8, 2),
    ]


def test_evictions_come_last_among_changes() -> None:
    pods = (pod_of("n", range(7), 8, preemptible=True),)
    changes = row_of(Cluster(name="c", nodes=(node_of("n"), node_of("m", taints=(FAULT,))), pods=pods), "4G8C").changes
    assert [(change.kind, change.gpus) for change in changes] == [(ChangeKind.FAULTS, 8), (ChangeKind.PREEMPTION, 8)]


def test_preemptible_pods_may_count_as_gone() -> None:
    pods = (pod_of("n", range(4), 32, preemptible=True), pod_of("n", (4,), 8))
    cluster = Cluster(name="c", nodes=(node_of("n"),), pods=pods)
    assert row_of(cluster, "4G8C").idle_gpus == 3
    assert row_of(cluster, "4G8C", guaranteed_only=True).idle_gpus == 7


def job_row(cluster: Cluster, gpus: int, scope: JobScope, gpu: str = "") -> JobDiagnosis:
    rows = diagnose(cluster, requests=(), jobs=(gpus,)).jobs
    return next(row for row in rows if row.scope is scope and row.gpu == gpu)


def test_jobs_counted_by_hand() -> None:
    """Two switches: slots 8 + 8 + 3 (CPUs) and 8 + 5; another type under the second; one node under none."""
    cluster = Cluster(
        name="jobs",
        nodes=(
            node_of("a", asw="s1", nvlink_domain="d1"),
            node_of("b", asw="s1", nvlink_domain="d1"),
            node_of("c", cpus=40, asw="s1"),
            node_of("d", asw="s2"),
            node_of("e", asw="s2"),
            node_of("f", asw=""),
            node_of("g", asw="s2", gpu="H200"),
        ),
        pods=(pod_of("e", (0, 1, 2)),),
    )
    across, within = (job_row(cluster, 16, scope, "H20") for scope in (JobScope.CLUSTER, JobScope.ASW))
    assert (across.idle_gpus, across.slots, across.fit) == (45, 40, 2)
    assert causes_of(across) == {"cpu": 5, "remainder": 8}
    assert (within.fit, causes_of(within)) == (1, {"cpu": 5, "remainder": 8, "topology": 16})
    domain = job_row(cluster, 16, JobScope.NVLINK_DOMAIN, "H20")
    assert (domain.fit, causes_of(domain)) == (1, {"cpu": 5, "remainder": 8, "nvlink_domain": 16})
    mixed = job_row(cluster, 16, JobScope.ASW)
    assert (mixed.fit, mixed.slots) == (2, 48)  # 19 under s1, 13 + 8 under s2
    assert within.changes[0].kind is ChangeKind.SCOPE
    assert within.changes[0].gpus == 16
    assert "1 of 7 nodes lie under no known access switch" in diagnose(cluster).notes[0]


def test_the_released_scripts_count_a_partly_held_gpu_as_a_slot() -> None:
    cluster = Cluster(name="c", nodes=(node_of("n"),), pods=(pod_of("n", gpu_share=0.25),))
    row = job_row(cluster, 8, JobScope.ASW)
    assert (row.slots, row.fit, row.released_fit) == (7, 0, 1)


# the public list of nodes: 4,278 nodes with 10,412 GPUs, nothing on them


@pytest.fixture(scope="module")
def public_nodes() -> Cluster:
    """The list as a cluster: GPUs of 8 under two sockets, no switches."""
    with lzma.open(NODE_LIST, "rt") as lines:
        rows = list(csv.DictReader(io.StringIO(lines.read())))
    nodes = tuple(
        node_of(row["node_name"], int(row["gpu_capacity_num"]), float(row["cpu_num"]), gpu=row["gpu_model"], asw="")
        for row in rows
    )
    return Cluster(name="public", nodes=nodes)


def test_the_public_node_list(public_nodes: Cluster) -> None:
    """3,396 nodes have one GPU, 10 have four, 872 eight (454 of these with 128 CPUs, 418 with 192)."""
    diagnosis = diagnose(public_nodes)
    assert (len(public_nodes.nodes), diagnosis.gpus, diagnosis.idle_gpus) == (4278, 10_412, 10_412)
    rows = {row.request.name: row for row in diagnosis.requests if not row.gpu}
    assert {name: row.fit for name, row in rows.items()} == {
        "1G8C": 10_412,
        "1G12C": 3396 + 4 * 10 + 8 * 418 + 8 * 454,  # 128 CPUs make ten, so all eight GPUs of a node find theirs
        "4G32C": 10 + 2 * 872,
        "4G48C": 10 + 2 * 872,
        "4G64C": 10 + 2 * 872,
        "8G64C": 872,
        "8G96C": 872,
        "8G128C": 872,
    }
    assert causes_of(rows["4G64C"]) == {"stranded": 3396}
    assert causes_of(rows["8G128C"]) == {"stranded": 3396 + 40}
    assert rows["8G128C"].released.stranded == 3396 + 40 - 2  # two nodes of one GPU have 126 CPUs
    assert rows["8G128C"].released.cpu == 2
    jobs = {(row.gpu, row.gpus): row.fit for row in diagnosis.jobs if row.scope is JobScope.CLUSTER}
    # 12 CPUs a GPU: 10 GPUs' worth of 128 CPUs, 16 of 192: every GPU has them
    assert (jobs["H800", 128], jobs["A100-SXM4-80GB", 256], jobs["A10", 128], jobs["", 256]) == (13, 13, 19, 40)
    assert {row.fit for row in diagnosis.jobs if row.scope is JobScope.ASW} == {0}


# against brute force


def least_width(node: ClusterNode, size: int, cores_each: int) -> tuple[int, int] | None:
    """Fewest (sockets, NUMA nodes) of any set of so many of a node's GPUs, its cores free."""
    cores = {numa.id: len(numa.cores) for numa in node.numa_nodes}
    sets = (s for s in combinations(node.gpus, size) if _cores_suffice(s, cores, cores_each))
    return min((_width(node, chosen) for chosen in sets), default=None)


def _width(node: ClusterNode, chosen: Sequence[NodeGpu]) -> tuple[int, int]:
    socket = {numa.id: numa.socket for numa in node.numa_nodes}
    numas = {gpu.numa for gpu in chosen}
    return len({socket[numa] for numa in numas}), len(numas)


def _cores_suffice(chosen: Sequence[NodeGpu], cores: dict[int, int], cores_each: int) -> bool:
    if not any(cores.values()) or not cores_each:
        return True
    return all(cores[numa] >= count * cores_each for numa, count in Counter(gpu.numa for gpu in chosen).items())


def most_at_once(node: ClusterNode, pods: Sequence[Pod], request: GpuRequest, qos: Qos) -> int:
    """The most requests that a node takes, over all ways to give its idle GPUs and cores to them."""
    cpus = node.cpus - sum(pod.cpu_count for pod in pods)
    memory = node.memory_gb - sum(pod.memory_gb for pod in pods)
    taken = {gpu for pod in pods for gpu in pod.gpus}
    used = {core for pod in pods for core in pod.cores}
    idle = [gpu for gpu in node.gpus if gpu.index not in taken]
    cores = {numa.id: len(set(numa.cores) - used) for numa in node.numa_nodes}
    each = -(-request.cpus // request.gpus)
    least = least_width(node, request.gpus, each)

    def fits(chosen: Sequence[NodeGpu], cores: dict[int, int]) -> bool:
        if not qos.binds:
            return True
        if not _cores_suffice(chosen, cores, each):
            return False
        width = _width(node, chosen)
        return width[1] <= 1 if qos is Qos.SINGLE_NUMA else least is not None and width <= least

    def most(left: Sequence[NodeGpu], cores: dict[int, int], cpus: float, memory: float) -> int:
        if cpus < request.cpus or memory < request.memory_gb or len(left) < request.gpus:
            return 0
        best = 0
        for chosen in combinations(left, request.gpus):
            if fits(chosen, cores):
                numas = Counter(gpu.numa for gpu in chosen)
                fewer = (
                    {numa: count - numas[numa] * each for numa, count in cores.items()}
                    if any(cores.values())
                    else cores
                )
                rest = [gpu for gpu in left if gpu not in chosen]
                best = max(best, 1 + most(rest, fewer, cpus - request.cpus, memory - request.memory_gb))
        return best

    return most(idle, cores, cpus, memory)


@st.composite
def loaded_nodes(draw: st.DrawFn) -> tuple[ClusterNode, tuple[Pod, ...]]:
    """Up to six GPUs on up to four NUMA nodes of two sockets, cores listed or not, with some pods."""
    numas = draw(st.integers(1, 4))
    listed = draw(st.booleans())
    per_numa = 8
    of = [draw(st.integers(0, numas - 1)) for _ in range(draw(st.integers(1, 6)))]
    cores = [tuple(range(per_numa * k, per_numa * (k + 1))) if listed else () for k in range(numas)]
    node = ClusterNode(
        name="n",
        gpu="H20",
        gpus=tuple(NodeGpu(index=k, uuid=str(k), numa=numa) for k, numa in enumerate(of)),
        numa_nodes=tuple(NumaNode(id=k, socket=k // 2, cores=cores[k]) for k in range(numas)),
        cpus=float(per_numa * numas),
        memory_gb=64.0,
        asw="a",
    )
    held = draw(st.sets(st.integers(0, len(of) - 1)))
    pinned = draw(st.sets(st.integers(0, per_numa * numas - 1), max_size=6)) if listed else set()
    pod = Pod(
        name="p",
        node="n",
        gpus=tuple(sorted(held)),
        cpus=float(draw(st.integers(0, per_numa * numas))),
        cores=tuple(sorted(pinned)),
        memory_gb=float(draw(st.sampled_from((0, 16, 40)))),
    )
    return node, (pod,)


REQUESTS = st.builds(
    GpuRequest, gpus=st.integers(1, 4), cpus=st.sampled_from((0, 2, 5, 8, 12)), memory_gb=st.sampled_from((0.0, 16.0))
)


@given(loaded_nodes(), REQUESTS, st.sampled_from(list(Qos)))
def test_fits_are_those_of_brute_force(
    loaded: tuple[ClusterNode, tuple[Pod, ...]], request_of: GpuRequest, qos: Qos
) -> None:
    node, pods = loaded
    room = grounds_of(Cluster(name="c", nodes=(node,), pods=pods))[0].rooms[0]
    assert requests_that_fit(room, request_of, qos) == most_at_once(node, pods, request_of, qos)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Nodes of two types, with faults, shares, pods of unknown GPUs, over-committed ones too."""
    nodes, pods = [], []
    for k in range(draw(st.integers(0, 6))):
        name = f"n-{k}"
        nodes.append(
            node_of(
                name,
                draw(st.sampled_from((0, 1, 4, 8))),
                draw(st.sampled_from((8.0, 64.0, 128.0))),
                gpu=draw(st.sampled_from(("H20", "H200"))),
                asw=draw(st.sampled_from(("", "s1", "s2"))),
                nvlink_domain=draw(st.sampled_from(("", "d1"))),
                taints=(FAULT,) if draw(st.integers(0, 5)) == 0 else (),
            )
        )
        for j, size in enumerate(draw(st.lists(st.sampled_from((0.0, 0.3, 0.5, 1, 2, 4)), max_size=3))):
            pods.append(
                Pod(
                    name=f"p-{k}-{j}",
                    node=name,
                    gpu_request=int(size),
                    gpu_share=size if size < 1 else 0.0,
                    cpus=float(draw(st.sampled_from((0, 8, 40)))),
                    memory_gb=draw(st.sampled_from((0.0, 100.0, 600.0))),
                    preemptible=draw(st.booleans()),
                    locked=draw(st.booleans()),
                )
            )
    return Cluster(name="random", nodes=tuple(nodes), pods=tuple(pods))


@given(clusters(), st.sampled_from(list(Qos)))
def test_causes_partition_the_idle_gpus(cluster: Cluster, qos: Qos) -> None:
    requests = tuple(map(GpuRequest.parse, ("1G8C", "4G48C256GB", "8G0C")))
    diagnosis = diagnose(cluster, requests=requests, jobs=(3, 16), qos=qos)
    for row in diagnosis.requests:
        assert row.servable_gpus + sum(gpus for _, gpus in row.causes) == pytest.approx(row.idle_gpus, abs=1e-5)
        assert all(gpus > 0 for _, gpus in row.causes)
    for job in diagnosis.jobs:
        assert job.fit * job.gpus + sum(gpus for _, gpus in job.causes) == pytest.approx(job.idle_gpus, abs=1e-5)
    for index, request in enumerate(requests):
        typed = [row for row in diagnosis.requests[: -len(requests)] if row.request == request]
        pooled = diagnosis.requests[len(diagnosis.requests) - len(requests) + index] if diagnosis.requests else None
        assert pooled is None or (pooled.fit, pooled.idle_gpus) == (
            sum(row.fit for row in typed),
            pytest.approx(sum(row.idle_gpus for row in typed)),
        )


@given(clusters())
def test_scopes_and_changes_only_shrink_and_grow(cluster: Cluster) -> None:
    diagnosis = diagnose(cluster, requests=(GpuRequest.parse("4G48C"),), jobs=(5,))
    by_type: dict[str, dict[JobScope, int]] = {}
    for job in diagnosis.jobs:
        by_type.setdefault(job.gpu, {})[job.scope] = job.fit
    for fits in by_type.values():
        assert all(fit <= fits[JobScope.CLUSTER] for fit in fits.values())
    for row in diagnosis.requests:
        assert all(change.gpus > 0 and change.gpus % 4 == 0 for change in row.changes)


def realised(cluster: Cluster, change: ChangeKind, amount: float) -> Iterator[ClusterNode]:
    for node in cluster.nodes:
        if change is ChangeKind.CPUS:
            yield replace(node, cpus=node.cpus + amount)
        elif change is ChangeKind.MEMORY:
            yield replace(node, memory_gb=node.memory_gb + amount)
        else:
            yield replace(node, taints=())


@given(clusters().filter(lambda cluster: not diagnose(cluster, jobs=()).overcommitted))
def test_a_change_opens_what_it_says_once_it_is_made(cluster: Cluster) -> None:
    row = row_of(cluster, "2G24C64GB") if any(node.gpus for node in cluster.nodes) else None
    for change in row.changes if row else ():
        pods = cluster.pods
        nodes = cluster.nodes
        if change.kind in (ChangeKind.CPUS, ChangeKind.MEMORY, ChangeKind.FAULTS):
            nodes = tuple(realised(cluster, change.kind, change.amount))
        elif change.kind is ChangeKind.PREEMPTION:
            pods = tuple(pod for pod in pods if not pod.preemptible)
        elif change.kind is ChangeKind.PARTS:
            pods = tuple(pod for pod in pods if not pod.gpu_share)
        else:
            continue
        after = row_of(replace(cluster, nodes=nodes, pods=pods), "2G24C64GB")
        assert 2 * (after.fit - row.fit) == change.gpus


def test_an_over_committed_node_is_listed_and_left_as_it_is() -> None:
    pods = (
        Pod(name="a", node="n", gpu_request=6, cpus=100),
        Pod(name="b", node="n", gpu_request=3, gpu_share=0.5, cpus=50, memory_gb=2000),
    )
    cluster = Cluster(name="c", nodes=(node_of("n"), node_of("m")), pods=pods)
    diagnosis = diagnose(cluster, requests=(GpuRequest.parse("1G1C"),), jobs=())
    assert [(row.node, row.resource, row.used, row.had) for row in diagnosis.overcommitted] == [
        ("n", "gpus", 9.5, 8),
        ("n", "cpus", 150, 128),
        ("n", "memory_gb", 2000, 1024),
    ]
    assert (diagnosis.idle_gpus, diagnosis.requests[-1].fit) == (8, 8)
    assert cluster.pods == pods


def test_gpus_that_are_cut_up_are_no_whole_ones() -> None:
    node = node_of("n", gpus=2, offers=(("nvidia.com/mig-1g.10gb", 14),))
    pod = pod_of("n", gpu_share=3 / 7)
    diagnosis = diagnose(Cluster(name="c", nodes=(node,), pods=(pod,)), jobs=())
    assert diagnosis.idle_gpus == 2
    assert any("offer parts of GPUs" in note for note in diagnosis.notes)


def test_parts_of_a_reserved_gpu_count_once() -> None:
    """A scheduler's own pod holds the whole GPU that two pods share."""
    holder = Pod(name="holder", namespace="kai-resource-reservation", node="n", gpu_request=1)
    sharing = tuple(Pod(name=name, node="n", gpu_share=0.5) for name in "ab")
    cluster = Cluster(name="c", nodes=(node_of("n", gpus=2),), pods=(holder, *sharing))
    diagnosis = diagnose(cluster, jobs=())
    assert (diagnosis.idle_gpus, diagnosis.overcommitted) == (1, ())


@pytest.mark.parametrize("text", ["", "4", "4G", "G4C8", "0G8C", "4G-8C", "4G32C64", "4G32C64TB", "1e3G8C", "1001G8C"])
def test_a_request_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="request: must be"):
        GpuRequest.parse(text)


def test_requests_are_read_with_and_without_memory() -> None:
    assert GpuRequest.parse(" 4g32c ") == GpuRequest(gpus=4, cpus=32)
    assert GpuRequest.parse("4G32C0.5GB").name == "4G32C0.5GB"


@pytest.mark.parametrize(("settings", "fault"), [({"jobs": (128, 128)}, "job"), ({"jobs": (0,)}, "job")])
def test_sizes_out_of_range_are_refused(settings: dict[str, tuple[int, ...]], fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        diagnose(BY_HAND, **settings)  # type: ignore[arg-type]
