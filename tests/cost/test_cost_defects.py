"""The defects of Shallowsim, one class each: reference mode keeps the old number, the default model has the new one.

Both numbers are worked out here: the old ones from the published formulas, the new ones from first principles, with the
efficiency factors that the package has been fitted to. PLAIN settings: one micro-batch, every expert equally popular.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cost_figures import (
    ACTIVE,
    ATTENTION_PARAMETERS,
    DENSE_LAYERS,
    DENSE_PARAMETERS,
    EXPERT_PARAMETERS,
    HEAD_PARAMETERS,
    HEADS,
    HIDDEN,
    KV_RANK,
    KV_WIDTH,
    LAYERS,
    MI,
    MOE_LAYERS,
    NOPE,
    QUERY_RANK,
    ROPE,
    VALUE,
    cache_ms,
    compute,
    derated,
    expert_gflop,
    expert_load_ms,
    experts_ms,
    factors,
    gemm_ms,
    gpu,
    message_ms,
    model,
    prefill_rate,
    projection_macs,
    read_ms,
    score_macs,
    step,
)
from cost_workloads import workload

from planner.cost import DecodeTime, PrefillTime, decode_time, max_batch_size, prefill_time, tabulate
from planner.cost.layers.seam import causal_pairs
from planner.cost.reference.layers import efficiency as stepped_efficiency
from planner.domain import PHASES, CostMode, CostSettings, GpuSpec, Phase

PREFILL, DECODE = Phase.PREFILL, Phase.DECODE
EARLY = ((200, 0), (1000, 0), (300, 100))
PAIR_FLOPS = 2 * HEADS * (ROPE + NOPE + VALUE)  # of one query and key, scores and values


def old_prefill(spec: GpuSpec | str, s: float = 4096, *, tp: int = 1, dp: int = 8, hit: float = 0.0) -> PrefillTime:
    return prefill_time(spec, s, tp=tp, dp=dp, kv_cache_rate=hit, mode="reference")


def old_decode(spec: GpuSpec | str, *, batch: float = 128, tp: int = 1, devices: int = 64, **more: Any) -> DecodeTime:
    return decode_time(spec, 4096, tp=tp, batch_size=batch, devices=devices, mode="reference", **more)


class TestDefect1H20BySubstring:
    """The H20 has few FLOP/s and keeps them busy with few tokens; the H200 is an H100 with more memory.

    128 sequences a GPU on 64 GPUs: 64 x 8 / 4 = 128 tokens an expert and micro-batch, taken at 256: 0.4, an H20's 1.0.
    """

    @pytest.mark.parametrize(("name", "efficiency"), [("H200", 1.0), ("H20-3E", 1.0), ("H100", 0.4)])
    def test_old_names_decide(self, name: str, efficiency: float) -> None:
        spec = gpu(name)
        flops = expert_gflop(64 * ACTIVE) / (derated(spec.fp8_tflops) * efficiency)
        assert float(old_decode(spec).routed_ms) == pytest.approx(2 * (flops + 4 * expert_load_ms(spec.memory_gb_s)))
        disguised = replace(gpu("H100"), name="H20-like")
        assert float(old_decode(disguised).routed_ms) < float(old_decode("H100").routed_ms)

    def test_new_the_family_decides(self) -> None:
        spec = gpu("H200")
        assert factors(spec) == factors(gpu("H100")) != factors(gpu("H20"))
        found = step(spec, DECODE, length=4096, batch=4096, dp=64).part("routed experts")
        expected = experts_ms(4096 * ACTIVE, 4, 1979, spec, DECODE)
        assert float(found.compute_ms) == pytest.approx(MOE_LAYERS * expected, rel=1e-6)

    def test_new_a_name_changes_nothing(self) -> None:
        times = [
            float(decode_time(replace(gpu("H200"), name=name), 4096, tp=1, batch_size=128, devices=64).total_ms)
            for name in ("H200", "H20", "X")
        ]
        assert times == [times[0]] * 3


class TestDefect2DispatchHalved:
    """Activations go out in one byte an element and come back in two: combine is twice dispatch, not four times."""

    def test_old_half_of_what_was_meant(self) -> None:
        found = old_prefill("H800")
        assert float(found.dispatch_ms) == pytest.approx(message_ms(4096, 3, 50) / 2 + 0.05)
        assert float(found.combine_ms) == pytest.approx(2 * message_ms(4096, 3, 50) + 0.05)

    @pytest.mark.parametrize("name", ["H800", "DGX-B200", "MI300X"])
    def test_new_twice_not_four_times(self, name: str) -> None:
        spec, nodes = gpu(name), 4
        found = step(spec, PREFILL, length=4096, dp=8 * nodes)
        visited = nodes * (1 - (1 - 1 / nodes) ** ACTIVE)
        sent = 4096 * HIDDEN * visited * (nodes - 1) / nodes  # bytes a layer, one an element
        assert float(found.part("dispatch").network_ms) == pytest.approx(
            MOE_LAYERS * sent / (spec.nic_gb_s * 1e6 * factors(spec).nic_prefill)
        )
        assert float(found.part("combine").network_ms) == pytest.approx(2 * float(found.part("dispatch").network_ms))


class TestDefect3BatchPerGpuOrPerGroup:
    """Sequences belong to an attention group. 512 of them on four GPUs are 128 to each GPU's experts and messages,
    a quarter of every sequence's heads to each GPU's attention, and all 512 caches on each GPU (MLA's has no heads)."""

    def test_old_attention_is_divided_by_tp_and_nothing_else_is(self) -> None:
        one, four = old_decode("H800"), old_decode("H800", tp=4)
        read = 4096 * KV_WIDTH * 128 / 1024**3 / derated(4000) * 1000
        reduce = message_ms(128, 2, 200) + 0.015
        assert float(four.attention_ms) - read - reduce - 0.05 == pytest.approx(
            (float(one.attention_ms) - read - 0.05) / 4
        )
        for name in ("shared_ms", "routed_ms", "dispatch_ms", "combine_ms"):
            assert float(getattr(four, name)) == float(getattr(one, name))

    def test_new_equal_load_a_gpu_is_equal_work(self) -> None:
        one, four = (step("H800", DECODE, length=4096, batch=128 * tp, tp=tp, dp=64 // tp) for tp in (1, 4))
        for name in ("shared experts", "routed experts", "dispatch", "combine"):
            assert float(four.part(name).ms) == pytest.approx(float(one.part(name).ms)), name
        attention = [cost.part("attention") for cost in (one, four)]
        assert float(attention[1].compute_ms) == pytest.approx(float(attention[0].compute_ms))
        assert float(attention[1].memory_ms) == pytest.approx(4 * float(attention[0].memory_ms))

    def test_new_attention_by_hand(self) -> None:
        spec, f = gpu("H800"), factors(gpu("H800"))
        found = step(spec, DECODE, length=4096, batch=512, tp=4, dp=16).part("attention")
        flops = 2 * 512 * HEADS / 4 * 4096 * (2 * KV_RANK + ROPE)
        rate = compute(989, spec, DECODE) * f.attention_decode
        assert float(found.compute_ms) == pytest.approx(LAYERS * flops / rate)
        assert float(found.memory_ms) == pytest.approx(LAYERS * cache_ms(512 * 4096 * KV_WIDTH / 1e9, spec))

    def test_memory_holds_the_same_group_in_both_but_counts_it_differently(self) -> None:
        old = [float(max_batch_size("H200", 4000, 0, tp=tp, experts_on_device=9, mode="reference")) for tp in (1, 4)]
        new = [float(max_batch_size("H200", 4000, 0, tp=tp, experts_on_device=9)) for tp in (1, 4)]
        assert old[0] / 4 < old[1] < 1.3 * old[0] / 4
        assert new[0] < new[1] < 1.3 * new[0]  # the group's caches lie on each of its GPUs; only weights are divided


class TestDefect4Fp4AttentionForFree:
    """A GPU that has FP4 reads its weights like any other, and its kernels do not reach the peak either."""

    def test_old_neither_kernels_nor_weights(self) -> None:
        spec, s = gpu("DGX-B200"), 4096
        gemm = 2 * projection_macs(s, queries=s, fresh=s) / 1e9 / prefill_rate(9000, spec)
        scores = 2 * score_macs(s * s, queries=s) / 1e9 / prefill_rate(2250, spec) / 0.7
        assert float(old_prefill(spec).dense_attention_ms) == pytest.approx(gemm + scores)

    @pytest.mark.parametrize(("name", "fp8"), [("DGX-B200", 4500), ("H200", 1979)])
    def test_new_both_on_every_gpu(self, name: str, fp8: float) -> None:
        spec, s = gpu(name), 4096
        found = step(spec, PREFILL, length=s).part("projections")
        macs = projection_macs(s, queries=s, fresh=s) + s * HEADS * VALUE * HIDDEN
        assert float(found.compute_ms) == pytest.approx(LAYERS * gemm_ms(2 * macs, fp8, spec, PREFILL, rows=s))
        assert float(found.memory_ms) == pytest.approx(LAYERS * read_ms(ATTENTION_PARAMETERS / 1e9, spec))


class TestDefect5LiteralSizes:
    """Weights follow from the shape: DeepSeek-V3's 671 B parameters are 671 GB at one byte, another model's are not."""

    @pytest.mark.parametrize(("tp", "held"), [(1, 5), (4, 9), (8, 33)])
    def test_old_literals(self, tp: int, held: int) -> None:
        free = 141 * 0.9 - 2.91 - 187.17 * 61 / tp / 1024 - 44.05 * 58 * held / 1024
        found = max_batch_size("H200", 4000, 1000, tp=tp, experts_on_device=held, mode="reference")
        assert float(found) == pytest.approx(free * 1024**3 / (5000 * KV_WIDTH * LAYERS * tp))
        dense, routed = model().groups
        experts = replace(model().experts, ffn_size=1024)
        narrow = replace(model(), groups=(dense, replace(routed, ffn=experts)))
        same = max_batch_size("H200", 4000, 1000, tp=tp, experts_on_device=held, mode="reference", model=narrow)
        assert float(same) == float(found)

    @pytest.mark.parametrize(("tp", "held", "pp"), [(1, 5, 1), (4, 9, 1), (8, 33, 1), (8, 33, 2)])
    def test_new_deepseek_by_hand(self, tp: int, held: int, pp: int) -> None:
        latent = HIDDEN * (QUERY_RANK + KV_WIDTH)  # on every GPU of a group
        attention = LAYERS * (latent + (ATTENTION_PARAMETERS - latent) / tp)
        layers = attention + DENSE_LAYERS * DENSE_PARAMETERS / tp
        layers += MOE_LAYERS * (held * EXPERT_PARAMETERS + 256 * HIDDEN * 2)
        stage = -(-LAYERS // pp) / LAYERS
        weights = layers * stage + (2 if pp == 1 else 1) * HEAD_PARAMETERS * 2 / tp
        free = 143_771 * 2**20 * 0.9 - 2e9 - weights
        buffers = HIDDEN * (16 + 8 * 3 / tp) + 18432 * 4 / tp
        expected = free / (5000 * KV_WIDTH * LAYERS * stage + buffers)
        found = max_batch_size("H200", 4000, 1000, tp=tp, experts_on_device=held, pp=pp)
        assert float(found) == pytest.approx(expected)

    @pytest.mark.parametrize(("tp", "pp"), [(4, 1), (8, 1), (8, 2), (8, 3)])
    def test_new_llama_by_hand(self, tp: int, pp: int) -> None:
        attention, dense, head = 8192 * 128 * 2 * (64 + 8), 3 * 8192 * 28672, 128256 * 8192
        stage = -(-80 // pp)
        weights = 2 * (stage * (attention + dense) + (2 if pp == 1 else 1) * head) / tp
        cache = 5000 * stage * 2 * 8 * 128 * 2 / tp
        free = 81_559 * 2**20 * 0.9 - 2e9 - weights
        found = max_batch_size("H100", 4000, 1000, tp=tp, experts_on_device=0, pp=pp, model="llama-3.1-70b")
        assert float(found) == pytest.approx(free / (cache + 8192 * 16 + 28672 * 4 / tp))


class TestDefect6PrefillNeverChecksMemory:
    """Two H200 have 282 GB, the weights take 671: no arrangement of them serves anything."""

    def test_old_two_h200_prefill(self) -> None:
        row = tabulate(
            gpu("H200"), 2, model=model(), workload=workload(), settings=CostSettings(mode=CostMode.REFERENCE)
        )
        assert min(row.prefill.rates_rps) > 0
        assert not row.decode.serves

    def test_new_they_do_not(self) -> None:
        row = tabulate(gpu("H200"), 2, model=model(), workload=workload(), settings=CostSettings())
        for half in (row.prefill, row.decode):
            assert (half.parallel, half.rates_rps) == (None, (0.0, 0.0, 0.0))
            assert "puts at least 3" in half.reason
        assert model().weights_gb > 2 * 141

    def test_new_eight_h200_do(self) -> None:
        assert tabulate(gpu("H200"), 8, model=model(), workload=workload(), settings=CostSettings()).prefill.serves


class TestDefect7SteppedEfficiency:
    """One token more an expert cannot change a GEMM's speed by a third: tiles fill up gradually."""

    @pytest.mark.parametrize(("m", "step_up"), [(127, 0.4 / 0.35), (63, 0.35 / 0.2), (255, 0.6 / 0.4)])
    def test_old_steps_at_powers_of_two(self, m: int, step_up: float) -> None:
        below, above = (float(stepped_efficiency(gpu("H800"), n)) for n in (m, m + 1))
        assert above / below == pytest.approx(step_up)
        load = 2 * 4 * expert_load_ms(4000)
        times = [float(old_decode("H800", batch=b).routed_ms) - load for b in (m, m + 1)]  # 64 GPUs: m = batch
        assert times[0] / times[1] == pytest.approx(step_up * m / (m + 1))

    @pytest.mark.parametrize("name", ["H800", "H20", "DGX-B200"])
    def test_new_no_jump_anywhere(self, name: str) -> None:
        batch = np.arange(1, 2049, 0.5)
        routed = step(name, DECODE, length=4096, batch=batch, dp=64).part("routed experts")
        for times in (routed.compute_ms, routed.ms):
            assert np.all(np.diff(times) >= 0)
            assert np.all(np.diff(times) / times[1:] <= 0.51 / batch[1:] + 1e-12)  # at most in proportion
        speed = batch / routed.compute_ms
        assert np.all(np.diff(speed[batch >= 64]) > 0)
        near = speed[(batch == 128)] / speed[(batch == 127)]
        assert 1 < float(near[0]) < 1.02


class TestDefect8FourNodesAlways:
    """A node's GPUs reach each other over NVLink; a token goes over the NIC once for each further node it visits."""

    def test_old_the_nic_whatever_the_size(self) -> None:
        slow = replace(gpu("H800"), nic_gb_s=5.0)
        assert float(old_prefill("H800", dp=8).dispatch_ms) == pytest.approx(message_ms(4096, 1.5, 50) + 0.05)
        assert float(old_prefill(slow, dp=8).dispatch_ms) == pytest.approx(message_ms(4096, 1.5, 5) + 0.05)
        assert float(old_prefill("H800", dp=8).dispatch_ms) == float(old_prefill("H800", dp=64).dispatch_ms)

    @pytest.mark.parametrize("phase", PHASES)
    @pytest.mark.parametrize(("name", "inside", "beyond"), [("H800", 8, 16), ("GB200-NVL72", 72, 144)])
    def test_new_the_nic_only_between_nodes(self, phase: Phase, name: str, inside: int, beyond: int) -> None:
        slow = replace(gpu(name), nic_gb_s=1.0)
        near, far = (
            [step(g, phase, length=4096, dp=dp).total_ms for g in (gpu(name), slow)] for dp in (inside, beyond)
        )
        assert float(near[0]) == float(near[1])
        assert float(far[0]) < float(far[1])

    def test_new_one_gpu_sends_nothing_and_a_node_over_nvlink(self) -> None:
        alone, node = (step("H800", PREFILL, length=4096, dp=dp).part("dispatch") for dp in (1, 8))
        assert float(alone.ms) == 0
        sent = 4096 * HIDDEN * 7 * (1 - (7 / 8) ** ACTIVE)  # once to each other GPU that has one of a token's experts
        assert float(node.network_ms) == pytest.approx(MOE_LAYERS * sent / (200e6 * factors(gpu("H800")).nvlink))

    def test_new_decode_sends_each_copy(self) -> None:
        found = step("H800", DECODE, length=4096, batch=128, dp=64).part("dispatch")
        sent = 128 * HIDDEN * ACTIVE * 7 / 8
        assert float(found.network_ms) == pytest.approx(MOE_LAYERS * sent / (50e6 * factors(gpu("H800")).nic_decode))

    @pytest.mark.parametrize("left", [1 / 1.27, 0.5, 1.0])
    def test_new_slower_across_access_switches(self, left: float) -> None:
        under = {"phase": PREFILL, "length": 4096, "dp": 128}
        one = step("H800", **under, gpus_per_switch=128, cross_switch_bandwidth=left).part("dispatch")
        two, many = (
            step("H800", **under, gpus_per_switch=gpus, cross_switch_bandwidth=left).part("dispatch")
            for gpus in (64, 1)
        )
        slower = 1 / left - 1  # of what crosses: half of it between two switches, nearly all among 128
        assert float(two.network_ms / one.network_ms) == pytest.approx(1 + slower / 2)
        assert float(many.network_ms / one.network_ms) == pytest.approx(1 + slower * 127 / 128)


class TestDefect9CacheHitOnKvOnly:
    """Cached tokens ask nothing: projections, FFNs and messages see the (1 - h) s new ones, these see all s keys."""

    def test_old_only_the_kv_projection_shrinks(self) -> None:
        spec, s = gpu("H800"), 4096
        full, half = old_prefill(spec), old_prefill(spec, hit=0.5)
        saved = 2 * s / 2 * HIDDEN * KV_WIDTH / 1e9 / prefill_rate(1979, spec) / 0.7
        assert float(full.dense_attention_ms - half.dense_attention_ms) == pytest.approx(saved)
        assert float(full.routed_ms) == float(half.routed_ms)

    def test_new_all_but_attention_and_expansion_as_for_a_shorter_prompt(self) -> None:
        hit, short = step("H800", PREFILL, length=4096, cached=0.75, dp=8), step("H800", PREFILL, length=1024, dp=8)
        for name in ("dense", "shared experts", "routed experts", "dispatch", "combine", "head", "small kernels"):
            assert float(hit.part(name).ms) == pytest.approx(float(short.part(name).ms)), name
        one = 2 * KV_RANK * HEADS * (NOPE + VALUE)  # FLOPs of a token whose keys and values are expanded
        long, brief = (gemm_ms(one * n, 1979, gpu("H800"), PREFILL, rows=n) for n in (4096, 1024))
        more = LAYERS * (long - brief)
        gained = hit.part("projections").compute_ms - short.part("projections").compute_ms
        assert float(gained) == pytest.approx(more)
        pairs = sum(range(3073, 4097))  # each new token sees what is cached, those before it, and itself
        rate = compute(989, gpu("H800"), PREFILL) * factors(gpu("H800")).attention_prefill
        assert float(hit.part("attention").compute_ms) == pytest.approx(LAYERS * pairs * PAIR_FLOPS / rate)


class TestDefect10FullSquare:
    """The mask leaves each token itself and those before it: s (s + 1) / 2 pairs of s squared."""

    def test_old_the_square(self) -> None:
        spec, s = gpu("H800"), 4096
        gemm = 2 * projection_macs(s, queries=s, fresh=s) / 1e9 / prefill_rate(1979, spec) / 0.7
        scores = 2 * score_macs(s**2, queries=s) / 1e9 / prefill_rate(989, spec) / 0.7
        weights = ATTENTION_PARAMETERS / MI / derated(4000)
        assert float(old_prefill(spec).dense_attention_ms) == pytest.approx(gemm + scores + weights)

    @pytest.mark.parametrize(("total", "cached"), [(1, 0), (17, 0), (1000, 0), (1000, 250), (1000, 999)])
    def test_new_query_by_query(self, total: int, cached: int) -> None:
        brute = sum(position + 1 for position in range(cached, total))
        assert float(causal_pairs(new=np.array(total - cached), total=np.array(total))) == brute

    @pytest.mark.parametrize(
        ("total", "cached"),
        [(100, 0), (128, 0), (1000, 250), *(pytest.param(*p) for p in EARLY)],
    )
    def test_new_query_by_query_in_windows(self, total: int, cached: int) -> None:
        shape = model("gpt-oss-120b")  # 18 of 36 layers see 128 tokens
        new, seen = np.array(total - cached), range(cached + 1, total + 1)
        pairs = {
            kind.window: causal_pairs(new=new, total=np.array(total), window=kind.window) for kind in shape.grouped
        }
        assert {count for _, count in shape.attentions} == {18}
        assert float(pairs[0]) == pytest.approx(sum(seen))
        assert float(pairs[128]) == pytest.approx(sum(min(n, 128) for n in seen))


class TestDefect11ListedBandwidth:
    """The data sheet of the H800 says 3 350 GB/s."""

    def test_old_4000(self) -> None:
        flops = expert_gflop(64 * ACTIVE) / (derated(1979) * 0.4)
        assert float(old_decode("H800").routed_ms) == pytest.approx(2 * (flops + 4 * expert_load_ms(4000)))

    def test_new_3350(self) -> None:
        spec = gpu("H800")
        found = step(spec, DECODE, length=4096, batch=4096, dp=64).part("routed experts")
        assert float(found.memory_ms) == pytest.approx(
            MOE_LAYERS * 4 * EXPERT_PARAMETERS / (3350e6 * factors(spec).memory)
        )
        listed = replace(spec, reference_memory_gb_s=1.0)
        assert float(step(listed, DECODE, length=4096).total_ms) == float(step(spec, DECODE, length=4096).total_ms)
        assert float(old_decode(listed).total_ms) > float(old_decode(spec).total_ms)


class TestDefect12Fp4WhereverSupported:
    """FP8 weights are multiplied at the FP8 rate and are read whole; FP4 is for a model that is stored in FP4."""

    def test_old_fp4_rate_and_half_the_bytes(self) -> None:
        flops = expert_gflop(64 * ACTIVE) / (derated(9000) * 0.4)
        assert float(old_decode("DGX-B200").routed_ms) == pytest.approx(2 * (flops + 4 * expert_load_ms(8000) / 2))

    @pytest.mark.parametrize(("stored", "tflops"), [(1.0, 4500), (0.5, 9000), (2.0, 2250)])
    def test_new_what_the_weights_are_stored_in(self, stored: float, tflops: float) -> None:
        spec, shape = gpu("DGX-B200"), replace(model(), expert_bytes=stored)
        found = step(spec, DECODE, length=4096, batch=4096, dp=64, shape=shape).part("routed experts")
        of_format = factors(spec).expert_fp4 if stored == 0.5 else 1  # what FP4 kernels reach beside others
        expected = MOE_LAYERS * experts_ms(4096 * ACTIVE, 4, tflops, spec, DECODE) / of_format
        assert float(found.compute_ms) == pytest.approx(expected, rel=1e-6)
        read = MOE_LAYERS * read_ms(4 * EXPERT_PARAMETERS * stored / 1e9, spec)
        assert float(found.memory_ms) == pytest.approx(read)

    def test_new_integers_are_unpacked_to_16_bits(self) -> None:
        """INT4 takes the bytes of NVFP4, and the time of 16 bits wherever it is multiplied (of so many rows that
        reading ahead saves nothing); a head as it is stored."""
        spec, shape = gpu("DGX-B200"), replace(model(), weight_bytes=0.5625, expert_bytes=0.5625)
        int4 = replace(shape, weight_only=True, head_bytes=1.0)
        native, unpacked = (step(spec, DECODE, length=4096, batch=10**8, dp=64, shape=each) for each in (shape, int4))
        slower = factors(spec).expert_fp4 / factors(spec).weight_only * 9000 / 2250
        for part, factor in (("routed experts", slower), ("dense", 9000 / 2250)):
            ratio = float(unpacked.part(part).compute_ms) / float(native.part(part).compute_ms)
            assert ratio == pytest.approx(factor)
            assert float(unpacked.part(part).memory_ms) == float(native.part(part).memory_ms)
        assert float(native.part("head").memory_ms) == pytest.approx(2 * float(unpacked.part("head").memory_ms))


class TestDefect13MemoryAtMidpoint:
    """Whoever sends the longest prompt of a range must fit, not only the one in its middle."""

    def cut(self) -> Any:
        load = workload([20_000])
        span = replace(load.ranges[0], start=0, end=40_001, midpoint=20_000, longest_input_tokens=40_000)
        return replace(load, ranges=(span,))

    @pytest.mark.parametrize(("mode", "length"), [("reference", 20_000), ("default", 40_000)])
    def test_both_at_their_length(self, mode: str, length: int) -> None:
        load, spec = self.cut(), gpu("H20")
        row = tabulate(spec, 16, model=model(), workload=load, settings=CostSettings(mode=CostMode(mode))).decode
        held = -(-256 // row.parallel.stage_devices) + 1
        most = float(
            max_batch_size(spec, length, load.max_output_tokens, tp=row.parallel.tp, experts_on_device=held, mode=mode)
        )
        assert row.batch_sizes[0] == most // 8 * 8
