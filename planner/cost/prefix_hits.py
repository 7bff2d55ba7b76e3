"""What of a prompt the prefix cache of a prefill rank holds: the one place that knows what `cost.kv_cache_rate` says.

| symbol | meaning | unit |
|---|---|---|
| h | share of a prompt that is found in the cache | 1 |
| s | prompt | tokens |
| C | cache of an attention rank: the prompts of s tokens that fit beside weights and buffers, times s | tokens |
| H(s, C) | share that one cache of C tokens found of the trace's prompts like s (`domain.PrefixReuse`) | 1 |
| H0 | the same of the least cache in the table | 1 |
| r, x | rate of the trace, and of a rank that always has work: 1000 phi n pp / t of its mean prompts | requests/s |
| k | ranks that the prompts are shared out over | 1 |

A number: h is it. Rows by length: the last row that covers s, 0 where none does. `auto`: H(s, C r / x), as a rank that
gets fewer requests than the trace has keeps prompts for longer; x depends on h, and both are found together by halving
(more hits, more requests, kept for less long). That is where the router is prefix-aware. Where it chooses by least work
h is H0 + (H - H0) / k: the last prompt that begins alike went to the same rank with chance 1 / k; what even the least
cache of the table finds, many prompts share (a system prompt), and every rank has it. k: the ranks of all GPUs of the
type in the inventory, the most that there can be.

Assumed of `auto`: prompts come back as long after each other as in the trace, whatever the rate of the plan; every rank
gets prompts of all lengths. A trace without a clock: x = r. Between sizes of the table H is linear in log C, below the
least in C; beyond the greatest it stays.

Where layers keep a state a prefix is found again only where a state was stored, at the end of a block
(`attention.block_tokens`): h s is rounded down to whole blocks, as if the hits of all prompts were alike. Of Mooncake's
prompts, 27.0 % of whose tokens an endless cache finds, blocks of 1,056 tokens leave 23.1 % (said here: 23.2 %), blocks
of 4,096 21.1 % (15.1 %).

Mooncake's hour replayed through 2 to 16 caches (r / x) of 0.26 and 1.05 million tokens: sent to the longest match,
unless that cache has twice the mean work, prompts find 4.6-34.0 %, within 0.3 points of H; dealt at random they find
4.4-7.9 %, at most 1.1 points above what is said here.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.cost import attention, memory
from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.device import CostContext
from planner.cost.efficiency import efficiency_of
from planner.cost.grid import Degrees
from planner.cost.step import Steps, step_ms
from planner.domain import CachedPrefixes, CacheRate, CostSettings, ParallelConfig, Phase, RangeHits
from planner.errors import InputError
from planner.units import MS_PER_S

_HALVINGS = 14  # of a share: to 0.0001


def hit_shares(context: CostContext, prompts: Numbers, degrees: Degrees) -> Numbers:
    """h of `prompts` (tokens) on replicas of these degrees; shapes broadcast, a number stays one.

    Raises InputError where `auto` has no trace to draw on.
    """
    rate = context.settings.kv_cache_rate
    if isinstance(rate, tuple):
        shares: Numbers = _by_length(rate, as_array(prompts))
    elif rate == CacheRate.AUTO:
        shares = _of_trace(context, as_array(prompts), degrees)
    else:
        shares = float(rate)
    block = attention.block_tokens(context.model, degrees.tp)
    if not (block > 1).any():
        return shares
    tokens = as_array(prompts)
    return np.asarray(np.floor(tokens * as_array(shares) / block) * block / tokens)


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
        value = "auto" if rate == CacheRate.AUTO else "rows by prompt length"
        raise InputError(
            f"cost.kv_cache_rate: must be a number in reference mode, got {value}.",
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
    ranks, reuse = _ranks(context, prefixes, degrees), prefixes.reuse
    cache = cache_tokens(context, prompts, degrees)
    if prefixes.arrival_rps is not None:
        cache = cache * prefixes.arrival_rps / _rank_rps(context, prefixes, prefixes.arrival_rps, ranks, degrees)
    row = np.clip(np.searchsorted(reuse.starts, prompts, side="right") - 1, 0, len(reuse.starts) - 1)
    return _shares_found(np.array(reuse.shares), reuse.cache_tokens, row, cache, ranks)


def _ranks(context: CostContext, prefixes: CachedPrefixes, degrees: Degrees) -> Array:
    """k; 1 where the router sends a prompt to its prefix."""
    gpus = dict(prefixes.gpus).get(context.gpu.name)
    if gpus is None:
        return as_array(1.0)
    return np.asarray(np.maximum(1.0, np.floor(gpus / (degrees.devices * degrees.pp))) * degrees.dp)


def _rank_rps(
    context: CostContext, prefixes: CachedPrefixes, arrival_rps: float, ranks: Array, degrees: Degrees
) -> Array:
    """x, in the shape of the degrees: the rate at which a rank has the hits that make it so fast."""
    prompt, reuse = as_array(prefixes.mean_prompt), prefixes.reuse
    mean, first = np.array([reuse.mean_shares]), np.zeros((), dtype=np.intp)
    cache = cache_tokens(context, prompt, degrees)
    low, high = np.zeros(cache.shape), np.ones(cache.shape)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        lasting = cache * arrival_rps / _mean_rps(context, prompt, middle, degrees)
        more = _shares_found(mean, reuse.cache_tokens, first, lasting, ranks) > middle
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    # The end with more hits: a faster rank keeps prompts for less long, so that none are counted too many.
    return _mean_rps(context, prompt, high, degrees)


def _mean_rps(context: CostContext, prompt: Array, hits: Array, degrees: Degrees) -> Array:
    """Requests/s of a rank whose steps are full, at the mean prompt."""
    prompts = np.maximum(1.0, context.settings.max_tokens_per_step / np.maximum(1.0, fresh_tokens(prompt, hits)))
    steps = Steps(
        phase=Phase.PREFILL,
        tp=degrees.tp,
        dp=degrees.dp,
        pp=degrees.pp,
        length=prompt,
        batch=prompts,
        cached=hits,
    )
    pace = efficiency_of(context.gpu, context.settings.calibration).prefill_pool
    return np.asarray(pace * prompts * degrees.pp * MS_PER_S / step_ms(context, steps))


def cache_tokens(context: CostContext, prompts: Numbers, degrees: Degrees) -> Array:
    """C of a prefill rank, all stages of a pipeline together; 0 where the weights do not fit. Of a prompt that is over
    one state stays."""
    fits = memory.max_prompts(
        context,
        longest=prompts,
        tp=degrees.tp,
        experts_on_device=memory.experts_on_device(context.model, context.settings, degrees.devices),
        pp=degrees.pp,
        states=1,
    )
    return np.asarray(np.maximum(fits, 0.0) * degrees.pp * as_array(prompts))


def _shares_found(
    table: Array, cache_tokens: Sequence[int], row: NDArray[np.intp], cache: Array, ranks: Array
) -> Array:
    """H(s, cache) where there is one rank, H0 + (H - H0) / k where there are more; shapes broadcast.

    `table`: shares by `row` of lengths and by size, the last column without bounds."""
    sizes = np.array(cache_tokens, dtype=float)
    rows, tokens = np.broadcast_arrays(row, cache)
    after = np.clip(np.searchsorted(sizes, tokens), 0, len(sizes) - 1)
    before = np.maximum(after - 1, 0)
    steps = np.log(sizes[after] / sizes[before])
    bounded = np.clip(tokens, sizes[0], sizes[-1])
    part = np.divide(np.log(bounded / sizes[before]), steps, out=np.ones(tokens.shape), where=steps > 0)
    shares = table[rows, before] + part * (table[rows, after] - table[rows, before])
    common = table[rows, 0]
    return np.asarray((common + (shares - common) / ranks) * np.minimum(1.0, tokens / sizes[0]))
