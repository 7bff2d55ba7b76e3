"""On how few GPUs of each type a model can be served, by memory and by the engine's rules: before any rate is asked."""

from collections.abc import Iterable

from planner.cost.device import CostContext
from planner.cost.engine_rules import refusals
from planner.cost.memory import experts_on_device, free_gb, max_batch
from planner.cost.parallelism import replica_shapes
from planner.domain import CostSettings, EngineProfile, GpuSpec, ModelSpec, ParallelConfig, Phase
from planner.domain.model.fits import ModelFit

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_TOKENS = 32_768


def model_fits(model: ModelSpec, gpus: Iterable[GpuSpec], profile: EngineProfile) -> tuple[ModelFit, ...]:
    """A fit a GPU type, for sequences of 32K tokens, or as many as the model takes."""
    return tuple(_fit(CostContext(gpu=gpu, model=model, settings=CostSettings()), profile) for gpu in gpus)


def _fit(context: CostContext, profile: EngineProfile) -> ModelFit:
    tokens, refusal = min(_TOKENS, context.model.max_context), ""
    for size in _SIZES:
        degrees = [(shape, _sequences(context, shape, tokens)) for shape in replica_shapes(context, size)]
        fitting = [(shape, sequences) for shape, sequences in degrees if sequences > 0]
        refused = [refusals(context, Phase.DECODE, shape, profile) for shape, _ in fitting]
        accepted = tuple(pair for pair, sentences in zip(fitting, refused, strict=True) if not sentences)
        if accepted:
            return ModelFit(gpu=context.gpu.name, gpus=size, tokens=tokens, degrees=accepted)
        refusal = next((sentences[0] for sentences in refused), refusal)
    least = f"not on {_SIZES[-1]} GPUs of {context.gpu.memory_gb:g} GB"
    return ModelFit(gpu=context.gpu.name, gpus=0, tokens=tokens, refusal=refusal or least)


def _sequences(context: CostContext, shape: ParallelConfig, tokens: int) -> int:
    """Sequences that one copy holds, all its attention groups together; at most 0 where the weights do not fit."""
    gpu, model = context.gpu, context.model
    experts = experts_on_device(model, context.settings, shape.stage_devices)
    if free_gb(gpu, model, tp=shape.tp, experts_on_device=experts, pp=shape.pp) <= 0:
        return 0
    batch = max_batch(gpu, model, seq_len=tokens, decode_len=0, tp=shape.tp, experts_on_device=experts, pp=shape.pp)
    return int(batch) * shape.dp
