"""Model shapes and ways of running them, part by part: what each adds to a step, worked out here."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cost_figures import (
    DENSE_LAYERS,
    DENSE_PARAMETERS,
    EXPERT_PARAMETERS,
    LAYERS,
    MOE_LAYERS,
    PLAIN,
    cache_ms,
    compute,
    expert_rate,
    factors,
    gemm_ms,
    gpu,
    model,
    read_ms,
    slower_of_both,
    step,
    waiting,
)

from planner.cost import decode_time, max_batch_size, prefill_time
from planner.cost.memory import experts_on_device, weights_gb
from planner.cost.parts import StepCost
from planner.domain import PHASES, CostSettings, Phase
from planner.domain.serving.speculation import DraftMethod, DraftModel, Speculation

PREFILL, DECODE = Phase.PREFILL, Phase.DECODE
LLAMA = model("llama-3.1-70b")
LLAMA_ATTENTION = 8192 * 128 * 2 * (64 + 8)
LLAMA_FFN = 3 * 8192 * 28672


def whole(cost: StepCost) -> float:
    """All parts one after the other."""
    return float(sum(part.ms for part in cost.parts))


class TestGroupedAttention:
    """Llama-3.1-70B: 64 heads share 8 heads of keys and values, 16-bit weights."""

    @pytest.mark.parametrize("tp", [1, 4, 8])
    def test_prefill_by_hand(self, tp: int) -> None:
        spec, s, f = gpu("H100"), 3000, factors(gpu("H100"))
        found = step(spec, PREFILL, length=s, tp=tp, shape=LLAMA)
        projections, attention, dense = (found.part(name) for name in ("projections", "attention", "dense"))
        assert float(projections.compute_ms) == pytest.approx(
            80 * gemm_ms(2 * s * LLAMA_ATTENTION / tp, 989, spec, PREFILL, rows=s)
        )
        assert float(projections.ms) == pytest.approx(
            slower_of_both(float(projections.compute_ms), float(projections.memory_ms))
        )
        assert float(projections.memory_ms) == pytest.approx(80 * read_ms(LLAMA_ATTENTION * 2 / tp / 1e9, spec))
        pairs = s * (s + 1) / 2
        scores = 80 * 2 * 64 / tp * pairs * 2 * 128 / (compute(989, spec, PREFILL) * f.attention_prefill)
        assert float(attention.compute_ms) == pytest.approx(scores)
        assert float(dense.compute_ms) == pytest.approx(
            80 * gemm_ms(2 * s * LLAMA_FFN / tp, 989, spec, PREFILL, rows=s)
        )

    @pytest.mark.parametrize(("tp", "copies"), [(1, 1), (4, 1), (8, 1), (16, 2)])
    def test_decode_reads_the_cache_of_its_heads(self, tp: int, copies: int) -> None:
        """Beyond 8 GPUs the 8 heads are repeated."""
        found = step("H100", DECODE, length=5000, batch=32, tp=tp, shape=LLAMA).part("attention")
        cache = 32 * 5000 * 2 * 8 * 128 * 2 * copies / tp
        assert float(found.memory_ms) == pytest.approx(80 * cache_ms(cache / 1e9, gpu("H100")))

    @pytest.mark.parametrize("tp", [1, 2, 8])
    def test_two_all_reduces_a_layer(self, tp: int) -> None:
        f, found = factors(gpu("H100")), step("H100", PREFILL, length=3000, tp=tp, shape=LLAMA).part("all-reduce")
        sent = 160 * 3000 * 8192 * 2 * 2 * (tp - 1) / tp
        assert float(found.network_ms) == pytest.approx(sent / (450e6 * f.nvlink))
        hops = {1: 0, 2: 1, 8: 3}[tp]  # the latency is that of eight GPUs, three doublings
        assert float(found.latency_ms) == pytest.approx(160 * f.all_reduce_us * hops / 3 / 1000)

    def test_no_experts_no_messages(self) -> None:
        names = {part.name for part in step("H100", PREFILL, length=3000, tp=8, shape=LLAMA).parts}
        assert not names & {"dispatch", "combine", "routed experts", "shared experts"}
        shown = prefill_time("H100", 3000, tp=8, dp=1, model="llama-3.1-70b")
        assert (float(shown.comm_ms), float(shown.routed_ms), float(shown.dispatch_ms)) == (0, 0, 0)
        assert float(shown.total_ms) == pytest.approx(float(shown.compute_ms))


class TestSlidingWindow:
    """gpt-oss-120b: 18 of 36 layers see the last 128 tokens."""

    @pytest.mark.parametrize("s", [64, 128, 129, 8000])
    def test_decode_reads_and_multiplies_what_is_seen(self, s: int) -> None:
        spec, f, seen = gpu("H100"), factors(gpu("H100")), 18 * s + 18 * min(s, 128)
        found = step(spec, DECODE, length=s, batch=16, shape="gpt-oss-120b").part("attention")
        assert float(found.memory_ms) == pytest.approx(cache_ms(16 * seen * 2 * 8 * 64 * 2 / 1e9, spec))
        flops = 2 * 16 * seen * 64 * 2 * 64
        assert float(found.compute_ms) == pytest.approx(flops / (compute(989, spec, DECODE) * f.attention_decode))

    def test_the_cache_stops_growing_in_windowed_layers(self) -> None:
        one, two = (
            float(max_batch_size("H200", s, 0, tp=1, experts_on_device=16, model="gpt-oss-120b")) for s in (64e3, 128e3)
        )
        shape = model("gpt-oss-120b")
        groups = (replace(group, attention=replace(group.attention, window=0)) for group in shape.groups)
        all_see_all = replace(shape, groups=tuple(groups))
        full = float(max_batch_size("H200", 64e3, 0, tp=1, experts_on_device=16, model=all_see_all))
        assert one / two == pytest.approx(2, rel=0.01)
        assert one / full == pytest.approx(2, rel=0.01)


class TestExperts:
    @pytest.mark.parametrize("every", [2, 4])
    def test_dense_layers_between_moe_layers(self, every: int) -> None:
        """What counts is how many layers of each kind there are, not where they lie."""
        base = model()
        dense, routed = base.groups
        mixed = replace(base, groups=(replace(routed, count=60 // every), replace(dense, count=60 - 60 // every)))
        found = step("H200", PREFILL, length=4096, dp=16, shape=mixed)
        listed = step("H200", PREFILL, length=4096, dp=16)
        for name in ("routed experts", "shared experts", "dispatch", "combine"):
            assert float(found.part(name).ms / listed.part(name).ms) == pytest.approx(60 / every / MOE_LAYERS), name
        dense = found.part("dense").ms / listed.part("dense").ms
        assert float(dense) == pytest.approx((60 - 60 / every) / DENSE_LAYERS)
        shuffled = replace(mixed, groups=mixed.groups[::-1])
        assert float(step("H200", PREFILL, length=4096, dp=16, shape=shuffled).total_ms) == float(found.total_ms)

    def test_shared_experts_by_hand(self) -> None:
        """deepseek-v2: two shared experts of 3 x 5120 x 1536 weights, 16-bit, whole on every GPU."""
        spec, weights = gpu("H200"), 59 * 2 * 3 * 5120 * 1536
        found = step(spec, PREFILL, length=4096, tp=4, dp=4, shape="deepseek-v2").part("shared experts")
        assert float(found.compute_ms) == pytest.approx(gemm_ms(2 * 1024 * weights, 989, spec, PREFILL, rows=1024))
        assert float(found.memory_ms) == pytest.approx(read_ms(weights * 2 / 1e9, spec))
        none = step(spec, PREFILL, length=4096, dp=8, shape="mixtral-8x7b").part("shared experts")
        assert float(none.ms) == 0

    @pytest.mark.parametrize(
        ("name", "tflops"), [("H100", 989), ("H20", 148), ("A100", 312), ("DGX-B200", 9000), ("GB300-NVL72", 15000)]
    )
    def test_fp4_weights_without_fp4_arithmetic(self, name: str, tflops: float) -> None:
        """gpt-oss-120b's experts: unpacked to 16 bits where there is no FP4; read as 0.53125 bytes everywhere. What is
        unpacked pays for few rows at most so many reads."""
        spec, f = gpu(name), factors(gpu(name))
        found = step(spec, DECODE, length=1000, batch=8192, shape="gpt-oss-120b").part("routed experts")
        each, weights = 8192 * 4 / 128, 36 * 3 * 2880 * 2880
        of_format = f.expert_fp4 if gpu(name).fp4_tflops else f.weight_only
        rate = expert_rate(each, tflops, spec, DECODE) * of_format
        slow, read = 2 * 8192 * 4 * weights / rate, read_ms(128 * weights * 0.53125 / 1e9, spec)
        if not gpu(name).fp4_tflops:
            full = slow * (each / (each + f.expert_half)) ** f.expert_power
            slow = max(full, min(slow, f.expert_reads * read))
        assert float(found.compute_ms) == pytest.approx(slow)
        assert float(found.memory_ms) == pytest.approx(read)

    @pytest.mark.parametrize(("batch", "visited"), [(1, 8), (4, 256 * (1 - (1 - 8 / 256) ** 4)), (4096, 256)])
    def test_only_visited_experts_are_read(self, batch: int, visited: float) -> None:
        found = step("H200", DECODE, length=1000, batch=batch).part("routed experts")
        read = read_ms(MOE_LAYERS * visited * EXPERT_PARAMETERS / 1e9, gpu("H200"))
        assert float(found.memory_ms) == pytest.approx(read)

    @pytest.mark.parametrize(("devices", "redundant", "held"), [(64, 0, 4), (64, 64, 5), (288, 32, 1), (100, 0, 3)])
    def test_redundant_experts_are_held_and_read(self, devices: int, redundant: int, held: int) -> None:
        settings = replace(PLAIN, redundant_experts=redundant)
        assert float(experts_on_device(model(), settings, devices)) == held + 1
        found = step("H200", DECODE, length=1000, batch=512, dp=devices, settings=settings).part("routed experts")
        assert float(found.memory_ms) == pytest.approx(
            read_ms(MOE_LAYERS * held * EXPERT_PARAMETERS / 1e9, gpu("H200"))
        )
        more = weights_gb(model(), tp=1, experts_on_device=held + 2) - weights_gb(
            model(), tp=1, experts_on_device=held + 1
        )
        assert float(more) == pytest.approx(MOE_LAYERS * EXPERT_PARAMETERS / 1e9)

    @pytest.mark.parametrize(("devices", "excess"), [(1, 0.0), (2, 0.2), (32, 1.0), (64, 1.2)])
    def test_the_busiest_gpu_sets_the_pace(self, devices: int, excess: float) -> None:
        even, uneven = (
            step("H200", PREFILL, length=4096, dp=devices, balanced_experts=balanced).part("routed experts")
            for balanced in (True, False)
        )
        f, held = factors(gpu("H200")), 256 / devices
        busiest = 1 + (f.imbalance - 1) * excess
        each = 4096 * 8 / held

        def took(tokens: float) -> float:  # more tokens, at a better rate
            return tokens / (tokens / (tokens + f.expert_half)) ** f.expert_power

        assert float(uneven.compute_ms / even.compute_ms) == pytest.approx(took(each * busiest) / took(each))

    @pytest.mark.parametrize("stages", [1, 2])
    @pytest.mark.parametrize(("dp", "excess"), [(1, 0.0), (2, 0.2), (32, 1.0), (64, 1.2)])
    def test_all_ranks_wait_for_the_one_with_the_most_prompt_tokens(self, dp: int, excess: float, stages: int) -> None:
        """The whole step takes longer by it, its fixed time too; parts are those of the mean rank."""
        longer = 1 + (factors(gpu("H200")).rank_imbalance - 1) * excess
        even, uneven = (
            step("H200", PREFILL, length=4096, dp=dp, pp=stages, balanced_experts=balanced)
            for balanced in (True, False)
        )
        layers = {1: 61, 2: 62}[stages]  # the slower of two stages has 31 of the 61
        assert float(even.total_ms) == pytest.approx(whole(even) * layers / 61)
        assert float(uneven.total_ms) == pytest.approx(whole(uneven) * layers / 61 * longer)
        assert (float(even.waiting), float(uneven.waiting)) == pytest.approx((1, longer))
        for name in ("projections", "attention", "dense", "shared experts", "small kernels", "head", "scheduling"):
            assert float(uneven.part(name).ms) == float(even.part(name).ms), name

    def test_decode_waits_for_no_rank(self) -> None:
        """Each has as many sequences."""
        found = step("H200", DECODE, length=4096, batch=64, dp=32, balanced_experts=False)
        assert float(found.waiting) == 1
        assert float(found.total_ms) == pytest.approx(whole(found))


class TestOneGroup:
    """Experts split over one attention group: what is sent, and what is not."""

    @pytest.mark.parametrize("phase", PHASES)
    def test_it_combines_by_two_all_reduces_a_layer(self, phase: Phase) -> None:
        f, found = factors(gpu("H200")), step("H200", phase, length=4096, batch=64, tp=8)
        assert [float(found.part(name).ms) for name in ("dispatch", "combine")] == [0, 0]
        tokens = 64 * 4096 if phase is PREFILL else 64
        sent = 2 * LAYERS * tokens * 7168 * 2 * 2 * 7 / 8
        passes = 16 if phase is PREFILL else 1  # of 16384 tokens
        assert float(found.part("all-reduce").network_ms) == pytest.approx(sent / (450e6 * f.nvlink))
        latency = 2 * LAYERS * passes * f.all_reduce_us / 1000
        assert float(found.part("all-reduce").latency_ms) == pytest.approx(latency)

    def test_several_combine_by_messages(self) -> None:
        """Then MoE layers have one all-reduce, after attention; a group of four has two thirds of the hops of eight."""
        f, found = factors(gpu("H200")), step("H200", DECODE, length=4096, batch=64, tp=4, dp=2)
        count = MOE_LAYERS + 2 * DENSE_LAYERS
        assert float(found.part("all-reduce").latency_ms) == pytest.approx(count * f.all_reduce_us * 2 / 3 / 1000)
        assert float(found.part("dispatch").network_ms) > 0

    @pytest.mark.parametrize(("dp", "nodes"), [(8, 1), (16, 2), (64, 8)])
    def test_messages_between_nodes_start_later(self, dp: int, nodes: int) -> None:
        f = factors(gpu("H200"))
        us = f.all_to_all_us + (f.all_to_all_node_us if nodes > 1 else 0)
        for name in ("dispatch", "combine"):
            found = step("H200", DECODE, length=4096, batch=64, dp=dp).part(name)
            assert float(found.latency_ms) == pytest.approx(MOE_LAYERS * us / 1000)

    @pytest.mark.parametrize("phase", PHASES)
    def test_nothing_is_uneven_in_it(self, phase: Phase) -> None:
        even, uneven = (
            step("H200", phase, length=4096, batch=4, tp=8, balanced_experts=balanced) for balanced in (True, False)
        )
        assert float(even.total_ms) == float(uneven.total_ms)

    def test_a_group_over_two_nodes_reduces_over_their_nics(self) -> None:
        """Eight NICs a node carry the ring; each reduction starts later by a hop more and by what a node adds."""
        f, found = factors(gpu("H100")), step("H100", PREFILL, length=3000, tp=16, shape=LLAMA).part("all-reduce")
        sent = 160 * 3000 * 8192 * 2 * 2 * 15 / 16
        assert float(found.network_ms) == pytest.approx(sent / (8 * 50e6 * f.nic_prefill))
        assert float(found.latency_ms) == pytest.approx(160 * (f.all_reduce_us * 4 / 3 + f.all_reduce_node_us) / 1000)


class TestChunkedPrefill:
    @pytest.mark.parametrize(("chunks", "hit"), [(2, 0.0), (5, 0.0), (4, 0.5)])
    def test_chunk_by_chunk(self, chunks: int, hit: float) -> None:
        """A chunk is a prompt of all before it, of which all but its own tokens are cached; the head runs once."""
        q, cached = 2048, chunks * 2048 * hit / (1 - hit)
        total = cached + chunks * q
        found = step("H200", PREFILL, length=total, cached=hit, dp=8, max_tokens_per_step=q)
        ends = cached + q * np.arange(1, chunks + 1)
        each = [step("H200", PREFILL, length=end, cached=(end - q) / end, dp=8) for end in ends]
        for part in found.parts:
            of_chunks = [one.part(part.name) for one in each][: 1 if part.name == "head" else None]
            assert float(part.ms) == pytest.approx(float(sum(one.ms for one in of_chunks))), part.name
        assert float(found.total_ms) == pytest.approx(
            sum(whole(one) for one in each) - (chunks - 1) * found.part("head").ms
        )

    def test_flops_add_up_and_weights_are_loaded_for_each_chunk(self) -> None:
        one, four = (step("H200", PREFILL, length=8192, dp=8, max_tokens_per_step=tokens) for tokens in (8192, 2048))
        assert float(one.part("attention").compute_ms) == pytest.approx(float(four.part("attention").compute_ms))
        for name in ("projections", "dense", "shared experts", "routed experts"):
            assert float(four.part(name).memory_ms) == pytest.approx(4 * float(one.part(name).memory_ms)), name
        f = factors(gpu("H200"))
        ratio = (2048 + f.gemm_half) / 2048 / ((8192 + f.gemm_half) / 8192)
        assert float(four.part("dense").compute_ms / one.part("dense").compute_ms) == pytest.approx(ratio)

    def test_the_latent_cache_is_expanded_anew(self) -> None:
        s, c, f = 8192, 4, factors(gpu("H200"))
        one, four = (step("H200", PREFILL, length=s, max_tokens_per_step=tokens) for tokens in (s, s // c))
        expanded = sum(s // c * i for i in range(1, c + 1))
        new = LAYERS * 2 * s * (7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 128 * 128 * 7168)
        rate = compute(1979, gpu("H200"), PREFILL) * f.gemm

        def at(flops: float, rows: float) -> float:
            return flops / rate * (rows + f.gemm_half) / rows

        def again(tokens: int) -> float:
            return LAYERS * 2 * tokens * 512 * 128 * 256

        assert float(one.part("projections").compute_ms) == pytest.approx(at(new, s) + at(again(s), s))
        by_chunks = at(new, s / c) + at(again(expanded), expanded / c)
        assert float(four.part("projections").compute_ms) == pytest.approx(by_chunks)

    @pytest.mark.parametrize("prompts", [2, 8])
    def test_prompts_of_a_rank(self, prompts: int) -> None:
        """FFNs and messages see one longer prompt; attention sees so many short ones."""
        many, one = (step("H200", PREFILL, length=512, batch=n, dp=8) for n in (prompts, 1))
        longer = step("H200", PREFILL, length=512 * prompts, dp=8)
        for name in ("dense", "shared experts", "routed experts", "dispatch", "combine", "projections"):
            assert float(many.part(name).ms) == pytest.approx(float(longer.part(name).ms)), name
        assert float(many.part("attention").compute_ms) == pytest.approx(
            prompts * float(one.part("attention").compute_ms)
        )
        by_name = prefill_time("H200", 512, tp=1, dp=8, prompts_per_rank=prompts, settings=PLAIN)
        assert float(by_name.total_ms) == pytest.approx(float(many.total_ms))


class TestPipeline:
    @pytest.mark.parametrize(("pp", "stage"), [(1, 80), (2, 40), (3, 27), (8, 10)])
    def test_prefill_every_stage_counts_like_the_slowest(self, pp: int, stage: int) -> None:
        found = step("H100", PREFILL, length=4096, tp=8, pp=pp, shape=LLAMA)
        assert float(found.total_ms) == pytest.approx(whole(found) * pp * stage / 80)

    def test_hand_over_between_stages(self) -> None:
        f, sent = factors(gpu("H100")), 4096 * 8192 * 2 / 8
        far = step("H100", PREFILL, length=4096, tp=8, pp=3, shape=LLAMA).part("pipeline")
        assert float(far.network_ms) == pytest.approx(2 * sent / (50e6 * f.nic_prefill))
        assert float(far.latency_ms) == pytest.approx(2 * f.transfer_us / 1000)
        near = step("H100", PREFILL, length=4096, tp=4, pp=2, shape=LLAMA).part("pipeline")
        assert float(near.network_ms) == pytest.approx(2 * sent / (450e6 * f.nvlink))
        assert float(step("H100", PREFILL, length=4096, tp=8, shape=LLAMA).part("pipeline").ms) == 0

    def test_decode_parts_are_of_one_micro_batch(self) -> None:
        one, four = (step("H100", DECODE, length=4096, batch=32 * pp, tp=8, pp=pp, shape=LLAMA) for pp in (1, 4))
        for name in ("projections", "attention", "dense", "head", "all-reduce"):
            assert float(four.part(name).ms) == pytest.approx(float(one.part(name).ms)), name

    @pytest.mark.parametrize(("pp", "stage"), [(2, 40), (3, 27), (8, 10)])
    def test_decode_a_token_takes_one_pass(self, pp: int, stage: int) -> None:
        """pp micro-batches chase each other: when one has passed all stages, its next token starts at once."""
        found = step("H100", DECODE, length=4096, batch=32 * pp, tp=8, pp=pp, shape=LLAMA)
        assert float(found.total_ms) == pytest.approx(whole(found) * pp * stage / 80)

    def test_decode_two_stages_do_the_work_of_twice_the_gpus(self) -> None:
        one, two = (
            float(decode_time("H100", 4096, tp=8, devices=8, pp=pp, batch_size=32 * pp, model=LLAMA).total_ms)
            for pp in (1, 2)
        )
        assert one < two < 1.1 * one  # twice the sequences in nearly the same time

    def test_a_stage_holds_its_layers(self) -> None:
        one, two = (float(weights_gb(LLAMA, tp=8, experts_on_device=0, pp=pp)) for pp in (1, 2))
        head = 128256 * 8192 * 2 / 8 / 1e9
        assert two - head == pytest.approx((one - 2 * head) / 2)


class TestTwoMicroBatches:
    @pytest.mark.parametrize("phase", PHASES)
    @pytest.mark.parametrize("dp", [1, 8, 64])
    @pytest.mark.parametrize("batch", [1, 256])
    def test_each_step_gets_the_faster_way(self, phase: Phase, dp: int, batch: int) -> None:
        asked: dict[str, Any] = {"length": 2048, "batch": batch, "dp": dp, "settings": CostSettings()}
        one, two = (step("H800", phase, overlap=overlap, **asked).total_ms for overlap in (False, True))
        either = step("H800", phase, **asked)
        assert float(either.total_ms) == min(float(one), float(two))
        assert bool(either.overlapped) == (float(two) < float(one))
        longer = waiting(gpu("H800"), phase, dp, settings=CostSettings())
        assert (whole(either) - float(either.hidden_ms)) * longer == pytest.approx(float(either.total_ms))
        assert float(step("H800", phase, two_micro_batches=False, **asked).total_ms) == float(one)

    @pytest.mark.parametrize("phase", PHASES)
    @pytest.mark.parametrize("dp", [8, 64])
    def test_the_hidden_part(self, phase: Phase, dp: int) -> None:
        spec = gpu("H800")
        found = step(spec, phase, length=4096, batch=4 if phase is PREFILL else 128, dp=dp, overlap=True)
        every = ("projections", "attention", "all-reduce", "small kernels")
        computing = MOE_LAYERS / LAYERS * sum(float(found.part(name).ms) for name in every)
        computing += float(found.part("shared experts").ms + found.part("routed experts").ms)
        talking = float(found.part("dispatch").ms + found.part("combine").ms)
        hidden = factors(spec).overlap * min(computing, talking)
        assert float(found.hidden_ms) == pytest.approx(hidden)
        assert float(found.total_ms) == pytest.approx(whole(found) - hidden)

    def test_nothing_to_hide_on_one_gpu_or_without_experts_or_when_off(self) -> None:
        alone = step("H800", DECODE, length=4096, batch=64, settings=CostSettings())
        dense = step("H800", DECODE, length=4096, batch=64, tp=8, shape=LLAMA, settings=CostSettings())
        off = step("H800", DECODE, length=4096, batch=64, dp=8)
        assert [float(cost.hidden_ms) for cost in (alone, dense, off)] == [0, 0, 0]

    def test_both_load_the_weights_and_some_sms_communicate(self) -> None:
        spec = gpu("H800")
        on, off = (step(spec, PREFILL, length=4096, dp=8, two_micro_batches=both) for both in (True, False))
        for name in ("projections", "dense", "shared experts", "routed experts"):
            assert float(on.part(name).memory_ms) == pytest.approx(2 * float(off.part(name).memory_ms)), name
        dense = gemm_ms(2 * 4096 * DENSE_PARAMETERS, 1979, spec, PREFILL, rows=2048, overlapped=True)
        assert float(on.part("dense").compute_ms) == pytest.approx(DENSE_LAYERS * dense)


class TestMultiTokenPrediction:
    @pytest.mark.parametrize(("drafted", "accepted"), [(1, 0.8), (2, 0.5), (3, 0.0), (1, 1.0)])
    def test_tokens_gained(self, drafted: int, accepted: float) -> None:
        """The k-th draft counts if all before it did: 1 + p + p^2 + ... tokens for one verification."""
        mtp: dict[str, Any] = {"mtp_tokens": drafted, "mtp_acceptance": accepted}
        found = step("H800", DECODE, length=4096, batch=64, dp=64, **mtp)
        assert float(found.total_ms) * sum(accepted**k for k in range(drafted + 1)) == pytest.approx(whole(found))

    def test_verified_tokens_go_through_every_layer(self) -> None:
        spec = gpu("H800")
        found = step(spec, DECODE, length=4096, batch=64, dp=64, mtp_tokens=2).part("dense")
        dense = gemm_ms(2 * 3 * 64 * DENSE_PARAMETERS, 1979, spec, DECODE, rows=3 * 64)
        assert float(found.compute_ms) == pytest.approx(DENSE_LAYERS * dense)

    def test_the_cache_is_read_once_for_all_verified_tokens(self) -> None:
        plain, drafting = (
            step("H800", DECODE, length=4096, batch=64, dp=64, mtp_tokens=n).part("attention") for n in (0, 1)
        )
        assert float(drafting.memory_ms / plain.memory_ms) == pytest.approx(1)
        assert float(drafting.compute_ms / plain.compute_ms) == pytest.approx(2)

    @pytest.mark.parametrize("drafted", [1, 2, 3])
    def test_an_eagle_draft_by_hand(self, drafted: int) -> None:
        """Each run reads the layer, what joins, its head and the cache; the first is over what was verified."""
        eagle = Speculation(method=DraftMethod.EAGLE, tokens=drafted, draft=DraftModel(uri="draft"))
        settings, d = replace(PLAIN, speculation=eagle), 8192
        found = step("H100", DECODE, shape=LLAMA, length=1000, batch=4, tp=8, settings=settings).part("drafts")
        layer = 2 * d * (64 + 16) * 128 + 64 * 128 * d + 3 * d * 28_672 + 3 * d * d
        read = (layer + 32_000 * d) / 8 * 2 + 4 * 1000 * 2 * 128 * LLAMA.kv_bytes
        rows = 4 * (1 + drafted) + 4 * (drafted - 1)
        activations = rows * d * 2 * factors(gpu("H100")).passes
        assert float(found.bytes) == pytest.approx(drafted * read + activations)
        scores = 2 * 2 * 64 / 8 * 128 * 1000 * rows
        in_layer = 2 * rows * layer / 8 + 2 * 4 * drafted * 32_000 * d / 8
        assert float(found.flops) == pytest.approx(in_layer + scores, rel=1e-3)  # drafted tokens see each other, too

    def test_time_without_messages_is_per_token_too(self) -> None:
        settings = replace(PLAIN, mtp_tokens=1, mtp_acceptance=1.0)
        found = decode_time("H800", 4096, tp=1, batch_size=64, devices=64, settings=settings)
        cost = step("H800", DECODE, length=4096, batch=64, dp=64, settings=settings)
        silent = whole(cost) - float(cost.part("dispatch").ms + cost.part("combine").ms)
        assert float(found.overlapped_ms) == pytest.approx(silent / 2)
