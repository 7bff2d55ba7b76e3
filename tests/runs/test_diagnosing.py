"""What planned moves open: no more than the bound, and what the replayed cluster shows."""

import pytest

from planner.defragmentation import consolidate
from planner.domain.diagnosis import ChangeKind, GpuRequest
from planner.placement import Fit, TaskMix, synthesize
from planner.placement.diagnosis import diagnose
from planner.runs.defragmenting import with_moves

REQUESTS = tuple(map(GpuRequest.parse, ("4G32C", "8G64C", "8G128C")))


@pytest.mark.parametrize("seed", range(4))
def test_moves_open_no_more_than_the_bound(seed: int) -> None:
    fit = Fit.BEST if seed % 2 else Fit.RANDOM
    cluster = synthesize(48, seed, 0.8, fit=fit, mix=TaskMix(filled=1.0))
    diagnosis = with_moves(diagnose(cluster, requests=REQUESTS, jobs=()), cluster)
    opened = 0
    for row in diagnosis.requests:
        changes = {change.kind: change for change in row.changes}
        if ChangeKind.MOVES in changes:
            moves = changes[ChangeKind.MOVES]
            opened += moves.gpus
            assert not moves.at_most
            assert moves.gpus <= changes[ChangeKind.CONSOLIDATION].gpus
    assert opened > 0
    eight = next(row for row in diagnosis.requests if not row.gpu and row.request.name == "8G64C")
    plan = consolidate(cluster)
    gained = next(change.gpus for change in eight.changes if change.kind is ChangeKind.MOVES)
    assert gained == 8 * len(plan.vacated)  # every vacated node takes one request of eight, and no other does


def test_nothing_to_move_changes_nothing() -> None:
    cluster = synthesize(6, 0, 0.0)
    diagnosis = diagnose(cluster, requests=REQUESTS, jobs=())
    assert with_moves(diagnosis, cluster) == diagnosis
