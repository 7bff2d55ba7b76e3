"""The built-in factors: what the fit finds for what comes with the package, and what is called measured."""

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from benchmark_evidence import evidence, given_runs, judged_known
from cost_figures import gpu, model

from planner.cost import BUILT_IN, UNFITTED, predict_ms
from planner.cost.benchmarks.engines import habits
from planner.cost.benchmarks.fit import BENCHMARK_FREE, Evidence, FreeFactor, fit_benchmarks
from planner.cost.benchmarks.prediction import figures
from planner.cost.fitted_factors import FITTED
from planner.cost.residuals.bands import origin_of
from planner.domain import CostSettings, JudgedFigure, Load, ModelSpec, Origin, Phase
from planner.files import shipped_models

WELL_KNOWN = 0.3  # standard deviation after the fit over that before it: the evidence says more than ten times as much


def test_step_times_are_within_ten_percent_in_the_mean() -> None:
    """With the factors that stand for all runs together, of the ten steps that are fitted."""
    given = evidence()
    off = [
        abs(predict_ms(m, given.gpus[m.gpu], given.models[m.model]) / m.ms - 1) for m in given.measurements if m.fitted
    ]
    assert len(off) == 10
    assert np.mean(off) <= 0.10


def test_every_free_factor_stands_in_the_table_within_its_bounds() -> None:
    free = {(f.name, f.family): f for f in BENCHMARK_FREE}
    assert {(f.name, f.family) for f in FITTED} == set(free)
    assert len(FITTED) == len(free)
    for factor in FITTED:
        bounds = free[factor.name, factor.family]
        assert bounds.low <= factor.value <= bounds.high, (factor.name, factor.family)


@pytest.mark.study
def test_the_fit_finds_the_built_in_factors() -> None:
    """Within 3 % where the evidence determines the factor, elsewhere well within what the fit leaves open.

    A fit stops after so many rounds, not in the minimum: along what is ill determined it may end a little elsewhere.
    """
    fit = fit_benchmarks(evidence(), BENCHMARK_FREE, name="anew", base=UNFITTED, rounds=12)
    open_by = np.sqrt(np.diag(fit.covariance))  # of a factor's logarithm
    well_known = open_by <= WELL_KNOWN * np.array([f.sigma for f in fit.free])
    assert well_known.sum() >= 10
    for free, value, well, spread in zip(fit.free, fit.values, well_known, open_by, strict=True):
        built_in = BUILT_IN.factor(free.name, free.family).value
        allowed = 0.03 if well else max(0.03, spread / 2)
        assert abs(np.log(value / built_in)) <= allowed, (free.name, free.family)


def some_of_hopper() -> Evidence:
    """Steps and disaggregated decode of two GPU types."""
    given = evidence()
    chosen = [entry for entry in given.runs if entry.run.gpu == "H200" and entry.run.load is Load.CLOSED_LOOP]
    steps = [m for m in given.measurements if m.gpu == "H800"]
    return replace(given, measurements=tuple(steps), runs=tuple(chosen[::4]))


def chosen_factors(*names: str) -> tuple[FreeFactor, ...]:
    return tuple(f for f in BENCHMARK_FREE if f.family == "hopper" and f.name in names)


class TestTheFit:
    """Its small form: two factors of one family and some of the runs."""

    FREE = chosen_factors("kernels_decode", "kernels_prefill")

    def test_from_the_built_in_values_it_is_soon_at_rest(self) -> None:
        """Further rounds move nothing that the first ones have found."""
        some = some_of_hopper()
        few = fit_benchmarks(some, self.FREE, name="few", base=BUILT_IN, rounds=6)
        more = fit_benchmarks(some, self.FREE, name="more", base=BUILT_IN, begin=few.values, rounds=6)
        assert more.values == pytest.approx(few.values, rel=0.01)

    def test_it_explains_more_than_before(self) -> None:
        """From a value that is far off, towards the built-in one."""
        slow = replace(BUILT_IN.factor("kernels_decode", "hopper"), value=0.3)
        base = replace(BUILT_IN, factors=(*BUILT_IN.factors, slow))
        some = some_of_hopper()
        fit = fit_benchmarks(some, chosen_factors("kernels_decode"), name="mended", base=base, rounds=6)
        before, after = (
            np.mean([min(1.0, abs(f.rate_error)) for f in figures(some.runs, calibration)])
            for calibration in (base, fit.calibration)
        )
        assert after < before
        assert fit.values[0] > 0.5

    def test_nothing_but_the_free_factors_moves(self) -> None:
        fit = fit_benchmarks(some_of_hopper(), self.FREE, name="few", base=BUILT_IN, rounds=1)
        free = {(f.name, f.family) for f in self.FREE}
        for factor in BUILT_IN.factors:
            if (factor.name, factor.family) not in free:
                assert fit.calibration.factor(factor.name, factor.family).value == (
                    BUILT_IN.factor(factor.name, factor.family).value
                )

    def test_without_evidence_nothing_moves(self) -> None:
        none = replace(evidence(), measurements=(), runs=())
        fit = fit_benchmarks(none, self.FREE, name="none", base=UNFITTED, rounds=3)
        for free, value in zip(self.FREE, fit.values, strict=True):
            assert value == pytest.approx(UNFITTED.factor(free.name, free.family).value)


@cache
def answered() -> tuple[JudgedFigure, ...]:
    """The figures of the given runs that there is an answer to."""
    return tuple(figure for figure in judged_known() if figure.predicted is not None)


def shape(name: str) -> ModelSpec:
    """A model as a network, whatever it is called."""
    return replace(model(name), name="", uri="", source="")


@cache
def shapes() -> dict[str, ModelSpec]:
    """Those of the shipped models."""
    return {name: shape(name) for name in shipped_models()}


def of_one_shape(name: str) -> set[str]:
    """The shipped models that are the same network as this one, itself among them: only the weights' values differ."""
    network = shape(name)
    return {other for other, its_network in shapes().items() if its_network == network}


class TestWhatIsCalledMeasured:
    def test_models_of_one_shape(self) -> None:
        """DeepSeek-R1 is DeepSeek-V3 trained further."""
        assert of_one_shape("deepseek-r1") == of_one_shape("deepseek-v3") == {"deepseek-r1", "deepseek-v3"}

    def test_every_run_that_was_answered(self) -> None:
        for place in {(figure.run.gpu, figure.run.model, figure.run.engine) for figure in answered()}:
            name, measured, engine = place
            settings = CostSettings(engine=habits(engine).name if engine else "")
            for known in of_one_shape(measured):
                assert origin_of(gpu(name), model(known), Phase.DECODE, settings)[0] is Origin.PUBLISHED, place

    @pytest.mark.parametrize("name", ["H100", "H800", "H200", "H20", "GB200-NVL72", "DGX-B200", "MI300X", "L40S"])
    def test_nothing_else_is_called_measured(self, name: str) -> None:
        ran = {(entry.run.gpu, entry.run.model) for entry in given_runs()}
        ran |= {(m.gpu, m.model) for m in evidence().measurements}
        for known in ("deepseek-v3", "qwen3-30b-a3b", "llama-3.1-70b", "gpt-oss-120b", "mixtral-8x7b"):
            origin, _ = origin_of(gpu(name), model(known), Phase.DECODE, CostSettings())
            assert origin is not Origin.PUBLISHED or any((name, same) in ran for same in of_one_shape(known))

    def test_layers_of_models_that_ran_are_called_measured(self) -> None:
        for entry in given_runs():
            assert entry.model is None or not entry.model.unmeasured, entry.run.model

    def test_what_is_told_of_a_source_is_a_sentence(self) -> None:
        for factor in FITTED:
            assert factor.origin is Origin.PUBLISHED
            assert "measured on :" not in factor.provenance
            assert "published step times and benchmark runs" in factor.provenance

    def test_counts_are_those_of_the_evidence(self) -> None:
        runs = {id(figure.run): figure.run for figure in answered()}.values()
        counts = Counter(gpu(run.gpu).family for run in runs)
        counts.update(gpu(m.gpu).family for m in evidence().measurements if m.fitted)
        for family, count in counts.items():
            source = BUILT_IN.factor("kernels_decode", family).source
            assert source.startswith(f"fitted to {count} published"), family
