"""The engines as Dynamo starts them: its own modules take the engines' flags, and its operator adds those by which the
nodes of a copy find each other.

Two things differ from a plain launch:
- a flag and its value are two arguments: the operator reads degrees word by word and takes `--name=value` for a name
  that it does not know, that is for degree 1, and then joins no nodes;
- ranks, addresses and ports of several nodes are left out, as the operator adds them:

engine  where                                       what the operator adds
vllm    TP x PP larger than a pod's GPUs            --distributed-executor-backend mp --nnodes --node-rank --master-addr
                                                    --master-port, --headless on workers
vllm    else TP x PP x DP larger than those         --data-parallel-hybrid-lb, -size-local, -start-rank, -address,
                                                    -rpc-port: Dynamo spreads requests over the nodes itself
sglang  more than one node                          --dist-init-addr --nnodes --node-rank
trtllm  more than one node                          mpirun and trtllm-llmapi-launch around the quoted command, sshd on
                                                    workers

TensorRT-LLM's workers have its flags with hyphens, and its options one by one.

Sources: ai-dynamo/dynamo, deploy/operator/internal/dynamo/backend_{vllm,sglang,trtllm}.go and
components/src/dynamo/{vllm,trtllm}/{args,backend_args}.py; image tags of its examples
(examples/backends/*/deploy/v1beta1).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from planner.domain import Phase
from planner.errors import ExportError
from planner.export.engines.arguments import read_count, read_flags
from planner.export.engines.expert_exchange import expert_exchange
from planner.export.engines.loading import check_code
from planner.export.engines.seam import Engine, Launch, PodCommand, Rendezvous
from planner.export.engines.sglang import GROUP_FLAGS
from planner.export.engines.trtllm_options import option_words
from planner.export.islands import ServingIsland
from planner.export.objects.security.exemptions import DYNAMO_CUBINS, Exemption
from planner.files import catalog

RUNTIME_VERSION = "1.6.1"
SUFFIX_VARIABLE = "DYN_NAMESPACE_WORKER_SUFFIX"
"""Empty: some operators append a hash to the namespace of workers and not to that of their router."""
MP_ANNOTATION = "nvidia.com/vllm-distributed-executor-backend"
_USER = 1000  # `dynamo`: ai-dynamo/dynamo pull request 3935
_NEGATIVE = re.compile(r"-[0-9.]+")
_NOBODY = Rendezvous(
    leader_address="127.0.0.1", pod_index="0", joined=True
)  # the operator's flags take the place of these


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoEngine:
    """How Dynamo runs an engine: its module and image, the `version` that it bundles, the flags that it adds or that
    its operator does (`left_out`), what its prefill workers and decode workers are called in endpoints, and the flags
    that a worker's command begins with (`first`). `words` turns the engine's own arguments into a worker's.

    `exemptions`: what its image cannot do without, which user 1000 of group 0 runs. `spans_pods`: a rank larger than a
    pod takes an executor, which the operator has to be told. `routed`: Dynamo's GlobalRouter serves it."""

    module: str
    version: str
    images: Mapping[str, str]
    left_out: frozenset[str]
    components: Mapping[Phase, str]
    first: Callable[[ServingIsland], tuple[str, ...]]
    words: Callable[[Sequence[str], frozenset[str]], Iterator[str]]
    exemptions: tuple[Exemption, ...] = ()
    spans_pods: bool = False
    routed: bool = False

    @property
    def command(self) -> tuple[str, ...]:
        """The command of a worker."""
        return ("python3", "-m", self.module)

    def within(self, engine: Engine) -> Engine:
        """The engine in Dynamo's image."""
        return replace(engine, images=self.images, user=_USER, group=0, exemptions=lambda _: self.exemptions)


def _name_arguments(island: ServingIsland) -> tuple[str, ...]:
    """A worker without a mode is an aggregated one."""
    name = ("--model", island.weights)
    return name if island.mixed else (*name, "--disaggregation-mode", island.phase.value)


def _untokenized(island: ServingIsland) -> tuple[str, ...]:
    """Dynamo's frontend tokenizes; SGLang has its own disaggregation flags."""
    return ("--served-model-name", island.weights, "--skip-tokenizer-init")


def _words(arguments: Sequence[str], left_out: frozenset[str]) -> Iterator[str]:
    """Flags as words, without those of `left_out`; the model's name, which has no flag in vLLM, is dropped."""
    for argument in arguments:
        name, equals, value = argument.removeprefix("--").partition("=")
        if argument.startswith("--") and name not in left_out:
            yield f"--{name}"
            if equals:
                yield value


def _trtllm_words(arguments: Sequence[str], left_out: frozenset[str]) -> Iterator[str]:
    """With hyphens, and the experts' degree by its name there; the options, the first argument, become flags."""
    for word in _words(arguments, left_out):
        yield word.replace("_", "-").replace("--moe-expert", "--expert") if word.startswith("--") else word
    yield from option_words(arguments[0])


def _served_arguments(island: ServingIsland) -> tuple[str, ...]:
    events = ("--publish-kv-events",) if island.events_port else ()
    return (*_name_arguments(island), "--served-model-name", island.weights, *events)


_COMPONENTS = MappingProxyType({Phase.PREFILL: "prefill", Phase.DECODE: "backend"})
DYNAMO_ENGINES: Mapping[str, DynamoEngine] = MappingProxyType(
    {
        "vllm": DynamoEngine(
            module="dynamo.vllm",
            version="0.31.0",
            images=MappingProxyType({"NVIDIA": f"nvcr.io/nvidia/ai-dynamo/vllm-runtime:{RUNTIME_VERSION}"}),
            left_out=frozenset(
                {"port", "api-server-count", "nnodes", "node-rank", "master-addr", "master-port"}
                | {f"data-parallel-{name}" for name in ("size-local", "start-rank", "address", "rpc-port")}
            ),
            components=_COMPONENTS,
            first=_name_arguments,
            words=_words,
            spans_pods=True,
            routed=True,
        ),
        "sglang": DynamoEngine(
            module="dynamo.sglang",
            version="0.5.21",
            images=MappingProxyType({"NVIDIA": f"nvcr.io/nvidia/ai-dynamo/sglang-runtime:{RUNTIME_VERSION}"}),
            left_out=frozenset({"port", *GROUP_FLAGS}),
            components=_COMPONENTS,
            first=_untokenized,
            exemptions=(DYNAMO_CUBINS,),
            words=_words,
        ),
        "trtllm": DynamoEngine(
            module="dynamo.trtllm",
            version="1.3.0rc29",
            images=MappingProxyType({"NVIDIA": f"nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:{RUNTIME_VERSION}"}),
            left_out=frozenset({"host", "port"}),
            components=_COMPONENTS,
            first=_served_arguments,
            words=_trtllm_words,
        ),
    }
)


def worker_launch(island: ServingIsland, engine: Engine, namespace: str) -> Launch:
    """What every pod of the island runs, as a worker of Dynamo's `namespace`; the operator distinguishes leader and
    workers.

    Raises:
        ExportError: the engine cannot express the island, or the version that Dynamo brings cannot run it.
    """
    launch, dynamo = engine.launch(island, _NOBODY), DYNAMO_ENGINES[engine.name]
    _check_version(island, engine.name)
    command = PodCommand(
        command=dynamo.command,
        arguments=(
            "--namespace",
            namespace,
            *dynamo.first(island),
            *dynamo.words(launch.leader.arguments, dynamo.left_out),
        ),
        environment=(*launch.leader.environment, (SUFFIX_VARIABLE, "")),
        # the worker sets it itself beside a plain connector, and looks for none inside vLLM's MultiConnector
        address_variables=launch.leader.address_variables if island.tiers else (),
    )
    return replace(launch, leader=command, worker=command, ports=())


def _check_version(island: ServingIsland, engine: str) -> None:
    """The bundled version has code for the model, and exchanges tokens as the one does that flags are written for."""
    bundled = catalog.engine(engine, DYNAMO_ENGINES[engine].version)
    check_code(island, bundled)
    written, runs = (expert_exchange(island, profile) for profile in (island.profile(engine), bundled))
    if written and runs and written.deepep and not runs.deepep:
        raise ExportError(
            f"Island {island.id}: Dynamo {RUNTIME_VERSION} brings {bundled}: {runs.obstacle}, got {island.model.name}.",
            hint="Export for lws, with the engine's own image, or for vllm; or plan with FP8 weights.",
        )


def spans_ranks(island: ServingIsland, engine: Engine) -> bool:
    """Whether a rank is larger than a pod, so that the operator has to choose an executor."""
    larger = island.parallel.tp * island.parallel.pp > island.grouping.gpus_per_pod
    return DYNAMO_ENGINES[engine.name].spans_pods and larger


def joined(arguments: Sequence[str]) -> tuple[str, ...]:
    """Words as `--name=value`, which engines' `read_server` reads. A flag that was one word stays unread, as for the
    operator. Short flags (`-tp 8`) are flags too; a negative number is a value."""
    words: list[str] = []
    for word in arguments:
        if word.startswith("--"):
            words.append(word.partition("=")[0] if "=" in word else word)
        elif word.startswith("-") and not _NEGATIVE.fullmatch(word):
            words.append(word)
        elif words and "=" not in words[-1]:
            words[-1] = f"{words[-1]}={word}"
    return tuple(words)


def started(engine: str, arguments: Sequence[str], gpus: int, nodes: int) -> tuple[str, ...]:
    """The arguments that a copy of `nodes` pods with `gpus` GPUs each starts with, the operator's among them."""
    written = joined(arguments)
    if nodes == 1:
        return written
    dynamo = DYNAMO_ENGINES.get(engine)
    if dynamo is not None and not dynamo.spans_pods:
        return (*written, f"--nnodes={nodes}")
    values = read_flags(written)
    rank = read_count(values, "tensor-parallel-size", 1) * read_count(values, "pipeline-parallel-size", 1)
    if rank > gpus:
        return (*written, f"--nnodes={nodes}")
    if rank * read_count(values, "data-parallel-size", 1) > gpus:
        return (*written, f"--data-parallel-size-local={gpus // max(1, rank)}")
    return written
