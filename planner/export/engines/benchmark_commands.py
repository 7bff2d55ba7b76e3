"""A benchmark run as commands: what starts the engine on each node, and what loads it.

The engine's flags are those of its manifests, but for the hand-over of KV caches: one copy does both phases here.
Flags of the tools: vLLM's docs/cli/bench/serve (0.11 and later) and aiperf's docs/cli_options.md (0.5 and later).
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from planner.domain import ProposedRun, Scenario
from planner.errors import ExportError, InputError
from planner.export.engines.dialects import engine_named
from planner.export.engines.seam import PodCommand, Rendezvous
from planner.export.islands import ServingIsland, group_pods
from planner.export.objects.names import weights_location

FIRST_NODE = "FIRST_NODE"
"""Stands in commands for the address of the first node; whoever runs them puts it in."""

_HAND_OVER = ("--kv-transfer-config", "--disaggregation-")
_SIDE_CHANNEL = "_NIXL_"  # in names of variables of the hand-over
_BOTH_PHASES = MappingProxyType({"--deepep-mode=low_latency": "--deepep-mode=auto"})  # prompts are too long for it
_MOST_WARM_UPS = 32
_MARGIN = 16  # tokens that a tokenizer or a template adds


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCommands:
    """`serve`: a shell command a node, the first node's first; `load`: what loads the engine and saves the result.

    `refusal`: why the engine cannot serve the configuration; then there are no commands.
    """

    serve: tuple[str, ...]
    load: str
    refusal: str = ""


def benchmark_commands(scenario: Scenario, run: ProposedRun, *, engine: str, tool: str) -> BenchmarkCommands:
    """The commands of a run. Raises as `require_tools`, and InputError where the weights have no place."""
    require_tools(engine, tool)
    chosen, island = engine_named(engine), _island(scenario, run)
    try:
        launches = [
            chosen.launch(island, Rendezvous(leader_address=FIRST_NODE, pod_index=str(node)))
            for node in range(island.grouping.pods)
        ]
    except ExportError as error:
        return BenchmarkCommands(serve=(), load="", refusal=error.message)
    pods = [launch.worker if node and launch.worker else launch.leader for node, launch in enumerate(launches)]
    url = f"http://{FIRST_NODE}:{launches[0].ports[0].number}"
    return BenchmarkCommands(
        serve=tuple(_shell(pod) for pod in pods), load=shlex.join(TOOLS[tool](run, island.weights, url))
    )


def require_tools(engine: str, tool: str) -> None:
    """Raises InputError where there is no such engine, or no such tool."""
    engine_named(engine)
    if tool not in TOOLS:
        raise InputError(f"Tool {tool!r}: must be one of {', '.join(TOOLS)}.", hint="Choose one of them.")


def _island(scenario: Scenario, run: ProposedRun) -> ServingIsland:
    """One copy of the configuration by itself."""
    gpu, cost, experts = scenario.inventory.item(run.gpu).gpu, scenario.cost, scenario.model.experts
    return ServingIsland(
        id=f"{run.gpu} {run.phase.value}",
        slug="benchmark",
        name="benchmark",
        phase=run.phase,
        gpu=gpu,
        size=run.parallel.size,
        parallel=run.parallel,
        grouping=group_pods(run.parallel, gpu.gpus_per_host),
        model=scenario.model,
        weights=weights_location(scenario.model.name, scenario.model.uri),
        batch_size=run.batch_size,
        max_model_len=min(run.input_tokens + run.output_tokens + _MARGIN, scenario.model.max_context),
        max_tokens_per_step=cost.max_tokens_per_step,
        rate_rps=0.0,
        utilisation=1.0,
        routes=(),
        overlapped=bool(cost.two_micro_batches and experts and run.parallel.stage_devices > 1),
        redundant_experts=cost.redundant_experts if experts else 0,
        draft_tokens=cost.drafting.drafted,
        images=cost.images_per_request > 0,
        draft_uri=cost.drafting.draft.uri if cost.drafting.draft else "",
        exchange_gpus=(gpu,),
    )


def _shell(pod: PodCommand) -> str:
    """The pod's command for a shell, without the hand-over of KV caches."""
    variables = [f"{name}={value}" for name, value in pod.environment if _SIDE_CHANNEL not in name]
    words = [_BOTH_PHASES.get(word, word) for word in pod.arguments if not word.startswith(_HAND_OVER)]
    return shlex.join([*(["env", *variables] if variables else []), *pod.command, *words])


def result_name(run: ProposedRun) -> str:
    """The stem of a result's file."""
    degrees = run.parallel
    return f"{run.gpu}-{run.phase.value}-tp{degrees.tp}-dp{degrees.dp}-pp{degrees.pp}".lower()


def _warm_ups(run: ProposedRun) -> int:
    """Requests before the clock starts: kernels are compiled by then."""
    return min(run.concurrency, _MOST_WARM_UPS)


def _vllm_bench(run: ProposedRun, weights: str, url: str) -> list[str]:
    rows = (
        ("backend", "openai"),
        ("base-url", url),
        ("model", weights),
        ("dataset-name", "random"),
        ("random-input-len", run.input_tokens),
        ("random-output-len", run.output_tokens),
        ("max-concurrency", run.concurrency),
        ("num-prompts", run.requests),
        ("num-warmups", _warm_ups(run)),
        ("seed", 0),
    )
    words = [word for name, value in rows for word in (f"--{name}", str(value))]
    return [*("vllm", "bench", "serve"), *words, *_SAVED, f"{result_name(run)}.json"]


_SAVED = ("--ignore-eos", "--save-result", "--result-filename")


def _aiperf(run: ProposedRun, weights: str, url: str) -> list[str]:
    rows = (
        ("model", weights),
        ("url", url),
        ("endpoint-type", "completions"),
        ("synthetic-input-tokens-mean", run.input_tokens),
        ("synthetic-input-tokens-stddev", 0),
        ("output-tokens-mean", run.output_tokens),
        ("output-tokens-stddev", 0),
        ("extra-inputs", "ignore_eos:true"),
        ("extra-inputs", f"min_tokens:{run.output_tokens}"),
        ("concurrency", run.concurrency),
        ("request-count", run.requests),
        ("warmup-request-count", _warm_ups(run)),
        ("random-seed", 0),
        ("output-artifact-dir", result_name(run)),
    )
    return ["aiperf", "profile", "--streaming", *(word for name, value in rows for word in (f"--{name}", str(value)))]


TOOLS: Mapping[str, Callable[[ProposedRun, str, str], list[str]]] = MappingProxyType(
    {"vllm": _vllm_bench, "aiperf": _aiperf}
)
"""What loads an engine, by the name that a user gives it: the words of its command."""
