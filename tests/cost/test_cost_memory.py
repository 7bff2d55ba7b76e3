"""What fits: weights, cache and buffers of the fullest GPU, the largest batch, the most prompts."""

from dataclasses import replace

import numpy as np
import pytest
from cost_figures import HIDDEN, KV_WIDTH, LAYERS, gpu, model
from cost_workloads import workload

from planner.cost import CostContext, max_batch_size, smallest_island, tabulate
from planner.cost.drafts import draft_of
from planner.cost.memory import cache_gb as cache_of_group_gb
from planner.cost.memory import experts_on_device, free_gb, max_batch, max_prompts, weights_gb
from planner.cost.rates import decode_rates, prefill_rates
from planner.domain import CostMode, CostSettings, ParallelConfig, Phase
from planner.domain.serving.speculation import DraftMethod, DraftModel, Speculation

DEFAULT = CostSettings()
SHARE, RESERVE = 0.9, 2.0  # of device memory; GB that driver, context and buffers take
SHIPPED = ("deepseek-v3", "deepseek-v2", "glm-4.5", "gpt-oss-120b", "kimi-k2", "llama-3.1-405b", "mixtral-8x7b")


def cache_gb(shape: str, tokens: float) -> float:
    """Cache of a whole sequence, every layer and head; windows left out."""
    m = model(shape)
    return tokens * sum(count * kind.kv_width for kind, count in m.attentions) * m.kv_bytes / 1e9


@pytest.mark.parametrize("shape", SHIPPED)
def test_one_gpu_of_one_holds_the_whole_model(shape: str) -> None:
    held = experts_on_device(model(shape), DEFAULT, 1)
    assert float(weights_gb(model(shape), tp=1, experts_on_device=held)) == pytest.approx(model(shape).weights_gb)


@pytest.mark.parametrize(("shape", "gb"), [("deepseek-v3", 671), ("llama-3.1-405b", 812), ("kimi-k2", 1026)])
def test_published_sizes(shape: str, gb: float) -> None:
    """Parameters times bytes; embedding and head of the FP8 models are of 16 bits."""
    assert model(shape).weights_gb == pytest.approx(gb, rel=0.005)


@pytest.mark.parametrize(("devices", "held"), [(1, 257), (2, 129), (8, 33), (64, 5), (100, 4), (256, 2)])
def test_experts_lie_whole_on_gpus(devices: int, held: int) -> None:
    assert float(experts_on_device(model(), DEFAULT, devices)) == held
    assert float(experts_on_device(model("llama-3.1-70b"), DEFAULT, devices)) == 0


def test_grouped_cache_is_divided_and_latent_cache_is_not() -> None:
    for shape, ratio in (("llama-3.1-70b", 8), ("deepseek-v3", 1)):
        free = [
            float(max_batch_size("DGX-B300", 100_000, 0, tp=tp, experts_on_device=2, model=shape))
            / float(free_gb(gpu("DGX-B300"), model(shape), tp=tp, experts_on_device=2))
            for tp in (1, 8)
        ]
        assert free[1] / free[0] == pytest.approx(ratio, rel=0.01)


def test_drafts_keep_a_cache_and_buffers() -> None:
    fixed = {"seq_len": 4000, "decode_len": 0, "tp": 1, "experts_on_device": 5}
    plain, drafting = (
        float(max_batch(gpu("H200"), model(), **fixed, draft=draft_of(model(), CostSettings(mtp_tokens=tokens))))
        for tokens in (0, 1)
    )
    assert plain / drafting == pytest.approx(62 / 61, rel=0.01)
    assert drafting < plain


def test_an_eagle_draft_by_hand() -> None:
    """A layer of 8,192: 64 heads of 128 and 8 of keys and values, queries to values of twice the width, three hidden
    states joined, a dense FFN as the model's, a head of 32,000; all of it 16 bits, on eight GPUs."""
    llama, d = model("llama-3.1-70b"), 8192
    eagle = Speculation(method=DraftMethod.EAGLE, tokens=3, draft=DraftModel(uri="draft"))
    draft = draft_of(llama, CostSettings(speculation=eagle))
    weights = 2 * d * (64 + 16) * 128 + 64 * 128 * d + 3 * d * 28_672 + 3 * d * d + 32_000 * d
    plain, drafting = (float(weights_gb(llama, tp=8, experts_on_device=0, draft=one)) for one in (None, draft))
    assert (drafting - plain) * 1e9 == pytest.approx(weights * 2 / 8)
    plain, drafting = (float(cache_of_group_gb(llama, length=1000, batch=2, tp=8, draft=one)) for one in (None, draft))
    assert drafting / plain == pytest.approx(81 / 80)


@pytest.mark.parametrize("hit", [0.0, 0.5])
@pytest.mark.parametrize("budget", [2048, 16384])
def test_prompts_by_hand(hit: float, budget: int) -> None:
    """The cache of all of a prompt, and once the buffers of a step that fills the budget."""
    settings = replace(DEFAULT, kv_cache_rate=hit, max_tokens_per_step=budget)
    found = max_prompts(
        CostContext(gpu=gpu("H200"), model=model(), settings=settings), longest=10_000, tp=4, experts_on_device=9
    )
    buffers = budget * (HIDDEN * (16 + 8 * 3 / 4) + 18432 * 4 / 4) / 1e9
    free = 143_771 * 2**20 / 1e9 * SHARE - RESERVE - float(weights_gb(model(), tp=4, experts_on_device=9))
    assert float(found) == pytest.approx((free - buffers) / (10_000 * KV_WIDTH * LAYERS / 1e9))


def test_a_pipeline_in_prefill_keeps_the_prompts_of_all_its_stages() -> None:
    fixed = {"longest": 4000, "tp": 8, "experts_on_device": 0}
    one, two = (
        float(max_prompts(CostContext(gpu=gpu("H100"), model=model("llama-3.1-70b"), settings=DEFAULT), **fixed, pp=pp))
        for pp in (1, 2)
    )
    frees = [float(free_gb(gpu("H100"), model("llama-3.1-70b"), tp=8, experts_on_device=0, pp=pp)) for pp in (1, 2)]
    buffers = 16384 * (8192 * 16 + 28672 * 4 / 8) / 1e9
    assert two / one == pytest.approx((frees[1] - buffers) / (frees[0] - buffers))  # half the layers, twice the prompts


def test_a_rank_takes_no_prompt_that_does_not_fit() -> None:
    load = workload((1024, 150_000))
    tight = replace(gpu("H20"), memory_mib=98_000.0)
    row = tabulate(tight, 8, model=model(), workload=load, settings=DEFAULT).prefill
    room = max_prompts(
        CostContext(gpu=tight, model=model(), settings=DEFAULT),
        longest=np.array([1024, 150_000]),
        tp=8,
        experts_on_device=33,
    )
    assert (float(room[0]) >= 1) == (max(row.rates_rps[:1]) > 0)
    assert float(room[1]) < 1
    assert row.rates_rps[1] == 0


def test_two_h200s_hold_no_model_and_say_so() -> None:
    row = tabulate(gpu("H200"), 2, model=model(), workload=workload(), settings=DEFAULT)
    for half in (row.prefill, row.decode):
        assert (half.serves, half.parallel, half.batch_sizes) == (False, None, (0, 0, 0))
        assert "deepseek-v3 puts at least 338 GB of weights on each GPU" in half.reason
        assert "one H200 offers 134 GB" in half.reason
    reference = tabulate(
        gpu("H200"), 2, model=model(), workload=workload(), settings=CostSettings(mode=CostMode.REFERENCE)
    )
    assert "by the simulator's literals" in reference.decode.reason


def test_smallest_island_of_a_gpu_that_is_too_small_is_none() -> None:
    tiny = replace(gpu("H200"), memory_mib=4768.0)  # one routed and one shared expert a layer alone take 5.1 GB
    assert smallest_island(tiny, Phase.DECODE, model=model(), workload=workload(), settings=DEFAULT) is None


@pytest.mark.parametrize(
    ("name", "shape", "size"),
    [
        ("H200", "deepseek-v3", 8),
        ("H20", "deepseek-v3", 16),
        ("H800", "deepseek-v3", 48),
        ("GB300-NVL72", "kimi-k2", 72),
        ("MI300X", "glm-4.5", 12),
        ("H100", "llama-3.1-70b", 4),
        ("A100", "llama-3.1-405b", 32),
        ("H100", "mixtral-8x7b", 2),
    ],
)
def test_whatever_is_served_fits_beside_the_weights(name: str, shape: str, size: int) -> None:
    """All of an island's sequences and weights together take no more than all of its usable memory."""
    load = workload((512, 7000), max_output_tokens=1000)
    row = tabulate(gpu(name), size, model=model(shape), workload=load, settings=DEFAULT)
    for half, extra in ((row.prefill, 0), (row.decode, 1000)):
        groups = half.parallel.replicas * half.parallel.dp
        in_flight = half.parallel.pp if half is row.prefill else 1
        for batch, span in zip(half.batch_sizes, load.ranges, strict=True):
            caches = groups * in_flight * batch * cache_gb(shape, span.longest_input_tokens + extra)
            weights = half.parallel.replicas * model(shape).weights_gb
            assert weights + caches <= (SHARE * gpu(name).memory_mib * 2**20 / 1e9 - RESERVE) * size


def test_a_stage_is_never_left_without_a_sequence() -> None:
    """Eight stages and room for few sequences: fewer than one a stage is no batch."""
    from planner.cost.backend import AnalyticBackend
    from planner.cost.grid import Degrees

    shape, spec = model("llama-3.1-70b"), replace(gpu("H100"), memory_mib=7600.0)
    degrees = Degrees.of([ParallelConfig(tp=8, dp=1, pp=8)])
    load, settings = workload((60_000, 120_000)), replace(DEFAULT, max_pipeline_stages=8)
    backend = AnalyticBackend(CostContext(gpu=spec, model=shape, settings=settings))
    grid = decode_rates(backend, CostContext(gpu=spec, model=shape, settings=settings), load, degrees)
    assert all(batch == 0 or batch >= 8 for batch in grid.batch_sizes[0])
    assert (grid.batch_sizes == 0).any()
    assert np.all((grid.rates_rps > 0) == (grid.batch_sizes > 0))
    assert prefill_rates(
        backend, CostContext(gpu=spec, model=shape, settings=settings), load, degrees
    ).rates_rps.shape == (1, 2)
