"""What vLLM refuses when it loads a model: layers that its tensor-parallel groups cannot split, experts of which ranks
would hold unlike numbers.

The shared expert and dense layers are split over a group; DeepSeek's models keep the shared expert whole where several
groups spread their experts. A group's experts are split only where `--enable-expert-parallel` is missing.

Sources, version 0.18.0 (vllm): config/model.py (verify_with_parallel_config), model_executor/models/deepseek_v2.py and
glm4_moe.py (shared_experts), config/parallel.py (use_sequence_parallel_moe), model_executor/layers/fused_moe/
deepep_ll_prepare_finalize.py (SUPPORTED_HIDDEN_SIZES).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from planner.domain.engine import Loading, Over
from planner.export.engines.arguments import read_count, read_flags
from planner.export.engines.layer_splits import Breach, loading_faults
from planner.export.islands import ServingIsland

NAME = "vllm"
REMEDY = "Plan with sizes that it can split (search: {method: exact, sizes: powers_of_two})."
_TENSOR, _DATA, _EXPERTS = "tensor-parallel-size", "data-parallel-size", "enable-expert-parallel"
_EXCHANGES = frozenset({"deepep_high_throughput", "deepep_low_latency"})
_FLAG_OF = MappingProxyType({Over.GROUP: _TENSOR, Over.STAGE: _TENSOR, Over.RANKS: _DATA})


def check_model(arguments: Sequence[str], island: ServingIsland, /) -> Iterator[Breach]:
    """What vLLM, started with `arguments`, could not load of the island's model."""
    loading = _loading(read_flags(arguments), island)
    yield from loading_faults(island.model, loading, island.profile(NAME), _FLAG_OF)


def _loading(values: Mapping[str, str], island: ServingIsland) -> Loading:
    group, groups = read_count(values, _TENSOR, 1), read_count(values, _DATA, 1)
    return Loading(
        group=group,
        groups=groups,
        stage=group * groups,
        spread=_EXPERTS in values,
        ranks=group * groups,
        exchanged=values.get("all2all-backend") in _EXCHANGES,
        balanced="enable-eplb" in values,
        redundant=_redundant(values),
        vendor=island.gpu.vendor,
    )


def _redundant(values: Mapping[str, str]) -> int:
    try:
        config = json.loads(values.get("eplb-config", "{}"))
    except (ValueError, RecursionError):
        return 0
    count = config.get("num_redundant_experts", 0) if isinstance(config, dict) else 0
    return count if type(count) is int else 0
