"""Every source of step times keeps one contract: formulas, a profile made from them, and a noisy one by hand."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from cost_figures import gpu, model
from cost_workloads import workload

from planner.cost import (
    AnalyticBackend,
    CostBackend,
    CostContext,
    Steps,
    TabulatedBackend,
    open_backend,
    prefill_time,
    tabulate,
)
from planner.cost.grid import Degrees
from planner.cost.rates import decode_rates, prefill_rates
from planner.domain import PHASES, CostSettings, CostSource, Measurement, ParallelConfig, Phase
from planner.errors import InputError

GPU, MODEL = "H200", "deepseek-v3"
LENGTHS = (256, 1024, 4096, 8192)
BATCHES = {Phase.PREFILL: (1, 2, 4, 16), Phase.DECODE: (1, 8, 64, 256)}
CONFIGS = (ParallelConfig(tp=1, dp=16), ParallelConfig(tp=4, dp=4), ParallelConfig(tp=8, dp=2))
SOURCES = ("analytic", "tabulated", "noisy")
PROFILES = ("tabulated", "noisy")


def steps(phase: Phase, config: ParallelConfig, length: Any, batch: Any) -> Steps:
    tp, dp, pp = (np.asarray(float(n)) for n in (config.tp, config.dp, config.pp))
    length, batch = (np.asarray(numbers, dtype=float) for numbers in (length, batch))
    return Steps(phase=phase, tp=tp, dp=dp, pp=pp, length=length, batch=batch)


def row(phase: Phase, config: ParallelConfig, length: int, batch: float, ms: float) -> Measurement:
    return Measurement(
        gpu=GPU,
        model=MODEL,
        phase=phase,
        tp=config.tp,
        dp=config.dp,
        ep=config.stage_devices,
        length=length,
        batch=batch,
        ms=ms,
    )


def analytic() -> AnalyticBackend:
    return AnalyticBackend(CostContext(gpu=gpu(GPU), model=model(MODEL), settings=CostSettings()))


@cache
def measured(source: str) -> tuple[Measurement, ...]:
    """A profile on the whole grid: what the formulas say, or a rising plane with noise below its steps."""
    noise, found = np.random.default_rng(7), []
    for phase, config, length in product(PHASES, CONFIGS, LENGTHS):
        for batch in BATCHES[phase]:
            if source == "tabulated":
                ms = float(analytic().step_ms(steps(phase, config, length, batch)))
            else:
                ms = 20 + length / 100 + batch * 2 + noise.uniform(0, 0.5)
            found.append(row(phase, config, length, batch, ms))
    return tuple(found)


def backend(source: str) -> CostBackend:
    return analytic() if source == "analytic" else TabulatedBackend(GPU, MODEL, measured(source))


def profile_settings(profile: Iterable[Measurement]) -> CostSettings:
    return CostSettings(source=CostSource.TABULATED, profile=tuple(profile))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("phase", PHASES)
class TestAnySource:
    def grid(self, source: str, phase: Phase, config: ParallelConfig) -> np.ndarray:
        """Times of shape (lengths, batches)."""
        return backend(source).step_ms(steps(phase, config, np.array(LENGTHS)[:, None], np.array(BATCHES[phase])))

    def test_shapes_broadcast(self, source: str, phase: Phase) -> None:
        found = backend(source)
        configs = np.array([(c.tp, c.dp, c.pp) for c in CONFIGS], dtype=float).T[:, :, None]
        asked = Steps(
            phase=phase,
            tp=configs[0],
            dp=configs[1],
            pp=configs[2],
            length=np.array([[300.0, 5000]]),
            batch=np.array(4.0),
        )
        assert found.step_ms(asked).shape == (3, 2)
        assert found.largest_batch(asked).shape == (3, 2)
        assert found.step_ms(steps(phase, CONFIGS[0], 1000, 4)).shape == ()
        one = float(found.step_ms(steps(phase, CONFIGS[1], 5000, 4)))
        assert float(found.step_ms(asked)[1, 1]) == pytest.approx(one)

    @pytest.mark.parametrize("config", CONFIGS)
    def test_times_are_positive_and_grow(self, source: str, phase: Phase, config: ParallelConfig) -> None:
        times = self.grid(source, phase, config)
        assert np.all(np.isfinite(times) & (times > 0))
        assert np.all(np.diff(times, axis=0) > 0)
        assert np.all(np.diff(times, axis=1) > 0)

    def test_between_points_lies_between_their_times(self, source: str, phase: Phase) -> None:
        found, times = backend(source), self.grid(source, phase, CONFIGS[0])
        for (i, lengths), (j, batches) in product(enumerate(pairwise(LENGTHS)), enumerate(pairwise(BATCHES[phase]))):
            middle = float(found.step_ms(steps(phase, CONFIGS[0], sum(lengths) / 2, sum(batches) / 2)))
            assert times[i, j] < middle < times[i + 1, j + 1]

    def test_the_largest_batch_has_an_answer(self, source: str, phase: Phase) -> None:
        found, lengths = backend(source), np.linspace(LENGTHS[0], LENGTHS[-1], 57)
        most = found.largest_batch(steps(phase, CONFIGS[0], lengths, 1))
        assert np.all(most >= 1)
        at_most = np.minimum(most, 512)
        assert np.all(np.isfinite(found.step_ms(steps(phase, CONFIGS[0], lengths, at_most))))

    def test_rates_stay_within_the_largest_batch(self, source: str, phase: Phase) -> None:
        found, load = backend(source), workload((300, 1000, 5000), mean_output_tokens=20, max_output_tokens=100)
        rates = {Phase.PREFILL: prefill_rates, Phase.DECODE: decode_rates}[phase]
        settings = CostSettings(max_tokens_per_step=100_000)
        grid = rates(
            found, CostContext(gpu=gpu(GPU), model=model(MODEL), settings=settings), load, Degrees.of(list(CONFIGS))
        )
        most = found.largest_batch(steps(phase, CONFIGS[0], [300, 1000, 5000], 1))
        assert np.all(grid.batch_sizes <= most)
        assert np.all((grid.rates_rps > 0) & (grid.step_ms > 0))


@pytest.mark.parametrize("source", PROFILES)
class TestProfile:
    def test_exact_where_measured(self, source: str) -> None:
        found = backend(source)
        for m in measured(source):
            asked = steps(m.phase, ParallelConfig(tp=m.tp, dp=m.dp), m.length, m.batch)
            assert float(found.step_ms(asked)) == pytest.approx(m.ms)

    @pytest.mark.parametrize(("length", "batch"), [(255, 8), (8193, 8), (1024, 0.5), (1024, 257), (9000, 300), (0, 0)])
    def test_never_a_guess_beyond_the_measured(self, source: str, length: float, batch: float) -> None:
        assert np.isnan(backend(source).step_ms(steps(Phase.DECODE, CONFIGS[0], length, batch)))

    @pytest.mark.parametrize("config", [ParallelConfig(tp=2, dp=8), ParallelConfig(tp=1, dp=16, pp=2)])
    def test_never_a_guess_for_another_configuration(self, source: str, config: ParallelConfig) -> None:
        asked = steps(Phase.DECODE, config, 1024, 8)
        assert np.isnan(backend(source).step_ms(asked))
        assert float(backend(source).largest_batch(asked)) == 0

    def test_no_batch_where_no_length_was_measured(self, source: str) -> None:
        most = backend(source).largest_batch(steps(Phase.DECODE, CONFIGS[0], [100, 256, 8192, 9000], 1))
        assert most.tolist() == [0, 256, 256, 0]

    def test_a_table_has_no_rate_outside_the_measured(self, source: str) -> None:
        load = workload((128, 1024, 6000, 20_000), mean_output_tokens=20, max_output_tokens=100)
        table = tabulate(gpu(GPU), 16, model=model(MODEL), workload=load, settings=profile_settings(measured(source)))
        for half in (table.prefill, table.decode):
            assert [rate > 0 for rate in half.rates_rps] == [False, True, True, False]
            assert [ms > 0 for ms in half.step_ms] == [False, True, True, False]
            assert [batch > 0 for batch in half.batch_sizes] == [False, True, True, False]
            assert half.parallel in CONFIGS

    def test_an_island_of_another_size_is_not_served(self, source: str) -> None:
        settings = profile_settings(measured(source))
        eight, thirty_two = (
            tabulate(gpu(GPU), size, model=model(MODEL), workload=workload((1024,)), settings=settings)
            for size in (8, 32)
        )
        assert not eight.prefill.serves
        assert "the profile has no measurement of deepseek-v3 on so many H200" in eight.prefill.reason
        assert thirty_two.prefill.parallel.replicas == 2


class TestWhoIsMeasured:
    @pytest.mark.parametrize(("name", "shape"), [("H20", MODEL), (GPU, "deepseek-r1"), ("h200", MODEL)])
    def test_others_are_refused_with_what_is_known(self, name: str, shape: str) -> None:
        with pytest.raises(InputError) as caught:
            TabulatedBackend(name, shape, measured("noisy"))
        assert (
            f"must have measurements of {shape} on {name} under the scenario's conditions, got deepseek-v3 on H200"
            in caught.value.message
        )
        assert caught.value.hint

    def test_an_empty_profile_is_refused(self) -> None:
        with pytest.raises(InputError, match="got none"):
            open_backend(CostContext(gpu=gpu(GPU), model=model(MODEL), settings=profile_settings(())))
        settings = profile_settings(measured("noisy"))
        with pytest.raises(InputError, match="measurements of deepseek-v3 on H20 under"):
            tabulate(gpu("H20"), 16, model=model(MODEL), workload=workload(), settings=settings)

    def test_unknown_names_are_refused_by_the_formulas(self) -> None:
        for names in ({"gpu": "H2000"}, {"gpu": GPU, "model": "deepseek"}):
            with pytest.raises(InputError):
                prefill_time(seq_len=100, tp=1, dp=8, **names)

    def test_settings_choose(self) -> None:
        assert isinstance(
            open_backend(CostContext(gpu=gpu(GPU), model=model(MODEL), settings=CostSettings())), AnalyticBackend
        )
        chosen = open_backend(
            CostContext(gpu=gpu(GPU), model=model(MODEL), settings=profile_settings(measured("noisy")))
        )
        assert isinstance(chosen, TabulatedBackend)


def test_a_fine_profile_of_the_formulas_gives_their_rates() -> None:
    config, lengths = ParallelConfig(tp=1, dp=16), np.union1d(np.geomspace(128, 12_000, 40).astype(int), [512, 3000])
    rows = []
    for phase, batches in ((Phase.PREFILL, np.arange(1, 33)), (Phase.DECODE, 2 ** np.arange(11))):
        times = analytic().step_ms(steps(phase, config, lengths[:, None], batches))
        rows += [
            row(phase, config, int(s), float(b), float(times[i, j]))
            for (i, s), (j, b) in product(enumerate(lengths), enumerate(batches))
            if phase is Phase.DECODE or s * b <= CostSettings().max_tokens_per_step
        ]
    load = workload((512, 3000), mean_output_tokens=100, max_output_tokens=200)
    degrees = Degrees.of([config])
    context = CostContext(gpu=gpu(GPU), model=model(MODEL), settings=CostSettings())
    for rates in (prefill_rates, decode_rates):
        formulas, looked_up = (
            rates(source, context, load, degrees) for source in (analytic(), TabulatedBackend(GPU, MODEL, rows))
        )
        assert looked_up.batch_sizes.tolist() == formulas.batch_sizes.tolist()
        assert looked_up.rates_rps == pytest.approx(formulas.rates_rps, rel=0.02)


class TestFewMeasurements:
    """One point, a line along either axis, a slope: each answers on itself alone."""

    def of(self, *points: tuple[int, float, float]) -> TabulatedBackend:
        return TabulatedBackend(GPU, MODEL, [row(Phase.DECODE, CONFIGS[0], *point) for point in points])

    def ms(self, found: TabulatedBackend, length: float, batch: float) -> float:
        return float(found.step_ms(steps(Phase.DECODE, CONFIGS[0], length, batch)))

    def test_one_point(self) -> None:
        found = self.of((1000, 32, 40.0))
        assert self.ms(found, 1000, 32) == 40
        assert all(np.isnan(self.ms(found, *at)) for at in ((1001, 32), (999, 32), (1000, 31), (1000, 33)))
        assert float(found.largest_batch(steps(Phase.DECODE, CONFIGS[0], 1000, 1))) == 32

    def test_one_length(self) -> None:
        found = self.of((1000, 64, 50.0), (1000, 8, 22.0))
        assert self.ms(found, 1000, 36) == pytest.approx(36)
        assert all(np.isnan(self.ms(found, *at)) for at in ((1010, 36), (1000, 4), (1000, 65)))

    def test_one_batch(self) -> None:
        found = self.of((1000, 64, 50.0), (3000, 64, 70.0), (2000, 64, 55.0))
        assert [self.ms(found, s, 64) for s in (1500, 2500)] == pytest.approx([52.5, 62.5])
        assert all(np.isnan(self.ms(found, *at)) for at in ((1500, 63), (900, 64), (3100, 64)))

    def test_a_slope(self) -> None:
        found = self.of((1000, 64, 50.0), (2000, 32, 45.0), (3000, 0.0, 40.0))
        assert self.ms(found, 1500, 48) == pytest.approx(47.5)
        assert all(np.isnan(self.ms(found, *at)) for at in ((1500, 47), (900, 67), (2000, 33)))

    def test_three_points_span_a_triangle(self) -> None:
        found = self.of((1000, 8, 20.0), (1000, 64, 50.0), (3000, 8, 30.0))
        assert self.ms(found, 2000, 8) == pytest.approx(25)
        assert self.ms(found, 1500, 20) == pytest.approx(20 + 2.5 + 30 * 12 / 56)
        assert np.isnan(self.ms(found, 2500, 60))
        assert float(found.largest_batch(steps(Phase.DECODE, CONFIGS[0], 3000, 1))) == 8

    def test_repeated_measurements_count_by_their_mean(self) -> None:
        assert self.ms(self.of((1000, 32, 40.0), (1000, 32, 50.0)), 1000, 32) == 45


def test_a_measurement_under_other_conditions_is_not_taken() -> None:
    """Half of each prompt was cached when it was measured; the settings say none is."""
    rows = [replace(m, kv_cache_rate=0.5) for m in measured("noisy")]
    asked = {"model": model(MODEL), "workload": workload((1024,)), "settings": profile_settings(rows)}
    try:
        serves = tabulate(gpu(GPU), 16, **asked).prefill.serves
    except InputError:
        serves = False
    assert not serves
