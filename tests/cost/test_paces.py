"""Measured kernels in a step, joined with formulas, and paces on top: by theory, by hand, by what the tables say."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cost_figures import gpu, model

from planner.cost.benchmarks.pace_fit import (
    DEGREES_SPREAD,
    GROUP_SPREAD,
    POOL_SPREAD,
    RUN_SPREAD,
    VERSION_SPREAD,
    PacedRun,
    fit_paces,
)
from planner.cost.device import CostContext
from planner.cost.kernels import kernel_tables, products_time
from planner.cost.kernels.products import Rows
from planner.cost.residuals.pace import BUILT_IN_PACES, NO_PACE, Pace, group_of, pace_of
from planner.cost.step import step_cost
from planner.cost.summing import FORMULAS_SHARE
from planner.cost.walk import Steps
from planner.domain import CostSettings, Phase

GROUP = ("H200", "llama-3.1-70b", "vllm", "8 bits")
OTHER = ("H100", "llama-3.1-70b", "vllm", "8 bits")


def run(log: float, *, group: tuple[str, str, str, str] = GROUP, version: str = "", tp: int = 8) -> PacedRun:
    return PacedRun(group=group, degrees=(tp, 1, 1), version=version, log=log)


class TestTheFit:
    @pytest.mark.parametrize("count", [1, 5, 40])
    def test_runs_alike_are_shrunk_as_a_normal_model_has_it(self, count: int) -> None:
        """Of equal runs of one group and degrees the posterior mean has a closed form."""
        fit = fit_paces([run(0.1)] * count)
        variance = GROUP_SPREAD**2 + DEGREES_SPREAD**2
        expected = 0.1 * variance / (variance + RUN_SPREAD**2 / count)
        pace = fit.paces[GROUP]
        assert pace.ln + pace.degrees[0][1] == pytest.approx(expected)
        # Each takes the part that its variance is of both.
        assert pace.ln == pytest.approx(expected * GROUP_SPREAD**2 / variance)
        assert fit.freedom == pytest.approx(variance / (variance + RUN_SPREAD**2 / count))

    def test_a_version_takes_what_it_alone_explains(self) -> None:
        runs = [run(0.0, version="1")] * 200 + [run(0.3, version="2")] * 200
        pace = fit_paces(runs).paces[GROUP]
        ln_by_version = dict(pace.versions)
        assert ln_by_version["2"] - ln_by_version["1"] == pytest.approx(0.3, rel=0.05)
        assert VERSION_SPREAD > 0
        # One that was not measured has what is common to both.
        assert pace.of_versions(["3"]).ln == pytest.approx([pace.ln])
        assert pace.of_versions(["2", "1"]).ln - pace.ln == pytest.approx([ln_by_version["2"], ln_by_version["1"]])

    def test_pools_of_prefill_have_a_pace_of_their_own(self) -> None:
        """Neither teaches the other, and a single pool is shrunk as any normal effect."""
        pool = replace(run(0.3), taken_in=True, trust=0.15)
        pace = fit_paces([*[run(0.1)] * 5, pool]).paces[GROUP]
        assert pace.pool == pytest.approx(0.3 * POOL_SPREAD**2 / (POOL_SPREAD**2 + 0.15**2))
        assert replace(pace, pool=0.0) == fit_paces([run(0.1)] * 5).paces[GROUP]

    def test_groups_do_not_teach_each_other(self) -> None:
        alone = fit_paces([run(0.2)] * 3).paces[GROUP]
        beside = fit_paces([*[run(0.2)] * 3, *[run(-0.5, group=OTHER)] * 50]).paces[GROUP]
        assert beside == alone

    def test_a_run_that_nothing_explains_hardly_pulls(self) -> None:
        runs = [run(0.0)] * 20
        calm, wild = fit_paces([*runs, run(0.5)]).paces[GROUP], fit_paces([*runs, run(5.0)]).paces[GROUP]
        assert wild.ln < 2 * calm.ln < 0.1

    def test_nothing_measured_has_no_pace(self) -> None:
        assert fit_paces([]).paces == {}


def steps(phase: Phase, batch: float, tp: int = 8, dp: int = 1) -> Steps:
    return Steps.at(phase, tp, dp, 1, length=4096, batch=batch)


class TestASteps:
    def context(self, name: str, of: str, engine: str) -> CostContext:
        return CostContext(gpu=gpu(name), model=model(of), settings=CostSettings(engine=engine))

    @pytest.mark.parametrize("of", ["llama-3.1-70b-fp8", "deepseek-r1", "gpt-oss-120b"])
    def test_time_is_of_both_and_the_pace(self, of: str) -> None:
        context = self.context("H200", of, "vllm")
        cost = step_cost(context, steps(Phase.DECODE, 16), overlap=False)
        kernels, formulas = (sum(float(getattr(part, name)) for part in cost.parts) for name in ("ms", "formula_ms"))
        pace = pace_of(context.gpu, context.model, Phase.DECODE, context.settings)
        at = float(pace.at(np.array(8.0), np.array(1.0), np.array(8.0)))
        joined = kernels ** (1 - FORMULAS_SHARE) * formulas**FORMULAS_SHARE
        assert float(cost.total_ms) == pytest.approx(joined / at)
        without = step_cost(self.context("H200", of, ""), steps(Phase.DECODE, 16), overlap=False)
        assert float(without.total_ms) == pytest.approx(formulas)
        assert kernels != pytest.approx(formulas, rel=0.01)

    def test_prompts_alone_go_by_kernels(self) -> None:
        """A pool of prefill has no pace of what decodes."""
        context = self.context("DGX-B200", "llama-3.1-70b-fp8", "vllm")
        group = group_of(context.gpu, context.model, "vllm")
        assert BUILT_IN_PACES[group] != NO_PACE
        cost = step_cost(context, steps(Phase.PREFILL, 1), overlap=False)
        kernels, formulas = (sum(float(getattr(part, name)) for part in cost.parts) for name in ("ms", "formula_ms"))
        assert float(cost.total_ms) == pytest.approx(kernels ** (1 - FORMULAS_SHARE) * formulas**FORMULAS_SHARE)

    def test_a_type_without_tables_has_those_of_a_relative(self) -> None:
        """H800 is an H100 with half the links: what computes alone takes the same, what talks longer."""
        relative, own = (
            step_cost(self.context(name, "llama-3.1-70b-fp8", "vllm"), steps(Phase.DECODE, 64), overlap=False)
            for name in ("H100", "H800")
        )
        assert kernel_tables("H800", "vllm") is None
        for part in own.parts:
            there = relative.part(part.name)
            assert (part.kernel is None) == (there.kernel is None) == (part.name == "pipeline")
            ratio = float(part.formula_ms) / float(there.formula_ms) if float(there.formula_ms) else 1.0
            assert float(part.ms) == pytest.approx(float(there.ms) * ratio), part.name
        assert float(own.part("all-reduce").ms) > float(relative.part("all-reduce").ms)
        assert float(own.part("projections").ms) == pytest.approx(float(relative.part("projections").ms))

    def test_a_family_without_tables_keeps_its_formulas(self) -> None:
        for name in ("MI355X", "H20"):
            cost = step_cost(self.context(name, "deepseek-r1", "vllm"), steps(Phase.DECODE, 4), overlap=False)
            assert all(part.kernel is None for part in cost.parts)

    def test_experts_over_more_than_a_node_keep_their_formulas(self) -> None:
        context = self.context("H200", "deepseek-r1", "sglang")
        narrow = step_cost(context, steps(Phase.DECODE, 64, tp=1, dp=8), overlap=False)
        wide = step_cost(context, steps(Phase.DECODE, 64, tp=1, dp=16), overlap=False)
        assert float(narrow.part("routed experts").ms) != float(narrow.part("routed experts").formula_ms)
        for part in wide.parts:
            assert float(part.ms) == float(part.formula_ms)

    @pytest.mark.parametrize("engine", ["vllm", "sglang"])
    @pytest.mark.parametrize("of", ["llama-3.1-70b-fp8", "deepseek-r1", "qwen3.5-397b-a17b", "glm-5-fp8"])
    def test_more_takes_longer(self, of: str, engine: str) -> None:
        """Of more sequences and of longer contexts, more and longer prompts, on every type with tables."""
        for name in ("H200", "DGX-B200", "GB200-NVL72"):
            context = self.context(name, of, engine)
            batches = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256], dtype=float)
            lengths = np.array([128, 512, 2048, 8192, 32768], dtype=float)
            tp = 4 if name == "GB200-NVL72" else 8
            for phase in (Phase.PREFILL, Phase.DECODE):
                grid = Steps.at(phase, tp, 1, 1, length=lengths[:, None], batch=batches[None])
                ms = step_cost(context, grid, overlap=False).total_ms
                assert (np.diff(ms, axis=0) >= -1e-9 * ms[1:]).all(), (name, phase)
                assert (np.diff(ms, axis=1) >= -1e-9 * ms[:, 1:]).all(), (name, phase)


class TestProducts:
    def test_at_measured_rows_the_sum_of_all(self) -> None:
        tables = kernel_tables("H200", "vllm")
        assert tables is not None
        rows = np.exp(tables.grids["gemm"].axes[0])[3:-3:4]
        widths = ((2048.0, 8192.0), (8192.0, 2048.0))
        time = products_time(tables, (("bfloat16", 1.0),), Rows.of(tables, rows), widths)
        assert time.ms == pytest.approx(sum(tables.gemm("bfloat16", rows, n, k).ms for n, k in widths))

    def test_between_them_as_each_is_within_a_hundredth(self) -> None:
        tables = kernel_tables("H200", "vllm")
        assert tables is not None
        rows = np.geomspace(1, 30_000, 57)
        widths = ((1280.0, 8192.0), (8192.0, 1024.0))
        time = products_time(tables, (("bfloat16", 1.0),), Rows.of(tables, rows), widths)
        assert time.ms == pytest.approx(sum(tables.gemm("bfloat16", rows, n, k).ms for n, k in widths), rel=0.01)
        assert (np.diff(time.ms) >= 0).all()

    def test_the_fastest_of_formats_that_multiply_alike(self) -> None:
        tables = kernel_tables("DGX-B200", "vllm")
        assert tables is not None
        forms, rows = (("fp8_block", 1.0), ("fp8", 1.5)), Rows.of(tables, np.array([1.0, 64.0]))
        both = products_time(tables, forms, rows, ((4096.0, 7168.0),))
        apart = [products_time(tables, ((form, factor),), rows, ((4096.0, 7168.0),)).ms for form, factor in forms]
        assert both.ms == pytest.approx(np.minimum(*apart))

    def test_the_fastest_of_engines_each_product_by_itself(self) -> None:
        widths, forms = ((4096.0, 7168.0), (7168.0, 2048.0)), (("bfloat16", 1.0),)
        tables = [kernel_tables("H200", engine) for engine in ("trtllm", "sglang", "vllm")]
        of_each = [(one, Rows.of(one, np.array([1.0, 64.0]))) for one in tables if one is not None]
        own, rows = of_each[0]
        together = products_time(own, forms, rows, widths, beside=("sglang", "vllm"))
        alone = [[products_time(one, forms, of, (width,)).ms for one, of in of_each] for width in widths]
        assert together.ms == pytest.approx(sum(np.min(times, axis=0) for times in alone))
        assert (together.ms < products_time(own, forms, rows, widths).ms).all()

    def test_widths_by_degrees(self) -> None:
        """A column of tensor parallel degrees against a row of batches."""
        tables = kernel_tables("H100", "sglang")
        assert tables is not None
        tp, rows = np.array([[1.0], [8.0]]), np.array([[1.0, 100.0, 3000.0]])
        grid = products_time(tables, (("bfloat16", 1.0),), Rows.of(tables, rows), ((8192 / tp, 8192 + 0 * tp),))
        for k, degree in enumerate((1.0, 8.0)):
            line = products_time(tables, (("bfloat16", 1.0),), Rows.of(tables, rows[0]), ((8192 / degree, 8192.0),))
            assert grid.ms[k] == pytest.approx(line.ms)


def test_a_pace_of_ones_own_comes_on_top() -> None:
    pace = Pace(ln=0.1, degrees=(((8, 1, 1), 0.05),), pool=0.3, own=math.log(2))
    eight, four = np.array(8.0), np.array(4.0)
    assert float(pace.at(eight, np.array(1.0), np.array(1.0))) == pytest.approx(2 * math.exp(0.15))
    assert float(pace.at(four, np.array(1.0), np.array(1.0))) == pytest.approx(2 * math.exp(0.1))
    assert float(pace.apart.at(eight, np.array(1.0), np.array(1.0))) == pytest.approx(2 * math.exp(0.3))


def test_a_network_is_known_at_every_precision() -> None:
    shape = model("llama-3.1-70b")
    groups = {group_of(gpu("H200"), replace(shape, weight_bytes=size), "vllm") for size in (2.0, 1.0, 0.5625)}
    assert {group[1] for group in groups} == {"llama-3.1-70b"}
    assert {group[3] for group in groups} == {"16 bits", "8 bits", "4 bits"}
