"""Idle GPUs that cannot serve a request, by cause, and what a single change would open. Door: `diagnose`.

It holds a cluster's idle GPUs against requests of one pod and jobs of many nodes, by GPU type and pooled.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.domain import Cluster, ClusterNode, Qos
from planner.domain.diagnosis import (
    CPUS_OF_A_JOB_GPU,
    PUBLISHED_JOBS,
    PUBLISHED_REQUESTS,
    ClusterDiagnosis,
    GpuRequest,
    JobScope,
    RequestDiagnosis,
    StrandingCause,
)
from planner.domain.usable import FAULTS, REPELLING
from planner.errors import InputError
from planner.placement.diagnosis.changes import Spare, changes_for
from planner.placement.diagnosis.jobs import diagnose_job
from planner.placement.diagnosis.rooms import (
    ROUNDING,
    Ground,
    causes_on,
    grounds_of,
    overcommitments,
    pods_by_node,
    pooled,
    released_counts,
    total_fit,
)

POOLED = ""
"""The type of rows that are of all types."""

MOST_JOB_GPUS = 1_000_000


def diagnose(
    cluster: Cluster,
    *,
    requests: Sequence[GpuRequest] = PUBLISHED_REQUESTS,
    jobs: Sequence[int] = PUBLISHED_JOBS,
    cpus_per_gpu: int = CPUS_OF_A_JOB_GPU,
    qos: Qos = Qos.BEST_EFFORT,
    guaranteed_only: bool = False,
) -> ClusterDiagnosis:
    """What idle GPUs serve, by request and job, and why the rest do not.

    `jobs`: GPUs of jobs of many nodes; `cpus_per_gpu`: CPUs that each of their GPUs takes along. `qos`: how a request's
    GPUs have to be aligned on NUMA nodes. `guaranteed_only`: pods that may be preempted count as gone, as the released
    scripts count. Nodes whose pods hold more than there is have nothing idle of it, and are listed. InputError: a
    request or job twice, or a size out of range.
    """
    _require_sizes(requests, jobs, cpus_per_gpu)
    if guaranteed_only:
        cluster = replace(cluster, pods=tuple(pod for pod in cluster.pods if not pod.preemptible))
    grounds = grounds_of(cluster)
    rows = [(ground.gpu, (ground,)) for ground in grounds] + [(POOLED, grounds)] * bool(grounds)
    spare = _spares(cluster, grounds)
    scopes = [JobScope.CLUSTER, JobScope.ASW]
    # Where nobody names domains, rows of them would all say 0.
    if any(node.nvlink_domain for node in cluster.nodes if node.gpus):
        scopes.append(JobScope.NVLINK_DOMAIN)
    return ClusterDiagnosis(
        cluster=cluster.name,
        gpus=sum(len(node.gpus) for node in cluster.nodes),
        idle_gpus=round(sum(room.idle for ground in grounds for room in ground.rooms), 6),
        qos=qos,
        guaranteed_only=guaranteed_only,
        requests=tuple(_request(gpu, row, request, qos, spare) for gpu, row in rows for request in requests),
        jobs=tuple(
            diagnose_job(gpu, row, gpus, cpus_per_gpu, scope) for gpu, row in rows for gpus in jobs for scope in scopes
        ),
        overcommitted=overcommitments(cluster),
        notes=tuple(_notes(cluster, jobs=bool(jobs))),
    )


def _require_sizes(requests: Sequence[GpuRequest], jobs: Sequence[int], cpus_per_gpu: int) -> None:
    for name, listed in (("request", [request.name for request in requests]), ("job", list(jobs))):
        twice = [item for item, count in Counter(listed).items() if count > 1]
        if twice:
            raise InputError(f"{name}: must each come once, got {twice[0]} twice.", hint="Drop one of the two.")
    for gpus in jobs:
        if not 1 <= gpus <= MOST_JOB_GPUS:
            raise InputError(f"job: must have 1 to {MOST_JOB_GPUS:,} GPUs, got {gpus}.", hint="Give 128.")
    if not 0 <= cpus_per_gpu <= 1_000:
        raise InputError(f"CPUs a GPU: must be from 0 to 1,000, got {cpus_per_gpu}.", hint="Give 12.")


def _request(
    gpu: str, grounds: Sequence[Ground], request: GpuRequest, qos: Qos, spare: dict[str, Spare]
) -> RequestDiagnosis:
    rooms = pooled(grounds)
    lost: dict[StrandingCause, float] = defaultdict(float)
    for room, nodes in rooms:
        for cause, gpus in causes_on(room, request, qos).items():
            lost[cause] += nodes * gpus
    return RequestDiagnosis(
        gpu=gpu,
        request=request,
        idle_gpus=round(sum(nodes * room.idle for room, nodes in rooms), 6),
        fit=total_fit(rooms, request, qos),
        causes=tuple((cause, round(lost[cause], 6)) for cause in StrandingCause if lost[cause] > ROUNDING),
        released=released_counts(rooms, request),
        changes=changes_for(grounds, request, qos, [spare[ground.gpu] for ground in grounds]),
    )


def _spares(cluster: Cluster, grounds: Sequence[Ground]) -> dict[str, Spare]:
    """Idle CPUs and memory of the nodes that are not of a type, by that type."""
    by_node = pods_by_node(cluster.pods)
    idle: dict[str, float] = defaultdict(float)
    memory: dict[str, float] = defaultdict(float)
    for node in cluster.nodes:
        pods = by_node.get(node.name, [])
        key = node.gpu if node.gpus else POOLED
        idle[key] += max(node.cpus - sum(pod.cpu_count for pod in pods), 0)
        memory[key] += max(node.memory_gb - sum(pod.memory_gb for pod in pods), 0)
    return {
        ground.gpu: (sum(idle.values()) - idle[ground.gpu], sum(memory.values()) - memory[ground.gpu])
        for ground in grounds
    }


def _notes(cluster: Cluster, *, jobs: bool) -> Iterable[str]:
    hosts = [node for node in cluster.nodes if node.gpus]
    nowhere = sum(not node.asw for node in hosts)
    if jobs and nowhere:
        yield f"{nowhere:,} of {len(hosts):,} nodes lie under no known access switch; no job is counted there."
    parts = sum(pod.gpu_share > 0 for pod in cluster.pods)
    if parts:
        yield f"{parts:,} pods hold parts of GPUs; they count as lying on as few GPUs of their node as they can."
    offering = sum(bool(node.offers) for node in cluster.nodes)
    if offering:
        yield f"{offering:,} nodes offer parts of GPUs (MIG slices, shares): those GPUs serve no request of whole ones."
    tainted = [node for node in hosts if any(_repels(node, key) for key in {t.key for t in node.taints} - set(FAULTS))]
    if tainted:
        yield f"{len(tainted):,} nodes have taints: their GPUs serve requests only that tolerate those."


def _repels(node: ClusterNode, key: str) -> bool:
    return any(taint.key == key and taint.effect in REPELLING for taint in node.taints)
