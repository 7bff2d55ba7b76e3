"""What fits: weights and KV of every GPU, the largest batch, the smallest island."""

from dataclasses import replace

import pytest
from cost_figures import (
    ACTIVE,
    ATTENTION_PARAMETERS,
    DENSE_LAYERS,
    DENSE_PARAMETERS,
    EMBEDDING_PARAMETERS,
    EXPERT_PARAMETERS,
    HIDDEN,
    KV_WIDTH,
    LAYERS,
    gpu,
    model,
)
from cost_workloads import workload

from planner.cost import max_batch_size, smallest_island, tabulate
from planner.cost.memory import max_batch
from planner.cost.rates import prefill_rates
from planner.cost.rules import DEFAULT, REFERENCE, Rules
from planner.domain import CostMode, CostSettings, ParallelConfig, Phase, PhasePerformance

DEFAULT_SETTINGS = CostSettings()
REFERENCE_SETTINGS = CostSettings(mode=CostMode.REFERENCE)
USABLE = 0.9


def weights_gb(tp: int, held: int) -> float:
    """One GPU's share of DeepSeek-V3: everything but the experts over tp, `held` experts whole."""
    split = LAYERS * ATTENTION_PARAMETERS + DENSE_LAYERS * DENSE_PARAMETERS + 2 * EMBEDDING_PARAMETERS
    return (split / tp + (LAYERS - DENSE_LAYERS) * held * EXPERT_PARAMETERS) / 1e9


def held_experts(degrees: ParallelConfig) -> int:
    """Routed experts of one GPU, and the shared one."""
    return -(-256 // degrees.devices) + 1


class TestLiteralMemorySizes:
    def listed(self, tp: int, held: int) -> float:
        free = 141 * USABLE - 2.91 - 187.17 * 61 / tp / 1024 - 44.05 * 58 * held / 1024
        return free * 1024**3 / (5000 * KV_WIDTH * LAYERS * tp)

    def mended(self, tp: int, held: int) -> float:
        free = 141 * USABLE - weights_gb(tp, held)
        buffers = HIDDEN * ACTIVE * 3 / tp / 1e9
        return free / (5000 * KV_WIDTH * LAYERS / 1e9 + buffers)

    @pytest.mark.parametrize(("tp", "held"), [(1, 5), (4, 9), (8, 33)])
    def test_both_by_hand(self, tp: int, held: int) -> None:
        for rules, expected in ((REFERENCE, self.listed), (DEFAULT, self.mended)):
            found = max_batch(gpu("H200"), model(), rules, seq_len=4000, decode_len=1000, tp=tp, experts_on_device=held)
            assert float(found) == pytest.approx(expected(tp, held))

    def test_a_smaller_model_leaves_more_room_only_in_the_mended_form(self) -> None:
        narrow = replace(model(), experts=replace(model().experts, ffn_size=1024))
        room = {
            (rules is DEFAULT, shape is narrow): float(
                max_batch(gpu("H200"), shape, rules, seq_len=4000, decode_len=0, tp=1, experts_on_device=33)
            )
            for rules in (DEFAULT, replace(DEFAULT, literal_memory_sizes=True))
            for shape in (model(), narrow)
        }
        assert room[True, True] > room[True, False]
        assert room[False, True] == room[False, False]

    def test_latent_kv_is_not_divided_by_tp(self) -> None:
        one, four = (
            float(max_batch_size("H200", 4000, 1000, tp=tp, experts_on_device=9, mode="default")) for tp in (1, 4)
        )
        assert one < four < 1.3 * one  # four GPUs of a group hold the same KV; only their weights shrink


class TestMemoryUnchecked:
    PAIR = (ParallelConfig(tp=1, dp=2), ParallelConfig(tp=2, dp=1))

    def rates(self, rules: Rules) -> list[list[float]]:
        settings, lengths = DEFAULT_SETTINGS, workload((1024, 4096))
        grid = prefill_rates(gpu("H200"), model(), rules, settings, lengths, list(self.PAIR))
        assert grid.rates_rps.shape == grid.step_ms.shape == (2, 2)
        return [[float(rate) for rate in row] for row in grid.rates_rps]

    def test_two_h200s_serve_only_unchecked(self) -> None:
        assert all(rate == 0 for row in self.rates(DEFAULT) for rate in row)
        assert all(rate > 0 for row in self.rates(replace(DEFAULT, memory_unchecked=True)) for rate in row)

    def test_unchecked_rate_is_one_prompt_a_step(self) -> None:
        rules, lengths = replace(DEFAULT, memory_unchecked=True), workload((1024, 4096))
        grid = prefill_rates(gpu("H200"), model(), rules, DEFAULT_SETTINGS, lengths, [ParallelConfig(tp=4, dp=8)])
        assert grid.rates_rps == pytest.approx(1000 / grid.step_ms)

    def test_checked_rate_counts_every_rank_and_prompt(self) -> None:
        settings, lengths = replace(DEFAULT_SETTINGS, max_tokens_per_step=8192), workload((1024, 4096))
        degrees = ParallelConfig(tp=4, dp=8)
        grid = prefill_rates(gpu("H200"), model(), DEFAULT, settings, lengths, [degrees])
        assert grid.batch_sizes.tolist() == [[8, 2]]  # 8192 tokens a step, and room for them
        assert grid.rates_rps == pytest.approx(8 * grid.batch_sizes * 1000 / grid.step_ms)


def of_two_h200s(settings: CostSettings) -> tuple[PhasePerformance, PhasePerformance]:
    row = tabulate(gpu("H200"), 2, model=model(), workload=workload(), settings=settings)
    return row.prefill, row.decode


def test_two_h200s_hold_no_model_and_say_so() -> None:
    for performance in of_two_h200s(DEFAULT_SETTINGS):
        assert not performance.serves
        assert performance.parallel is None
        assert performance.rates_rps == (0.0, 0.0, 0.0)
        assert "deepseek-v3 puts at least 338 GB of weights on each GPU" in performance.reason
        assert "one H200 offers 127 GB" in performance.reason
    assert min(weights_gb(tp, 129) for tp in (1, 2)) == pytest.approx(338, abs=0.5)


def test_reference_mode_prefills_on_two_h200s_all_the_same() -> None:
    prefill, decode = of_two_h200s(REFERENCE_SETTINGS)
    assert min(prefill.rates_rps) > 0
    assert not decode.serves
    assert "by the simulator's literals" in decode.reason


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("name", ["H200", "H20", "H800", "DGX-B200", "GB200-NVL72", "RubinU-NVL576"])
def test_smallest_island_serves_everything_and_nothing_smaller_does(name: str, phase: Phase) -> None:
    load = workload()

    def serves_all(size: int) -> bool:
        row = tabulate(gpu(name), size, model=model(), workload=load, settings=DEFAULT_SETTINGS)
        return min(row.phase(phase).rates_rps) > 0

    least = smallest_island(gpu(name), phase, model=model(), workload=load, settings=DEFAULT_SETTINGS)
    assert least is not None
    assert serves_all(least)
    assert not any(serves_all(size) for size in range(1, least))


def test_smallest_island_of_a_gpu_that_is_too_small_is_none() -> None:
    tiny = replace(gpu("H200"), memory_gb=5.0)  # one routed and one shared expert a layer alone take 5.1 GB
    settings = DEFAULT_SETTINGS
    assert smallest_island(tiny, Phase.DECODE, model=model(), workload=workload(), settings=settings) is None


@pytest.mark.parametrize("name", ["H200", "H20", "H800", "GB300-NVL72", "MI300X"])
@pytest.mark.parametrize("size", [8, 12, 16, 48, 72, 100])
def test_whatever_is_served_fits_beside_the_weights(name: str, size: int) -> None:
    load = workload((512, 7000), max_output_tokens=1000)
    row = tabulate(gpu(name), size, model=model(), workload=load, settings=DEFAULT_SETTINGS)
    for performance, extra in ((row.prefill, 0), (row.decode, 1000)):
        for batch, span in zip(performance.batch_sizes, load.ranges, strict=True):
            if performance.parallel is None or batch == 0:
                continue
            sequences = batch * (span.midpoint + extra)
            used = weights_gb(performance.parallel.tp, held_experts(performance.parallel))
            used += sequences * KV_WIDTH * LAYERS / 1e9
            assert used <= USABLE * gpu(name).memory_gb
