#!/usr/bin/env bash
# shellcheck disable=SC2016,SC2034
{% for comment in comments %}
# {{ comment | comment }}
{% endfor %}
{% for directive in directives %}
#SBATCH {{ directive | comment }}
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

say() {
  printf '%s: %s\n' "$name" "$1"
}
fail() {
  say "$1" >&2
  exit 2
}

# What every task of a copy runs: its rank follows from its host, its GPUs from its number there.
as_rank() {
  local script=$1 copy=$2 per_host=$3 gpus=$4 vendor=$5 at=0 host variable visible
  shift 5
  for host in "$@"; do
    if [[ $host == "$SLURMD_NODENAME" ]]; then
      break
    fi
    at=$((at + 1))
  done
  if [[ $vendor == AMD ]]; then
    unset CUDA_VISIBLE_DEVICES
    if [[ -n ${ROCR_VISIBLE_DEVICES:-} ]]; then
      visible=${ROCR_VISIBLE_DEVICES//[!,]/}
      HIP_VISIBLE_DEVICES=$(seq -s , 0 "${#visible}")
    fi
  fi
  for variable in CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES; do
    if [[ -n ${!variable:-} ]]; then
      visible=$(cut -d , -f "$((SLURM_LOCALID * gpus + 1))-$(((SLURM_LOCALID + 1) * gpus))" <<<"${!variable}")
      export "$variable=$visible"
    fi
  done
  exec bash "$script" "$copy" "$((at * per_host + SLURM_LOCALID))" "$1" "$SLURMD_NODENAME"
}

# Runs a command again whenever it ends, until told to end.
keep() {
  local label=$1 status
  shift
  trap 'trap "" TERM; kill -TERM "$!" 2>/dev/null || :; wait || :; exit 0' TERM
  while :; do
    "$@" &
    status=0
    wait "$!" || status=$?
    say "$label ended with status $status and starts again in $pause s."
    sleep "$pause" &
    wait "$!"
  done
}

stop() {
  trap '' TERM INT
  say 'ends.'
  # Again and again: what was started this moment may miss a signal before it listens, and heeds one alone.
  while ((${#kept[@]})) && kill -TERM "${kept[@]}" 2>/dev/null; do
    sleep 0.5
  done
  wait || :
  rm -rf -- "$state"
}

# The words of a step, all but what it runs: OPTION... of srun, behind COMPONENT, IMAGE, VENDOR and FOLDER.
step() {
  local component=$1 image=$2 vendor=$3 mounted="$4:$4${mounts:+,$mounts}" gpus=--nv
  shift 4
  words=(srun)
  if [[ -n ${SLURM_HET_SIZE:-} ]]; then
    words+=("--het-group=$component")
  fi
  words+=(--mpi=none "$@")
  if [[ $container == pyxis ]]; then
    words+=("--container-image=$image" "--container-mounts=$mounted")
  elif [[ $container == apptainer ]]; then
    if [[ $vendor == AMD ]]; then
      gpus=--rocm
    fi
    words+=(apptainer exec "$gpus" --bind "$mounted" "$image")
  fi
}

start_copy() {
  local component first hosts island script copy per_host gpus gres cpus memory port image vendor pins
  local list host rank ranks
  local -a on words
  read -r component first hosts island script copy per_host gpus gres cpus memory port image vendor pins <<<"$1"
  if [[ $pins != - ]]; then
    IFS=, read -r -a on <<<"$pins"
  else
    list=SLURM_JOB_NODELIST_HET_GROUP_$component
    mapfile -t on < <(scontrol show hostnames "${!list:-$SLURM_JOB_NODELIST}")
    on=("${on[@]:first:hosts}")
  fi
  if ! [[ -r $folder/$script ]]; then
    fail "$script: must be in the folder that sbatch is called from, $folder, and is not."
  fi
  if ((${#on[@]} != hosts)); then
    fail "copy $copy of $island: must have $hosts hosts, got ${#on[@]} of component $component."
  fi
  for host in "${on[@]}"; do
    if ! [[ $host =~ ^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$ ]]; then
      fail "copy $copy of $island: must have a host that a router's files can name, got '$host'."
    fi
  done
  ranks=$((hosts * per_host))
  printf '%s %s\n' "$island-$copy" "${on[0]}" >>"$state/names"
  for ((rank = 1; rank < ranks; rank++)); do
    printf '%s %s\n' "$island-$copy-$rank" "${on[rank / per_host]}" >>"$state/names"
  done
  awaited+=("${on[0]}:$port$health")
  step "$component" "$image" "$vendor" "$folder" --exact --kill-on-bad-exit=1 --wait=60 --open-mode=append \
    "--output=$folder/$island-$copy-$SLURM_JOB_ID.log" "--job-name=$island-$copy" \
    "--nodes=$hosts" "--ntasks=$ranks" "--ntasks-per-node=$per_host" "--nodelist=$(IFS=, && printf '%s' "${on[*]}")" \
    "--cpus-per-task=$cpus" "--mem=$memory" "--gpus-per-node=$gres"
  words+=(bash -c "$(declare -f as_rank)"'; as_rank "$@"' rank "$folder/$script" "$copy" "$per_host" "$gpus" "$vendor")
  keep "copy $copy of $island" "${words[@]}" "${on[@]}" &
  kept+=("$!")
}

# A file of the export with hosts in place of the names before ports.
fill() {
  awk '
    NR == FNR { host[$1] = $2; next }
    {
      line = $0
      text = ""
      while (match(line, /[A-Za-z0-9][A-Za-z0-9.-]*:[0-9]/)) {
        word = substr(line, RSTART, RLENGTH - 2)
        text = text substr(line, 1, RSTART - 1) (word in host ? host[word] : word)
        line = substr(line, RSTART + RLENGTH - 2)
      }
      print text line
    }
  ' "$state/names" "$folder/$1" >"$state/$1"
}

start_program() {
  local program script port path cpus image
  local -a words
  read -r program script port path cpus image <<<"$1"
  awaited+=("$front:$port$path")
  step 0 "$image" none "$state" --overlap --nodes=1 --ntasks=1 "--nodelist=$front" "--cpus-per-task=$cpus" --mem=0 \
    --gpus-per-node=0 --open-mode=append "--output=$folder/$program-$SLURM_JOB_ID.log" "--job-name=$program"
  keep "$program" "${words[@]}" bash "$state/$script" &
  kept+=("$!")
}

# Waits until each of what is awaited has answered once.
wait_for_all() {
  local address
  for address in "${awaited[@]}"; do
    until curl --silent --fail --noproxy '*' --max-time 5 --output /dev/null "http://$address"; do
      sleep "$pause" &
      wait "$!"
    done
    say "http://$address answers."
  done
  awaited=()
}

folder=${SLURM_SUBMIT_DIR:?is set by sbatch, which starts this}
if ! [[ $folder =~ ^/[A-Za-z0-9_./@+-]*$ ]]; then
  fail "the folder: must have a name that srun takes as it is, of letters, digits and _./@+-, got '$folder'."
fi
front=$SLURMD_NODENAME
kept=()
awaited=()
state=$(mktemp -d)
trap 'exit 143' TERM INT
trap stop EXIT
for row in "${copies[@]}"; do
  start_copy "$row"
done
wait_for_all
if ((${#programs[@]})); then
  for row in "${programs[@]}"; do
    printf '%s %s\n' "${row%% *}" "$front" >>"$state/names"
  done
  for row in "${programs[@]}"; do
    read -r _ script _ <<<"$row"
    fill "$script"
  done
  for file in ${filled[@]+"${filled[@]}"}; do
    fill "$file"
  done
  for row in "${programs[@]}"; do
    start_program "$row"
  done
  wait_for_all
  read -r _ _ port _ <<<"${programs[0]}"
  say "Requests are taken at http://$front:$port/v1."
fi
while read -r host; do
  say "${host% *} is on ${host#* }."
done <"$state/names"
wait
