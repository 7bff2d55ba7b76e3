"""Physics that any cost model must keep, over every GPU type, in default mode."""

from dataclasses import replace

import numpy as np
import pytest
from cost_figures import (
    ACTIVE,
    ATTENTION_PARAMETERS,
    DENSE_LAYERS,
    DENSE_PARAMETERS,
    EXPERT_PARAMETERS,
    LAYERS,
    gpu,
    model,
)
from cost_workloads import workload
from hypothesis import given
from hypothesis import strategies as st

from planner.cost import decode_time, max_batch_size, prefill_time, tabulate
from planner.cost.memory import weights_gb
from planner.cost.parallelism import configurations
from planner.cost.rules import DEFAULT
from planner.domain import CostSettings, GpuSpec, Phase

NAMES = (
    "A100",
    "DGX-B200",
    "DGX-B300",
    "GB200-NVL72",
    "GB300-NVL72",
    "H100",
    "H20",
    "H20-3E",
    "H200",
    "H800",
    "MI300X",
    "MI308X",
    "Rubin-NVL144",
    "RubinU-NVL576",
)
ACTIVE_PARAMETERS = (
    LAYERS * ATTENTION_PARAMETERS
    + DENSE_LAYERS * DENSE_PARAMETERS
    + (LAYERS - DENSE_LAYERS) * (ACTIVE + 1) * EXPERT_PARAMETERS
)
DIP = 1e-12  # rounding

gpus = st.sampled_from(NAMES)
lengths = st.integers(1, 60_000)
tps = st.sampled_from([1, 2, 4, 8])
dps = st.integers(1, 40)
batches = st.integers(1, 1024)


def prefill_ms(spec: GpuSpec | str, s: float, tp: int, dp: int, prompts: int = 1, rate: float = 0.0) -> float:
    return float(prefill_time(spec, s, tp=tp, dp=dp, prompts_per_rank=prompts, kv_cache_rate=rate).total_ms)


def decode_ms(spec: GpuSpec | str, s: float, tp: int, dp: int, batch: int) -> float:
    return float(decode_time(spec, s, tp=tp, batch_size=batch, devices=tp * dp).total_ms)


def faster(spec: GpuSpec, figure: str, factor: float) -> GpuSpec:
    """The same GPU with one figure multiplied; both number formats of arithmetic go together."""
    figures = ("fp16_tflops", "fp8_tflops", "fp4_tflops") if figure == "tflops" else (figure,)
    return replace(spec, **{f: getattr(spec, f) * factor for f in figures})


@given(name=gpus, s=lengths, more=st.integers(1, 20_000), tp=tps, dp=dps, prompts=st.integers(1, 32))
def test_prefill_time_grows_with_length(name: str, s: int, more: int, tp: int, dp: int, prompts: int) -> None:
    one, longer, twice = (prefill_ms(name, n, tp, dp, prompts) for n in (s, s + more, 2 * s))
    assert longer > one * (1 - DIP)
    assert twice > one


@given(name=gpus, s=lengths, tp=tps, dp=dps, prompts=st.integers(1, 64), more=st.integers(1, 64))
def test_prefill_time_grows_with_prompts(name: str, s: int, tp: int, dp: int, prompts: int, more: int) -> None:
    one, further, twice = (prefill_ms(name, s, tp, dp, n) for n in (prompts, prompts + more, 2 * prompts))
    assert further > one * (1 - DIP)
    assert one < twice < 2 * one  # fixed costs are shared


@given(name=gpus, s=lengths, tp=tps, dp=dps, rate=st.floats(0, 0.9), more=st.floats(0.01, 0.09))
def test_cached_tokens_save_time(name: str, s: int, tp: int, dp: int, rate: float, more: float) -> None:
    s = max(s, 100)  # a share of a single token is not a case
    assert prefill_ms(name, s, tp, dp, rate=rate + more) < prefill_ms(name, s, tp, dp, rate=rate) * (1 + DIP)
    assert prefill_ms(name, s, tp, dp, rate=rate) <= prefill_ms(name, s, tp, dp) * (1 + DIP)


@given(name=gpus, s=lengths, tp=tps, dp=dps, batch=batches, more=st.integers(1, 20_000))
def test_decode_time_grows_with_length(name: str, s: int, tp: int, dp: int, batch: int, more: int) -> None:
    assert decode_ms(name, s + more, tp, dp, batch) > decode_ms(name, s, tp, dp, batch)


@given(name=gpus, s=lengths, tp=tps, dp=dps, batch=batches, more=st.integers(1, 512))
def test_decode_time_grows_with_batch(name: str, s: int, tp: int, dp: int, batch: int, more: int) -> None:
    one, further, twice = (decode_ms(name, s, tp, dp, b) for b in (batch, batch + more, 2 * batch))
    assert further > one * (1 - DIP)
    assert one < twice < 2 * one  # the weights are loaded once for all


@given(
    name=gpus,
    s=lengths,
    tp=tps,
    dp=dps,
    batch=batches,
    figure=st.sampled_from(["memory_gb_s", "nvlink_gb_s", "nic_gb_s", "tflops"]),
    factor=st.floats(1.01, 10),
)
def test_a_faster_gpu_is_never_slower(
    name: str, s: int, tp: int, dp: int, batch: int, figure: str, factor: float
) -> None:
    slow, fast = gpu(name), faster(gpu(name), figure, factor)
    assert prefill_ms(fast, s, tp, dp) <= prefill_ms(slow, s, tp, dp)
    assert decode_ms(fast, s, tp, dp, batch) <= decode_ms(slow, s, tp, dp, batch)


@given(name=gpus, s=lengths, tp=tps, dp=dps, batch=batches, figure=st.sampled_from(["memory_gb_s", "tflops"]))
def test_memory_and_arithmetic_always_tell(name: str, s: int, tp: int, dp: int, batch: int, figure: str) -> None:
    slow, fast = gpu(name), faster(gpu(name), figure, 2)
    assert decode_ms(fast, s, tp, dp, batch) < decode_ms(slow, s, tp, dp, batch)
    assert prefill_ms(fast, s, tp, dp) < prefill_ms(slow, s, tp, dp)
    both = faster(faster(faster(fast, "nvlink_gb_s", 2), "nic_gb_s", 2), "memory_gb_s", 2)
    assert decode_ms(both, s, tp, dp, batch) > decode_ms(slow, s, tp, dp, batch) / 4


@given(name=gpus, s=lengths, answer=st.integers(0, 4000), more=st.integers(1, 9000), tp=tps, held=st.integers(2, 33))
def test_largest_batch_shrinks_with_length(name: str, s: int, answer: int, more: int, tp: int, held: int) -> None:
    one, longer_prompt, longer_answer = (
        float(max_batch_size(name, prompt, out, tp=tp, experts_on_device=held))
        for prompt, out in ((s, answer), (s + more, answer), (s, answer + more))
    )
    if one > 0:
        assert 0 < longer_prompt < one
        assert longer_answer == pytest.approx(longer_prompt)
    else:
        assert longer_prompt <= 0  # weights that do not fit fit no better for longer prompts


@given(
    name=gpus,
    size=st.integers(8, 128),
    s=st.integers(64, 16_000),
    answer=st.integers(1, 1000),
    tokens=st.sampled_from([4096, 16384, 65536]),
)
def test_no_island_beats_its_arithmetic(name: str, size: int, s: int, answer: int, tokens: int) -> None:
    """Tokens per second and GPU stay below derated FLOP/s over two per active parameter (embeddings left out)."""
    spec = gpu(name)
    load = workload((s,), mean_output_tokens=answer, max_output_tokens=answer)
    row = tabulate(spec, size, model=model(), workload=load, settings=CostSettings(max_tokens_per_step=tokens))
    roof = 0.85 * (spec.fp8_tflops or spec.fp16_tflops) * 1e12 / (2 * ACTIVE_PARAMETERS)
    assert row.prefill.rates_rps[0] * s / size < roof
    assert row.decode.rates_rps[0] * answer / size < roof


@pytest.mark.parametrize("phase", Phase)
@given(name=gpus, size=st.integers(1, 320))
def test_the_islands_gpus_hold_the_whole_model(phase: Phase, name: str, size: int) -> None:
    for degrees in configurations(gpu(name), model(), DEFAULT, phase, size):
        held = int(np.ceil(256 / degrees.devices)) + 1
        a_gpu = float(weights_gb(model(), tp=degrees.tp, experts_on_device=held))
        assert a_gpu * size >= model().weights_gb * degrees.replicas


def test_the_list_of_names_is_whole() -> None:
    from planner.files import load_gpu_specs

    assert sorted(NAMES) == sorted(load_gpu_specs())
