"""Measured kernels: looked up as they were measured, between by another implementation, never falling."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import cost_figures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import RegularGridInterpolator

from planner.cost import CostContext
from planner.cost.kernels import Basis, KernelTables, KernelTime, kernel_tables, tables_of
from planner.cost.kernels.nearest import experts_shape
from planner.cost.kernels.shapes import has_gate
from planner.cost.step import Steps, step_cost
from planner.domain import PHASES, CostSettings, Phase
from planner.errors import InputError
from planner.files.kernels import kernels_there, read_kernels

RAW = Path(__file__).parents[1] / "data" / "kernels" / "measured_kernels.csv"


def shipped(gpu: str, engine: str) -> KernelTables:
    tables = kernel_tables(gpu, engine)
    assert tables is not None
    return tables


def raw_rows() -> list[tuple[KernelTime, float, str]]:
    """What is answered for each row of the sample, and what was measured."""
    lines = RAW.read_text(encoding="utf-8").splitlines()[1:]
    return [
        (
            getattr(shipped(row["gpu"], row["engine"]), row["operation"])(**arguments(row)),
            float(row["ms"]),
            row["operation"],
        )
        for row in csv.DictReader(lines)
    ]


def arguments(row: dict[str, str]) -> dict[str, Any]:
    shape: dict[str, Any] = json.loads(row["arguments"])
    return {**shape, "gated": bool(has_gate(shape))} if row["operation"] == "moe" else shape


def test_rows_as_measured_are_answered() -> None:
    """Sizes on the grids are those measured but for rounding and noise (where a larger size took less), those between
    are close, and shapes are never taken for others."""
    rows = raw_rows()
    errors = {
        basis: np.array([abs(time.ms / ms - 1) for time, ms, _ in rows if time.basis == basis])
        for basis in (Basis.MEASURED, Basis.INTERPOLATED)
    }
    assert len(rows) > 370
    assert sum(map(len, errors.values())) >= len(rows) - 5
    assert np.median(errors[Basis.MEASURED]) < 0.001  # half a thousandth of rounding
    assert np.quantile(errors[Basis.MEASURED], 0.9) < 0.06
    assert len(errors[Basis.INTERPOLATED]) > 30
    assert np.median(errors[Basis.INTERPOLATED]) < 0.03


def test_every_operation_has_rows() -> None:
    assert {operation for _, _, operation in raw_rows()} == set(shipped("H100", "sglang").grids)


@pytest.mark.parametrize("seed", range(3))
def test_between_measured_sizes_as_another_implementation_has_it(seed: int) -> None:
    stored = read_kernels(kernels_there()[("DGX-B200", "trtllm")]).grids["gemm"]
    row = stored.words["dtype"].index("nvfp4")
    grid = shipped("DGX-B200", "trtllm").grids["gemm"].ln_ms[row]
    other = RegularGridInterpolator([np.log(sizes) for sizes in stored.axes.values()], grid.astype(float))
    random = np.random.default_rng(seed)
    m, n, k = (np.exp(random.uniform(np.log(sizes[0]), np.log(sizes[-1]), 200)) for sizes in stored.axes.values())
    expected = np.exp(other(np.log(np.stack([m, n, k], axis=1))))
    assert shipped("DGX-B200", "trtllm").gemm("nvfp4", m, n, k).ms == pytest.approx(expected, rel=1e-5)


SIZES = st.lists(st.integers(1, 40_000), min_size=2, max_size=8).map(sorted).map(np.array)


@given(
    sizes=SIZES,
    other=st.integers(1, 20_000),
    key=st.sampled_from(sorted(kernels_there())),
    tp=st.sampled_from([1, 3, 8]),
)
def test_times_never_fall_where_a_size_grows(sizes: np.ndarray, other: int, key: tuple[str, str], tp: int) -> None:
    tables = shipped(*key)
    times = (
        tables.gemm("bfloat16", sizes, 4096 // tp, 4096),
        tables.context_attention(1, sizes, 32 // tp, 8, 128),
        tables.context_attention(sizes, min(other, 512), 32 // tp, 8, 128, window=1024),
        tables.context_attention(1, 256, 32 // tp, 8, 128, past=sizes),
        tables.generation_attention(sizes, other, 32 // tp, 8, 128, "fp8"),
        tables.generation_attention(64, sizes, 32 // tp, 8, 128, window=4096),
        tables.moe("bfloat16", sizes, 4096, 1536, 8, 128, tp, 2),
        tables.moe("fp8_block", sizes, 5000, 1500, 8, 100, tp, 2, "balanced"),
        tables.generation_module("mla", sizes, min(other, 4096), 128 // tp),
        tables.all_reduce(sizes * 8192, tp),
    )
    for time in times:
        steps = np.diff(np.log(time.ms[time.ms > 0]))
        assert not (steps < -1e-5).any()


def test_arrays_are_answered_as_numbers_are() -> None:
    tables = shipped("H200", "vllm")
    tokens, tp, ep = np.array([[1], [100], [30_000]]), np.array([1, 2, 8, 5]), np.array([8, 1, 4, 1])
    together = tables.moe("fp8_block", tokens, 7168, 2048, 8, 256, tp, ep)
    heads = tables.generation_attention(tokens, 3000, 96 // tp, 8, 128)
    for row, column in np.ndindex(3, 4):
        apart = tables.moe("fp8_block", int(tokens[row, 0]), 7168, 2048, 8, 256, int(tp[column]), int(ep[column]))
        alone = tables.generation_attention(int(tokens[row, 0]), 3000, 96 // int(tp[column]), 8, 128)
        assert together.ms[row, column] == pytest.approx(float(apart.ms), rel=1e-6)
        assert together.basis[row, column] == apart.basis
        assert heads.ms[row, column] == pytest.approx(float(alone.ms), rel=1e-6)
        assert heads.basis[row, column] == alone.basis
    assert {*together.basis.ravel().tolist()} == {Basis.MEASURED, Basis.INTERPOLATED, Basis.SCALED}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("gpu_name", "name"), [("H200", "gpt-oss-120b"), ("H800", "deepseek-v3")])
def test_what_a_step_takes_does_not_depend_on_which_others_are_asked_for(
    gpu_name: str, name: str, phase: Phase
) -> None:
    """Some of them without an answer (H800 by those of H100, 32 and 27 GPUs beyond any node)."""
    context = CostContext(
        gpu=cost_figures.gpu(gpu_name), model=cost_figures.model(name), settings=CostSettings(engine="vllm")
    )
    tp, dp = np.array([1, 2, 3, 8, 32, 4, 16]), np.array([1, 4, 9, 1, 1, 2, 1])
    length, batch = np.array([900, 7000, 300, 15_000, 2000, 100, 4000]), np.array([3, 70, 16, 200, 8, 1, 30])
    together = step_cost(context, Steps.at(phase, tp, dp, 1, length=length, batch=batch))
    alone = [
        step_cost(context, Steps.at(phase, *row[:2], 1, length=row[2], batch=row[3]))
        for row in zip(tp, dp, length, batch, strict=True)
    ]
    assert together.total_ms == pytest.approx([float(cost.total_ms) for cost in alone], rel=1e-5)
    for part in together.parts:
        if part.kernel is not None:
            bases = np.broadcast_to(part.kernel.basis, tp.shape).tolist()
            assert bases == [int(np.max(cost.part(part.name).kernel.basis)) for cost in alone], part.name
    assert Basis.FORMULA in np.broadcast_to(together.part("all-reduce").kernel.basis, tp.shape)


def test_beyond_what_was_measured_time_goes_with_the_work() -> None:
    tables = shipped("H200", "vllm")
    most = tables.gemm("fp8", 32_768, 8192, 8192)
    assert (most.basis, tables.gemm("fp8", 65_536, 8192, 8192).basis) == (Basis.MEASURED, Basis.SCALED)
    assert tables.gemm("fp8", 65_536, 8192, 8192).ms == pytest.approx(2 * most.ms, rel=1e-5)
    prompt = tables.context_attention(1, 16_384, 8, 1, 128)
    assert tables.context_attention(1, 32_768, 8, 1, 128).ms == pytest.approx(4 * prompt.ms, rel=1e-5)
    steps = tables.generation_attention(8, np.array([131_072, 262_144]), 8, 1, 128)
    assert steps.ms[1] == pytest.approx(2 * steps.ms[0], rel=1e-5)


def test_shapes_that_nobody_measured_take_a_neighbour_by_its_work() -> None:
    tables = shipped("H200", "sglang")
    near, between = (tables.moe("fp8_block", 64, 7168, inter, 8, 256, 1, 8) for inter in (2048, 2200))
    assert (near.basis, between.basis) == (Basis.MEASURED, Basis.SCALED)
    launch = tables.grids["moe"].launch_ms
    assert launch < 0.05
    assert between.ms - launch == pytest.approx((near.ms - launch) * 2200 / 2048, rel=1e-4)
    heads = [tables.context_attention(1, 16_384, count, 8, 128) for count in (64, 72)]
    assert heads[1].ms == pytest.approx(heads[0].ms * 72 / 64, rel=0.001)
    window = tables.generation_attention(64, np.array([1000, 3000, 90_000]), 8, 1, 64, window=2500)
    assert window.ms == pytest.approx(tables.generation_attention(64, [1000, 2500, 2500], 8, 1, 64).ms, rel=1e-6)
    assert (window.basis == Basis.SCALED).all()


@pytest.mark.parametrize(("gpu", "engine"), [("H200", "vllm"), ("DGX-B200", "trtllm"), ("H100", "sglang")])
def test_a_shape_left_out_is_met_by_its_neighbours(gpu: str, engine: str) -> None:
    """Every twentieth shape of experts taken out of the tables, and asked for."""
    stored = read_kernels(kernels_there()[(gpu, engine)])
    experts = stored.grids["moe"]
    rows = np.arange(len(experts.shapes))
    kept = rows[rows % 20 != 0]
    fewer = replace(experts, shapes=experts.shapes[kept], ln_ms=experts.ln_ms[kept])
    tables = tables_of(replace(stored, grids={"moe": fewer}))
    tokens = experts.axes["tokens"]
    errors = []
    for row in rows[::20]:
        shape = dict(zip(experts.columns, experts.shapes[row].tolist(), strict=True))
        words = {column: experts.words[column][shape[column]] for column in experts.words}
        time = tables.moe(tokens=tokens, **{**shape, **words}, gated=bool(has_gate(shape)))
        assert (time.basis[~np.isnan(experts.ln_ms[row])] == Basis.SCALED).all()
        errors.append(np.abs(np.log(time.ms) - experts.ln_ms[row]))
    assert len(errors) > 100
    assert np.exp(np.nanmedian(errors)) - 1 < 0.18


@pytest.mark.parametrize(("gpu", "engine"), [("A100", "vllm"), ("H200", "sglang")])
def test_experts_with_a_gate_never_stand_for_those_without(gpu: str, engine: str) -> None:
    """Nemotron's were measured, 22 of 512: gated ones of like sizes take other rows, even those of the same sizes."""
    tables = shipped(gpu, engine)
    grid = tables.grids["moe"]
    for inter, topk, experts in ((2688, 20, 512), (1024, 10, 512), (5120, 16, 512), (1900, 6, 128)):
        for gated in (True, False):
            row = int(experts_shape(grid, "bfloat16", "balanced", gated, 4096, inter, topk, experts, 3, 5)[0])
            assert bool(has_gate({name: values[row] for name, values in grid.columns.items()})) == gated
    bare, gated = (tables.moe("bfloat16", 4096, 2688, 1856, 6, 128, gated=gate) for gate in (False, True))
    assert (bare.basis, gated.basis) == (Basis.MEASURED, Basis.SCALED)
    assert gated.ms != bare.ms


def test_a_chunk_takes_its_share_of_the_prompt() -> None:
    tables = shipped("H100", "trtllm")
    prompt = float(tables.context_attention(1, 16_384, 8, 1, 128).ms)
    chunk = tables.context_attention(1, 4096, 8, 1, 128, past=np.arange(4) * 4096)
    assert prompt < chunk.ms.sum() < 1.25 * prompt  # few queries fill a GPU less
    windowed = tables.context_attention(1, 4096, 8, 1, 128, window=3000)
    as_many_pairs = math.sqrt(2 * sum(min(token, 3000) for token in range(4096)))
    assert windowed.ms == pytest.approx(float(tables.context_attention(1, as_many_pairs, 8, 1, 128).ms), rel=0.001)
    assert windowed.basis == Basis.SCALED
    assert chunk.basis.tolist() == [Basis.MEASURED, Basis.SCALED, Basis.SCALED, Basis.SCALED]


def test_collectives_answer_within_what_was_measured() -> None:
    tables = shipped("H200", "vllm")
    alone, six, eight, sixteen = (tables.all_reduce(2**20, gpus) for gpus in (1, 6, 8, 16))
    assert (alone.ms, six.ms, six.basis, eight.basis) == (0, eight.ms, Basis.SCALED, Basis.MEASURED)
    assert math.isnan(sixteen.ms)
    assert sixteen.basis == Basis.FORMULA
    both = tables.all_reduce(np.array([1024, 2048]), np.array([[2], [16]]))
    assert both.ms[0] == pytest.approx(tables.all_reduce(np.array([1024, 2048]), 2).ms)
    assert np.isnan(both.ms[1]).all()
    assert np.isnan(tables.expert_exchange("dispatch", 64, 7168, 8, 256, 64).ms)
    assert tables.all_reduce(2**20, 8, "eager").ms > eight.ms


def test_what_was_not_measured_has_no_answer() -> None:
    for time in (
        shipped("H200", "vllm").gemm("nvfp4", np.array([1, 2]), 4096, 4096),
        shipped("A100", "vllm").generation_module("dsa", np.array([1, 2]), 100, 8),
        shipped("L40S", "trtllm").moe("nvfp4", np.array([1, 2]), 4096, 1536, 8, 128),
        shipped("A100", "trtllm").hyper_connection(np.array([1, 2]), 4096),
    ):
        assert np.isnan(time.ms).all()
        assert time.basis.tolist() == [Basis.FORMULA, Basis.FORMULA]
    assert kernel_tables("MI300X", "vllm") is None
    assert kernel_tables("H200", "unknown") is None


def test_words_that_no_table_has_are_refused() -> None:
    tables = shipped("H200", "vllm")
    with pytest.raises(InputError, match=r"dtype must be one of bfloat16, fp8, .*, got 'fp3'"):
        tables.gemm("fp3", 1, 1, 1)
    with pytest.raises(InputError, match="distribution must be one of balanced"):
        tables.moe("fp8", 1, 4096, 1536, 8, 128, distribution="zipf")
    with pytest.raises(InputError, match="kind must be one of"):
        tables.generation_module("rope", 1, 1, 1)
