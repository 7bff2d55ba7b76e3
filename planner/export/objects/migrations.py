"""Pods moved from node to node as a script and as Evictions of policy/v1, step by step: the copy comes up before the
old pod goes.

A copy is the pod's own manifest without its owner, tied to its new node. Where a ReplicaSet owns the pod, the copy gets
the label by which the set counts its pods once it is ready, and the old pod the lowest deletion cost: the set then
gives up the old one, and makes no other. Pods of other owners need a command of the operator's.
Sources: Kubernetes' docs/concepts/workloads/controllers/replicaset (acquisition of pods by label, pod deletion cost),
docs/concepts/scheduling-eviction/api-eviction, assign-pod-node (node affinity, matchFields metadata.name).
"""

import json
from collections.abc import Iterator
from itertools import groupby

from planner.domain.defragmentation import Defragmentation, Move, MoveAim
from planner.errors import InputError
from planner.export.objects.names import MAX_DNS_LABEL, is_dns_subdomain
from planner.export.templating import script_of

SCRIPT = "migrate.sh"
FOLDER = "evictions"
_STEM = 48
"""Characters of a pod's name that the name of its copy begins with."""


def migration_files(plan: Defragmentation) -> dict[str, str]:
    """The script and the Evictions of each step; nothing where nothing moves.

    Raises:
        InputError: a pod, its namespace or a node has a name that Kubernetes does not allow.
    """
    if not plan.moves:
        return {}
    names = _names(plan)
    steps = {step.number: step for step in plan.steps}
    width = max(4, len(str(len(steps))))
    evictions = {
        f"{FOLDER}/step-{number:0{width}}.json": _evictions(list(moves), names)
        for number, moves in groupby(plan.moves, key=lambda move: move.step)
    }
    return {SCRIPT: script_of("migrate", lines=list(_lines(plan, names))), **evictions}


Names = dict[int, tuple[str, str, str]]
"""Namespace, present name and name of the copy by the order of a move."""


def _names(plan: Defragmentation) -> Names:
    """What a pod is called by the time of a move: a pod that moved before has the name of its copy."""
    present: dict[str, str] = {}
    names: Names = {}
    for move in plan.moves:
        namespace, _, pod = move.pod.partition("/")
        for field, name in (("pod", pod), ("node", move.source), ("node", move.target)):
            _require_name(move, field, name, is_dns_subdomain(name))
        label = is_dns_subdomain(namespace) and "." not in namespace and len(namespace) <= MAX_DNS_LABEL
        _require_name(move, "namespace", namespace, label)
        copy = f"{pod[:_STEM].rstrip('-.')}-moved-{move.order}"
        names[move.order] = namespace, present.get(move.pod, pod), copy
        present[move.pod] = copy
    return names


def _require_name(move: Move, field: str, name: str, fits: bool) -> None:
    if not fits:
        raise InputError(
            f"Move {move.order}, pod {move.pod!r}: its {field} must be a Kubernetes name to be moved, got {name!r}.",
            hint="Import the cluster from the running one: its names are Kubernetes'.",
        )


def _evictions(moves: list[Move], names: Names) -> str:
    items = [
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": names[move.order][1], "namespace": names[move.order][0]},
        }
        for move in moves
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2) + "\n"


def _lines(plan: Defragmentation, names: Names) -> Iterator[str | tuple[str, ...]]:
    """Comments and commands, wave by wave: the nodes of steps that begin are closed, those of steps that are over open
    again."""
    goals = {step.number: step.goal for step in plan.steps} if plan.settings.aim is MoveAim.NODES else {}
    last_move = {step.number: step.last_move for step in plan.steps}
    closed: list[int] = []
    for wave, group in groupby(plan.moves, key=lambda move: move.wave):
        moves = list(group)
        yield from ("", f"# wave {wave}")
        for move in moves:
            if move.step not in closed and move.step in goals:
                closed.append(move.step)
                yield "kubectl", "cordon", goals[move.step]
            yield f"# {move.order}: step {move.step}, {plan.steps[move.step - 1].goal}, {move.gpus} GPUs"
            namespace, pod, copy = names[move.order]
            yield "start", namespace, pod, move.source, move.target, copy
        yield "finish"
        for number in [number for number in closed if last_move[number] <= moves[-1].order]:
            closed.remove(number)
            yield "kubectl", "uncordon", goals[number]
