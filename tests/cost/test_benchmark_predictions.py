"""Benchmark runs predicted: laws that a closed loop keeps, and what a prediction may not depend on."""

from dataclasses import replace

import numpy as np
import pytest
from benchmark_evidence import known_runs
from cost_figures import gpu, model

from planner.cost.arrays import Array
from planner.cost.benchmarks.batches import gain_of, in_decode
from planner.cost.benchmarks.closed_loop import Loop, LoopFigures, PassTimes, settle
from planner.cost.benchmarks.engines import EngineShares, engine_shares
from planner.cost.benchmarks.prediction import Predictions, figures
from planner.cost.device import device
from planner.domain import (
    PHASES,
    BenchmarkRun,
    CostSettings,
    JudgedFigure,
    Load,
    Metric,
    NamedRun,
    Phase,
    Pool,
    Precision,
)
from planner.files import resolve_names

IN_FLIGHT = 2.0 ** np.arange(11)
ROOMY = 1e6
MACHINES = [("H200", "deepseek-r1", 1, 8), ("H100", "llama-3.1-70b", 8, 1), ("DGX-B200", "gpt-oss-120b", 2, 1)]
ENGINES = ("trt", "sglang")


def pass_times(name: str, shape: str) -> PassTimes:
    by_phase = {
        phase: device(gpu(name), model(shape), phase, CostSettings(), overlapped=np.zeros(1, dtype=bool))
        for phase in PHASES
    }
    return PassTimes(
        prefill=by_phase[Phase.PREFILL], decode=by_phase[Phase.DECODE], model=model(shape), settings=CostSettings()
    )


def loops(tp: int, dp: int, *, capacity: float = ROOMY, gain: float = 1.0, in_flight: Array = IN_FLIGHT) -> Loop:
    """Prompts of 2000 tokens and answers of 500, with more and more in flight."""
    ones = np.ones(in_flight.shape)
    return Loop(
        tp=tp * ones,
        dp=dp * ones,
        ep=tp * dp * ones,
        prompt=2000 * ones,
        answer=500 * ones,
        in_flight=in_flight,
        capacity=capacity * ones,
        gain=gain * ones,
        budget=8192.0,
    )


def shares(engine: str = "sglang") -> EngineShares:
    return engine_shares(engine, None)


def in_flight_by_littles_law(loop_figures: LoopFigures, tp: int) -> Array:
    """Requests that begin in a millisecond, times the time that each stays."""
    begun = loop_figures.rate * tp / 1000 / 500
    return np.asarray(begun * (loop_figures.ttft_ms + 500 * loop_figures.tpot_ms))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("gain", [1.0, 2.2])
@pytest.mark.parametrize(("name", "shape", "tp", "dp"), MACHINES)
class TestClosedLoop:
    def test_littles_law(self, name: str, shape: str, tp: int, dp: int, gain: float, engine: str) -> None:
        loop_figures = settle(pass_times(name, shape), loops(tp, dp, gain=gain), shares(engine))
        assert in_flight_by_littles_law(loop_figures, tp) == pytest.approx(IN_FLIGHT, rel=1e-3)

    def test_it_settles_at_the_same_wherever_it_begins(
        self, name: str, shape: str, tp: int, dp: int, gain: float, engine: str
    ) -> None:
        times, loop = pass_times(name, shape), loops(tp, dp, gain=gain)
        settled = []
        for begin in (np.full(IN_FLIGHT.shape, 0.1), IN_FLIGHT, np.full(IN_FLIGHT.shape, 300.0)):
            loop_figures = settle(times, loop, shares(engine), begin=begin)
            for _ in range(4):
                loop_figures = settle(times, loop, shares(engine), begin=loop_figures.sequences)
            settled.append(loop_figures.rate)
        afresh = settle(times, loop, shares(engine)).rate
        for rate in settled:
            assert rate == pytest.approx(afresh, rel=1e-3)

    def test_more_in_flight_is_more_rate_and_a_longer_tpot(
        self, name: str, shape: str, tp: int, dp: int, gain: float, engine: str
    ) -> None:
        loop_figures = settle(pass_times(name, shape), loops(tp, dp, gain=gain), shares(engine))
        assert (np.diff(loop_figures.rate) > 0).all()
        assert (np.diff(loop_figures.tpot_ms) > 0).all()
        assert (
            np.diff(loop_figures.rate) / loop_figures.rate[:-1] < 1.0 + 1e-9
        ).all()  # twice the requests, less than twice the rate

    def test_memory_caps_it_and_the_others_wait(
        self, name: str, shape: str, tp: int, dp: int, gain: float, engine: str
    ) -> None:
        loop_figures = settle(pass_times(name, shape), loops(tp, dp, capacity=20.0, gain=gain), shares(engine))
        free = settle(pass_times(name, shape), loops(tp, dp, gain=gain), shares(engine))
        assert (loop_figures.sequences <= 20 * (1 + 1e-9)).all()
        assert (loop_figures.rate <= free.rate * (1 + 1e-3)).all()
        full = IN_FLIGHT >= 256
        assert loop_figures.sequences[full] == pytest.approx(20)
        assert loop_figures.rate[full] == pytest.approx(loop_figures.rate[-1])
        assert in_flight_by_littles_law(loop_figures, tp)[full] == pytest.approx(IN_FLIGHT[full])


def test_saturated_is_the_limit_of_many_in_flight() -> None:
    times = pass_times("H200", "deepseek-r1")
    limit, many = (
        settle(times, loops(1, 8, capacity=64.0, in_flight=np.array([n])), shares()).rate[0] for n in (np.inf, 1e5)
    )
    assert limit == pytest.approx(many)


def run_of(**changed: object) -> BenchmarkRun:
    """A disaggregated run of DeepSeek-R1."""
    run = BenchmarkRun(
        row=1,
        gpu="H200",
        model="deepseek-r1",
        load=Load.CLOSED_LOOP,
        prefill=Pool(tp=8),
        decode=Pool(tp=1, dp=8, ep=8),
        input_tokens=1024.0,
        output_tokens=1024.0,
        concurrency=256.0,
        engine="sglang",
        measured=((Metric.OUTPUT_RATE, 900.0), (Metric.TPOT, 30.0)),
    )
    return replace(run, **changed)  # type: ignore[arg-type]


def known(run: BenchmarkRun) -> NamedRun:
    (named,) = resolve_names([run])
    return NamedRun(run=run, gpu=named.gpu, model=named.model, reason=named.reason)


def tpot_of(run: BenchmarkRun) -> JudgedFigure:
    (figure,) = [figure for figure in figures([known(run)]) if figure.metric is Metric.TPOT]
    return figure


class TestDisaggregatedDecode:
    @pytest.mark.parametrize("workers", [2, 5])
    def test_equal_workers_answer_alike(self, workers: int) -> None:
        """The rate a GPU and the TPOT say how many requests a rank had: the same, however many workers there were."""
        one, several = run_of(), run_of(decode=Pool(tp=1, dp=8, ep=8, workers=workers))
        assert in_decode(one) == in_decode(several) == pytest.approx(900 * 0.030)
        assert tpot_of(one).predicted == tpot_of(several).predicted

    def test_more_requests_a_rank_take_longer(self) -> None:
        few, many = (
            tpot_of(run_of(measured=((Metric.OUTPUT_RATE, rate), (Metric.TPOT, 30.0)))) for rate in (300.0, 3000.0)
        )
        assert few.predicted is not None
        assert many.predicted is not None
        assert few.predicted < many.predicted
        assert few.kind == many.kind == "disaggregated decode TPOT"


class TestSplitLoops:
    """Prompts in one pool, answers in another, so many requests in flight."""

    def rate(self, in_flight: float, **changed: object) -> float:
        """Requests/s of all pools."""
        run = run_of(concurrency=in_flight, **changed)
        (figure,) = [f for f in figures([known(run)]) if f.kind == "disaggregated rate"]
        assert figure.predicted is not None
        return figure.predicted * run.decode.gpus / run.output_tokens

    def test_one_request_takes_its_prompt_and_its_answer(self) -> None:
        """Nothing queues: an answer's passes, of one sequence, and as much again as a prompt takes, 50 to 500 ms."""
        pools = {"decode": Pool(tp=8, ep=1), "engine": "trt"}
        # one in decode by Little's law: 1 / 64 tokens/s of each of 8 GPUs, for 8000 ms
        alone = tpot_of(run_of(measured=((Metric.OUTPUT_RATE, 1 / 64), (Metric.TPOT, 8000.0)), **pools))
        assert alone.predicted is not None
        first_ms = 1000 / self.rate(1.0, **pools) - 1024 * alone.predicted
        assert 50 < first_ms < 500

    def test_more_in_flight_is_more_until_prefill_is_full(self) -> None:
        rates = [self.rate(n) for n in (1, 8, 64, 512, 4096, 32768, 65536)]
        assert rates == sorted(rates)
        assert rates[-1] == pytest.approx(rates[-2], rel=1e-6)
        full = run_of(measured=((Metric.INPUT_RATE, 1e3),), concurrency=4096.0, input_tokens=1024.0)
        answers = Predictions([known(full)]).of(None)
        taken_in = answers[full.file, full.row, Metric.INPUT_RATE] * 8 / 1024
        assert rates[-1] == pytest.approx(taken_in)

    def test_twice_the_workers_and_requests_are_twice_the_rate(self) -> None:
        pools = {"prefill": Pool(tp=8, workers=2), "decode": Pool(tp=1, dp=8, ep=8, workers=2)}
        for n in (4.0, 300.0, 20_000.0):
            assert self.rate(2 * n, **pools) == pytest.approx(2 * self.rate(n))

    def test_memory_of_decode_is_an_end(self) -> None:
        """With prefill beyond all need, answers that memory does not hold wait."""
        many = {"prefill": Pool(tp=8, workers=500), "output_tokens": 16384.0}
        held = [self.rate(n, **many) for n in (50_000.0, 500_000.0)]
        assert held[1] == pytest.approx(held[0], rel=1e-6)


class TestOneRunAmongOthers:
    def test_a_prediction_does_not_depend_on_the_others(self) -> None:
        some = known_runs()[::12]
        together = Predictions(some).of(None)
        alone = {key: value for one in some for key, value in Predictions([one]).of(None).items()}
        assert set(alone) == set(together)
        assert [alone[key] for key in together] == pytest.approx(list(together.values()), rel=1e-9)

    def test_nor_on_their_order_nor_on_what_was_predicted_before(self) -> None:
        some = known_runs()[::12]
        predictions = Predictions(some)
        first = predictions.of(None)
        assert predictions.of(None) == first
        assert Predictions(some[::-1]).of(None) == pytest.approx(first, rel=1e-9)


class TestWhatCannotBePredicted:
    def test_an_unknown_gpu_is_a_reason_and_wholly_off(self) -> None:
        figure = tpot_of(run_of(gpu="X100"))
        assert figure.predicted is None
        assert "'X100'" in figure.reason
        assert figure.rate_error == 1.0

    def test_a_model_that_does_not_fit_is_one_too(self) -> None:
        alone = run_of(prefill=None, decode=Pool(tp=1), model="llama-3.1-405b", concurrency=4.0)
        assert {figure.predicted for figure in figures([known(alone)])} == {None}
        assert {figure.reason for figure in figures([known(alone)])} == {"llama-3.1-405b does not fit on 1 H200"}

    def test_the_known_ones_are_predicted_all_the_same(self) -> None:
        lost, loop_figures = run_of(gpu="X100"), run_of(row=2)
        both = [figure.predicted for figure in figures([known(lost), known(loop_figures)])]
        assert both == [None, None, *(figure.predicted for figure in figures([known(loop_figures)]))]


class TestDrafts:
    @pytest.mark.parametrize("engine", ["trt", "sglang", "atom"])
    def test_three_drafts_yield_what_the_engine_does(self, engine: str) -> None:
        gain = shares(engine).mtp_gain
        assert gain_of(run_of(precision=Precision(mtp_tokens=3)), shares(engine)) == pytest.approx(gain)
        one, two = (gain_of(run_of(precision=Precision(mtp_tokens=n)), shares(engine)) for n in (1, 2))
        chance = one - 1  # 1 + p
        assert two == pytest.approx(1 + chance + chance**2)
        assert gain == pytest.approx(1 + chance + chance**2 + chance**3)

    def test_a_runs_own_figure_comes_first(self) -> None:
        assert gain_of(run_of(precision=Precision(mtp_tokens=2), mtp_gain=2.7), shares()) == 2.7
        assert gain_of(run_of(), shares()) == 1.0


def test_a_static_batch_yields_all_its_answers_in_its_latency() -> None:
    measured = ((Metric.LATENCY, 1.0), (Metric.OUTPUT_RATE, 1.0))
    run = run_of(
        load=Load.STATIC_BATCH,
        prefill=None,
        decode=Pool(tp=8),
        model="llama-3.1-70b",
        measured=measured,
        concurrency=64.0,
    )
    latency, rate = (figure.predicted for figure in figures([known(run)]))
    assert latency is not None
    assert rate == pytest.approx(64 * 1024 / 8 / latency * 1000)
