#!/usr/bin/env bash
{% for comment in comments %}
# {{ comment | comment }}
{% endfor %}
set -euo pipefail

evict() { # namespace, pod, node
  local there
  there=$(kubectl get pod "$2" --namespace "$1" --ignore-not-found --output 'jsonpath={.spec.nodeName}')
  if [ "$there" != "$3" ]; then
    echo "$1/$2 is not on $3 any more: passed over"
    return
  fi
  printf '{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "%s", "namespace": "%s"}}' \
    "$2" "$1" | kubectl create --raw "/api/v1/namespaces/$1/pods/$2/eviction" --filename -
  echo
}

{% for line in lines %}
{% if line is string %}
{{ line | comment }}
{% else %}
{{ line | words }}
{% endif %}
{% endfor %}
