"""How an island's GPUs exchange tokens between experts: whether DeepEP's kernels can do it, and with how many
experts.

symbol     meaning                              value   source
NODE       GPUs that DeepEP takes for one node  8       DeepEP csrc/kernels/configs.cuh, NUM_MAX_NVL_PEERS
NODES      nodes of its throughput kernels      20      same file, NUM_MAX_RDMA_PEERS
TOKENS     tokens per GPU and step, low latency 1024    FINISHED_SUM_TAG; SGLang asserts it at start
DEPTH      NVSHMEM's default queue depth        1024    DeepEP asserts depth >= 2 (tokens + 1)
"""

from dataclasses import dataclass

from planner.domain import Phase
from planner.export.islands import ServingIsland

_NODE_GPUS = 8
_MAX_NODES = 20
_MAX_LOW_LATENCY_TOKENS = 1024
_DEFAULT_QUEUE_DEPTH = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertExchange:
    """`redundant_experts` fill the experts up to a multiple of the GPUs; `obstacle` says why DeepEP cannot
    serve."""

    obstacle: str
    redundant_experts: int

    @property
    def deepep(self) -> bool:
        """Whether DeepEP's kernels fit the island; otherwise the engine's own all-gather has to do."""
        return not self.obstacle


def expert_exchange(island: ServingIsland) -> ExpertExchange:
    """The exchange that `island` can run. Every GPU must hold the same number of experts."""
    return ExpertExchange(
        obstacle=_obstacle(island), redundant_experts=-island.model.experts.routed % island.parallel.devices
    )


def _obstacle(island: ServingIsland) -> str:
    devices = island.parallel.devices
    if island.gpu.vendor.upper() != "NVIDIA":
        return f"DeepEP has no kernels for {island.gpu.vendor}"
    if devices == 1:
        return "one GPU holds every expert"
    if devices > _NODE_GPUS and devices % _NODE_GPUS:
        return f"DeepEP takes at most {_NODE_GPUS} GPUs or a multiple of {_NODE_GPUS}, not {devices}"
    return _prefill_obstacle(island) if island.phase is Phase.PREFILL else _decode_obstacle(island)


def _prefill_obstacle(island: ServingIsland) -> str:
    devices, gpus = island.parallel.devices, island.grouping.gpus_per_pod
    if devices > _NODE_GPUS * _MAX_NODES:
        return f"DeepEP's throughput kernels reach {_NODE_GPUS * _MAX_NODES} GPUs, not {devices}"
    if gpus != min(devices, _NODE_GPUS):
        return f"DeepEP's throughput kernels want {min(devices, _NODE_GPUS)} GPUs in a pod, not {gpus}"
    return ""


def _decode_obstacle(island: ServingIsland) -> str:
    if island.batch_size > _MAX_LOW_LATENCY_TOKENS:
        limit = _MAX_LOW_LATENCY_TOKENS
        return f"DeepEP's low-latency kernels take {limit} tokens a GPU, not {island.batch_size}"
    return ""


def queue_depth(tokens_per_gpu: int) -> int | None:
    """NVSHMEM_QP_DEPTH for low-latency kernels of `tokens_per_gpu`; None where the default is deep enough."""
    wanted = 2 * (tokens_per_gpu + 1)
    return None if wanted <= _DEFAULT_QUEUE_DEPTH else 1 << (wanted - 1).bit_length()
