"""Rates of single replicas, over all ranges.

| symbol | meaning | unit |
|---|---|---|
| s[j] | mean prompt of range j | tokens |
| n | prompts per rank and prefill step | 1 |
| B | sequences of an attention group | 1 |
| N[j] | mean answer to prompts of range j | tokens |
| dp, pp | attention groups, stages of a replica | 1 |
| phi | rate of a prefill pool behind a router over that of its steps (`prefill_pool`) | 1 |

prefill 1000 phi dp n pp / t(s, n): pp steps are under way at once      decode 1000 dp B / (N mean TPOT(s + i, B))
TPOT is linear in the cached length but for kinks (where communication is hidden), so a few points stand for the
whole answer, to 0.1 %. What fits is asked for the longest prompt of a range. Arrays have shape (shapes, ranges).
Under service levels n is the power of two (or the most that fits) with the best rate within them, B the largest batch
within them, and rates stop at a utilisation (`service_levels`).
Source: facts on planning; Rignall 2025, sections 4.2.3 and 4.6.
"""

from dataclasses import replace

import numpy as np

from planner.cost import memory
from planner.cost.arrays import Array, Numbers
from planner.cost.backend import CostBackend
from planner.cost.device import CostContext
from planner.cost.drafts import draft_of
from planner.cost.efficiency import efficiency_of
from planner.cost.grid import Degrees, RateGrid, answer_points, longest_prompts, mean_answers, mean_prompts
from planner.cost.prefix_hits import fresh_tokens, hit_shares
from planner.cost.service_levels import (
    ServiceBounds,
    decode_limits,
    largest_batch_within,
    prefill_limits,
    transfer_ms,
)
from planner.cost.step import Steps
from planner.domain import CostSource, Phase, Workload
from planner.units import MS_PER_S

LARGEST_BATCH = 1024
BATCH_STEP = 8
QUADRATURE_POINTS = 10


def prefill_rates(
    backend: CostBackend,
    context: CostContext,
    workload: Workload,
    degrees: Degrees,
    bounds: ServiceBounds | None = None,
) -> RateGrid:
    """Prefill rates of one replica of each shape; a rank takes as many prompts as budget, memory and bounds allow."""
    model, settings = context.model, context.settings
    lengths = mean_prompts(workload)
    fits = memory.max_prompts(
        context,
        longest=longest_prompts(workload),
        tp=degrees.tp,
        experts_on_device=memory.experts_on_device(model, settings, degrees.devices),
        pp=degrees.pp,
    )
    hits = hit_shares(context, lengths, degrees)
    budget = np.maximum(1, np.floor(settings.max_tokens_per_step / fresh_tokens(lengths, hits)))
    steps = _steps(Phase.PREFILL, degrees, lengths, np.ones(fits.shape), hits)
    prompts = np.minimum(np.minimum(budget, np.floor(np.maximum(fits, 0))), np.floor(backend.largest_batch(steps)))
    ms = backend.step_ms(replace(steps, batch=np.maximum(prompts, 1)))
    # Stages work side by side: pp steps are under way.
    grid = _grid(degrees.dp * prompts * degrees.pp * MS_PER_S / ms, prompts, ms)
    if bounds is not None and bounds.bounds_ttft:
        # A percentile leaves out few requests: the longest prompts of a range must keep the bound as well.
        length = lengths if bounds.misses is None else longest_prompts(workload)
        sent = transfer_ms(context, length, degrees)
        grid = _within_ttft(backend, steps, length, sent, degrees, grid, bounds)
    return replace(grid, rates_rps=grid.rates_rps * pool_share(context))


def pool_share(context: CostContext) -> float:
    """phi: the rate of a prefill pool over that of its steps; a profile was measured as it is served."""
    if context.settings.source is CostSource.TABULATED:
        return 1.0
    return efficiency_of(context.gpu, context.settings.calibration).prefill_pool


def _within_ttft(
    backend: CostBackend,
    steps: Steps,
    length: Array,
    sent_ms: Array,
    degrees: Degrees,
    fullest: RateGrid,
    bounds: ServiceBounds,
) -> RateGrid:
    """The best of steps of 1, 2, 4, ... prompts and of the most that fit, each at the utilisation that it bears."""
    best, bounded = _bounded_grid(backend, steps, length, sent_ms, degrees, fullest.batch_sizes, bounds), bounds.ttft_ms
    prompts = 1.0
    while prompts < fullest.batch_sizes.max(initial=0.0):
        # A range without a bound gains nothing by smaller steps.
        batch = np.where(np.isfinite(bounded), np.minimum(prompts, fullest.batch_sizes), fullest.batch_sizes)
        best = _better(best, _bounded_grid(backend, steps, length, sent_ms, degrees, batch, bounds))
        prompts *= 2
    return best


def _bounded_grid(
    backend: CostBackend,
    steps: Steps,
    length: Array,
    sent_ms: Array,
    degrees: Degrees,
    prompts: Array,
    bounds: ServiceBounds,
) -> RateGrid:
    at_least_one = np.maximum(prompts, 1)
    ms = backend.step_ms(replace(steps, batch=at_least_one))
    service = backend.step_ms(replace(steps, batch=at_least_one, length=length)) + sent_ms
    limits = prefill_limits(bounds, degrees, prompts, ms, service)
    full = degrees.dp * prompts * degrees.pp * MS_PER_S / ms
    return _grid(full * limits, prompts, ms, limits, service)


def _better(first: RateGrid, other: RateGrid) -> RateGrid:
    """Cell by cell the higher rate; the first where they are equal."""
    second = other.rates_rps > first.rates_rps

    def pick(a: Array | None, b: Array | None) -> Array | None:
        return None if a is None or b is None else np.where(second, b, a)

    return RateGrid(
        rates_rps=np.where(second, other.rates_rps, first.rates_rps),
        batch_sizes=np.where(second, other.batch_sizes, first.batch_sizes),
        step_ms=np.where(second, other.step_ms, first.step_ms),
        utilisation_limits=pick(first.utilisation_limits, other.utilisation_limits),
        service_ms=pick(first.service_ms, other.service_ms),
    )


def decode_rates(
    backend: CostBackend,
    context: CostContext,
    workload: Workload,
    degrees: Degrees,
    bounds: ServiceBounds | None = None,
) -> RateGrid:
    """Decode rates of one replica of each shape, each range at the largest batch that fits and keeps to the bounds."""
    tokens = mean_answers(workload)
    cached = mean_prompts(workload)[..., None] + answer_points(tokens, QUADRATURE_POINTS)
    fitting = _fitting_batch(backend, context, workload, degrees, cached)

    def mean_tpot(batch: Array) -> Array:
        return _tpot(backend, degrees, cached, batch)

    if bounds is None:
        batch = _rounded(fitting, degrees)
        tpot = mean_tpot(batch)
        return _grid(degrees.dp * batch * MS_PER_S / (tokens * tpot), batch, tpot)
    judged = judged_lengths(workload, bounds)

    def judged_tpot(batch: Array) -> Array:
        return _tpot(backend, degrees, judged, batch)

    if bounds.bounds_tpot:
        fitting = largest_batch_within(judged_tpot, fitting, np.broadcast_to(degrees.pp, fitting.shape), bounds.tpot_ms)
    batch = _rounded(fitting, degrees)
    batch = np.where(np.isfinite(judged_tpot(batch)), batch, fitting)  # a profile may not reach down to it
    tpot, service = mean_tpot(batch), judged_tpot(batch)
    limits = decode_limits(bounds, degrees, batch, tpot, tokens) if bounds.bounds_ttft else np.ones(batch.shape)
    return _grid(degrees.dp * batch * MS_PER_S / (tokens * tpot) * limits, batch, tpot, limits, service)


def judged_lengths(workload: Workload, bounds: ServiceBounds) -> Array:
    """Cached tokens at which TPOT is held against its bound, shape (1, ranges, points); their mean is taken."""
    tokens = mean_answers(workload)
    if bounds.misses is None:
        return np.asarray(mean_prompts(workload)[..., None] + answer_points(tokens, QUADRATURE_POINTS))
    return np.asarray(longest_prompts(workload)[..., None] + tokens[..., None])


def _tpot(backend: CostBackend, degrees: Degrees, cached: Array, batch: Array) -> Array:
    """Mean TPOT over the points of `cached`; shape (shapes, ranges)."""
    columns = Degrees(
        tp=degrees.tp[..., None], dp=degrees.dp[..., None], pp=degrees.pp[..., None], replicas=degrees.replicas
    )
    steps = _steps(Phase.DECODE, columns, cached, np.maximum(batch, 1)[..., None])
    return np.asarray(backend.step_ms(steps).mean(axis=-1))


def _fitting_batch(
    backend: CostBackend,
    context: CostContext,
    workload: Workload,
    degrees: Degrees,
    cached: Array,
) -> Array:
    """Largest whole batch per shape and range that memory and source admit; 0 where nothing fits."""
    fitting = memory.max_batch(
        context.gpu,
        context.model,
        seq_len=longest_prompts(workload),
        decode_len=workload.max_output_tokens,
        tp=degrees.tp,
        experts_on_device=memory.experts_on_device(context.model, context.settings, degrees.devices),
        pp=degrees.pp,
        draft=draft_of(context.model, context.settings),
    )
    steps = _steps(Phase.DECODE, degrees, cached.max(axis=-1), np.ones(fitting.shape))
    limit = np.minimum(backend.largest_batch(steps), LARGEST_BATCH)
    batch = np.minimum(np.floor(np.maximum(fitting, 0)), np.floor(limit))
    return np.asarray(np.where(batch >= degrees.pp, batch, 0))  # a stage without a sequence would idle


def _rounded(batch: Array, degrees: Degrees) -> Array:
    """A multiple of 8 where there are 8."""
    # Engines capture graphs for multiples of 8.
    rounded = batch - batch % BATCH_STEP
    return np.asarray(np.where(rounded >= np.maximum(BATCH_STEP, degrees.pp), rounded, batch))


def _steps(phase: Phase, degrees: Degrees, length: Array, batch: Array, cached: Numbers = 0.0) -> Steps:
    return Steps(phase=phase, tp=degrees.tp, dp=degrees.dp, pp=degrees.pp, length=length, batch=batch, cached=cached)


def _grid(rates: Array, batch: Array, ms: Array, limits: Array | None = None, service: Array | None = None) -> RateGrid:
    """Rates with nothing where the source has no answer."""
    finite = np.isfinite(ms) if service is None else np.isfinite(ms) & np.isfinite(service)
    return RateGrid(
        rates_rps=np.where(finite, rates, 0.0),
        batch_sizes=np.where(finite, batch, 0.0),
        step_ms=np.where(finite, ms, 0.0),
        utilisation_limits=limits,
        service_ms=None if service is None else np.where(finite, service, 0.0),
    )
