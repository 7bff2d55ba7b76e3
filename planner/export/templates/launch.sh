#!/usr/bin/env bash
# shellcheck disable=SC2016,SC2034
{% for comment in comments %}
# {{ comment | comment }}
{% endfor %}
set -euo pipefail

{% for name, value in settings.items() %}
{{ name }}={{ value }}
{% endfor %}
{% for name, words in lists.items() %}
{{ name }}=(
{% for word in words %}
  {{ word }}
{% endfor %}
)
{% endfor %}

fail() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit 2
}
if (($# != 4)); then
  fail "must be called with COPY RANK LEADER_ADDRESS OWN_ADDRESS, got $# arguments."
fi
copy=$1 rank=$2 leader_address=$3 own_address=$4
if ! [[ $copy =~ ^(0|[1-9][0-9]{0,5})$ ]] || ((copy >= copies)); then
  fail "COPY: must be a number from 0 to $((copies - 1)), got '$copy'."
fi
if ! [[ $rank =~ ^(0|[1-9][0-9]{0,5})$ ]] || ((rank >= ranks)); then
  fail "RANK: must be a number from 0 to $((ranks - 1)), got '$rank'."
fi
for address in "$leader_address" "$own_address"; do
  if ! [[ $address =~ ^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$ ]]; then
    fail "address: must be a host name or an IPv4 address, got '$address'."
  fi
done
if ((rank == 0)) && [[ $leader_address != "$own_address" ]]; then
  fail "OWN_ADDRESS: must be LEADER_ADDRESS for rank 0, got '$own_address'."
fi
visible=${!devices:-}
if [[ -n $visible ]]; then
  commas=${visible//[!,]/}
  if ((${#commas} + 1 != gpus)); then
    fail "$devices: must list $gpus GPUs, got '$visible'."
  fi
elif [[ $whole_hosts == no ]]; then
  fail "$devices: must list the $gpus GPUs of this copy, as a host has more; it is not set."
fi
for pin in ${pins[@]+"${pins[@]}"}; do
  if [[ $pin == "$copy:$rank="* && $(uname -n) != "${pin#*=}" ]]; then
    fail "this host: must be ${pin#*=}, where copy $copy, rank $rank is placed, is $(uname -n)."
  fi
done
role=worker
if ((rank == 0)); then
  role=leader
fi
case "$copy:$role" in
{% for branch, words in commands.items() %}
  {{ branch | comment }})
    command=(
{% for word in words %}
      {{ word }}
{% endfor %}
    )
    ;;
{% endfor %}
esac
exec "${command[@]}"
