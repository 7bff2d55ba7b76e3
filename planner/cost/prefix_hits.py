"""What of a prompt the caches of a rank that takes prompts in hold: the one place that knows what `cost.kv_cache_rate`
says, and what lies in which tier.

| symbol | meaning | unit |
|---|---|---|
| h | share of a prompt that is found in the cache | 1 |
| s | prompt | tokens |
| C | cache of an attention rank: the prompts of s tokens that fit beside weights and buffers, times s | tokens |
| H(s, C) | share that one cache of C tokens found of the trace's prompts like s (`domain.PrefixReuse`) | 1 |
| H0 | the same of the least cache in the table | 1 |
| r, x | rate of the trace, and of a rank that always has work: 1000 phi n pp / t of its mean prompts | requests/s |
| k | ranks that the prompts are shared out over | 1 |
| C_i | a rank's part of tier i: GB for each GPU (`domain.serving.caches.tiers`), over those of a token | tokens |

A number: h is it. Rows by length: the last row that covers s, 0 where none does. `auto`: H(s, C r / x), as a rank that
gets fewer requests than the trace has keeps prompts for longer; x depends on h, and both are found together by halving
(more hits, more requests, kept for less long). That is of one rank. Of k ranks, those of all GPUs of the type in the
inventory, the most that there can be, `cost.affinity` says what they find by how the router chooses, where the workload
knows how often blocks are used. Where it does not: as of one rank where the router goes by prefix or session; by least
work H0 + (H - H0) / k, as the last prompt that begins alike went to the same rank with chance 1 / k, and what even the
least cache of the table finds, many prompts share (a system prompt), and every rank has it.

Assumed of `auto`: prompts come back as long after each other as in the trace, whatever the rate of the plan; every rank
gets prompts of all lengths. A trace without a clock: x = r. Between sizes of the table H is linear in log C, below the
least in C; beyond the greatest it stays.

Tiers hold what is above them, too, so h is that of the largest: max over i of H(s, C_i r / x), where a store that all
servers share knows no k. What is read from tier i is what it holds and those above it do not. Ranks that do both
phases answer with the device memory that prompts would stay in: none of it counts for them, and x is that of ranks
whose passes are full of sequences in answer.

Where layers keep a state a prefix is found again only where a state was stored, at the end of a block
(`attention.block_tokens`): h s is rounded down to whole blocks, as if the hits of all prompts were alike. Of Mooncake's
prompts, 27.0 % of whose tokens an endless cache finds, blocks of 1,056 tokens leave 23.1 % (said here: 23.2 %), blocks
of 4,096 21.1 % (15.1 %).

Mooncake's hour replayed through 2 to 16 caches (r / x) of 0.26 and 1.05 million tokens: sent to the longest match,
unless that cache has twice the mean work, prompts find 4.6-34.0 %, within 0.3 points of H; dealt at random they find
4.4-7.9 %, at most 1.1 points above what is said here.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from planner.cost import affinity, attention, memory
from planner.cost.affinity import CHOICES
from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.device import CostContext
from planner.cost.drafts import draft_of
from planner.cost.efficiency import efficiency_of
from planner.cost.grid import Degrees
from planner.cost.step import Steps, step_ms
from planner.domain import CachedPrefixes, CacheRate, CostSettings, ParallelConfig, Phase, RangeHits, RouterPolicy
from planner.domain.serving.caches.tiers import CacheTier
from planner.errors import InputError
from planner.units import MS_PER_S

_HALVINGS = 14  # of a share: to 0.0001
_KNOWING = (RouterPolicy.PREFIX_AWARE, RouterPolicy.SESSION)
_MOST_ANSWERED = 1024  # sequences of a group that engines answer at once


def hit_shares(context: CostContext, prompts: Numbers, degrees: Degrees, phase: Phase = Phase.PREFILL) -> Numbers:
    """h of `prompts` (tokens) on replicas of these degrees, of that phase or of both; shapes broadcast, a number stays
    one.

    Raises InputError where `auto` has no trace to draw on.
    """
    rate = context.settings.kv_cache_rate
    if isinstance(rate, tuple):
        shares: Numbers = _by_length(rate, as_array(prompts))
    elif rate == CacheRate.AUTO:
        shares = np.asarray(sum(share for _, share in _by_tier(context, as_array(prompts), degrees, phase)))
    else:
        shares = float(rate)
    block = attention.block_tokens(context.model, degrees.tp)
    if not (block > 1).any():
        return shares
    tokens = as_array(prompts)
    return np.asarray(np.floor(tokens * as_array(shares) / block) * block / tokens)


def tiers_of(context: CostContext) -> tuple[CacheTier, ...]:
    """The tiers below device memory in which something is found, fastest first."""
    settings = context.settings
    if settings.kv_cache_rate != CacheRate.AUTO or settings.prefixes is None or settings.prefixes.tiers is None:
        return ()
    return settings.prefixes.tiers.of(context.gpu, settings.prefixes.fleet_gpus)


def tier_shares(
    context: CostContext, prompts: Array, degrees: Degrees, phase: Phase
) -> tuple[tuple[CacheTier, Array], ...]:
    """Share of `prompts` (tokens) that is read from each tier below device memory, fastest first; () without tiers."""
    if not tiers_of(context):
        return ()
    by_tier = _by_tier(context, prompts, degrees, phase)
    return tuple((tier, share) for tier, share in by_tier if tier is not None)


def shape_hits(context: CostContext, prompts: Numbers, shape: ParallelConfig, phase: Phase = Phase.PREFILL) -> Numbers:
    """h of `prompts` on one replica, in their shape."""
    degrees = Degrees(
        tp=as_array(shape.tp), dp=as_array(shape.dp), pp=as_array(shape.pp), replicas=as_array(shape.replicas)
    )
    return hit_shares(context, prompts, degrees, phase)


def uneven(context: CostContext, prompts: Numbers, hits: Numbers) -> Array:
    """Mean square over squared mean of what prompts of a length do not find where they find the share `hits` in the
    mean; 1 where nothing is known of it."""
    prefixes = context.settings.prefixes
    if context.settings.kv_cache_rate != CacheRate.AUTO or prefixes is None or not prefixes.reuse.unevenness:
        return as_array(1.0)
    reuse, shares = prefixes.reuse, as_array(hits)
    lengths = np.broadcast_to(as_array(prompts), shares.shape)
    row_of = np.clip(np.searchsorted(reuse.starts, lengths, side="right") - 1, 0, len(reuse.starts) - 1)
    ratios = np.ones(shares.shape)
    for row in np.unique(row_of):
        those = row_of == row
        ratios[those] = np.interp(shares[those], reuse.shares[row], reuse.unevenness[row])
    return ratios


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


_TierShares = tuple[tuple[CacheTier | None, Array], ...]
"""Share of prompts that is read from each tier, device memory (None) first."""


def _by_tier(context: CostContext, prompts: Array, degrees: Degrees, phase: Phase) -> _TierShares:
    prefixes = context.settings.prefixes
    if prefixes is None:
        raise InputError(
            "cost.kv_cache_rate: auto needs a workload that knows how its prompts begin alike, got one without.",
            hint="Give a trace with hash_ids (JSON lines), or a number.",
        )
    reuse, pace = prefixes.reuse, (1.0, as_array(1.0))
    if prefixes.arrival_rps is not None:
        pace = prefixes.arrival_rps, _rank_rps(context, prefixes, prefixes.arrival_rps, degrees, phase)
    row = np.clip(np.searchsorted(reuse.starts, prompts, side="right") - 1, 0, len(reuse.starts) - 1)
    return _found_in(context, prompts, degrees, phase, pace, np.array(reuse.shares), row)


def _found_in(
    context: CostContext,
    prompts: Array,
    degrees: Degrees,
    phase: Phase,
    pace: tuple[float, Array],
    table: Array,
    row: NDArray[np.intp],
) -> _TierShares:
    """By tier, what no tier above it holds. `pace`: r, x; at another rate a cache keeps prompts for longer."""
    prefixes = context.settings.prefixes
    assert prefixes is not None, "asked for where there are"
    ranks = _ranks(context, prefixes, degrees)
    shares_by_tier, above = [], as_array(0.0)
    for tier, tokens in _reaches(context, prompts, degrees, phase):
        alone = as_array(1.0) if tier is not None and tier.shared else ranks
        share = _shares_found(prefixes, table, row, tokens * pace[0] / pace[1], alone)
        shares_by_tier.append((tier, np.maximum(share - above, 0.0)))
        above = np.maximum(share, above)
    return tuple(shares_by_tier)


def _reaches(
    context: CostContext, prompts: Array, degrees: Degrees, phase: Phase
) -> Iterator[tuple[CacheTier | None, Array]]:
    """C of device memory and of every tier, tokens of a rank."""
    device = cache_tokens(context, prompts, degrees)
    yield None, np.zeros(device.shape) if phase is Phase.MIXED else device
    for tier in tiers_of(context):
        yield tier, tier.gb_per_gpu / kept_gb(context, prompts, degrees) * prompts


def kept_gb(context: CostContext, prompts: Array, degrees: Degrees) -> Array:
    """What a GPU keeps of a prompt that is over (GB)."""
    return memory.cache_gb(context.model, length=prompts, batch=1, tp=degrees.tp, pp=degrees.pp, states=1)


def tier_load_ms(context: CostContext, prompts: Array, degrees: Degrees, phase: Phase) -> tuple[Array, Array]:
    """(time in which a GPU reads what tiers hold of a prompt of so many tokens, time until the reads begin) (ms)."""
    each_gb, read, begins = kept_gb(context, prompts, degrees), as_array(0.0), as_array(0.0)
    for tier, share in tier_shares(context, prompts, degrees, phase):
        read = read + share * each_gb / tier.gb_per_s_per_gpu * MS_PER_S
        begins = np.maximum(begins, np.where(share > 0, tier.latency_ms, 0.0))
    return read, begins


def _ranks(context: CostContext, prefixes: CachedPrefixes, degrees: Degrees) -> Array:
    """k; 1 where nothing is known of the inventory."""
    gpus = dict(prefixes.gpus).get(context.gpu.name)
    if gpus is None:
        return as_array(1.0)
    return np.asarray(np.maximum(1.0, np.floor(gpus / (degrees.devices * degrees.pp))) * degrees.dp)


def _rank_rps(
    context: CostContext, prefixes: CachedPrefixes, arrival_rps: float, degrees: Degrees, phase: Phase
) -> Array:
    """x, in the shape of the degrees: the rate at which a rank has the hits that make it so fast."""
    prompt, reuse = as_array(prefixes.mean_prompt), prefixes.reuse
    mean, first = np.array([reuse.mean_shares]), np.zeros((), dtype=np.intp)
    cache = cache_tokens(context, prompt, degrees)
    low, high = np.zeros(cache.shape), np.ones(cache.shape)
    answering_s = _answering_s(context, prefixes, degrees) if phase is Phase.MIXED else 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        pace = arrival_rps, _mean_rps(context, prompt, middle, degrees, answering_s)
        by_tier = _found_in(context, prompt, degrees, phase, pace, mean, first)
        more = sum(share for _, share in by_tier) > middle
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    # The end with more hits: a faster rank keeps prompts for less long, so that none are counted too many.
    return _mean_rps(context, prompt, high, degrees, answering_s)


def _answering_s(context: CostContext, prefixes: CachedPrefixes, degrees: Degrees) -> Array:
    """What the mean answer takes of a rank that answers as many as its memory holds (s): the least that it can be."""
    settings, model = context.settings, context.model
    draft = draft_of(model, settings)
    contexts = as_array(prefixes.mean_prompt + prefixes.mean_answer / 2)
    fits = memory.max_batch(
        context.gpu,
        model,
        seq_len=contexts,
        decode_len=0.0,
        tp=degrees.tp,
        experts_on_device=memory.experts_on_device(model, settings, degrees.devices),
        draft=draft,
    )
    batch = np.clip(np.floor(fits), 1.0, _MOST_ANSWERED)
    steps = Steps(phase=Phase.DECODE, tp=degrees.tp, dp=degrees.dp, pp=degrees.pp, length=contexts, batch=batch)
    return np.asarray(prefixes.mean_answer * step_ms(context, steps) / batch / MS_PER_S)


def _mean_rps(context: CostContext, prompt: Array, hits: Array, degrees: Degrees, answering_s: Numbers = 0.0) -> Array:
    """Requests/s of a rank whose steps are full, at the mean prompt; answers take `answering_s` of it each."""
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
    taken_in = np.asarray(pace * prompts * degrees.pp * MS_PER_S / step_ms(context, steps))
    return taken_in / (1 + taken_in * answering_s)


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


def _shares_found(prefixes: CachedPrefixes, table: Array, row: NDArray[np.intp], cache: Array, ranks: Array) -> Array:
    """H(s, cache) where there is one rank, else what several find; shapes broadcast.

    `table`: shares by `row` of lengths and by size, the last column without bounds."""
    statistic = prefixes.reuse.affinity
    sizes = np.array(prefixes.reuse.cache_tokens, dtype=float)
    if statistic is not None and (ranks > 1).any():
        single, part = affinity.found_by(statistic, CHOICES[RouterPolicy(prefixes.policy)], cache, ranks)
        return np.asarray(_of_one(sizes, table, row, single) * np.minimum(1.0, single / sizes[0]) * part)
    blind = as_array(1.0) if prefixes.policy in _KNOWING else ranks
    shares, common = _of_one(sizes, table, row, cache), table[row, 0]
    return np.asarray((common + (shares - common) / blind) * np.minimum(1.0, cache / sizes[0]))


def _of_one(sizes: Array, table: Array, row: NDArray[np.intp], cache: Array) -> Array:
    """H(s, cache), of less than the least size as of that; infinite caches have the last column."""
    rows, tokens = np.broadcast_arrays(row, cache)
    after = np.clip(np.searchsorted(sizes, tokens), 0, len(sizes) - 1)
    before = np.maximum(after - 1, 0)
    steps = np.log(sizes[after] / sizes[before])
    bounded = np.clip(tokens, sizes[0], sizes[-1])
    part = np.divide(np.log(bounded / sizes[before]), steps, out=np.ones(tokens.shape), where=steps > 0)
    shares = table[rows, before] + part * (table[rows, after] - table[rows, before])
    return np.asarray(np.where(np.isinf(tokens), table[rows, -1], shares))
