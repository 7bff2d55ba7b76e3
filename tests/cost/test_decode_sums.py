"""The answer's token times: a few quadrature points stand for the exact sum.

By default TPOT is linear in the cached length but for one kink, where computation begins to hide all communication.
"""

import numpy as np
import pytest
from cost_figures import gpu, model
from cost_workloads import workload
from hypothesis import given
from hypothesis import strategies as st

from planner.cost import decode_time, tabulate
from planner.domain import CostMode, CostSettings, PhasePerformance

GPUS = ("H200", "H800", "H20", "MI300X", "DGX-B200", "GB200-NVL72")


def exact_rate(
    name: str, performance: PhasePerformance, prompt: int, answer: int, mode: CostMode, groups: int
) -> float:
    """groups x batch x 1000 / the sum of every token's time."""
    degrees = performance.parallel
    batch = performance.batch_sizes[0]
    cached = prompt + np.arange(answer)
    tokens = decode_time(name, cached, tp=degrees.tp, batch_size=batch, devices=degrees.devices, mode=mode).total_ms
    return groups * batch * 1000 / float(tokens.sum())


@given(
    name=st.sampled_from(GPUS),
    size=st.integers(8, 160),
    prompt=st.integers(2, 30_000),
    answer=st.integers(1, 6000),
)
def test_default_mode_within_a_thousandth(name: str, size: int, prompt: int, answer: int) -> None:
    load = workload((prompt,), mean_output_tokens=answer, max_output_tokens=answer)
    found = tabulate(gpu(name), size, model=model(), workload=load, settings=CostSettings()).decode
    if found.parallel is None:
        return
    groups = found.parallel.replicas * found.parallel.dp
    assert found.rates_rps[0] == pytest.approx(
        exact_rate(name, found, prompt, answer, CostMode.DEFAULT, groups), rel=1e-3
    )
    assert found.rates_rps[0] == pytest.approx(groups * found.batch_sizes[0] * 1000 / (found.step_ms[0] * answer))


@given(
    name=st.sampled_from(GPUS),
    size=st.integers(8, 96),
    prompt=st.integers(2, 30_000),
    answer=st.integers(1, 3000),
)
def test_reference_mode_sums_short_answers_exactly(name: str, size: int, prompt: int, answer: int) -> None:
    load = workload((prompt,), mean_output_tokens=answer, max_output_tokens=answer)
    mode = CostMode.REFERENCE
    found = tabulate(gpu(name), size, model=model(), workload=load, settings=CostSettings(mode=mode)).decode
    if found.parallel is None:
        return
    exact = exact_rate(name, found, prompt, answer, mode, found.parallel.replicas)
    assert found.rates_rps[0] == pytest.approx(exact, rel=1e-9 if answer <= 512 else 1e-3)


@pytest.mark.parametrize(("mean", "counted"), [(27.88, 28), (0.3, 1), (211.4, 211)])
def test_reference_mode_counts_whole_tokens_and_default_mode_does_not(mean: float, counted: int) -> None:
    load = workload((1000,), mean_output_tokens=mean)
    reference, default = (
        tabulate(gpu("H20"), 32, model=model(), workload=load, settings=CostSettings(mode=mode)).decode
        for mode in (CostMode.REFERENCE, CostMode.DEFAULT)
    )
    for found, tokens in ((reference, counted), (default, max(1.0, mean))):
        assert found.parallel is not None
        groups = found.parallel.replicas * (1 if found is reference else found.parallel.dp)
        assert found.rates_rps[0] == pytest.approx(groups * found.batch_sizes[0] * 1000 / (tokens * found.step_ms[0]))
