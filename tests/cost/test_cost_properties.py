"""Physics that any cost model must keep, over random models, GPUs and configurations, in default mode."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from cost_figures import GPU_NAMES, gpu, model, step, waiting
from cost_models import Case, cases, least_compute_ms, least_memory_ms
from cost_workloads import workload
from hypothesis import given
from hypothesis import strategies as st

from planner.cost import CostContext, decode_time, max_batch_size, prefill_time, tabulate
from planner.cost.attention import reserved_bytes
from planner.cost.limits import limit_ms, step_limit
from planner.cost.memory import experts_on_device, weights_gb
from planner.cost.parallelism import configurations
from planner.cost.parts import StepCost
from planner.cost.step import Steps
from planner.domain import PHASES, CostSettings, Phase
from planner.errors import InfeasibleError
from planner.files import shipped_models

DIP = 1e-12  # rounding
BANDWIDTHS = ("memory_gb_s", "nvlink_gb_s", "nic_gb_s")
MODELS = tuple(shipped_models())


def run(case: Case) -> StepCost:
    return step(
        case.spec,
        case.phase,
        length=case.length,
        batch=case.batch,
        tp=case.tp,
        dp=case.dp,
        pp=case.pp,
        cached=case.cached,
        shape=case.shape,
        settings=case.settings,
    )


def ms(case: Case) -> float:
    return float(run(case).total_ms)


def faster(case: Case, figure: str, factor: float) -> Case:
    """The same step on a GPU with one figure multiplied; all number formats of arithmetic go together."""
    figures = ("fp16_tflops", "fp8_tflops", "fp4_tflops") if figure == "tflops" else (figure,)
    return replace(case, spec=replace(case.spec, **{f: getattr(case.spec, f) * factor for f in figures}))


@given(case=cases())
def test_time_is_positive_and_finite(case: Case) -> None:
    cost = run(case)
    assert 0 < float(cost.total_ms) < float("inf")
    for part in cost.parts:
        values = [float(v) for v in (part.compute_ms, part.memory_ms, part.network_ms, part.latency_ms)]
        assert all(0 <= v < float("inf") for v in values), part.name


@given(case=cases())
def test_parts_add_up_to_the_total_and_what_is_hidden(case: Case) -> None:
    case = replace(case, pp=1)
    cost = run(case)
    longer = waiting(case.spec, case.phase, case.dp, settings=case.settings)
    assert sum(float(part.ms) for part in cost.parts) == pytest.approx(
        float(cost.total_ms) * case.gained / longer + float(cost.hidden_ms)
    )
    talking = sum(float(part.ms) for part in cost.parts if part.name in ("dispatch", "combine"))
    assert 0 <= float(cost.hidden_ms) <= talking


@given(case=cases(), more=st.integers(1, 20_000))
def test_time_grows_with_length(case: Case, more: int) -> None:
    longer, twice = replace(case, length=case.length + more), replace(case, length=2 * case.length)
    assert ms(longer) > ms(case) * (1 - DIP)
    assert ms(twice) > ms(case) * (1 - DIP)


@given(case=cases(), times=st.integers(2, 8))
def test_time_grows_with_batch_but_never_faster_than_it(case: Case, times: int) -> None:
    """Fixed costs and weights are shared by all."""
    one, more = ms(case), ms(replace(case, batch=times * case.batch))
    assert one < more < times * one


@given(case=cases(), more=st.floats(0.01, 0.09))
def test_cached_tokens_save_time(case: Case, more: float) -> None:
    case = replace(case, phase=Phase.PREFILL, length=max(case.length, 100), batch=1, pp=1)
    assert ms(replace(case, cached=case.cached + more)) < ms(case) * (1 + DIP)


@given(case=cases(), figure=st.sampled_from([*BANDWIDTHS, "tflops"]), factor=st.floats(1.01, 10))
def test_a_faster_gpu_is_never_slower_and_never_more_than_it_is_faster(case: Case, figure: str, factor: float) -> None:
    slow, fast = ms(case), ms(faster(case, figure, factor))
    assert slow / factor * (1 - DIP) <= fast <= slow * (1 + DIP)


@given(case=cases())
def test_twice_as_fast_in_everything_is_no_more_than_twice_as_fast(case: Case) -> None:
    fast = case
    for figure in (*BANDWIDTHS, "tflops"):
        fast = faster(fast, figure, 2)
    assert ms(case) / 2 < ms(fast) < ms(case)  # latencies stay


@given(case=cases())
def test_no_step_beats_the_roofline(case: Case) -> None:
    """Data-sheet FLOP/s and bandwidth, no efficiency factor; drafted tokens count as far as they are accepted."""
    took = ms(case) * case.gained
    assert took > least_compute_ms(case)
    assert took > least_memory_ms(case)


@given(case=cases())
def test_no_part_beats_its_limit(case: Case) -> None:
    columns = Steps.at(case.phase, case.tp, case.dp, case.pp, length=case.length, batch=case.batch, cached=case.cached)
    least = step_limit(CostContext(gpu=case.spec, model=case.shape, settings=case.settings), columns)
    cost = run(case)
    assert float(least.total_ms) < float(cost.total_ms)
    for part, limit in zip(cost.parts, least.parts, strict=True):
        assert float(limit_ms(limit)) <= float(part.ms), part.name


@given(
    name=st.sampled_from(GPU_NAMES),
    shape=st.sampled_from(MODELS),
    size=st.sampled_from([4, 8, 16, 32, 72, 128]),
    s=st.integers(64, 16_000),
    answer=st.integers(1, 1000),
    tokens=st.sampled_from([4096, 16384]),
)
def test_no_island_beats_its_arithmetic(name: str, shape: str, size: int, s: int, answer: int, tokens: int) -> None:
    """Tokens per second and GPU stay below FLOP/s over two per active parameter, at the fastest rate it may use."""
    spec, served = gpu(name), model(shape)
    load = workload((s,), mean_output_tokens=answer, max_output_tokens=answer)
    row = tabulate(spec, size, model=served, workload=load, settings=CostSettings(max_tokens_per_step=tokens))
    least = min(served.weight_bytes, served.expert_bytes)
    fastest = spec.fp16_tflops if least > 1 else max(spec.fp8_tflops, spec.fp16_tflops)
    roof = max(fastest, spec.fp4_tflops if least < 0.6 else 0) * 1e12 / (2 * body_parameters(shape))
    assert row.prefill.rates_rps[0] * s / size < roof
    assert row.decode.rates_rps[0] * answer / size < roof


def body_parameters(name: str) -> int:
    """Weights that a token meets, without router, embedding and head."""
    m = model(name)
    visited = m.experts.active + m.experts.shared if m.experts else 0
    return m.attention_parameters + m.dense_ffn_parameters + m.moe_layers * visited * m.expert_parameters


@given(
    name=st.sampled_from(GPU_NAMES),
    shape=st.sampled_from(MODELS),
    s=st.integers(1, 60_000),
    answer=st.integers(0, 4000),
    more=st.integers(1, 9000),
    tp=st.sampled_from([1, 2, 4, 8]),
    held=st.integers(2, 33),
)
def test_largest_batch_shrinks_with_length(
    name: str, shape: str, s: int, answer: int, more: int, tp: int, held: int
) -> None:
    held = held if model(shape).experts else 0
    one, longer_prompt, longer_answer = (
        float(max_batch_size(name, prompt, out, tp=tp, experts_on_device=held, model=shape))
        for prompt, out in ((s, answer), (s + more, answer), (s, answer + more))
    )
    if one > 0:
        tokens = np.array([s + answer, s + answer + more])
        shorter, longer = reserved_bytes(model(shape), tokens, np.array(tp))
        assert 0 < longer_prompt <= one
        assert (longer_prompt < one) == (longer > shorter)  # within a block of states all are alike
        assert longer_answer == pytest.approx(longer_prompt)
    else:
        assert (one, longer_prompt) == (0, 0)  # weights that do not fit fit no better for longer prompts


@pytest.mark.parametrize("phase", PHASES)
@given(name=st.sampled_from(GPU_NAMES), shape=st.sampled_from(MODELS), size=st.integers(1, 320))
def test_the_islands_gpus_hold_the_whole_model(phase: Phase, name: str, shape: str, size: int) -> None:
    served, settings = model(shape), CostSettings()
    for config in configurations(CostContext(gpu=gpu(name), model=served, settings=settings), size):
        held = experts_on_device(served, settings, config.stage_devices)
        a_gpu = float(weights_gb(served, tp=config.tp, experts_on_device=held, pp=config.pp))
        assert a_gpu * size >= served.weights_gb * config.replicas * (1 - DIP)


def roomy(name: str, shape: str, *, sequences: int, tokens: int) -> dict[str, int] | None:
    """The fewest GPUs, four to a group, that hold so many sequences: spread experts, or stages of a dense model.

    None where 252 are too few: what every GPU of a group holds itself, an expert of each layer among it, fills cards
    of 24 GB.
    """
    served = model(shape)
    for parts in range(1, 64):
        devices, pp = (4 * parts, 1) if served.experts else (4, parts)
        held = experts_on_device(served, CostSettings(), devices)
        if float(max_batch_size(name, tokens, 0, tp=4, experts_on_device=held, pp=pp, model=shape)) < sequences:
            continue
        with suppress(InfeasibleError):  # prefill keeps the buffers of a full step free besides
            prefill_time(name, tokens, tp=4, dp=devices // 4, pp=pp, model=shape)
            return {"devices": devices, "pp": pp}
    return None


@pytest.mark.parametrize("name", GPU_NAMES)
def test_every_shipped_model_on_every_shipped_gpu(name: str) -> None:
    refused = [shape for shape in MODELS if not is_served_or_refused(name, shape)]
    # experts or wide layers in 16 bits, of which one GPU of 64 x 4 holds too many
    assert len(refused) <= {24: 14, 48: 1}.get(round(gpu(name).memory_gb), 0), refused


def is_served_or_refused(name: str, shape: str) -> bool:
    """Whether it is served; a model that is not must be refused by name."""
    served = model(shape)
    lengths = np.array([1, 100, 5000, 30_000])
    degrees = roomy(name, shape, sequences=4, tokens=30_001)
    if degrees is None:
        devices = min(64, served.routed_experts or 64)
        with pytest.raises(InfeasibleError, match=f"must fit on {devices} {name}"):
            decode_time(name, lengths, tp=4, batch_size=4, devices=devices, model=shape)
        return False
    prefill = prefill_time(name, lengths, tp=4, dp=degrees["devices"] // 4, pp=degrees["pp"], model=shape)
    decode = decode_time(name, lengths, tp=4, batch_size=4, model=shape, **degrees)
    for times in (prefill.total_ms, decode.total_ms):
        assert times.shape == (4,)
        assert np.all(np.isfinite(times) & (times > 0))
        assert np.all(np.diff(times) > 0)
    row = tabulate(gpu(name), 16, model=served, workload=workload(), settings=CostSettings())
    for half in (row.prefill, row.decode):
        assert half.serves or half.reason
        assert half.parallel is None or half.parallel.size == 16
        assert all(np.isfinite(half.rates_rps)) and min(half.rates_rps) >= 0  # noqa: PT018
    return True
