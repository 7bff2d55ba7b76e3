"""Device memory as drivers show it: who holds DeepSeek-R1, what engines find free, and specs without the figure."""

from dataclasses import replace

import pytest
from cost_figures import gpu, model
from cost_workloads import workload

from planner.cost import CostContext, decode_time, max_batch_size, tabulate
from planner.cost.memory import (
    RESERVE_GB,
    experts_on_device,
    free_gb,
    max_batch,
    max_prompts,
    usable_gb,
    weights_gb,
)
from planner.domain import ENGINE_MEMORY_SHARE, ClassPerformance, CostMode, CostSettings, GpuSpec
from planner.errors import InputError
from planner.files import load_gpu_specs

DEFAULT = CostSettings()
GIB = 2**30
SPECS = load_gpu_specs()
SHOWN = {s.name: s for s in SPECS.values() for source in s.sources if "-smi" in source.source and "MiB" in source.unit}


def row(spec: GpuSpec, shape: str, settings: CostSettings = DEFAULT) -> ClassPerformance:
    return tabulate(spec, 8, model=model(shape), workload=workload((512, 8000)), settings=settings)


@pytest.mark.parametrize("shape", ["deepseek-r1", "deepseek-v3"])
def test_eight_h20_serve_deepseek_and_eight_h100_do_not(shape: str) -> None:
    """R1 in FP8 runs at TP8 on nodes of 8 H20 with 96 GB in public production; on 8 H100 nobody gets it loaded."""
    served, refused = row(gpu("H20"), shape), row(gpu("H100"), shape)
    for half in (served.prefill, served.decode):
        assert (half.parallel.tp, min(half.batch_sizes) >= 1) == (8, True)
    for half in (refused.prefill, refused.decode):
        assert (half.serves, half.parallel) == (False, None)
        assert "one H100 offers 75 GB" in half.reason


def test_the_kv_pool_that_sglang_allocates() -> None:
    """509 000 tokens of 16-bit latent cache: DeepSeek-R1, 8 H200, TP8, --mem-fraction-static 0.82.

    Source: github.com/ai-dynamo/aisimulate, pull request 263. The static share is of what is free before loading.
    """
    shape = replace(model("deepseek-r1"), kv_bytes=2)
    free = gpu("H200").device_gb - RESERVE_GB / ENGINE_MEMORY_SHARE
    assert free * 1e9 / GIB == pytest.approx(138.4, abs=0.2)
    weights = float(weights_gb(shape, tp=8, experts_on_device=experts_on_device(shape, DEFAULT, 8)))
    pool = (0.82 * free - weights) * 1e9 / (61 * 576 * 2)
    assert pool == pytest.approx(509_000, rel=0.05)


def test_the_decode_batch_of_eight_h200() -> None:
    """140.4 GiB each: 203 sequences of 4 096 tokens a rank at DP8, a third more than 141 GB hold."""
    fixed = {"seq_len": 4096, "decode_len": 0, "tp": 1, "experts_on_device": 33}
    shown, named = (float(max_batch(s, model(), **fixed)) for s in (gpu("H200"), replace(gpu("H200"), memory_mib=0.0)))
    latent = 4096 * 576 * 61
    buffers = 7168 * (16 + 8 * 3) + 18432 * 4
    weights = float(weights_gb(model(), tp=1, experts_on_device=33)) * 1e9
    assert shown == pytest.approx((143_771 * 2**20 * 0.9 - 2e9 - weights) / (latent + buffers))
    assert shown / named > 1.3


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_the_name_plate_never_promises_more_than_the_driver_shows(name: str) -> None:
    """So 10^9 bytes a GB, which a spec without the driver's figure gets, are on the safe side."""
    spec = SPECS[name]
    assert spec.memory_gb <= spec.device_gb < spec.memory_gb * 1.075


def test_every_shipped_figure_is_the_drivers_or_called_an_estimate() -> None:
    others = {
        s.name: next(o.source for o in s.sources if o.figure == "memory_mib")
        for s in SPECS.values()
        if s.name not in SHOWN
    }
    assert set(others) == {"MI308X", "Rubin-NVL144", "RubinU-NVL576"}
    assert all(source.startswith("estimate: ") for source in others.values())


def test_an_engine_that_starts_with_a_full_step_has_room_for_it() -> None:
    """Manifests carry the token budget, and vLLM runs a step of it before it gives the rest to the cache.

    DeepSeek-V3 on 6 H200 leaves 4.8 GB beside its weights, a step of 16 384 tokens takes 5.9: it would not start.
    """
    held = experts_on_device(model(), DEFAULT, 6)
    free = float(free_gb(gpu("H200"), model(), tp=1, experts_on_device=held))
    for budget, starts in ((16_384, False), (8192, True)):
        settings = replace(DEFAULT, max_tokens_per_step=budget)
        room = max_prompts(
            CostContext(gpu=gpu("H200"), model=model(), settings=settings), longest=1024, tp=1, experts_on_device=held
        )
        buffers = budget * (7168 * (16 + 8 * 3) + 18432 * 4) / 1e9
        assert (float(room) >= 1) == starts == (free > buffers)


def test_a_spec_without_the_drivers_figure_gets_its_name_plate() -> None:
    plain = replace(gpu("H200"), memory_mib=0.0)
    assert plain.device_gb == 141
    assert usable_gb(plain) == pytest.approx(141 * 0.9 - 2)
    assert usable_gb(gpu("H200")) == pytest.approx(143_771 * 2**20 / 1e9 * 0.9 - 2)


def test_reference_mode_takes_the_name_plate() -> None:
    """Shallowsim's memory is its own table's."""
    reference = CostSettings(mode=CostMode.REFERENCE)
    other = replace(gpu("H200"), memory_mib=100_000.0)
    assert row(other, "deepseek-v3", reference) == row(gpu("H200"), "deepseek-v3", reference)
    smaller = replace(gpu("H200"), memory_gb=120.0)
    fixed = {"tp": 1, "experts_on_device": 9, "mode": "reference"}
    assert max_batch_size(smaller, 4000, 1000, **fixed) < max_batch_size(gpu("H200"), 4000, 1000, **fixed)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), None, "8"])
def test_a_figure_that_cannot_be_is_named(value: object) -> None:
    broken = replace(gpu("H200"), memory_mib=value)
    with pytest.raises(InputError, match="GPU H200: memory_mib must be a number, 0 where the driver's figure is not"):
        decode_time(broken, 4096, tp=1, batch_size=8, devices=8)
