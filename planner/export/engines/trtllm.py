"""TensorRT-LLM (`trtllm-serve`): GPUs of one copy = tensor parallel x pipeline parallel; with attention DP each GPU of
a stage is an attention group of its own (`groups_of_one` of its profile), which multiplies no GPUs.

So tensor_parallel_size = tp x dp of the plan, and `enable_attention_dp` says whether dp or tp is that. Batch and token
budget are an attention group's. What the command line cannot say stands in `trtllm_options`.

Ranks of several nodes are started by MPI, which no pod does by itself: where the target's own operator does (Dynamo's),
servers span pods, else they are refused. Context and generation servers are started alike, but for the scheduler that
overlaps steps; `trtllm-serve disaggregated` makes pairs of them.

Sources: NVIDIA/TensorRT-LLM, tensorrt_llm/commands/serve.py (of the 1.2 line, and its contract of 2026 in
tests/unittest/api_stability/references/trtllm_serve_cli.yaml) and tensorrt_llm/serve/openai_server.py (/health, any
model's name is taken); docs/source/features/disagg-serving.md.
"""

from collections.abc import Sequence

from planner.domain import ParallelConfig, Phase, ServerConfig, halves_of
from planner.domain.serving.caches.tiers import HOST
from planner.errors import ExportError, InputError
from planner.export.engines.arguments import flags, read_count, read_flags, require_counts, require_plain
from planner.export.engines.expert_exchange import expert_exchange, overlap_notes
from planner.export.engines.kv_caches import check_cache_format, needs_cache_format, own_code_notes
from planner.export.engines.loading import TRTLLM_REMEDY, check_code, require_loadable, trtllm_faults
from planner.export.engines.seam import HTTP, Engine, Launch, PodCommand, Port, Rendezvous
from planner.export.engines.tiers import pod_needs, require_tiers, tier_notes
from planner.export.engines.trtllm_options import options_of, options_text, read_options
from planner.export.islands import ServingIsland

NAME = "trtllm"
_HTTP_PORT = 8000
_SERVE = ("trtllm-serve", "serve")
# $1: the options, then the command. Nothing is written into the script.
OPTIONS_SCRIPT = 'file=$(mktemp) && printf %s "$1" >"$file" && shift && exec "$@" --config "$file"'
_TENSOR, _PIPELINE = "tensor_parallel_size", "pipeline_parallel_size"
_BATCH, _BUDGET = "max_batch_size", "max_num_tokens"
_GROUPS = "enable_attention_dp"
# Dynamo's workers have them with hyphens
_READ_FLAGS = frozenset({_TENSOR, _PIPELINE, _BATCH, _BUDGET, "max_seq_len", "port"})
_OTHER_FLAGS = frozenset(
    {f"--{name}_size" for name in ("tp", "pp", "cp", "context_parallel")}
    | {"--config", "--extra_llm_api_options", "--extra_engine_args", "--override_engine_args", "--enable_attention_dp"}
)
_LEAST_BUDGET = 256  # of a step without prompts; where there are fewer sequences, it costs nothing


def launch(island: ServingIsland, rendezvous: Rendezvous, /) -> Launch:
    """The command of one copy of the model on `island`.

    Raises:
        ExportError: a model that this version has no code for, pipeline stages, servers of several pods that the target
            does not join, a cache format that the GPUs cannot read, a tier that it cannot have, or layers that
            cannot be split over them.
    """
    profile = island.profile(NAME)
    check_code(island, profile)
    check_cache_format(island, profile)
    _check_ranks(island, rendezvous)
    require_tiers(island, "TensorRT-LLM", (HOST,), hint="Plan with host_gb_per_node alone, or export for sglang.")
    exchange = expert_exchange(island, profile)
    parallel = {_TENSOR: island.parallel.stage_devices}
    if exchange:
        parallel["moe_expert_parallel_size"] = island.parallel.stage_devices
    budget = island.max_tokens_per_step if island.takes_prompts else max(island.decode_tokens, _LEAST_BUDGET)
    arguments = flags(
        ("host", "0.0.0.0"),  # noqa: S104  # the pod's own address, which the Service reaches
        ("port", _HTTP_PORT + rendezvous.port_offset),
        *parallel.items(),
        (_BATCH, island.batch_size),
        (_BUDGET, budget),
        ("max_seq_len", island.max_model_len),
    )
    options = options_of(island, profile, exchange)
    require_loadable(island, "TensorRT-LLM", trtllm_faults(arguments, options, island), TRTLLM_REMEDY)
    pod = PodCommand(
        command=("sh", "-c", OPTIONS_SCRIPT, NAME),
        arguments=(options_text(options), *_SERVE, island.weights, *arguments),
    )
    return Launch(
        leader=pod,
        worker=pod if island.grouping.pods > 1 else None,
        ports=(Port(name=HTTP, number=_HTTP_PORT + rendezvous.port_offset),),
        health_path="/health",
        notes=(
            *(exchange.gathering_notes if exchange else ()),
            *(exchange.redundancy_notes if exchange else ()),
            *overlap_notes(island, exchange, profile),
            *_notes(island),
            *own_code_notes(island),
            *tier_notes(island),
        ),
        needs=pod_needs(island, shares=False),
    )


def _check_ranks(island: ServingIsland, rendezvous: Rendezvous) -> None:
    if island.parallel.pp > 1:
        raise ExportError(
            f"Island {island.id}, parallel.pp: must be 1 for TensorRT-LLM, of which no stages are planned, got "
            f"{island.parallel.pp}.",
            hint="Plan for trtllm (`engine: {name: trtllm}`), or with cost.max_pipeline_stages 1.",
        )
    if island.grouping.pods > 1 and not rendezvous.joined:
        raise ExportError(
            f"Island {island.id}, parallel: a server must fit into a pod, as TensorRT-LLM's ranks of several are "
            f"started by MPI, got {island.grouping.pods} pods of {island.grouping.gpus_per_pod} GPUs.",
            hint="Export for target dynamo, whose operator starts them, or plan with islands of a host at most.",
        )


def _notes(island: ServingIsland) -> tuple[str, ...]:
    notes = []
    if island.phase is not Phase.PREFILL:
        notes.append(
            "A request begins once there is room for all tokens that it may answer with (max_tokens): ones that ask "
            "for many more than they take leave servers less full than planned."
        )
    if island.model.kv_bytes > 1 and needs_cache_format(island.model):
        notes.append("WARNING: the checkpoint may choose an FP8 cache, which no option of TensorRT-LLM's undoes.")
    return tuple(notes)


def read_server(arguments: Sequence[str], phase: Phase, /) -> ServerConfig:
    """Attention groups share the stage's GPUs; budget and batch are a group's. Flags as `trtllm-serve` has them, or
    Dynamo's workers."""
    plain = [_with_underscores(argument) for argument in arguments]
    require_plain(plain, _READ_FLAGS, _OTHER_FLAGS, NAME)
    options = read_options(arguments)
    budget: dict[str, int | None] = {_BUDGET: None} if Phase.PREFILL in halves_of(phase) else {}
    degrees: dict[str, int | None] = {_TENSOR: 1, _PIPELINE: 1}
    counts = require_counts(read_flags(plain), {**degrees, _BATCH: None, **budget}, NAME)
    for key in (*degrees, _BATCH, *budget):
        if key in options:
            raise InputError(
                f"Command line of {NAME}: options must leave {key} to its flag.",
                hint="Take it out of the options: they would win.",
            )
    gpus, groups = counts[_TENSOR], counts[_TENSOR] if options.get(_GROUPS) is True else 1
    return ServerConfig(
        parallel=ParallelConfig(tp=gpus // groups, dp=groups, pp=counts[_PIPELINE]),
        tokens_per_step=counts.get(_BUDGET, 0),
        batch_size=counts[_BATCH],
        overlapped=False,
    )


def _with_underscores(argument: str) -> str:
    name, equals, value = argument.partition("=")
    return f"--{name[2:].replace('-', '_')}{equals}{value}" if name.startswith("--") else argument


def _answering_ports(arguments: Sequence[str], /) -> tuple[int, ...]:
    return (read_count(read_flags(arguments), "port", _HTTP_PORT),)


TRTLLM = Engine(
    name=NAME,
    launch=launch,
    read_server=read_server,
    program="trtllm-serve MODEL",
    http_port=_HTTP_PORT,
    answering_ports=_answering_ports,
)
