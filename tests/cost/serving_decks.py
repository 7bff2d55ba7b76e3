"""Deployments as benchmarks run them, so many requests kept in flight: what servers of buckets say of their rates.

| symbol | meaning | unit |
|---|---|---|
| N | requests in flight | 1 |
| D | mean answer | tokens |
| x | rate: N = x (TTFT + D TPOT), found by halving | requests/s |
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from planner.cost import CostContext
from planner.cost.benchmarks.batches import MEMORY_GIVEN, gain_of
from planner.cost.benchmarks.engines import engine_shares, habits
from planner.cost.serving import Buckets, DecodeServers, Levels, MixedServers, PrefillServers
from planner.domain import CostSettings, LengthRange, NamedRun, ParallelConfig, Pool, SloSettings, Workload

HALVINGS = 40
BUDGET = 16384
TIMES = Callable[[float], tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeckFigures:
    """Output tokens/s of every GPU of a deck, those of prefill too, and times (ms)."""

    output: float
    tpot_ms: float
    ttft_ms: float


def one_length(prompt: float, answer: float) -> Workload:
    """Prompts of one length."""
    span = LengthRange(
        start=int(prompt) - 1,
        end=int(prompt) + 1,
        midpoint=int(prompt),
        probability=1.0,
        mean_input_tokens=float(prompt),
        longest_input_tokens=int(prompt),
    )
    return Workload(
        name="one length",
        ranges=(span,),
        mean_input_tokens=float(prompt),
        mean_output_tokens=float(answer),
        max_output_tokens=int(answer),
    )


def levels_of(load: Workload, tpot_ms: float | None = None) -> Levels:
    """No bound, or one on the mean TPOT."""
    return Levels.of(SloSettings(tpot_ms=tpot_ms), load)


def context_of(entry: NamedRun, engine: str = "") -> CostContext:
    """Machine and model of a run, with the memory that benchmarks give and the drafts that its engine accepts.

    `engine`: whose kernels and paces count (none: formulas)."""
    run = entry.run
    assert entry.gpu is not None
    assert entry.model is not None
    model = replace(
        entry.model,
        weight_bytes=run.precision.weight_bytes,
        expert_bytes=run.precision.expert_bytes,
        kv_bytes=run.precision.kv_bytes,
    )
    spec = entry.gpu
    roomy = replace(spec, memory_mib=spec.memory_mib * MEMORY_GIVEN, memory_gb=spec.memory_gb * MEMORY_GIVEN)
    accepted = _acceptance(gain_of(run, engine_shares(run.engine, None)), run.precision.mtp_tokens)
    settings = CostSettings(engine=engine, mtp_tokens=run.precision.mtp_tokens, mtp_acceptance=accepted)
    return CostContext(gpu=roomy, model=model, settings=settings)


def _acceptance(gain: float, drafted: int) -> float:
    low, high = 0.0, 1.0
    for _ in range(HALVINGS if drafted else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(middle**k for k in range(drafted + 1)) < gain else (low, middle)
    return high


def _settled(in_flight: float, answer: float, full: float, times: TIMES) -> tuple[float, float, float]:
    """(x, TTFT, TPOT)."""
    low, high = 0.0, full
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        ttft, tpot = times(middle)
        low, high = (middle, high) if middle * (ttft + answer * tpot) / 1000 < in_flight else (low, middle)
    return low, *times(low)


def aggregated_deck(
    context: CostContext, pool: Pool, prompt: float, answer: float, in_flight: float, budget: int = BUDGET
) -> DeckFigures | None:
    """One worker that does both phases with `in_flight` requests; None where nothing fits."""
    load = one_length(prompt, answer)
    buckets = Buckets.of(load, [(0, 1)])
    shape = ParallelConfig(tp=pool.tp, dp=pool.dp)
    servers = MixedServers.of(context, [(shape, budget)], buckets, int(answer))
    batch, full = servers.full_rps(buckets, levels_of(load))
    if not full[0, 0]:
        return None

    def times(rate: float) -> tuple[float, float]:
        served = np.array([[rate]])
        service, _, _, left = servers.queue(buckets, served, full, full[0])
        return float(service[0, 0, 0] + left.mean_ms[0, 0]), float(servers.tpot_ms(buckets, served, batch, 0.0)[0, 0])

    rate, ttft, tpot = _settled(in_flight, answer, float(full[0, 0]), times)
    return DeckFigures(output=rate * answer / shape.devices, tpot_ms=tpot, ttft_ms=ttft)


def split_deck(
    context: CostContext, prefill: Pool, decode: Pool, prompt: float, answer: float, in_flight: float
) -> DeckFigures:
    """Workers of both phases with `in_flight` requests."""
    load = one_length(prompt, answer)
    buckets = Buckets.of(load, [(0, 1)])
    first = PrefillServers.of(context, [(ParallelConfig(tp=prefill.tp, dp=prefill.dp), BUDGET, False)], buckets)
    taken_in = first.full_rps(buckets)
    after = DecodeServers.of(context, [(ParallelConfig(tp=decode.tp, dp=decode.dp), False)], buckets, int(answer))
    batch, answered = after.batches(buckets, levels_of(load))

    def times(rate: float) -> tuple[float, float]:
        served = np.array([[rate / prefill.workers]])
        service, rho, tail, left = first.queue(buckets, served, taken_in, taken_in[0] * prefill.workers)
        waiting = float((left.mean_ms + rho * tail.at(np.zeros((1, 1))))[0, 0])
        tpot = after.tpot_ms(buckets, np.array([[rate / decode.workers]]), batch, 0.0)
        return float(service[0, 0, 0]) + waiting, float(tpot[0, 0])

    full = min(float(taken_in[0, 0]) * prefill.workers, float(answered[0, 0]) * decode.workers)
    rate, ttft, tpot = _settled(in_flight, answer, full, times)
    return DeckFigures(output=rate * answer / (prefill.gpus + decode.gpus), tpot_ms=tpot, ttft_ms=ttft)


def deck_of(entry: NamedRun, engine: str = "") -> DeckFigures | None:
    """The deck of a run of `serving_points.csv`; `engine` as in `context_of`."""
    run, context = entry.run, context_of(entry, engine)
    assert run.concurrency is not None
    if run.disaggregated:
        assert run.prefill is not None
        return split_deck(context, run.prefill, run.decode, run.input_tokens, run.output_tokens, run.concurrency)
    each = run.concurrency / run.decode.workers
    budget = habits(run.engine).tokens_per_step
    return aggregated_deck(context, run.decode, run.input_tokens, run.output_tokens, each, budget)
