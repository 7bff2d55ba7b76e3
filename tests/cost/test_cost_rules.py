"""Every switch between Shallowsim's behaviour and the mended one: what it changes, which way, and by how much.

Expected values are worked out here from the facts on the cost model; only the switches are the package's.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from cost_figures import (
    ACTIVE,
    DENSE_PARAMETERS,
    EXPERTS,
    HEADS,
    HIDDEN,
    KV_WIDTH,
    LAYERS,
    MI,
    NOPE,
    ROPE,
    VALUE,
    derated,
    expert_gflop,
    expert_load_ms,
    gpu,
    message_ms,
    model,
    prefill_rate,
    projection_macs,
    score_macs,
)
from cost_workloads import workload

from planner.cost import max_batch_size
from planner.cost.decode import DecodeTime, decode_step
from planner.cost.efficiency import expert_efficiency
from planner.cost.parallelism import configurations
from planner.cost.prefill import PrefillTime, prefill_step
from planner.cost.rates import decode_rates
from planner.cost.rules import DEFAULT, REFERENCE, Rules, rules_of
from planner.domain import CostMode, ModelSpec, Phase

FP4_MODEL = replace(model(), weight_bytes=0.5)


def prefill(
    name: str,
    rules: Rules,
    *,
    seq_len: float = 4096,
    tp: int = 1,
    dp: int = 8,
    shape: ModelSpec | None = None,
    **more: Any,
) -> PrefillTime:
    return prefill_step(gpu(name), shape or model(), rules, seq_len=seq_len, tp=tp, dp=dp, **more)


def decode(
    name: str, rules: Rules, *, batch_size: float = 128, tp: int = 1, devices: int = 64, shape: ModelSpec | None = None
) -> DecodeTime:
    return decode_step(gpu(name), shape or model(), rules, seq_len=4096, tp=tp, batch_size=batch_size, devices=devices)


def unchanged(one: PrefillTime | DecodeTime, other: PrefillTime | DecodeTime, *names: str) -> None:
    """The named times are the same in both."""
    for name in names:
        assert float(getattr(one, name)) == pytest.approx(float(getattr(other, name)), rel=1e-12), name


def test_modes_are_all_switches_on_and_all_off() -> None:
    assert all(getattr(rules_of(CostMode.REFERENCE), f.name) for f in fields(Rules))
    assert not any(getattr(rules_of(CostMode.DEFAULT), f.name) for f in fields(Rules))


class TestH20BySubstring:
    """128 sequences a GPU on 64 GPUs: 64 x 8 / 4 = 128 tokens an expert, taken at 256: 0.4, or 1.0 as an H20."""

    def routed(self, efficiency: float) -> float:
        flops = expert_gflop(64 * ACTIVE) / (derated(1979) * efficiency)
        return 2 * (flops + expert_load_ms(4800) * 4)

    def test_the_h200_gets_the_h20s_curve(self) -> None:
        listed, mended = decode("H200", REFERENCE), decode("H200", replace(REFERENCE, h20_by_substring=False))
        assert float(listed.routed_ms) == pytest.approx(self.routed(1.0))
        assert float(mended.routed_ms) == pytest.approx(self.routed(0.4))
        assert mended.total_ms > listed.total_ms
        unchanged(listed, mended, "attention_ms", "dense_ms", "dispatch_ms", "combine_ms")

    @pytest.mark.parametrize("name", ["H20", "H20-3E", "H800", "MI300X"])
    def test_no_other_gpu_changes(self, name: str) -> None:
        unchanged(decode(name, REFERENCE), decode(name, replace(REFERENCE, h20_by_substring=False)), "total_ms")

    def test_in_default_mode_too(self) -> None:
        assert decode("H200", DEFAULT).routed_ms > decode("H200", replace(DEFAULT, h20_by_substring=True)).routed_ms


class TestDispatchAlwaysHalved:
    def test_without_it_dispatch_doubles_but_for_its_latency(self) -> None:
        listed, mended = prefill("H800", REFERENCE), prefill("H800", replace(REFERENCE, dispatch_always_halved=False))
        assert float(listed.dispatch_ms) == pytest.approx(message_ms(4096, 3, 50) / 2 + 0.05)
        assert float(mended.dispatch_ms) == pytest.approx(message_ms(4096, 3, 50) + 0.05)
        unchanged(listed, mended, "combine_ms", "compute_ms")
        assert mended.comm_ms > listed.comm_ms

    def test_fp4_weights_are_sent_as_fp4_either_way(self) -> None:
        sent = prefill("DGX-B200", DEFAULT, shape=FP4_MODEL)
        unchanged(sent, prefill("DGX-B200", replace(DEFAULT, dispatch_always_halved=True), shape=FP4_MODEL), "total_ms")
        whole = prefill("DGX-B200", DEFAULT)
        assert float(sent.dispatch_ms - 0.05) == pytest.approx(float(whole.dispatch_ms - 0.05) / 2)


class TestBatchPerGpu:
    """Shallowsim's attention divides by tp the batch that its experts take as per GPU."""

    MENDED = replace(REFERENCE, batch_per_gpu=False)

    def test_a_group_of_four_carries_four_gpus_sequences(self) -> None:
        listed, mended = decode("H800", REFERENCE, tp=4), decode("H800", self.MENDED, tp=4, batch_size=4 * 128)
        unchanged(listed, mended, "shared_ms", "routed_ms", "dispatch_ms", "combine_ms")
        assert mended.attention_ms > 2 * listed.attention_ms
        assert mended.total_ms > listed.total_ms

    def test_attention_by_hand(self) -> None:
        batch, tp, memory = 128, 4, derated(4000)
        alone = float(decode("H800", REFERENCE, tp=1, batch_size=batch).attention_ms)
        read = 4096 * KV_WIDTH * batch / 1024**3 / memory * 1000
        work, activations = alone - 0.05 - read, batch * HIDDEN * 2 / MI / derated(200)
        listed = work / tp + activations + 0.015 + 0.05 + read
        ring = work / tp + activations * 2 * (tp - 1) / tp + 0.015 + 0.05 + read
        assert float(decode("H800", REFERENCE, tp=tp, batch_size=batch).attention_ms) == pytest.approx(listed)
        assert float(decode("H800", self.MENDED, tp=tp, batch_size=batch).attention_ms) == pytest.approx(ring)

    def test_dense_layers_are_split_as_the_others(self) -> None:
        listed, mended = decode("H800", REFERENCE, tp=4), decode("H800", self.MENDED, tp=4)
        assert float(mended.dense_ms) == pytest.approx(float(listed.dense_ms) / 4)
        assert float(mended.dense_attention_ms) == pytest.approx(float(mended.attention_ms))

    def test_without_tensor_parallelism_only_the_dense_layers_overhead_comes_in(self) -> None:
        listed, mended = decode("H800", REFERENCE), decode("H800", self.MENDED)
        assert float(mended.total_ms - listed.total_ms) == pytest.approx(3 * 0.05)


class TestFp4AttentionForFree:
    def test_without_it_fp4_gpus_pay_kernel_efficiency_and_weights(self) -> None:
        spec, s = gpu("DGX-B200"), 4096
        listed = prefill(spec.name, REFERENCE)
        mended = prefill(spec.name, replace(REFERENCE, fp4_attention_for_free=False))
        gemm = 2 * projection_macs(s, queries=s, fresh=s) / 1e9 / prefill_rate(9000, spec)
        scores = 2 * score_macs(s * s, queries=s) / 1e9 / prefill_rate(2250, spec) / 0.7
        weights = model().attention.parameters(HIDDEN) / MI / derated(8000)
        assert float(listed.dense_attention_ms) == pytest.approx(gemm + scores)
        assert float(mended.dense_attention_ms) == pytest.approx(gemm / 0.7 + scores + weights)
        unchanged(listed, mended, "shared_ms", "routed_ms", "dense_ms", "dispatch_ms")

    def test_other_gpus_do_not_change(self) -> None:
        mended = replace(REFERENCE, fp4_attention_for_free=False)
        unchanged(prefill("H800", REFERENCE), prefill("H800", mended), "total_ms")
        unchanged(decode("H800", REFERENCE), decode("H800", mended), "total_ms")

    def test_default_mode_minds_it_for_fp4_weights_only(self) -> None:
        free = replace(DEFAULT, fp4_attention_for_free=True)
        unchanged(prefill("DGX-B200", DEFAULT), prefill("DGX-B200", free), "total_ms")
        paid = prefill("DGX-B200", DEFAULT, shape=FP4_MODEL)
        assert prefill("DGX-B200", free, shape=FP4_MODEL).attention_ms < paid.attention_ms


class TestSteppedEfficiency:
    POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    GENERAL = (0.05, 0.05, 0.05, 0.05, 0.08, 0.1, 0.2, 0.35, 0.4, 0.6, 0.7)
    H20 = (0.06, 0.06, 0.06, 0.12, 0.25, 0.45, 0.8, 0.9, 1.0, 1.0, 1.0)

    @pytest.mark.parametrize(("name", "curve"), [("H800", GENERAL), ("H20", H20)])
    def test_steps_take_the_next_power_strictly_above(self, name: str, curve: tuple[float, ...]) -> None:
        tokens = (*range(0, 140), 255, 256, 511, 512, 1023, 1024, 5000)
        above = [next((k for k, power in enumerate(self.POWERS) if power > m), len(curve) - 1) for m in tokens]
        for fraction in (0, 0.9):
            found = expert_efficiency(gpu(name), REFERENCE, np.array(tokens) + fraction)
            assert found.tolist() == [curve[k] for k in above]

    @pytest.mark.parametrize(("name", "curve"), [("H800", GENERAL), ("H20", H20)])
    def test_mended_form_passes_through_the_table_and_between(self, name: str, curve: tuple[float, ...]) -> None:
        """Time per expert, m / eta, is a straight line between the table's points."""
        points, middle = np.array(self.POWERS), np.array(self.POWERS[:-1]) * 1.5
        times = points / expert_efficiency(gpu(name), DEFAULT, points)
        listed = points / np.array(curve)
        assert times == pytest.approx(np.maximum.accumulate(listed))
        assert (times == pytest.approx(listed)) == (name == "H800")  # the H20's 16 would be faster than its 8
        assert middle / expert_efficiency(gpu(name), DEFAULT, middle) == pytest.approx((times[1:] + times[:-1]) / 2)
        assert float(expert_efficiency(gpu(name), DEFAULT, 0)) == curve[0]
        assert float(expert_efficiency(gpu(name), DEFAULT, 1e6)) == curve[-1]

    def test_no_jump_where_the_steps_have_one(self) -> None:
        spec = gpu("H800")
        stepped = [float(expert_efficiency(spec, REFERENCE, m)) for m in (127, 128)]
        smooth = [float(expert_efficiency(spec, DEFAULT, m)) for m in (127, 128)]
        assert stepped[1] / stepped[0] == pytest.approx(0.4 / 0.35)
        assert 1 < smooth[1] / smooth[0] < 1.01

    def test_decode_experts_each_at_their_own_load(self) -> None:
        smooth = replace(REFERENCE, stepped_efficiency=False)
        found, rate, load = decode("H800", smooth), derated(1979), expert_load_ms(4000)
        assert float(found.routed_ms) == pytest.approx(2 * (expert_gflop(64 * ACTIVE) / (rate * 0.35) + load * 4))
        assert float(found.shared_ms) == pytest.approx(2 * (expert_gflop(64) / (rate * 0.2) + load))
        unchanged(found, decode("H800", REFERENCE), "attention_ms", "dense_ms", "dispatch_ms")


class TestFourNodesAlways:
    """Prefill all-to-all: Shallowsim sends three copies over the NIC however many nodes there are."""

    MENDED = replace(REFERENCE, four_nodes_always=False, dispatch_always_halved=False)
    LISTED = replace(REFERENCE, dispatch_always_halved=False)

    def test_one_node_stays_on_nvlink(self) -> None:
        assert float(prefill("H800", self.LISTED, dp=8).dispatch_ms) == pytest.approx(message_ms(4096, 3, 50) + 0.05)
        inside = message_ms(4096, ACTIVE * 7 / 8, 200) + 0.05
        assert float(prefill("H800", self.MENDED, dp=8).dispatch_ms) == pytest.approx(inside)

    def test_one_gpu_sends_nothing(self) -> None:
        found = prefill("H800", self.MENDED, dp=1)
        assert (float(found.dispatch_ms), float(found.combine_ms)) == pytest.approx((0.05, 0.05))

    def test_four_nodes_agree_with_shallowsim(self) -> None:
        unchanged(prefill("H800", self.LISTED, dp=32), prefill("H800", self.MENDED, dp=32), "total_ms", "comm_ms")

    def test_two_nodes_send_one_copy(self) -> None:
        found = prefill("H800", self.MENDED, dp=16, tp=1)
        assert float(found.dispatch_ms) == pytest.approx(
            max(message_ms(4096, 1, 50), message_ms(4096, 7.5, 200)) + 0.05
        )

    def test_a_token_visits_four_nodes_at_most(self) -> None:
        """Of eight nodes it is sent to four, its own among them in one case of eight."""
        found = prefill("H800", self.MENDED, dp=64)
        assert float(found.dispatch_ms) == pytest.approx(message_ms(4096, 4 * 7 / 8, 50) + 0.05)

    def test_decode_sends_every_copy_where_its_expert_is(self) -> None:
        near, far = decode("H800", self.MENDED, devices=8), decode("H800", self.MENDED, devices=64)
        assert float(near.dispatch_ms) == pytest.approx(message_ms(128, ACTIVE, 200) + 0.01)
        assert float(far.dispatch_ms) == pytest.approx(message_ms(128, ACTIVE * 7 / 8, 50) + 0.01)
        assert float(decode("H800", REFERENCE, devices=64).dispatch_ms) == pytest.approx(
            message_ms(128, ACTIVE, 50) + 0.01
        )

    def test_a_rack_wide_domain_needs_no_nic(self) -> None:
        found = decode("GB200-NVL72", replace(DEFAULT, four_nodes_always=False), devices=72)
        assert float(found.dispatch_ms) == pytest.approx(message_ms(128, ACTIVE, 900) + 0.01)

    def test_a_gpu_holds_whole_experts(self) -> None:
        listed, mended = prefill("H800", self.LISTED, dp=96), prefill("H800", self.MENDED, dp=96)
        gained = (3 - EXPERTS / 96) * expert_load_ms(4000)
        assert float(mended.routed_ms - listed.routed_ms) == pytest.approx(gained)


class TestCacheHitOnKvOnly:
    MENDED = replace(REFERENCE, cache_hit_on_kv_only=False)

    def test_attention_by_hand(self) -> None:
        spec, s, q = gpu("H800"), 4096, 2048
        weights = model().attention.parameters(HIDDEN) / MI / derated(4000)
        for rules, queries in ((REFERENCE, s), (self.MENDED, q)):
            gemm = 2 * projection_macs(s, queries=queries, fresh=q) / 1e9 / prefill_rate(1979, spec) / 0.7
            scores = 2 * score_macs(queries * s, queries=queries) / 1e9 / prefill_rate(989, spec) / 0.7
            found = prefill("H800", rules, kv_cache_rate=0.5)
            assert float(found.dense_attention_ms) == pytest.approx(gemm + scores + weights)

    def test_experts_and_messages_see_the_fresh_tokens_only(self) -> None:
        hit, short = prefill("H800", self.MENDED, kv_cache_rate=0.5), prefill("H800", self.MENDED, seq_len=2048)
        unchanged(hit, short, "shared_ms", "routed_ms", "dense_ms", "dispatch_ms", "combine_ms")
        assert hit.attention_ms > short.attention_ms

    def test_without_hits_there_is_no_difference(self) -> None:
        unchanged(prefill("H800", REFERENCE), prefill("H800", self.MENDED), "total_ms", "comm_ms")


class TestFullSquareAttention:
    @pytest.mark.parametrize(("rate", "queries"), [(0.0, 4096), (0.75, 1024)])
    def test_masked_positions_are_not_counted(self, rate: float, queries: int) -> None:
        full, s = replace(DEFAULT, full_square_attention=True), 4096
        masked = queries * (queries - 1) // 2
        saved = 2 * HEADS * masked * (ROPE + NOPE + VALUE) / 1e9 / prefill_rate(989, gpu("H800")) / 0.7
        one = prefill("H800", DEFAULT, kv_cache_rate=rate, seq_len=s)
        other = prefill("H800", full, kv_cache_rate=rate, seq_len=s)
        assert float(other.attention_ms - one.attention_ms) == pytest.approx(saved)
        unchanged(one, other, "shared_ms", "routed_ms", "dense_ms", "dispatch_ms")


class TestListedMemoryBandwidth:
    def test_the_h800_reads_slower_than_listed(self) -> None:
        listed, mended = decode("H800", REFERENCE), decode("H800", replace(REFERENCE, listed_memory_bandwidth=False))
        moved = 2 * 4 * (expert_load_ms(3350) - expert_load_ms(4000))
        assert float(mended.routed_ms - listed.routed_ms) == pytest.approx(moved)
        read = 4096 * KV_WIDTH * 128 / 1024**3 * 1000 + model().attention.parameters(HIDDEN) / MI
        assert float(mended.attention_ms - listed.attention_ms) == pytest.approx(
            read / derated(3350) - read / derated(4000)
        )
        assert mended.total_ms > listed.total_ms

    def test_the_h200s_figure_is_the_same_in_both(self) -> None:
        mended = replace(REFERENCE, listed_memory_bandwidth=False)
        unchanged(decode("H200", REFERENCE), decode("H200", mended), "total_ms")


class TestFp4WhereverSupported:
    """FP8 weights on an FP4 device: Shallowsim computes in FP4 and loads half of each expert."""

    def test_dense_layer_at_the_fp8_rate(self) -> None:
        spec, fp4 = gpu("DGX-B200"), replace(DEFAULT, fp4_wherever_supported=True)
        load, gflop = DENSE_PARAMETERS / MI / derated(8000), 2 * 4096 * DENSE_PARAMETERS / 1e9
        assert float(prefill(spec.name, fp4).dense_ms) == pytest.approx(gflop / prefill_rate(9000, spec) + load)
        assert float(prefill(spec.name, DEFAULT).dense_ms) == pytest.approx(gflop / prefill_rate(4500, spec) + load)

    def test_decode_loads_whole_experts(self) -> None:
        fp4 = replace(DEFAULT, fp4_wherever_supported=True)
        flops = expert_gflop(64 * ACTIVE) / 0.35
        listed, mended = decode("DGX-B200", fp4), decode("DGX-B200", DEFAULT)
        assert float(listed.routed_ms) == pytest.approx(2 * (flops / derated(9000) + 4 * expert_load_ms(8000) / 2))
        assert float(mended.routed_ms) == pytest.approx(2 * (flops / derated(4500) + 4 * expert_load_ms(8000)))

    def test_fp4_weights_are_computed_in_fp4(self) -> None:
        found = decode("DGX-B200", DEFAULT, shape=FP4_MODEL)
        flops = expert_gflop(64 * ACTIVE) / 0.35 / derated(9000)
        assert float(found.routed_ms) == pytest.approx(2 * (flops + 4 * expert_load_ms(8000, weight_bytes=0.5)))

    def test_fp4_weights_are_half_as_long_on_their_way(self) -> None:
        spec = gpu("H800")  # no FP4 arithmetic: the rate stays that of FP8
        one, other = (float(prefill(spec.name, DEFAULT, shape=shape).dense_ms) for shape in (model(), FP4_MODEL))
        assert one - other == pytest.approx(DENSE_PARAMETERS / 2 / MI / derated(3350))

    def test_gpus_without_fp4_do_not_change(self) -> None:
        unchanged(decode("H800", DEFAULT), decode("H800", replace(DEFAULT, fp4_wherever_supported=True)), "total_ms")


class TestPeakPrefillExperts:
    def test_expert_gemms_reach_what_the_curve_gives(self) -> None:
        peak, spec = replace(DEFAULT, peak_prefill_experts=True), gpu("H800")
        rate, load = prefill_rate(1979, spec), expert_load_ms(3350)
        listed, mended = prefill("H800", peak, dp=32), prefill("H800", DEFAULT, dp=32)
        assert float(listed.shared_ms) == pytest.approx(expert_gflop(4096) / rate + load)
        assert float(mended.shared_ms) == pytest.approx(expert_gflop(4096) / rate / 0.7 + load)
        assert float(listed.routed_ms) == pytest.approx(expert_gflop(4096 * ACTIVE) / rate + load * 8)
        assert float(mended.routed_ms) == pytest.approx(expert_gflop(4096 * ACTIVE) / rate / 0.7 + load * 8)
        unchanged(listed, mended, "attention_ms", "dispatch_ms", "combine_ms")

    def test_few_tokens_an_expert_cost_more(self) -> None:
        found = prefill("H800", DEFAULT, seq_len=64, dp=8)
        flops = expert_gflop(64 * ACTIVE) / prefill_rate(1979, gpu("H800"))
        assert 64 * ACTIVE / 32 == 16  # tokens of an expert, where the curve stands at 0.08
        assert float(found.routed_ms) == pytest.approx(flops / 0.08 + expert_load_ms(3350) * 32)


def test_figures_of_this_file_are_the_models() -> None:
    assert (model().layers, model().experts.routed, model().hidden_size) == (LAYERS, EXPERTS, HIDDEN)


class TestMemoryAtMidpoint:
    """What fits is asked for the longest prompt of a range; Shallowsim's users asked for its middle."""

    def test_a_full_batch_of_the_longest_prompts_fits(self) -> None:
        spec, length = gpu("H20"), 40_000
        wide = replace(workload([20_000]).ranges[0], start=0, end=40_001, midpoint=20_000, longest_input_tokens=length)
        cut = replace(workload([20_000]), ranges=(wide,))
        configs = configurations(spec, model(), DEFAULT, Phase.DECODE, 16)
        mended = decode_rates(spec, model(), DEFAULT, cut, configs).batch_sizes
        listed = decode_rates(spec, model(), replace(DEFAULT, memory_at_midpoint=True), cut, configs).batch_sizes
        assert (mended <= listed).all()
        assert (mended < listed).any()
        for config, batch in zip(configs, mended[:, 0], strict=True):
            held = -(-256 // config.devices) + 1
            most = max_batch_size(spec, length, cut.max_output_tokens, tp=config.tp, experts_on_device=held)
            assert batch <= max(0.0, float(most))
