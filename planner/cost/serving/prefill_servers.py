"""What prefill servers do of a bucket's mix: full pace, and the rate that keeps to the bounds on TTFT.

| symbol | meaning | unit |
|---|---|---|
| o, B, j | server (shape, budget, overlap), bucket, range | |
| s[o, j] | mean prompt of a range, less what the prefix cache of a rank holds (`prefix_hits`) | tokens |
| m1, m2 | moments of s over the bucket: sum_j w s, sum_j w s^2 | tokens, tokens^2 |
| t[o, j](n) | a step that takes n new tokens of prompts of range j on every attention rank | ms |
| t(n) | the same of the bucket's mix: sum_j w s / m1 t[j](n) | ms |
| phi | rate of a pool behind a router over that of its steps (`prefill_pool`) | 1 |
| F | full rate: 1000 phi dp pp / sum_j w (time of a prompt at a full budget) | requests/s |
| x, rho | rate of one server, x / F | requests/s, 1 |
| n | tokens that come to a rank in a step: x m1 T / (phi dp pp 1000) | tokens |
| L | m2 / m1: mean prompt, weighted by tokens | tokens |
| T | (t(n + min(L, sqrt(2 ln dp n L))) + t(n)) / 2: the mean of the fullest rank and the mean one | ms |
| X | full rate of all servers of the bucket together | requests/s |
| eta | tail of the wait behind the router (`waits`) | ms |
| S, u | time between starts of steps that are met, T / (phi pp), of L tokens at least; min(1, x S) | ms, 1 |
| v | of a prompt of s tokens, where dp > 1: max(0, 1 - (budget - s) / n) / 2 | 1 |

TTFT of range j = rest of the step under way + v S + wait + own step + KV transfer + first decode step. The rest is even
over 0..S with chance u; P(wait > y) = rho e^(-y / eta). v: a rank has n tokens when a step starts, and a prompt that
comes too late to fit into the budget waits for one more; half as often, as the router finds the rank with the fewest.
Own step: T, or (own prefill + t(n)) / 2 of longer prompts: the other ranks (dp > 1) have less. The router sends to the
island with the least outstanding work for its speed, and there to the rank with the fewest waiting tokens, unless its
layers say otherwise (`waits`, `parting`).
Source: facts on bucketed plans (cap of a pool), with the rest of a step in place of 3/4 of it. A simulation of requests
(tests/cost/prefill_simulation.py, 19 pools of 1-8 servers, bounds of 1-6 s) allows 9 % more to 1 % less than the cap.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.cost import memory
from planner.cost.arrays import Array, Numbers, ceil_divide, joined_rows
from planner.cost.backend import server_step_ms
from planner.cost.device import CostContext
from planner.cost.grid import Degrees
from planner.cost.prefix_hits import fresh_tokens, hit_shares, uneven, with_points
from planner.cost.rates import pool_share
from planner.cost.service_levels import nic_s, transfer_ms
from planner.cost.serving.buckets import Buckets, Levels, pool_rps
from planner.cost.serving.cache_reads import CacheReads
from planner.cost.serving.paced import paced
from planner.cost.serving.remembered import remembered
from planner.cost.serving.step_curves import STEP_TOKENS, MixedSteps, StepCurves
from planner.cost.serving.waits import POISSON, Arrivals, FullRanks, RestOfStep, WaitTail, late_share, wait_tail
from planner.cost.step import Steps
from planner.domain import ParallelConfig, Phase, ServerConfig
from planner.units import MS_PER_S

MOST_PROMPTS = 1024  # of a step, that a server is started for

MISSED_STEPS = 0.5
NO_STEP_MS = 1.0  # in place of what a profile does not know: such ranges are not served
HALVINGS = 20  # of the full rate: to a millionth
AT_ONCE = 4  # halvings that one server is tried for at once
_STEEPEST = 3.7  # a step of 256 tokens over one of 64: their line, which goes on below, leaves one of none a tenth
_ROUNDS = 12  # of the fixed point of tokens and step time, which contracts below full pace


PrefillOption = tuple[ParallelConfig, int, bool]


def _in_groups(options: Sequence[PrefillOption]) -> list[PrefillOption]:
    """Servers of the same budget and overlap one after the other, as they are priced together."""
    groups: dict[tuple[int, bool], list[PrefillOption]] = {}
    for option in options:
        groups.setdefault(option[1:], []).append(option)
    return [option for group in groups.values() for option in group]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillServers:
    """Servers of one GPU type: `configs`, and by server and range times of a prompt at a full budget (`prompt_ms`, inf:
    not served), of a prompt by itself (`own_ms`), of the KV transfer (`sent_ms`), and of a step of `STEP_TOKENS`
    (`step_ms`, shape (servers, ranges, tokens)), all in ms. `fresh`, `fresh_squared`: mean and mean square of s, one
    row where it is the same of all servers. `nic_s`: seconds that a request takes of a server's NICs (0: none are
    counted)."""

    configs: tuple[ServerConfig, ...]
    pace: float
    prompt_ms: Array
    own_ms: Array
    sent_ms: Array
    step_ms: Array
    fresh: Array
    fresh_squared: Array
    nic_s: Array

    @classmethod
    @paced(Phase.PREFILL)
    @remembered(order=_in_groups)
    def of(
        cls,
        context: CostContext,
        options: Sequence[tuple[ParallelConfig, int, bool]],
        buckets: Buckets,
        *,
        queued: bool = True,
    ) -> "PrefillServers":
        """`options`: shape of a copy, token budget of a rank and step, whether communication is overlapped.

        `queued`: step times of all numbers of tokens are wanted, for queues."""
        groups: dict[tuple[int, bool], list[ParallelConfig]] = {}
        for shape, budget, overlapped in _in_groups(options):
            groups.setdefault((budget, overlapped), []).append(shape)
        tokens = STEP_TOKENS if queued else STEP_TOKENS[:2]  # two, as nobody asks
        pieces = [
            _priced(context, shapes, budget, overlapped, buckets, tokens)
            for (budget, overlapped), shapes in groups.items()
        ]
        return cls(
            configs=tuple(config for piece in pieces for config in piece.configs),
            pace=pool_share(context),
            prompt_ms=np.concatenate([piece.prompt_ms for piece in pieces]),
            own_ms=np.concatenate([piece.own_ms for piece in pieces]),
            sent_ms=np.concatenate([piece.sent_ms for piece in pieces]),
            step_ms=np.concatenate([piece.step_ms for piece in pieces]),
            nic_s=np.concatenate([piece.nic_s for piece in pieces]),
            fresh=joined_rows([(piece.fresh, len(piece.configs)) for piece in pieces]),
            fresh_squared=joined_rows([(piece.fresh_squared, len(piece.configs)) for piece in pieces]),
        )

    def among(self, rows: Sequence[int]) -> "PrefillServers":
        """Some of the servers."""
        chosen = list(rows)
        return replace(
            self,
            configs=tuple(self.configs[row] for row in chosen),
            prompt_ms=self.prompt_ms[chosen],
            own_ms=self.own_ms[chosen],
            sent_ms=self.sent_ms[chosen],
            step_ms=self.step_ms[chosen],
            fresh=self.fresh if len(self.fresh) == 1 else self.fresh[chosen],
            fresh_squared=self.fresh_squared if len(self.fresh_squared) == 1 else self.fresh_squared[chosen],
            nic_s=self.nic_s[chosen],
        )

    def at_pace(self, pace: float) -> "PrefillServers":
        """The same servers where every pass is so many times as fast; transfers are as they were."""
        return replace(self, prompt_ms=self.prompt_ms / pace, own_ms=self.own_ms / pace, step_ms=self.step_ms / pace)

    def _column(self, values: Sequence[int]) -> Array:
        return np.array(values, dtype=float)[:, None]

    def shape(self, row: int) -> ParallelConfig:
        """Shape of the copies in a row."""
        return self.configs[row].parallel

    @property
    def devices(self) -> Array:
        """GPUs of a server, shape (servers,)."""
        return np.array([float(config.parallel.devices) for config in self.configs])

    @property
    def _budgets(self) -> Array:
        """Token budgets of a rank and step, shape (servers, 1)."""
        return self._column([config.tokens_per_step for config in self.configs])

    @property
    def _ways(self) -> Array:
        """dp pp, shape (servers, 1)."""
        return self._column([config.parallel.dp * config.parallel.pp for config in self.configs])

    def range_rps(self) -> Array:
        """Full rate of one server on each range alone, shape (servers, ranges)."""
        return np.asarray(MS_PER_S * self.pace * self._ways / self.prompt_ms)

    def full_rps(self, buckets: Buckets) -> Array:
        """F of one server, shape (servers, buckets); 0 where a prompt of the bucket does not fit."""
        served = np.isfinite(self.prompt_ms)
        all_served = (buckets.members[None] <= served[:, None]).all(axis=-1)
        seconds = np.where(served, self.prompt_ms, 0.0) @ buckets.weights.T
        return np.where(
            all_served & (seconds > 0), MS_PER_S * self.pace * self._ways / np.where(all_served, seconds, 1.0), 0.0
        )

    def capped_rps(
        self,
        buckets: Buckets,
        levels: Levels,
        together_rps: Array,
        arrivals: Arrivals = POISSON,
        *,
        served: bool = False,
        halvings: int = HALVINGS,
    ) -> Array:
        """Largest rate of one server within the bounds on TTFT and what NICs carry, shape (servers, buckets), too low
        by no more than 2^-halvings of the full rate.

        `together_rps`: X of each bucket, shape (buckets,), or where it is what is `served` of each bucket, X is as much
        as serves it with servers that work to their cap: over rho.
        """
        full, carried = self.full_rps(buckets), buckets.rps_of(self.nic_s)
        if not levels.bounds_ttft:
            return np.minimum(full, carried)
        low, width, mix = (
            np.zeros(full.shape),
            full.copy(),
            MixedSteps.of(self.fresh, self.fresh_squared, self.step_ms, buckets),
        )
        # One server alone is tried at many rates at once: an array of one number takes as long as one of fifteen.
        bits = AT_ONCE if len(full) == 1 else 1
        for _ in range(math.ceil(halvings / bits)):
            width = width / 2**bits
            rate = low + width * np.arange(1, 2**bits)[:, None] if bits > 1 else low + width
            together = pool_rps(together_rps, rate, full, served=served)
            enough = self._meets(buckets, levels, rate, full, together, arrivals, mix)
            # Up to the first that fails, as halving would end there, too.
            cells = np.logical_and.accumulate(enough).sum(axis=0, keepdims=True) if bits > 1 else enough
            low = low + width * cells
        return np.minimum(low, carried)  # who gets less waits less

    def _meets(
        self,
        buckets: Buckets,
        levels: Levels,
        rate: Array,
        full: Array,
        all_rps: Array,
        arrivals: Arrivals,
        mix: MixedSteps,
    ) -> Array:
        service, rho, tail, rest_of_step = self.queue(buckets, rate, full, all_rps, arrivals, mix)
        slack = levels.ttft_ms - levels.first_step_ms - service  # (servers, buckets, ranges)
        mean = (np.where(np.isinf(slack), 0.0, slack) * buckets.weights).sum(-1)
        if levels.misses is None:
            return np.asarray(mean >= rho * tail.at(mean) + rest_of_step.mean_ms)
        late = late_share(slack, rho, tail.at(mean), rest_of_step)
        return np.asarray((late * buckets.weights).sum(-1) <= levels.misses)

    def queue(
        self,
        buckets: Buckets,
        rate: Array,
        full: Array,
        together_rps: Array,
        arrivals: Arrivals = POISSON,
        mix: MixedSteps | None = None,
    ) -> tuple[Array, Array, WaitTail, RestOfStep]:
        """TTFT without waits and first decode step (servers, buckets, ranges), rho, the tail of the wait and the rest
        of the step under way (servers, buckets).

        `mix`: of the buckets, where it is known."""
        mix = MixedSteps.of(self.fresh, self.fresh_squared, self.step_ms, buckets) if mix is None else mix
        m1, m2, times = mix.m1, mix.m2, StepCurves.of(mix.step_ms, rate.shape)
        rho = np.divide(rate, full, out=np.ones(rate.shape), where=full > 0)
        ranks = self._full_ranks(rate, times, m1) if arrivals.in_turn else None
        tail = wait_tail(arrivals, full / MS_PER_S, together_rps / MS_PER_S, rho, (m1, m2), ranks)
        backlog = tail.rank_backlog(ranks) if ranks else np.zeros(rate.shape)
        step, mean_rank = self._step_ms(rate, times, m1, m2, backlog)
        stages = self._column([config.parallel.pp for config in self.configs])
        cycle = step / (self.pace * stages)
        tokens = rate * m1 * step / (self.pace * self._ways * MS_PER_S)
        met = np.maximum(cycle, self._met_step_ms(times, m2 / m1, mean_rank) / (self.pace * stages))
        rest_of_step = RestOfStep(cycle_ms=met, chance=np.minimum(1.0, rate * met / MS_PER_S))
        service = self._own_step_ms(step, mean_rank, buckets)
        if arrivals.finds_ranks:
            service = service + self._missed_ms(tokens, cycle)
        return service + self.sent_ms[:, None], rho, tail, rest_of_step

    def usual_rest_ms(self, buckets: Buckets, rate: Array) -> Array:
        """Mean rest of the step under way at `rate`, shape (servers, buckets): of steps as they usually are, where what
        is told of tails goes by those that long prompts make."""
        mix = MixedSteps.of(self.fresh, self.fresh_squared, self.step_ms, buckets)
        step, _ = self._step_ms(rate, StepCurves.of(mix.step_ms, rate.shape), mix.m1, mix.m2, np.zeros(rate.shape))
        cycle = step / (self.pace * self._column([config.parallel.pp for config in self.configs]))
        return np.asarray(np.minimum(1.0, rate * cycle / MS_PER_S) * cycle / 2)

    def _met_step_ms(self, times: StepCurves, long: Array, mean_rank: Array) -> Array:
        """The least step that is met under way: it takes in a prompt, and long ones are met more often."""
        ranks = self._column([config.parallel.dp for config in self.configs])
        of_prompt = times.at(np.broadcast_to(np.minimum(long, self._budgets), mean_rank.shape))
        return np.asarray(np.where(ranks > 1, (of_prompt + mean_rank) / 2, of_prompt))

    def _missed_ms(self, tokens: Array, cycle: Array) -> Array:
        """v S of `tokens` that come to a rank in a step, shape (servers, buckets, ranges)."""
        several = self._column([config.parallel.dp for config in self.configs])[..., None] > 1
        room = (self._budgets - np.minimum(self.fresh, self._budgets))[:, None]
        missed = np.maximum(1 - room / np.maximum(tokens, 1e-9)[..., None], 0.0)
        return np.asarray(np.where(several, MISSED_STEPS * missed * cycle[..., None], 0.0))

    def _own_step_ms(self, step: Array, mean_rank: Array, buckets: Buckets) -> Array:
        """The steps that a prompt is taken in by, shape (servers, buckets, ranges)."""
        ranks = self._column([config.parallel.dp for config in self.configs])[..., None]
        chunks = ceil_divide(buckets.longest * self.fresh / buckets.prompts, self._budgets)[:, None]
        alone = np.where(ranks > 1, (self.own_ms[:, None] + chunks * mean_rank[..., None]) / 2, self.own_ms[:, None])
        return np.maximum(step[..., None], alone)

    def _full_ranks(self, rate: Array, times: StepCurves, m1: Array) -> FullRanks:
        """Steps whose fullest rank is full, at `rate`."""
        budgets, ranks = self._budgets, self._column([config.parallel.dp for config in self.configs])
        stages = self._column([config.parallel.pp for config in self.configs])
        full = times.at(np.broadcast_to(budgets, rate.shape))
        tokens, step = np.broadcast_to(budgets, rate.shape), full
        coming, pace = rate * m1, self.pace * self._ways * MS_PER_S
        for _ in range(_ROUNDS):
            tokens = np.minimum(budgets, coming * step / pace)
            step = np.where(ranks > 1, (full + times.at(tokens)) / 2, full)
        return FullRanks(cycle_ms=step / (self.pace * stages), tokens=tokens, budget=budgets, ranks=ranks)

    def _step_ms(self, rate: Array, times: StepCurves, m1: Array, m2: Array, backlog: Array) -> tuple[Array, Array]:
        """T and t(n) at `rate`, shape (servers, buckets); `backlog`: tokens that wait before the fullest rank."""
        budgets, ranks = self._budgets, self._column([config.parallel.dp for config in self.configs])
        long = m2 / m1
        step = mean_rank = times.at(np.zeros(rate.shape))
        coming, pace = rate * m1, self.pace * self._ways * MS_PER_S
        spread, several = 2 * np.log(ranks), ranks > 1
        both = np.empty((2, *rate.shape))
        tokens, fullest = both  # written to in place: there are many rounds of few numbers
        for _ in range(_ROUNDS):
            np.minimum(budgets, coming * step / pace, out=tokens)
            excess = np.minimum(long, np.sqrt(spread * tokens * long))
            np.minimum(budgets, tokens + np.where(several, excess + backlog, 0.0), out=fullest)
            mean_rank, full = times.at(both)
            step = (full + mean_rank) / 2
        return step, mean_rank


def _priced(
    context: CostContext,
    shapes: Sequence[ParallelConfig],
    budget: int,
    overlapped: bool,
    buckets: Buckets,
    step_tokens: Sequence[int],
) -> PrefillServers:
    """Servers of one budget."""
    settings = replace(context.settings, max_tokens_per_step=budget)
    priced = replace(context, settings=settings)
    degrees = Degrees.of(list(shapes))
    lengths = buckets.prompts[None]
    hit = hit_shares(priced, lengths, degrees)
    fresh = fresh_tokens(lengths, hit)

    def step_ms(length: Array, prompts: Array, cached: Numbers = hit, *, columns: Degrees = degrees) -> Array:
        steps = Steps.at(Phase.PREFILL, columns.tp, columns.dp, columns.pp, length=length, batch=prompts, cached=cached)
        return server_step_ms(priced, steps, overlapped=overlapped)

    fits = memory.max_prompts(
        priced,
        longest=buckets.longest[None],
        tp=degrees.tp,
        experts_on_device=memory.experts_on_device(context.model, settings, degrees.devices),
        pp=degrees.pp,
    )
    prompts = np.minimum(np.maximum(1.0, budget / fresh), np.floor(np.maximum(fits, 0.0)))
    at_once = np.maximum(prompts, 1.0)
    own_ms = step_ms(buckets.longest[None], np.ones((1, 1)))
    # What a profile does not know of the longest prompts of a range is not known of the range.
    prompt_ms = np.where((prompts >= 1) & np.isfinite(own_ms), step_ms(lengths, at_once) / at_once, np.inf)
    sent = transfer_ms(context, buckets.longest[None], degrees)
    carried_s = nic_s(context, buckets.prompts, degrees.devices[:, 0])
    reads = CacheReads.of(priced, lengths, degrees, np.asarray(hit), Phase.PREFILL)
    if reads is not None:
        # Reads of its longest prompts are told by the mean one's, as its hits are.
        sent = sent + reads.exposed_ms(own_ms) * buckets.longest / buckets.prompts
        carried_s = np.maximum(carried_s, reads.link_ms / (degrees.dp * MS_PER_S))
    columns = Degrees(
        tp=degrees.tp[..., None], dp=degrees.dp[..., None], pp=degrees.pp[..., None], replicas=degrees.replicas
    )
    tokens = np.array(step_tokens, dtype=float)
    times = step_ms(lengths[..., None], tokens / fresh[..., None], with_points(hit), columns=columns)
    times[..., 0] = np.maximum(times[..., 0], times[..., 1] / _STEEPEST)  # collectives over PCIe have a cliff there
    return PrefillServers(
        configs=tuple(_configs(shapes, budget, overlapped, fits, np.broadcast_to(fresh, fits.shape))),
        pace=pool_share(context),
        prompt_ms=prompt_ms,
        own_ms=np.where(np.isfinite(own_ms), own_ms, NO_STEP_MS),
        sent_ms=np.broadcast_to(sent, prompt_ms.shape),
        step_ms=np.where(np.isfinite(times), times, NO_STEP_MS),
        fresh=fresh,
        fresh_squared=fresh**2 * uneven(priced, lengths, hit),
        nic_s=carried_s,
    )


def _configs(
    shapes: Sequence[ParallelConfig], budget: int, overlapped: bool, fits: Array, fresh: Array
) -> Iterator[ServerConfig]:
    """Servers of one budget; `fits` and `fresh` have shape (shapes, ranges)."""
    for shape, prompts, tokens in zip(shapes, fits, fresh, strict=True):
        yield ServerConfig(
            parallel=shape,
            tokens_per_step=budget,
            batch_size=_prompts_at_once(prompts, budget, tokens),
            overlapped=overlapped,
        )


def _prompts_at_once(fits: Array, budget: int, fresh: Array) -> int:
    """Prompts that a server may hold in a step: as many of the shortest as its budget and memory take."""
    prompts = min(MOST_PROMPTS, float(np.floor(np.maximum(fits.max(), 1.0))), float(ceil_divide(budget, fresh.min())))
    return max(1, int(prompts))
