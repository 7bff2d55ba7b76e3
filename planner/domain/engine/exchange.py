"""Where DeepEP's kernels can exchange an island's tokens between experts, and where two micro-batches hide it.

Sources: DeepEP csrc/kernels/configs.cuh (NUM_MAX_NVL_PEERS, NUM_MAX_RDMA_PEERS, FINISHED_SUM_TAG); its issues 149 and
162 and TORCH_CUDA_ARCH_LIST of vLLM's and SGLang's images for what it is built for. Experts are spread over the GPUs of
one pipeline stage.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.domain.engine.profile import EngineProfile, ExchangeRules
from planner.domain.gpu import GpuSpec
from planner.domain.layout import ParallelConfig, Phase, halves_of
from planner.domain.model import ModelSpec

_UNQUANTISED = "none"
_HALF_BYTES = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeSite:
    """A server whose experts exchange tokens. `gpus_per_pod`: GPUs that share a container; `batch_size` and
    `decode_tokens`: sequences and tokens of an attention group in a decode step, 0: not known."""

    gpu: GpuSpec
    model: ModelSpec
    phase: Phase
    parallel: ParallelConfig
    gpus_per_pod: int
    decode_tokens: int = 0
    batch_size: int = 0

    @property
    def devices(self) -> int:
        """GPUs of a stage."""
        return self.parallel.stage_devices

    @property
    def pods(self) -> int:
        """Pods of one copy of the model."""
        return self.parallel.devices // self.gpus_per_pod


def pod_sizes(parallel: ParallelConfig, gpus_per_host: int) -> Iterator[int]:
    """GPUs that a pod may have, most first: a divisor of a copy's that no tensor-parallel group and no stage
    straddles."""
    devices = parallel.devices
    for gpus in range(min(gpus_per_host, devices), 0, -1):
        if devices % gpus == 0 and _nests(parallel.tp, gpus) and _nests(parallel.stage_devices, gpus):
            yield gpus


def _nests(unit: int, gpus: int) -> bool:
    return unit % gpus == 0 or gpus % unit == 0


def deepep_obstacle(site: ExchangeSite, profile: EngineProfile) -> str:
    """Why DeepEP cannot serve; empty where it can. GPUs that spread experts at all are taken for granted."""
    rules, kernels = profile.exchange, {Phase.PREFILL: _prefill_obstacle, Phase.DECODE: _decode_obstacle}
    obstacles = (kernels[half](site, rules) for half in halves_of(site.phase))
    return _code_obstacle(site, profile) or _gpu_obstacle(site, rules) or next(filter(None, obstacles), "")


def _code_obstacle(site: ExchangeSite, profile: EngineProfile) -> str:
    """What the engine's own code does not have."""
    model, rules, halves = site.model, profile.exchange, halves_of(site.phase)
    if model.architecture in rules.without:
        return f"{profile} has no DeepEP path for {model.architecture}"
    weights = model.quantization or _UNQUANTISED
    if rules.quantizations and weights not in rules.quantizations:
        return f"{profile}'s DeepEP path takes FP8 or BF16 weights, not {weights}"
    unquantised = not model.quantization and model.expert_bytes >= _HALF_BYTES
    if unquantised and Phase.PREFILL in halves and not rules.unquantised_prefill:
        return f"{profile} exchanges tokens between unquantised experts by DeepEP in decode only"
    if rules.widest and Phase.DECODE in halves and model.hidden_size > rules.widest:
        return f"DeepEP's low-latency kernels take layers of {rules.widest} at most, not {model.hidden_size}"
    return ""


def _gpu_obstacle(site: ExchangeSite, rules: ExchangeRules) -> str:
    gpu, devices = site.gpu, site.devices
    if gpu.vendor.upper() not in rules.vendors:
        return f"DeepEP has no kernels for {gpu.vendor}"
    capability = gpu.compute_capability
    if int(capability) not in rules.capabilities:
        built = " and ".join(map(str, rules.capabilities))
        version = f"{capability:.1f}" if capability else "not known (compute_capability in its spec)"
        return f"DeepEP's kernels are for compute capability {built}, that of {gpu.name} is {version}"
    if devices > rules.node_gpus and devices % rules.node_gpus:
        return f"DeepEP takes at most {rules.node_gpus} GPUs or a multiple of {rules.node_gpus}, not {devices}"
    return ""


def _prefill_obstacle(site: ExchangeSite, rules: ExchangeRules) -> str:
    devices, gpus, node = site.devices, site.gpus_per_pod, rules.node_gpus
    if devices > node * rules.most_nodes:
        return f"DeepEP's throughput kernels reach {node * rules.most_nodes} GPUs, not {devices}"
    if gpus < min(devices, node) or (devices > node and gpus > node):
        return f"DeepEP's throughput kernels want {min(devices, node)} GPUs in a pod, not {gpus}"
    if rules.strided and site.parallel.pp > 1 and site.parallel.dp > 1 and site.pods > 1:
        return "DeepEP's throughput kernels want a stage's GPUs side by side"
    return ""


def _decode_obstacle(site: ExchangeSite, rules: ExchangeRules) -> str:
    limit = rules.low_latency_tokens
    if site.decode_tokens > limit:
        return f"DeepEP's low-latency kernels take {limit} tokens a GPU, not {site.decode_tokens}"
    return ""


def overlap_obstacle(site: ExchangeSite, profile: EngineProfile, exchange_obstacle: str) -> str:
    """Why two micro-batches cannot hide the exchange, which has an obstacle or none; empty where they can."""
    rules = profile.overlap
    if not rules.possible:
        return f"{profile} has no such flag"
    if rules.across_groups_only and site.parallel.dp == 1:
        return "it splits the steps of data-parallel ranks, and here is one"
    if rules.needs_deepep and exchange_obstacle:
        return "it overlaps DeepEP's exchange only"
    fewest = rules.sequences_per_stage * site.parallel.pp
    if site.phase is Phase.DECODE and 0 < site.batch_size < fewest:
        return "a step of one sequence cannot be split"
    return ""
