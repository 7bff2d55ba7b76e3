"""What does not fit is not timed: the refusal names the memory that is needed and there is, as the planner does."""

import re

import numpy as np
import pytest
from cost_figures import GPU_NAMES, gpu, model
from cost_workloads import workload
from hypothesis import given
from hypothesis import strategies as st

from planner.cost import decode_time, explain, max_batch_size, prefill_time, tabulate
from planner.cost.memory import experts_on_device
from planner.domain import CostSettings, Phase
from planner.errors import InfeasibleError

NAMED = re.compile(r"a GPU needs ([\d.]+) GB, ([\d.]+) of them weights, and offers ([\d.]+) GB")


def refusal(error: pytest.ExceptionInfo[InfeasibleError]) -> tuple[float, ...]:
    """Gigabytes: needed, of weights, offered."""
    named = NAMED.search(error.value.message)
    assert named, error.value.message
    assert error.value.hint
    return tuple(map(float, named.groups()))


def test_a_model_larger_than_its_gpu_is_not_timed() -> None:
    weights = model("deepseek-v3").weights_gb
    for call in (
        lambda: decode_time("H100", 4096, tp=1, batch_size=64, devices=1),
        lambda: prefill_time("H100", 4096, tp=1, dp=1),
        lambda: explain("H100", "deepseek-v3", Phase.DECODE, tp=1, devices=1, length=4096),
        lambda: explain("H100", "deepseek-v3", Phase.PREFILL, tp=1, devices=1, length=4096),
    ):
        with pytest.raises(InfeasibleError, match="must fit on 1 H100") as caught:
            call()
        needed, held, offered = refusal(caught)
        assert held == pytest.approx(weights, rel=1e-3)
        assert needed > held > 8 * offered
        assert 60 < offered < gpu("H100").memory_gb
    assert float(max_batch_size("H100", 4096, 0, tp=1, experts_on_device=257)) == 0
    assert (
        "GB of weights on each GPU"
        in tabulate(
            gpu("H100"), 1, model=model("deepseek-v3"), workload=workload(), settings=CostSettings()
        ).decode.reason
    )


def test_one_batch_too_large_among_many_is_named() -> None:
    assert decode_time("H20", 4096, tp=1, batch_size=[32, 128], devices=32).total_ms.shape == (2,)
    with pytest.raises(InfeasibleError, match="decode of 4000 x 4096 tokens must fit on 32 H20"):
        decode_time("H20", 4096, tp=1, batch_size=[32, 4000, 128], devices=32)
    with pytest.raises(InfeasibleError, match="prefill of 9000 x 4096 tokens must fit on 32 H20"):
        prefill_time("H20", 4096, tp=1, dp=32, prompts_per_rank=[1, 9000])
    with pytest.raises(InfeasibleError, match="decode of 4000 x 4096 tokens must fit on 32 H20") as caught:
        explain("H20", "deepseek-v3", Phase.DECODE, tp=1, devices=32, length=4096, batch=4000)
    needed, _, offered = refusal(caught)
    assert needed > offered


@given(
    name=st.sampled_from(GPU_NAMES),
    shape=st.sampled_from(["deepseek-v3", "qwen3-30b-a3b", "gpt-oss-120b", "llama-3.1-70b"]),
    parts=st.sampled_from([1, 2, 4, 8]),
    tp=st.sampled_from([1, 2, 4]),
    length=st.integers(1, 8000),
)
def test_what_fits_by_the_largest_batch_is_timed_and_one_more_is_not(
    name: str, shape: str, parts: int, tp: int, length: int
) -> None:
    experts = model(shape).experts is not None
    devices, pp = (tp * parts, 1) if experts else (tp, parts)
    held = experts_on_device(model(shape), CostSettings(), devices)
    most = float(max_batch_size(name, length, 0, tp=tp, experts_on_device=held, pp=pp, model=shape))
    fits = int(np.floor(most))
    degrees = {"tp": tp, "devices": devices, "pp": pp, "model": shape}
    if fits >= 1:
        assert float(decode_time(name, length, batch_size=fits, **degrees).total_ms) > 0
    with pytest.raises(InfeasibleError, match="must fit on"):
        decode_time(name, length, batch_size=fits + 1, **degrees)


def test_the_published_simulator_is_followed_whether_or_not_it_fits() -> None:
    assert float(decode_time("H100", 4096, tp=1, batch_size=64, devices=1, mode="reference").total_ms) > 0
    assert float(prefill_time("H100", 4096, tp=1, dp=1, mode="reference").total_ms) > 0
    assert float(max_batch_size("H100", 4096, 0, tp=1, experts_on_device=257, mode="reference")) < 0
