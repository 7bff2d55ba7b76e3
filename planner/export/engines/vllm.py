"""vLLM: GPUs of one copy = tensor parallel x pipeline parallel x data parallel; expert parallel spans tensor and
data parallel and has no flag of its own. A data-parallel rank holds all its stages, side by side.

A group of several pods comes in two forms:
- data parallel: every pod holds whole ranks. The leader balances over all ranks; the others
  run headless from their first rank on. The leader must not be given a start rank: that would switch it to
  another kind of load balancing, which turns headless workers away.
- several pods per rank: the multi-node form (`--nnodes`), which derives every rank itself.

Sources: vLLM's docs/serving/{data_parallel,expert_parallel}_deployment.md and
features/nixl_connector_usage.md; vllm/engine/arg_utils.py and config/parallel.py for the rank arithmetic;
pull request 23691 for the multi-node form; issue 52913 and pull request 45880 for KV transfer from stages; issue 42024
and pull request 35758 for windows beside a connector; docs/design/attention_backends.md for `--attention-backend`;
config/compilation.py for CUDA graphs, config/parallel.py for `--all2all-backend`. The
image has to be at least 0.12: `--all2all-backend` and `--nnodes` are younger than 0.11.0.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from planner.domain import (
    ENGINE_MEMORY_SHARE,
    EngineProfile,
    ParallelConfig,
    Phase,
    ServerConfig,
    halves_of,
)
from planner.errors import ExportError
from planner.export.engines.arguments import FlagValue, flags, read_flags, require_counts, require_plain
from planner.export.engines.confinement import vllm_exemptions
from planner.export.engines.expert_exchange import ExpertExchange, expert_exchange, overlap_notes, overlaps, queue_depth
from planner.export.engines.kv_caches import (
    CONNECTOR,
    UNCHUNKED,
    check_cache_format,
    needs_cache_format,
    own_code_notes,
    stages_fit,
    vllm_addresses,
    vllm_backend,
    vllm_notes,
    vllm_side_channel,
    vllm_transfer,
)
from planner.export.engines.loading import VLLM_REMEDY, check_code, draft_tokens, require_loadable, vllm_faults
from planner.export.engines.seam import HTTP, Engine, Launch, PodCommand, Port, Rendezvous
from planner.export.engines.tiers import pod_needs, vllm_shares, vllm_tier_environment, vllm_tier_notes
from planner.export.engines.vllm_ranks import (
    HTTP_PORT,
    RPC_PORT,
    answering_ports,
    by_rank,
    rank_flags,
    rank_obstacle,
    rank_ports,
)
from planner.export.islands import ServingIsland, nests

NAME = "vllm"
_MASTER_PORT = 29501
_SERVE = ("vllm", "serve")
# $1: the pod's index, $2: data-parallel ranks of a pod, then the command. Nothing is written into the script.
START_RANK_SCRIPT = 'start=$(($1 * $2)); shift 2; exec "$@" --data-parallel-start-rank="$start"'
_HYBRID_CACHE = "no-disable-hybrid-kv-cache-manager"
_CHUNKED_CACHE = "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE"  # else all layers cache all tokens
# What vLLM sends through the expert exchange at a time. As a floor of the decode budget it leaves room to recompute a
# preempted prompt, where a step takes a token a sequence.
_LOW_LATENCY_TOKENS = 256
# Passes of a mixed server go from one token to the whole budget, and the plan prices all of them with CUDA graphs.
_NO_DEEPEP_FOR_BOTH = (
    "vLLM's DeepEP backends suit one phase each, high throughput runs without CUDA graphs and low latency sends "
    f"{_LOW_LATENCY_TOKENS} tokens at a time"
)
_DBO_DECODE_TOKENS = 32  # vLLM's own defaults
_DBO_PREFILL_TOKENS = 512
# what `read_server` reads, and what tells how the pods of a copy share it
_READ_FLAGS = frozenset(
    {f"{name}-parallel-size" for name in ("tensor", "pipeline", "data")}
    | {"data-parallel-size-local", "max-num-seqs", "max-model-len", "enable-expert-parallel", CONNECTOR}
    | {"max-num-batched-tokens", "enable-dbo", "port", UNCHUNKED, "nnodes", "node-rank", "master-addr", "master-port"}
    | {f"data-parallel-{name}" for name in ("start-rank", "address", "rpc-port", "hybrid-lb", "external-lb", "rank")}
    | {"data-parallel-multi-port-external-lb", "data-parallel-supervisor-port", "headless"}
)
_EAGLE = "eagle3"
_SHORT_FLAGS = frozenset(
    {"-tp", "-pp", "-dp", "-ep", "-t", "-e", "-n", "-r"}
    | {f"-dp{letter}" for letter in "laphenrm"}  # -t, -e: cut short
)


def launch(island: ServingIsland, rendezvous: Rendezvous, /) -> Launch:
    """The commands of one copy of the model on `island`.

    Raises:
        ExportError: a model that this version has no code for, ranks that neither fill pods nor are filled by them,
            drafted tokens with pipeline stages, a cache format that the GPUs cannot read, a tier that it cannot have,
            or layers that vLLM cannot split over them.
    """
    profile = island.profile(NAME)
    check_code(island, profile)
    check_cache_format(island, profile)
    exchange = _exchange(island, profile)
    split = overlaps(island, exchange, profile)
    rows = (*_parallel(island, exchange), *_overlap(island, split), *_limits(island), *_drafts(island, profile))
    arguments = (island.weights, *flags(*rows, *vllm_transfer(island)), *_names(island))
    leader, worker = _pods(island, arguments, rendezvous, exchange)
    require_loadable(island, "vLLM", vllm_faults(leader.arguments, island), VLLM_REMEDY)
    return Launch(
        leader=leader,
        worker=worker if island.grouping.pods > 1 else None,
        ports=_ports(island, rendezvous.port_offset),
        health_path="/health",
        notes=(
            *_notes(island, exchange),
            *overlap_notes(island, exchange, profile),
            *_stage_notes(island, profile),
            *_cache_notes(island),
        ),
        needs=pod_needs(island, shares=vllm_shares(island)),
    )


def _names(island: ServingIsland) -> tuple[str, ...]:
    """Several values of one flag are words behind it: a flag that is repeated has its last value alone."""
    return ("--served-model-name", *island.served_names) if island.served_names else ()


def _ports(island: ServingIsland, offset: int) -> tuple[Port, ...]:
    return rank_ports(island, offset) if island.by_rank else (Port(name=HTTP, number=HTTP_PORT + offset),)


def _rank_obstacle(island: ServingIsland, /) -> str:
    return rank_obstacle(island, island.profile(NAME).version)


def _exchange(island: ServingIsland, profile: EngineProfile) -> ExpertExchange | None:
    """The exchange of the island's phase; mixed passes go by all-gather, vLLM's default for any pass."""
    exchange = expert_exchange(island, profile)
    between_ranks = exchange is not None and exchange.deepep and island.parallel.dp > 1
    return replace(exchange, obstacle=_NO_DEEPEP_FOR_BOTH) if exchange and island.mixed and between_ranks else exchange


def _rank_gpus(island: ServingIsland) -> int:
    """GPUs of a data-parallel rank."""
    return island.parallel.tp * island.parallel.pp


def _strided(island: ServingIsland) -> bool:
    return island.parallel.pp > 1 and island.parallel.dp > 1


def _parallel(island: ServingIsland, exchange: ExpertExchange | None) -> list[tuple[str, FlagValue]]:
    tp, dp, pp = island.parallel.tp, island.parallel.dp, island.parallel.pp
    rows: list[tuple[str, FlagValue]] = [("tensor-parallel-size", tp)]
    if pp > 1:
        rows += [("pipeline-parallel-size", pp)]
    if dp > 1:
        rows += [("data-parallel-size", dp)]
    if exchange:
        rows += [("enable-expert-parallel", None)]
        if dp > 1:
            rows += [("all2all-backend", _backend(island, exchange))]
        if _redundant(island, exchange):
            config = json.dumps({"num_redundant_experts": exchange.redundant_experts})
            rows += [("enable-eplb", None), ("eplb-config", config)]
    return rows


def _backend(island: ServingIsland, exchange: ExpertExchange) -> str:
    if not exchange.deepep:
        return "allgather_reducescatter"
    return "deepep_high_throughput" if island.phase is Phase.PREFILL else "deepep_low_latency"


def _redundant(island: ServingIsland, exchange: ExpertExchange) -> bool:
    """DeepEP needs as many experts on every GPU; elsewhere there are redundant ones only where they were asked for."""
    needed = exchange.deepep and island.parallel.dp > 1
    return exchange.redundant_experts > 0 and (exchange.balanced or needed)


def _overlap(island: ServingIsland, split: bool) -> list[tuple[str, FlagValue]]:
    """The thresholds below which steps stay whole come down to the steps that the plan counts on."""
    if not split:
        return []
    rows: list[tuple[str, FlagValue]] = [("enable-dbo", None)]
    if island.phase is Phase.PREFILL:
        low, key, default = island.max_tokens_per_step, "dbo-prefill-token-threshold", _DBO_PREFILL_TOKENS
    else:
        low, key, default = island.decode_tokens, "dbo-decode-token-threshold", _DBO_DECODE_TOKENS
    return rows + ([(key, low)] if low < default else [])


def _drafts(island: ServingIsland, profile: EngineProfile) -> list[tuple[str, FlagValue]]:
    drafted = draft_tokens(island, profile)
    method = (
        {"method": profile.drafts.method} if not island.draft_uri else {"method": _EAGLE, "model": island.draft_uri}
    )
    return [("speculative-config", json.dumps({**method, "num_speculative_tokens": drafted}))] if drafted else []


def _limits(island: ServingIsland) -> list[tuple[str, FlagValue]]:
    rows: list[tuple[str, FlagValue]] = [
        ("max-num-seqs", island.batch_size),
        ("max-num-batched-tokens", island.max_tokens_per_step if island.takes_prompts else _decode_tokens(island)),
        ("max-model-len", island.max_model_len),
        ("gpu-memory-utilization", ENGINE_MEMORY_SHARE),
    ]
    if island.model.kv_bytes == 1:
        rows += [("kv-cache-dtype", "fp8")]
    elif needs_cache_format(island.model):
        rows += [("kv-cache-dtype", "bfloat16")]
    if _windowed(island):
        rows += [(_HYBRID_CACHE, None)]
    if backend := vllm_backend(island):
        rows += [("attention-backend", backend)]
    if _text_alone(island):
        rows += [("language-model-only", None)]
    return rows + ([("trust-remote-code", None)] if island.model.own_code else [])


def _windowed(island: ServingIsland) -> bool:
    """Whether layers keep a window of the cache only, which vLLM's plain manager and its connectors' default ignore;
    without a connector the default heeds it."""
    return not island.mixed and island.model.windowed > 0


def _text_alone(island: ServingIsland) -> bool:
    """Whether what reads images or sound stays out: vLLM would keep room for the largest inputs, which no plan of text
    counts."""
    return island.model.tower_parameters > 0 and not island.images


def _decode_tokens(island: ServingIsland) -> int:
    return max(island.batch_size, island.decode_tokens, _LOW_LATENCY_TOKENS)


def _pods(
    island: ServingIsland, shared: tuple[str, ...], rendezvous: Rendezvous, exchange: ExpertExchange | None
) -> tuple[PodCommand, PodCommand]:
    environment = _environment(island, exchange, rendezvous.port_offset)
    addresses = vllm_addresses(island)
    leader, worker = (
        replace(pod, environment=environment, address_variables=addresses)
        for pod in _commands(island, shared, rendezvous)
    )
    return leader, worker


def _commands(island: ServingIsland, shared: tuple[str, ...], rendezvous: Rendezvous) -> tuple[PodCommand, PodCommand]:
    if island.by_rank:
        return _rank_commands(island, (*shared, *rank_flags(island, rendezvous)), rendezvous)
    offset = rendezvous.port_offset
    front = flags(("port", HTTP_PORT + offset), *_api_servers(island))
    if island.grouping.pods == 1:
        return _pod((*shared, *front)), _pod(shared)
    _check_ranks(island)
    if _rank_gpus(island) > island.grouping.gpus_per_pod:
        nodes = flags(
            ("nnodes", island.grouping.pods),
            ("node-rank", rendezvous.pod_index),
            ("master-addr", rendezvous.leader_address),
            ("master-port", _MASTER_PORT + offset),
        )
        return _pod((*shared, *nodes, *front)), _pod((*shared, *nodes, "--headless"))
    ranks = flags(
        ("data-parallel-size-local", island.local_ranks),
        ("data-parallel-address", rendezvous.leader_address),
        ("data-parallel-rpc-port", RPC_PORT + offset),
    )
    worker = _worker_with_start_rank(island, (*shared, *ranks, "--headless"), rendezvous)
    return _pod((*shared, *ranks, *front)), worker


def _rank_commands(
    island: ServingIsland, shared: tuple[str, ...], rendezvous: Rendezvous
) -> tuple[PodCommand, PodCommand]:
    """Pods of one rank are told its number alike; of several ranks each pod but the first is told where it starts."""
    alike = island.local_ranks == 1
    return _pod(shared), _pod(shared) if alike else _worker_with_start_rank(island, shared, rendezvous)


def _check_ranks(island: ServingIsland) -> None:
    rank, gpus = _rank_gpus(island), island.grouping.gpus_per_pod
    if not nests(rank, gpus):
        raise ExportError(
            f"Island {island.id}, parallel: vLLM needs pods of whole ranks or ranks of whole pods, got {rank} GPUs a "
            f"rank (tp x pp) and {gpus} a pod.",
            hint="Export for sglang, or plan with another cost.max_pipeline_stages.",
        )


def _api_servers(island: ServingIsland) -> list[tuple[str, FlagValue]]:
    """vLLM would start one API server a data-parallel rank, all of them in the leader."""
    return [("api-server-count", island.local_ranks)] if island.parallel.dp > 1 else []


def _worker_with_start_rank(island: ServingIsland, arguments: tuple[str, ...], rendezvous: Rendezvous) -> PodCommand:
    if island.local_ranks == 1:
        return _pod((*arguments, *flags(("data-parallel-start-rank", rendezvous.pod_index))))
    counted = (rendezvous.pod_index, str(island.local_ranks), *_SERVE, *arguments)
    return _pod(counted, command=("sh", "-c", START_RANK_SCRIPT, "vllm"))


def _pod(arguments: tuple[str, ...], command: tuple[str, ...] = _SERVE) -> PodCommand:
    return PodCommand(command=command, arguments=arguments)


def _environment(
    island: ServingIsland, exchange: ExpertExchange | None, port_offset: int
) -> tuple[tuple[str, str], ...]:
    """The queue depth is for DeepEP's low-latency kernels alone, and chunks are cached alone only when asked for."""
    low_latency = exchange and exchange.deepep and island.parallel.dp > 1 and island.phase is Phase.DECODE
    depth = queue_depth(_decode_tokens(island)) if low_latency else None
    chunked = any(kind.chunked for kind in island.model.grouped)
    return (
        *vllm_side_channel(island, port_offset),
        *vllm_tier_environment(island, port_offset),
        *((("NVSHMEM_QP_DEPTH", str(depth)),) if depth else ()),
        *(((_CHUNKED_CACHE, "1"),) if chunked else ()),
    )


def _notes(island: ServingIsland, exchange: ExpertExchange | None) -> tuple[str, ...]:
    if exchange is None:
        return ()
    gathering = exchange.gathering_notes if island.parallel.dp > 1 else ()
    if exchange.obstacle == _NO_DEEPEP_FOR_BOTH and island.grouping.pods > 1:
        gathering += (
            "WARNING: between nodes an all-gather sends every token to all GPUs of the copy, the plan's rates send it "
            "to those of its experts alone.",
        )
    return (*gathering, *(exchange.redundancy_notes if _redundant(island, exchange) else ()))


def _cache_notes(island: ServingIsland) -> tuple[str, ...]:
    notes = list(vllm_notes(island))
    if _windowed(island):
        notes.append(
            "Layers with windows keep their window only by the hybrid cache manager, which vLLM switches off beside a "
            "connector unless told otherwise (issue 42024); an image whose NixlConnector cannot (before pull request "
            "35758) refuses to start."
        )
    if _text_alone(island):
        notes.append(
            "Text alone is planned, and images are refused (--language-model-only); cost.images_per_request plans them."
        )
    return (*notes, *own_code_notes(island), *vllm_tier_notes(island))


def _stage_notes(island: ServingIsland, profile: EngineProfile) -> tuple[str, ...]:
    pp = island.parallel.pp
    if pp == 1:
        return ()
    notes = []
    if not profile.stages_hand_over(island.phase):
        notes.append(
            "WARNING: vLLM's NixlConnector hands no KV cache over from or to pipeline stages (issue 52913): choose an "
            f"image and a connector that do,{' export for sglang,' * stages_fit(island)} or plan with "
            "cost.max_pipeline_stages 1."
        )
    if _strided(island):
        notes.append("vLLM lays a rank's stages side by side: a stage's experts lie on all pods, not on whole hosts.")
    if island.phase is Phase.DECODE:
        notes.append(f"vLLM shares its sequences out over {pp} stages as they come; the plan counts on equal parts.")
    return tuple(notes)


def read_server(arguments: Sequence[str], phase: Phase, /) -> ServerConfig:
    """The degrees as they stand; `--max-num-batched-tokens` is the budget of a rank that takes prompts in."""
    require_plain(arguments, _READ_FLAGS, _SHORT_FLAGS, NAME)
    values = read_flags(arguments)
    prompts = Phase.PREFILL in halves_of(phase)
    budget: dict[str, int | None] = {"max-num-batched-tokens": None} if prompts else {}
    degrees = {f"{name}-parallel-size": 1 for name in ("tensor", "data", "pipeline")}
    counts = require_counts(values, {**degrees, "max-num-seqs": None, **budget}, NAME)
    tp, dp, pp = (counts[name] for name in degrees)
    return ServerConfig(
        parallel=ParallelConfig(tp=tp, dp=dp, pp=pp),
        tokens_per_step=counts.get("max-num-batched-tokens", 0),
        batch_size=counts["max-num-seqs"],
        overlapped="enable-dbo" in values,
    )


VLLM = Engine(
    name=NAME,
    launch=launch,
    read_server=read_server,
    program="vllm serve MODEL",
    http_port=HTTP_PORT,
    drain_flag="shutdown-timeout",  # since 0.18.0; without it requests under way are aborted
    rank_obstacle=_rank_obstacle,
    by_rank=by_rank,
    answering_ports=answering_ports,
    group=0,
    exemptions=vllm_exemptions,
    key_variable="VLLM_API_KEY",
)
