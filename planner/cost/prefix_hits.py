"""What of a prompt the prefix cache of a prefill rank holds: the one place that knows what `cost.kv_cache_rate` says.

| symbol | meaning | unit |
|---|---|---|
| h | share of a prompt that is found in the cache | 1 |
| s | prompt | tokens |
| C | cache of an attention rank: the prompts of s tokens that fit beside weights and buffers, times s | tokens |
| H(s, C) | share that one cache of C tokens found of the trace's prompts like s (`domain.PrefixReuse`) | 1 |
| n | ranks that the prompts are shared out over | 1 |

A number: h is it. Rows by length: the last row that covers s, 0 where none does. `auto`: H(s, C) where the router
is prefix-aware, H(s, C) / n where it chooses by least work: an earlier prompt that begins alike went to the same rank
with chance 1 / n, n being the ranks of all GPUs of the type in the inventory, the most that there can be.

Assumed of `auto`: every rank sees about as many requests a second as the trace has, as in a plan of n ranks that serves
n times the trace's rate. Ranks that see fewer keep prompts for longer and find more, up to H without bounds; ranks that
see more find less. Prefixes that all prompts share (a system prompt) are found by every rank: there 1 / n is too low.
Between sizes of the table H is linear in log C, below the least in C; beyond the greatest it stays.
"""

import numpy as np

from planner.cost import memory
from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.device import CostContext
from planner.cost.grid import Degrees
from planner.domain import CacheRate, CostSettings, ParallelConfig, PrefixReuse, RangeHits
from planner.errors import InputError


def hit_shares(context: CostContext, prompts: Numbers, degrees: Degrees) -> Numbers:
    """h of `prompts` (tokens) on replicas of these degrees; shapes broadcast, a number stays one.

    Raises InputError where `auto` has no trace to draw on.
    """
    rate = context.settings.kv_cache_rate
    if isinstance(rate, tuple):
        return _by_length(rate, as_array(prompts))
    if rate == CacheRate.AUTO:
        return _of_trace(context, as_array(prompts), degrees)
    return float(rate)


def shape_hits(context: CostContext, prompts: Numbers, shape: ParallelConfig) -> Numbers:
    """h of `prompts` on one replica, in their shape."""
    degrees = Degrees(
        tp=as_array(shape.tp), dp=as_array(shape.dp), pp=as_array(shape.pp), replicas=as_array(shape.replicas)
    )
    return hit_shares(context, prompts, degrees)


def with_points(hits: Numbers) -> Numbers:
    """The shares with an axis behind, for steps at several points; a number stays one."""
    return hits if isinstance(hits, float) else as_array(hits)[..., None]


def fresh_tokens(prompts: Numbers, hits: Numbers) -> Array:
    """Tokens of prompts that are not in the cache; a rounding error must not cost a chunk."""
    return np.asarray(np.round(as_array(prompts) * (1 - as_array(hits)), 6))


def number_of_hits(settings: CostSettings) -> float:
    """h where it has to be one number. Raises InputError where it is none."""
    rate = settings.kv_cache_rate
    if isinstance(rate, tuple | CacheRate):
        came = "auto" if rate == CacheRate.AUTO else "rows by prompt length"
        raise InputError(
            f"cost.kv_cache_rate: must be a number in reference mode, got {came}.",
            hint="Give the mean share of a prompt that is cached, or use mode default.",
        )
    return float(rate)


def _by_length(rows: tuple[RangeHits, ...], prompts: Array) -> Array:
    hits = np.zeros(prompts.shape)
    for row in rows:
        hits = np.where((prompts >= row.start) & (prompts < row.end), row.share, hits)
    return hits


def _of_trace(context: CostContext, prompts: Array, degrees: Degrees) -> Array:
    prefixes = context.settings.prefixes
    if prefixes is None:
        raise InputError(
            "cost.kv_cache_rate: auto needs a workload that knows how its prompts begin alike, got one without.",
            hint="Give a trace with hash_ids (JSON lines), or a number.",
        )
    shares = _interpolated(prefixes.reuse, prompts, cache_tokens(context, prompts, degrees))
    gpus = dict(prefixes.gpus).get(context.gpu.name)
    if gpus is None:
        return shares
    copies = np.maximum(1.0, np.floor(gpus / (degrees.devices * degrees.pp)))
    return np.asarray(shares / (copies * degrees.dp))


def cache_tokens(context: CostContext, prompts: Numbers, degrees: Degrees) -> Array:
    """C of a prefill rank, all stages of a pipeline together; 0 where the weights do not fit."""
    fits = memory.max_prompts(
        context,
        longest=prompts,
        tp=degrees.tp,
        experts_on_device=memory.experts_on_device(context.model, context.settings, degrees.devices),
        pp=degrees.pp,
    )
    return np.asarray(np.maximum(fits, 0.0) * degrees.pp * as_array(prompts))


def _interpolated(reuse: PrefixReuse, prompts: Array, cache: Array) -> Array:
    """H, shape of `prompts` and `cache` broadcast."""
    sizes = np.array(reuse.cache_tokens, dtype=float)
    table = np.array(reuse.shares)[:, :-1]
    lengths, tokens = np.broadcast_arrays(prompts, cache)
    row = np.clip(np.searchsorted(reuse.starts, lengths, side="right") - 1, 0, len(table) - 1)
    after = np.clip(np.searchsorted(sizes, tokens), 0, len(sizes) - 1)
    before = np.maximum(after - 1, 0)
    bounded = np.clip(tokens, sizes[0], sizes[-1])
    steps = np.log(sizes[after] / sizes[before])
    part = np.divide(np.log(bounded / sizes[before]), steps, out=np.ones(tokens.shape), where=steps > 0)
    shares = table[row, before] + part * (table[row, after] - table[row, before])
    return np.asarray(shares * np.minimum(1.0, tokens / sizes[0]))
