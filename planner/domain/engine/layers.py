"""Where an engine ends while it loads: layers that do not divide over GPUs, and where DeepEP can exchange tokens.

Engines split a layer's width evenly, and blocks of FP8 weights that share a scale may not be cut. Which layers are
split over which GPUs is the engine's own (`LayerRules`).

Sources: SGLang's python/sglang/srt/distributed/utils.py (divide), layers/quantization/fp8.py
(validate_block_quant_shapes), layers/vocab_parallel_embedding.py; vLLM's vllm/distributed/utils.py,
model_executor/layers/quantization/utils/fp8_utils.py (validate_fp8_block_shape).

Sources: DeepEP csrc/kernels/configs.cuh (NUM_MAX_NVL_PEERS, NUM_MAX_RDMA_PEERS, FINISHED_SUM_TAG); its issues 149 and
162 and TORCH_CUDA_ARCH_LIST of vLLM's and SGLang's images for what it is built for. Experts are spread over the GPUs of
one pipeline stage.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.domain.engine.profile import EngineProfile, ExchangeRules, LayerRules, Over, SharedExpert
from planner.domain.gpu import GpuSpec
from planner.domain.layout import ParallelConfig, Phase, halves_of
from planner.domain.model import Attention, CompressedAttention, GroupedAttention, Mamba2, MlaAttention
from planner.domain.model.spec import ModelSpec

_VOCABULARY_PADDING = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """How a server lays a model out: stages of `stage` GPUs, in `groups` attention groups of `group`.

    `spread`: experts lie on `ranks` GPUs, each on one. `exchanged`: tokens go to them by an all-to-all backend.
    `balanced`: they are placed by load. `redundant` of them are there twice. `dense_whole`: dense layers are not split.
    `vendor`: of the GPUs.
    """

    group: int
    groups: int = 1
    stage: int
    spread: bool = False
    ranks: int = 1
    exchanged: bool = False
    balanced: bool = False
    redundant: int = 0
    dense_whole: bool = False
    vendor: str = "NVIDIA"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFault:
    """`degree` GPUs, as `over` says, must do as `rule` has it; `came` adds what comes out of it."""

    over: Over
    degree: int
    rule: str
    came: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """`width` of a layer (`parts` of it, in words) over `degree` GPUs; `blocks`: those of FP8 weights are not cut."""

    parts: str
    width: int
    degree: int
    over: Over
    blocks: bool = True

    def fault(self, block: int) -> LayerFault | None:
        """What is wrong with it, for weights with blocks of `block` (0: none)."""
        if self.degree < 1 or self.width % self.degree:
            return LayerFault(
                over=self.over, degree=self.degree, rule=f"share out the {self.width} {self.parts} evenly"
            )
        part = self.width // self.degree
        if self.blocks and block and part % block:
            rule = f"share out the {self.width} {self.parts} in whole blocks of {block} FP8 weights"
            return LayerFault(over=self.over, degree=self.degree, rule=rule, came=f"which gives {part} each")
        return None


def layer_faults(model: ModelSpec, loading: Loading, rules: LayerRules) -> Iterator[LayerFault]:
    """What of `model` an engine cannot load in this way."""
    if not rules.checked:
        return
    for split in _splits(model, loading, rules):
        if split.degree != 1 and (fault := split.fault(model.weight_block)):
            yield fault
    if rules.groups_of_one and loading.groups > 1 and loading.group > 1:
        yield LayerFault(over=Over.GROUP, degree=loading.group, rule="be 1 in several attention groups")
    limited = rules.at_most_experts and model.experts and model.architecture not in rules.more_gpus
    if limited and loading.stage > model.routed_experts:
        rule = f"be at most the {model.routed_experts} experts of a layer"
        yield LayerFault(over=Over.STAGE, degree=loading.stage, rule=rule)
    if model.experts and (rules.experts_even or loading.balanced):
        experts = _experts(model, loading, rules)
        if experts.degree != 1 and (fault := experts.fault(0)):
            yield fault


def _splits(model: ModelSpec, loading: Loading, rules: LayerRules) -> Iterator[_Split]:
    blocks = rules.blocks_in_groups or loading.groups == 1
    yield from _attention_splits(model, loading.group, blocks=blocks)
    padded = -(-model.vocab_size // _VOCABULARY_PADDING) * _VOCABULARY_PADDING
    yield _group_split("rows of the padded vocabulary", padded, loading.group)
    dense_unsplit = rules.dense_whole_in_groups and loading.dense_whole and model.experts
    if not dense_unsplit:
        for size in dict.fromkeys(ffn.size for ffn, _ in model.dense_ffns):
            yield _columns("dense feed-forward layers", size, loading, rules.dense)
    if model.experts and model.experts.shared and not _keeps_shared(model, loading, rules):
        yield _columns("shared expert", model.experts.shared_width, loading, rules.shared)
    if model.experts and rules.columns and not loading.spread:
        yield _Split(parts="columns of an expert", width=model.experts.ffn_size, degree=loading.group, over=Over.GROUP)


def _keeps_shared(model: ModelSpec, loading: Loading, rules: LayerRules) -> bool:
    """Whether every GPU has the shared expert whole."""
    if rules.shared_vendors and loading.vendor.upper() not in rules.shared_vendors:
        return True
    if not loading.spread:
        return not rules.split_unspread
    if model.architecture in rules.shared_split_always:
        return False
    unsplit_where = {SharedExpert.EXCHANGED: loading.exchanged, SharedExpert.SEVERAL_GROUPS: loading.groups > 1}
    return unsplit_where.get(rules.shared_whole, False)


def _experts(model: ModelSpec, loading: Loading, rules: LayerRules) -> _Split:
    redundant = 0 if model.architecture in rules.without_redundant else loading.redundant
    return _Split(
        parts=f"experts ({redundant} of them redundant)",
        width=model.routed_experts + redundant,
        degree=loading.ranks,
        over=Over.RANKS,
        blocks=False,
    )


def _attention_splits(model: ModelSpec, degree: int, *, blocks: bool) -> Iterator[_Split]:
    """Heads over the GPUs of an attention group. `blocks`: those of latent attention's projections are looked at, too;
    else of joined ones only."""
    for attention in dict.fromkeys(kind for kind, _ in model.attentions):
        yield from _kind_splits(attention, degree, blocks=blocks)


def _kind_splits(attention: Attention, degree: int, *, blocks: bool) -> Iterator[_Split]:
    yield _group_split("attention heads", attention.heads, degree)
    if isinstance(attention, GroupedAttention):
        # heads are repeated where there are more GPUs than heads, and then all as often
        more, fewer = max(attention.kv_heads, degree), min(attention.kv_heads, degree)
        yield _group_split("copies of KV heads", more, fewer)
        if attention.indexer is not None:
            more, fewer = max(attention.indexer.heads, degree), min(attention.indexer.heads, degree)
            yield _group_split("copies of the indexer's heads", more, fewer)
        width = attention.heads * attention.head_dim
        yield _Split(parts="columns of the query projection", width=width, degree=degree, over=Over.GROUP)
    elif isinstance(attention, Mamba2) and attention.groups > 1:  # a single one is repeated
        yield _group_split("groups of Mamba2's heads", attention.groups, degree)
    elif isinstance(attention, CompressedAttention):
        yield _group_split("groups of the output projection", attention.output_groups, degree)
    elif blocks and isinstance(attention, MlaAttention):
        yield from _latent_splits(attention, degree)


def _latent_splits(attention: MlaAttention, degree: int) -> Iterator[_Split]:
    widths = {
        "query projection": attention.heads * (attention.nope_dim + attention.rope_dim),
        "KV projection": attention.heads * (attention.nope_dim + attention.value_dim),
        "output projection": attention.heads * attention.value_dim,
    }
    for name, width in widths.items():
        yield _Split(parts=f"columns of the {name}", width=width, degree=degree, over=Over.GROUP)


def _group_split(parts: str, width: int, degree: int) -> _Split:
    return _Split(parts=parts, width=width, degree=degree, over=Over.GROUP, blocks=False)


def _columns(layer: str, width: int, loading: Loading, over: Over) -> _Split:
    degree = loading.group if over is Over.GROUP else loading.stage
    return _Split(parts=f"columns of the {layer}", width=width, degree=degree, over=over)


_UNQUANTISED = "none"


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
    if not rules.vendors:
        return f"{profile} chooses its exchange by itself, and none but this is counted on"
    if model.architecture in rules.without:
        return f"{profile} has no DeepEP path for {model.architecture}"
    weights = model.quantization or _UNQUANTISED
    if rules.quantizations and weights not in rules.quantizations:
        return f"{profile}'s DeepEP path takes FP8 or BF16 weights, not {weights}"
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
