"""What servers that do both phases do of a bucket's mix: full rate, and the rate within the bounds on TPOT and TTFT.

| symbol | meaning | unit |
|---|---|---|
| o, B, j | server (shape, budget), bucket, range | |
| w[B, j] | share of the bucket's requests | 1 |
| b | sequences of an attention group in answer | 1 |
| N[j], D | mean answer to prompts of range j, of the bucket: sum_j w N | tokens |
| c | mean cached tokens of a sequence in mid-answer (`decode_servers`) | tokens |
| g | tokens that a pass yields a sequence: 1 without drafts | tokens |
| t(c, b) | time per output token of b sequences without prompts | ms |
| A[j](b) | what a prompt adds to the passes of its rank (`prompt_times`: added, by its bucket's `fuller`) | ms |
| T | TPOT: t(c, b) + b / D sum_j w A: a pass with all that comes until the next one, over g | ms |
| x | rate of one server: 1000 dp b / (D T); of one request a rank needs D t / b + sum_j w A | requests/s |
| z | standard deviations that a percentile asks for: 2.33 for P99 | 1 |
| v | m2 / m1^2 of the prompts' fresh tokens | 1 |
| F | rate at which prompts fill all passes: 1000 dp / sum_j w busy[j](b) | requests/s |
| rho, eta | x / F; tail of the wait: 1000 (ca2 + v - 1) / 2 / (F n (1 - rho)), n servers of the bucket | 1, ms |
| e1, e2, e3 | sums of the passes' lengths, of their squares and cubes, for each pass of the sequences | ms^k |
| S, u | e3 / e2; e2^2 / (e1 e3) times the chance that a pass is under way, 1 - exp(-dp b) | ms, 1 |

Time shares add up: at one b the rate on a bucket is the harmonic mix of the rates on its ranges, where one rank is all.
TPOT is judged where the caches of a batch are z sd(c) / sqrt(b) above their mean, and where z sqrt(v / b) more prompts
than the mean come in the course of an answer: as many as are in answer, b, by Little's law. Both together as the root
of the sum of squares. b fits as with decode servers, in what the buffers of a pass of `budget` tokens leave.
TTFT of range j = rest of the pass under way + wait + own chunks + first token. Rest: even over 0..S with chance u, as
its mean is e2 / (2 e1) and its mean square e3 / (3 e1); P(wait > y) = rho e^(-y / eta). Own chunks: taken in apart.
First token: what the fit of closed loops found beside them, a fixed time and so many TPOT. A place must be free for all
but `PLACE_MISSES` of the requests that may miss within `PROMPT_TIME` of the bound (M/M/C, stays as in full batches).
Servers have no pipeline stages, and no overlap. Source: facts on aggregated serving, and on the fit of the cost model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.cost import memory
from planner.cost.arrays import Array
from planner.cost.benchmarks.engines import EngineShares, engine_shares
from planner.cost.device import CostContext
from planner.cost.grid import Degrees
from planner.cost.serving.between_batches import GRID, at, places_around, ranges_at
from planner.cost.serving.buckets import Buckets, Levels, pool_rps
from planner.cost.serving.decode_servers import (
    BATCHES,
    PLACE_MISSES,
    PLACE_WAITS,
    DecodeServers,
    Stay,
    contexts_of,
    largest_load,
)
from planner.cost.serving.paced import paced
from planner.cost.serving.prefill_servers import HALVINGS
from planner.cost.serving.prompt_times import PromptTimes, fuller
from planner.cost.serving.waits import POISSON, Arrivals, FullRanks, RestOfStep, WaitTail, late_share, wait_tail
from planner.domain import ParallelConfig, Phase, ServerConfig
from planner.errors import InputError
from planner.units import MS_PER_S

_NEGLIGIBLE_MS = 1e-9
PROMPT_TIME = 0.5  # of a bound on TTFT, that a prompt may wait for a place: it waits for nothing else then


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mix:
    """What servers do of buckets at every batch, shape (servers, buckets, batches): times (ms), e2 / g and e3 / g
    (`squared`, `cubed`), and rates of one server (requests/s)."""

    tpot_ms: Array
    late_tpot_ms: Array
    squared: Array
    cubed: Array
    busy_ms: Array
    rates: Array

    def in_use(self, rate: Array) -> Array:
        """b that yields `rate`, shape (servers, buckets): by Little's law, with lines between known times."""
        # A rate may dip from one batch to the next; what is searched has to rise.
        curve = np.maximum.accumulate(self.rates, axis=-1)
        above = np.minimum((curve < rate[..., None]).sum(axis=-1), len(GRID) - 1)
        below = np.maximum(above - 1, 0)
        low, high = (np.take_along_axis(self.tpot_ms, k[..., None], axis=-1)[..., 0] for k in (below, above))
        above_rps = np.take_along_axis(self.rates, above[..., None], axis=-1)[..., 0]
        slope = np.where(above > 0, (high - low) / (GRID[above] - np.where(above > 0, GRID[below], 0.0)), 0.0)
        # a rank answers b = by_time T sequences, and T = high - slope (b[above] - b)
        by_time = np.divide(rate * GRID[above], above_rps * high, out=np.zeros(rate.shape), where=above_rps > 0)
        used = by_time * (high - slope * GRID[above]) / np.maximum(1 - by_time * slope, 1e-9)
        return np.asarray(np.clip(used, np.where(above > 0, GRID[below], 0.0), GRID[above]))


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedServers:
    """Servers of one type for both phases. `budgets`: tokens of a rank's pass, (servers,); `decode`: them without
    prompts and buffers; `prompts`: what these take; `gain`: g; `first_token`: its fixed time (ms), and TPOTs."""

    budgets: Array
    decode: DecodeServers
    prompts: PromptTimes
    gain: Array
    first_token: EngineShares

    @classmethod
    @paced(Phase.MIXED)
    def of(
        cls,
        context: CostContext,
        options: Sequence[tuple[ParallelConfig, int]],
        buckets: Buckets,
        longest_answer: int,
        batch_limit: Sequence[int] = (),
        drafted: int | None = None,
        used: Sequence[float] = (),
    ) -> "MixedServers":
        """`options`: shape of a copy, token budget of a rank and pass. `batch_limit`: greatest batch of each that the
        engine takes, 0 without a limit. `drafted`: tokens a step, where the servers chose them. `used`: batches that
        alone will be asked about, where they are known. Raises InputError on pipeline stages."""
        context = replace(context, settings=context.settings.with_drafted(drafted))
        shapes = list(dict.fromkeys(shape for shape, _ in options))
        for shape in shapes:
            if shape.pp > 1:
                raise InputError(
                    f"pp: must be 1 where servers do both phases, got {shape.pp}.", hint="Choose shapes without stages."
                )
        rows = [shapes.index(shape) for shape, _ in options]
        of_shapes = [(shape, False) for shape in shapes]
        alone = DecodeServers.of(context, of_shapes, buckets, longest_answer, drafted=drafted).among(rows)
        budgets = np.array([float(budget) for _, budget in options])
        degrees = Degrees.of([shape for shape, _ in options])
        buffers = memory.activation_gb(context.model, budgets, degrees.tp[:, 0])
        limits = np.array([float(limit or BATCHES[-1]) for limit in batch_limit or [0] * len(options)])
        # Verified tokens count against the budget of a pass as prompts do.
        room = np.floor(budgets / (1 + context.settings.drafting.drafted))
        return cls(
            budgets=budgets,
            decode=replace(alone, free_gb=alone.free_gb - buffers, batch_limit=np.minimum(limits, room)),
            prompts=PromptTimes.between(context, options, buckets, BATCHES, places_around(used))
            if len(used)
            else PromptTimes.of(context, options, buckets, BATCHES),
            gain=np.full(len(options), context.settings.drafting.gain),
            first_token=engine_shares(context.settings.engine, context.settings.calibration),
        )

    def shape(self, row: int) -> ParallelConfig:
        """Shape of the copies in a row."""
        return self.decode.shape(row)

    @property
    def devices(self) -> Array:
        """GPUs of a server, shape (servers,)."""
        return self.decode.devices

    @property
    def drafted(self) -> tuple[int | None, ...]:
        """Tokens that each drafts where it chose them."""
        return self.decode.drafted

    def config(self, row: int, batch: int) -> ServerConfig:
        """A server of the shape and budget in `row`, started for `batch` sequences a group."""
        return replace(self.decode.config(row, batch), tokens_per_step=int(self.budgets[row]))

    def at_pace(self, pace: float) -> "MixedServers":
        """Every pass so many times as fast."""
        return replace(self, decode=self.decode.at_pace(pace), prompts=self.prompts.at_pace(pace))

    def among(self, rows: Sequence[int]) -> "MixedServers":
        """Some of the servers."""
        chosen = list(rows)
        return replace(
            self,
            budgets=self.budgets[chosen],
            decode=self.decode.among(chosen),
            prompts=self.prompts.among(chosen),
            gain=self.gain[chosen],
        )

    @classmethod
    def joined(cls, parts: Sequence["MixedServers"]) -> "MixedServers":
        """The servers of all parts, on the same buckets."""
        return replace(
            parts[0],
            budgets=np.concatenate([part.budgets for part in parts]),
            decode=DecodeServers.joined([part.decode for part in parts]),
            prompts=PromptTimes.joined([part.prompts for part in parts]),
            gain=np.concatenate([part.gain for part in parts]),
        )

    def _mix(self, buckets: Buckets, deviations: float = 0.0) -> _Mix:
        """What they do of the buckets; `late_tpot_ms` at so many standard deviations."""
        answer, _, mean, spread = self.decode.loads(buckets)
        wide = (len(self.budgets), len(mean), len(GRID))
        alone = self.decode.times_at(np.broadcast_to(mean[None, :, None], wide))
        varied, prompt = self._spread_of(buckets)[..., None], self._mean(buckets)[..., None]
        begun, ranks = GRID * self.gain[:, None, None] / answer[:, None], self.decode.ranks[:, None, None]
        fill = fuller(begun, prompt, varied * prompt, self.budgets[:, None, None], ranks)
        added = fill * (buckets.weights @ self.prompts.added_ms)
        share = GRID / answer[:, None]  # prompts that begin in a TPOT
        tpot, gain = alone + share * added, self.gain[:, None, None]
        longer = self.decode.times_at(mean[None, :, None] + deviations * spread[None, :, None] / np.sqrt(GRID)) - alone
        more = deviations * np.sqrt(varied / GRID) * share * added
        return _Mix(
            tpot_ms=tpot,
            late_tpot_ms=tpot + np.hypot(longer, more),
            squared=gain * alone**2 + share * fill**2 * (buckets.weights @ self.prompts.squared),
            cubed=gain**2 * alone**3 + share * fill**3 * (buckets.weights @ self.prompts.cubed),
            busy_ms=buckets.weights @ self.prompts.busy_ms,
            rates=np.minimum(ranks * GRID * MS_PER_S / (answer[:, None] * tpot), self._carried_rps(buckets)[..., None]),
        )

    def _carried_rps(self, buckets: Buckets) -> Array:
        """What the links to the tiers below device memory let one server read, shape (servers, buckets); infinite where
        there are none, one row where it is the same of all."""
        link_ms = np.stack([buckets.weights @ row for row in self.prompts.link_ms])
        ranks_rps = self.decode.ranks[:, None] * MS_PER_S
        return np.asarray(np.where(link_ms > 0, ranks_rps / np.maximum(link_ms, _NEGLIGIBLE_MS), np.inf))

    def full_rps(self, buckets: Buckets, levels: Levels, only: int | None = None) -> tuple[Array, Array]:
        """(best batch, its rate of one server where nobody waits), shape (servers, buckets); 0 where nothing suits.

        `only`: the batch that the servers are started for, where it is given."""
        return self._best(self._mix(buckets, levels.spread), buckets, levels, only)

    def _spread_of(self, buckets: Buckets) -> Array:
        """v, shape (servers, buckets), one row where it is the same of all."""
        squared = np.stack([buckets.weights @ row for row in self.prompts.fresh_squared])
        return np.asarray(squared / self._mean(buckets) ** 2)

    def _mean(self, buckets: Buckets) -> Array:
        """m1, shape (servers, buckets), one row where it is the same of all."""
        return np.stack([buckets.weights @ row for row in self.prompts.fresh])

    def _best(self, mix: _Mix, buckets: Buckets, levels: Levels, only: int | None) -> tuple[Array, Array]:
        bound = np.where(buckets.members, levels.tpot_ms, np.inf).min(axis=1)
        chosen = (only == GRID) if only else (GRID > 0)
        suits = (mix.late_tpot_ms <= bound[:, None]) & self.decode.fits(buckets) & chosen
        rates = np.where(suits & np.isfinite(mix.rates), mix.rates, 0.0)
        best = rates.argmax(axis=-1)
        rate = np.take_along_axis(rates, best[..., None], axis=-1)[..., 0]
        return np.where(rate > 0, GRID[best], 0.0), rate

    def range_rps(self, buckets: Buckets, levels: Levels) -> Array:
        """What no bucket's mix can exceed of each range, of one server, shape (servers, ranges) (requests/s).

        As with decode servers: the largest batch that fits any bucket with the range, and the least TPOT that any mix
        has at it, that of the shortest contexts with the prompts that add least for each token of their answers.
        """
        fitting = np.where(self.decode.fits(buckets), GRID, 0.0).max(axis=-1)  # (servers, buckets)
        largest = np.where(buckets.members.T[None], fitting[:, None], 0.0).max(axis=-1)  # (servers, ranges)
        context, answers = contexts_of(buckets), buckets.answers[None, :, None]
        wide = (len(self.budgets), len(context), len(GRID))
        alone = self.decode.times_at(np.broadcast_to(context[None, :, None], wide))
        added = GRID * self.prompts.added_ms / answers
        least_ms = self.decode.times_at(np.full(wide, float(context.min()))) + added.min(axis=1, keepdims=True)
        suits = (largest[..., None] >= GRID) & (least_ms <= levels.tpot_ms[None, :, None])
        rates = self.decode.ranks[:, None, None] * GRID * MS_PER_S / (answers * (alone + added))
        return np.asarray(np.where(suits, rates, 0.0).max(axis=-1))

    def rates_alone(self, buckets: Buckets, batches: Sequence[float]) -> Array:
        """Rate of one server on each range alone, where nobody waits, at so many sequences a group for each, shape
        (servers, ranges) (requests/s)."""
        used = np.broadcast_to(np.array(batches, dtype=float), (len(self.budgets), len(batches)))
        wide = (*used.shape, len(GRID))
        alone = self.decode.times_at(np.broadcast_to(contexts_of(buckets)[None, :, None], wide))
        busy = buckets.answers * at(alone, used) + used * at(self.prompts.added_ms, used)
        return np.asarray(self.decode.ranks[:, None] * used * MS_PER_S / busy)

    def capped_rps(
        self,
        buckets: Buckets,
        levels: Levels,
        together_rps: Array,
        only: int | None = None,
        arrivals: Arrivals = POISSON,
        *,
        served: bool = False,
        halvings: int = HALVINGS,
    ) -> tuple[Array, Array, Array]:
        """(batch, rate within the bounds, full rate) of one server, shape (servers, buckets); `only` as in `full_rps`.

        `together_rps`: full rate of all servers of each bucket, shape (buckets,), or what they have to serve of it
        (`served`). The rate is too low by no more than 2^-halvings of the full one."""
        mix = self._mix(buckets, levels.spread)
        batch, full = self._best(mix, buckets, levels, only)
        if not levels.bounds_ttft:
            return batch, full, full
        high = self.placed_rps(buckets, levels, batch, full, together_rps, arrivals, served=served)
        together = pool_rps(together_rps, high, full, served=served)
        # Often the places decide, and the end holds at once.
        low = np.where(self._meets(mix, buckets, levels, high, full, together, arrivals), high, 0.0)
        for _ in range(halvings if (low < high).any() else 0):
            middle = (low + high) / 2
            together = pool_rps(together_rps, middle, full, served=served)
            enough = self._meets(mix, buckets, levels, middle, full, together, arrivals)
            low, high = np.where(enough, middle, low), np.where(enough, high, middle)
        return batch, low, full

    def placed_rps(
        self,
        buckets: Buckets,
        levels: Levels,
        batch: Array,
        full: Array,
        together_rps: Array,
        arrivals: Arrivals,
        *,
        served: bool,
    ) -> Array:
        """Rate of one server at which all but a few requests find a place, shape (servers, buckets).

        Places are held for as long as in full batches, where answers take longest: whoever comes to many finds that
        these are slow."""
        misses = PLACE_WAITS if levels.misses is None else PLACE_MISSES * levels.misses
        share = np.divide(together_rps[None], full, out=np.ones(full.shape), where=full > 0)
        places = self.decode.ranks[:, None] * batch
        stays_ms = np.divide(places * MS_PER_S, full, out=np.ones(full.shape), where=full > 0)
        patience_ms = PROMPT_TIME * levels.least_ttft_ms(buckets)
        stay = Stay(places=places, stays_ms=stays_ms, patience_ms=patience_ms, misses=misses)
        return full * largest_load(stay, share, arrivals, served=served)

    def _meets(
        self,
        mix: _Mix,
        buckets: Buckets,
        levels: Levels,
        rate: Array,
        full: Array,
        together_rps: Array,
        arrivals: Arrivals,
    ) -> Array:
        service, rho, tail, rest_of_pass = self._queue(mix, buckets, rate, full, together_rps, arrivals)
        slack = levels.ttft_ms - service  # (servers, buckets, ranges)
        mean = (np.where(np.isinf(slack), 0.0, slack) * buckets.weights).sum(-1)
        if levels.misses is None:
            return np.asarray((mean >= rho * tail.at(mean) + rest_of_pass.mean_ms) & (rho < 1))
        late = late_share(slack, rho, tail.at(mean), rest_of_pass)
        return np.asarray((late * buckets.weights).sum(-1) <= levels.misses)

    def queue(
        self,
        buckets: Buckets,
        rate: Array,
        full: Array,
        together_rps: Array,
        arrivals: Arrivals = POISSON,
    ) -> tuple[Array, Array, WaitTail, RestOfStep]:
        """TTFT without waits (servers, buckets, ranges), rho, the tail of the wait and the rest of the pass under way
        (servers, buckets), where each server serves `rate` of its `full` rate."""
        return self._queue(self._mix(buckets), buckets, rate, full, together_rps, arrivals)

    def _queue(
        self, mix: _Mix, buckets: Buckets, rate: Array, full: Array, together_rps: Array, arrivals: Arrivals
    ) -> tuple[Array, Array, WaitTail, RestOfStep]:
        ranks = self.decode.ranks[:, None]
        used = mix.in_use(rate)
        tpot = at(mix.tpot_ms, used)
        service = self.first_token.ttft_steps * ranges_at(self.prompts.taken_in_ms, used)
        service = service + (self.first_token.ttft_fixed_ms + self.first_token.ttft_answers * tpot)[..., None]
        full_rps = ranks * MS_PER_S / at(mix.busy_ms, used)
        rho = np.minimum(rate / full_rps, 1.0)
        servers = np.divide(together_rps, full, out=np.ones(full.shape), where=full > 0)
        full_ranks = FullRanks(
            cycle_ms=at(mix.busy_ms, used) * self.budgets[:, None] / self._mean(buckets),
            tokens=self.budgets[:, None] * rho,
            budget=self.budgets[:, None],
            ranks=ranks,
        )
        moments = (self._mean(buckets), self._spread_of(buckets) * self._mean(buckets) ** 2)
        tail = wait_tail(arrivals, full_rps / MS_PER_S, full_rps * servers / MS_PER_S, rho, moments, full_ranks)
        squared, cubed = at(mix.squared, used), at(mix.cubed, used)
        under_way = -np.expm1(-ranks * used)
        return service, rho, tail, RestOfStep(cycle_ms=cubed / squared, chance=under_way * squared**2 / (tpot * cubed))

    def usual_rest_ms(self, buckets: Buckets, rate: Array) -> Array:
        """Mean rest of the pass under way at `rate`, shape (servers, buckets)."""
        mix = self._mix(buckets)
        used = mix.in_use(rate)
        under_way = -np.expm1(-self.decode.ranks[:, None] * used)
        return np.asarray(under_way * at(mix.squared, used) / (2 * at(mix.tpot_ms, used)))

    def tpot_at(self, buckets: Buckets, sequences: float) -> Array:
        """Time per output token (ms) of so many sequences in answer on each attention group, shape (servers,
        buckets)."""
        mix = self._mix(buckets)
        return at(mix.tpot_ms, np.full(mix.tpot_ms.shape[:-1], sequences))

    def tpot_ms(self, buckets: Buckets, rate: Array, batch: Array, deviations: float) -> Array:
        """Time per output token at `rate` of each server, shape (servers, buckets); `deviations` of the load above its
        mean. The batch in use follows from the rate (Little's law), at most `batch`."""
        mix = self._mix(buckets, deviations)
        load = mix.in_use(rate)
        return at(mix.late_tpot_ms, np.minimum(load + deviations * np.sqrt(load), np.maximum(1.0, batch)))
