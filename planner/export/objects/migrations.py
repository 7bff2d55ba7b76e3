"""Pods moved from node to node as a script and as Evictions of policy/v1, step by step: the copy comes up before the
old pod goes.

A copy is the pod's own manifest without its owner, tied to its new node. Where a ReplicaSet owns the pod, the copy gets
the label by which the set counts its pods once it is ready, and the old pod the lowest deletion cost: the set then
gives up the old one, and makes no other. Pods of other owners need a command of the operator's.
Sources: Kubernetes' docs/concepts/workloads/controllers/replicaset (acquisition of pods by label, pod deletion cost),
docs/concepts/scheduling-eviction/api-eviction, assign-pod-node (node affinity, matchFields metadata.name).
"""

import json
import shlex
from collections.abc import Iterator
from itertools import groupby

from planner.domain.defragmentation import Defragmentation, Move, MoveAim
from planner.errors import InputError
from planner.export.objects.names import MAX_DNS_LABEL, is_dns_subdomain, one_line

SCRIPT = "migrate.sh"
FOLDER = "evictions"
_STEM = 48
"""Characters of a pod's name that the name of its copy begins with."""

_BEGIN = r"""#!/usr/bin/env bash
# Moves pods as moves.json lists them. Every copy is ready before the old pod goes; a pod that is not where the plan
# has it is passed over, so that the script may be run again. It needs kubectl and jq.
# TIMEOUT: how long a copy may take to be ready, and an old pod to be gone.
# BRING_UP: a command for pods of other owners than a ReplicaSet. It is called with namespace, pod, node and the name of
# the copy, and has to end once a copy is ready on that node; what it calls the copy is then its own affair.
set -euo pipefail

TIMEOUT=${TIMEOUT:-30m}
BRING_UP=${BRING_UP:-}
running=()

owner_of() { # namespace, pod
  kubectl get pod "$2" --namespace "$1" --output 'jsonpath={.metadata.ownerReferences[0].kind}'
}

copy() { # namespace, pod, node, copy
  if [ -z "$(kubectl get pod "$4" --namespace "$1" --ignore-not-found --output name)" ]; then
    kubectl get pod "$2" --namespace "$1" --output json | jq --arg name "$4" --arg node "$3" '
      {apiVersion, kind,
       metadata: {name: $name, namespace: .metadata.namespace,
                  labels: (.metadata.labels // {} | del(.["pod-template-hash"])),
                  annotations: (.metadata.annotations // {})},
       spec: (.spec | del(.nodeName)
              | .affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms |=
                  (. // [{}] | map(.matchFields = [{key: "metadata.name", operator: "In", values: [$node]}])))}' |
      kubectl create --filename -
  fi
  kubectl wait "pod/$4" --namespace "$1" --for=condition=Ready --timeout="$TIMEOUT"
}

hand_over() { # namespace, pod, copy
  local hash
  hash=$(kubectl get pod "$2" --namespace "$1" --output 'jsonpath={.metadata.labels.pod-template-hash}')
  kubectl annotate pod "$2" --namespace "$1" --overwrite controller.kubernetes.io/pod-deletion-cost=-2147483647
  if [ -n "$hash" ]; then
    kubectl label pod "$3" --namespace "$1" --overwrite "pod-template-hash=$hash"
  fi
}

evict() { # namespace, pod
  if [ -n "$(kubectl get pod "$2" --namespace "$1" --ignore-not-found --output name)" ]; then
    printf '{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "%s", "namespace": "%s"}}' \
      "$2" "$1" | kubectl create --raw "/api/v1/namespaces/$1/pods/$2/eviction" --filename - ||
      [ -z "$(kubectl get pod "$2" --namespace "$1" --ignore-not-found --output name)" ]
    kubectl wait "pod/$2" --namespace "$1" --for=delete --timeout="$TIMEOUT"
  fi
}

move() { # namespace, pod, from, to, copy
  local there owner
  there=$(kubectl get pod "$2" --namespace "$1" --ignore-not-found --output 'jsonpath={.spec.nodeName}')
  if [ "$there" != "$3" ]; then
    echo "$1/$2 is not on $3 any more: passed over"
    return
  fi
  owner=$(owner_of "$1" "$2")
  case "$owner" in
  "") copy "$1" "$2" "$4" "$5" ;;
  ReplicaSet)
    copy "$1" "$2" "$4" "$5"
    hand_over "$1" "$2" "$5"
    ;;
  *)
    if [ -z "$BRING_UP" ]; then
      echo "$1/$2 belongs to a $owner: set BRING_UP to a command that brings up its copy on $4" >&2
      return 1
    fi
    "$BRING_UP" "$1" "$2" "$4" "$5"
    ;;
  esac
  evict "$1" "$2"
}

start() { # a move, beside those that were started already
  move "$@" &
  running+=("$!")
}

finish() { # all that were started; the script ends where one of them failed
  local process failed=0
  for process in "${running[@]}"; do
    wait "$process" || failed=1
  done
  running=()
  [ "$failed" -eq 0 ]
}
"""


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
    return {SCRIPT: "\n".join((_BEGIN, *_commands(plan, names))) + "\n", **evictions}


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


def _commands(plan: Defragmentation, names: Names) -> Iterator[str]:
    """Wave by wave: the nodes of the steps that begin are closed, those of the steps that are over open again."""
    goals = {step.number: step.goal for step in plan.steps} if plan.settings.aim is MoveAim.NODES else {}
    last_move = {step.number: step.last_move for step in plan.steps}
    closed: list[int] = []
    for wave, group in groupby(plan.moves, key=lambda move: move.wave):
        moves = list(group)
        yield from ("", f"# wave {wave}")
        for move in moves:
            if move.step not in closed and move.step in goals:
                closed.append(move.step)
                yield shlex.join(("kubectl", "cordon", goals[move.step]))
            yield f"# {move.order}: step {move.step}, {one_line(plan.steps[move.step - 1].goal)}, {move.gpus} GPUs"
            namespace, pod, copy = names[move.order]
            yield shlex.join(("start", namespace, pod, move.source, move.target, copy))
        yield "finish"
        for number in [number for number in closed if last_move[number] <= moves[-1].order]:
            closed.remove(number)
            yield shlex.join(("kubectl", "uncordon", goals[number]))
