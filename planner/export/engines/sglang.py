"""SGLang: GPUs of one copy = `--tp-size` x `--pp-size`; `--dp-size` attention groups live inside a stage and do not
multiply GPUs.

So tp-size = tp x dp of the plan, dp-size = dp, and an attention group keeps tp-size / dp-size = tp GPUs. Stages
follow each other over the pods, and share the running requests out evenly.
Request and token budgets are given for the whole engine; with DP attention SGLang divides them by dp-size.
Chunks of prompts ride with the next tokens of answers by `--enable-mixed-chunk` alone, which drafts switch off.

Sources: SGLang's docs/advanced_features/{server_arguments,pd_disaggregation}.md, its LeaderWorkerSet examples
(docs/references/multi_node_deployment/lws_pd), and python/sglang/srt/server_args.py for what divides what.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from planner.domain import ENGINE_MEMORY_SHARE, EngineProfile, ParallelConfig, Phase, ServerConfig, halves_of
from planner.domain.engine.profile import PAGE_SIZE
from planner.domain.serving.programs import version_numbers
from planner.errors import ExportError, InputError
from planner.export.engines.arguments import FlagValue, flags, read_count, read_flags, require_counts, require_plain
from planner.export.engines.confinement import sglang_exemptions
from planner.export.engines.expert_exchange import ExpertExchange, expert_exchange, overlap_notes, overlaps, queue_depth
from planner.export.engines.kv_caches import (
    check_cache_format,
    check_index,
    needs_cache_format,
    own_code_notes,
    sglang_notes,
    spans_generations,
    stages_fit,
)
from planner.export.engines.loading import (
    SGLANG_REMEDY,
    check_code,
    draft_tokens,
    is_unquantised,
    require_loadable,
    sglang_faults,
    upcast_notes,
)
from planner.export.engines.seam import BOOTSTRAP, Engine, Launch, PodCommand, Port, Rendezvous
from planner.export.engines.tiers import (
    BOUNDED_FILES,
    event_rows,
    pod_needs,
    sglang_addresses,
    sglang_rows,
    sglang_tier_environment,
    sglang_tier_notes,
)
from planner.export.islands import ServingIsland
from planner.units import GB

NAME = "sglang"
_HTTP_PORT = 30000
_BOOTSTRAP_PORT = 8998
_BOOTSTRAP_FLAG = "disaggregation-bootstrap-port"
_RENDEZVOUS_PORT = 5000
_COMMAND = ("python3", "-m", "sglang.launch_server")
_EAGLE = "EAGLE3"
_LOW_LATENCY_TOKENS_FLOOR = 128  # SGLang's own default
_MODES = MappingProxyType({Phase.PREFILL: "normal", Phase.DECODE: "low_latency", Phase.MIXED: "auto"})
_MIXED_CHUNK = "enable-mixed-chunk"
GROUP_FLAGS = frozenset({"nnodes", "node-rank", "dist-init-addr"})
"""Flags by which the pods of a copy find each other."""
# what `read_server` reads, and what tells how the pods of a copy share it
_READ_FLAGS = frozenset(
    {"tp-size", "pp-size", "dp-size", "ep-size", "context-length", "enable-dp-attention"}
    | {"max-running-requests", "prefill-max-requests", "disaggregation-mode", "port", _BOOTSTRAP_FLAG}
    | {"chunked-prefill-size", "enable-two-batch-overlap"}
    | GROUP_FLAGS
)
_SHORT_FLAGS = frozenset(
    {f"--{name}-parallel-size" for name in ("tensor", "pipeline", "data", "expert")}
    | {"--tp", "--dp", "--pp", "--ep", "--nccl-init-addr"}
)


def launch(island: ServingIsland, rendezvous: Rendezvous, /) -> Launch:
    """The commands of one copy of the model on `island`; leader and workers differ by their rank alone.

    Raises:
        ExportError: a model that this version has no code for, drafted tokens with pipeline stages, stages that a
            prefill partner has otherwise, a cache format that the GPUs cannot read, a tier that it cannot have, or
            layers that SGLang cannot split over them.
    """
    profile = island.profile(NAME)
    check_code(island, profile)
    check_cache_format(island, profile)
    _check_stages(island, profile)
    check_index(island)
    exchange = expert_exchange(island, profile)
    split = overlaps(island, exchange, profile)
    pod = PodCommand(
        command=_COMMAND,
        arguments=flags(
            ("model-path", island.weights),
            *_shown_name(island),
            ("host", "0.0.0.0"),  # noqa: S104  # the pod's own address, which the Service reaches
            ("port", _HTTP_PORT + rendezvous.port_offset),
            *_parallel(island, exchange, split),
            *_nodes(island, rendezvous),
            *_limits(island),
            *_drafts(island, profile),
            *_transfer(island, rendezvous.port_offset),
            *event_rows(island, switched=False),
            *sglang_rows(island, bounded_files=version_numbers(profile.version) >= BOUNDED_FILES),
            ("enable-metrics", None),  # at /metrics, as vLLM tells them unasked
        ),
        environment=(*_environment(island, exchange), *sglang_tier_environment(island, rendezvous.port_offset)),
        address_variables=sglang_addresses(island),
    )
    require_loadable(island, "SGLang", sglang_faults(pod.arguments, island), SGLANG_REMEDY)
    return Launch(
        leader=pod,
        worker=pod if island.grouping.pods > 1 else None,
        ports=_ports(island, rendezvous.port_offset),
        health_path="/health",
        notes=(
            *(exchange.gathering_notes + exchange.redundancy_notes if exchange else ()),
            *overlap_notes(island, exchange, profile),
            *sglang_notes(island),
            *upcast_notes(island),
            *own_code_notes(island),
            *_chunk_notes(island),
            *sglang_tier_notes(island),
        ),
        needs=pod_needs(island, shares=False),
    )


def _shown_name(island: ServingIsland) -> list[tuple[str, FlagValue]]:
    """SGLang answers to any name (serving_base.py compares none but for adapters), and shows one."""
    return [("served-model-name", island.served_names[:2][-1])] if island.served_names else []


def _check_stages(island: ServingIsland, profile: EngineProfile) -> None:
    if island.phase is Phase.DECODE and profile.stages.decode_alike and not stages_fit(island):
        stages = sorted({other.pp for other in island.partners} - {island.parallel.pp})
        raise ExportError(
            f"Island {island.id}, parallel.pp: must be 1, or that of every prefill island that it takes KV caches "
            f"from, for SGLang, got {island.parallel.pp} beside {', '.join(map(str, stages))}.",
            hint="Plan with cost.max_pipeline_stages 1.",
        )


def _parallel(island: ServingIsland, exchange: ExpertExchange | None, split: bool) -> list[tuple[str, FlagValue]]:
    dp, pp = island.parallel.dp, island.parallel.pp
    rows: list[tuple[str, FlagValue]] = [("tp-size", island.parallel.stage_devices)]
    if pp > 1:
        rows += [("pp-size", pp)]
    if dp > 1:
        # dense layers and the output head stay whole on every rank: their widths need not divide by all GPUs
        rows += [
            ("dp-size", dp),
            ("enable-dp-attention", None),
            ("moe-dense-tp-size", 1),
            ("enable-dp-lm-head", None),
        ]
    if exchange:
        rows += _experts(island, exchange)
    return rows + ([("enable-two-batch-overlap", None)] if split else [])


def _experts(island: ServingIsland, exchange: ExpertExchange) -> list[tuple[str, FlagValue]]:
    rows: list[tuple[str, FlagValue]] = [("ep-size", island.parallel.stage_devices)]
    if exchange.deepep:
        rows += [("moe-a2a-backend", "deepep"), ("deepep-mode", _MODES[island.phase])]
        if is_unquantised(island.model):
            rows += [("moe-runner-backend", "deep_gemm")]
    else:
        rows += [("moe-a2a-backend", "none")]
    if exchange.redundant_experts:
        rows += [("ep-num-redundant-experts", exchange.redundant_experts)]
    return rows + ([("enable-eplb", None)] if exchange.balanced else [])


def _nodes(island: ServingIsland, rendezvous: Rendezvous) -> list[tuple[str, FlagValue]]:
    if island.grouping.pods == 1:
        return []
    return [
        ("nnodes", island.grouping.pods),
        ("node-rank", rendezvous.pod_index),
        ("dist-init-addr", f"{rendezvous.leader_address}:{_RENDEZVOUS_PORT + rendezvous.port_offset}"),
    ]


def _limits(island: ServingIsland) -> list[tuple[str, FlagValue]]:
    dp = island.parallel.dp
    rows: list[tuple[str, FlagValue]] = [
        ("context-length", island.max_model_len),
        ("mem-fraction-static", _static_share(island)),
    ]
    if island.takes_prompts:
        rows += [
            ("chunked-prefill-size", island.max_tokens_per_step * dp),
            ("max-prefill-tokens", island.max_tokens_per_step),
        ]
    if island.phase is Phase.PREFILL:
        # a cap on running requests would also hold back prompts whose KV is still being sent
        rows += [("prefill-max-requests", island.batch_size)]
    else:
        rows += [("max-running-requests", island.batch_size * dp)]
    if dp > 1 and island.phase is not Phase.PREFILL:
        # in turn otherwise; a prefill rank is that of the request's room, by which its decode rank looks for it
        rows += [("load-balance-method", "total_tokens")]
    if island.mixed and not island.draft_tokens:
        rows += [(_MIXED_CHUNK, None)]
    if island.mixed and island.model.stateful:
        # unasked, states would take half of the memory that the weights leave
        rows += [("max-mamba-cache-size", island.batch_size * dp * island.model.kept_states)]
    if island.model.kv_bytes == 1:
        rows += [("kv-cache-dtype", "fp8_e4m3")]
    elif needs_cache_format(island.model):
        rows += [("kv-cache-dtype", "bfloat16")]
    if spans_generations(island):
        rows += [("page-size", PAGE_SIZE)]
    return rows + ([("trust-remote-code", None)] if island.model.own_code else [])


def _static_share(island: ServingIsland) -> float:
    """SGLang's share is of weights and cache alone: a step's buffers, which vLLM takes from its share, come off it."""
    tokens = island.max_tokens_per_step if island.takes_prompts else island.decode_tokens
    buffers_gb = tokens * island.model.buffer_bytes_per_token(island.parallel.tp) / GB
    return math.ceil((ENGINE_MEMORY_SHARE - buffers_gb / island.gpu.device_gb) * 1000) / 1000


def _chunk_notes(island: ServingIsland) -> tuple[str, ...]:
    if not island.mixed or not island.draft_tokens:
        return ()
    return (
        "WARNING: the plan lets half of the chunks of prompts ride with the next tokens of answers; SGLang takes all "
        "of them in apart while it drafts tokens.",
    )


def _drafts(island: ServingIsland, profile: EngineProfile) -> list[tuple[str, FlagValue]]:
    """A chain of drafts from the model's own layers, or from a draft's; the verified token comes on top."""
    drafted = draft_tokens(island, profile)
    if not drafted:
        return []
    eagle: list[tuple[str, FlagValue]] = [("speculative-draft-model-path", island.draft_uri)]
    return [
        ("speculative-algorithm", _EAGLE if island.draft_uri else profile.drafts.method),
        *(eagle if island.draft_uri else []),
        ("speculative-num-steps", drafted),
        ("speculative-eagle-topk", 1),
        ("speculative-num-draft-tokens", drafted + 1),
    ]


def _transfer(island: ServingIsland, port_offset: int) -> list[tuple[str, FlagValue]]:
    if island.mixed:
        return []
    rows: list[tuple[str, FlagValue]] = [
        ("disaggregation-mode", island.phase.value),
        ("disaggregation-transfer-backend", "nixl"),
    ]
    if island.phase is Phase.PREFILL:
        rows += [(_BOOTSTRAP_FLAG, _BOOTSTRAP_PORT + port_offset)]
    return rows


def _environment(island: ServingIsland, exchange: ExpertExchange | None) -> tuple[tuple[str, str], ...]:
    if exchange is None or not exchange.deepep or island.phase is Phase.PREFILL:
        return ()
    tokens = max(island.decode_tokens, _LOW_LATENCY_TOKENS_FLOOR)
    rows = [("SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK", str(tokens))]
    depth = queue_depth(tokens)
    return tuple(rows + ([("NVSHMEM_QP_DEPTH", str(depth))] if depth else []))


def _ports(island: ServingIsland, port_offset: int) -> tuple[Port, ...]:
    http = Port(name="http", number=_HTTP_PORT + port_offset)
    if island.phase is not Phase.PREFILL:
        return (http,)
    return (http, Port(name=BOOTSTRAP, number=_BOOTSTRAP_PORT + port_offset))


def read_server(arguments: Sequence[str], phase: Phase, /) -> ServerConfig:
    """Attention groups share the stage's GPUs, its prefill budget and its running requests."""
    require_plain(arguments, _READ_FLAGS, _SHORT_FLAGS, NAME)
    values = read_flags(arguments)
    budget = ["chunked-prefill-size"] if Phase.PREFILL in halves_of(phase) else []
    own_flags, running = (["prefill-max-requests"], []) if phase is Phase.PREFILL else ([], ["max-running-requests"])
    degrees = {"tp-size": 1, "dp-size": 1, "pp-size": 1}
    counts = require_counts(values, degrees | dict.fromkeys([*budget, *running, *own_flags]), NAME)
    groups = counts["dp-size"]
    _require_groups(values, {name: counts[name] for name in ("tp-size", *budget, *running)}, groups)
    return ServerConfig(
        parallel=ParallelConfig(tp=counts["tp-size"] // groups, dp=groups, pp=counts["pp-size"]),
        tokens_per_step=sum(counts[name] // groups for name in budget),
        batch_size=counts[own_flags[0]] if own_flags else counts[running[0]] // groups,
        overlapped="enable-two-batch-overlap" in values,
    )


def _require_groups(values: Mapping[str, str], shared: Mapping[str, int], groups: int) -> None:
    """Raises InputError where attention groups take GPUs of their own, or do not share out what is theirs together."""
    if groups > 1 and "enable-dp-attention" not in values:
        raise InputError(
            f"Command line of {NAME}: --enable-dp-attention must be there: else {groups} groups are servers each.",
            hint="Add it, or read each server's own command line.",
        )
    for name, count in shared.items():
        if count % groups:
            raise InputError(
                f"Command line of {NAME}: --{name} must share out over {groups} attention groups, got {count}.",
                hint="Give a multiple of --dp-size.",
            )


def _rank_obstacle(_: ServingIsland, /) -> str:
    """From 0.5.20 on an experimental server has ports by rank; but by default none, and no metrics by rank."""
    return "SGLang has ports by rank only in an experimental server without metrics by rank (from 0.5.20, issue 23206)"


def _answering_ports(arguments: Sequence[str], /) -> tuple[int, ...]:
    values = read_flags(arguments)
    return (read_count(values, "port", _HTTP_PORT),)


SGLANG = Engine(
    name=NAME,
    launch=launch,
    read_server=read_server,
    program="python3 -m sglang.launch_server",
    http_port=_HTTP_PORT,
    rank_obstacle=_rank_obstacle,
    answering_ports=_answering_ports,
    exemptions=sglang_exemptions,
    key_variable="SGLANG_API_KEY",  # a name of ours: the flag alone is read
    key_arguments=("--api-key=$(SGLANG_API_KEY)",),
)
