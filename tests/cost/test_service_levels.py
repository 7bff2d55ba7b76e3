"""Batches and rates under bounds on TTFT and TPOT: brute force over batches, and what tighter bounds may not do."""

from dataclasses import replace

import numpy as np
import pytest
from cost_figures import factors, gpu, model
from cost_workloads import workload
from hypothesis import given
from hypothesis import strategies as st
from queue_simulations import arrivals, waits_before_steps

from planner.cost import (
    CostContext,
    closest,
    decode_time,
    max_batch_size,
    open_backend,
    prefill_time,
    smallest_island,
    tabulate,
)
from planner.cost.arrays import Array
from planner.cost.grid import Degrees, RateGrid
from planner.cost.parallelism import replica_shapes
from planner.cost.rates import QUADRATURE_POINTS as POINTS
from planner.cost.rates import decode_rates, prefill_rates
from planner.cost.service_levels import FIRST_STEP_MS, ServiceBounds
from planner.domain import (
    PHASES,
    CostSettings,
    CostSource,
    Measurement,
    ParallelConfig,
    Phase,
    PhasePerformance,
    RangeSlo,
    SloSettings,
)
from planner.domain.service import range_bounds

LOAD = workload((128, 1024, 4096), mean_output_tokens=200, max_output_tokens=1000)
PLAIN = CostSettings()
RATES = {Phase.PREFILL: prefill_rates, Phase.DECODE: decode_rates}
MODELS = ("deepseek-v3", "llama-3.1-70b")


def grid(name: str, shape: str, phase: Phase, slo: SloSettings | None, devices: tuple[int, ...] = (8, 16)) -> RateGrid:
    spec, served = gpu(name), model(shape)
    configs = [c for d in devices for c in replica_shapes(CostContext(gpu=spec, model=served, settings=PLAIN), d)]
    backend = open_backend(CostContext(gpu=spec, model=served, settings=PLAIN))
    return RATES[phase](
        backend,
        CostContext(gpu=spec, model=served, settings=PLAIN),
        LOAD,
        Degrees.of(configs),
        ServiceBounds.of(slo, LOAD),
    )


def row(phase: Phase, slo: SloSettings, name: str = "H200", size: int = 16) -> PhasePerformance:
    return tabulate(gpu(name), size, model=model("deepseek-v3"), workload=LOAD, settings=PLAIN, slo=slo).phase(phase)


def judged(one: ParallelConfig, batch: int | Array, prompt: int, percentile: float | None) -> Array:
    """TPOT of each batch as a bound judges it, by the public function."""
    points = np.array([200.0]) if percentile is not None else 200 * (np.arange(POINTS) + 0.5) / POINTS - 0.5
    time = decode_time(
        "H200",
        prompt + points,
        tp=one.tp,
        batch_size=np.atleast_1d(batch)[:, None],
        devices=one.stage_devices,
        pp=one.pp,
    )
    return np.asarray(time.total_ms.mean(axis=-1))


@pytest.mark.parametrize("percentile", [None, 99.0])
@pytest.mark.parametrize("bound", [25.0, 40.0, 80.0])
def test_batches_are_the_largest_within_the_bound(bound: float, percentile: float | None) -> None:
    found = row(Phase.DECODE, SloSettings(tpot_ms=bound, percentile=percentile))
    one = found.parallel
    assert one is not None
    for j, prompt in enumerate((128, 1024, 4096)):
        fits = max_batch_size("H200", prompt, 1000, tp=one.tp, experts_on_device=-(-256 // one.stage_devices) + 1)
        batches = np.arange(1, int(min(fits, 1024)) + 1)
        most = int(batches[judged(one, batches, prompt, percentile) <= bound].max())
        assert found.batch_sizes[j] == (most - most % 8 if most >= 8 else most)
        assert found.service_ms[j] == pytest.approx(float(judged(one, found.batch_sizes[j], prompt, percentile)[0]))
        assert found.step_ms[j] <= found.service_ms[j] * (1 + 1e-9) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("slo", [None, SloSettings(), SloSettings(percentile=99)])
def test_without_a_bound_the_table_is_the_same(slo: SloSettings | None) -> None:
    kept = {"model": model("deepseek-v3"), "workload": LOAD, "settings": PLAIN}
    assert tabulate(gpu("H20"), 24, **kept, slo=slo) == tabulate(gpu("H20"), 24, **kept)


def test_a_bound_on_one_phase_leaves_the_other_alone() -> None:
    kept = {"model": model("deepseek-v3"), "workload": LOAD, "settings": PLAIN}
    plain = tabulate(gpu("H200"), 16, **kept)
    assert tabulate(gpu("H200"), 16, **kept, slo=SloSettings(tpot_ms=30)).prefill == plain.prefill
    loose = tabulate(gpu("H200"), 16, **kept, slo=SloSettings(tpot_ms=1e6)).decode
    assert replace(loose, utilisation_limits=(), service_ms=()) == plain.decode


def test_a_range_without_a_bound_keeps_its_rate() -> None:
    plain = grid("H200", "deepseek-v3", Phase.PREFILL, None)
    slo = SloSettings(ranges=(RangeSlo(start=3000, end=9000, ttft_ms=400),), percentile=99)
    bounded = grid("H200", "deepseek-v3", Phase.PREFILL, slo)
    assert np.array_equal(bounded.rates_rps[:, :2], plain.rates_rps[:, :2])
    assert (bounded.rates_rps[:, 2] < plain.rates_rps[:, 2]).any()


bounds = st.sampled_from([15.0, 25.0, 40.0, 70.0, 120.0, 400.0])


@given(
    shape=st.sampled_from(MODELS),
    phase=st.sampled_from(list(PHASES)),
    ttft=st.sampled_from([None, 200.0, 600.0, 2000.0, 8000.0]),
    tpot_ms=st.none() | bounds,
    percentile=st.sampled_from([None, 50.0, 90.0, 99.0, 99.9]),
    tighter=st.sampled_from([0.5, 0.8, 0.95]),
)
def test_tighter_bounds_never_raise_a_rate(
    shape: str, phase: Phase, ttft: float | None, tpot_ms: float | None, percentile: float | None, tighter: float
) -> None:
    loose = SloSettings(ttft_ms=ttft, tpot_ms=tpot_ms, percentile=percentile)
    # the first decode step is a part of TTFT: a tighter TPOT makes room there, so TTFT alone is tightened for prefill
    tight = replace(loose, ttft_ms=ttft and ttft * tighter)
    if phase is Phase.DECODE:
        tight = replace(tight, tpot_ms=tpot_ms and tpot_ms * tighter)
    free, wide, narrow = (grid("H200", shape, phase, slo) for slo in (None, loose, tight))
    slack = 1 + 1e-6
    assert (wide.rates_rps <= free.rates_rps * slack).all()
    assert (narrow.rates_rps <= wide.rates_rps * slack).all()
    for found in (wide, narrow):
        if found.utilisation_limits is not None:
            served = found.utilisation_limits[found.rates_rps > 0]
            assert ((served > 0) & (served <= 1)).all()


@pytest.mark.parametrize("percentile", [None, 99.0])
def test_prefill_leaves_time_for_everything_else(percentile: float | None) -> None:
    found = row(Phase.PREFILL, SloSettings(ttft_ms=900, percentile=percentile))
    one = found.parallel
    assert one is not None
    for j, prompt in enumerate((128, 1024, 4096)):
        alone = prefill_time("H200", prompt, tp=one.tp, dp=one.dp, prompts_per_rank=found.batch_sizes[j]).total_ms
        assert float(alone) < found.service_ms[j] < 900 - FIRST_STEP_MS
        full = one.replicas * one.dp * found.batch_sizes[j] * 1000 / float(alone) * factors(gpu("H200")).prefill_pool
        assert found.rates_rps[j] == pytest.approx(full * found.utilisation_limit(j))


@pytest.mark.parametrize("bound", [500.0, 900.0, 3000.0])
def test_simulated_prompts_meet_the_bound_at_the_rate_of_the_table(bound: float) -> None:
    found = row(Phase.PREFILL, SloSettings(ttft_ms=bound, percentile=99), size=32)
    one = found.parallel
    assert one is not None
    for j, prompt in enumerate((128, 1024, 4096)):
        prompts = np.arange(1, found.batch_sizes[j] + 1)
        steps = prefill_time("H200", prompt, tp=one.tp, dp=one.dp, prompts_per_rank=prompts).total_ms.tolist()
        times = arrivals(found.rates_rps[j] / one.replicas / 1000, 40_000, seed=11)
        waits = waits_before_steps(times, one.dp * len(steps), np.repeat(steps, one.dp).tolist())
        reached = np.quantile(waits, 0.99) + found.service_ms[j] + FIRST_STEP_MS
        assert reached <= bound


def test_kv_transfer_is_the_cache_over_the_nic() -> None:
    found = row(Phase.PREFILL, SloSettings(ttft_ms=5000))
    latent = 61 * (512 + 64) * model("deepseek-v3").kv_bytes * 4096
    sent = found.service_ms[2] - found.step_ms[2]
    assert sent >= latent / (gpu("H200").nic_gb_s * 1e6)
    assert sent <= 2 * latent / (gpu("H200").nic_gb_s * 1e6)


def test_an_unreachable_bound_serves_nothing_and_the_closest_says_what_is() -> None:
    slo = SloSettings(tpot_ms=4)
    kept = {"model": model("deepseek-v3"), "workload": LOAD, "settings": PLAIN, "slo": slo}
    assert not row(Phase.DECODE, slo, size=32).serves
    assert smallest_island(gpu("H200"), Phase.DECODE, **kept) is None
    best = closest(gpu("H200"), 32, Phase.DECODE, **kept)[2]
    assert best.ms == pytest.approx(float(judged(best.parallel, best.batch, 4096, None)[0]))
    reached = replace(slo, tpot_ms=best.ms * 1.001)
    assert row(Phase.DECODE, reached, size=best.parallel.devices).rates_rps[2] > 0
    for devices in (8, 16, 32):
        for one in replica_shapes(CostContext(gpu=gpu("H200"), model=model("deepseek-v3"), settings=PLAIN), devices):
            fits = max_batch_size("H200", 4096, 1000, tp=one.tp, experts_on_device=-(-256 // one.stage_devices) + 1)
            assert fits < 1 or float(judged(one, 1, 4096, None)[0]) >= best.ms * (1 - 1e-9)


def test_the_closest_ttft_is_an_idle_prefill_and_its_transfer() -> None:
    slo = SloSettings(ttft_ms=60, percentile=99)
    kept = {"model": model("deepseek-v3"), "workload": LOAD, "settings": PLAIN}
    best = closest(gpu("H200"), 32, Phase.PREFILL, **kept, slo=slo)[2]
    alone = prefill_time("H200", 4096, tp=best.parallel.tp, dp=best.parallel.dp).total_ms
    assert best.ms == pytest.approx(float(alone) + best.transfer_ms)
    for share, serves in ((0.99, False), (1.01, True)):
        slo = SloSettings(ttft_ms=best.ms * share + FIRST_STEP_MS, percentile=99)
        found = tabulate(gpu("H200"), best.parallel.devices, **kept, slo=slo).prefill
        assert (found.rates_rps[2] > 0) == serves


def test_a_profile_without_an_answer_at_the_bound_serves_nothing() -> None:
    rows = tuple(
        Measurement(
            gpu="H200",
            model="deepseek-v3",
            phase=Phase.DECODE,
            tp=1,
            dp=16,
            ep=16,
            length=length,
            batch=batch,
            ms=10 + batch * 0.5 + length * 0.001,
            source="by hand",
        )
        for length in (64, 8192)
        for batch in (16, 64)
    )
    settings_ = CostSettings(source=CostSource.TABULATED, profile=rows)
    backend = open_backend(CostContext(gpu=gpu("H200"), model=model("deepseek-v3"), settings=settings_))
    degrees = Degrees.of([ParallelConfig(tp=1, dp=16)])
    for bound, batch in ((30.0, 32), (12.0, 0)):
        found = decode_rates(
            backend,
            CostContext(gpu=gpu("H200"), model=model("deepseek-v3"), settings=settings_),
            LOAD,
            degrees,
            ServiceBounds.of(SloSettings(tpot_ms=bound), LOAD),
        )
        assert found.batch_sizes[0, 0] == batch
        assert (found.rates_rps[0, 0] > 0) == (batch > 0)


def test_the_tightest_bound_in_a_range_counts() -> None:
    span = replace(LOAD.ranges[0], start=0, end=2048, longest_input_tokens=1500)
    slo = SloSettings(ttft_ms=900, ranges=(RangeSlo(start=1000, end=1200, ttft_ms=300, tpot_ms=20),))
    assert range_bounds(slo, span) == (300, 20)
    assert range_bounds(slo, replace(span, start=1200)) == (900, None)
    assert range_bounds(SloSettings(ranges=(RangeSlo(start=1600, end=1700, tpot_ms=5),)), span) == (None, None)
