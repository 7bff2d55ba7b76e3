"""How an island's GPUs exchange tokens between experts: whether DeepEP's kernels can do it, and with how many
experts.

symbol     meaning                              value   source
NODE       GPUs that DeepEP takes for one node  8       DeepEP csrc/kernels/configs.cuh, NUM_MAX_NVL_PEERS
NODES      nodes of its throughput kernels      20      same file, NUM_MAX_RDMA_PEERS
BUILT      compute capabilities of its kernels  9, 10   TORCH_CUDA_ARCH_LIST of vLLM's and SGLang's images; issues
           (major)                                      149 and 162: A100 within a node at best, by hand
TOKENS     tokens per GPU and step, low latency 1024    FINISHED_SUM_TAG; SGLang asserts it at start
DEPTH      NVSHMEM's default queue depth        1024    DeepEP asserts depth >= 2 (tokens + 1)

Experts are spread over the GPUs of one pipeline stage.
"""

from dataclasses import dataclass

from planner.domain import Phase
from planner.export.islands import ServingIsland

_NODE_GPUS = 8
_MAX_NODES = 20
_BUILT_FOR = (9, 10)
_MAX_LOW_LATENCY_TOKENS = 1024
_DEFAULT_QUEUE_DEPTH = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertExchange:
    """`redundant_experts`: those asked for, filled up to a multiple of the GPUs; `balanced`: some were asked for, so
    that the engine is to place them by load. `obstacle` says why DeepEP cannot serve."""

    obstacle: str
    redundant_experts: int
    balanced: bool

    @property
    def deepep(self) -> bool:
        """Whether DeepEP's kernels fit the island; otherwise the engine's own all-gather has to do."""
        return not self.obstacle

    @property
    def gathering_notes(self) -> tuple[str, ...]:
        """Why the engine's own all-gather serves, where it does."""
        return (f"Experts exchange tokens by all-gather: {self.obstacle}.",) if self.obstacle else ()

    @property
    def redundancy_notes(self) -> tuple[str, ...]:
        """How many experts are there twice."""
        count = self.redundant_experts
        return (f"{count} redundant experts give every GPU the same number.",) if count else ()


def expert_exchange(island: ServingIsland, *, strided: bool = False, obstacle: str = "") -> ExpertExchange | None:
    """The exchange that `island` can run; None where one GPU holds a stage, or the model has no experts.

    Every GPU must hold the same number of experts. `strided`: the engine puts a stage onto every so manieth GPU;
    `obstacle`: why the engine's own code keeps DeepEP from the model.
    """
    experts, devices = island.model.experts, island.parallel.stage_devices
    if experts is None or devices == 1:
        return None
    redundant = island.redundant_experts
    return ExpertExchange(
        obstacle=obstacle or _obstacle(island, strided),
        redundant_experts=redundant + -(experts.routed + redundant) % devices,
        balanced=redundant > 0,
    )


def _obstacle(island: ServingIsland, strided: bool) -> str:
    devices = island.parallel.stage_devices
    if island.gpu.vendor.upper() != "NVIDIA":
        return f"DeepEP has no kernels for {island.gpu.vendor}"
    capability = island.gpu.compute_capability
    if int(capability) not in _BUILT_FOR:
        version = f"{capability:.1f}" if capability else "not known (compute_capability in its spec)"
        return f"DeepEP's kernels are for compute capability 9 and 10, that of {island.gpu.name} is {version}"
    if devices > _NODE_GPUS and devices % _NODE_GPUS:
        return f"DeepEP takes at most {_NODE_GPUS} GPUs or a multiple of {_NODE_GPUS}, not {devices}"
    return _prefill_obstacle(island, strided) if island.phase is Phase.PREFILL else _decode_obstacle(island)


def _prefill_obstacle(island: ServingIsland, strided: bool) -> str:
    devices, gpus = island.parallel.stage_devices, island.grouping.gpus_per_pod
    if devices > _NODE_GPUS * _MAX_NODES:
        return f"DeepEP's throughput kernels reach {_NODE_GPUS * _MAX_NODES} GPUs, not {devices}"
    if gpus < min(devices, _NODE_GPUS) or (devices > _NODE_GPUS and gpus > _NODE_GPUS):
        return f"DeepEP's throughput kernels want {min(devices, _NODE_GPUS)} GPUs in a pod, not {gpus}"
    if strided and island.grouping.pods > 1:
        return "DeepEP's throughput kernels want a stage's GPUs side by side"
    return ""


def _decode_obstacle(island: ServingIsland) -> str:
    if island.decode_tokens > _MAX_LOW_LATENCY_TOKENS:
        limit = _MAX_LOW_LATENCY_TOKENS
        return f"DeepEP's low-latency kernels take {limit} tokens a GPU, not {island.decode_tokens}"
    return ""


def queue_depth(tokens_per_gpu: int) -> int | None:
    """NVSHMEM_QP_DEPTH for low-latency kernels of `tokens_per_gpu`; None where the default is deep enough."""
    wanted = 2 * (tokens_per_gpu + 1)
    return None if wanted <= _DEFAULT_QUEUE_DEPTH else 1 << (wanted - 1).bit_length()
