#!/usr/bin/env bash
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
{% for line in lines %}
{% if line is string %}
{{ line | comment }}
{% else %}
{{ line | words }}
{% endif %}
{% endfor %}
