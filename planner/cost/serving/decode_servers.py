"""What decode servers do of a bucket's mix at one batch a server, within the bounds on TPOT.

| symbol | meaning | unit |
|---|---|---|
| o, B, j | server (shape, overlap), bucket, range | |
| N[j] | mean answer to prompts of range j | tokens |
| r[B, j] | share of a batch's places: w N / sum_j w N | 1 |
| c[j] | cached tokens of a sequence in mid-answer: prompt + N / 2 | tokens |
| t(c, b) | time per output token at a batch of b sequences a group that have c tokens each | ms |
| z | standard deviations that a percentile asks for: 2.33 for P99 | 1 |
| C | places of all servers of the bucket together | 1 |

rate = 1000 dp b / (sum_j w N t(sum_j r c, b)): t is linear in c but for kinks. The bound on TPOT holds for the load
that all but a share of the moments stay below: t at sum_j r c + z sd(c) / sqrt(b). b fits where b mean + 2.33 sd
sqrt(b) of the caches of whole sequences fits: in 99 of 100 moments nothing is preempted. Under bounds on TTFT the load
stays where all but `PLACE_MISSES` of the requests that may miss find a place within `PLACE_TIME` of the bound (M/M/C).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.cost import memory
from planner.cost.arrays import Array
from planner.cost.backend import server_step_ms
from planner.cost.device import CostContext
from planner.cost.drafts import draft_of
from planner.cost.grid import Degrees
from planner.cost.queueing import erlang_c
from planner.cost.service_levels import nic_s
from planner.cost.serving.buckets import Buckets, Levels
from planner.cost.serving.paced import paced
from planner.cost.serving.remembered import remembered
from planner.cost.serving.waits import POISSON, Arrivals
from planner.cost.step import Steps
from planner.domain import ParallelConfig, Phase, ServerConfig
from planner.units import MS_PER_S

BATCHES = (1, 2, 4, *range(8, 129, 8), *range(160, 513, 32), *range(576, 1025, 64))
"""Sequences of an attention group that are tried: multiples of 8, which graphs are captured for."""

CONTEXTS = 8  # lengths at which step times are known
FULL_MOMENTS = 2.33  # standard deviations: memory suffices in 99 of 100 moments
PLACE_MISSES = 0.1  # of the requests that may miss a bound on TTFT, those that find no place
PLACE_WAITS = 0.05  # of all requests, where a bound holds for the mean
PLACE_TIME = 0.05  # of a bound on TTFT, that a wait for a place may take
_HALVINGS = 30
_EVENEST = 0.01  # I of arrivals that come like clockwork: that of none is smaller


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeServers:
    """Servers of one GPU type: shapes with their overlap. `contexts`: tokens; `step_ms`: shape (servers, contexts,
    batches); `cache_gb`: of a whole sequence of each range, (servers, ranges); `free_gb`, (servers,), less the buffers
    of a step of each batch, (servers, batches); `longest_gb`: cache of the longest sequence of each range;
    `batch_limit`: greatest batch, (servers,); `nic_s`: seconds that a request takes of the NICs of a server, (servers,
    ranges), 0: none are counted; `drafted`: tokens that each drafts where it chose them."""

    shapes: tuple[tuple[ParallelConfig, bool], ...]
    contexts: Array
    step_ms: Array
    cache_gb: Array
    longest_gb: Array
    free_gb: Array
    batch_limit: Array
    nic_s: Array
    drafted: tuple[int | None, ...]

    @classmethod
    @paced(Phase.DECODE)
    @remembered()
    def of(
        cls,
        context: CostContext,
        options: Sequence[tuple[ParallelConfig, bool]],
        buckets: Buckets,
        longest_answer: int,
        batch_limit: Sequence[int] = (),
        drafted: int | None = None,
    ) -> "DecodeServers":
        """`options`: shape of a copy, whether communication is overlapped. `batch_limit`: greatest batch of each that
        the engine takes, 0 without a limit. `drafted`: tokens a step, where the servers chose them."""
        context = replace(context, settings=context.settings.with_drafted(drafted))
        degrees = Degrees.of([shape for shape, _ in options])
        model, settings = context.model, context.settings
        # Loads above the mean are judged, too: half as long again as the longest mean.
        shortest, longest = float(contexts_of(buckets).min()), float(contexts_of(buckets).max()) * 1.5 + 1
        contexts = np.geomspace(max(1.0, shortest), longest, CONTEXTS)
        draft = draft_of(model, settings)
        experts = memory.experts_on_device(model, settings, degrees.devices)
        free = memory.free_gb(context.gpu, model, tp=degrees.tp, experts_on_device=experts, pp=degrees.pp, draft=draft)
        buffers = memory.activation_gb(model, 1 + settings.drafting.drafted, degrees.tp)

        def cache_gb(tokens: Array) -> Array:
            return memory.cache_gb(model, length=tokens[None], batch=1, tp=degrees.tp, pp=degrees.pp, draft=draft)

        return cls(
            shapes=tuple(options),
            contexts=contexts,
            step_ms=_step_ms(context, options, contexts),
            cache_gb=cache_gb(buckets.prompts + buckets.answers) + buffers,
            longest_gb=cache_gb(buckets.longest + longest_answer) + buffers,
            free_gb=free[:, 0],
            batch_limit=np.array([float(limit or BATCHES[-1]) for limit in batch_limit or [0] * len(options)]),
            nic_s=nic_s(context, buckets.prompts, degrees.devices[:, 0]),
            drafted=(drafted,) * len(options),
        )

    def shape(self, row: int) -> ParallelConfig:
        """Shape of the copies in a row."""
        return self.shapes[row][0]

    @property
    def devices(self) -> Array:
        """GPUs of a server, shape (servers,)."""
        return np.array([float(shape.devices) for shape, _ in self.shapes])

    @property
    def ranks(self) -> Array:
        """Attention groups of a server, shape (servers,)."""
        return np.array([float(shape.dp) for shape, _ in self.shapes])

    def loads(self, buckets: Buckets) -> tuple[Array, Array, Array, Array]:
        """(answer tokens of a request, r, mean and standard deviation of c) of each bucket."""
        tokens = buckets.weights @ buckets.answers
        places = buckets.weights * buckets.answers / tokens[:, None]
        context = contexts_of(buckets)
        mean = places @ context
        within = buckets.answers**2 / 12  # a sequence is met anywhere in its answer
        spread = np.sqrt(np.maximum(places @ (context**2 + within) - mean**2, 0.0))
        return tokens, places, mean, spread

    def batches(self, buckets: Buckets, levels: Levels, only: int | None = None) -> tuple[Array, Array]:
        """(best batch, its rate of one server without queues), shape (servers, buckets); 0 where nothing suits.

        `only`: the batch that the servers are started for, where it is given."""
        tokens, _, mean, spread = self.loads(buckets)
        grid = np.array(BATCHES, dtype=float)
        step = self.times_at(np.broadcast_to(mean[None, :, None], (len(self.shapes), len(mean), len(grid))))
        judged = self.times_at(mean[None, :, None] + levels.spread * spread[None, :, None] / np.sqrt(grid))
        bound = np.where(buckets.members, levels.tpot_ms, np.inf).min(axis=1)
        rates = self.ranks[:, None, None] * grid * MS_PER_S / (tokens[:, None] * step)
        suits = (judged <= bound[:, None]) & self.fits(buckets) & ((grid == only) if only else (grid > 0))
        rates = np.where(suits & np.isfinite(rates), rates, 0.0)
        # Of equal rates the smaller batch, which comes first.
        best = rates.argmax(axis=-1)
        rate = np.take_along_axis(rates, best[..., None], axis=-1)[..., 0]
        return np.where(rate > 0, grid[best], 0.0), rate

    def fits(self, buckets: Buckets) -> Array:
        """Whether a batch fits, shape (servers, buckets, batches)."""
        _, places, _, _ = self.loads(buckets)
        mean = self.cache_gb @ places.T
        spread = np.sqrt(np.maximum(self.cache_gb**2 @ places.T - mean**2, 0.0))
        grid = np.array(BATCHES, dtype=float)
        full = mean[..., None] * grid + FULL_MOMENTS * spread[..., None] * np.sqrt(grid)
        longest = (buckets.members[None] * self.longest_gb[:, None]).max(axis=-1)
        stages = np.array([float(shape.pp) for shape, _ in self.shapes])
        # Whatever the mean, the longest sequence must fit alone.
        enough = np.maximum(full, longest[..., None]) <= self.free_gb[:, None, None]
        # A stage without a sequence would idle.
        return np.asarray(enough & (grid >= stages[:, None, None]) & (grid <= self.batch_limit[:, None, None]))

    def times_at(self, context: Array) -> Array:
        """Step times at `context` tokens, shape (servers, buckets, batches); lines between and beyond known ones."""
        points = self.contexts
        shape = (len(self.shapes), context.shape[1], len(BATCHES))
        where = np.broadcast_to(context, shape)
        cell = np.clip(np.searchsorted(points, where) - 1, 0, len(points) - 2)
        before = np.take_along_axis(self.step_ms, cell, axis=1)
        after = np.take_along_axis(self.step_ms, cell + 1, axis=1)
        part = (where - points[cell]) / (points[cell + 1] - points[cell])
        with np.errstate(invalid="ignore"):  # a profile has no answer beyond what was measured: no number either
            return np.asarray(before + part * (after - before))

    def range_rps(self, buckets: Buckets, levels: Levels) -> Array:
        """What no bucket's mix can exceed of each range, of one server, shape (servers, ranges) (requests/s).

        A range may be decoded at the largest batch that fits any bucket which holds it, and the bound on TPOT is held
        against the shortest context: whatever a range is mixed with, it takes no less time than that.
        """
        grid = np.array(BATCHES, dtype=float)
        fits = self.fits(buckets)
        batch_limit = np.where(fits, grid, 0.0).max(axis=-1)  # (servers, buckets)
        largest = np.where(buckets.members.T[None], batch_limit[:, None], 0.0).max(axis=-1)  # (servers, ranges)
        context = contexts_of(buckets)
        step = self.times_at(np.broadcast_to(context[None, :, None], (len(self.shapes), len(context), len(grid))))
        shortest_ms = self.times_at(np.full((1, len(context), len(grid)), float(context.min())))
        suits = (grid <= largest[..., None]) & (shortest_ms <= levels.tpot_ms[None, :, None])
        rates = self.ranks[:, None, None] * grid * MS_PER_S / (buckets.answers[None, :, None] * step)
        return np.asarray(np.where(suits, rates, 0.0).max(axis=-1))

    def capped_rps(
        self,
        buckets: Buckets,
        levels: Levels,
        together_rps: Array,
        only: int | None = None,
        arrivals: Arrivals = POISSON,
        *,
        served: bool = False,
    ) -> tuple[Array, Array, Array]:
        """(batch, rate within the bounds and what its NICs carry, full rate) of one server, shape (servers, buckets);
        `only` as in `batches`.

        `together_rps`: full rate of all servers of each bucket, or what they have to serve of it (`served`)."""
        batch, full = self.batches(buckets, levels, only)
        carried = buckets.rps_of(self.nic_s)
        if not levels.bounds_ttft:
            return batch, np.minimum(full, carried), full
        places = self.ranks[:, None] * batch
        stays_ms = np.divide(places * MS_PER_S, full, out=np.ones(full.shape), where=full > 0)
        share = np.divide(together_rps[None], full, out=np.ones(full.shape), where=full > 0)
        misses = PLACE_WAITS if levels.misses is None else PLACE_MISSES * levels.misses
        stay = Stay(
            places=places, stays_ms=stays_ms, patience_ms=PLACE_TIME * levels.least_ttft_ms(buckets), misses=misses
        )
        return batch, np.minimum(full * largest_load(stay, share, arrivals, served=served), carried), full

    def tpot_ms(self, buckets: Buckets, rate: Array, batch: Array, deviations: float) -> Array:
        """Time per output token at `rate` of each server, shape (servers, buckets); `deviations` of the load above its
        mean. The batch in use follows from the rate (Little's law), at most `batch`."""
        tokens, _, mean, spread = self.loads(buckets)
        grid = np.array(BATCHES, dtype=float)
        step = self.times_at(mean[None, :, None] + deviations * spread[None, :, None] / np.sqrt(grid))
        plain = self.times_at(np.broadcast_to(mean[None, :, None], step.shape))
        served = self.ranks[:, None, None] * grid * MS_PER_S / (tokens[:, None] * plain)
        used = np.empty(rate.shape)
        for o, b in np.ndindex(rate.shape):
            finite = np.isfinite(step[o, b] + plain[o, b])
            load = float(np.interp(rate[o, b], served[o, b][finite], grid[finite]))
            load = min(load + deviations * math.sqrt(load), max(1.0, float(batch[o, b])))
            used[o, b] = np.interp(load, grid[finite], step[o, b][finite])
        return used

    def config(self, row: int, batch: int) -> ServerConfig:
        """A server of the shape in `row`, started for `batch` sequences a group."""
        shape, overlapped = self.shapes[row]
        return ServerConfig(parallel=shape, batch_size=batch, overlapped=overlapped, drafted=self.drafted[row])

    def at_pace(self, pace: float) -> "DecodeServers":
        """The same servers where every step is so many times as fast."""
        return replace(self, step_ms=self.step_ms / pace)

    def among(self, rows: Sequence[int]) -> "DecodeServers":
        """Some of the servers."""
        chosen = list(rows)
        return replace(
            self,
            shapes=tuple(self.shapes[row] for row in chosen),
            step_ms=self.step_ms[chosen],
            cache_gb=self.cache_gb[chosen],
            longest_gb=self.longest_gb[chosen],
            free_gb=self.free_gb[chosen],
            batch_limit=self.batch_limit[chosen],
            nic_s=self.nic_s[chosen],
            drafted=tuple(self.drafted[row] for row in chosen),
        )

    @classmethod
    def joined(cls, parts: Sequence["DecodeServers"]) -> "DecodeServers":
        """The servers of all parts, on the same buckets."""
        columns = ("step_ms", "cache_gb", "longest_gb", "free_gb", "batch_limit", "nic_s")
        return replace(
            parts[0],
            shapes=tuple(shape for part in parts for shape in part.shapes),
            drafted=tuple(tokens for part in parts for tokens in part.drafted),
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in columns},
        )


def contexts_of(buckets: Buckets) -> Array:
    """c of each range, shape (ranges,)."""
    return np.asarray(buckets.prompts + (buckets.answers - 1) / 2)


def _step_ms(context: CostContext, options: Sequence[tuple[ParallelConfig, bool]], contexts: Array) -> Array:
    times = np.empty((len(options), len(contexts), len(BATCHES)))
    for overlapped in (False, True):
        rows = [row for row, (_, flag) in enumerate(options) if flag is overlapped]
        if rows:
            degrees = Degrees.of([options[row][0] for row in rows])
            steps = Steps(
                phase=Phase.DECODE,
                tp=degrees.tp[..., None],
                dp=degrees.dp[..., None],
                pp=degrees.pp[..., None],
                length=contexts[None, :, None],
                batch=np.array(BATCHES, dtype=float)[None, None],
            )
            times[rows] = server_step_ms(context, steps, overlapped=overlapped)
    return times


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """Sequences in places of a server, shape (servers, buckets): how long they stay, and for how long no more than
    `misses` of the arrivals may wait for a place."""

    places: Array
    stays_ms: Array
    patience_ms: Array
    misses: Array | float


def largest_load(stay: Stay, share: Array, arrivals: Arrivals, *, served: bool) -> Array:
    """Share of the places in use up to which so few wait too long; the bucket has `share` times the places of a server,
    or as many as carry so much at that load (`served`), never fewer than one server's.

    P(wait > y) = C e^(-y c (1 - rho) / stay), C of Erlang with c places. Arrivals that bunch need as many places as if
    each place were I of Poisson's (Hayward), I over the time of a stay. A blind router leaves every server to its own
    arrivals."""
    low, high = np.zeros(stay.places.shape), np.ones(stay.places.shape)
    stays_ms = np.maximum(stay.stays_ms, 1.0)
    counts = arrivals.at(stays_ms)
    for _ in range(_HALVINGS):
        # At a higher load more of them wait too long.
        middle = (low + high) / 2
        servers = np.maximum(share / middle if served else share, 1.0)
        peak = np.maximum(1 + (counts - 1) / servers if arrivals.blind else counts, _EVENEST)
        places = np.maximum((stay.places if arrivals.blind else stay.places * servers) / peak, 1.0)
        late = erlang_c(places, middle) * np.exp(-stay.patience_ms * places * (1 - middle) / stays_ms)
        low, high = np.where(late <= stay.misses, middle, low), np.where(late <= stay.misses, high, middle)
    # The end that is known to hold.
    return low
