"""Rates of single replicas, over all ranges.

| symbol | meaning | unit |
|---|---|---|
| s[j] | midpoint of range j | tokens |
| n | prompts per rank and prefill step | 1 |
| B | sequences of an attention group | 1 |
| N | mean answer | tokens |
| dp, pp | attention groups, stages of a replica | 1 |

prefill 1000 dp n pp / t(s, n): pp steps are under way at once      decode 1000 dp B / (N mean TPOT(s + i, B))
TPOT is linear in the cached length but for one kink (where communication is hidden), so a few points stand for the
whole answer, to 0.1 %. What fits is asked for the longest prompt of a range. Arrays have shape (shapes, ranges).
Source: facts on planning; Rignall 2025, sections 4.2.3 and 4.6.
"""

from dataclasses import replace

import numpy as np

from planner.cost import memory
from planner.cost.arrays import Array
from planner.cost.backend import CostBackend
from planner.cost.grid import Degrees, RateGrid, answer_points, longest_prompts, midpoints
from planner.cost.step import Steps
from planner.domain import CostSettings, GpuSpec, ModelSpec, Phase, Workload
from planner.units import MS_PER_S

LARGEST_BATCH = 1024
BATCH_STEP = 8
QUADRATURE_POINTS = 8


def prefill_rates(
    backend: CostBackend,
    gpu: GpuSpec,
    model: ModelSpec,
    settings: CostSettings,
    workload: Workload,
    degrees: Degrees,
) -> RateGrid:
    """Prefill rates of one replica of each shape; a rank takes as many prompts as budget and memory allow."""
    lengths = midpoints(workload)
    fits = memory.max_prompts(
        gpu,
        model,
        settings,
        longest=longest_prompts(workload),
        tp=degrees.tp,
        experts_on_device=memory.experts_on_device(model, settings, degrees.devices),
        pp=degrees.pp,
    )
    fresh = np.round(lengths * (1 - settings.kv_cache_rate), 6)
    budget = np.maximum(1, np.floor(settings.max_tokens_per_step / fresh))
    steps = _steps(Phase.PREFILL, degrees, lengths, np.ones(fits.shape), settings.kv_cache_rate)
    prompts = np.minimum(np.minimum(budget, np.floor(np.maximum(fits, 0))), np.floor(backend.largest_batch(steps)))
    ms = backend.step_ms(replace(steps, batch=np.maximum(prompts, 1)))
    return _grid(degrees.dp * prompts * degrees.pp * MS_PER_S / ms, prompts, ms)


def decode_rates(
    backend: CostBackend,
    gpu: GpuSpec,
    model: ModelSpec,
    settings: CostSettings,
    workload: Workload,
    degrees: Degrees,
) -> RateGrid:
    """Decode rates of one replica of each shape, each range at the largest batch that fits."""
    tokens = max(1.0, workload.mean_output_tokens)
    cached = midpoints(workload)[..., None] + answer_points(tokens, QUADRATURE_POINTS)
    batch = _batch(backend, gpu, model, settings, workload, degrees, cached)
    columns = Degrees(
        tp=degrees.tp[..., None], dp=degrees.dp[..., None], pp=degrees.pp[..., None], replicas=degrees.replicas
    )
    tpot = backend.step_ms(_steps(Phase.DECODE, columns, cached, np.maximum(batch, 1)[..., None])).mean(axis=-1)
    return _grid(degrees.dp * batch * MS_PER_S / (tokens * tpot), batch, tpot)


def _batch(
    backend: CostBackend,
    gpu: GpuSpec,
    model: ModelSpec,
    settings: CostSettings,
    workload: Workload,
    degrees: Degrees,
    cached: Array,
) -> Array:
    """Largest batch per shape and range, a multiple of 8 where there are 8; 0 where nothing fits."""
    most = memory.max_batch(
        gpu,
        model,
        seq_len=longest_prompts(workload),
        decode_len=workload.max_output_tokens,
        tp=degrees.tp,
        experts_on_device=memory.experts_on_device(model, settings, degrees.devices),
        pp=degrees.pp,
        tokens_per_sequence=1 + settings.mtp_tokens,
    )
    steps = _steps(Phase.DECODE, degrees, cached.max(axis=-1), np.ones(most.shape))
    known = np.minimum(backend.largest_batch(steps), LARGEST_BATCH)
    whole = np.minimum(np.floor(np.maximum(most, 0)), np.floor(known))
    whole = np.where(whole >= degrees.pp, whole, 0)  # a stage without a sequence would idle
    rounded = whole - whole % BATCH_STEP
    return np.where(rounded >= np.maximum(BATCH_STEP, degrees.pp), rounded, whole)


def _steps(phase: Phase, degrees: Degrees, length: Array, batch: Array, cached: float = 0.0) -> Steps:
    return Steps(phase=phase, tp=degrees.tp, dp=degrees.dp, pp=degrees.pp, length=length, batch=batch, cached=cached)


def _grid(rates: Array, batch: Array, ms: Array) -> RateGrid:
    """Rates with nothing where the source has no answer."""
    known = np.isfinite(ms)
    return RateGrid(
        rates_rps=np.where(known, rates, 0.0),
        batch_sizes=np.where(known, batch, 0.0),
        step_ms=np.where(known, ms, 0.0),
    )
