"""Which parallel configurations an island may take, and which one it gets.

| symbol | meaning | unit |
|---|---|---|
| G | GPUs of the island | 1 |
| r, pp, dp, tp | replicas, stages of a replica, groups of a stage, GPUs of a group: r pp dp tp = G | 1 |
| R[c, j] | rate of configuration c on range j | requests/s |
| p[j] | probability of range j | 1 |

An island runs one configuration: of those that serve the most ranges (in reference mode: of all) the one with the
smallest sum_j p[j] (best_j - R[c, j]) / best_j.
Source: Rignall 2025, sections 4.6.1-2.
"""

from collections.abc import Sequence

import numpy as np

from planner.cost.arrays import Array, divisors
from planner.cost.device import CostContext
from planner.domain import CostSettings, GpuSpec, ModelSpec, ParallelConfig
from planner.domain.serving.speculation import DraftMethod
from planner.errors import InputError

MOST_STAGES = 8
WORTH_HAVING = 0.01  # of the best rates, averaged over the mix: what a further configuration must add
RARE = 0.02  # what a range counts for at least: the rarest holds up the whole mix where nobody serves it


def configurations(context: CostContext, size: int) -> list[ParallelConfig]:
    """Every configuration of `size` GPUs that the model and the hosts admit, fewest replicas first."""
    return [
        ParallelConfig(tp=shape.tp, dp=shape.dp, pp=shape.pp, replicas=size // devices)
        for devices in reversed(divisors(size))
        for shape in replica_shapes(context, devices)
    ]


def replica_shapes(context: CostContext, devices: int) -> list[ParallelConfig]:
    """Configurations of one replica on `devices` GPUs.

    A tensor-parallel group divides the heads and stays on one host; several stages only where each fills whole hosts;
    a stage has no more GPUs than experts, and one group where there are none (further groups are replicas).
    """
    return [
        ParallelConfig(tp=tp, dp=devices // pp // tp, pp=pp)
        for pp in divisors(devices)
        if stages_suit(context, pp, devices // pp)
        for tp in divisors(devices // pp)
        if group_suits(context.gpu, context.model, tp)
        and spread_suits(context.model, context.settings, devices // pp, tp)
    ]


def stages_suit(context: CostContext, pp: int, stage_devices: int) -> bool:
    """Whether a replica may have `pp` stages of `stage_devices` GPUs."""
    gpu, model, settings = context.gpu, context.model, context.settings
    return pp == 1 or (pp <= min(most_stages(model, settings), model.layers) and stage_devices % gpu.gpus_per_host == 0)


def most_stages(model: ModelSpec, settings: CostSettings) -> int:
    """Most pipeline stages that compete."""
    if settings.max_pipeline_stages is not None:
        return settings.max_pipeline_stages
    return 1 if model.experts else MOST_STAGES


def group_suits(gpu: GpuSpec, model: ModelSpec, tp: int) -> bool:
    """Whether `tp` GPUs may form an attention group."""
    # A latent cache counts as one head, which every GPU holds.
    shared = all(kv == 1 or kv % tp == 0 or tp % kv == 0 for kv in _kv_heads(model))
    return tp <= gpu.gpus_per_host and model.heads % tp == 0 and shared


def _kv_heads(model: ModelSpec) -> list[int]:
    return sorted({attention.divisible_kv_heads for attention, _ in model.attentions})


def spread_suits(model: ModelSpec, settings: CostSettings, stage_devices: int, tp: int) -> bool:
    """Whether a stage may have `stage_devices` GPUs in groups of `tp`."""
    if model.experts is None:
        return stage_devices == tp
    return stage_devices <= model.experts.routed + settings.redundant_experts


def require_configuration(context: CostContext, config: ParallelConfig) -> None:
    """Raises InputError that says what is wrong with one asked-for configuration."""
    gpu, model, settings = context.gpu, context.model, context.settings
    if model.heads % config.tp:
        suited = [str(d) for d in divisors(model.heads) if d <= gpu.gpus_per_host]
        raise InputError(
            f"tp: must divide the {model.heads} attention heads of {model.name}, got {config.tp}.",
            hint=f"Choose one of {', '.join(suited)}.",
        )
    if not group_suits(gpu, model, config.tp):
        raise InputError(
            f"tp: must stay within one host of {gpu.gpus_per_host} {gpu.name} and share out "
            f"{' and '.join(map(str, _kv_heads(model)))} KV heads evenly, got {config.tp}.",
            hint="Choose a smaller degree; more GPUs go to dp, pp or replicas.",
        )
    if config.pp > model.layers:
        raise InputError(
            f"pp: must be at most the {model.layers} layers of {model.name}, got {config.pp}.", hint="Lower it."
        )
    if not spread_suits(model, settings, config.stage_devices, config.tp):
        _refuse_spread(model, settings, config)


def require_drafts(model: ModelSpec, settings: CostSettings) -> None:
    """Raises InputError where tokens are to be drafted by a model that has no layer for it."""
    drafting = settings.drafting
    if drafting.method is DraftMethod.MTP and drafting.tokens != 0 and not model.mtp_layers:
        came = "auto" if drafting.tokens is None else drafting.tokens
        raise InputError(
            f"mtp_tokens: must be 0, {model.name} has no layer for multi-token prediction, got {came}.",
            hint="Leave it out, draft with EAGLE, or choose a model that drafts.",
        )


def _refuse_spread(model: ModelSpec, settings: CostSettings, config: ParallelConfig) -> None:
    if model.experts is None:
        raise InputError(
            f"dp: must be 1, {model.name} has no experts to spread over {config.dp} groups.",
            hint="Further groups of a dense model are replicas.",
        )
    experts = model.experts.routed + settings.redundant_experts
    raise InputError(
        f"devices: must be at most the {experts} experts of {model.name} (redundant copies included), "
        f"got {config.stage_devices}.",
        hint="Use more replicas, or raise cost.redundant_experts.",
    )


def choose(rates_rps: Array, probabilities: Array, among: Sequence[int] | None = None) -> int | None:
    """Index of the configuration with the least weighted deviation from the best; None where all rates are zero.

    `rates_rps` has shape (configurations, ranges); `among` leaves only these rows. Ties go to the first.
    """
    rows = np.arange(len(rates_rps)) if among is None else np.asarray(among)
    rates = rates_rps[rows]
    best = rates.max(axis=0)
    reachable = best > 0
    if not reachable.any():
        return None
    deviation = (best[reachable] - rates[:, reachable]) / best[reachable]
    return int(rows[np.argmin(deviation @ probabilities[reachable])])


def further(rates_rps: Array, probabilities: Array, chosen: int, count: int) -> list[int]:
    """At most so many configurations beside the `chosen` one, each the one that adds most to the best of those before.

    `rates_rps` has shape (configurations, ranges).
    """
    best, counted = rates_rps.max(axis=0), np.maximum(probabilities, RARE)
    reached, added = rates_rps[chosen], list[int]()
    while len(added) < count:
        more = np.maximum(rates_rps - reached, 0.0)  # at most the best, however small that is: a share never overflows
        gains = np.divide(more, best, out=np.zeros(more.shape), where=best > 0) @ counted
        k = int(np.argmax(gains))
        if gains[k] < WORTH_HAVING:
            break
        added.append(k)
        reached = np.maximum(reached, rates_rps[k])
    return added
