"""Which parallel degrees an island may have, and which it gets: the paper's definition, evaluated the long way."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cost_figures import factors, gpu, model
from cost_workloads import workload
from hypothesis import given
from hypothesis import strategies as st

from planner.cost import (
    CostContext,
    compare_configurations,
    decode_time,
    max_batch_size,
    prefill_time,
    smallest_island,
    tabulate,
    tabulate_sizes,
)
from planner.cost.memory import experts_on_device, max_prompts
from planner.cost.parallelism import choose, configurations
from planner.cost.reference import reference_configurations
from planner.cost.serving import every_size, node_sizes
from planner.domain import PHASES, CostMode, CostSettings, GpuSpec, ModelSpec, ParallelConfig, Phase, PhasePerformance
from planner.files import load_model

GPUS = ("H200", "GB200-NVL72", "Rubin-NVL144")
MODELS = ("deepseek-v3", "llama-3.1-70b", "gpt-oss-120b", "mixtral-8x7b", "qwen3-30b-a3b")
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


def allowed(spec: GpuSpec, shape: ModelSpec, settings: CostSettings, size: int) -> set[tuple[int, int, int, int]]:
    """(replicas, pp, dp, tp) by trying every number: what an engine can run."""
    ((attention, _), *_) = shape.attentions
    kv = getattr(attention, "kv_heads", 1)
    stages = settings.max_pipeline_stages or (1 if shape.experts else 8)
    found = set()
    for tp in range(1, min(size, spec.gpus_per_host) + 1):
        for pp in range(1, stages + 1):
            for dp in range(1, size // (tp * pp) + 1):
                if size % (tp * pp * dp) or attention.heads % tp or (kv > 1 and kv % tp and tp % kv):
                    continue
                if pp > 1 and (tp * dp) % spec.gpus_per_host:
                    continue
                if dp > 1 and shape.experts is None:
                    continue
                if shape.experts and tp * dp > shape.experts.routed + settings.redundant_experts:
                    continue
                found.add((size // (tp * pp * dp), pp, dp, tp))
    return found


@pytest.mark.parametrize("settings", [CostSettings(), CostSettings(redundant_experts=32, max_pipeline_stages=4)])
@pytest.mark.parametrize("shape", MODELS)
@pytest.mark.parametrize("name", GPUS)
def test_configurations_are_what_an_engine_can_run(name: str, shape: str, settings: CostSettings) -> None:
    for size in SIZES:
        found = configurations(CostContext(gpu=gpu(name), model=model(shape), settings=settings), size)
        as_tuples = [(c.replicas, c.pp, c.dp, c.tp) for c in found]
        assert len(set(as_tuples)) == len(as_tuples)
        assert set(as_tuples) == allowed(gpu(name), model(shape), settings, size)
        assert all(c.size == size for c in found)
        assert [c.replicas for c in found] == sorted(c.replicas for c in found)


def test_examples() -> None:
    """Two hosts of 8: a dense model runs as one or two stages of whole hosts, never as a group across them."""
    found = configurations(CostContext(gpu=gpu("H100"), model=model("llama-3.1-70b"), settings=CostSettings()), 16)
    assert {(c.replicas, c.pp, c.tp) for c in found} == {(1, 2, 8), (2, 1, 8), (4, 1, 4), (8, 1, 2), (16, 1, 1)}
    assert {c.dp for c in found} == {1}
    few = configurations(CostContext(gpu=gpu("GB200-NVL72"), model=model("mixtral-8x7b"), settings=CostSettings()), 16)
    assert max(c.stage_devices for c in few) == 8  # eight experts
    more = configurations(
        CostContext(gpu=gpu("GB200-NVL72"), model=model("mixtral-8x7b"), settings=CostSettings(redundant_experts=8)), 16
    )
    assert max(c.stage_devices for c in more) == 16
    assert max(c.tp for c in more) == 4  # a tray is a host


def test_reference_mode_allows_every_divisor() -> None:
    prefill = reference_configurations(Phase.PREFILL, 12)
    assert {(c.tp, c.dp, c.replicas) for c in prefill} == {(t, 12 // t, 1) for t in (1, 2, 3, 4, 6, 12)}
    decode = reference_configurations(Phase.DECODE, 12)
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
    prefill_configs = reference_configurations(Phase.PREFILL, size)
    prefill = [[reference_prefill(name, c, s) for s in lengths] for c in prefill_configs]
    is_best_of(row.prefill, prefill_configs, prefill, shares)
    decode_configs = reference_configurations(Phase.DECODE, size)
    decode = [[reference_decode(name, c, s, answer, longest) for s in lengths] for c in decode_configs]
    is_best_of(row.decode, decode_configs, decode, shares)


def default_prefill(spec: GpuSpec, shape: ModelSpec, settings: CostSettings, c: ParallelConfig, s: int) -> float:
    """1000 phi r dp n pp / t; n prompts a rank: as many as the token budget and memory allow, at least one in chunks.

    phi: what a pool of prefill replicas keeps of their pace.
    """
    held = experts_on_device(shape, settings, c.stage_devices)
    room = float(
        max_prompts(
            CostContext(gpu=spec, model=shape, settings=settings), longest=s, tp=c.tp, experts_on_device=held, pp=c.pp
        )
    )
    prompts = min(max(1, settings.max_tokens_per_step // s), math.floor(max(room, 0)))
    if prompts == 0:
        return 0.0
    time = prefill_time(spec, s, tp=c.tp, dp=c.dp, pp=c.pp, prompts_per_rank=prompts, model=shape, settings=settings)
    return 1000 * factors(spec).prefill_pool * c.replicas * c.dp * prompts * c.pp / float(time.total_ms)


def default_decode(
    spec: GpuSpec, shape: ModelSpec, settings: CostSettings, c: ParallelConfig, s: int, answer: int, longest: int
) -> float:
    """1000 r dp B / sum of token times; B the largest batch of a group, a multiple of 8 where there are 8."""
    held = experts_on_device(shape, settings, c.stage_devices)
    most = float(max_batch_size(spec, s, longest, tp=c.tp, experts_on_device=held, pp=c.pp, model=shape))
    whole = min(max(math.floor(most), 0), 1024)
    batch = whole // 8 * 8 if whole >= 8 else whole
    if batch < c.pp:
        return 0.0
    tokens = decode_time(
        spec,
        s + np.arange(answer),
        tp=c.tp,
        batch_size=batch,
        devices=c.stage_devices,
        pp=c.pp,
        model=shape,
        settings=settings,
    ).total_ms
    return c.replicas * c.dp * batch * 1000 / float(tokens.sum())


@pytest.mark.parametrize(
    ("name", "shape", "size"),
    [
        ("H800", "deepseek-v3", 24),
        ("H20", "deepseek-v3", 16),
        ("GB200-NVL72", "deepseek-v3", 36),
        ("H200", "kimi-k2", 64),
        ("H100", "llama-3.1-70b", 24),
        ("A100", "llama-3.1-405b", 32),
        ("H100", "gpt-oss-120b", 6),
    ],
)
def test_default_rows_are_the_definition(name: str, shape: str, size: int) -> None:
    lengths, shares, answer, longest = (256, 3000, 20_000), (0.5, 0.3, 0.2), 40, 1000
    spec, served, settings = gpu(name), model(shape), CostSettings()
    load = workload(lengths, shares, mean_output_tokens=answer, max_output_tokens=longest)
    row = tabulate(spec, size, model=served, workload=load, settings=settings)
    configs = configurations(CostContext(gpu=spec, model=served, settings=settings), size)
    prefill = [[default_prefill(spec, served, settings, c, s) for s in lengths] for c in configs]
    is_best_of(row.prefill, configs, prefill, shares)
    decode = [[default_decode(spec, served, settings, c, s, answer, longest) for s in lengths] for c in configs]
    is_best_of(row.decode, configs, decode, shares, tolerance=1e-3)


def test_prefill_fills_the_token_budget() -> None:
    load, settings = workload((256, 3000, 20_000)), CostSettings(max_tokens_per_step=16384)
    row = tabulate(gpu("H200"), 64, model=model(), workload=load, settings=settings).prefill
    assert row.batch_sizes == (64, 5, 1)
    cached = replace(settings, kv_cache_rate=0.5)
    assert tabulate(gpu("H200"), 64, model=model(), workload=load, settings=cached).prefill.batch_sizes[1] == 10


@pytest.mark.parametrize("shape", ["deepseek-v3", "llama-3.1-70b"])
@pytest.mark.parametrize("mode", CostMode)
def test_all_sizes_at_once_as_one_by_one(mode: CostMode, shape: str) -> None:
    if mode is CostMode.REFERENCE and shape != "deepseek-v3":
        return
    settings, sizes = CostSettings(mode=mode), [1, 5, 8, 9, 16, 24, 40, 72, 96]
    for name in ("H100", "GB200-NVL72"):
        kept = {"model": model(shape), "workload": workload(), "settings": settings}
        together = tabulate_sizes(gpu(name), sizes, **kept)
        assert together == [tabulate(gpu(name), size, **kept) for size in sizes]
        assert [row.island.size for row in together] == sizes


def test_replicas_multiply() -> None:
    """What an island of copies does is what one copy does, so many times."""
    settings, load = CostSettings(), workload()
    for shape in ("deepseek-v3", "llama-3.1-70b"):
        for row in tabulate_sizes(gpu("H200"), [32, 64, 128], model=model(shape), workload=load, settings=settings):
            for half in (row.prefill, row.decode):
                one = tabulate(gpu("H200"), half.parallel.devices, model=model(shape), workload=load, settings=settings)
                best = one.prefill if half is row.prefill else one.decode
                if best.parallel == replace(half.parallel, replicas=1):
                    assert half.rates_rps == pytest.approx([rate * half.parallel.replicas for rate in best.rates_rps])


def is_server(spec: GpuSpec, size: int) -> bool:
    """Equal parts of a host; whole hosts of one NVLink domain, or whole domains: up to 8 of them, or a power of two."""
    host, domain = spec.gpus_per_host, max(spec.gpus_per_host, spec.gpus_per_nvlink_domain)
    if size <= host:
        return host % size == 0
    units = [unit for unit in ([domain] if size > domain else [host, domain]) if size % unit == 0]
    return size <= 64 * host and any(size // unit in (*range(9), 16, 32, 64) for unit in units)


@pytest.mark.parametrize("name", ["H200", "L40S", "GB200-NVL72", "RubinU-NVL576"])
def test_servers_of_every_size_up_to_all_gpus_are_offered(name: str) -> None:
    spec = gpu(name)
    for gpus in (*range(1, 40), 63, 64, 65, 72, 128, 143, 144, 145, 511, 512, 513, 576, 600, 2304):
        offered = [size for size in range(1, gpus + 1) if is_server(spec, size)]
        assert sorted(node_sizes(spec, gpus)) == offered
        assert list(every_size(spec, gpus)) == [*range(1, min(gpus, 64) + 1), *(n for n in offered if n > 64)]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("name", "shape"),
    [("H200", "deepseek-v3"), ("H800", "deepseek-v3"), ("GB200-NVL72", "kimi-k2"), ("H20", "glm-4.5")],
)
def test_smallest_island_serves_everything_and_nothing_smaller_does(name: str, shape: str, phase: Phase) -> None:
    kept = {"model": model(shape), "workload": workload(), "settings": CostSettings()}
    least = smallest_island(gpu(name), phase, **kept)
    assert least is not None
    rows = tabulate_sizes(gpu(name), range(1, least + 1), **kept)
    served = [min(row.phase(phase).rates_rps) > 0 for row in rows]
    assert served == [False] * (least - 1) + [True]


@pytest.mark.parametrize(("name", "shape", "size"), [("H20", "kimi-k2", 45), ("H20", "deepseek-v3", 64)])
def test_a_configuration_that_serves_every_range_comes_before_a_faster_one(name: str, shape: str, size: int) -> None:
    lengths = (128, 2048, 6000, 14_000)
    asked = {"model": load_model(shape), "workload": workload(lengths, (0.7, 0.28, 0.0199, 0.0001))}
    for redundant in (0, 128):
        row = tabulate(gpu(name), size, settings=CostSettings(redundant_experts=redundant), **asked)
        found = compare_configurations(
            gpu(name),
            load_model(shape),
            Phase.PREFILL,
            size=size,
            lengths=lengths,
            settings=CostSettings(redundant_experts=redundant),
        )
        assert sum(r > 0 for r in row.prefill.rates_rps) == max(sum(r > 0 for r in c.rates_rps) for c in found)
