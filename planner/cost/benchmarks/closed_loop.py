"""What a pool that does both phases reaches with so many requests in flight.

| symbol | meaning | unit |
|---|---|---|
| N, b | requests in flight and sequences in a batch, of one attention group; b at most what memory holds | 1 |
| L, D | mean prompt and answer | tokens |
| g | tokens that a pass yields a sequence (1 without drafts) | tokens |
| T, T(b), T(c), c | a pass with what comes before the next one, its parts, a chunk (`planner.cost.mixed`) | ms |

TPOT = T / g; TTFT = fixed + steps (L/c T(c) + T(b) / 2) + answers TPOT + waves N L/c T(c);
b = N D TPOT / (TTFT + D TPOT), found as a fixed point. Where memory holds fewer than N - those in prefill, the others
wait: TTFT = (N / b - 1) D TPOT.
Source: facts on aggregated serving and on the fit of the cost model.
"""

from dataclasses import dataclass, replace

import numpy as np

from planner.cost.arrays import Array
from planner.cost.benchmarks.engines import EngineShares
from planner.cost.device import Device
from planner.cost.mixed import Passes, added_ms, intake, pass_cost
from planner.domain import CostSettings, ModelSpec
from planner.units import MS_PER_S

_ROUNDS = 40
_SETTLED = 1e-10
"""Relative: sequences that a round changes by less are those of the fixed point."""
_FIRST_SLOPE, _STEEPEST, _FLATTEST = -2.0, -8.0, -0.5
"""Change of ln(what a round leaves / b) by ln(b): taken at first, as whole steps overshoot, and its bounds."""
_FEWEST = 0.02
ALL_WAITING = 1e9  # requests in flight where some always wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Closed loops of one model on one GPU type with one engine, arrays of one shape. `in_flight` may be inf."""

    tp: Array
    dp: Array
    ep: Array
    prompt: Array
    answer: Array
    in_flight: Array
    capacity: Array
    gain: Array
    budget: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFigures:
    """What a loop settles at: sequences of a group, output tokens/s of a GPU, TPOT and TTFT (ms)."""

    sequences: Array
    rate: Array
    tpot_ms: Array
    ttft_ms: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTimes:
    """Passes of one model on one GPU type (ms)."""

    prefill: Device
    decode: Device
    model: ModelSpec
    settings: CostSettings

    def ms(self, loop: Loop, sequences: Array, chunk: Array) -> Array:
        """A pass of `sequences` half-way through their answers, with a `chunk` of prompts."""
        passes = Passes(
            tp=loop.tp,
            dp=loop.dp,
            sequences=sequences,
            cached=loop.prompt + loop.answer / 2,
            chunk=chunk,
            prompt=loop.prompt,
            ep=loop.ep,
        )
        return pass_cost(self.prefill, self.decode, self.model, self.settings, passes).total_ms

    @property
    def apart(self) -> "PassTimes":
        """Of pools that take prompts in alone (`planner.cost.residuals.pace`)."""
        return replace(self, decode=replace(self.decode, pace=self.prefill.pace.apart))

    def prefill_ms(self, loop: Loop, chunk: Array) -> Array:
        """A pass of prompts alone."""
        return self.ms(loop, np.zeros(chunk.shape), chunk)


def settle(times: PassTimes, loop: Loop, shares: EngineShares, *, begin: Array | None = None) -> LoopFigures:
    """The fixed point of the loops; `begin` (sequences) shortens the way to it."""
    flying = np.minimum(loop.in_flight, ALL_WAITING)
    highest = np.minimum(loop.capacity, flying)
    b = highest if begin is None else begin
    figures = _round(times, loop, shares, b, flying)
    off, slope = np.log(figures.sequences / b), np.full(b.shape, _FIRST_SLOPE)
    for _ in range(_ROUNDS if begin is None else _ROUNDS // 5):
        if np.abs(off).max() < _SETTLED:
            break
        # By secants, in logarithms: a few rounds where halving the way takes forty.
        step = -off / slope
        b = np.minimum(b * np.exp(step), highest)
        figures = _round(times, loop, shares, b, flying)
        before, off = off, np.log(figures.sequences / b)
        secant = np.divide(off - before, step, out=slope.copy(), where=step != 0)
        slope = np.clip(secant, _STEEPEST, _FLATTEST)
    waiting = (flying / b - 1) * loop.answer * figures.tpot_ms
    # Settled at what memory holds, as near as the rounds come.
    queued = np.isfinite(loop.in_flight) & (b > loop.capacity * (1 - 1e-3))
    ttft = np.where(queued, np.maximum(figures.ttft_ms, waiting), figures.ttft_ms)
    return replace(figures, sequences=b, ttft_ms=ttft)


def passes_of(times: PassTimes, loop: Loop, b: Array) -> tuple[Array, Array, Array]:
    """TPOT at `b` sequences, the passes that a prompt waits for, and the time of a prompt among as many as fit (ms)."""
    chunk, share = intake(b, loop.prompt, loop.answer, loop.gain, loop.budget)
    none = np.zeros(b.shape)
    # In one call: most of what pricing takes does not grow with the array.
    decode_ms, prefill_ms, mixed_ms = times.ms(loop, np.stack([b, none, b]), np.stack([none, chunk, chunk]))
    tpot = (decode_ms + share * added_ms(decode_ms, prefill_ms, mixed_ms)) / loop.gain
    passes_ms = np.maximum(1.0, loop.prompt / chunk) * prefill_ms + decode_ms / 2
    return tpot, passes_ms, loop.prompt / chunk * prefill_ms


def _round(times: PassTimes, loop: Loop, shares: EngineShares, b: Array, flying: Array) -> LoopFigures:
    """The figures at `b` sequences, and the sequences that these would leave in the batch."""
    tpot, passes_ms, prompt_ms = passes_of(times, loop, b)
    ttft = shares.ttft_fixed_ms + shares.ttft_steps * passes_ms + shares.ttft_answers * tpot
    # Of loops alone: where some always wait there are no waves.
    ttft = ttft + np.where(flying < ALL_WAITING, shares.ttft_waves * flying * prompt_ms, 0.0)
    answering = loop.answer * tpot
    settled = np.maximum(_FEWEST, np.minimum(loop.capacity, flying * answering / (ttft + answering)))
    return LoopFigures(sequences=settled, rate=b / loop.tp / tpot * MS_PER_S, tpot_ms=tpot, ttft_ms=ttft)
