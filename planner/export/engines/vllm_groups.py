"""vLLM's command lines as they are found: the program, and how the pods of a copy find each other.

form                   leader                               workers
data parallel          -address, -rpc-port; no start rank   the same, --headless, --data-parallel-start-rank =
(--data-parallel-...)  (another kind of load balancing)     the pod's number x ranks of a pod
ranks of several pods  --nnodes --node-rank --master-addr   the same, --headless
                       --master-port

Sources: as `vllm`; vllm/engine/arg_utils.py for short names and defaults (EngineArgs, ParallelConfig).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from planner.export.engines.arguments import read_count, read_flags
from planner.export.engines.groups import (
    FoundGroup,
    LineFault,
    address_faults,
    alike_faults,
    left_out,
    number_faults,
    own_address_faults,
    port_faults,
    program_arguments,
    without_environment,
)

# $1: the pod's index, $2: data-parallel ranks of a pod, then the command. Nothing is written into the script.
START_RANK_SCRIPT = 'start=$(($1 * $2)); shift 2; exec "$@" --data-parallel-start-rank="$start"'
HEADLESS = "headless"
HYBRID_CACHE = "no-disable-hybrid-kv-cache-manager"
_SERVE = ("vllm", "serve")
_PROGRAMS = (_SERVE, ("python3", "-m", "vllm.entrypoints.openai.api_server"))
_SCRIPT_WORDS = 6  # sh -c SCRIPT NAME INDEX RANKS
_SHELLS = frozenset({"sh", "bash"})
_RPC_PORT, _MASTER_PORT = 29550, 29501  # vLLM's defaults
_START_RANK = "data-parallel-start-rank"
_FRONT_ENDS = "api-server-count"
_ADDRESSES = ("data-parallel-address", "master-addr")
# each pod takes requests by itself: what no Service here is made for
_OTHER_BALANCING = frozenset(
    f"data-parallel-{name}" for name in ("hybrid-lb", "external-lb", "multi-port-external-lb", "rank")
)
_OF_NODES = frozenset({"nnodes", "node-rank", "master-addr", "master-port"})
_OF_RANKS = frozenset({_START_RANK, "data-parallel-address", "data-parallel-rpc-port"})
GROUP_FLAGS = _OF_NODES | _OF_RANKS | _OTHER_BALANCING | {HEADLESS}
"""Flags by which the pods of a copy find each other."""
# what all ranks of an engine have to agree in, of what the planner writes
_ALIKE = frozenset(
    {"all2all-backend", "enable-dbo", "enable-eplb", "eplb-config", "kv-cache-dtype", "max-num-batched-tokens"}
    | {"attention-backend", HYBRID_CACHE, "speculative-config", "trust-remote-code"}
)


def read_program(words: Sequence[str], /) -> tuple[str, ...] | None:
    """The words behind vLLM's program, of a line that may count its start rank first; None where it is no vLLM."""
    return program_arguments(_unwrapped(words)[1], _PROGRAMS)


def _unwrapped(words: Sequence[str]) -> tuple[tuple[str, str] | None, tuple[str, ...]]:
    """The pod's number and its ranks, where START_RANK_SCRIPT counts with them; and the line that it starts."""
    line = without_environment(words)
    counts = len(line) > _SCRIPT_WORDS and line[1:3] == ("-c", START_RANK_SCRIPT)
    if counts and PurePosixPath(line[0]).name in _SHELLS:
        return (line[4], line[5]), line[_SCRIPT_WORDS:]
    return None, line


def check_group(group: FoundGroup, /) -> Iterator[LineFault]:
    """The lines of one copy against each other."""
    leader = read_flags(group.leader)
    model = _model(group.leader)
    if not model:
        yield LineFault(leads=True, expected="must name the model to serve", got="none")
    if group.worker is None:
        yield from _alone_faults(group, leader)
        return
    worker = read_flags(group.worker)
    if (came := _model(group.worker)) != model:
        yield LineFault(leads=False, expected=f"the model of the workers must be the leader's, {model}", got=came)
    yield from _balancing_faults(group, leader, worker)
    if "nnodes" in leader:
        yield from number_faults("node-rank", leader, worker, group)
        yield from address_faults("master-addr", leader, worker, group)
        yield from port_faults("master-port", leader, worker, _MASTER_PORT)
        for values, leads in ((leader, True), (worker, False)):
            yield from left_out(values, _OF_RANKS, " beside --nnodes, which counts ranks itself", leads=leads)
    else:
        yield from address_faults("data-parallel-address", leader, worker, group)
        yield from port_faults("data-parallel-rpc-port", leader, worker, _RPC_PORT)
        yield from _start_rank_faults(group, worker)
        for values, leads in ((leader, True), (worker, False)):
            yield from left_out(values, _OF_NODES, " without --nnodes in both", leads=leads)
    yield from alike_faults(_ALIKE, leader, worker)


def _model(words: Sequence[str]) -> str:
    """What the line serves: the word behind the program, or the flag's."""
    behind = read_program(words) or ("",)
    return behind[0] if behind and not behind[0].startswith("-") and behind[0] else read_flags(words).get("model", "")


def _alone_faults(group: FoundGroup, leader: Mapping[str, str]) -> Iterator[LineFault]:
    names = _OTHER_BALANCING | {HEADLESS, _START_RANK}
    yield from left_out(leader, names, " of a copy of one pod, which nobody else serves for", leads=True)
    yield from own_address_faults(leader, _ADDRESSES)
    if leader.get("node-rank", "0") not in group.numbers(leads=True):
        yield LineFault(
            leads=True, expected="--node-rank must be left out of a copy of one pod", got=leader["node-rank"]
        )
    if _unwrapped(group.leader)[0]:
        rule = "the command must count no start rank: a copy of one pod has none"
        yield LineFault(leads=True, expected=rule, got=START_RANK_SCRIPT)


def _balancing_faults(group: FoundGroup, leader: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[LineFault]:
    """The leader takes requests for all pods, and no worker does."""
    why = ": the leader balances over all ranks"
    yield from left_out(leader, _OTHER_BALANCING | {HEADLESS}, why, leads=True)
    yield from left_out(worker, _OTHER_BALANCING, why, leads=False)
    if worker.get(HEADLESS) != "":
        rule = "--headless must be there in the workers: the leader alone takes requests"
        yield LineFault(leads=False, expected=rule, got=worker.get(HEADLESS, "none"))
    if worker.get(_FRONT_ENDS, "0") != "0":
        yield from left_out(worker, {_FRONT_ENDS}, " beside --headless, with which vLLM does not start", leads=False)
    if _START_RANK in leader or _unwrapped(group.leader)[0]:
        rule = f"--{_START_RANK} must be left out of the leader: with it vLLM turns headless workers away"
        yield LineFault(leads=True, expected=rule, got=leader.get(_START_RANK, START_RANK_SCRIPT))


def _start_rank_faults(group: FoundGroup, worker: Mapping[str, str]) -> Iterator[LineFault]:
    """A worker's first rank is its number x the ranks of a pod; a script has to multiply, where that is not 1."""
    assert group.worker is not None
    local = read_count(worker, "data-parallel-size-local", 1)
    counted, _ = _unwrapped(group.worker)
    numbers = group.numbers(leads=False)
    expected = f"--{_START_RANK} of the workers must be the pod's first rank, {group.pod_index} x {local}"
    if counted is not None:
        if counted[0] not in numbers or counted[1] != str(local) or _START_RANK in worker:
            came = " and ".join([" x ".join(counted), *([worker[_START_RANK]] if _START_RANK in worker else [])])
            yield LineFault(leads=False, expected=expected, got=came)
        return
    fitting = numbers if local == 1 else tuple(str(int(number) * local) for number in numbers[1:])
    if worker.get(_START_RANK, "") not in fitting:
        yield LineFault(leads=False, expected=expected, got=worker.get(_START_RANK, "none"))
