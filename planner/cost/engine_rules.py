"""What an engine accepts of a model on a GPU type: asked before a configuration is priced.

Memory is not looked at. A pod has as many GPUs as a whole host can give (`pod_sizes`), as on whole nodes. The export
asks the same functions of `domain.engine`, so that what is accepted here starts there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.cost.device import CostContext
from planner.domain import CostMode, EngineProfile, GpuSpec, ParallelConfig, Phase
from planner.domain.engine import (
    ExchangeSite,
    LayerFault,
    Loading,
    Over,
    deepep_obstacle,
    layer_faults,
    overlap_obstacle,
    pod_sizes,
)

_SPLIT_OVER = {Over.GROUP: "tp", Over.STAGE: "the stage's GPUs", Over.RANKS: "the GPUs that share experts"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Query:
    context: CostContext
    phase: Phase
    parallel: ParallelConfig
    profile: EngineProfile


def refusals(context: CostContext, phase: Phase, parallel: ParallelConfig, profile: EngineProfile) -> tuple[str, ...]:
    """A sentence for each rule that excludes the configuration; empty where the engine accepts it.

    Batches up to `greatest_batch` are taken for granted.
    """
    query = _Query(context=context, phase=phase, parallel=parallel, profile=profile)
    return tuple(
        sentence
        for rule in (
            _model_refusals,
            _host_refusals,
            _group_refusals,
            _layer_refusals,
            _stage_refusals,
            _draft_refusals,
            _format_refusals,
        )
        for sentence in rule(query)
    )


def may_overlap(
    context: CostContext, phase: Phase, parallel: ParallelConfig, profile: EngineProfile, *, batch_size: int = 0
) -> bool:
    """Whether the server flag for two micro-batches is possible: experts on several GPUs, whose exchange the engine can
    hide. `batch_size`: sequences of an attention group in decode, 0: enough of them, and no more than DeepEP takes."""
    if context.model.experts is None or parallel.stage_devices == 1:
        return False
    site = _site(context, phase, parallel, batch_size)
    return not overlap_obstacle(site, profile, deepep_obstacle(site, profile))


def uses_deepep(
    context: CostContext, phase: Phase, parallel: ParallelConfig, profile: EngineProfile, *, batch_size: int = 0
) -> bool:
    """Whether experts exchange tokens by DeepEP's kernels; else the engine gathers them, or has no need to."""
    if context.model.experts is None or parallel.stage_devices == 1:
        return False
    inside_group = profile.exchange.across_groups_only and parallel.dp == 1
    return not inside_group and not deepep_obstacle(_site(context, phase, parallel, batch_size), profile)


def prefill_budgets(profile: EngineProfile) -> tuple[int, ...]:
    """Token budgets of a prefill step of a rank to choose from, ascending."""
    return tuple(sorted(profile.prefill_budgets))


def greatest_batch(context: CostContext, phase: Phase, parallel: ParallelConfig, profile: EngineProfile) -> int:
    """Most sequences of an attention group that a server may be started for; 0 where there is no limit.

    Where experts go by DeepEP in decode, its low-latency kernels bound a step: beyond, the engine would gather tokens,
    neither hide that nor keep the shared expert whole.
    """
    limit = profile.greatest_batch
    if phase is Phase.PREFILL or not uses_deepep(context, phase, parallel, profile):
        return limit
    per_stage = profile.exchange.low_latency_tokens // (1 + _drafted(context))
    exchanged = per_stage * parallel.pp
    return min(limit, exchanged) if limit else exchanged


def kv_backends(profile: EngineProfile, sender: GpuSpec, receiver: GpuSpec) -> tuple[str, ...] | None:
    """What hands KV caches over between two GPU types, the one that is written first; empty: nothing known does; None:
    the profile says nothing of these vendors."""
    vendors = sorted((sender.vendor.upper(), receiver.vendor.upper()))
    rules = (rule for rule in profile.transfer if sorted(rule.vendors) == vendors)
    return next((rule.backends for rule in rules), None)


def _drafted(context: CostContext) -> int:
    return 0 if context.settings.mode is CostMode.REFERENCE else context.settings.drafting.drafted


def _site(context: CostContext, phase: Phase, parallel: ParallelConfig, batch_size: int = 0) -> ExchangeSite:
    # Those of the fullest stage, each with what is drafted for it.
    tokens = -(-batch_size // parallel.pp) * (1 + _drafted(context))
    return ExchangeSite(
        gpu=context.gpu,
        model=context.model,
        phase=phase,
        parallel=parallel,
        gpus_per_pod=next(pod_sizes(parallel, context.gpu.gpus_per_host)),
        decode_tokens=tokens,
        batch_size=batch_size,
    )


def _model_refusals(query: _Query) -> Iterator[str]:
    model, profile = query.context.model, query.profile
    if not profile.loads(model.architecture):
        yield f"{profile} has no code for {model.architecture}, the architecture of {model.name}"


def _host_refusals(query: _Query) -> Iterator[str]:
    gpu, parallel, profile = query.context.gpu, query.parallel, query.profile
    if profile.vendors and gpu.vendor.upper() not in profile.vendors:
        yield f"{profile} runs on GPUs of {' and '.join(profile.vendors)} alone, {gpu.name} is one of {gpu.vendor}"
    if parallel.devices > gpu.gpus_per_host and not profile.spans_hosts:
        rule = f"a server must fit into a host of {gpu.gpus_per_host} GPUs, whose ranks {profile} starts by MPI"
        yield f"{rule} (deploy.target dynamo starts those of several), got {parallel.devices}"


def _group_refusals(query: _Query) -> Iterator[str]:
    """Attention groups are for models with experts alone, and not for each of these."""
    model, parallel, profile = query.context.model, query.parallel, query.profile
    if model.heads % parallel.tp:
        yield f"tp must share out the {model.heads} attention heads of {model.name} evenly, got {parallel.tp}"
    if parallel.dp == 1 or not profile.name:
        return
    if model.experts is None:
        yield f"dp must be 1 for {model.name}, which has no experts, got {parallel.dp}"
    elif model.architecture in profile.layers.single_group:
        yield f"dp must be 1, as {profile} has no attention groups for {model.architecture}, got {parallel.dp}"


def _layer_refusals(query: _Query) -> Iterator[str]:
    """Layers and experts that do not come out even."""
    model, profile = query.context.model, query.profile
    heads = f"{model.heads} attention heads"
    loading = _loading(query.context, query.phase, query.parallel, profile)
    for fault in layer_faults(model, loading, profile.layers):
        if heads not in fault.rule:  # said of every engine
            yield _sentence(fault, profile)
    if loading.redundant and model.experts and model.architecture in profile.layers.without_redundant:
        yield f"redundant experts must be none ({profile} builds none of {model.architecture}), got {loading.redundant}"


def _sentence(fault: LayerFault, profile: EngineProfile) -> str:
    detail = f", {fault.came}" if fault.came else ""
    return f"{_SPLIT_OVER[fault.over]} must {fault.rule} ({profile}), got {fault.degree}{detail}"


def _loading(context: CostContext, phase: Phase, parallel: ParallelConfig, profile: EngineProfile) -> Loading:
    """How the export would lay the model out: `planner.export.engines` writes these flags."""
    model, devices = context.model, parallel.stage_devices
    spread = model.experts is not None and devices > 1
    redundant = (
        0 if context.settings.mode is CostMode.REFERENCE or not model.experts else context.settings.redundant_experts
    )
    exchanged = uses_deepep(context, phase, parallel, profile)
    # Filled up to a multiple of the GPUs, where the engine wants as many on each.
    filled = redundant + -(model.routed_experts + redundant) % devices
    keeps_count = profile.layers.experts_even or exchanged or redundant
    return Loading(
        group=parallel.tp,
        groups=parallel.dp,
        stage=devices,
        spread=spread,
        ranks=devices if spread else 1,
        exchanged=exchanged,
        balanced=spread and redundant > 0,
        redundant=filled if spread and keeps_count else 0,
        dense_whole=parallel.dp > 1,
        vendor=context.gpu.vendor,
    )


def _stage_refusals(query: _Query) -> Iterator[str]:
    parallel, profile = query.parallel, query.profile
    if parallel.pp > 1 and not profile.stages_hand_over(query.phase):
        across = "from" if query.phase is Phase.PREFILL else "to"
        yield f"pp must be 1, as {profile} hands no KV cache over {across} pipeline stages, got {parallel.pp}"


def _draft_refusals(query: _Query) -> Iterator[str]:
    drafted, parallel, profile = _drafted(query.context), query.parallel, query.profile
    if drafted and parallel.pp > 1 and not profile.drafts.with_stages:
        rule = f"{profile} drafts no tokens in pipeline stages ({drafted} are asked for)"
        yield f"pp must be 1, as {rule}, got {parallel.pp}"
    if drafted > profile.drafts.most:
        yield f"drafted tokens must be at most {profile.drafts.most} for {profile}, got {drafted}"


def _format_refusals(query: _Query) -> Iterator[str]:
    gpu, model, profile = query.context.gpu, query.context.model, query.profile
    for weights in model.weight_formats:
        if profile.arithmetic(gpu, weights, blocks=model.weight_block > 0) is None:
            scaled = " with scales by block" * (model.weight_block > 0)
            yield f"{profile} loads no {weights} weights{scaled} on {gpu.name}"
    if not profile.takes_method(gpu, model.quantization):
        yield f"{profile} loads no weights of quant_method {model.quantization} on {gpu.name}"
    if not profile.reads_cache(gpu, model):
        yield (
            f"{profile} reads an FP8 cache of latent attention from compute capability "
            f"{profile.latent_fp8_cache_from:.1f} on, that of {gpu.name} is {gpu.compute_capability:.1f}"
        )
