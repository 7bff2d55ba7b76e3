"""Servers of buckets: full pace, mixes, batches and caps, each worked out once more for one server and one bucket."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from cost_figures import gpu, model
from cost_workloads import workload
from hypothesis import given
from hypothesis import strategies as st
from prefill_simulation import PrefillPool, arrivals_ms

from planner.cost import CostContext, memory
from planner.cost.attention import cache_bytes_per_sequence
from planner.cost.rates import pool_share
from planner.cost.serving import Arrivals, Buckets, DecodeServers, Levels, PrefillServers, RestOfStep, late_share
from planner.cost.serving.decode_servers import BATCHES, FULL_MOMENTS, Stay, largest_load
from planner.cost.serving.step_curves import STEP_TOKENS, StepCurves
from planner.cost.step import Steps, step_cost
from planner.domain import CostSettings, ParallelConfig, Phase, RouterPolicy, SloSettings, behaviour_of
from planner.units import GB

LOAD = workload((128, 1024, 4096, 7000), (0.4, 0.3, 0.2, 0.1), mean_output_tokens=200, max_output_tokens=1000)
INTERVALS = [(0, 4), (0, 2), (2, 4), (3, 4)]
BUCKETS = Buckets.of(LOAD, INTERVALS)
SLO = SloSettings(ttft_ms=3000, tpot_ms=50, percentile=99)
LEVELS = Levels.of(SLO, LOAD)
CONTEXT = CostContext(gpu=gpu("H200"), model=model("deepseek-v3"), settings=CostSettings())
SHAPES = [(ParallelConfig(tp=tp, dp=dp), budget) for tp, dp in ((1, 8), (2, 8), (8, 1)) for budget in (4096, 16384)]
PREFILL = PrefillServers.of(CONTEXT, [(shape, budget, False) for shape, budget in SHAPES], BUCKETS)
DECODE_SHAPES = [ParallelConfig(tp=1, dp=16), ParallelConfig(tp=2, dp=8), ParallelConfig(tp=8, dp=1)]
DECODE = DecodeServers.of(CONTEXT, [(shape, False) for shape in DECODE_SHAPES], BUCKETS, LOAD.max_output_tokens)
FULL = PREFILL.full_rps(BUCKETS)
TOGETHER = FULL[0] * 6


def degrees(shape: ParallelConfig) -> tuple[np.ndarray, ...]:
    return tuple(np.array([[float(value)]]) for value in (shape.tp, shape.dp, shape.pp))


def prompt_ms(shape: ParallelConfig, budget: int, tokens: float) -> float:
    """Time of a prompt at a full budget: a step of as many as fit, over their number."""
    context = replace(CONTEXT, settings=replace(CONTEXT.settings, max_tokens_per_step=budget))
    tp, dp, pp = degrees(shape)
    experts = memory.experts_on_device(context.model, context.settings, tp * dp)
    fits = memory.max_prompts(context, longest=np.array([[tokens]]), tp=tp, experts_on_device=experts, pp=pp)
    prompts = min(max(1.0, budget / tokens), float(np.floor(fits[0, 0])))
    length = np.array([[tokens]])
    steps = Steps(phase=Phase.PREFILL, tp=tp, dp=dp, pp=pp, length=length, batch=np.array([[prompts]]))
    return float(step_cost(context, steps, overlap=False).total_ms[0, 0]) / prompts


def decode_ms(shape: ParallelConfig, batch: float, tokens: float) -> float:
    tp, dp, pp = degrees(shape)
    steps = Steps(phase=Phase.DECODE, tp=tp, dp=dp, pp=pp, length=np.array([[tokens]]), batch=np.array([[batch]]))
    return float(step_cost(CONTEXT, steps, overlap=False).total_ms[0, 0])


def test_full_pace_is_a_scalars_arithmetic() -> None:
    rows = {(config.parallel, config.tokens_per_step): row for row, config in enumerate(PREFILL.configs)}
    for shape, budget in SHAPES:
        for bucket, (first, after) in enumerate(INTERVALS):
            spans = LOAD.ranges[first:after]
            weight = sum(span.probability for span in spans)
            mean = sum(span.probability / weight * prompt_ms(shape, budget, span.mean_input_tokens) for span in spans)
            expected = 1000 * pool_share(CONTEXT) * shape.dp * shape.pp / mean
            assert FULL[rows[shape, budget], bucket] == pytest.approx(expected, rel=1e-9)


def test_a_buckets_rate_is_the_harmonic_mean_of_its_ranges() -> None:
    alone = PREFILL.range_rps()
    for bucket in range(len(INTERVALS)):
        mine = BUCKETS.weights[bucket] > 0
        harmonic = 1 / (BUCKETS.weights[bucket][mine] / alone[:, mine]).sum(axis=1)
        assert FULL[:, bucket] == pytest.approx(harmonic)


def test_moments_and_members() -> None:
    assert BUCKETS.weights.sum(axis=1) == pytest.approx(1)
    assert BUCKETS.probabilities == pytest.approx([1, 0.7, 0.3, 0.1])
    assert BUCKETS.members.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]]


@given(st.lists(st.floats(0.1, 500), min_size=len(STEP_TOKENS), max_size=len(STEP_TOKENS)), st.floats(0, 70_000))
def test_step_times_are_exact_at_known_points_and_lie_between(times: list[float], tokens: float) -> None:
    curves = StepCurves.of(np.array(times)[None, None], (1, 1))
    for point, time in zip(STEP_TOKENS, times, strict=True):
        assert curves.at(np.array([[float(point)]]))[0, 0] == pytest.approx(time)
    if STEP_TOKENS[0] <= tokens <= STEP_TOKENS[-1]:
        expected = float(np.interp(tokens, STEP_TOKENS, times))
        assert curves.at(np.array([[tokens]]))[0, 0] == pytest.approx(expected, abs=1e-6)


def capped(slo: SloSettings = SLO, together: np.ndarray = TOGETHER, variation: float = 1.0) -> np.ndarray:
    return PREFILL.capped_rps(BUCKETS, Levels.of(slo, LOAD), together, Arrivals.varied(variation))


@cache
def caps() -> np.ndarray:
    """Of the levels and company that tests begin with."""
    return capped()


def test_no_bound_leaves_full_pace() -> None:
    assert (capped(SloSettings()) == FULL).all()
    assert (capped(SloSettings(tpot_ms=50, percentile=99)) == FULL).all()
    assert capped(replace(SLO, ttft_ms=1e9)) == pytest.approx(FULL, rel=1e-5)


@given(st.floats(300, 20_000), st.floats(1.0, 4.0), st.sampled_from([None, 90.0, 99.0]))
def test_caps_follow_the_bound(ttft_ms: float, looser: float, percentile: float | None) -> None:
    tight = capped(SloSettings(ttft_ms=ttft_ms, tpot_ms=50, percentile=percentile))
    loose = capped(SloSettings(ttft_ms=ttft_ms * looser, tpot_ms=50, percentile=percentile))
    assert (tight >= 0).all()
    assert (tight <= FULL).all()
    assert (tight <= loose * (1 + 1e-6)).all()


@given(st.floats(1.0, 60.0), st.floats(1.0, 4.0))
def test_caps_follow_bursts_and_company(variation: float, more: float) -> None:
    bursts = capped(variation=variation)
    assert (bursts <= caps() * (1 + 1e-6)).all()
    assert (capped(variation=variation * more) <= bursts * (1 + 1e-6)).all()
    assert (capped(together=TOGETHER * more) >= caps() * (1 - 1e-6)).all()


def test_a_rarer_miss_allows_less() -> None:
    shares = [np.full(len(INTERVALS), misses) for misses in (0.002, 0.01, 0.05)]
    caps = [PREFILL.capped_rps(BUCKETS, Levels.of(SLO, LOAD, misses), TOGETHER) for misses in shares]
    assert (caps[0] <= caps[1]).all()
    assert (caps[1] <= caps[2]).all()


def late(rate: np.ndarray) -> np.ndarray:
    """Share of a bucket's requests that miss the bound at `rate` of each server."""
    service, rho, tail, rest = PREFILL.queue(BUCKETS, rate, FULL, TOGETHER)
    slack = LEVELS.ttft_ms - LEVELS.first_step_ms - service
    mean = (np.where(np.isinf(slack), 0.0, slack) * BUCKETS.weights).sum(axis=-1)
    return np.asarray((late_share(slack, rho, tail.at(mean), rest) * BUCKETS.weights).sum(axis=-1))


def test_at_the_cap_the_misses_are_what_is_allowed() -> None:
    rate = capped()
    assert (late(rate)[rate > 0.001 * FULL] <= 0.01 * (1 + 1e-6)).all()
    bound_by_waits = (rate > 0.001 * FULL) & (rate < 0.999 * FULL)
    assert (late(np.minimum(rate * 1.001, FULL))[bound_by_waits] > 0.01 * (1 - 1e-6)).all()


@given(st.floats(0, 6000), st.floats(0.05, 0.99), st.floats(5, 3000), st.floats(5, 2000), st.floats(0, 1))
def test_what_is_late_is_the_sum_of_a_rest_and_a_wait(
    slack: float, rho: float, tail: float, cycle: float, chance: float
) -> None:
    rest = RestOfStep(cycle_ms=np.array(cycle), chance=np.array(chance))
    share = float(late_share(np.array([slack]), np.array(rho), np.array(tail), rest)[0])
    middles = (np.arange(4000) + 0.5) / 4000 * cycle
    waits = np.where(middles > slack, 1.0, rho * np.exp(-np.maximum(slack - middles, 0) / tail))
    assert share == pytest.approx(chance * waits.mean() + (1 - chance) * rho * np.exp(-slack / tail), abs=2e-3)
    assert rest.mean_ms == pytest.approx(chance * cycle / 2)


STAGES = 4
PIPELINE = PrefillServers.of(CONTEXT, [(ParallelConfig(tp=2, dp=dp, pp=STAGES), 8192, False) for dp in (1, 4)], BUCKETS)
QUICKER = replace(  # no stages, and steps that take as long as a stage does
    PIPELINE,
    configs=tuple(replace(config, parallel=replace(config.parallel, pp=1)) for config in PIPELINE.configs),
    prompt_ms=PIPELINE.prompt_ms / STAGES,
    own_ms=PIPELINE.own_ms / STAGES,
    step_ms=PIPELINE.step_ms / STAGES,
)


@pytest.mark.parametrize("policy", [RouterPolicy.LEAST_WORK, RouterPolicy.RANDOM])
@pytest.mark.parametrize("load", [0.05, 0.5, 0.9])
def test_a_pipeline_makes_requests_wait_as_steps_of_a_stages_length_do(policy: RouterPolicy, load: float) -> None:
    """A pipeline of p stages starts a step each time that a stage ends. Whoever waits for that sees a server without
    stages whose steps take a p-th; only the prompt's own step takes all p."""
    full, arrivals = PIPELINE.full_rps(BUCKETS), Arrivals(layers=behaviour_of(policy).prefill)
    assert full == pytest.approx(QUICKER.full_rps(BUCKETS))
    assert (full > 0).all()
    pipeline, plain = (
        servers.queue(BUCKETS, load * full, full, 3 * full[0], arrivals) for servers in (PIPELINE, QUICKER)
    )
    assert pipeline[1] == pytest.approx(plain[1])
    for name in ("cycle_ms", "chance"):
        assert getattr(pipeline[3], name) == pytest.approx(getattr(plain[3], name))
    for wait_ms in (10.0, 1000.0):
        waits = [tail.at(np.full(full.shape, wait_ms)) for tail in (pipeline[2], plain[2])]
        assert waits[0] == pytest.approx(waits[1])


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_step_under_way_is_what_a_simulation_finds(ranks: int) -> None:
    """Prompts of 2048 tokens so rarely that hardly two meet: who comes while a step is under way waits for its rest.
    Steps take 30 ms up to 1024 tokens and a rank, as weights have to be read, and 150 ms of 2048."""
    times = np.interp(STEP_TOKENS, (1024, 2048, 65536), (30.0, 150.0, 150.0))
    load = workload((2048,), (1.0,))
    buckets = Buckets.of(load, [(0, 1)])
    option = (ParallelConfig(tp=2, dp=ranks), 2048, False)
    servers = PrefillServers.of(CONTEXT, [option], buckets)
    servers = replace(servers, pace=1.0, step_ms=np.broadcast_to(times, servers.step_ms.shape))
    gap_ms, prompts = 3000.0, 20_000
    pool = PrefillPool(
        islands=1,
        ranks=ranks,
        budget=2048.0,
        pace=1.0,
        step_ms=lambda tokens: float(np.interp(tokens, STEP_TOKENS, times)),
    )
    came_ms = np.array(arrivals_ms(1000 / gap_ms, prompts, seed=1))
    waits = pool.finished_ms(came_ms.tolist(), [2048.0] * prompts) - came_ms
    rate, full = np.array([[1000 / gap_ms]]), servers.full_rps(buckets)
    rest = servers.queue(buckets, rate, full, full[0])[3]
    assert waits.mean() - waits.min() == pytest.approx(float(rest.mean_ms[0, 0]), rel=0.12)


def decoding(bucket: int) -> tuple[float, float, float]:
    """(mean answer, mean and standard deviation of the cached tokens of a place) of a bucket."""
    weights = BUCKETS.weights[bucket]
    tokens = float(weights @ BUCKETS.answers)
    places = weights * BUCKETS.answers / tokens
    context = BUCKETS.prompts + BUCKETS.answers / 2
    mean = float(places @ context)
    variance = float(places @ (context**2 + BUCKETS.answers**2 / 12)) - mean**2
    return tokens, mean, variance**0.5


def fits(shape: ParallelConfig, bucket: int, batch: float) -> bool:
    """Whether so many whole sequences leave room in 99 of 100 moments, and the longest one by itself."""
    tp, dp, pp = degrees(shape)
    experts = memory.experts_on_device(CONTEXT.model, CONTEXT.settings, tp * dp)
    free = float(memory.free_gb(CONTEXT.gpu, CONTEXT.model, tp=tp, experts_on_device=experts, pp=pp)[0, 0])

    def cache_gb(tokens: float) -> float:
        per_sequence = cache_bytes_per_sequence(CONTEXT.model, np.array([[tokens]]), tp)[0, 0] / GB
        return float(per_sequence) + float(np.ravel(memory.activation_gb(CONTEXT.model, 1, tp))[0])

    weights = BUCKETS.weights[bucket] * BUCKETS.answers
    places = weights / weights.sum()
    sizes = np.array([cache_gb(t) for t in BUCKETS.prompts + BUCKETS.answers])
    mean, variance = places @ sizes, places @ sizes**2 - (places @ sizes) ** 2
    longest = max(BUCKETS.longest[BUCKETS.weights[bucket] > 0])
    full = mean * batch + FULL_MOMENTS * (max(variance, 0.0) * batch) ** 0.5
    return bool(max(full, cache_gb(longest + LOAD.max_output_tokens)) <= free)


@pytest.mark.parametrize("bucket", range(len(INTERVALS)))
@pytest.mark.parametrize("row", range(len(DECODE_SHAPES)))
@pytest.mark.parametrize("tpot_ms", [30, 50, None])
def test_a_batch_is_the_best_that_fits_and_keeps_the_bound(row: int, bucket: int, tpot_ms: float | None) -> None:
    shape, slo = DECODE_SHAPES[row], replace(SLO, tpot_ms=tpot_ms)
    batches, rates = DECODE.batches(BUCKETS, Levels.of(slo, LOAD))
    batch, rate = float(batches[row, bucket]), float(rates[row, bucket])
    tokens, mean, spread = decoding(bucket)
    if not batch:
        assert tpot_ms is not None
        assert decode_ms(shape, 1, mean + 2.3263 * spread) > tpot_ms * 0.99
        return
    assert batch in BATCHES
    assert batch % 8 == 0 or batch in (1, 2, 4)
    assert fits(shape, bucket, batch)
    assert rate == pytest.approx(1000 * shape.dp * batch / (tokens * decode_ms(shape, batch, mean)), rel=0.01)
    if tpot_ms is not None:
        assert decode_ms(shape, batch, mean + 2.3263 * spread / batch**0.5) <= tpot_ms * 1.01
    for larger in (b for b in BATCHES if b > batch):
        faster = 1000 * shape.dp * larger / (tokens * decode_ms(shape, larger, mean)) > rate * 1.01
        slow = tpot_ms is not None and decode_ms(shape, larger, mean + 2.3263 * spread / larger**0.5) > tpot_ms * 0.99
        assert not faster or slow or not fits(shape, bucket, larger)


def test_places_cap_decode_servers_and_more_of_them_cap_less() -> None:
    batch, one_alone, full = DECODE.capped_rps(BUCKETS, LEVELS, DECODE.batches(BUCKETS, LEVELS)[1].max(axis=0))
    _, many, _ = DECODE.capped_rps(BUCKETS, LEVELS, 50 * full.max(axis=0))
    assert (one_alone <= full).all()
    assert (one_alone <= many * (1 + 1e-9)).all()
    assert (many <= full).all()
    assert (many[batch > 0] > 0).all()
    unbounded = DECODE.capped_rps(BUCKETS, Levels.of(replace(SLO, ttft_ms=None), LOAD), full.max(axis=0))
    assert (unbounded[1] == unbounded[2]).all()


@pytest.mark.parametrize("servers", [1.0, 3.0, 20.0])
def test_drawn_servers_are_as_full_as_one_alone_with_its_share_of_the_bursts(servers: float) -> None:
    """A server to which one of n requests is sent sees counts of 1 + (I - 1) / n."""
    cell = np.ones((1, 1))
    stay = Stay(places=64 * cell, stays_ms=20_000 * cell, patience_ms=200 * cell, misses=0.001)
    drawn, alone = (
        largest_load(
            stay,
            share * cell,
            replace(Arrivals.varied(counts), layers=behaviour_of(RouterPolicy.RANDOM).prefill),
            served=False,
        )
        for share, counts in ((servers, 41.0), (1.0, 1 + 40.0 / servers))
    )
    assert drawn == pytest.approx(alone)
    assert 0 < drawn[0, 0] < 0.9


def test_a_server_keeps_the_batch_that_it_is_started_for() -> None:
    for only in (8, 16, 64):
        batches, rates = DECODE.batches(BUCKETS, LEVELS, only)
        assert set(np.unique(batches)) <= {0.0, float(only)}
        assert (rates <= DECODE.batches(BUCKETS, LEVELS)[1] * (1 + 1e-12)).all()


def test_more_requests_take_longer_per_token() -> None:
    batch, rates = DECODE.batches(BUCKETS, LEVELS)
    times = [DECODE.tpot_ms(BUCKETS, rates * part, batch, 2.33) for part in (0.05, 0.3, 0.6, 0.9, 1.0)]
    for slow, fast in zip(times[1:], times, strict=False):
        assert (slow >= fast * (1 - 1e-9)).all()
    assert (times[-1][batch > 0] <= 50 * 1.01).all()


def test_no_range_is_slower_alone_than_what_bounds_it() -> None:
    """No bucket's rate is above the harmonic mix of its ranges' own bounds."""
    own = DECODE.range_rps(BUCKETS, LEVELS)
    _, rates = DECODE.batches(BUCKETS, LEVELS)
    for bucket in range(len(INTERVALS)):
        mine = BUCKETS.weights[bucket] > 0
        with np.errstate(divide="ignore"):
            most = 1 / (BUCKETS.weights[bucket][mine] / own[:, mine]).sum(axis=1)
        assert (rates[:, bucket] <= most * (1 + 1e-9)).all()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_the_more_evenly_requests_come_the_more_places_are_in_use() -> None:
    """Down to those that come like clockwork, of which nobody waits."""
    cell = np.ones((1, 1))
    stay = Stay(places=24 * cell, stays_ms=3000 * cell, patience_ms=200 * cell, misses=0.01)
    loads = [
        largest_load(stay, 2 * cell, Arrivals.varied(counts), served=False)[0, 0] for counts in (5.0, 1.0, 0.1, 0.0)
    ]
    assert loads == sorted(loads)
    assert loads[-1] > 0.95
