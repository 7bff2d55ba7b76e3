"""A diagnosis with what moves of pods open: planned, carried out on a copy of the cluster, counted again."""

from collections.abc import Sequence
from dataclasses import replace

from planner.defragmentation import consolidate
from planner.domain import Cluster, Qos
from planner.domain.defragmentation import Move
from planner.domain.diagnosis import ChangeKind, ClusterDiagnosis, GpuRequest, RequestDiagnosis, UnlockingChange
from planner.placement.diagnosis import diagnose


def with_moves(diagnosis: ClusterDiagnosis, cluster: Cluster) -> ClusterDiagnosis:
    """The diagnosis of this cluster with a change more a request: the moves that vacate nodes (IPC), a count, no bound.

    InputError: a cluster that contradicts itself.
    """
    requests = tuple(dict.fromkeys(row.request for row in diagnosis.requests))
    moves = consolidate(cluster).moves
    if not moves or not requests:
        return diagnosis
    after = _fits_after(cluster, moves, requests, diagnosis.qos, guaranteed_only=diagnosis.guaranteed_only)
    counts = {"": len(moves)}
    types = {node.name: node.gpu for node in cluster.nodes}
    for move in moves:
        counts[types[move.source]] = counts.get(types[move.source], 0) + 1
    rows = tuple(_row(row, after[row.gpu, row.request], counts.get(row.gpu, 0)) for row in diagnosis.requests)
    return replace(diagnosis, requests=rows)


def _fits_after(
    cluster: Cluster, moves: Sequence[Move], requests: tuple[GpuRequest, ...], qos: Qos, *, guaranteed_only: bool
) -> dict[tuple[str, GpuRequest], int]:
    places = {move.pod: move for move in moves}  # the last move of a pod counts
    pods = tuple(
        replace(pod, node=places[pod.key].target, gpus=places[pod.key].gpu_indices, cores=())
        if pod.key in places
        else pod
        for pod in cluster.pods
    )
    moved = diagnose(replace(cluster, pods=pods), requests=requests, jobs=(), qos=qos, guaranteed_only=guaranteed_only)
    return {(row.gpu, row.request): row.fit for row in moved.requests}


def _row(row: RequestDiagnosis, fit: int, moves: int) -> RequestDiagnosis:
    if fit <= row.fit:
        return row
    change = UnlockingChange(kind=ChangeKind.MOVES, amount=moves, gpus=(fit - row.fit) * row.request.gpus)
    changes = sorted((*row.changes, change), key=lambda c: (c.kind.evicts, -c.gpus, c.at_most, c.amount))
    return replace(row, changes=tuple(changes))
