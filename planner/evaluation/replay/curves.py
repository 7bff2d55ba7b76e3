"""Curves of one server's step times, from the cost model: the times that its rates were made of."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from planner.cost import CostContext, attention, memory
from planner.cost.benchmarks.engines import engine_shares
from planner.cost.drafts import draft_of
from planner.cost.grid import Degrees
from planner.cost.mixed import Passes, added_ms, mixed_cost
from planner.cost.prefix_hits import cache_tokens, hit_shares
from planner.cost.rates import pool_share
from planner.cost.service_levels import transfer_ms
from planner.cost.serving import Buckets, DecodeServers, PrefillServers
from planner.cost.serving.decode_servers import BATCHES, contexts_of
from planner.cost.serving.prefill_servers import NO_STEP_MS
from planner.cost.serving.step_curves import STEP_TOKENS
from planner.domain import CacheRate, CostSource, ParallelConfig, Phase, Workload
from planner.domain.fleet import AnswerCurve, ChunkCurve, KvRoom, PoolTier, PromptCurve, ReplayPool, Row
from planner.units import MS_PER_S

LENGTHS = 160  # of prompts, in equal proportions: 4 to 6 % apart
_CHUNK_BATCHES = (0, 1, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 1024)
_SHORTEST = 16
_REDO_BUDGET = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCurves:
    """One copy of the model of `shape` (one replica) in its context; prompts and answers are like the workload's."""

    context: CostContext
    shape: ParallelConfig
    overlapped: bool
    workload: Workload
    replay_prefixes: bool

    def pool(self, phase: Phase, budget: int, batch: int) -> ReplayPool:
        """A pool of one such server, started for `budget` prompt tokens and `batch` sequences a rank."""
        pool = ReplayPool(
            island="",
            gpu=self.context.gpu.name,
            phase=phase,
            servers=1,
            ranks=self.shape.dp,
            stages=self.shape.pp,
            budget=budget,
            batch=batch,
            hit_tokens=int(attention.block_tokens(self.context.model, np.array(float(self.shape.tp)))),
            layers=self.context.model.layers,
        )
        if phase is Phase.PREFILL:
            return self._taking_in(pool)
        answering = self._answering(pool, budget if phase is Phase.MIXED else 0)
        return self._mixed(answering) if phase is Phase.MIXED else answering

    @property
    def _hits_replayed(self) -> bool:
        """Whether what prefix caches find comes out of the replay, and not of the scenario."""
        return self.replay_prefixes and self.context.settings.kv_cache_rate == CacheRate.AUTO

    def _tiers(self) -> tuple[PoolTier, ...]:
        """Tiers as a rank has them: its GPUs hold and load their parts of every token, each its own."""
        context, prefixes, tp, pp = self.context, self.context.settings.prefixes, self.shape.tp, self.shape.pp
        if not self._hits_replayed or prefixes is None or prefixes.tiers is None:
            return ()
        prompt, draft = prefixes.mean_prompt, draft_of(context.model, context.settings)
        of_prompt = memory.cache_gb(context.model, length=prompt, batch=1, tp=tp, pp=pp, draft=draft, states=1)
        token_gb = float(of_prompt) / prompt
        return tuple(
            PoolTier(
                name=tier.name,
                # All servers' GPUs together hold a token of what they share once, on as many GPUs as a rank has.
                tokens=int(tier.gb_per_gpu / token_gb * (prefixes.fleet_gpus / (tp * pp) if tier.shared else 1)),
                ms_per_token=token_gb / tier.gb_per_s_per_gpu * MS_PER_S,
                latency_ms=tier.latency_ms,
                shared=tier.shared,
            )
            for tier in prefixes.tiers.of(context.gpu, prefixes.fleet_gpus)
        )

    @property
    def _without_replayed_hits(self) -> CostContext:
        """Without hits, where the replay finds its own."""
        if not self._hits_replayed:
            return self.context
        return replace(self.context, settings=replace(self.context.settings, kv_cache_rate=0.0))

    @property
    def _priced(self) -> CostContext:
        """By formula, as a profile has not measured every step of a replay."""
        context = self._without_replayed_hits
        return replace(context, settings=replace(context.settings, source=CostSource.ANALYTIC, profile=()))

    def _step_ms(self, formula: np.ndarray, of: Callable[[CostContext], np.ndarray]) -> np.ndarray:
        """Step times of a grid, by formula, or the profile's; what it did not measure is as much slower than the
        formula as what was measured next to it. `of`: the grid's times in a context."""
        if self.context.settings.source is not CostSource.TABULATED:
            return formula
        measured = of(self._without_replayed_hits)
        known = np.isfinite(measured) & (measured != NO_STEP_MS)
        return np.asarray(formula * _filled(np.where(known, measured / formula, np.nan)))

    def _lengths(self) -> tuple[int, ...]:
        longest = max(self.workload.longest_prompt, _SHORTEST * 2)
        return tuple(sorted({round(n) for n in np.geomspace(_SHORTEST, longest, LENGTHS)}))

    def _buckets(self) -> Buckets:
        """Every length as a range of its own, with the workload's mean answer."""
        lengths = self._lengths()
        return Buckets.of_lengths(lengths, [1.0] * len(lengths), [self.workload.mean_output_tokens] * len(lengths))

    def _taking_in(self, pool: ReplayPool) -> ReplayPool:
        context, lengths, degrees = self._priced, self._lengths(), Degrees.of([self.shape])
        buckets, options = self._buckets(), [(self.shape, pool.budget, self.overlapped)]
        step_ms = self._step_ms(
            PrefillServers.of(context, options, buckets).step_ms[0],
            lambda measured: PrefillServers.of(measured, options, buckets).step_ms[0],
        )
        prompts = np.array([lengths], dtype=float)
        hits = np.broadcast_to(np.asarray(hit_shares(context, prompts, degrees)), prompts.shape)
        cache = cache_tokens(context, prompts.mean(), degrees) if self._hits_replayed else np.zeros(1)
        return replace(
            pool,
            pace=pool_share(self.context),
            prompts=PromptCurve(
                lengths=tuple(map(float, lengths)),
                tokens=tuple(map(float, STEP_TOKENS)),
                step_ms=tuple(_row(times) for times in step_ms),
            ),
            sent_ms=_row(transfer_ms(context, prompts, degrees)[0]),
            cache_tokens=int(cache.max()),
            tiers=self._tiers(),
            hit_shares=_row(hits[0]) if hits.any() else (),
        )

    def _answering(self, pool: ReplayPool, budget: int) -> ReplayPool:
        context, buckets = self._priced, self._buckets()
        options = [(self.shape, self.overlapped)]
        servers = DecodeServers.of(context, options, buckets, 0)
        step_ms = self._step_ms(
            servers.step_ms[0], lambda measured: DecodeServers.of(measured, options, buckets, 0).step_ms[0]
        )
        gain = context.settings.drafting.gain
        free = float(servers.free_gb[0])
        if budget:
            free -= float(memory.activation_gb(context.model, budget, self.shape.tp))
        redo = PrefillServers.of(context, [(self.shape, _REDO_BUDGET, self.overlapped)], buckets, queued=False)
        middle = len(buckets.prompts) // 2
        return replace(
            pool,
            answers=AnswerCurve(
                contexts=_row(servers.contexts),
                batches=tuple(map(float, BATCHES)),
                pass_ms=tuple(_row(times * gain) for times in step_ms),
                gain=gain,
            ),
            room=KvRoom(
                free_gb=free, lengths=_row(buckets.prompts + buckets.answers), cache_gb=_row(servers.cache_gb[0])
            ),
            redo_ms=float(redo.own_ms[0, middle] / buckets.prompts[middle]),
        )

    def _mixed(self, pool: ReplayPool) -> ReplayPool:
        context, lengths, degrees = self._priced, self._lengths(), Degrees.of([self.shape])
        shares = engine_shares(context.settings.engine, context.settings.calibration)
        chunks = (*(tokens for tokens in STEP_TOKENS if tokens < pool.budget), pool.budget)
        prompts = np.array(lengths, dtype=float)[:, None, None]
        hits = np.broadcast_to(np.asarray(hit_shares(context, prompts[None, :, 0, 0], degrees)), (1, len(lengths)))
        middle = float(contexts_of(self._buckets()).mean())

        def pass_ms(sequences: np.ndarray, tokens: np.ndarray) -> np.ndarray:
            passes = Passes(
                tp=degrees.tp[..., None],
                dp=degrees.dp[..., None],
                sequences=sequences,
                cached=np.array(middle),
                chunk=np.minimum(tokens, np.inf),
                prompt=prompts,
                hit=hits[0][:, None, None],
            )
            return np.asarray(mixed_cost(context, passes).total_ms)

        batches = np.array(_CHUNK_BATCHES, dtype=float)[None, :, None]
        tokens, none = np.array(chunks, dtype=float)[None, None], np.zeros((1, 1, 1))
        apart = pass_ms(none, tokens)
        added = added_ms(pass_ms(batches[:, 1:], none), apart, pass_ms(batches[:, 1:], tokens))
        added = np.concatenate([np.broadcast_to(apart, (*added.shape[:1], 1, len(chunks))), added], axis=1)
        cache, tiers = np.zeros(1), self._tiers()
        # What running sequences leave for prefixes is not known; where there are tiers these find as much without it.
        if self._hits_replayed and not tiers:
            cache = cache_tokens(context, float(prompts.mean()), degrees)
        wide = np.broadcast_to(added, (len(lengths), len(_CHUNK_BATCHES), len(chunks)))
        return replace(
            pool,
            chunks=ChunkCurve(
                lengths=tuple(map(float, lengths)),
                batches=tuple(map(float, _CHUNK_BATCHES)),
                chunks=tuple(map(float, chunks)),
                added_ms=tuple(tuple(_row(row) for row in of_length) for of_length in wide),
            ),
            cache_tokens=int(cache.max()),
            tiers=tiers,
            hit_shares=_row(hits[0]) if hits.any() else (),
            first_ms=shares.ttft_fixed_ms,
            first_passes=shares.ttft_answers,
        )


def _filled(ratios: np.ndarray) -> np.ndarray:
    """NaN replaced by what lies between or next to the others of its row, in rows without any of its column; 1 where
    there are none at all."""
    for grid in (ratios := ratios.copy(), ratios.T):
        for line in grid:
            known = np.flatnonzero(~np.isnan(line))
            if known.size:
                line[:] = np.interp(np.arange(line.size), known, line[known])
    return np.asarray(np.nan_to_num(ratios, nan=1.0))


def _row(values: np.ndarray) -> Row:
    return tuple(float(value) for value in values)
