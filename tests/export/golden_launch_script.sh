#!/usr/bin/env bash
# shellcheck disable=SC2016,SC2034
# Island H20-1 of plan mixed-fleet: decode on H20.
# 1 group x 1 pod x 8 GPUs = 8 H20.
# vllm, a group: tensor parallel 8 x data parallel 1, experts over 8 GPUs, batch 16, 6095 tokens of context at most.
# Takes 0.5 of 2 length ranges, 0 to 4095 tokens: 12.5 requests/s, busy 75% of the time.
# WARNING: the plan's rates hide the experts' communication, the engine does not: it splits the steps of data-parallel ranks, and here is one.
# Here a pod is a process with 8 GPUs of a host with H20, nvidia.com/gpu.product=NVIDIA-H20.
# Flags are those of the engine in vllm/vllm-openai:v0.33.0.
# Start it for every copy and rank, rank 0 (the leader) too: 03-h20-1.sh COPY RANK LEADER_ADDRESS OWN_ADDRESS
# copy 0: ranks 0 to 0; the leader listens on http 8000
set -euo pipefail

name=mixed-fleet-h20-1
image=vllm/vllm-openai:v0.33.0
copies=1
ranks=1
gpus=8
devices=CUDA_VISIBLE_DEVICES
whole_hosts=yes
labels=(
  app.kubernetes.io/name=vllm
  app.kubernetes.io/part-of=mixed-fleet
  app.kubernetes.io/component=decode
  app.kubernetes.io/managed-by=planner
  planner/island=h20-1
  planner/phase=decode
  planner/gpu=H20
)
annotations=(
  planner/plan=mixed-fleet
  planner/model=deepseek-v3
  planner/target=script
  planner/island-id=H20-1
  planner/gpu-type=H20
  planner/size=8
  planner/tp=8
  planner/dp=1
  planner/pp=1
  planner/replicas=1
  planner/batch-size=16
  planner/longest-prompt=4095
  planner/rate-rps=12.5
  planner/utilisation=0.75
  planner/price-usd-per-hour=10.0
)
hosts=(
  nvidia.com/gpu.product=NVIDIA-H20
)
pins=(
)

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
  *:leader)
    command=(
      env
      VLLM_NIXL_SIDE_CHANNEL_PORT=5600
      VLLM_NIXL_SIDE_CHANNEL_HOST="$own_address"
      vllm
      serve
      deepseek-ai/DeepSeek-V3
      --tensor-parallel-size=8
      --enable-expert-parallel
      --max-num-seqs=16
      --max-num-batched-tokens=256
      --max-model-len=6095
      --gpu-memory-utilization=0.9
      --kv-cache-dtype=fp8
      '--kv-transfer-config={"kv_connector": "NixlConnector", "kv_role": "kv_consumer", "kv_load_failure_policy": "fail"}'
      --port=8000
    )
    ;;
esac
exec "${command[@]}"
