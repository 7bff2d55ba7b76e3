"""Runs of one model on one GPU type with one engine, as columns; and what the formulas say of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from planner.cost import memory
from planner.cost.arrays import Array
from planner.cost.benchmarks.closed_loop import ALL_WAITING, Loop, PassTimes, passes_of, settle
from planner.cost.benchmarks.engines import EngineHabits, EngineShares
from planner.cost.device import CostContext
from planner.cost.drafts import draft_of
from planner.domain import BenchmarkRun, CostSettings, GpuSpec, Load, Metric, ModelSpec, Pool
from planner.units import MS_PER_S

_LOADS = np.geomspace(1e-3, 1.0, 25)  # of a decode pool's places at which its steps are priced
MEMORY_GIVEN = 0.95 / 0.9  # benchmarks give their engines more of the memory than manifests do


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Runs that share machine, model, precision, engine and drafts, with what memory holds on each (sequences)."""

    runs: tuple[BenchmarkRun, ...]
    context: CostContext
    habits: EngineHabits

    def column(self, of: Callable[[BenchmarkRun], float]) -> Array:
        """One figure of every run."""
        return np.array([of(run) for run in self.runs], dtype=float)

    def chosen(self, positions: Sequence[int]) -> "Batch":
        """Some of the runs."""
        return replace(self, runs=tuple(self.runs[k] for k in positions))


Predicted = dict[Metric, Array]


def most_sequences(gpu: GpuSpec, model: ModelSpec, run: BenchmarkRun, habits: EngineHabits) -> float:
    """Sequences that the memory of an attention group of the run's decode pool holds; below 1 where weights fail."""
    roomy = replace(gpu, memory_mib=gpu.memory_mib * MEMORY_GIVEN, memory_gb=gpu.memory_gb * MEMORY_GIVEN)
    pool = run.decode
    per_gpu = -(-model.routed_experts // pool.worker_gpus) + model.shared_experts
    return float(
        memory.max_batch(
            roomy,
            model,
            seq_len=run.input_tokens,
            decode_len=run.output_tokens * habits.reserved,
            tp=pool.tp,
            experts_on_device=per_gpu,
            draft=draft_of(model, CostSettings(mtp_tokens=run.precision.mtp_tokens)),
        )
    )


def gain_of(run: BenchmarkRun, shares: EngineShares) -> float:
    """Tokens that a pass yields: the run's own figure, or the engine's for three drafts, in part for fewer."""
    if run.precision.mtp_tokens == 0:
        return 1.0
    if run.mtp_gain is not None:
        return run.mtp_gain
    acceptance = _acceptance(shares.mtp_gain, 3)
    return sum(acceptance**k for k in range(run.precision.mtp_tokens + 1))


def _acceptance(gain: float, drafted: int) -> float:
    """The chance p of a drafted token that 1 + p + p^2 + ... = gain says."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        # The sum rises with the chance.
        below = sum(middle**k for k in range(drafted + 1)) < gain
        low, high = (middle, high) if below else (low, middle)
    return low


def in_decode(run: BenchmarkRun) -> float:
    """Requests in decode by Little's law, of one attention group: measured rate times measured TPOT."""
    measured = dict(run.measured)
    pool = run.decode
    answering = measured[Metric.OUTPUT_RATE] * pool.gpus * measured[Metric.TPOT] / MS_PER_S
    return answering / (pool.workers * pool.dp)


def closed_loops(batch: Batch, times: PassTimes, shares: EngineShares, begin: Array | None) -> tuple[Predicted, Array]:
    """Aggregated pools, saturated ones too; and the sequences that they settle at."""

    def flying(run: BenchmarkRun) -> float:
        if run.batch_per_rank is not None:
            return np.inf
        return run.concurrency / _groups(run) if run.concurrency is not None else np.inf

    in_memory = batch.column(lambda run: most_sequences(batch.context.gpu, batch.context.model, run, batch.habits))
    capped = batch.column(lambda run: np.inf if run.batch_per_rank is None else run.batch_per_rank)
    loop = Loop(
        tp=batch.column(lambda run: run.decode.tp),
        dp=batch.column(lambda run: run.decode.dp),
        ep=batch.column(lambda run: run.decode.ep),
        prompt=batch.column(lambda run: run.input_tokens),
        answer=batch.column(lambda run: run.output_tokens),
        in_flight=batch.column(flying),
        capacity=np.maximum(1.0, np.minimum(np.minimum(in_memory, capped), 2048.0)),
        gain=batch.column(lambda run: gain_of(run, shares)),
        budget=float(batch.habits.tokens_per_step),
    )
    figures = settle(times, loop, shares, begin=begin)
    return {
        Metric.OUTPUT_RATE: figures.rate,
        Metric.TPOT: figures.tpot_ms,
        Metric.TTFT: figures.ttft_ms,
    }, figures.sequences


def held_loops(batch: Batch, times: PassTimes, shares: EngineShares) -> Predicted:
    """TPOT of aggregated pools at the sequences that were in them by Little's law, wherever a loop would settle."""
    gain = batch.column(lambda run: gain_of(run, shares))
    sequences = batch.column(in_decode)
    loop = replace(_loop_of(batch, lambda run: run.decode), gain=gain)
    tpot_ms, _, _ = passes_of(times, loop, sequences)
    return {Metric.TPOT: tpot_ms}


def _groups(run: BenchmarkRun) -> int:
    return run.decode.workers * run.decode.dp


def _loop_of(batch: Batch, pool: Callable[[BenchmarkRun], Pool]) -> Loop:
    """The columns of a loop that nothing is waited for in."""
    ones = np.ones(len(batch.runs))
    return Loop(
        tp=batch.column(lambda run: pool(run).tp),
        dp=batch.column(lambda run: pool(run).dp),
        ep=batch.column(lambda run: pool(run).ep),
        prompt=batch.column(lambda run: run.input_tokens),
        answer=batch.column(lambda run: run.output_tokens),
        in_flight=ones,
        capacity=ones,
        gain=ones,
        budget=float(batch.habits.tokens_per_step),
    )


def _prefill_pool(run: BenchmarkRun) -> Pool:
    return run.prefill or run.decode


def decode_pools(batch: Batch, times: PassTimes, shares: EngineShares) -> Predicted:
    """TPOT of disaggregated decode pools with the requests that were in them."""
    loop = _loop_of(batch, lambda run: run.decode)
    answering = batch.column(in_decode)
    busy = np.maximum(answering, np.minimum(1.0, answering * loop.dp))  # a rank that works has a whole sequence
    gain = batch.column(lambda run: gain_of(run, shares))
    return {Metric.TPOT: times.ms(loop, busy, np.zeros(busy.shape)) / gain}


def prefill_pools(batch: Batch, times: PassTimes, shares: EngineShares) -> Predicted:
    """Input rate of disaggregated prefill pools that requests wait for: whole prompts, or chunks of long ones."""
    loop = _loop_of(batch, _prefill_pool)
    chunk = _full_step(loop)
    ms = times.apart.prefill_ms(loop, chunk)
    return {Metric.INPUT_RATE: chunk / loop.tp / ms * MS_PER_S * shares.prefill_pool}


def prompts_alone(batch: Batch, times: PassTimes, _shares: EngineShares) -> Predicted:
    """Output rate of servers by themselves, no router before them, whose answers have one token."""
    loop = _loop_of(batch, lambda run: run.decode)
    chunk = _full_step(loop)
    requests = chunk / loop.prompt / loop.tp / times.apart.prefill_ms(loop, chunk) * MS_PER_S
    return {Metric.OUTPUT_RATE: requests * loop.answer}


def _full_step(loop: Loop) -> Array:
    """Tokens of a step that is as full as prompts make it."""
    whole_prompts = np.floor(loop.budget / loop.prompt) * loop.prompt
    return np.where(whole_prompts > 0, whole_prompts, loop.budget)


def split_loops(batch: Batch, times: PassTimes, shares: EngineShares) -> Predicted:
    """Output rate of disaggregated pools with the run's requests in flight, per GPU of decode.

    A request waits for its prompt's steps (and half of the one under way, as often as there is one), then answers in
    the decode pool: as many are in flight as the rate times that stay. It is at most what prefill takes in, and what
    the memory of decode holds. NICs are left aside: caches take them for less than a hundredth of a step.
    """
    first, after = _loop_of(batch, _prefill_pool), _loop_of(batch, lambda run: run.decode)
    in_flight = np.minimum(batch.column(lambda run: run.concurrency or np.inf), ALL_WAITING)
    groups = batch.column(_groups)
    in_memory = batch.column(lambda run: most_sequences(batch.context.gpu, batch.context.model, run, batch.habits))
    places = np.minimum(np.maximum(in_memory, 1.0), in_flight / groups) * _LOADS[:, None]
    busy = np.maximum(places, np.minimum(1.0, places * after.dp))
    tpot = times.ms(after, busy, np.zeros(busy.shape)) / batch.column(lambda run: gain_of(run, shares))
    rate = places * groups / (after.answer * tpot)
    full = _full_step(first)
    one = np.minimum(first.prompt, full)
    own_ms, full_ms = times.apart.prefill_ms(first, np.stack([one, full]))
    ranks = batch.column(lambda run: _prefill_pool(run).workers * _prefill_pool(run).dp)
    taken_in = ranks * full / (first.prompt * full_ms) * shares.prefill_pool
    load = np.minimum(1.0, rate / taken_in)
    filled = np.maximum(0.0, load * full - one) / np.maximum(full - one, 1.0)
    step = np.maximum(1.0, first.prompt / full) * (own_ms + (full_ms - own_ms) * filled)
    ttft = shares.ttft_fixed_ms + step * (1 + load / 2) + tpot
    staying = np.log(rate * (ttft + after.answer * tpot))
    settled = [np.interp(np.log(n), staying[:, k], np.log(rate[:, k])) for k, n in enumerate(in_flight)]
    served = np.minimum(np.exp(settled), taken_in)
    return {Metric.OUTPUT_RATE: served * after.answer / batch.column(lambda run: run.decode.gpus) * MS_PER_S}


def decode_steps(batch: Batch, times: PassTimes, shares: EngineShares) -> Predicted:
    """Output rate of decode steps of given batches."""
    loop = _loop_of(batch, lambda run: run.decode)
    sequences = batch.column(lambda run: run.batch_per_rank or 1.0)
    gain = batch.column(lambda run: gain_of(run, shares))
    ms = times.ms(loop, sequences, np.zeros(sequences.shape)) / gain
    return {Metric.OUTPUT_RATE: sequences / loop.tp / ms * MS_PER_S}


def prefill_steps(batch: Batch, times: PassTimes, _: EngineShares) -> Predicted:
    """Input rate of prefill steps of given batches."""
    loop = _loop_of(batch, _prefill_pool)
    chunk = batch.column(lambda run: run.batch_per_rank or 1.0) * loop.prompt
    return {Metric.INPUT_RATE: chunk / loop.tp / times.apart.prefill_ms(loop, chunk) * MS_PER_S}


def prompt_batches(batch: Batch, times: PassTimes, _: EngineShares) -> Predicted:
    """Time to the first token of a batch that nothing else disturbs."""
    loop = _loop_of(batch, lambda run: run.decode)
    chunk = batch.column(_of_group) * loop.prompt
    return {Metric.TTFT: times.apart.prefill_ms(loop, chunk)}


def static_batches(batch: Batch, times: PassTimes, shares: EngineShares) -> Predicted:
    """Latency and output rate of a batch that is started together and run to its end."""
    loop = _loop_of(batch, lambda run: run.decode)
    sequences = batch.column(_of_group)
    tokens = sequences * loop.prompt
    chunk = np.minimum(tokens, loop.budget)
    gain = batch.column(lambda run: gain_of(run, shares))
    answering = loop.answer * times.ms(loop, sequences, np.zeros(sequences.shape)) / gain
    latency = times.prefill_ms(loop, chunk) * tokens / chunk + answering
    return {
        Metric.LATENCY: latency,
        Metric.OUTPUT_RATE: sequences * loop.answer / loop.tp / latency * MS_PER_S,
    }


def _of_group(run: BenchmarkRun) -> float:
    return (run.concurrency or 1.0) / _groups(run)


PREDICTORS: Mapping[Load, Callable[[Batch, PassTimes, EngineShares], Predicted]] = MappingProxyType(
    {
        Load.STATIC_BATCH: static_batches,
        Load.PROMPT_BATCH: prompt_batches,
        Load.PREFILL_STEP: prefill_steps,
        Load.DECODE_STEP: decode_steps,
    }
)
