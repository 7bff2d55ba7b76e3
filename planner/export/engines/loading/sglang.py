"""What SGLang refuses when it loads a model: layers that it cannot split, experts that it cannot spread, exchanges that
a model's own code does not have.

symbol     meaning                                                    source
world      GPUs of a stage, `--tp-size`                               -
group      GPUs of an attention group, `--tp-size` / `--dp-size`      -

Split over the world: the shared expert, unless tokens are exchanged by an all-to-all backend or experts are not spread
(then it is one of them); dense layers, unless `--moe-dense-tp-size` is 1. Split over the group: heads, embedding,
output head. On AMD the shared expert may stay one of the experts, by image and model: nothing is said of it there.
The variable SGLANG_SHARED_EXPERT_TP1 would keep it whole, but each GPU then takes the tokens of all through it, which
no plan counts on.

Sources, version 0.5.18 (python/sglang/srt): models/deepseek_v2.py and glm4_moe.py (shared_experts,
shared_experts_fusion_disable_reason), models/gpt_oss.py and mixtral.py, layers/moe/fused_moe_triton/layer.py (experts
over ranks), layers/moe/ep_moe/layer.py (which weights DeepEP's path takes), layers/quantization/mxfp4.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from planner.domain import ModelSpec
from planner.domain.engine import Loading, Over
from planner.export.engines.arguments import read_count, read_flags
from planner.export.engines.layer_splits import Breach, loading_faults
from planner.export.islands import ServingIsland

NAME = "sglang"
REMEDY = "Export for vllm, or plan with sizes that it can split (search: {method: exact, sizes: powers_of_two})."
_WHOLE_SHARED = frozenset({"deepep", "mooncake", "nixl", "mori", "ascend_fuseep", "flashinfer"})
_GROUPS = "enable-dp-attention"
_FLAG_OF = MappingProxyType({Over.GROUP: "tp-size", Over.STAGE: "tp-size", Over.RANKS: "ep-size"})
_HALF_BYTES = 2.0
_BLACKWELL = 10


def check_model(arguments: Sequence[str], island: ServingIsland, /) -> Iterator[Breach]:
    """What SGLang, started with `arguments`, could not load of the island's model."""
    values, model, profile = read_flags(arguments), island.model, island.profile(NAME)
    yield from loading_faults(model, _loading(values, island), profile, _FLAG_OF)
    redundant = read_count(values, "ep-num-redundant-experts", 0)
    if redundant and model.architecture in profile.layers.without_redundant:
        yield f"--ep-num-redundant-experts must be left out: SGLang's {model.architecture} builds none", str(redundant)
    if model.architecture in profile.layers.single_group and _GROUPS in values:
        name = model.architecture.removesuffix("ForCausalLM")
        yield f"--{_GROUPS} must be left out: SGLang's {name} has no attention groups", "there"


def _loading(values: Mapping[str, str], island: ServingIsland) -> Loading:
    stage, ranks = read_count(values, "tp-size", 1), read_count(values, "ep-size", 1)
    groups = read_count(values, "dp-size", 1) if _GROUPS in values else 1
    return Loading(
        group=stage // groups if groups > 0 else 0,
        groups=groups,
        stage=stage,
        spread=ranks > 1,
        ranks=ranks,
        exchanged=values.get("moe-a2a-backend") in _WHOLE_SHARED,
        balanced="enable-eplb" in values,
        redundant=read_count(values, "ep-num-redundant-experts", 0),
        dense_whole=values.get("moe-dense-tp-size") == "1",
        vendor=island.gpu.vendor,
    )


def is_unquantised(model: ModelSpec) -> bool:
    """Whether experts lie in BF16: DeepEP's path takes those by one runner, which SGLang does not choose itself."""
    return not model.quantization and model.expert_bytes >= _HALF_BYTES


def upcast_notes(island: ServingIsland) -> tuple[str, ...]:
    """MXFP4 experts that SGLang spreads come to two bytes each where no kernel takes them."""
    spread = island.model.experts is not None and island.parallel.stage_devices > 1
    if not spread or island.model.quantization != "mxfp4" or island.gpu.compute_capability >= _BLACKWELL:
        return ()
    return (
        "WARNING: SGLang turns MXFP4 experts that are spread over GPUs into BF16 on GPUs before compute capability 10: "
        "four times the memory that the plan counts on. Export for vllm, or name a runner (--moe-runner-backend).",
    )
