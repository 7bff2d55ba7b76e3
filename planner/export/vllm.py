"""vLLM: GPUs of one copy = tensor parallel x data parallel; expert parallel spans both and has no flag of its
own.

A group of several pods comes in two forms:
- data parallel: every pod holds whole tensor-parallel groups. The leader balances over all ranks; the others
  run headless from their first rank on. The leader must not be given a start rank: that would switch it to
  another kind of load balancing, which turns headless workers away.
- several pods per tensor-parallel group: the multi-node form (`--nnodes`), which derives every rank itself.

Sources: vLLM's docs/serving/{data_parallel,expert_parallel}_deployment.md and
features/nixl_connector_usage.md; vllm/engine/arg_utils.py and config/parallel.py for the rank arithmetic;
pull request 23691 for the multi-node form. The image has to be at least 0.12: `--all2all-backend` and
`--nnodes` are younger than 0.11.0.
"""

import json
from collections.abc import Sequence
from types import MappingProxyType

from planner.domain import Phase
from planner.export.arguments import FlagValue, flags, read_count, read_flags
from planner.export.expert_exchange import ExpertExchange, expert_exchange, queue_depth
from planner.export.islands import ServingIsland
from planner.export.seams import DeclaredShape, Engine, Launch, PodCommand, Port, Rendezvous

_HTTP_PORT = 8000
_RPC_PORT = 13345
_MASTER_PORT = 29501
_SIDE_CHANNEL_PORT = 5600
_SERVE = ("vllm", "serve")
# $1: the pod's index, $2: data-parallel ranks of a pod, then the command. Nothing is written into the script.
START_RANK_SCRIPT = 'start=$(($1 * $2)); shift 2; exec "$@" --data-parallel-start-rank="$start"'
# A decode step takes a token a sequence; the floor leaves room to recompute a preempted prompt, and is what
# vLLM itself sends through the expert exchange at a time.
_DECODE_TOKENS_FLOOR = 256


def launch(island: ServingIsland, rendezvous: Rendezvous, /) -> Launch:
    """The commands of one copy of the model on `island`."""
    exchange = expert_exchange(island)
    shared = (island.weights, *flags(*_parallel(island, exchange), *_limits(island), *_transfer(island)))
    leader, worker = _pods(island, shared, rendezvous)
    return Launch(
        leader=leader,
        worker=worker if island.grouping.pods > 1 else None,
        ports=(Port(name="http", number=_HTTP_PORT),),
        health_path="/health",
        notes=_notes(island, exchange),
    )


def _parallel(island: ServingIsland, exchange: ExpertExchange) -> list[tuple[str, FlagValue]]:
    tp, dp = island.parallel.tp, island.parallel.dp
    rows: list[tuple[str, FlagValue]] = [("tensor-parallel-size", tp)]
    if dp > 1:
        rows += [("data-parallel-size", dp)]
    if tp * dp > 1:
        rows += [("enable-expert-parallel", None)]
    if dp > 1:
        rows += [("all2all-backend", _backend(island, exchange)), *_redundancy(exchange)]
    return rows


def _backend(island: ServingIsland, exchange: ExpertExchange) -> str:
    if not exchange.deepep:
        return "allgather_reducescatter"
    return "deepep_high_throughput" if island.phase is Phase.PREFILL else "deepep_low_latency"


def _redundancy(exchange: ExpertExchange) -> list[tuple[str, FlagValue]]:
    if not (exchange.deepep and exchange.redundant_experts):
        return []
    config = json.dumps({"num_redundant_experts": exchange.redundant_experts})
    return [("enable-eplb", None), ("eplb-config", config)]


def _limits(island: ServingIsland) -> list[tuple[str, FlagValue]]:
    prefill = island.phase is Phase.PREFILL
    rows: list[tuple[str, FlagValue]] = [
        ("max-num-seqs", island.batch_size),
        ("max-num-batched-tokens", island.max_tokens_per_step if prefill else _decode_tokens(island)),
        ("max-model-len", island.max_model_len),
        ("gpu-memory-utilization", 0.9),
    ]
    return rows + ([("kv-cache-dtype", "fp8")] if island.model.kv_bytes == 1 else [])


def _decode_tokens(island: ServingIsland) -> int:
    return max(island.batch_size, _DECODE_TOKENS_FLOOR)


def _transfer(island: ServingIsland) -> list[tuple[str, FlagValue]]:
    role = "kv_producer" if island.phase is Phase.PREFILL else "kv_consumer"
    return [("kv-transfer-config", json.dumps({"kv_connector": "NixlConnector", "kv_role": role}))]


def _pods(island: ServingIsland, shared: tuple[str, ...], rendezvous: Rendezvous) -> tuple[PodCommand, PodCommand]:
    front = flags(("port", _HTTP_PORT), *_api_servers(island))
    if island.grouping.pods == 1:
        return _pod(island, (*shared, *front)), _pod(island, shared)
    if island.parallel.tp > island.grouping.gpus_per_pod:
        nodes = flags(
            ("nnodes", island.grouping.pods),
            ("node-rank", rendezvous.pod_index),
            ("master-addr", rendezvous.leader_address),
            ("master-port", _MASTER_PORT),
        )
        return _pod(island, (*shared, *nodes, *front)), _pod(island, (*shared, *nodes, "--headless"))
    ranks = flags(
        ("data-parallel-size-local", _local_ranks(island)),
        ("data-parallel-address", rendezvous.leader_address),
        ("data-parallel-rpc-port", _RPC_PORT),
    )
    worker = _worker_with_start_rank(island, (*shared, *ranks, "--headless"), rendezvous)
    return _pod(island, (*shared, *ranks, *front)), worker


def _local_ranks(island: ServingIsland) -> int:
    return max(1, island.grouping.gpus_per_pod // island.parallel.tp)


def _api_servers(island: ServingIsland) -> list[tuple[str, FlagValue]]:
    """vLLM would start one API server a data-parallel rank, all of them in the leader."""
    return [("api-server-count", _local_ranks(island))] if island.parallel.dp > 1 else []


def _worker_with_start_rank(island: ServingIsland, arguments: tuple[str, ...], rendezvous: Rendezvous) -> PodCommand:
    if _local_ranks(island) == 1:
        return _pod(island, (*arguments, *flags(("data-parallel-start-rank", rendezvous.pod_index))))
    counted = (rendezvous.pod_index, str(_local_ranks(island)), *_SERVE, *arguments)
    return _pod(island, counted, command=("sh", "-c", START_RANK_SCRIPT, "vllm"))


def _pod(island: ServingIsland, arguments: tuple[str, ...], command: tuple[str, ...] = _SERVE) -> PodCommand:
    return PodCommand(
        command=command,
        arguments=arguments,
        environment=_environment(island),
        address_variables=("VLLM_NIXL_SIDE_CHANNEL_HOST",),
    )


def _environment(island: ServingIsland) -> tuple[tuple[str, str], ...]:
    rows = [("VLLM_NIXL_SIDE_CHANNEL_PORT", str(_SIDE_CHANNEL_PORT))]
    depth = queue_depth(_decode_tokens(island)) if island.phase is Phase.DECODE else None
    return tuple(rows + ([("NVSHMEM_QP_DEPTH", str(depth))] if depth else []))


def _notes(island: ServingIsland, exchange: ExpertExchange) -> tuple[str, ...]:
    if island.parallel.dp == 1:
        return ()
    if not exchange.deepep:
        return (f"Experts exchange tokens by all-gather: {exchange.obstacle}.",)
    if exchange.redundant_experts:
        return (f"{exchange.redundant_experts} redundant experts give every GPU the same number.",)
    return ()


def read_shape(arguments: Sequence[str], /) -> DeclaredShape:
    """TP x DP GPUs; pods from `--nnodes`, or from the ranks of a pod."""
    values = read_flags(arguments)
    dp = read_count(values, "data-parallel-size", 1)
    local = read_count(values, "data-parallel-size-local", dp)
    ranks_fit = local > 0 and dp % local == 0
    pods = read_count(values, "nnodes", dp // local if ranks_fit else 0)
    return DeclaredShape(gpus=read_count(values, "tensor-parallel-size", 1) * dp, pods=pods)


VLLM = Engine(
    name="vllm",
    images=MappingProxyType({"NVIDIA": "vllm/vllm-openai:v0.18.0"}),
    launch=launch,
    read_shape=read_shape,
)
