"""Which parallel degrees an island may have, and which it gets: the paper's definition, evaluated the long way."""

import math

import numpy as np
import pytest
from cost_figures import gpu, model
from cost_workloads import workload
from hypothesis import given
from hypothesis import strategies as st

from planner.cost import decode_time, max_batch_size, prefill_time, tabulate
from planner.cost.parallelism import choose, configurations
from planner.cost.rules import DEFAULT, REFERENCE, Rules
from planner.domain import CostMode, CostSettings, ParallelConfig, Phase, PhasePerformance

GPUS = ("A100", "H200", "H20", "MI300X", "GB200-NVL72", "Rubin-NVL144")
SIZES = (1, 2, 3, 7, 8, 12, 24, 64, 96, 128, 257, 320)


def weighted_deviation(rates: list[list[float]], probabilities: list[float], config: int) -> float:
    """Section 4.6.1: sum over lengths of p (best - own) / best, over the lengths that some configuration serves."""
    best = [max(row[j] for row in rates) for j in range(len(probabilities))]
    return sum(p * (b - own) / b for p, b, own in zip(probabilities, best, rates[config], strict=True) if b > 0)


@st.composite
def rate_tables(draw: st.DrawFn) -> tuple[list[list[float]], list[float]]:
    configs, ranges = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    rate = st.one_of(st.just(0.0), st.floats(0.01, 1000))
    rows = st.lists(rate, min_size=ranges, max_size=ranges)
    weights = draw(st.lists(st.floats(0.01, 1), min_size=ranges, max_size=ranges))
    return draw(st.lists(rows, min_size=configs, max_size=configs)), [w / sum(weights) for w in weights]


@given(rate_tables())
def test_choice_has_the_least_weighted_deviation(table: tuple[list[list[float]], list[float]]) -> None:
    rates, probabilities = table
    chosen = choose(np.array(rates), np.array(probabilities))
    if max(max(row) for row in rates) == 0:
        assert chosen is None
        return
    assert chosen is not None
    every = [weighted_deviation(rates, probabilities, c) for c in range(len(rates))]
    assert every[chosen] == pytest.approx(min(every), abs=1e-12)


def test_ties_go_to_the_first() -> None:
    assert choose(np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 1.0]]), np.array([0.25, 0.75])) == 0
    assert choose(np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 1.0]]), np.array([0.75, 0.25])) == 1


@pytest.mark.parametrize("rules", [DEFAULT, REFERENCE], ids=["default", "reference"])
@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("name", GPUS)
def test_degrees_multiply_to_the_size(name: str, phase: Phase, rules: Rules) -> None:
    for size in SIZES:
        found = configurations(gpu(name), model(), rules, phase, size)
        assert len(set(found)) == len(found)
        assert all(c.replicas * c.dp * c.tp == c.size == size for c in found)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("name", GPUS)
def test_default_mode_allows_what_an_engine_can_run(name: str, phase: Phase) -> None:
    spec = gpu(name)
    for size in SIZES:
        allowed = {
            (tp, size // replicas // tp, replicas)
            for replicas in (range(1, size + 1) if phase is Phase.DECODE else [1])
            for tp in range(1, size + 1)
            if size % replicas == 0
            and (size // replicas) % tp == 0
            and 128 % tp == 0
            and tp <= spec.gpus_per_host
            and (phase is Phase.PREFILL or size // replicas <= 256)
        }
        found = configurations(spec, model(), DEFAULT, phase, size)
        assert {(c.tp, c.dp, c.replicas) for c in found} == allowed


def test_reference_mode_allows_every_divisor() -> None:
    prefill = configurations(gpu("H800"), model(), REFERENCE, Phase.PREFILL, 12)
    assert {(c.tp, c.dp, c.replicas) for c in prefill} == {(t, 12 // t, 1) for t in (1, 2, 3, 4, 6, 12)}
    decode = configurations(gpu("H800"), model(), REFERENCE, Phase.DECODE, 12)
    divisors = [d for d in range(1, 13) if 12 % d == 0]
    assert {(c.tp, c.devices) for c in decode} == {(t, d) for d in divisors for t in range(1, d + 1) if d % t == 0}


def is_best_of(
    row: PhasePerformance,
    configs: list[ParallelConfig],
    rates: list[list[float]],
    shares: tuple[float, ...],
    tolerance: float = 1e-9,
) -> None:
    """The row holds the configuration of least deviation, and its rates."""
    best = min(range(len(configs)), key=lambda c: weighted_deviation(rates, list(shares), c))
    assert row.parallel == configs[best]
    assert row.rates_rps == pytest.approx(rates[best], rel=tolerance)


def reference_prefill(name: str, degrees: ParallelConfig, length: int) -> float:
    """Section 4.2.3: 1000 / t."""
    return 1000 / float(prefill_time(name, length, tp=degrees.tp, dp=degrees.dp, mode="reference").total_ms)


def reference_decode(name: str, degrees: ParallelConfig, length: int, answer: int, longest: int) -> float:
    """Section 4.6.2: replicas x batch x 1000 / sum of the answer's token times; batch a multiple of 8 in 8..1024."""
    held = -(-256 // degrees.devices) + 1
    most = float(max_batch_size(name, length, longest, tp=degrees.tp, experts_on_device=held, mode="reference"))
    if most < 1:
        return 0.0
    batch = min(max(math.floor(most) // 8 * 8, 8), 1024)
    tokens = [
        float(decode_time(name, s, tp=degrees.tp, batch_size=batch, devices=degrees.devices, mode="reference").total_ms)
        for s in range(length, length + answer)
    ]
    return degrees.replicas * batch * 1000 / sum(tokens)


@pytest.mark.parametrize(("name", "size"), [("H800", 24), ("H20", 16), ("H200", 6), ("Rubin-NVL144", 20)])
def test_reference_rows_are_the_papers_definition(name: str, size: int) -> None:
    lengths, shares, answer, longest = (128, 2000, 7000), (0.5, 0.3, 0.2), 9, 1000
    load = workload(lengths, shares, mean_output_tokens=answer, max_output_tokens=longest)
    settings = CostSettings(mode=CostMode.REFERENCE)
    row = tabulate(gpu(name), size, model=model(), workload=load, settings=settings)
    prefill_configs = configurations(gpu(name), model(), REFERENCE, Phase.PREFILL, size)
    prefill = [[reference_prefill(name, c, s) for s in lengths] for c in prefill_configs]
    is_best_of(row.prefill, prefill_configs, prefill, shares)
    decode_configs = configurations(gpu(name), model(), REFERENCE, Phase.DECODE, size)
    decode = [[reference_decode(name, c, s, answer, longest) for s in lengths] for c in decode_configs]
    is_best_of(row.decode, decode_configs, decode, shares)


def default_prefill(name: str, degrees: ParallelConfig, length: int, prompts: int) -> float:
    """1000 dp n / t, for the n prompts of a rank that the row reports."""
    time = prefill_time(name, length, tp=degrees.tp, dp=degrees.dp, prompts_per_rank=prompts)
    return 1000 * degrees.dp * prompts / float(time.total_ms)


def default_decode(name: str, degrees: ParallelConfig, length: int, answer: int, longest: int) -> float:
    """1000 r dp B / sum of token times; B the largest batch of a group, a multiple of 8 where there are 8."""
    held = -(-256 // degrees.devices) + 1
    most = float(max_batch_size(name, length, longest, tp=degrees.tp, experts_on_device=held))
    whole = min(max(math.floor(most), 0), 1024)
    batch = whole // 8 * 8 if whole >= 8 else whole
    if batch == 0:
        return 0.0
    cached = length + np.arange(answer)
    tokens = decode_time(name, cached, tp=degrees.tp, batch_size=batch, devices=degrees.devices).total_ms
    return degrees.replicas * degrees.dp * batch * 1000 / float(tokens.sum())


@pytest.mark.parametrize(("name", "size"), [("H800", 24), ("H20", 16), ("GB200-NVL72", 36), ("H200", 64)])
def test_default_decode_rows_are_the_definition(name: str, size: int) -> None:
    lengths, shares, answer, longest = (256, 3000), (0.6, 0.4), 40, 1000
    load = workload(lengths, shares, mean_output_tokens=answer, max_output_tokens=longest)
    row = tabulate(gpu(name), size, model=model(), workload=load, settings=CostSettings()).decode
    configs = configurations(gpu(name), model(), DEFAULT, Phase.DECODE, size)
    rates = [[default_decode(name, c, s, answer, longest) for s in lengths] for c in configs]
    is_best_of(row, configs, rates, shares, tolerance=1e-3)


@pytest.mark.parametrize(("name", "size"), [("H800", 24), ("H20", 16), ("GB200-NVL72", 36), ("H200", 64)])
def test_default_prefill_rows_fill_the_token_budget(name: str, size: int) -> None:
    lengths = (256, 3000, 20_000)
    load, settings = workload(lengths), CostSettings(max_tokens_per_step=16384)
    row = tabulate(gpu(name), size, model=model(), workload=load, settings=settings).prefill
    assert row.parallel is not None
    assert row.batch_sizes == (64, 5, 1)
    for length, prompts, rate in zip(lengths, row.batch_sizes, row.rates_rps, strict=True):
        assert rate == pytest.approx(default_prefill(name, row.parallel, length, prompts))
