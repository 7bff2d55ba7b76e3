"""What a version of an inference engine accepts (`EngineProfile()` refuses nothing), and what it reads KV caches with.

`common_reader` is what the export writes where caches go between generations of GPUs; `own_reader` what an engine takes
by itself, so that one that was started before another generation joined may run on. Sources: vLLM's
docs/design/attention_backends.md (priorities by compute capability); FlashMLA's and FlashAttention 3's kernels are not
for 8.x, which leaves Triton's for latent attention.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

from planner.domain.gpu import GpuSpec
from planner.domain.keys import Bounds, Key, Mapped
from planner.domain.layout import Phase
from planner.domain.model import MlaAttention, WeightFormat
from planner.domain.model.spec import KEPT_STATES, ModelSpec

_Count = Annotated[int, Bounds(low=0, high=1_000_000)]
_UNKNOWN_FAMILIES = ("any", "other")


class Over(StrEnum):
    """What a layer is split over: an attention group's GPUs, all GPUs of a stage, or the ranks that share experts."""

    GROUP = "group"
    STAGE = "stage"
    RANKS = "ranks"


class SharedExpert(StrEnum):
    """When every GPU keeps the shared expert whole, where experts are spread over GPUs: never; where tokens go by an
    all-to-all backend; where several attention groups spread them."""

    NEVER = "never"
    EXCHANGED = "exchanged"
    SEVERAL_GROUPS = "several_groups"


class Arithmetic(StrEnum):
    """What an engine does with a format: multiplies it, or unpacks it to 16 bits first."""

    NATIVE = "native"
    WEIGHT_ONLY = "weight_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRules:
    """What GPUs must be able to share out evenly. Heads and vocabulary always go over an attention group.

    `dense`: what dense layers are split over; `dense_whole_in_groups`: not at all, in models with experts, where there
    are several groups. `shared`: the same of the shared expert, which is kept whole as `shared_whole` says, except in
    the architectures `shared_split_always`; `shared_vendors`: whose GPUs the rule holds for, all where it is empty; an
    engine that does not `split_unspread` ones makes it one of the experts where these are not spread. `columns`: an
    expert's columns go over a group where experts are not spread. `experts_even`: ranks hold equal numbers of experts
    in any case, not only where they are balanced by load. `at_most_experts`: a stage has no more GPUs than a layer has
    experts, except in the architectures `more_gpus`. `blocks_in_groups`: blocks of latent attention's weights are
    looked at in several groups, too. `single_group`: architectures whose attention cannot run in groups;
    `groups_of_one`: each of several groups is one GPU; `without_redundant`: architectures that build no redundant
    experts.
    """

    checked: Annotated[bool, Key("whether layers have to divide at all")] = True
    dense: Annotated[Over, Key("what dense feed-forward layers are split over")] = Over.GROUP
    dense_whole_in_groups: Annotated[bool, Key("models with experts keep them whole in several groups")] = False
    shared: Annotated[Over, Key("what the shared expert is split over")] = Over.GROUP
    shared_whole: Annotated[SharedExpert, Key("when it is not split, where experts are spread")] = SharedExpert.NEVER
    shared_split_always: Annotated[tuple[str, ...], Key("architectures that split it all the same")] = ()
    shared_vendors: Annotated[tuple[str, ...], Key("whose GPUs this is known of; empty: all")] = ()
    split_unspread: Annotated[bool, Key("it is split where experts are not spread, too")] = True
    columns: Annotated[bool, Key("an expert's columns go over a group where experts are not spread")] = True
    experts_even: Annotated[bool, Key("ranks hold equal numbers of experts, balanced by load or not")] = False
    at_most_experts: Annotated[bool, Key("no more GPUs in a stage than experts in a layer")] = False
    more_gpus: Annotated[tuple[str, ...], Key("architectures that the limit does not hold for")] = ()
    blocks_in_groups: Annotated[bool, Key("FP8 blocks of latent attention count in several groups, too")] = True
    single_group: Annotated[tuple[str, ...], Key("architectures whose attention cannot run in groups")] = ()
    groups_of_one: Annotated[bool, Key("several attention groups are of one GPU each")] = False
    without_redundant: Annotated[tuple[str, ...], Key("architectures that build no redundant experts")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRules:
    """DeepEP: at most `node_gpus` ranks, or whole nodes of so many. `capabilities`: major ones of CUDA that its kernels
    are built for. `quantizations`: names of config.json that its path takes (empty: all), `none` for unquantised
    weights. `widest`: hidden size of its low-latency kernels, 0: any. `across_groups_only`: the engine uses it between
    attention groups alone. `strided`: a stage's GPUs do not lie side by side where there are several groups."""

    vendors: tuple[str, ...] = ("NVIDIA",)
    capabilities: Annotated[tuple[int, ...], Key("major, that kernels are built for")] = (9, 10)
    node_gpus: Annotated[int, Bounds(low=1, high=1024), Key("ranks of a node, as it counts nodes")] = 8
    most_nodes: Annotated[int, Bounds(low=1, high=10_000), Key("of its throughput kernels, in prefill")] = 20
    low_latency_tokens: Annotated[int, Bounds(low=1), Key("a GPU and step, in decode", unit="tokens")] = 1024
    widest: Annotated[_Count, Key("hidden size of its low-latency kernels; 0: any")] = 0
    without: Annotated[tuple[str, ...], Key("architectures that the engine has no path for")] = ()
    quantizations: Annotated[tuple[str, ...], Key("weights that its path takes; empty: all")] = ()
    across_groups_only: Annotated[bool, Key("not inside one attention group")] = False
    strided: Annotated[bool, Key("stages of several groups do not lie side by side")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapRules:
    """Two micro-batches that hide the experts' communication; a flag of the whole server."""

    possible: bool = True
    needs_deepep: bool = True
    across_groups_only: Annotated[bool, Key("of several attention groups only")] = False
    sequences_per_stage: Annotated[int, Bounds(low=1, high=64), Key("that a decode step needs to be split")] = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRules:
    """Pipeline stages of servers that hand KV caches over. `decode_alike`: stages of a decode server take caches from
    as many stages of a prefill server alone."""

    prefill: Annotated[bool, Key("its connector hands caches over from several stages")] = True
    decode: Annotated[bool, Key("its connector hands caches over to several stages")] = True
    decode_alike: Annotated[bool, Key("to several stages only from as many")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRules:
    """Tokens drafted by the model's own layers (multi-token prediction)."""

    method: Annotated[str, Key("what the engine calls it")] = "mtp"
    most: Annotated[int, Bounds(low=0, high=64), Key("a step", unit="tokens")] = 64
    with_stages: Annotated[bool, Key("in several pipeline stages, too")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionRule:
    """GPUs that can load weights of a format: of a vendor, from a compute capability on (0: any) or of `families`."""

    format: WeightFormat
    vendor: str
    arithmetic: Arithmetic
    from_capability: Annotated[float, Bounds(low=0, high=100), Key("CUDA's; 0: any")] = 0.0
    families: Annotated[tuple[str, ...], Key("families of GPU types; empty: all")] = ()
    blocks: Annotated[bool, Key("with scales by block, too")] = True

    def holds(self, gpu: GpuSpec) -> bool:
        """Whether `gpu` is one of them; where nobody told its capability or family, it is taken to be."""
        if gpu.vendor.upper() != self.vendor:
            return False
        family_known = gpu.family not in _UNKNOWN_FAMILIES
        return (not gpu.compute_capability or gpu.compute_capability >= self.from_capability) and (
            not self.families or not family_known or gpu.family in self.families
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRule:
    """What a vendor's GPUs do not load, by the names of config.json, in whichever format its weights are."""

    vendor: str
    without: Annotated[tuple[str, ...], Key("as quant_method calls them")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRule:
    """How caches go between GPUs of two vendors, and what their engines must agree in across generations."""

    vendors: Annotated[tuple[str, ...], Key("two, which may be the same")]
    backends: Annotated[tuple[str, ...], Key("the first is written; empty: none is known to work")]
    agree: Annotated[str, Key("what servers of several generations must have alike")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProfile:
    """One version of an engine. `images`: by GPU family, else by vendor. `architectures` that it has code for, empty:
    nothing is known. `greatest_batch`: sequences of an attention group that it runs at once, 0: no limit.
    `latent_fp8_cache_from`: compute capability from which an FP8 cache of latent attention is read. `spans_hosts`: the
    pods of a server need nobody who starts their ranks together. `kept_states`: room
    for so many of a sequence that is worked on."""

    name: str = ""
    version: str = ""
    images: Annotated[tuple[tuple[str, str], ...], Mapped()] = ()
    architectures: Annotated[tuple[str, ...], Key("classes of config.json that it has code for")] = ()
    layers: LayerRules = field(default_factory=lambda: LayerRules(checked=False))
    exchange: ExchangeRules = field(default_factory=ExchangeRules)
    overlap: OverlapRules = field(default_factory=OverlapRules)
    stages: StageRules = field(default_factory=StageRules)
    drafts: DraftRules = field(default_factory=lambda: DraftRules(with_stages=True))
    prefill_budgets: Annotated[tuple[int, ...], Key("of a rank and step, to choose from", unit="tokens")] = (
        8192,
        16384,
    )
    greatest_batch: Annotated[_Count, Key("sequences of an attention group; 0: no limit")] = 0
    latent_fp8_cache_from: Annotated[float, Bounds(low=0, high=100), Key("compute capability")] = 0.0
    vendors: Annotated[tuple[str, ...], Key("whose GPUs it runs on; empty: any")] = ()
    spans_hosts: Annotated[bool, Key("servers of several hosts find each other by themselves")] = True
    kept_states: Annotated[int, Bounds(low=1, high=64), Key("of a sequence, where layers keep one")] = KEPT_STATES
    precisions: tuple[PrecisionRule, ...] = ()
    methods: tuple[MethodRule, ...] = ()
    transfer: tuple[TransferRule, ...] = ()
    sources: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @property
    def measured_as(self) -> str:
        """What measurements, and the factors and bands that were fitted to them, call the engine."""
        return _MEASURED_AS.get(self.name, self.name)

    def loads(self, architecture: str) -> bool:
        """Whether it has code for such models; where their architecture or its own are not known, it is taken to."""
        return not architecture or not self.architectures or architecture in self.architectures

    def image(self, gpu: GpuSpec) -> str:
        """The image for the GPUs; empty where none is known."""
        images = dict(self.images)
        return images.get(gpu.family) or images.get(gpu.vendor.upper(), "")

    def arithmetic(self, gpu: GpuSpec, weights: WeightFormat, *, blocks: bool = False) -> Arithmetic | None:
        """What becomes of such weights on `gpu`, `blocks`: with scales by block; None where they cannot be loaded."""
        if not self.precisions:
            return Arithmetic.NATIVE
        rules = [
            rule for rule in self.precisions if rule.format is weights and rule.holds(gpu) and rule.blocks >= blocks
        ]
        return next((rule.arithmetic for rule in rules), None)

    def takes_method(self, gpu: GpuSpec, quantization: str) -> bool:
        """Whether it loads what config.json calls so on `gpu`."""
        return not any(rule.vendor == gpu.vendor.upper() and quantization in rule.without for rule in self.methods)

    def stages_hand_over(self, phase: Phase) -> bool:
        """Whether servers of several stages take part in handing KV caches over."""
        return self.stages.prefill if phase is Phase.PREFILL else self.stages.decode and not self.stages.decode_alike

    def reads_cache(self, gpu: GpuSpec, model: ModelSpec) -> bool:
        """Whether GPUs read the cache's format; where nobody told their capability, they are taken to."""
        latent = any(isinstance(attention, MlaAttention) for attention, _ in model.attentions)
        return not (latent and model.kv_bytes == 1 and 0 < gpu.compute_capability < self.latent_fp8_cache_from)


_MEASURED_AS: Mapping[str, str] = MappingProxyType({"trtllm": "trt"})
PAGE_SIZE = 64
"""Tokens of SGLang's pages where caches go between generations: its backends' defaults differ."""

_TRTLLM_BLOCK = "32"  # tokens, on any GPU (llmapi/llm_args.py, KvCacheConfig.tokens_per_block)
_FLASHINFER_HEADS = (64, 128, 256)
_AMPERE, _HOPPER, _BLACKWELL = 8, 9, 10  # compute capability


def spans_generations(gpus: Collection[GpuSpec]) -> bool:
    """Whether engines on these GPUs have different defaults."""
    return len({_generation(gpu) for gpu in gpus}) > 1


def _generation(gpu: GpuSpec) -> tuple[str, int | str]:
    return gpu.vendor.upper(), int(gpu.compute_capability) or gpu.name


def common_reader(engine: str, model: ModelSpec, gpus: Collection[GpuSpec]) -> str:
    """What engines read caches with that go between these GPUs: vLLM's attention backend, SGLang's tokens of a page,
    TensorRT-LLM's of a block. Empty where they are of one generation, or nothing is known to run on all."""
    return _COMMON.get(engine, _common_backend)(model, gpus) if spans_generations(gpus) else ""


def _common_backend(model: ModelSpec, gpus: Collection[GpuSpec]) -> str:
    if not all(gpu.vendor.upper() == "NVIDIA" and gpu.compute_capability >= _AMPERE for gpu in gpus):
        return ""
    if any(kind.chooses for kind, _ in model.attentions):  # kernels of their own, which differ by generation
        return ""
    if not model.grouped:
        return "" if model.kv_bytes == 1 else "TRITON_MLA"
    if model.windowed:
        return "" if model.kv_bytes == 1 else "TRITON_ATTN"
    if model.kv_bytes == 1:
        return "FLASHINFER" if all(kind.head_dim in _FLASHINFER_HEADS for kind in model.grouped) else ""
    return "FLASH_ATTN"


def own_reader(engine: str, model: ModelSpec, gpu: GpuSpec) -> str:
    """What an engine takes that is told nothing; empty where that is not known."""
    return _BACKEND_OF_ENGINE.get(engine, _own_backend)(model, gpu)


def _own_backend(model: ModelSpec, gpu: GpuSpec) -> str:
    capability = gpu.compute_capability
    chosen = any(kind.chooses for kind, _ in model.attentions)
    covered = gpu.vendor.upper() == "NVIDIA" and model.kv_bytes > 1 and not chosen
    if not covered or not _AMPERE <= capability < _BLACKWELL:
        return ""
    if model.grouped:
        return "" if model.windowed else "FLASH_ATTN"
    return "TRITON_MLA" if capability < _HOPPER else ""


_COMMON: Mapping[str, Callable[[ModelSpec, Collection[GpuSpec]], str]] = MappingProxyType(
    {"sglang": lambda _model, _gpus: str(PAGE_SIZE), "trtllm": lambda _model, _gpus: _TRTLLM_BLOCK}
)
_BACKEND_OF_ENGINE: Mapping[str, Callable[[ModelSpec, GpuSpec], str]] = MappingProxyType(
    {"sglang": lambda _model, _gpu: "", "trtllm": lambda _model, _gpu: _TRTLLM_BLOCK}
)
"""By engine, where it is not vLLM's."""
